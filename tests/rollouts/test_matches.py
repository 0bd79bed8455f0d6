"""Matches of two seats: views, scores, opponents, ``rollout_form=self_play``."""

import asyncio
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest
from says import Says
from usual import method

from turngrid.envs.registry import make_environment
from turngrid.envs.text_env import TextEnv
from turngrid.envs.types import EnvError, Observation, StepResult, TaskRef
from turngrid.records.statistics import match_results, summarise
from turngrid.records.step_metrics import step_metrics
from turngrid.rewards.registry import reward
from turngrid.rollouts.episode import Episode, Outcome
from turngrid.rollouts.forms.linear import play_group
from turngrid.rollouts.loop import EpisodeSpec, Side, run_episode, run_match
from turngrid.rollouts.policy import RandomPolicy, Reply, TurnContext

ENVIRONMENT = make_environment("two_player", {"id": "TicTacToe-v0"})
WIN, DRAW = ["0", "3", "1", "4", "2"], ["0", "1", "2", "4", "3", "5", "7", "6", "8"]


@dataclass
class Here:
    """A session in this process."""

    env: TextEnv = field(default_factory=ENVIRONMENT.env)

    async def reset(self, task: TaskRef, seed: int) -> Observation:
        return self.env.reset(task, seed)

    async def step(self, action: str) -> StepResult:
        return self.env.step(action)

    finish = None  # nothing is graded


@pytest.fixture(scope="module")
def game(tmp_path_factory: pytest.TempPathFactory) -> TaskRef:
    """From the empty board."""
    seed = next(seed for seed in range(99) if Random(seed).randint(0, 3) == 0)
    return game_of("TicTacToe-v0", seed, tmp_path_factory.mktemp("game"))


def game_of(task: str, seed: int, folder: Path) -> TaskRef:
    environment = make_environment("two_player", {"id": task})
    params = environment.parse_task(task)
    record = dataclasses.asdict(environment.game_record(params, seed, folder))
    about = {"env": "two_player", "task": task, "params": params, "seed": seed, "split": "test"}
    return TaskRef(**about, game_file=str(folder / record.pop("file")), **record)


def spec(game: TaskRef, **more: Any) -> EpisodeSpec:
    base = EpisodeSpec(game, ENVIRONMENT.prompt, 5, reward("zero_sum"), prompt="p", step=1, seat="0", opponent="self")
    return dataclasses.replace(base, **more)


def match(game: TaskRef, actions: Sequence[str], **more: Any) -> list[Episode]:
    first = asyncio.run(run_episode(Says(*actions), Here(), spec(game, **more), None))
    return [first, *first.sides]


def paid(episode: Episode) -> list[float]:
    return [turn.rewards["zero_sum"] for turn in episode.turns]


def test_each_seat_has_its_own_view_and_the_loser_is_paid_too(game: TaskRef) -> None:
    policy = Says(*WIN)
    first = asyncio.run(run_episode(policy, Here(), spec(game), None))
    (second,) = first.sides
    assert [[turn.action for turn in side.turns] for side in (first, second)] == [["0", "1", "2"], ["3", "4"]]
    assert (first.outcome, second.outcome) == (Outcome.WON, Outcome.LOST) and (first.score, second.score) == (1.0, 0.0)
    assert (paid(first), paid(second)) == ([0, 0, 1], [0, -1])
    assert (first.seat, second.seat) == ("0", "1") and first.match == second.match == "1/p/0"
    assert "will be 'O'" in first.messages[0]["content"] and "will be 'X'" in second.messages[0]["content"]
    assert "cell 3" in first.turns[1].observation and first.final_observation == second.final_observation
    assert [message["role"] for message in second.messages] == ["user", "assistant"] * 2
    for side in (first, second):
        assert Episode.from_dict(side.to_dict()) == dataclasses.replace(side, sides=[])


def test_draws_and_answers_that_end_a_match(game: TaskRef) -> None:
    first, second = match(game, DRAW)
    assert first.outcome is second.outcome is Outcome.DRAWN and first.score == second.score == 0.5
    assert not any(paid(first) + paid(second))
    first, second = match(game, ["0", "1", "1"])
    assert (paid(first), paid(second)) == ([0, -1.5], [0.5]) and first.turns[-1].info == {"forfeit": True}
    (alone,) = match(game, ["9"])  # the other seat never had a turn
    assert alone.outcome is Outcome.LOST and paid(alone) == [-1.5]
    first, second = match(game, DRAW, max_turns=2)
    assert first.outcome is second.outcome is Outcome.OUT_OF_TURNS and first.score == 0.5
    assert (len(first.turns), len(second.turns)) == (2, 2) and not any(paid(first) + paid(second))


def test_a_seat_against_scripted_opponents(game: TaskRef) -> None:
    for seat in ("0", "1"):
        (won,) = match(game, ["3", "4", "5"] if seat == "1" else ["3", "4", "6", "8"], seat=seat, opponent="first")
        assert won.seat == seat and won.opponent == "first" and won.sides == []
        (lost,) = match(game, list("8764"), seat=seat, opponent="exact")
        assert lost.outcome in (Outcome.LOST, Outcome.DRAWN)
    forfeit = run_episode(Says(), Here(), spec(game, seat="1", opponent="p"), None, opponent=Says("9"))
    at_once = asyncio.run(forfeit)  # by the other seat's first answer
    assert (at_once.seat, at_once.outcome, at_once.score, at_once.turns) == ("1", Outcome.WON, 1.0, [])
    one = match(game, WIN, both=False)
    assert [episode.seat for episode in one] == ["0"]
    exact = asyncio.run(run_episode(RandomPolicy(3, "exact"), Here(), spec(game, opponent="exact"), None, None, 4))
    assert exact.outcome is Outcome.DRAWN
    with pytest.raises(EnvError, match="seat 1 has to answer"):
        asyncio.run(run_match({"0": Side(RandomPolicy(), spec(game), None)}, Here()))


def test_a_group_of_self_play(game: TaskRef) -> None:
    """Seats, opponents, and requests that no two seats share."""
    seen: set[tuple[str, int]] = set()

    class Noted(RandomPolicy):
        async def act(self, context: TurnContext) -> Reply:
            seen.add((context.prompt, context.sample))
            return await super().act(context)

    async def play(specs: Sequence[EpisodeSpec]) -> list[Episode]:
        return [await run_episode(Noted(), Here(), one, None) for one in specs]

    base = spec(game, seat="", opponent="")
    group = asyncio.run(play_group(method("rollout_form", "self_play"), base, 4, 0, play))
    assert len(group) == 8 and [episode.sample for episode in group] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert seen == {(f"p#{seat}", sample) for seat in "01" for sample in range(4)}
    assert len({episode.match for episode in group}) == 4 and all(episode.trained for episode in group)
    told = step_metrics([group], "zero_sum")
    assert sum(told[f"rollout/match/self/{one}"] for one in ("seat_0/won", "seat_1/won", "seat_0/drawn")) == 1.0
    mixed = method("rollout_form", "self_play", opponent={"self": 1, "random": 1}, train="one")
    specs = mixed.specs(base, 40, Random(0))
    assert {one.opponent for one in specs} == {"self", "random"} and mixed.episodes(4) == 4
    seats = {mixed.specs(base, 4, Random(seed))[0].seat for seed in range(9)}
    assert len({one.seat for one in specs}) == 1 and seats == {"0", "1"}
    with pytest.raises(ValueError, match="must be one of: self, random, first, exact, past, endpoint"):
        method("rollout_form", "self_play", opponent="future")


def test_results_count_matches_from_each_seat(game: TaskRef) -> None:
    """Two games; in the first seat 0 wins and seat 1 draws, in the second both lose."""
    outcomes = [Outcome.WON, Outcome.DRAWN, Outcome.LOST, Outcome.LOST]
    played = match(game, WIN)[0]
    episodes = [dataclasses.replace(played, seat=str(n % 2), outcome=o, score=None) for n, o in enumerate(outcomes)]
    found = match_results(episodes, 2)
    counted = [found["both"][key] for key in ("matches", "won", "drawn", "lost", "score")]
    assert counted == [4.0, 0.25, 0.25, 0.5, 0.375]
    assert (found["0"]["score"], found["1"]["score"]) == (0.5, 0.25) and found["both"]["low"] <= 0.375
    assert summarise(episodes, 2)["pass_at"] == {}
    assert match_results([dataclasses.replace(episodes[0], seat="")], 1) == {}
