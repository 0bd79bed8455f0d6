"""Methods through verl's own queue and estimator: example X gives the numbers of the specifications
in the rows of the update."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest
import torch
import transfer_queue as tq
from example_step import batch_of, estimated, moved, put, read, row_of, trainer, trainer_of, turns_of, write
from example_x import GRPO_WITHOUT_STD, PATHS
from omegaconf import OmegaConf
from tensordict import NonTensorData, NonTensorStack
from test_estimators_numbers import RETURNS, WHITENED
from test_methods_numbers import GIGPO, GIGPO_WITHOUT_STD
from test_turn_fields import EPISODE
from transfer_queue import KVBatchMeta
from usual import filled
from verl.trainer.ppo import core_algos
from verl.trainer.ppo.padding_utils import upsample_batch_to_divisible_size
from verl.utils.tensordict_utils import list_of_dict_to_tensordict

from turngrid import verl_plugin  # noqa: F401 - registers the estimators
from turngrid.algorithms.chosen import Chosen
from turngrid.algorithms.turns import OUTCOMES, Turns
from turngrid.rollouts.episode import Episode, Outcome, Turn
from turngrid.verl_plugin.rollout.turn_fields import tree_places, turn_fields
from turngrid.verl_plugin.training import replay
from turngrid.verl_plugin.training.credit_log import credits_of
from turngrid.verl_plugin.training.dynamic_sampling import DynamicSampler
from turngrid.verl_plugin.training.turn_rows import TARGETS

RLOO = [[0.75] * 2, [-0.58333] * 3, [-0.58333] * 2, [0.41667] * 3, [-0.5] * 2, [1.0] * 2, [-0.5] * 2]
LITE_PPO = [[1.13175] * 2, [-0.88025] * 3, [-0.88025] * 2, [0.62875] * 3, [-0.67067] * 2, [1.34134] * 2, [-0.67067] * 2]
THROUGH_THE_CONFIG = {
    "rloo": RLOO,
    "lite_ppo": LITE_PPO,
    "turn_ppo": WHITENED,
    "gigpo": GIGPO,
    "rloo credit=[gigpo]": [  # RLOO's term beside GiGPO's of states, both without a deviation
        [score + both - episode for both in row]
        for score, episode, row in zip([own[0] for own in RLOO], GRPO_WITHOUT_STD, GIGPO_WITHOUT_STD, strict=True)
    ],
}
FINDS_NOTHING = filled({"filter": {"void_turns": {}}})  # without any method no turn would be numbered


@pytest.mark.parametrize("algo", THROUGH_THE_CONFIG)
def test_a_word_of_algo_gives_its_numbers_through_the_composed_config(queue: None, algo: str) -> None:
    made = trainer_of(*f"algo={algo}".split())
    made.methods.chosen = Chosen({**made.methods._slots, **FINDS_NOTHING})
    for windows, dead in ((False, True), (True, False)):
        done = estimated(made, batch_of(f"{algo}-{windows}", windows, dead), {})
        for name, numbers in zip(PATHS, THROUGH_THE_CONFIG[algo], strict=True):
            assert turns_of(done)[name] == pytest.approx(numbers, abs=1.1e-5), name
    chosen = list(made.config.get("credit") or {})
    base = "rloo" if algo.startswith("rloo") else "grpo"
    assert all(list(found) == [base, *chosen] for found in made.now.layers.values()) and bool(made.now.layers) == bool(
        chosen
    )


def test_the_rows_say_which_turns_are_summaries(queue: None) -> None:
    batch, made = batch_of("summed_up", windows=True), trainer({"credit": {"gigpo": {}}})
    assert made.methods.rows(batch).turns().aside is None
    counts = [len(row) for row in made.methods.rows(batch)._records["state"]]
    told = [
        torch.tensor([0] * (count - 1) + [int(key == "P_1_1")]) for key, count in zip(batch.keys, counts, strict=True)
    ]
    write(batch, turn_aside=torch.nested.as_nested_tensor(told, layout=torch.jagged))
    turns = made.methods.rows(batch).turns()
    assert (turns.mask & ~turns.acts).nonzero().tolist() == [[turns.episodes.index("P_1"), 2]]


def test_returns_of_an_estimator_over_turns_reach_the_critic(queue: None) -> None:
    done = estimated(trainer_of("algo=turn_ppo"), batch_of("returns", windows=True), {})
    for name, numbers in zip(PATHS, RETURNS, strict=True):
        assert turns_of(done, "returns")[name] == pytest.approx(numbers, abs=1.1e-5), name
    assert TARGETS not in done.fields


def test_a_critic_of_first_tokens_learns_from_no_muted_turn(queue: None) -> None:
    words = ("algo=turn_ppo", "algo.value_at=first", "filter=[void_turns]", "filter.void_turns.void=invalid")
    done = estimated(trainer_of(*words), batch_of("first", windows=True, dead=True))
    assert read(done, TARGETS)[TARGETS].values().sum() == 13 < masks_of(done)[0].sum()


def test_the_kl_of_a_turns_tokens_is_part_of_its_reward(queue: None) -> None:
    """All log-probs are .1 above the reference's: a turn of n tokens earns .001 x .1 x n less."""
    made, batch = with_kl("kl", "algo=turn_ppo", "algo.lam=0", "algo.gamma=0")
    returns = turns_of(estimated(made, batch, {}), "returns")
    assert returns["P_0"] == pytest.approx([0 - 2e-4, 1 - 3e-4]) and returns["P_2"] == pytest.approx([-2e-4, -3e-4])


def test_the_kl_in_the_reward_is_in_the_episodes_term_and_not_in_that_of_states(queue: None) -> None:
    """As in GiGPO's released code."""
    made, batch = with_kl("kl-gigpo", "algo=gigpo")
    plain = trainer_of("algo=gigpo")
    for one, rows in ((made, batch), (plain, batch_of("no-kl"))):
        estimated(one, rows, {})
    episode, both = (
        torch.tensor([x for name in PATHS for x in made.now.layers[name][layer]])
        - torch.tensor([x for name in PATHS for x in plain.now.layers[name][layer]])
        for layer in ("grpo", "gigpo")
    )
    assert episode.abs().max() > 1e-4
    torch.testing.assert_close(both, episode, atol=1e-6, rtol=0)


def with_kl(partition: str, *words: str) -> tuple[Any, KVBatchMeta]:
    """A trainer and rows whose log-probabilities are .1 above the reference's, at .001 a nat."""
    made = trainer_of(*words, "algorithm.use_kl_in_reward=true")
    made.kl_ctrl_in_reward = core_algos.get_kl_controller(made.config.algorithm.kl_ctrl)
    batch = batch_of(partition)
    write(batch, ref_log_prob=moved(read(batch, "old_log_probs")["old_log_probs"], -0.1))
    return made, batch


def masks_of(batch: KVBatchMeta, keys: list[str] | None = None) -> list[torch.Tensor]:
    names = ("loss_mask", "response_mask")
    data = read(batch, *names, keys=keys)
    return [data[name].values().clone() for name in names]


def test_a_filter_mutes_in_both_masks_and_leaves_the_baseline(queue: None) -> None:
    batch = batch_of("void", windows=True)
    metrics: dict[str, Any] = {}
    done = estimated(trainer({"filter": {"void_turns": {"void": "invalid"}}}), batch, metrics)
    muted = [key for key in batch.keys if key.startswith("P_1_")]
    kept = [key for key in batch.keys if key.startswith(("P_0_", "P_2_"))]
    for keys, alive in ((muted, False), (kept, True)):
        assert [bool(mask.any()) for mask in masks_of(done, keys)] == [alive] * 2
    assert turns_of(done)["P_0"][0] == pytest.approx(1.09141, abs=1e-5)  # with P_1 in its baseline
    assert turns_of(done)["P_1"] == [0.0] * 3
    assert metrics["filter/void_turns/dropped_share"] == pytest.approx(1 / 7)
    assert credits_of(done)[muted[0]].advantages == [None] * len(credits_of(done)[muted[0]].advantages)


def test_a_filter_over_turns_mutes_these_alone(queue: None) -> None:
    """P_3's first turn is the surest of its group."""
    metrics: dict[str, Any] = {}
    made = trainer({"filter": {"entropy_turns": {}}})
    done = estimated(made, batch_of("entropy", windows=True, dead=True), metrics)
    assert turns_of(done)["P_3"] == pytest.approx([0.0, 0.60634, 0.60634], abs=1e-5)
    assert turns_of(done)["P_0"] == pytest.approx([1.09141] * 2, abs=1e-5)  # with P_3 in its baseline
    assert metrics["filter/entropy_turns/dropped_share"] == pytest.approx(1 / 16)
    for mask in masks_of(done):
        assert mask.sum() == 37


@dataclass
class But:
    """A filter of another package: it mutes what ended so, or else chooses turns."""

    when: str
    outcome: str = ""

    def __call__(self, turns: Turns, step: int) -> torch.Tensor:
        return turns.outcome != OUTCOMES.index(self.outcome) if self.outcome else turns.mask


def but(when: str, outcome: str = "") -> dict[str, Any]:
    return {"mine": {"target": "test_methods:But", "when": when, "outcome": outcome}}


def test_a_filter_over_turns_cannot_act_before_the_baseline(queue: None) -> None:
    with pytest.raises(ValueError, match='filter=mine: it chooses turns before the baseline; use when = "after"'):
        estimated(trainer({"filter": but("before")}), batch_of("turnwise"), {})


def test_a_filter_before_the_baseline_leaves_the_episode_out_of_it(queue: None) -> None:
    batch = batch_of("before", windows=True)
    done = estimated(trainer({"filter": but("before", "out_of_turns")}), batch, {})
    wanted = {"P_0": 0.80064, "P_2": -1.12089, "P_3": 0.32026, "Q_5": 1.15470}
    assert {name: turns_of(done)[name][0] for name in wanted} == pytest.approx(wanted, abs=1e-5)
    muted = [key for key in batch.keys if key.startswith("P_1_")]
    assert not any(column.values().any() for column in read(batch, "loss_mask", "advantages", keys=muted).values())


REJECTION = (
    "trainer.v1.trainer_mode=colocate_async",
    "algorithm.rollout_correction.rollout_rs=seq_mean_k1",
    "algorithm.rollout_correction.rollout_rs_threshold=0.9_1.1",
)


def rejecting(partition: str, windows: bool, *names: str) -> KVBatchMeta:
    """Example X, of which these episodes are too far from the policy that sampled them."""
    batch = batch_of(partition, windows, dead=True)
    keys = [key for key in batch.keys if key.startswith(tuple(f"{name}_" for name in names))]
    write(batch, keys, old_log_probs=moved(read(batch, "old_log_probs", keys=keys)["old_log_probs"], -1))
    return batch


@pytest.mark.parametrize("words", ["algo=grpo", "algo=gigpo"])
def test_a_sample_that_rejection_leaves_alone_is_a_dead_row(queue: None, words: str) -> None:
    """Q's three scores are 0, 1, 0: they are compared as if P had not been played."""
    batch = rejecting(f"alone-{words}", True, "P_0", "P_1", "P_2")
    done = estimated(trainer_of(words, *REJECTION), batch)
    fields = ["loss_mask", "response_mask", "advantages"]
    alive, credits = {"P": False, "Q": True}, credits_of(done)
    for key in (key for key in done.keys if key[0] in alive and key[2] != "9"):
        data = read(batch, *fields, keys=[key])
        assert [bool(data[name].values().any()) for name in fields] == [alive[key[0]]] * 3, key
        assert bool(credits[key].advantages) is alive[key[0]]
    scale = 2 if words == "algo=gigpo" else 1  # its turns are compared, too: all states of Q but the first are new
    first = {key: credits[key].advantages[0] for key in ("Q_4_0", "Q_5_0", "Q_6_0")}
    assert list(first.values()) == pytest.approx([-0.57735 * scale, 1.15470 * scale, -0.57735 * scale], abs=2e-5)


def test_a_sample_is_alone_by_prompt_and_seat(queue: None) -> None:
    """P_0 and P_1 have one seat, P_2 and P_3 the other one, of which rejection leaves P_3."""
    batch = rejecting("seats", False, "P_2")
    uids = [f"P#{int(key[2] in '23')}" if key[0] == "P" else key[0] for key in batch.keys]
    write(batch, uid=NonTensorStack.from_list([NonTensorData(uid) for uid in uids]))
    credits = credits_of(estimated(trainer_of("algo=grpo", *REJECTION), batch, {}))
    assert [bool(credits[f"P_{sample}_0"].advantages) for sample in range(4)] == [True, True, False, False]


@dataclass
class Half:
    """Credit that reads a reward by name; it is half of the trained one in example X."""

    reads: ClassVar[frozenset[str]] = frozenset({"half"})

    def __call__(self, turns: Turns, advantages: torch.Tensor) -> torch.Tensor:
        return turns.named["half"] - turns.reward / 2 + 1


def test_a_reward_that_a_method_reads_comes_with_the_row(queue: None) -> None:
    batch = batch_of("named", windows=True, dead=True)
    done = estimated(trainer({"credit": {"mine": {"target": "test_methods:Half"}}}), batch, {})
    assert {value for name in PATHS for value in turns_of(done)[name]} == {1.0}


def test_trees_reach_the_update(queue: None) -> None:
    """As the worker tells of them: leaves of two trees, of which the first's share a turn."""
    grown = [leaf(sample, parent, won) for sample, parent, won in ((0, None, 1), (1, None, 0), (2, 0, 0), (3, 0, 1))]
    rows = []
    for sample, place in tree_places(grown).items():
        fields = turn_fields(grown[sample], 0, 2, "observation", tree=place)
        record = {"group": "P", "mask": [1, 0, 1], "reward": [0.0, 0.0, float(grown[sample].won)], "entropy": [0.0] * 3}
        none = {key: [] for key in ("state", "after", "action", "valid", "outcome", "named_half")}
        rows.append(row_of({**record, **none, "values": [0.0] * 3}, 3) | fields)
    batch = upsample_batch_to_divisible_size(put("trees", [f"P_{sample}_0" for sample in range(4)], rows), 8, 0)
    done = turns_of(estimated(trainer({"credit": {"tree": {"shared": "once"}}}), batch, {}))
    wanted = {"P_0": 0.86602 + 0.57735, "P_1": -0.86602, "P_2": -0.86602 - 1.15470, "P_3": 0.86602 + 0.57735}
    first = {name: number if name == "P_1" else number / 3 for name, number in wanted.items()}
    assert {name: turns[1] for name, turns in done.items()} == pytest.approx(wanted, abs=2e-5)
    assert {name: turns[0] for name, turns in done.items()} == pytest.approx(first, abs=2e-5)


def leaf(sample: int, parent: int | None, won: int) -> Episode:
    turns = [Turn("a room", "look", shared=parent is not None), Turn("a room", "look")]
    return replace(EPISODE, sample=sample, parent=parent, turns=turns, outcome=Outcome.WON if won else Outcome.LOST)


def test_a_buffer_keeps_no_episode_that_a_filter_mutes(queue: None) -> None:
    made = trainer({"filter": but("after", "won"), "buffer": {"self_imitation": {}}})
    estimated(made, batch_of("muted"), {})
    assert [episode["score"] for episode in made.methods.chosen.state()["buffer/self_imitation"]["episodes"]] == [0.75]


def test_a_buffer_is_given_what_beat_its_group_and_its_rows_come_back(queue: None) -> None:
    made = trainer({"buffer": {"self_imitation": {"capacity": 1, "std": False}}})
    first = estimated(made, batch_of("replay", windows=True), {})
    assert made.methods.replay.taken == []  # nothing is replayed in the step that it is stored in
    held = made.methods.chosen.state()["buffer/self_imitation"]["episodes"]
    assert [(episode["score"], episode["step"]) for episode in held] == [(1.0, 1), (0.75, 1), (1.0, 1)]
    made.now.begin(2, 10)
    estimated(made, batch_of("replay2"), {})
    middle = (0.4375 + 1 / 3) / 2  # the median of the groups' mean scores
    assert [episode.advantage for episode in made.methods.replay.taken] == pytest.approx(
        [1 - middle, 0.75 - middle, 1 - middle]
    )
    with replay.replayed(made.methods.replay.taken, first, 2, 8, 0) as rows:
        assert len(rows.keys) == 8
        data = read(rows, "advantages", "response_mask", "old_log_probs", "ref_log_prob", "turn_ids")
        mask = data["response_mask"].values()
        assert data["advantages"].values()[mask > 0].unique().tolist() == pytest.approx([0.75 - middle, 1 - middle])
        assert set(data["old_log_probs"].values()[mask > 0].tolist()) == {-1.0}
        assert rows.tags[-1]["is_padding"] and all(
            torch.equal(column.offsets(), data["response_mask"].offsets()) for column in data.values()
        )
    left = (tq.kv_list("replay") or {}).get("replay", {})
    assert not [key for key in left if key.startswith("replay")]


# ---- dynamic sampling


EQUAL, MIXED, FAILED = [[1.0, 0.0], [0.5, 0.5]], [[0.0, 1.0], [0.0, 0.0]], []  # rewards of each episode's windows


class Plays:
    """Stands where verl plays prompts: those of a step in their order, each with the outcome that
    is written for it."""

    def __init__(self, partition: str, outcomes: list[list[list[float]]]) -> None:
        self.partition, self.outcomes, self.played = partition, outcomes, 0

    def __call__(self, prompts: int) -> int:
        for number in reversed(range(self.played, self.played + prompts)):  # the last is ready first
            self._play(f"000001-{number:04d}", self.outcomes[number])
        self.played += prompts
        return prompts

    def _play(self, prompt: str, episodes: list[list[float]]) -> None:
        status = "finished" if episodes else "failure"
        tag = {"is_prompt": True, "status": status, "global_steps": 1}
        tq.kv_batch_put(keys=[prompt], partition_id=self.partition, tags=[tag])
        rows = {
            f"{prompt}_{sample}_{row}": reward for sample, own in enumerate(episodes) for row, reward in enumerate(own)
        }
        if rows:
            scores = [{"rm_scores": torch.tensor([0.0, reward])} for reward in rows.values()]
            fields = list_of_dict_to_tensordict(scores)
            tags = [{"status": "success", "global_steps": 1}] * len(rows)
            tq.kv_batch_put(keys=list(rows), partition_id=self.partition, fields=fields, tags=tags)


def sampled(name: str, outcomes: list[list[list[float]]], batches: int) -> tuple[list[int], dict[str, Any], int]:
    """Which prompts a step of 4 trains on, what is told of it, and how many were played."""
    samples = Plays(name, outcomes)
    settings = {"trainer_config": OmegaConf.create(), "sampler_kwargs": OmegaConf.create({"batches": batches})}
    policy = {"max_off_policy_threshold": 8, "max_off_policy_strategy": "drop"}
    sampler = DynamicSampler(trainer_mode="sync", refill_fn=samples, poll_interval=0.01, **settings, **policy)
    samples(4)
    batch, told = sampler.sample(1, name, 4)
    tq.kv_clear(keys=batch.keys, partition_id=name)
    assert not (tq.kv_list(name) or {}).get(name)  # nothing is left behind for the next step
    return sorted({int(key[7:11]) for key in batch.keys}), told, samples.played


@pytest.mark.parametrize(
    ("name", "outcomes", "batches", "found", "replaced", "left"),
    [
        ("dynamic", [EQUAL, MIXED, EQUAL, MIXED, EQUAL, MIXED, MIXED], 3, [1, 3, 5, 6], 3, 0),
        # a failed group is refilled and counts for nothing
        ("failing", [FAILED, MIXED, MIXED, MIXED, FAILED, MIXED], 1, [1, 2, 3, 5], 0, 0),
        ("all", [FAILED] * 4 + [MIXED] * 4, 1, [4, 5, 6, 7], 0, 0),
        # it ends with what there is when so many batches of prompts were played
        *((f"end-{n}", [EQUAL] * 4 * n, n, list(range(4 * n - 4, 4 * n)), 4 * n - 4, 4) for n in (1, 2, 3)),
    ],
)
def test_groups_of_equal_scores_are_replaced_one_for_one(
    queue: None, name: str, outcomes: list[Any], batches: int, found: list[int], replaced: int, left: int
) -> None:
    told = {"filter/dynamic_sampling/replaced": replaced, "filter/dynamic_sampling/left": left}
    assert sampled(name, outcomes, batches) == (found, told, len(outcomes))
