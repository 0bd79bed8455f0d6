"""Find our overrides of verl's methods from our classes, and the reasons of all changes."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass

from turngrid import verl_plugin
from turngrid.verl_plugin.changes import Table

OURS = "turngrid.verl_plugin"
_ENGINE = "verl.workers.engine.fsdp.transformer_impl"

# What our own code replaces in the process that needs it, by module and name
IN_PROCESS: Table = {
    "verl.trainer.sft_trainer": {"Tracking": "turngrid.verl_plugin.sft:Tracking"},
    "verl.utils.model": {"get_hf_auto_model_class": "turngrid.verl_plugin.whole_models:whole"},
}

ON_CPUS: Table = {
    _ENGINE: {
        "prepare_micro_batches": "turngrid.verl_plugin.cpu.engines:prepare",
        "CPUOffloadPolicy": "turngrid.verl_plugin.cpu.engines:_OnCpu.initialize",
        "MixedPrecisionPolicy": "turngrid.verl_plugin.cpu.engines:_weights_only",
    },
    "verl.utils.model": {"load_valuehead_model": "turngrid.verl_plugin.cpu.engines:load_value_model"},
}


@dataclass(frozen=True)
class Override:
    """A method of verl's class ``theirs`` that our class ``ours`` overrides.

    Attributes:
        why: the first sentence of the method's docstring, else of the class's.
        end: the condition for removal, likewise.
    """

    ours: str
    theirs: str
    method: str
    why: str
    end: str


def overrides() -> list[Override]:
    """Return every override, but of methods that verl leaves abstract and of hooks ``on_...``."""
    return list(dict.fromkeys(one for cls in _our_classes() for one in _of(cls)))


def _our_classes() -> list[type]:
    names = [module.name for module in pkgutil.walk_packages(verl_plugin.__path__, "turngrid.verl_plugin.")]
    things = [thing for name in names for thing in vars(importlib.import_module(name)).values()]
    return [thing for thing in dict.fromkeys(filter(inspect.isclass, things)) if _is_of(thing, OURS)]


def _is_of(cls: type, package: str) -> bool:
    return f"{cls.__module__}.".startswith(f"{package}.")


def _of(cls: type) -> Iterator[Override]:
    """Yield the overrides in our classes in the MRO of ``cls``."""
    for index, ours in enumerate(cls.__mro__):
        bases = [base for base in cls.__mro__[index:] if _is_of(base, "verl")]
        for name, value in vars(ours).items() if _is_of(ours, OURS) else ():
            of_verl = [vars(base)[name] for base in bases if name in vars(base)]
            if not of_verl or not inspect.isfunction(value) or name.startswith(("__", "on_")):
                continue
            if not getattr(of_verl[0], "__isabstractmethod__", False):
                base = next(base for base in reversed(bases) if name in vars(base))
                yield Override(
                    _named(ours), _named(base), name, reason(value) or reason(ours), until(value) or until(ours)
                )


def _named(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__.removeprefix('_modify_class.<locals>.')}"


def reason(thing: object) -> str:
    """Return the first sentence of a docstring."""
    text = inspect.cleandoc(thing.__doc__ or "").split("\n\n")[0].replace("\n", " ").replace("``", "`")
    return text.split(". ")[0].rstrip(".")


def until(thing: object) -> str:
    """Return the docstring's paragraph with the condition for removal; "" if there is none."""
    paragraphs = (" ".join(one.split()) for one in (thing.__doc__ or "").split("\n\n"))
    return next((one.rstrip(".") for one in paragraphs if one.startswith("Until ")), "")
