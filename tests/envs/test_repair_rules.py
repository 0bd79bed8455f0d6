"""Which files a repair may change: none that tests import."""

from repair_samples import row

from turngrid.envs.repair.instance import Instance
from turngrid.envs.repair.patches import diff
from turngrid.envs.repair.providers import InlineFiles
from turngrid.envs.repair.workspace import Workspace

# path -> (text, whether it belongs to the tests)
REPOSITORY = {
    "checks/test_all.py": ("import helped\nfrom shop.calc import add\nfrom shop import words", True),
    "checks/conftest.py": ("pytest_plugins = ['kit.fixtures']", True),
    "checks/helped.py": ("def read(:", True),
    "kit/fixtures/__init__.py": ("from . import near\nfrom .deep.last import *", True),
    "kit/fixtures/near.py": ("def later():\n    from ..far import x", True),
    "kit/fixtures/deep/last.py": ("from .... import above", True),
    "kit/far.py": ("import json, kit.fixtures", True),
    "src/shop/__init__.py": ("", True),
    "src/shop/words.py": ("import plain", True),
    "src/shop/calc.py": ("from . import parts", False),  # the reference repair changes it
    "src/shop/parts.py": ("", False),
    "src/shop/json.py": ("", False),
    "tools/other.py": ("import helped", False),
}


def test_what_the_tests_import_is_no_source_file():
    files = {path: text for path, (text, _) in REPOSITORY.items()}
    changed = {**files, "src/shop/calc.py": files["src/shop/calc.py"] + "\nadd = max"}
    tests = ["checks/test_all.py::test_add"]
    made = Instance.from_dict(
        {
            **row(),
            "files": files,
            "FAIL_TO_PASS": tests,
            "PASS_TO_PASS": [],
            "test_patch": "",
            "patch": diff(files, changed),
        }
    )
    with Workspace(made, InlineFiles()) as workspace:
        graders = {path: not workspace.is_source(path) for path in files}
    assert graders == {path: run for path, (_, run) in REPOSITORY.items()}


def test_tests_that_come_with_the_instance_are_read_too():
    files = {path: text for path, (text, _) in REPOSITORY.items()}
    told = {"files": files, "FAIL_TO_PASS": ["checks/test_all.py::test_add"], "PASS_TO_PASS": []}
    patches = {
        "patch": diff({"a.py": ""}, {"a.py": "x"}),
        "test_patch": diff(files, {**files, "checks/test_all.py": "import other"}),
    }
    with Workspace(
        Instance.from_dict({**row(), **told, **patches, "files": {**files, "a.py": ""}}), InlineFiles()
    ) as workspace:
        assert not workspace.is_source("tools/other.py")
        assert workspace.is_source("src/shop/words.py")
