"""Episodes of which the model sees a window: real games, the tiny model, and what the trainer makes
of the rows."""

import itertools
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from game_table import Says, Table, seen_by_server
from omegaconf import DictConfig, OmegaConf
from step_probe import composed
from transfer_queue import KVBatchMeta
from verl.experimental.agent_loop.agent_loop import AgentLoopMetrics, AgentLoopOutput
from verl.protocol import DataProto
from verl.trainer.ppo.v1.utils import compute_advantage_for_multi_trajectories

from turngrid.algorithms.registry import ALGORITHMS
from turngrid.envs.hosting.pool import EnvPool
from turngrid.envs.registry import make_environment
from turngrid.envs.types import TaskRef
from turngrid.rollouts.episode import Episode, Outcome
from turngrid.rollouts.forms.linear import Linear
from turngrid.rollouts.prompt_forms.registry import PLAIN_FORM
from turngrid.rollouts.row import Row, to_rows
from turngrid.rollouts.sampling import SampleRequest
from turngrid.rollouts.stream import user
from turngrid.rollouts.window import Window, rows_of
from turngrid.verl_plugin.rollout.agent_loop import TurngridAgentLoop, row_fields
from turngrid.verl_plugin.rollout.token_stream import TokenCodec
from turngrid.verl_plugin.training import estimators  # noqa: F401 - registers ours with verl
from turngrid.verl_plugin.training.estimators import by_episode
from turngrid.verl_plugin.training.losses import EPISODES
from turngrid.verl_plugin.training.window_rows import WindowRows, spread

TURNS, TOKENS, REWARD = 8, 6, "dense"


Played = tuple[Episode, list[SampleRequest]]


def play(table: Table, games: list[TaskRef], window: Window, prompt: int = 1024, response: int = 1024) -> list[Played]:
    """Four samples of each game."""
    played: list[Played] = []
    for game in games:
        at_game = replace(table, game=game)
        spec = replace(at_game.base, window=window, max_turns=TURNS)
        episodes, asked = at_game.play(Linear(), spec, prompt, response)
        played += [(episode, asked[episode.sample]) for episode in episodes]
    return played


@pytest.fixture(scope="module")
def windowed(table: Table, games: list[TaskRef]) -> list[Played]:
    return play(table, games[:3], Window(3, 1))


@pytest.fixture(scope="module")
def narrow(table: Table, games: list[TaskRef]) -> list[Played]:
    """Windows that end because they have no room: about two turns' worth."""
    return play(table, games[:3], Window(100, 2), 260, 90)


def assert_rows_are_what_the_server_saw(episode: Episode, asked: list[SampleRequest]) -> None:
    assert list(seen_by_server(to_rows(episode, REWARD))) == [tuple(request.prompt_ids) for request in asked]


def test_each_turn_is_in_one_row_and_windows_are_as_long_as_asked(windowed: list[Played]) -> None:
    assert max(len(episode.turns) for episode, _ in windowed) == TURNS
    for episode, asked in windowed:
        assert_rows_are_what_the_server_saw(episode, asked)
        rows = to_rows(episode, REWARD)
        assert len(rows) == rows_of(len(episode.turns), Window(3, 1))
        assert sum(sum(row.mask) for row in rows) == sum(len(turn.action_ids) for turn in episode.turns)
        starts = [number for number, turn in enumerate(episode.turns) if turn.prompt_ids]
        assert starts == list(range(3, len(episode.turns), 2)), "three turns, then two new ones beside the kept one"


def test_a_window_begins_with_the_goal_and_the_kept_turn(windowed: list[Played], codec: TokenCodec) -> None:
    """As if the episode had begun with the kept turn."""
    episode = next(episode for episode, _ in windowed if len(episode.turns) > 3)
    kept, present = episode.turns[2], episode.turns[3]
    stream = codec.stream()
    head = PLAIN_FORM.head(make_environment("textworld").prompt, episode.goal)
    stream.start([user(head + PLAIN_FORM.message(kept.observation))])
    stream.add_sampled(kept.action_ids)
    stream.add_context([user(PLAIN_FORM.message(present.observation))])
    assert present.prompt_ids == list(stream.ids)
    assert kept.context_ids == [], "the row before ends with its last action"


def test_a_row_has_the_fields_that_verl_makes_of_it(windowed: list[Played]) -> None:
    for episode, _ in windowed:
        for row, ours in zip(to_rows(episode, REWARD), row_fields(episode, REWARD), strict=True):
            output = AgentLoopOutput(
                prompt_ids=row.prompt_ids,
                response_ids=row.response_ids,
                response_mask=row.mask,
                response_logprobs=row.logprobs,
                reward_score=sum(row.rewards),
                num_turns=ours["num_turns"],
                metrics=AgentLoopMetrics(**ours["metrics"]),
                extra_fields=ours["extra_fields"],
            )
            verls = output.as_dict()
            assert ours["rm_scores"].sum() == verls.pop("rm_scores").sum()
            assert torch.equal(ours["input_ids"], torch.cat([verls["prompts"], verls["responses"]]))
            for name, value in verls.items():
                same = torch.equal(ours[name], value) if isinstance(value, torch.Tensor) else ours[name] == value
                assert same, (name, ours[name], value)
                assert getattr(ours[name], "dtype", None) == getattr(value, "dtype", None)


@dataclass
class Reads:
    """A credit method that reads rewards by name."""

    reads: ClassVar[frozenset[str]] = frozenset({"valid", "outcome"})


SHAPED = (
    "shaping=[invalid_action,format,turn_bonus]",
    "shaping.invalid_action.coefficient=0.25",
    "shaping.turn_bonus.decay={steps: {1: 1, 2: 0}}",
    "+credit.mine.target=test_windows:Reads",
    "env.window_turns=2",
    "env.window_keep=1",
    "env.max_turns=8",
)


def agent_loop(config: DictConfig, codec: TokenCodec, pool: EnvPool | None) -> TurngridAgentLoop:
    loop = TurngridAgentLoop(config, codec.tokenizer, "qwen3")
    loop.pool = pool or loop.pool
    return loop


@pytest.mark.parametrize(("step", "validate", "bonus"), [(1, False, 0.07), (2, False, 0.0), (1, True, None)])
def test_the_agent_loop_shapes_what_is_trained_and_nothing_that_is_validated(
    step: int, validate: bool, bonus: float | None, table: Table, codec: TokenCodec, tmp_path: Path
) -> None:
    config, expert = composed(tmp_path, *SHAPED), list(table.game.expert_plan)
    row = {"task": json.dumps(table.game.to_dict()), "global_steps": step, "uid": "a", "validate": validate}

    async def play() -> tuple[Episode, list[dict[str, Any]]]:
        loop = agent_loop(config, codec, table.pool)
        played = await loop.play(loop.spec(row), Says(codec, ["dance", "", "look", *expert]))
        return played, row_fields(played, "sparse", loop.state, named=loop.sent)

    episode, rows = table.runner.run(play())
    assert episode.won and len(episode.turns) == 7 and len(rows) > 1
    prices = [0.0] * 7 if validate else [-0.25, -0.26, *[0.0] * 4, bonus]
    wanted = [price + sparse for price, sparse in zip(prices, [0.0] * 6 + [1.0], strict=True)]
    assert [turn.trained("sparse") for turn in episode.turns] == pytest.approx(wanted)
    placed = [
        value
        for row, one in zip(to_rows(episode, "sparse"), rows, strict=True)
        for value, last in zip(one["rm_scores"].tolist(), last_of_turn(row), strict=True)
        if last
    ]
    assert placed == pytest.approx(wanted) and sum(one["rm_scores"].sum() for one in rows) == pytest.approx(sum(wanted))
    if validate:
        assert not episode.shaping and {*episode.turns[0].rewards} == {"sparse"}
    else:
        assert torch.cat([one["turn_named_valid"] for one in rows]).tolist() == [0, 0, 1, 1, 1, 1, 1]
        assert torch.cat([one["turn_named_outcome"] for one in rows]).tolist() == [0] * 6 + [1]


def test_simpletir_ends_trained_games_at_a_void_turn(games: list[TaskRef], codec: TokenCodec, tmp_path: Path) -> None:
    found = {}
    for stop in ("true", "null"):
        words = f"algo=simpletir filter.void_turns.void=invalid filter.void_turns.stop={stop}"
        config = composed(tmp_path, *words.split())
        loop = agent_loop(config, codec, None)
        row = {"task": json.dumps(games[0].to_dict()), "global_steps": 1, "uid": "a"}
        found[stop] = [loop.spec({**row, "validate": validate}).void for validate in (False, True)]
    assert found == {"true": ["invalid", ""], "null": ["", ""]}


def last_of_turn(row: Row) -> list[bool]:
    following = [*row.mask[1:], 0]
    return [bool(now and not then) for now, then in zip(row.mask, following, strict=True)]


def test_a_window_without_room_makes_room(narrow: list[Played]) -> None:
    for episode, asked in narrow:
        assert_rows_are_what_the_server_saw(episode, asked)
        assert episode.outcome is not Outcome.OUT_OF_CONTEXT
        for row in to_rows(episode, REWARD):
            assert len(row.prompt_ids) <= 260 and len(row.response_ids) <= 90
    assert max(len(to_rows(episode, REWARD)) for episode, _ in narrow) > 2


def test_where_not_even_the_present_fits_the_context_is_out(table: Table, games: list[TaskRef]) -> None:
    played = play(table, games[:1], Window(3, 1), 40, 90)
    assert {episode.outcome for episode, _ in played} == {Outcome.OUT_OF_CONTEXT}
    assert {len(episode.turns) for episode, _ in played} == {0}


# ---- what the trainer makes of the rows


def padded(values: list[list[float]]) -> torch.Tensor:
    width = max(map(len, values))
    return torch.tensor([[*row, *[0.0] * (width - len(row))] for row in values])


def as_batch(rows: list[list[Row]], groups: list[str]) -> tuple[DataProto, list[str]]:
    """As verl hands it on: padded rows, their keys and groups. Values are any numbers, the same for
    the same token."""
    flat = [row for episode in rows for row in episode]
    keys = [f"{groups[e]}_{e}_{r}" for e, episode in enumerate(rows) for r in range(len(episode))]
    generator = torch.Generator().manual_seed(0)
    values = iter(torch.rand(sum(sum(row.mask) for row in flat), generator=generator).tolist())
    critic = [[next(values) if masked else 0.0 for masked in row.mask] for row in flat]
    tensors = {
        "token_level_rewards": padded([row.rewards for row in flat]),
        "response_mask": padded([[float(m) for m in row.mask] for row in flat]),
        "values": padded(critic),
    }
    uids = [groups[e] for e, episode in enumerate(rows) for _ in episode]
    return DataProto.from_dict(tensors, non_tensors={"uid": np.array(uids, dtype=object)}), keys


def end_to_end(rows: list[Row]) -> list[Row]:
    """The windows of an episode as if they were one row."""
    whole = Row(rows[0].prompt_ids, [], [], [], [])
    for row in rows:
        for name in ("response_ids", "mask", "logprobs", "rewards"):
            getattr(whole, name).extend(getattr(row, name))
    return [whole]


def advantages(batch: DataProto, keys: list[str], algo: str) -> dict[str, torch.Tensor]:
    """On the action tokens, in order."""
    settings: dict[str, Any] = {"adv_estimator": ALGORITHMS[algo].estimator, "gamma": 0.99, "lam": 0.95}
    settings["config"] = OmegaConf.create({"gamma": 0.99})
    found = by_episode(compute_advantage_for_multi_trajectories, batch, batch_keys=keys, **settings)
    mask = found.batch["response_mask"].bool()
    return {name: found.batch[name][mask] for name in ("advantages", "returns")}


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_an_episode_counts_once_however_many_rows_it_has(windowed: list[Played], algo: str) -> None:
    rows = [to_rows(episode, REWARD) for episode, _ in windowed]
    assert len({len(episode) for episode in rows}) > 1 or len(rows[0]) > 1
    rows[0][0].rewards[last_of_turn(rows[0][0]).index(True)] += 0.5  # so that no group is without any signal
    rows[7][-1].rewards[last_of_turn(rows[7][-1]).index(True)] += 1.0
    groups = [f"g{number // 4}" for number in range(len(rows))]
    several = advantages(*as_batch(rows, groups), algo)
    single = advantages(*as_batch([end_to_end(episode) for episode in rows], groups), algo)
    for name, expected in single.items():
        torch.testing.assert_close(several[name], expected)
    assert several["advantages"].abs().max() > 0


def test_every_update_gets_its_share_of_the_padding() -> None:
    """verl pads at the end; the last of eight updates of 33 rows that are padded to 64 had nothing
    to learn from."""
    for rows, parts in itertools.product(range(8, 41), (1, 2, 4, 8)):
        padding = [False] * rows + [True] * (-rows % 32)
        order = spread(padding, parts)
        assert sorted(order) == list(range(len(padding)))
        assert [row for row in order if row < rows] == list(range(rows))
        size = len(order) // parts
        played = [sum(row < rows for row in order[start : start + size]) for start in range(0, len(order), size)]
        assert max(played) - min(played) <= 1 and min(played) >= 1, (rows, parts)


def test_padded_rows_divide_into_updates_devices_and_passes() -> None:
    """``shares`` of a step's prompts are taken at a time by an asynchronous trainer."""
    for sizes in itertools.product((8, 12), (1, 2, 4), (1, 2, 6), (1, 2, 8), (1, 2)):
        divides(*sizes)


def divides(batch: int, mini: int, n: int, devices: int, shares: int) -> None:
    actor = {"use_dynamic_bsz": False, "ppo_mini_batch_size": mini, "ppo_micro_batch_size_per_gpu": 4}
    nodes = {"actor": actor, "ref": {"log_prob_micro_batch_size_per_gpu": 2}, "rollout": {"n": n}}
    nodes["rollout"]["log_prob_micro_batch_size_per_gpu"] = 3
    critic = {"ppo_mini_batch_size": 2 * mini, "ppo_micro_batch_size_per_gpu": None}
    config = OmegaConf.create({"data": {"train_batch_size": batch}, "actor_rollout_ref": nodes, "critic": critic})
    made = WindowRows(config, shares)
    rows = made.multiple(devices)
    for node in (config.actor_rollout_ref.actor, config.critic):
        usual, updates = node.ppo_mini_batch_size, max(1, batch // shares // node.ppo_mini_batch_size)
        padded = KVBatchMeta(keys=[str(row) for row in range(rows)], tags=[{}] * rows, extra_info={})
        with made.mini_batches(node, padded):
            assert padded.extra_info[EPISODES] * updates == batch // shares * n, "a constant, and not rows"
            of_an_update = node.ppo_mini_batch_size * n  # as verl counts
            assert of_an_update * updates == rows
            assert of_an_update % (devices * 12) == 0
        assert node.ppo_mini_batch_size == usual
