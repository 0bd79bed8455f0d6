"""Whole runs of verl's asynchronous trainers, killed with -9 between two checkpoints."""

from collections import Counter
from functools import cache
from pathlib import Path

import pytest
import small
import torch
from transformers import AutoModelForCausalLM

from turngrid.records.credit import read_credit

pytestmark = [pytest.mark.slow, pytest.mark.timeout(4000)]
STEPS, SAVED, KILLED_AFTER, PROMPTS, SAMPLES, THRESHOLD = 7, 3, 5, 4, 4, 3
SETTINGS = ("budget=rl_only", "budget.sft_share=0", "budget.units=28", f"budget.rl_steps={STEPS}")
SETTINGS += (f"trainer.save_freq={SAVED}", "trainer.max_actor_ckpt_to_keep=9", "cluster.trainer_threads=1")
SETTINGS += ("env.max_turns=12", "eval.games=2", "shaping=[turn_bonus]", "credit=[gigpo]")
SETTINGS += ("filter=[void_turns]", "filter.void_turns.void=invalid")
MODES = {
    "colocate_async": ("terms=[epo]",),  # whose state belongs to synchronous updates, as this mode has
    "separate_async": (
        "actor_rollout_ref.actor.ppo_mini_batch_size=2",
    ),  # two updates a step, so that it has an old policy
}


@pytest.fixture(scope="module", params=MODES)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Half a batch is played ahead, so that a step trains on groups of two versions."""
    name, output = request.param, tmp_path_factory.mktemp(request.param)
    mode = (f"trainer.v1.trainer_mode={name}", f"trainer.v1.{name}.num_warmup_batches=0.5", *MODES[name])
    process = small.launch(output, *SETTINGS, *mode)
    small.wait_in(process, output, lambda: _steps_logged(output) >= KILLED_AFTER, 1800)
    small.kill(process)
    folder = small.run_folder(output)
    saved = (folder / "rl" / "checkpoints" / "latest_checkpointed_iteration.txt").read_text()
    assert saved == str(SAVED), "killed too late to show anything"
    _damage_a_group(folder)
    return small.finish(output, *SETTINGS, *mode, timeout_s=1800)


def _damage_a_group(folder: Path) -> None:
    """One that the checkpoint still waited for, so that it has to be played again."""
    saved = (folder / "rl" / "checkpoints" / f"global_step_{SAVED}" / "manifest.json").stat().st_mtime
    waiting = [file for file in (folder / "rl" / "groups").glob("*.jsonl") if file.stat().st_mtime < saved]
    assert waiting, "nothing waited at the checkpoint"
    waiting[0].write_bytes(waiting[0].read_bytes()[:-100])


def _steps_logged(output: Path) -> int:
    files = list(output.glob("*/rl/metrics.jsonl"))
    return len(files[0].read_text().splitlines()) if files else 0


def steps(run: Path) -> list[list[dict]]:
    return [small.lines(run / "rl" / "episodes" / f"{step:06d}.jsonl") for step in range(1, STEPS + 1)]


def discarded(run: Path) -> list[dict]:
    return [line for file in (run / "rl" / "discarded").glob("*/episodes/**/*.jsonl") for line in small.lines(file)]


def test_every_step_trains_on_whole_groups_and_on_each_once(run: Path) -> None:
    for episodes in steps(run):
        assert len(episodes) == PROMPTS * SAMPLES
        for group in {episode["group"] for episode in episodes}:
            members = [(episode["sample"], episode["seed"]) for episode in episodes if episode["group"] == group]
            assert group and members == [(sample, members[0][1]) for sample in range(SAMPLES)]
    trained = [group for episodes in steps(run) for group in {episode["group"] for episode in episodes}]
    assert len(set(trained)) == len(trained) == STEPS * PROMPTS


def test_metrics_and_credit_are_those_of_the_episodes(run: Path) -> None:
    lines = small.lines(run / "rl" / "metrics.jsonl")
    assert [line["step"] for line in lines] == list(range(1, STEPS + 1))
    for line, episodes in zip(lines, steps(run), strict=True):
        won = sum(episode["outcome"] == "won" for episode in episodes)
        assert line["success/train"] == pytest.approx(won / len(episodes))
        assert line["budget/episodes"] == line["step"] * PROMPTS * SAMPLES
        credit = list(read_credit(run / "rl" / "credit" / f"{line['step']:06d}.jsonl"))
        assert len(credit) == len(episodes) and None not in credit
        void = [any(not turn["valid"] for turn in episode["turns"]) for episode in episodes]
        assert line["filter/void_turns/dropped_share"] == pytest.approx(sum(void) / len(void))
        muted = [all(value is None for value in told.advantages) for told in credit]
        if "filter/updates_left_out/total" not in line:  # an update with void rows alone mutes none
            assert muted == void
        assert all(episode_void for episode_void, episode_muted in zip(void, muted, strict=True) if episode_muted)
        assert 0 < line["credit/repeated_states"] <= 1


def test_staleness_is_measured_and_bounded(run: Path) -> None:
    lines = small.lines(run / "rl" / "metrics.jsonl")
    for line, episodes in zip(lines, steps(run), strict=True):
        lags = [line["step"] - 1 - min(_versions(episode)) for episode in episodes]
        assert line["rollout/staleness/max"] == max(lags) <= THRESHOLD - 1
        assert line["rollout/staleness/mean"] == pytest.approx(sum(lags) / len(lags))
    assert any(line["rollout/staleness/max"] > 0 for line in lines), "nothing was asynchronous"


def test_what_is_fresh_weighs_one_and_nothing_more_than_two(run: Path) -> None:
    """Importance weights, against the policy at the step's start."""
    lines = small.lines(run / "rl" / "metrics.jsonl")
    fresh = [line for line in lines if line["rollout/staleness/max"] == 0]
    assert fresh and any(line["actor/grad_norm"] > 0 for line in lines)
    for line in fresh:
        assert line["verl/training/rollout_probs_diff_max"] < 1e-4
        assert line["verl/rollout_corr/rollout_is_max"] == pytest.approx(1, abs=1e-3)
    assert all(0 < line["verl/rollout_corr/rollout_is_max"] <= 2 for line in lines)


def _versions(episode: dict) -> list[int]:
    of_turns = [version for turn in episode["turns"] for version in turn.get("versions", [])]
    return of_turns or [episode["policy_version"]]


def test_an_episode_says_which_weights_sampled_each_turn(run: Path) -> None:
    """Weights of the first step and of the checkpoints: all that is left to compare with."""
    seen = Counter()
    for version in (0, SAVED, 2 * SAVED):
        for episode in (episode for episodes in steps(run) for episode in episodes):
            if version in _versions(episode):
                seen[version] += _compare(_model(run, version), episode, version)
    assert seen[0] > 0 and seen[SAVED] > 0


@cache
def _model(run: Path, version: int) -> torch.nn.Module:
    checkpoint = run / "rl" / "checkpoints" / f"global_step_{version}" / "actor" / "huggingface"
    path = checkpoint if version else small.ROOT / "assets" / "tiny"
    return AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()


@torch.no_grad()
def _compare(model: torch.nn.Module, episode: dict, version: int) -> int:
    """Turns that this model sampled from beginning to end; their log-probabilities are its own."""
    ids, compared = list(episode["prompt_ids"]), 0
    for turn in episode["turns"]:
        whole = [*ids, *turn["action_ids"]]
        if set(turn.get("versions") or [episode["policy_version"]]) == {version}:
            logits = model(torch.tensor([whole])).logits[0, len(ids) - 1 : -1] / 0.7
            expected = logits.log_softmax(-1).gather(1, torch.tensor(turn["action_ids"])[:, None]).squeeze(1)
            torch.testing.assert_close(torch.tensor(turn["logprobs"]), expected, atol=1e-4, rtol=0)
            compared += 1
        ids = [*whole, *turn["context_ids"]]
    return compared


def test_what_the_kill_spoilt_is_on_record_and_charged_to_nobody(run: Path) -> None:
    spoilt, ledger = discarded(run), small.lines(run / "ledger.jsonl")
    charged = [entry for entry in ledger if entry["kind"] == "rl_episode"]
    assert sum(entry["count"] for entry in charged) == STEPS * PROMPTS * SAMPLES
    assert sum(entry["count"] for entry in ledger if entry["kind"] == "discarded") == len(spoilt) > 0
    episodes = [*spoilt, *(episode for trained in steps(run) for episode in trained)]
    clocks = {tuple(turn["act_seconds"] for turn in episode["turns"]) for episode in episodes}
    assert len(clocks) == len(episodes), "no two plays take the same times: an episode is on record twice"
    assert not list((run / "rl" / "groups").glob("*.jsonl"))
    assert len(list((run / "discarded" / "000" / "rl" / "groups").iterdir())) == 1
    assert not (run / "rl" / "stale").exists()
