"""textarena's games that need nothing downloaded: made from seeds, won by their plans, graded by
textarena's own word."""

import dataclasses
import json
from pathlib import Path

import pytest
from made import made, played

from turngrid.envs.registry import make_environment
from turngrid.envs.textarena.environment import KNOWN
from turngrid.envs.types import EnvError


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
