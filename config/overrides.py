"""A run's overrides: read, refused where Hydra would take them without a word, and blamed where it cannot compose them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache

from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, Quote, QuotedString, RangeSweep
from hydra.errors import MissingConfigException, OverrideParseException
from omegaconf import DictConfig, OmegaConf

from algorithms.registry import ONE, SLOTS
from config import base
from config.errors import ConfigError
from config.schema import NODES, Top
from config.suggest import all_options, exists, groups, tree_with, wrong_key, wrong_option
from config.values import values
from envs.utils.names import meant
from records.process.exit_codes import Refusal

STEERING = (
    "{key} only steers verl's own defaults list, which has been followed by now: it would do nothing here. "
    "Set the keys themselves, such as actor_rollout_ref.actor.strategy"
)
OPTIONAL = ("recipe",)
SEARCHPATH = "hydra.searchpath"  # folders of options besides ours
RUNS = 10**4
LONG = 300  # letters of a message of somebody else's
MULTIRUN = "sweep=NAME starts several runs; add -m"
NODE_OF_GROUP = {"reward": "turn_reward"}  # every other group's node has the group's name


def parse(overrides: Sequence[str]) -> list[Override]:
    """Raises: ConfigError: one of them is no override."""
    parsed = []
    for text in overrides:
        try:
            parsed += OverridesParser.create().parse_overrides([text])
        except OverrideParseException as error:
            if isinstance(getattr(Top, text, None), bool):
                raise ConfigError(f"{text} has no value; did you mean {text}=true?") from error
            reason = str(error).split("\n")[0]
            raise ConfigError(f"cannot read {text!r} ({reason}); an override looks like KEY=VALUE") from error
    if nameless := next((override for override in parsed if not override.key_or_group), None):
        raise ConfigError(f"cannot read {nameless.input_line!r} (no key); an override looks like KEY=VALUE")
    if endless := next(
        (override for override in parsed if override.is_range_sweep() and not _runs(override.value())), None
    ):
        raise ConfigError(f"{endless.input_line} must be a range of 1 to {RUNS} values, as in range(0,3)")
    return parsed


def _runs(values: RangeSweep) -> bool:
    """Whether a range holds values, and not more than anybody could run."""
    return bool(values.step) and 0 < (values.stop - values.start) / values.step <= RUNS


def is_single(override: Override) -> bool:
    """Whether it is about one key: a group or a whole node has no dot in its name."""
    key = override.key_or_group
    return override.package is None and ("." in key or key in Top.__dataclass_fields__) and not key.startswith("hydra")


def interpolates(override: Override) -> bool:
    """As it was read, since Hydra's sweepers escape the signs in what they hand on."""
    return "${" in str(override.value())


def typed(override: Override) -> str:
    return override.input_line or ""


def search_paths(overrides: Sequence[str]) -> list[str]:
    """Those that name folders of options, as they were typed."""
    return [text for text in overrides if text.lstrip("+").startswith(f"{SEARCHPATH}=")]


def places(overrides: Iterable[Override]) -> list[str]:
    """The folders of options that they name. Raises: ConfigError: one names no list of them."""
    found: list[str] = []
    for override in overrides:
        if names_places(override) and (value := override.value()) is not None:
            if not isinstance(value, list) or not all(isinstance(place, str) for place in value):
                raise ConfigError(f"{typed(override)} must be a list of strings, as in {SEARCHPATH}=[file:///FOLDER]")
            found += map(str, value)
    return found


def names_places(override: Override) -> bool:
    return override.key_or_group == SEARCHPATH and not override.is_delete()


def quoted(text: str) -> str:
    """A value that is read as exactly these letters."""
    return QuotedString(text, Quote.single).with_quotes()


@cache
def verl_groups() -> set[str]:
    """What verl's own defaults list chooses from."""
    return {path.name for path in base.verl_folder().iterdir() if path.is_dir()}


def refuse_at_sight(overrides: Sequence[str], *, elsewhere: bool = False) -> list[Override]:
    """The overrides, parsed; refuses what Hydra would take without a word, or answer with a traceback, or after a while.

    Args:
        elsewhere: there may be groups and options in a folder of the user's own.

    Raises:
        ConfigError: a choice among verl's groups (``actor@actor_rollout_ref.actor=...``), a group of ours that is
            removed, set to nothing or to an option that does not exist, a key of ours or verl's that is removed, several
            values or a sweep without ``-m``.
    """
    parsed = parse(overrides)
    elsewhere = elsewhere or any(override.key_or_group == SEARCHPATH for override in parsed)
    for override in parsed:
        key = override.key_or_group
        if not elsewhere and (problem := _unknown(override)):
            raise ConfigError(problem)
        if key == "sweep":
            raise ConfigError(MULTIRUN)
        if override.is_add() or override.is_force_add():
            _refuse_stray(override)
        if key == "model_engine" or (override.package and key in verl_groups()):
            raise ConfigError(STEERING.format(key=override.get_key_element().lstrip("+~")))
        if override.is_sweep_override():
            raise ConfigError(f"{override.input_line}: several values start several runs; add -m")
        if key in groups() and (problem := _no_option(override)):
            raise ConfigError(problem)
        if override.is_delete() and key not in groups() and _needed(key):
            raise ConfigError(f"{key} cannot be removed: every run needs it; set it, by {key}=VALUE")
        if is_single(override) and not override.is_delete() and (problem := values.wrong(key, override.value())):
            raise ConfigError(problem)
    return parsed


def _no_option(override: Override) -> str | None:
    """What is wrong with the value of a group, apart from an option that does not exist and may be in a folder of the
    user's own."""
    key, value = override.key_or_group, override.value()
    if key not in OPTIONAL and (override.is_delete() or value is None):
        return f"{key} needs one of: {', '.join(all_options()[key])}"
    if key in ONE and isinstance(value, list) and len(value) > 1:
        return f"{override.input_line}: choose one, since a step has one"
    if override.package:
        return f"{override.input_line}: an option goes where its file says; {key}={value}"
    if isinstance(value, list):
        alone = f"{override.input_line}: one option at a time; -m {key}=A,B runs both"
        return wrong_option(override) if key in SLOTS else alone
    if override.is_delete() or (isinstance(value, str | dict) and key not in OPTIONAL):
        return None
    return wrong_option(override)


def _unknown(override: Override) -> str | None:
    """An option that there is not, or a word without a dot that is no group, node or key."""
    key, value = override.key_or_group, override.value()
    if key in groups():
        stored = f"{value}.yaml" in ConfigStore.instance().repo.get(key, {})
        return wrong_option(override) if isinstance(value, str) and not stored and "${" not in value else None
    known = {"sweep", "model_engine", *verl_groups(), *top_names()}
    return None if re.split(r"[./]", key)[0] in known else wrong_key(override, tree_with())


def top_names() -> list[str]:
    """What an override may begin with."""
    return [*groups(), *NODES, *Top.__dataclass_fields__, *map(str, base.verl_tree()), "hydra"]


def _refuse_stray(override: Override) -> None:
    """Raises: ConfigError: a node is added that nobody would look at."""
    node, _, _ = override.key_or_group.partition(".")
    if node not in top_names() and not node.startswith("hydra/"):
        raise ConfigError(f"{override.input_line}: nothing reads {node}{meant(node, top_names())}")


def _needed(key: str) -> bool:
    """A key of ours or of verl's own tree; what was added to that may go again. Nodes have an answer of their own."""
    node, _, below = key.partition(".")
    return key in Top.__dataclass_fields__ or bool(below) and (node in NODES or exists(base.verl_tree(), key))


def refuse_flattened_nodes(config: DictConfig, overrides: Sequence[Override]) -> None:
    """Raises: ConfigError: a whole node was replaced by a value or removed, as in ``turn_reward=dense``."""
    for node in [*NODES, *base.verl_tree()]:
        lost = (
            node not in config or OmegaConf.is_dict(base.verl_tree().get(node)) and not OmegaConf.is_dict(config[node])
        )
        if lost or (node in NODES and not OmegaConf.is_dict(config[node])):
            raise ConfigError(_about_node(node, overrides))


def _about_node(node: str, overrides: Iterable[Override]) -> str:
    value = next((o.value() for o in overrides if o.key_or_group == node), None)
    meant_by = {owner: group for group, owner in NODE_OF_GROUP.items()} | {"algorithm": "algo"}
    group = meant_by.get(node)
    if group:
        return f"{node} is a node of settings; did you mean {group}={value if value is not None else 'NAME'}?"
    return f"{node} is a node of settings, which cannot be replaced or removed; set its keys: {node}.KEY=VALUE"


def explain(overrides: Sequence[str], error: Exception, fails: Callable[[Override], bool]) -> str:
    """One line about the override that is to blame; else the first line of Hydra's own message.

    Args:
        fails: whether an override cannot be composed without the others either.
    """
    if problem := _refused(error):
        return problem
    parsed = parse(overrides)
    if isinstance(error, MissingConfigException):
        wrong = (problem for o in parsed if o.key_or_group in groups() and (problem := wrong_option(o)))
        return next(wrong, " ".join(str(error).split()))
    chosen = [o.input_line for o in parsed if o.key_or_group in (*groups(), SEARCHPATH) and o.input_line]
    tree = tree_with(*chosen)
    for override in parsed:
        if problem := wrong_key(override, tree) or _wrong_type(override, error):
            return problem
    return _blamed(parsed, " ".join(str(error.__cause__ or error).split("\n")[0].split()), fails)


def _refused(error: BaseException | None) -> str | None:
    """What an interpolation's own function refuses, such as a model that is not there."""
    while error is not None:
        if isinstance(error, Refusal):
            return str(error)
        error = error.__cause__ or error.__context__
    return None


def _blamed(overrides: Sequence[Override], reason: str, fails: Callable[[Override], bool]) -> str:
    """What somebody else says, beside the override that it is about: of those that interpolate, or of all that there are."""
    likely = [override for override in overrides if interpolates(override)] or overrides
    if not likely or any(override.key_or_group in reason for override in likely):
        return reason[:LONG]
    alone = next((override for override in likely if len(likely) > 1 and fails(override)), None)
    return f"{typed(alone) if alone else ' '.join(map(typed, likely))}: {reason[:LONG]}"


def _wrong_type(override: Override, error: Exception) -> str | None:
    if (
        type(error.__cause__).__name__ not in ("ValidationError", "UnsupportedValueType")
        and error.__cause__ is not None
    ):
        return None
    if override.input_line is None or override.input_line not in str(error):
        return None
    reason = " ".join(str(error.__cause__ or error).split("\n")[0].split())
    return f"{override.key_or_group}: {reason}"
