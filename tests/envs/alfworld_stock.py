"""Generated games for the tests, alfworld's own environment beside ours, and a data folder in the
official layout."""

import functools
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest import mock

from turngrid.envs import registry
from turngrid.envs.alfworld.kinds import TYPES
from turngrid.envs.games.catalogue import Catalogue
from turngrid.envs.types import TaskRef

PATCHED_HELP = (
    '\n\naction help {\n    template :: "help";\n'
    '    feedback :: "\\nAvailable commands:\\n  look:                             look around\\n";\n}\n'
)


def one_of_each(cache: Path, split: str = "test") -> dict[str, TaskRef]:
    """The first game of each type in a split of all six."""
    tasks = Catalogue(registry.make_environment("alfworld"), cache).tasks("all_types", split, 6, progress=False)
    return {TYPES[task.seed % 6]: task for task in tasks}


@functools.cache
def stock_env() -> Any:
    """Stock alfworld in this process: TextWorld's PddlEnv under alfworld's wrappers, as its
    AlfredTWEnv stacks them."""
    with tempfile.TemporaryDirectory() as nowhere, mock.patch.dict(os.environ, ALFWORLD_DATA=nowhere):
        from alfworld.agents.environment.alfred_tw_env import AlfredDemangler, AlfredInfos
    import textworld
    from textworld.envs import PddlEnv

    infos = textworld.EnvInfos(won=True, admissible_commands=True, extras=["gamefile"])
    return AlfredInfos(AlfredDemangler(PddlEnv(infos)))


def content(task: TaskRef) -> dict[str, Any]:
    return json.loads(Path(task.game_file).read_text())


def put_file(root: Path, folder: str, task: TaskRef, data: Mapping[str, Any], number: int = 0) -> Path:
    """A game where the official data has its like:
    ``json_2.1.1/FOLDER/TYPE-Thing-None-Place-N/trial_T.../``."""
    kind = TYPES[task.seed % 6]
    file = root / "json_2.1.1" / folder / f"{kind}-Thing-None-Place-{task.seed}" / f"trial_T{number}" / "game.tw-pddl"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(dict(data)))
    return file


def old(data: Mapping[str, Any]) -> dict[str, Any]:
    """The same game as json_2.1.1 has it: what alfworld's migration changed, changed back."""
    domain, help_action = data["pddl_domain"].split("(:action help", 1)
    grammar = data["grammar"].split("\naction help {", 1)[0]
    for new, before in (
        ("You arrive at {r.name}.", "You arrive at {lend.name}."),
        ("move {o} to {r}", "put {o} in/on {r}"),
        ("You move the {o.name} to the {r.name}.", "You put the {o.name} in/on the {r.name}."),
    ):
        assert new in grammar
        grammar = grammar.replace(new, before)
    assert help_action
    return {**data, "pddl_domain": domain + "\n)", "grammar": grammar, "walkthrough": None}


def migrated(data: Mapping[str, Any]) -> dict[str, Any]:
    """The same game as json_2.1.2 has it, whose ``help`` is its text itself, not a rule."""
    return {**data, "grammar": data["grammar"].split("\naction help {", 1)[0] + PATCHED_HELP}
