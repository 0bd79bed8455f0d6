"""Compose a run's complete config from command-line overrides."""

import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, lru_cache

from hydra import compose as hydra_compose
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
KEPT = 64  # maximum number of cached configs with different options

# Errors of Hydra and OmegaConf while they compose; for odd overrides they raise built-in ones too
NOT_COMPOSED = (HydraException, OmegaConfBaseException, AttributeError, TypeError, ValueError)


def compose(overrides: Sequence[str], config_dir: str | None = None) -> DictConfig:
    """Compose the complete config of one run: no default is left for a later stage.

    Args:
        overrides: as on the command line: ``["algo=ppo", "actor_rollout_ref.rollout.n=8"]``.
        config_dir: a folder with groups of the user, searched besides ``conf/``.

    Raises:
        ConfigError: a typo, a value of a wrong type or outside its range, or an unknown option. The
            message is one line with the nearest valid choice.
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
    def of_one(words: Sequence[str]) -> DictConfig:
        config = finalise(_explained(words, config_dir))
        begun = precision.begun_in(config)
        if begun in (None, config.cluster.computes_in):
            return config
        return finalise(_explained([*words, f"cluster.computes_in={begun}"], config_dir))

    if run := extension.source(overrides):
        return extension.compose_extended(overrides, run, of_one)
    config = of_one(overrides)
    if config.extend is not None:  # set by a file, it would change the settings of the run
        raise ConfigError(f"extend={config.extend} belongs on the command line, beside budget.rl_steps=STEPS")
    return config


def packages(overrides: Sequence[Override], config_dir: str | None) -> list[str]:
    """Return the option folders of other packages, if a choice needs them.

    An override, or a file of ``config_dir``, may choose an option that is not in ``conf/``.

    Raises:
        ConfigError: two packages offer the same option.
    """
    needed = config_dir or suggest.from_elsewhere(overrides)
    return [str(folder) for folder in extensions.conf_folders()] if needed and suggest.of_packages() else []


def search_path(folders: Sequence[str]) -> tuple[str, ...]:
    """Return one override that adds all folders, or ``pkg://a``, to Hydra's search path.

    Hydra applies only the first of several such overrides.
    """
    places = dict.fromkeys(folder if "://" in folder else f"file://{folder}" for folder in folders)
    return (f"{given.SEARCHPATH}=[{','.join(map(given.quoted, places))}]",) if folders else ()


def _explained(overrides: Sequence[str], config_dir: str | None) -> DictConfig:
    """Compose; explain an error of Hydra or OmegaConf by the override that caused it."""
    parsed = given.refuse_at_sight(overrides, elsewhere=bool(config_dir))
    own = [*([config_dir] if config_dir else []), *given.places(parsed)]
    extra = search_path([*own, *packages(parsed, config_dir)])
    rest = [override for override in parsed if not given.names_places(override)]
    try:
        config = _composed(extra, rest)
    except ConfigError:
        raise
    except NOT_COMPOSED as error:
        raise ConfigError(given.explain([*extra, *overrides], error)) from error
    try:
        return _typed(config, rest)
    except extensions.UnknownName as error:  # two packages offer a name
        raise ConfigError(str(error)) from error
    except OmegaConfBaseException as error:  # an interpolation that cannot be resolved
        raise ConfigError(given.explain([*extra, *overrides], error)) from error


def _typed(config: DictConfig, overrides: Sequence[Override]) -> DictConfig:
    """Check all values, and give our nodes their types."""
    given.refuse_flattened_nodes(config, overrides)
    settings = nodes.settings_of(config)
    values.check(config, settings)
    nodes.give_types(config, settings)
    method_settings.give_types(config)
    values.check_results(config, settings)
    return config


def _composed(extra: tuple[str, ...], overrides: Sequence[Override]) -> DictConfig:
    """Compose the options once (0.15 s); runs that differ only in values copy the result (3 ms)."""
    singles = [override for override in overrides if given.is_value(override)]
    rest = [override for override in overrides if override not in singles]
    options_alone = all(map(given.is_option, rest))
    if not options_alone:  # such as +node={}: keep the order of all
        singles, rest = [], list(overrides)
    words = (*extra, *map(given.typed, rest))
    config: DictConfig = pickle.loads(_with_options(words, options_alone, machine.gpu_rollout()))
    for override in singles:
        key, is_new = override.key_or_group, override.is_add()
        if is_new and OmegaConf.select(config, key) is not None:
            raise ConfigError(
                f"{given.typed(override)}: the key has a value already; use {key}={override.get_value_element_as_str()}"
            )
        OmegaConf.update(config, key, override.value(), merge=False, force_add=is_new)
    return config


@lru_cache(maxsize=KEPT)
def _with_options(words: tuple[str, ...], options_alone: bool, server: str) -> bytes:
    """Compose the options; verl's tree comes below them, unless a word changes it by itself."""
    if options_alone:
        config = OmegaConf.unsafe_merge(pickle.loads(_verl()), hydra_compose("config", overrides=list(words)))
        OmegaConf.set_struct(config, True)
    else:
        with base.verl_offered():
            config = hydra_compose("config", overrides=list(words))
    return pickle.dumps(config)


@cache
def _verl() -> bytes:
    return pickle.dumps(base.verl_tree())
