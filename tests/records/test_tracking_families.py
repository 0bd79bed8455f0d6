"""Every number has a name of ours, in every log."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tensordict import TensorDict
from verl import DataProto
from verl.trainer.ppo.metric_utils import compute_data_metrics, compute_throughout_metrics, compute_timing_metrics

from turngrid.records.metrics import FAMILIES, RENAMED, family_name, in_families
from turngrid.records.statistics import wilson
from turngrid.records.step_metrics import step_metrics, validation_metrics
from turngrid.rollouts.episode import Episode, Outcome, Turn
from turngrid.verl_plugin.training.step import differences
from turngrid.verl_plugin.training.tracking import moments


def episode(task: str, earned: list[float], won: bool = False, tokens: int = 2) -> Episode:
    turns = [
        Turn("o", "a", [1] * tokens, [-0.5] * tokens, rewards={"dense": value, "sparse": 0.0}, act_seconds=0.25)
        for value in earned
    ]
    return Episode(task, 1, "train", "", [], [], turns, Outcome.WON if won else Outcome.LOST)


@pytest.fixture
def batch() -> DataProto:
    """Two rows of two tokens, the second row's last one not sampled: advantages 1, -1, 0 count."""
    numbers = {
        "token_level_scores": [[0.0, 1.0], [0.0, 0.0]],
        "token_level_rewards": [[0.0, 1.0], [0.0, 0.0]],
        "advantages": [[1.0, -1.0], [0.0, 9.0]],
        "returns": [[2.0, 2.0], [5.0, 9.0]],
        "values": [[0.0, 0.0], [3.0, 9.0]],
    }
    fields = {name: torch.tensor(rows) for name, rows in numbers.items()}
    masks = {"response_mask": torch.tensor([[1, 1], [1, 0]]), "attention_mask": torch.ones(2, 4, dtype=torch.long)}
    ids = {name: torch.ones(2, 2, dtype=torch.long) for name in ("prompts", "responses")}
    return DataProto(TensorDict(fields | masks | ids, batch_size=2), meta_info={"global_token_num": [4, 4]})


def test_verls_names_have_families(batch: DataProto) -> None:
    """verl's functions say the names; what has no family would show under ``verl/``."""
    clock = {"step": 2.0, "gen": 1.0, "update_actor": 0.5}
    names = [*compute_data_metrics(batch), *compute_timing_metrics(batch, clock)]
    named = in_families(dict.fromkeys(names + list(compute_throughout_metrics(batch, clock, 1)), 0.0))
    assert {name.split("/")[0] for name in named} <= set(FAMILIES)
    means = {name for name in named if name.endswith("/mean") and not name.startswith("verl/")}
    told = {f"credit/{name}/mean" for name in ("advantage", "return", "value")}
    lengths = {f"rollout/{name}_tokens/mean" for name in ("prompt", "response")}
    assert means == told | lengths | {"reward/trained/mean", "reward/after_kl/mean"}
    assert {"timing/step", "timing/gen", "timing/update_actor", "credit/value/explained_variance"} <= set(named)
    assert "verl/perf/throughput" in named


def test_naming_twice_is_naming_once() -> None:
    for name in (*RENAMED, "actor/grad_norm", "success/train", "timing_s/step", "perf/throughput", "actor/perf/mfu"):
        assert family_name(family_name(name)) == family_name(name)
        assert family_name(name).split("/")[0] in FAMILIES


def test_moments_by_hand(batch: DataProto) -> None:
    """Deviations: of advantages 1, -1, 0 sqrt(2 / 3), of 2, 2, 5 and of 0, 0, 3 sqrt 2."""
    assert moments(batch) == pytest.approx(
        {
            "credit/advantage/std": (2 / 3) ** 0.5,
            "credit/advantage/zero_share": 1 / 3,
            "credit/return/std": 2**0.5,
            "credit/value/std": 2**0.5,
            "credit/trained_tokens": 3,
        }
    )


@pytest.mark.parametrize("sign", [1, -1])
def test_advantages_follow_rewards_or_do_not(batch: DataProto, sign: int) -> None:
    """The first of two episodes has the reward and the larger mean advantage."""
    batch.batch["advantages"] = sign * torch.tensor([[1.0, 0.0], [-1.0, 9.0]])
    assert moments(batch)["credit/advantage/follows_reward"] == pytest.approx(sign)


def test_differences_of_sampler_and_trainer_by_hand() -> None:
    """Means over the action tokens of the turns."""
    mask, sampler = torch.tensor([[1, 1, 0, 1, 0, 1], [0, 1, 0, 0, 1, 0]]), torch.zeros(2, 6)
    trainer = torch.tensor([[0.1, -0.3, 9.0, 0.4, 9.0, 0.5], [9.0, 0.2, 9.0, 9.0, -0.2, 9.0]])
    turns = {"turns_1": 0.2, "turns_2": 0.3, "turns_3_to_4": 0.5}
    wanted = {"mismatch/nats": 1.7 / 6} | {f"mismatch/nats/{name}": value for name, value in turns.items()}
    assert differences(mask, trainer, sampler) == pytest.approx(wanted)
    assert differences(mask * 0, sampler, sampler) == {}, "a step without action tokens has no figures"


def test_a_steps_metrics_by_hand() -> None:
    won, other = [episode("a", [0.0, 1.0], won=True), episode("a", [1.0])], episode("b", [0.0], tokens=4)
    groups = [won, [episode("b", [0.5]), other]]
    for one in groups[0]:
        one.turns[0].info = {"refused": "import", "task_type": "clean"}
    unread = groups[1][1].turns[0]
    unread.valid = unread.parsed = False
    groups[0][1].shaping = {"g_ra": -0.5, "g_ra/passed/outcome": 1.0}
    groups[1][0].goal = "eat"
    unread.action_ids = [1, 2, 1, 2, 1, 2, 1, 2]  # five 4-grams, two different ones
    turns = [turn for group in groups for one in group for turn in one.turns]
    for turn, observation in zip(turns, ("x", "y", " x\n", "x", "z"), strict=True):
        turn.observation = observation
    metrics = step_metrics(groups, "dense", limits={"": 8})
    expected = {
        "credit/repeated_states": 2 / 5,  # the first group's x
        "credit/group_std/mean": 0.176777,  # of 0 and .353553
        "credit/group_std/p10": 0.035355,
        "credit/group_std/p90": 0.318198,
        "rollout/invalid_actions": 1 / 5,
        "rollout/unparsed_actions": 1 / 5,
        "shaping/g_ra/mean": -0.5 / 4,
        "shaping/g_ra/passed/outcome/mean": 1 / 4,
        "rollout/refused/import": 2.0,
        "success/train": 0.25,
        "success/by_type/clean": 0.5,
        "rollout/won": 0.25,
        "rollout/lost": 0.75,
        "rollout/turns": 5 / 4,
        "rollout/tokens_per_turn": 16 / 5,
        "rollout/repeated_tokens": 3 / 5,
        "rollout/answers_at_limit": 1 / 5,
        "rollout/distinct_prompts": 1 / 2,
        "credit/groups_all_won": 0.0,
        "credit/groups_all_lost": 0.5,
        "timing/slowest_to_median": 2.0,
        "rollout/entropy": 0.5,
        "reward/dense/turn": 2.5 / 5,
        "reward/dense/episode": 2.5 / 4,
        "reward/sparse/turn": 0.0,
        "reward/sparse/episode": 0.0,
        "credit/groups_without_signal": 0.5,  # in the first group both earned 1, one of them in two turns
        "timing/turn_policy": 0.25,
    }
    assert {name: metrics[name] for name in expected} == pytest.approx(expected, abs=1e-6)
    assert {name.split("/")[0] for name in metrics} <= set(FAMILIES)
    assert step_metrics(groups, "sparse")["credit/groups_without_signal"] == 1.0
    groups[0][0].turns[0].rewards["trained"] = 0.25  # what transforms made of it, of which its group has one alone
    assert step_metrics(groups, "sparse")["credit/groups_without_signal"] == 0.5
    assert "credit/groups_without_signal" not in step_metrics([[episode("a", [1.0])]], "dense")


def test_a_group_that_learned_from_an_earlier_win_had_signal_and_earned_what_its_own_episodes_did() -> None:
    groups = [[episode("a", [0.0]), episode("a", [0.0])], [episode("b", [0.0]), episode("b", [0.0, 1.0], won=True)]]
    paid = {"reward/trained/mean": 0.25, "reward/trained/min": 0.0, "reward/trained/max": 1.0}
    told = step_metrics(groups, "dense", replaced=[0])
    assert {name: told[name] for name in paid} == paid and told["credit/groups_without_signal"] == 0.0
    plain = step_metrics(groups, "dense")
    assert plain["credit/groups_without_signal"] == 0.5 and not paid.keys() & plain.keys()  # they are verl's then


def test_the_page_names_every_family_and_every_new_name() -> None:
    page = (Path(__file__).parents[2] / "docs" / "tracking.md").read_text(encoding="utf-8")
    heads = [(row.split("|")[1], row) for row in page.splitlines() if row.startswith("| `")]
    rows = {family: row for head, row in heads for family in FAMILIES if f"`{family}/`" in head}
    assert set(rows) == set(FAMILIES)
    for ours in RENAMED.values():
        family, member, *_ = ours.split("/")
        assert family == "verl" or not member or member in rows[family], ours


def test_a_validation_by_hand() -> None:
    """Two plays a game: 1 win of 2 in the first game's 1 turn, none in the second's 2 turns."""
    played = [episode("a", [1.0], won=True), episode("a", [0.0]), episode("b", [0.0] * 2), episode("b", [0.0] * 2)]
    found = validation_metrics(played, samples=2)
    assert found["success/validation"] == 0.25
    assert (found["success/validation/low"], found["success/validation/high"]) == (0.0, 0.5)  # either game might be all
    assert (found["rollout/validation/turns"], found["rollout/validation/episodes"]) == (1.5, 4.0)
    assert "rollout/validation/score" not in found and validation_metrics([], samples=2) == {}
    assert {name.split("/")[0] for name in found} <= set(FAMILIES)
    once = validation_metrics([replace(item, score=0.5) for item in played], samples=1)
    assert once["success/validation/high"] == wilson(1, 4).high and once["rollout/validation/score"] == 0.5
