"""Compose a run's complete config from command-line overrides."""

import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, lru_cache

from hydra import initialize_config_dir
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from turngrid.config import base, extension, machine, method_settings, nodes, precision, suggest
from turngrid.config import overrides as given
from turngrid.config.errors import ConfigError
from turngrid.config.finalise import finalise
from turngrid.config.values import values
from turngrid.envs import extensions

Composer = Callable[[Sequence[str]], DictConfig]
KEPT = 256  # maximum number of cached configs with different options

# Errors of Hydra and OmegaConf while they compose; for odd overrides they raise built-in ones too
NOT_COMPOSED = (HydraException, OmegaConfBaseException, AttributeError, TypeError, ValueError)


def compose(overrides: Sequence[str], config_dir: str | None = None) -> DictConfig:
    """Compose the complete config of one run: no default is left for a later stage.

    Args:
        overrides: as on the command line: ``["algo=ppo", "actor_rollout_ref.rollout.n=8"]``.
        config_dir: a folder with groups of the user, searched besides ``conf/``.

    Raises:
        ConfigError: a typo, an unknown option, or a value of a wrong type or outside its range.
    """
    with composer(config_dir) as composed:
        return composed(overrides)


@contextmanager
def composer(config_dir: str | None = None) -> Iterator[Composer]:
    """Return a function that composes several configs with one initialisation of Hydra."""
    base.register()
    with initialize_config_dir(str(base.CONF), version_base="1.3"):
        yield lambda overrides: _whole(overrides, config_dir)


def _whole(overrides: Sequence[str], config_dir: str | None) -> DictConfig:
    if typed := next((word for word in overrides if word.lstrip("+").startswith(f"{precision.KEY}=")), None):
        raise ConfigError(f"{typed}: it follows from precision; use precision=auto, fp32 or bf16")

    def of_one(words: Sequence[str]) -> DictConfig:
        config = finalise(_explained(words, config_dir))
        begun = precision.begun_in(config)
        if begun in (None, config.cluster.computes_in):
            return config
        return finalise(_explained([*words, f"{precision.KEY}={begun}"], config_dir))

    if run := extension.source(overrides):
        return extension.compose_extended(overrides, run, of_one)
    config = of_one(overrides)
    if config.extend is not None:  # set by a file, it would change the settings of the run
        raise ConfigError(f"extend={config.extend} belongs on the command line, beside budget.rl_steps=STEPS")
    return config


def _searched(config_dir: str | None) -> tuple[str, ...]:
    """Return the override that adds folders of options to Hydra's search path."""
    offered = extensions.conf_folders() if suggest.of_packages() else []
    places = [given.quoted(f"file://{folder}") for folder in [*filter(None, [config_dir]), *offered]]
    return (f"{given.HYDRAS}.searchpath=[{','.join(places)}]",) if places else ()


def _explained(overrides: Sequence[str], config_dir: str | None) -> DictConfig:
    """Compose, check and type all values; explain an error by the override that caused it."""
    parsed = given.parse(overrides)
    for problem in filter(None, (given.problem(override, bool(config_dir)) for override in parsed)):
        raise ConfigError(problem)
    extra = _searched(config_dir)
    try:
        config = _composed(extra, parsed)
    except ConfigError:
        raise
    except NOT_COMPOSED as error:
        raise ConfigError(given.explain([*extra, *overrides], error)) from error
    try:
        given.refuse_flattened_nodes(config, parsed)
        settings = nodes.settings_of(config)
        values.check(config, settings)
        nodes.give_types(config, settings)
        method_settings.give_types(config)
        values.check(config, settings, results=True)
        return config
    except extensions.UnknownName as error:  # two packages offer a name
        raise ConfigError(str(error)) from error
    except OmegaConfBaseException as error:  # an interpolation that cannot be resolved
        raise ConfigError(given.explain([*extra, *overrides], error)) from error


def _composed(extra: tuple[str, ...], overrides: Sequence[Override]) -> DictConfig:
    """Compose the options once (0.2 s); runs that differ only in values copy the result (3 ms)."""
    singles = [override for override in overrides if given.is_value(override)]
    rest = [override for override in overrides if override not in singles]
    groups = all(override.key_or_group in suggest.groups() for override in rest)
    if not groups:  # +node={}: keep the order of all
        singles, rest = [], list(overrides)
    options = (*extra, *map(given.typed, rest))
    config: DictConfig = pickle.loads(_with_options(options, machine.gpu_rollout(), groups))
    for override in singles:
        key, is_new = override.key_or_group, override.is_add()
        if is_new and OmegaConf.select(config, key) is not None:
            raise ConfigError(
                f"{given.typed(override)}: the key has a value already; use {key}={override.get_value_element_as_str()}"
            )
        OmegaConf.update(config, key, override.value(), merge=False, force_add=is_new)
    return config


@lru_cache(maxsize=KEPT)
def _with_options(options: tuple[str, ...], server: str, groups: bool) -> bytes:
    """Compose the options; if they only choose files of ``groups``, without verl's tree below them.

    Hydra would copy that tree's 900 keys three times. Other options may change its keys.
    """
    ours = base.hydra_config(options, whole=not groups)
    if not groups:
        return pickle.dumps(ours)
    whole = OmegaConf.unsafe_merge(pickle.loads(_verl_tree()), ours)  # it changes both
    OmegaConf.set_struct(whole, True)
    return pickle.dumps(whole)


@cache
def _verl_tree() -> bytes:
    return pickle.dumps(base.verl_tree())
