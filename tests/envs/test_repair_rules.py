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


FILES = {path: text for path, (text, _) in REPOSITORY.items()}


def workspace(files: dict[str, str], **changes: str) -> Workspace:
    tests = {"FAIL_TO_PASS": ["checks/test_all.py::test_add"], "PASS_TO_PASS": []}
    return Workspace(Instance.from_dict(row(files=files, **tests, **changes)), InlineFiles())


def test_what_the_tests_import_is_no_source_file():
    changed = {**FILES, "src/shop/calc.py": FILES["src/shop/calc.py"] + "\nadd = max"}
    with workspace(FILES, patch=diff(FILES, changed)) as place:
        assert {path: not place.is_source(path) for path in FILES} == {
            path: ours for path, (_, ours) in REPOSITORY.items()
        }


def test_tests_that_come_with_the_instance_are_read_too():
    hidden = diff(FILES, {**FILES, "checks/test_all.py": "import other"})
    with workspace({**FILES, "a.py": ""}, patch=diff({"a.py": ""}, {"a.py": "x"}), test_patch=hidden) as place:
        assert not place.is_source("tools/other.py")
        assert place.is_source("src/shop/words.py")
