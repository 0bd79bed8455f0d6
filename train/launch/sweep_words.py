"""The command line of a sweep: what the sweep takes for itself, what varies besides, and what all its runs get."""

from __future__ import annotations

from collections.abc import Sequence

from hydra.core.override_parser.types import ChoiceSweep, Override, RangeSweep

from config.errors import ConfigError
from experiments.sweep.definition import Axis, Scale
from records.run_folder import outside_identity

YES, NO = ("true", "yes", "y", "on", "1"), ("false", "no", "n", "off", "0")
TAKEN = ("sweep", "scale", "seed", "dry_run", "fresh")  # words of the sweep; everything else goes to its runs
ONLY = "only."


def split_only(overrides: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """The overrides that Hydra's grammar is for, and axis -> text of ``only.AXIS=TEXT``: names such as ``sft=0,rl=1000`` and
    ``1e-5`` are no values of that grammar."""
    own = [text for text in overrides if text.startswith(ONLY)]
    named = [text.removeprefix(ONLY).partition("=") for text in own]
    return [text for text in overrides if text not in own], {axis: values for axis, _, values in named}


class SweepWords:
    """Overrides as Hydra parsed them, sorted by whom they are for."""

    def __init__(self, overrides: Sequence[Override]) -> None:
        self._all = overrides

    def one(self, key: str, default: str) -> str:
        """Raises: ConfigError: several values."""
        found = [override for override in self._all if override.key_or_group == key]
        if found and found[-1].is_sweep_override():
            raise ConfigError(f"{found[-1].input_line}: one {key} at a time")
        return found[-1].get_value_element_as_str() if found else default

    def yes(self, key: str) -> bool:
        """As a run reads a bool. Raises: ConfigError: it is none."""
        word = self.one(key, "false").lower()
        if word not in YES + NO:
            raise ConfigError(f"{key}={word} must be true or false")
        return word in YES

    def seeds(self, scale: Scale) -> list[int]:
        """Raises: ConfigError: a seed that is no number."""
        found = [override for override in self._all if override.key_or_group == "seed"]
        try:
            return [int(text) for text in _values(found[-1])] if found else list(scale.seeds)
        except ValueError as error:
            raise ConfigError(f"{found[-1].input_line}: seeds are whole numbers, as in seed=0,1,2") from error

    def extra(self) -> list[str]:
        return [override.input_line or "" for override in self._rest() if not override.is_sweep_override()]

    def varied(self) -> list[str]:
        return [override.input_line or "" for override in self._rest() if override.is_sweep_override()]

    def changing(self) -> list[str]:
        """What makes other runs of it, and so another sweep; where runs compute and who watches does not."""
        return [text for text in (*self.extra(), *self.varied()) if not outside(text.lstrip("+~").split("=")[0])]

    def axes(self) -> dict[str, Axis]:
        """An axis of its own for each key with several values."""
        several = [override for override in self._rest() if override.is_sweep_override()]
        return {o.key_or_group: {text: [f"{o.get_key_element()}={text}"] for text in _values(o)} for o in several}

    def _rest(self) -> list[Override]:
        return [override for override in self._all if override.key_or_group not in TAKEN]


def outside(key: str) -> bool:
    """A key of a group that is no part of a run's identity, or one that such a group sets."""
    return key in outside_identity() or key.split(".")[0] in outside_identity()


def _values(override: Override) -> list[str]:
    """Raises: ConfigError: they are not written out, as in ``algo=glob(*)``."""
    if not override.is_sweep_override():
        return [override.get_value_element_as_str()]
    if not isinstance(override.value(), ChoiceSweep | RangeSweep):
        raise ConfigError(f"{override.input_line}: write the values out, as in {override.key_or_group}=A,B")
    return list(override.sweep_string_iterator())
