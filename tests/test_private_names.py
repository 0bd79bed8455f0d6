"""No new private name of another project, and no new replacement of its functions
(docs/architecture.md)."""

import ast
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = (
    "train",
    "experiments",
    "config",
    "verl_plugin",
    "tasks",
    "records",
    "algorithms",
    "rollouts",
    "rewards",
    "envs",
)
OURS = {"turngrid", "__future__", "benchmarks"}
PUBLIC = {"os._exit"}  # documented by Python

# file -> why it may, and when that ends
ALLOWED = {
    "envs/alfworld/text.py": "ALFWorld's grammar is parsed by TextWorld, which offers no public function",
    "envs/alfworld/env.py": "the planner's translator replaces sys.argv, which is put back",
    "envs/textworld/games.py": "TextWorld reads its rules in the file system's order: games would differ by machine",
    "verl_plugin/changes.py": "carries out the table of docs/verl.md",
    "verl_plugin/cpu/engines.py": "verl's engines for CPUs (docs/verl.md)",
    "verl_plugin/cpu/platform.py": "verl asks for a process group of GPUs; ends when verl has a platform for CPUs",
    "verl_plugin/sft.py": "the name in which torch keeps a process with its parent",
    "verl_plugin/whole_models.py": "a checkpoint that lacks weights is refused (docs/verl.md)",
}


def private(dotted: str) -> bool:
    return any(part.startswith("_") and not part.startswith("__") for part in dotted.split("."))


def foreign(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """(name in the file, full name) of everything that is imported from another project."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (((name.asname or name.name).split(".")[0], name.name) for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from ((name.asname or name.name, f"{node.module}.{name.name}") for name in node.names)


def chain(node: ast.expr) -> str:
    """``a.b.c`` of attributes of a name; "" for attributes of anything else."""
    if isinstance(node, ast.Name):
        return node.id
    above = chain(node.value) if isinstance(node, ast.Attribute) else ""
    return f"{above}.{node.attr}" if above and isinstance(node, ast.Attribute) else ""


def offences(source: str) -> list[str]:
    """Private names that are used, and names of modules and classes that are assigned."""
    tree = ast.parse(source)
    names = {name: full for name, full in foreign(tree) if full.split(".")[0] not in OURS}
    found = [full for full in names.values() if private(full)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            root, _, rest = chain(node).partition(".")
            if root in names and (private(rest) or isinstance(node.ctx, ast.Store)):
                found.append(f"{names[root]}.{rest}")
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in (
            "mock.patch.object",
            "patch.object",
            "replaced",
            "setattr",
        ):
            target = ast.unparse(node.args[0]).split(".")[0]
            found += [ast.unparse(node)] if target in {*names, "module", "owner"} else []
    return [name for name in found if name not in PUBLIC]


@pytest.mark.parametrize(
    "source",
    [
        "from ray._private import node",
        "import ray\nray._private.node.Node.start = None",
        "import hydra\nhydra.version.get = None",
        "from unittest import mock\nfrom a import B\nmock.patch.object(B, 'c')",
    ],
)
def test_each_kind_is_seen(source: str) -> None:
    assert offences(source)


def test_only_the_listed_files_do_it() -> None:
    files = subprocess.check_output(["git", "ls-files", "--", *ROOMS], cwd=ROOT, text=True).splitlines()
    found = {file: offences((ROOT / file).read_text(encoding="utf-8")) for file in files if file.endswith(".py")}
    assert {file: names for file, names in found.items() if names and file not in ALLOWED} == {}
    assert {file for file in ALLOWED if not found.get(file)} == set(), "these need no entry any more"
