"""A repair that was not made is not paid: the cheats of ``cheats/``, each played in the real
environment; beside them honest repairs, which must stay paid in full."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from cheats import cheat as tricks
from cheats import games
from cheats.cheat import Cheat
from cheats.games import Game

from turngrid.envs.types import StepResult

CHEATS = {cheat.name: cheat for cheat in tricks.CHEATS}
UNDETECTABLE = [name for name, cheat in CHEATS.items() if cheat.undetectable]
PAGE = Path(__file__).parents[2] / "docs" / "sandbox.md"


@pytest.fixture(scope="module")
def prepared(tmp_path_factory) -> Iterator[dict[str, Game]]:
    made = games.prepare(tmp_path_factory.mktemp("broken"))
    yield made
    for game in made.values():
        game.env.close()


def submitted(cheat: Cheat, prepared: dict[str, Game]) -> tuple[float, StepResult]:
    """The score of an episode, and its last turn, which was graded."""
    game = prepared[cheat.game]
    game.env.reset(game.task, 0)
    score = 0.0
    for action in (*cheat.actions, "submit"):
        result = game.env.step(action)
        score += result.score_delta
        if result.terminated:
            return score, result
    raise AssertionError("submit ends an episode")


@pytest.mark.parametrize("name", [name for name in CHEATS if name not in UNDETECTABLE])
def test_a_cheat_is_not_paid(name, prepared):
    score, last = submitted(CHEATS[name], prepared)
    assert (score, last.won, last.info["tests"]["f2p_passed"]) == (0.0, False, 0)


@pytest.mark.parametrize("name", UNDETECTABLE)
def test_what_no_grader_can_tell_is_in_the_docs(name, prepared):
    """Where one of these is not paid any more, its mark and its line in the page are to go."""
    assert name in PAGE.read_text()
    assert submitted(CHEATS[name], prepared)[0] == 1.0


@pytest.mark.parametrize("repair", tricks.REPAIRS, ids=lambda repair: repair.name)
def test_an_honest_repair_is_paid_in_full(repair, prepared):
    score, last = submitted(repair, prepared)
    assert (score, last.won) == (1.0, True), last.observation.text
