"""The rows of a match of two seats: each is what its own server requests saw, and nothing else."""

from __future__ import annotations

import asyncio
import sys
from itertools import chain
from pathlib import Path

import pytest
from game_table import Says
from test_rollout_forms import assert_trained_as_sampled

sys.path.append(str(Path(__file__).parents[1] / "rollouts"))

from test_matches import DRAW, WIN, Here, game, spec  # noqa: F401 - a fixture

from turngrid.algorithms.turns import OUTCOMES
from turngrid.envs.types import TaskRef
from turngrid.rollouts.chat_settings import ChatSettings
from turngrid.rollouts.loop import run_episode
from turngrid.rollouts.policy import ContextLimit, ModelPolicy
from turngrid.rollouts.sampling import SamplingParams
from turngrid.verl_plugin.rollout.agent_loop import row_fields
from turngrid.verl_plugin.rollout.local_rollouts import codec_of

ASSET = str(Path(__file__).parents[2] / "assets" / "tiny_all")


@pytest.mark.parametrize(("actions", "outcomes"), [(WIN, ("won", "lost")), (DRAW, ("drawn", "drawn"))])
def test_rows_of_two_seats(game: TaskRef, actions: list[str], outcomes: tuple[str, str]) -> None:  # noqa: F811
    codec = codec_of(ASSET, "qwen2", ChatSettings(), ())
    server, limit = Says(codec, list(actions)), ContextLimit(1024, 4096)
    policy = ModelPolicy(server, codec.decode, SamplingParams(1.0, max_action_tokens=6), limit, run_seed=0)
    first = asyncio.run(run_episode(policy, Here(), spec(game), codec.stream(), codec.stream()))
    sides = [first, *first.sides]
    asked = {request.request_id for request in server.asked}
    assert asked == {"1/p#0/0", "1/p#1/0"} and len({request.seed for request in server.asked}) == len(actions)
    for side, outcome in zip(sides, outcomes, strict=True):
        own = [request for request in server.asked if request.request_id == f"1/p#{side.seat}/0"]
        assert_trained_as_sampled(side, own)
        (row,) = row_fields(side, "zero_sum", "observation")
        assert row["turn_role"].tolist() == [int(side.seat)] * len(side.turns)
        assert [OUTCOMES[number] for number in row["turn_outcome"]] == [outcome]
        assert row["rm_scores"].sum() == {"won": 1, "lost": -1, "drawn": 0}[outcome]
    told = [[turn.action for turn in side.turns] for side in sides]
    assert [action for pair in zip(*told, strict=False) for action in pair] == actions[: 2 * len(told[1])]
    assert sum(len(turn.action_ids) for turn in chain(first.turns, sides[1].turns)) == 2 * len(actions)  # and ends
