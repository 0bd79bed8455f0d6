"""The broken repositories that cheats and honest repairs are tried on: three of ``repo_repair``,
one in SWE-Gym's form."""

from dataclasses import dataclass
from pathlib import Path

from repair_samples import WRONG, row

from turngrid.envs.registry import make_environment
from turngrid.envs.repair import bugs, mutate
from turngrid.envs.repair import games as making
from turngrid.envs.repair.bugs import Bug
from turngrid.envs.repair.games import write
from turngrid.envs.repair.instance import Instance
from turngrid.envs.text_env import TextEnv
from turngrid.envs.types import TaskRef


@dataclass(frozen=True)
class Game:
    """A task, and an environment that plays it."""

    task: TaskRef
    env: TextEnv


# Library, module, sound text, spoilt text.
_BUGS = {
    "runs": ("encoding", "runs.py", 'return "".join(parts)', "return None"),
    "zigzag": ("encoding", "compact.py", "if number % 2 == 0 else -(", "if number % 2 != 0 else -("),
    "sums": ("matrices", "matrices.py", "lambda a, b: a + b", "lambda a, b: a - b"),
}

# A repair beside tests in a folder with another name.
_SUMS = """
import json
from pathlib import Path

from shop.calc import add


def test_sums():
    for one, other, total in json.loads((Path(__file__).parent / "expected.json").read_text()):
        assert add(one, other) == total
"""
_FILES = {"shop/calc.py": WRONG, "checks/expected.json": "[[1, 2, 3]]\n", "checks/test_sums.py": _SUMS}
_STATS = row(files=_FILES, FAIL_TO_PASS=["checks/test_sums.py::test_sums"], PASS_TO_PASS=[])


def prepare(folder: Path) -> dict[str, Game]:
    """Every game by name, written below ``folder``; the environments are the caller's to close."""
    repair, swegym = make_environment("repo_repair").env(), make_environment("swegym").env()
    games = {name: Game(_task("repo_repair", making.instance_of(_bug(name)), folder / name), repair) for name in _BUGS}
    return games | {"stats": Game(_task("swegym", Instance.from_dict(_STATS), folder / "stats"), swegym)}


def _bug(name: str) -> Bug:
    library, path, sound, spoilt = _BUGS[name]
    source = bugs.library(library).files[path]
    wanted = source.replace(sound, spoilt, 1)
    return next(
        Bug(library, (edit,))
        for edit in bugs.library_edits(library)
        if edit.path == path and mutate.apply(source, [edit]) == wanted
    )


def _task(env: str, instance: Instance, folder: Path) -> TaskRef:
    folder.mkdir(parents=True)
    record = write(instance, folder, ())
    return record.task(env, "", {}, 0, "train", folder / record.file)
