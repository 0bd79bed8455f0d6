"""What the agent reads is what alfworld itself says, on the same game after the same actions."""

import json
import random
from pathlib import Path

import pytest
from alfworld_stock import content, migrated, old, stock_env

from turngrid.envs.alfworld import engine, text
from turngrid.envs.alfworld.env import AlfWorldEnv
from turngrid.envs.alfworld.kinds import TYPES

LIKE_OTHERS = ("pick_and_place_simple", "pick_clean_then_place_in_recep", "pick_heat_then_place_in_recep")
BANNER = "-= Welcome to TextWorld, ALFRED! =-\n\n"


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.slow] if kind in LIKE_OTHERS else []) for kind in TYPES]
)
def test_the_texts_are_alfworlds_own(games, kind):
    """Before each step of the plan looks of all kinds, and a random command or a senseless one."""
    task, stock, env, rng = games[kind], stock_env(), AlfWorldEnv(legal=True), random.Random(kind)
    stock.load(task.game_file)
    theirs, ours = stock.reset(), env.reset(task, 0)
    assert theirs.feedback == f"{BANNER}{ours.text}\n\nYour task is to: {task.goal}"
    for planned in task.expert_plan:
        looks = [command for command in ours.legal if command.startswith("examine")]
        for action in (
            "look",
            "inventory",
            "help",
            *looks[:2],
            rng.choice([*ours.legal, "dance with fridge 1"]),
            planned,
        ):
            assert list(ours.legal) == theirs["admissible_commands"]
            theirs, _, done = stock.step(action)
            result = env.step(f" {action.capitalize()}.\nlook")  # capitals and a full stop are forgiven
            ours = result.observation
            assert (ours.text, result.won, result.terminated) == (theirs.feedback, theirs["won"], done)
            assert result.valid is (theirs.feedback != "Nothing happens.")
            if done:
                return


@pytest.mark.parametrize(("kind", "form"), [(TYPES[0], migrated), (TYPES[5], old)], ids=["2.1.2", "2.1.1"])
def test_official_files_read_alike(games, tmp_path, kind, form):
    """As they are: the engine itself knows no single grammar, nor where the text of ``help`` is."""
    task, stock, data, ours = games[kind], stock_env(), form(content(games[kind])), engine.Engine()
    file = tmp_path / "game.tw-pddl"
    file.write_text(json.dumps(data))
    stock.load(str(file))
    ours.load(data)
    assert ours.reset() == stock.reset().feedback
    for action in (*["help"] * (form is migrated), *task.expert_plan):
        if action.startswith("move") and form is old:
            action = action.replace("move", "put").replace(" to ", " in/on ")
        assert ours.step(action) == stock.step(action)[0].feedback
    assert ours.won


def test_a_grammar_from_a_file_runs_no_code(games):
    """Expressions of a grammar join attributes of things; anything else is refused before it is
    evaluated."""
    grammar = content(games[TYPES[0]])["grammar"].replace(
        "You close the {r.name}.", "{__import__('os').system('touch /tmp/hacked')}"
    )
    writer = text.Writer(text.parse(grammar), {"x": text.Entity("x", "door 1")}, {"x": "receptacle"})
    assert writer.write("{r.indefinite + ' ' + r.name}", {}, {"r": "x"}) == "a door 1"
    with pytest.raises(ValueError, match="may not hold"):
        writer.write("#CloseObject.feedback#", {}, {"r": "x"})
    with pytest.raises(ValueError, match="may not hold"):
        writer.write("{r.__class__}", {}, {"r": "x"})
    assert not Path("/tmp/hacked").exists()
