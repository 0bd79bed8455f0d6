"""A run's overrides: parse them, refuse what Hydra accepts silently, explain its errors."""

from collections.abc import Sequence
from typing import Any, get_type_hints

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, Quote, QuotedString
from hydra.errors import MissingConfigException, OverrideParseException
from omegaconf import DictConfig, OmegaConf

from turngrid.algorithms.registry import SLOTS
from turngrid.config import base
from turngrid.config.errors import ConfigError
from turngrid.config.suggest import all_options, groups, keys_with, wrong_key, wrong_option
from turngrid.envs.utils.names import meant
from turngrid.records.process.exit_codes import Refusal
from turngrid.records.run_folder import dotted
from turngrid.tasks.schema import NODES, Top

OPTIONAL = ("recipe",)
HYDRAS = "hydra"  # the node of Hydra's own settings
RUNS = 10**4
LONG = 300  # maximum characters of another project's message
GROUP_OF_NODE = {"turn_reward": "reward", "algorithm": "algo"}


def parse(overrides: Sequence[str]) -> list[Override]:
    """Parse the overrides; raise ConfigError if one is no override."""
    parsed = []
    for text in overrides:
        try:
            parsed += OverridesParser.create().parse_overrides([text])
        except OverrideParseException as error:
            if get_type_hints(Top).get(text) is bool:
                raise ConfigError(f"{text} has no value; use {text}=true") from error
            reason = str(error).split("\n")[0]
            raise ConfigError(f"cannot read {text!r} ({reason}); use KEY=VALUE") from error
    for override in parsed:
        if not override.key_or_group:
            raise ConfigError(f"cannot read {override.input_line!r} (no key); use KEY=VALUE")
        values: Any = override.value()
        if override.is_range_sweep() and not (values.step and 0 < (values.stop - values.start) / values.step <= RUNS):
            raise ConfigError(f"{override.input_line} must be a range of 1 to {RUNS} values; use range(0,3)")
    return parsed


def is_value(override: Override) -> bool:
    """Return whether an override gives one key a value, in place of what it had.

    A mapping does so only as a method's setting (a schedule). Else Hydra merges it into the node.
    """
    key, value = override.key_or_group, override.value()
    plain = override.package is None and not (override.is_force_add() or override.is_delete())
    slot, *setting = key.split(".")
    replaces = not isinstance(value, dict) or (slot in SLOTS and len(setting) == 2)
    return plain and replaces and (key in get_type_hints(Top) or bool(setting))


def typed(override: Override) -> str:
    return override.input_line or ""


def quoted(text: str) -> str:
    """Quote a value, so that Hydra reads exactly these characters."""
    return QuotedString(text, Quote.single).with_quotes()


def problem(override: Override, elsewhere: bool) -> str | None:
    """Return why an override is refused that Hydra accepts silently or answers with a traceback.

    These are a group that is removed, null or set to an unknown option, a key that is removed, a
    setting of Hydra's own, several values or a sweep without ``-m``.
    """
    key, line = override.key_or_group, override.input_line
    if key == "sweep" or override.is_sweep_override():
        return f"{line}: it starts several runs; add -m"
    if key.startswith(HYDRAS):
        return f"{line}: turngrid reads no settings of Hydra's own; use --config-dir FOLDER or cluster=NAME"
    if key in groups():
        return _wrong_choice(override, elsewhere)
    node, _, below = key.partition(".")
    if override.is_delete():  # only an added key may be removed
        verls: Any = OmegaConf.to_container(base.verl_tree())
        needed = key in get_type_hints(Top) or (below and (node in NODES or key in dict(dotted(verls))))
        return f"{key} cannot be removed: every run needs it; use {key}=VALUE" if needed else None
    if (override.is_add() or override.is_force_add()) and node not in top_names():
        return f"{line}: nothing reads {node}{meant(node, top_names())}"
    return None


def _wrong_choice(override: Override, elsewhere: bool) -> str | None:
    key, value = override.key_or_group, override.value()
    if key not in OPTIONAL and (override.is_delete() or value is None):
        return f"{override.input_line}: every run has one; use {key}={' or '.join(all_options()[key])}"
    if override.package:
        return f"{override.input_line}: an option goes where its file says; use {key}={value}"
    if isinstance(value, list) and key not in SLOTS:
        return f"{override.input_line}: one option at a time; use -m {key}=A,B to run both"
    in_own_folder = elsewhere and isinstance(value, str | list)
    skip = in_own_folder or override.is_delete() or isinstance(value, dict) or "${" in str(value)
    return None if skip else wrong_option(override)


def top_names() -> list[str]:
    """Return the words that an override may begin with."""
    return [*groups(), *NODES, *get_type_hints(Top), *map(str, base.verl_tree())]


def refuse_flattened_nodes(config: DictConfig, overrides: Sequence[Override]) -> None:
    """Raise ConfigError if an override replaces or removes a node, as ``turn_reward=dense``."""
    verl = base.verl_tree()
    for node in (*NODES, *(str(node) for node in verl if OmegaConf.is_dict(verl[node]))):
        if not OmegaConf.is_dict(config.get(node)):
            value = next((override.value() for override in overrides if override.key_or_group == node), None)
            instead = f"{GROUP_OF_NODE[node]}={value or 'NAME'}" if node in GROUP_OF_NODE else f"{node}.KEY=VALUE"
            raise ConfigError(f"{node} is a node of settings, which cannot be replaced or removed; use {instead}")


def explain(overrides: Sequence[str], error: Exception) -> str:
    """Return one line for an error of Hydra or OmegaConf: the override to blame, and the reason."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, Refusal):  # of a resolver
            return str(cause)
        cause = cause.__cause__ or cause.__context__
    parsed = parse(overrides)
    choices = [override for override in parsed if override.key_or_group in groups()]
    if isinstance(error, MissingConfigException):
        return next(filter(None, map(wrong_option, choices)), " ".join(str(error).split()))
    keys = keys_with(*(typed(o) for o in parsed if o in choices or o.key_or_group.startswith(HYDRAS)))
    for unknown in filter(None, (wrong_key(override, keys) for override in parsed)):
        return unknown
    reason = " ".join(str(error.__cause__ or error).split("\n")[0].split())
    named = [override for override in parsed if typed(override) and typed(override) in str(error)]
    likely = named or [override for override in parsed if "${" in str(override.value())] or parsed
    return f"{' '.join(map(typed, likely))}: {reason[:LONG]}"
