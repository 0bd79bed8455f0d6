"""The file of credit: what a step's tokens were given. That this is what the losses were given is
asked in test_steps.py."""

from pathlib import Path

from turngrid.records.credit import Credit, pack_runs, read_credit, write_credit
from turngrid.verl_plugin.training.credit_log import _of_episode


def test_credit_survives_the_file(tmp_path: Path) -> None:
    layers = {"grpo": [0.5, -1.0], "gigpo": [0.5, -1.25]}
    credits = [Credit([0.5, 0.5, None, -1.25], [1.0] * 4, [0.1, 0.2, 0.3, 0.4], layers), None, Credit([0.0], [0.0], [])]
    write_credit(tmp_path / "rl" / "000001.jsonl", credits)
    assert list(read_credit(tmp_path / "rl" / "000001.jsonl")) == credits
    assert pack_runs([-0.87] * 47 + [0.25, None, None]) == [[-0.87, 47], 0.25, [None, 2]], "equal numbers are one"


def test_an_episode_that_a_filter_left_nothing_of_has_no_credit() -> None:
    rows = {"P_0_0": Credit([], []), "P_1_0": Credit([0.5], [0.5])}
    assert _of_episode(rows, "P_0", {}) is None and _of_episode(rows, "P_9", {}) is None
    assert _of_episode(rows, "P_1", {"grpo": [0.5]}) == Credit([0.5], [0.5], [], {"grpo": [0.5]})
