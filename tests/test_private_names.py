"""No private name of another project, and no replacement of its functions, that is not listed
(docs/architecture.md, ``benchmarks/private_names.py``)."""

import ast
import re
import subprocess
import types
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from benchmarks.private_names import PRIVATE_NAMES, SHOWN

ROOT = Path(__file__).parents[1]
ROOMS = [file.parent.name for file in ROOT.glob("*/__init__.py") if file.parent.name != "assets"]
OURS = {"turngrid", "__future__", "benchmarks"}
# documented by Python, an object of ours, or what verl asks a subclass to set
PUBLIC = {"os._exit", "options.key =", "self.agent_loop_workers_class ="}
PUBLIC |= {f"self.{name} =" for name in ("servers", "_server_address", "_server_handle")}
OF_TUPLES = {"_asdict", "_fields", "_make", "_replace", "_1", "_2"}  # Python's, and Scala's
PYTHONS = {
    *(name for kind in (type, types.FunctionType, types.ModuleType, BaseException) for name in dir(kind)),
    *("__file__", "__final__", "__func__", "__getitem__", "__path__", "__post_init__", "__version__"),
}
IMPORTS = ("import_module", "importlib.import_module")
SETTERS = ("setattr", "delattr", "replaced", "mock.patch.object", "patch.object")


def is_private(name: str) -> bool:
    dunder = name.startswith("__") and name.endswith("__")
    return name not in PYTHONS if dunder else name.startswith("_") and name not in OF_TUPLES


def defined(tree: ast.AST) -> set[str]:
    """The names of functions, classes, variables and attributes of ``self`` that a file makes."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            own = isinstance(node, ast.Name) or ast.unparse(node.value) in ("self", "cls")
            names |= {node.id if isinstance(node, ast.Name) else node.attr} if own else set()
    return names


def foreign(tree: ast.AST) -> dict[str, str]:
    """Names in the file of what is imported from other projects, with their full names."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {(one.asname or one.name).split(".")[0]: one.name.split(".")[0] for one in node.names}
            names |= {one.asname: one.name for one in node.names if one.asname}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names |= {one.asname or one.name: f"{node.module}.{one.name}" for one in node.names}
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            (target,) = node.targets if isinstance(node, ast.Assign) and len(node.targets) == 1 else (node,)
            target = target.target if isinstance(target, ast.AnnAssign) else target
            if isinstance(target, ast.Name) and (module := _module(node.value, names)):
                names[target.id] = module
    return {name: full for name, full in names.items() if full.split(".")[0] not in OURS}


def _module(value: ast.expr | None, names: dict[str, str]) -> str:
    """What a variable is another name of; "" if it is nothing imported."""
    made = isinstance(value, ast.Call) and names.get(ast.unparse(value.func), "").startswith("verl.")
    text = ast.unparse(value.func if isinstance(value, ast.Call) and made else value) if value else ""
    root, dot, rest = text.partition(".")
    if root in names and text.replace(".", "").isidentifier():
        return names[root] + dot + rest + "()" * made
    if isinstance(value, ast.Call) and ast.unparse(value.func) in IMPORTS and isinstance(value.args[0], ast.Constant):
        return str(value.args[0].value)
    return ""


def extends_verl(cls: ast.ClassDef, names: dict[str, str]) -> bool:
    """Whether it is a class of verl's, or a mixin before one."""
    bases = [names.get(ast.unparse(base).split(".")[0], "") for base in cls.bases]
    return any(base.startswith("verl.") for base in bases) or (not bases and "super()" in ast.unparse(cls))


def set_by_verl() -> set[str]:
    """The attributes that verl's classes set in ``self``; verl is not imported."""
    spec = find_spec("verl")
    assert spec is not None and spec.submodule_search_locations
    files = Path(spec.submodule_search_locations[0]).rglob("*.py")
    return {name for file in files for name in re.findall(r"\bself\.(\w+)(?:: .+?)? = ", file.read_text("utf-8"))}


def offences(source: str, ours: Iterable[str] = (), verls: Iterable[str] = ()) -> list[str]:
    """The private names that a file uses, and what it sets in other projects' modules and objects.

    Args:
        ours: the names that any of our files defines: those of ``self`` may come from another file.
        verls: the attributes that verl's classes set in ``self``.
    """
    tree = ast.parse(source)
    names, own, ours = foreign(tree), defined(tree), set(ours)
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    in_verls = {node for cls in classes if extends_verl(cls, names) for node in ast.walk(cls)}

    def full(node: ast.expr) -> str:
        root, dot, rest = ast.unparse(node).partition(".")
        return names.get(root, root) + dot + rest

    def is_foreign(node: ast.expr) -> bool:
        return ast.unparse(node).split(".")[0] in names

    def of_attribute(node: ast.Attribute) -> Iterator[str]:
        known = ours | own if ast.unparse(node.value) in ("self", "cls") else own
        if is_private(node.attr) and (node.attr not in known or is_foreign(node)):
            yield full(node)
        elif isinstance(node.ctx, ast.Store) and (is_foreign(node) or (node in in_verls and of_verl(node))):
            yield f"{full(node)} ="

    def of_verl(node: ast.Attribute) -> bool:
        root, name, *_ = ast.unparse(node).split(".")
        return root == "self" and name in verls

    def of_call(node: ast.Call) -> Iterator[str]:
        called, given = ast.unparse(node.func), [ast.unparse(argument) for argument in node.args]
        literal = len(given) > 1 and isinstance(node.args[1], ast.Constant)
        name = given[1].strip("'") if len(given) > 1 else ""
        if called in SETTERS and given[0].split(".")[0] not in ("self", "cls"):
            yield f"{full(node.args[0])}.{name} ="
        elif called == "object.__setattr__" and given[0] != "self":
            yield f"{given[0]}.{name} ="
        elif called in ("getattr", "hasattr") and literal and is_private(name) and name not in ours | own:
            yield f"{full(node.args[0])}.{name}"

    found = [name for name in names.values() if any(map(is_private, name.split(".")))]
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            found += of_attribute(node)
        elif isinstance(node, ast.Call):
            found += of_call(node)
        elif isinstance(node, ast.Subscript) and ast.unparse(node.value) == "sys.modules":
            found += [f"{ast.unparse(node)} ="] * (not isinstance(node.ctx, ast.Load))
        elif isinstance(node, ast.Constant) and re.fullmatch(r"_\w+\.ya?ml", str(node.value)):
            found.append(str(node.value))
    return [name for name in found if name not in PUBLIC]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("from ray._private import node", "ray._private.node"),
        ("import ray\nray._private.node.start()", "ray._private"),
        ("import ray\nray.remote(A).__ray_metadata__", "ray.remote(A).__ray_metadata__"),
        ("import hydra\nhydra.version.get = None", "hydra.version.get ="),
        ("import a.b\nshort: Any = a.b\nshort.c = None", "a.b.c ="),
        ("layers = import_module('vllm.layers')\nlayers.gemm = None", "vllm.layers.gemm ="),
        ("from a import B\nmock.patch.object(B, 'c')", "a.B.c ="),
        ("def f(engine): engine._lora", "engine._lora"),
        ("def f(engine): getattr(engine, '_lora')", "engine._lora"),
        ("def f(engine): setattr(engine, 'a', 1)", "engine.a ="),
        ("def f(engine):\n  with replaced(engine, 'a', 1): pass", "engine.a ="),
        ("def f(engine): object.__setattr__(engine, 'a', 1)", "engine.a ="),
        ("class A:\n  def f(self): self._update()", "self._update"),
        ("class A:\n  def f(self): self.trainer._update()", "self.trainer._update"),
        ("class A:\n  def f(self): return made(self)._update()", "made(self)._update"),
        ("import sys\nsys.modules['a'] = None", "sys.modules['a'] ="),
        ("from verl.a import B\nclass A(B):\n  def f(self): self.logger.log = 1", "self.logger.log ="),
        ("class A:\n  def f(self): super().f(); self.logger = 1", "self.logger ="),
        ("from verl.a import load\nmodel = load()\nmodel.tokenizer.b = 1", "verl.a.load().tokenizer.b ="),
        ("open('_generated.yaml')", "_generated.yaml"),
    ],
)
def test_each_kind_is_seen(source: str, found: str) -> None:
    assert found in offences(source, verls={"logger"})


@pytest.mark.parametrize(
    "source",
    [
        "class A:\n  def f(self): return self._g()\n  def _g(self): return other._h\nclass B:\n  _h = 1",
        "class A(Base):\n  def f(self): return self._of_base",
        "class A:\n  def __init__(self): object.__setattr__(self, 'a', type(self).__name__)",
        "import os\nfrom turngrid.envs import types\nos.environ['A'] = row._replace(a=1)",
    ],
)
def test_our_own_names_are_not(source: str) -> None:
    assert offences(source, ours={"_of_base"}) == []


def test_only_the_listed_names_are_used() -> None:
    files = subprocess.check_output(["git", "ls-files", "--", *ROOMS], cwd=ROOT, text=True).splitlines()
    sources = {file: (ROOT / file).read_text(encoding="utf-8") for file in files if file.endswith(".py")}
    ours = {name for source in sources.values() for name in defined(ast.parse(source))}
    verls = set_by_verl()
    found = {file: set(offences(source, ours, verls)) for file, source in sources.items()}
    listed = {file: set(names) for file, names in PRIVATE_NAMES.items()}
    assert {file: names for file, names in found.items() if names} == listed


def test_each_name_has_its_reason_and_an_end() -> None:
    reasons = {why for names in PRIVATE_NAMES.values() for why in names.values()} - {SHOWN}
    assert not [why for why in reasons if ". Until " not in why]
