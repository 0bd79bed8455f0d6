"""The turn table: the same from one row an episode and from several, without dead rows."""

from dataclasses import fields

import pytest
import torch
from example_x import PATHS, episode_rows, example_x, spread, table

from turngrid.algorithms.turn_table import turn_ids
from turngrid.algorithms.turns import Turns, repeated_states

SHAPES = [{}, {"windows": True}, {"dead": True}, {"windows": True, "dead": True, "padding": 5}]
LAYOUT = ("place", "log_prob", "scored")  # of rows and tokens, which differ


@pytest.mark.parametrize("shape", SHAPES)
def test_windows_dead_rows_and_padding_change_nothing(shape: dict) -> None:
    both = example_x(**shape), example_x()
    for item in fields(Turns):
        one, other = (getattr(turns, item.name) for turns in both)
        if item.name not in LAYOUT:
            parts = [(one[name], other[name]) for name in {**one, **other}] if isinstance(one, dict) else [(one, other)]
            assert all(torch.equal(*p) if isinstance(p[0], torch.Tensor) else p[0] == p[1] for p in parts), item.name


def test_what_is_read_off_the_rows() -> None:
    turns = example_x()
    assert turns.mask.sum(dim=1).tolist() == [2, 3, 2, 3, 2, 2, 2]
    assert turns.group.tolist() == [0, 0, 0, 0, 1, 1, 1]
    assert turns.episodes == tuple(PATHS)
    assert turns.tokens[1].tolist() == [2, 3, 2]
    assert turns.reward[3].tolist() == [0, 0.25, 0.5]
    assert turns.score.tolist() == [1, 0, 0, 0.75, 0, 1, 0]
    assert turns.outcome.tolist() == [0, 2, 1, 1, 1, 0, 1]
    assert turns.entropy is not None and turns.value is not None
    assert turns.entropy[1].tolist() == pytest.approx([0.6, 0.8, 0.5])
    assert turns.value[3].tolist() == pytest.approx([0.5, 0.7, 0.4])
    assert turns.valid[1].tolist() == [True, False, True]
    assert set(turns.named) == {"half", "plan_share"} and turns.named["half"][3].tolist() == [0, 0.125, 0.25]
    # P: S0 5 times, S1 3 times, S2 once, S3 once; Q: U0 3 times, U1 twice, U2 once
    assert repeated_states(turns) == pytest.approx(13 / 16)
    assert turns.state[0, 0] == turns.state[1, 2] != turns.state[0, 1] and turns.after[0, 0] == turns.state[0, 1]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_turns_number_goes_to_its_tokens_and_comes_back(shape: dict) -> None:
    turns = example_x(**shape)
    numbers = torch.arange(turns.mask.numel(), dtype=torch.float64).reshape(turns.mask.shape) + 1
    tokens = turns.spread(numbers)
    assert torch.equal(tokens != 0, turns.place >= 0)
    assert torch.equal(turns.mean(tokens), numbers * turns.mask)
    assert torch.equal(turns.at(turns.starts(), tokens), numbers * turns.mask)
    second = turns.only(turns.mask.long())
    assert torch.equal(turns.at(second, tokens), numbers * turns.mask)
    assert torch.equal(second, turns.starts().roll(1, dims=1))
    assert torch.equal(turns.inside(turns.spans["action"]), turns.ends())


def test_a_mean_leaves_out_tokens_that_a_correction_took_away() -> None:
    turns = example_x()
    tokens, kept = torch.zeros_like(turns.place, dtype=torch.float64), turns.place >= 0
    tokens[0, 0], tokens[0, 1] = 5.0, 1.0
    kept[0, 0] = False
    assert turns.mean(tokens)[0, 0] == 3.0
    assert turns.mean(tokens, kept)[0, 0] == 1.0


def test_turns_are_runs_of_sampled_tokens() -> None:
    mask = torch.tensor([[1, 1, 0, 1, 0, 0], [0, 1, 0, 1, 1, 1], [0, 0, 0, 0, 0, 0]])
    assert turn_ids(mask).tolist() == [[1, 1, 0, 2, 0, 0], [0, 1, 0, 2, 2, 2], [0] * 6]


def test_a_record_with_another_number_of_turns_is_refused() -> None:
    rows = episode_rows("P_0", windows=False)
    rows[0]["state"] = [1]
    with pytest.raises(ValueError, match="state: a row's record has 1 turns and its mask 2"):
        table(rows)


def test_a_batch_without_any_action() -> None:
    zeros = {key: [0, 0] for key in ("mask", "entropy", "values")}
    turns = table([{**episode_rows("P_0", windows=False)[0], **zeros, "reward": [1.0, 0.0]}])
    assert turns.mask.shape[0] == 0 and turns.episodes == ()
    assert not turns.spread(spread([], turns)).any()
    assert repeated_states(turns) == 0.0
