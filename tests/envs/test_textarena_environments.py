"""textarena's games that need nothing downloaded: made from seeds, won by their plans, graded by
its own word; and those of two players: who moves, what is legal and best, chance, splits."""

import dataclasses
import json
import os
import random
import re
import signal
from pathlib import Path

import pytest
from made import made, played

from turngrid.envs.games.catalogue import Catalogue
from turngrid.envs.hosting.pool import EnvPool
from turngrid.envs.registry import make_environment
from turngrid.envs.textarena.environment import KNOWN
from turngrid.envs.textarena.games import value
from turngrid.envs.textarena.match_environment import DEALT
from turngrid.envs.textarena.match_environment import KNOWN as MATCHES
from turngrid.envs.types import EnvError, StepResult, TaskRef


def place(name="Sokoban-v0"):
    return make_environment("textarena", {"id": name})


@pytest.fixture(scope="module")
def tasks(tmp_path_factory):
    """Three games of each kind."""
    root = tmp_path_factory.mktemp("games")
    return {name: [made(place(name), name, seed, root / f"{name} {seed}") for seed in (1, 2, 3)] for name in KNOWN}


def steps(task, actions, **options):
    return played(place().env(**options), task, actions)


@pytest.mark.parametrize("name", KNOWN)
def test_every_expert_plan_wins_on_its_last_step_and_scores_one(tasks, name) -> None:
    for task in tasks[name]:
        _, results = steps(task, task.expert_plan)
        assert [result.won for result in results] == [False] * (len(results) - 1) + [True]
        assert all(result.valid for result in results)
        assert sum(result.score_delta for result in results) == pytest.approx(task.max_score)
        assert results[-1].observation.text.count("Congratulations!") == 1
        assert len(task.expert_plan) <= place(name).max_turns(name)


def test_a_hole_ends_the_game_and_is_no_success(tasks) -> None:
    for task in tasks["FrozenLake-v0-hardcore"]:
        board = [line.split("|")[1:-1] for line in steps(task, [])[0].text.splitlines() if line.startswith("|")]
        down = next((r for r, row in enumerate(board) if "H" in row[0]), None)
        right = next((c for c, cell in enumerate(board[0]) if "H" in cell), None)
        walk = ["right"] * right if right else ["down"] * down
        result = steps(task, walk)[1][-1]
        assert (result.terminated, result.lost, result.won) == (True, True, False)
        assert "You fell into a hole!" in result.observation.text


def test_guesses_are_answered_and_the_plan_halves(tasks) -> None:
    task = max(tasks["GuessTheNumber-v0"], key=lambda task: len(task.expert_plan))
    assert task.expert_plan[0] == "10"
    first, results = steps(task, ["21", *task.expert_plan], legal=True)
    assert first.legal == tuple(map(str, range(1, 21)))
    assert not results[0].valid
    assert "The target number is" in results[1].observation.text
    assert "10" not in results[1].observation.legal
    assert "Congratulations" in results[-1].observation.text


def test_another_game_than_the_accepted_one_is_not_played(tasks, tmp_path: Path) -> None:
    """A file whose seed gives another board here."""
    task, file = tasks["Sokoban-v0"][0], tmp_path / "game.json"
    game = json.loads(Path(task.game_file).read_text())
    file.write_text(json.dumps({**game, "seed": game["seed"] + 1}))
    other = dataclasses.replace(task, game_file=str(file), sha256=place().game_sha256(file))
    with pytest.raises(EnvError, match="makes another game of its seed"):
        steps(other, [])


# ---- matches


def two_player(name="TicTacToe-v0", errors=0):
    return make_environment("two_player", {"id": name, "errors": errors})


def match(name: str, seed: int, folder: Path, errors: int = 0) -> TaskRef:
    return made(two_player(name, errors), name, seed, folder)


def empty(name: str, folder: Path, errors: int = 0) -> TaskRef:
    """A game without random moves."""
    return next(match(name, seed, folder, errors) for seed in range(99) if random.Random(seed).randint(0, 3) == 0)


def at_random(task: TaskRef, seed: int, noise: bool = False) -> tuple[list[str], StepResult]:
    """Random legal play; ``noise``: others draw from Python's generator in between."""
    env, draw, texts = two_player().env(), random.Random(seed), []
    seen = env.reset(task, 0)
    while True:
        texts.append(f"{seen.seat} {seen.text}")
        if noise:
            random.random()
        result = env.step(draw.choice(seen.legal))
        assert result.valid and set(seen.expert) <= set(seen.legal)
        if result.over:
            return texts, result
        seen = result.observation


@pytest.mark.parametrize("name", MATCHES)
def test_legal_play_ends_in_a_result_of_both_seats(name, tmp_path: Path) -> None:
    for seed in (1, 2, 3):
        task = match(name, seed, tmp_path / str(seed))
        texts, result = at_random(task, seed)
        assert result.observation.seat == "" and sum(result.scores.values()) == 0
        assert set(result.scores) == {"0", "1"} and not (result.won or result.lost or result.score_delta)
        assert sum(text[0] == "0" for text in texts) <= two_player(name).max_turns(name)
        assert at_random(task, seed, noise=True)[0] == texts, "its chance is its own"


def test_kuhn_poker_begins_with_the_second_seat_and_hides_the_other_card(tmp_path: Path) -> None:
    env = two_player("KuhnPoker-v0").env()
    first = env.reset(match("KuhnPoker-v0", 1, tmp_path), 0)
    second = env.step("check").observation
    assert (first.seat, second.seat) == ("1", "0") and first.legal == ("check", "bet")
    cards = [seen.text.split("card is: '")[1][0] for seen in (first, second)]
    assert cards[0] != cards[1] and f"card is: '{cards[0]}'" not in second.text


async def test_a_killed_worker_changes_no_card(tmp_path: Path) -> None:
    task = match("KuhnPoker-v0", 1, tmp_path)

    async def texts(kill: int) -> list[str]:
        async with EnvPool("two_player", 1, 60.0, settings={"id": "KuhnPoker-v0", "errors": 0}) as pool:
            session = await pool.open()
            found = [(await session.reset(task, 0)).text]
            for number in range(6):  # two of each of three rounds
                if number == kill:
                    os.kill(pool.pids[0], signal.SIGKILL)
                result = await session.step("check")
                found.append(result.observation.text)
            assert result.over
            return found

    assert await texts(kill=3) == await texts(kill=99)


@pytest.mark.parametrize("answer", ["dance", "", "[4] [5]", "9"])
def test_an_invalid_answer_loses_at_once_or_after_the_allowance(answer, tmp_path: Path) -> None:
    strict, kind = two_player().env(), two_player(errors=1).env()
    strict.reset(empty("TicTacToe-v0", tmp_path / "strict"), 0)
    result = strict.step(answer)
    valid = answer.startswith("[4]")  # textarena reads the first number in brackets
    assert result.over is not valid and result.valid is valid
    assert valid or (result.scores == {"0": -1.0, "1": 1.0} and result.info == {"forfeit": True})
    kind.reset(empty("TicTacToe-v0", tmp_path / "kind", errors=1), 0)
    again = kind.step(answer)
    assert not again.over and again.observation.seat == ("1" if valid else "0")
    assert valid or kind.step(answer).scores == {"0": -1.0, "1": 1.0}


def test_exact_play_draws_tic_tac_toe_and_wins_nim(tmp_path: Path) -> None:
    assert value(" " * 9, "O") == 0 and value("OO XX    ", "O") == 1 and value("OO XX    ", "X") == 1
    for name, wanted in (("TicTacToe-v0", 0.0), ("Nim-v0", 1.0)):  # 3 ^ 4 ^ 5 is not 0: the first player wins
        env = two_player(name).env()
        for draw in map(random.Random, range(5)):
            seen, result = env.reset(empty(name, tmp_path / name), 0), None
            while result is None or not result.over:
                result = env.step(draw.choice(seen.expert))
                seen = result.observation
            assert result.scores["0"] == wanted


@pytest.mark.parametrize("name", MATCHES)
def test_splits_have_no_position_or_deal_in_common(name, game_cache: Path) -> None:
    counts = {"test": 8, "train": 8}
    listings = Catalogue(two_player(name), game_cache).listings(name, counts, "zero_sum", workers=1, progress=False)
    prints = {split: {task.fingerprint for task in listing.tasks} for split, listing in listings.items()}
    assert not prints["test"] & prints["train"] and all(len(found) == 8 for found in prints.values())
    assert not any(task.expert_plan for task in listings["train"].tasks)
    assert name in DEALT or len({len(task.goal) for task in listings["train"].tasks}) == 1


def test_every_game_is_in_the_table_of_the_page() -> None:
    page = (Path(__file__).parents[2] / "docs" / "two_player.md").read_text()
    rows = [line.split("|") for line in page.splitlines() if re.match(r"\| `\w+-v0", line)]
    assert {re.findall(r"`([^`]+)`", row[1])[0]: int(row[3]) for row in rows} == MATCHES
    exact = {row[1].split("`")[1] for row in rows if row[5].strip() != "-"}
    assert exact == {name for name in MATCHES if "exact" in two_player(name).opponents}
