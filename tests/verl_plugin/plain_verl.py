"""verl without our plugin, in an interpreter of its own, which several files share: ``python
plain_verl.py`` reads the entries of our changes from its input, and prints what it finds."""

import importlib
import inspect
import json
import sys
from importlib.util import find_spec
from types import ModuleType


def vllm_adapter() -> ModuleType:
    """verl's transfer of weights to vLLM; without vLLM, the module alone, not its package."""
    package = ModuleType("verl.workers.rollout.vllm_rollout")
    package.__path__ = [f"{importlib.import_module('verl').__path__[0]}/workers/rollout/vllm_rollout"]
    sys.modules.update({} if find_spec("vllm") else {package.__name__: package})
    return importlib.import_module(f"{package.__name__}.bucketed_weight_transfer")


def signature(module: str, name: str) -> str:
    """The parameters of what stands there; "" if it is no function."""
    try:
        thing = importlib.import_module(module)
        for part in name.split("."):
            thing = inspect.getattr_static(thing, part, None) or getattr(thing, part)
        thing = getattr(thing, "_function", thing)
        callable_there = inspect.isroutine(thing) or inspect.isclass(thing)
        return ", ".join(inspect.signature(thing).parameters) if callable_there else ""
    except Exception as error:  # noqa: BLE001 - a test shows it
        return f"{type(error).__name__}: {error}"


def shows(bug: str) -> str:
    """ "" if the bug is there, else what happened."""
    import test_verl_bugs

    try:
        getattr(test_verl_bugs, bug)()
        return ""
    except BaseException as error:  # noqa: BLE001 - also an exit
        return repr(error)


if __name__ == "__main__":
    vllm_adapter()
    asked = json.load(sys.stdin)
    signatures = [signature(module, name) for module, name in asked["entries"]]
    bugs = {bug: shows(bug) for bug in asked["bugs"]}
    print(json.dumps({"signatures": signatures, "bugs": bugs}))
