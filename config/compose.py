"""From command-line overrides to the config that a run uses."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache

from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from algorithms.registry import SLOTS
from config import base, extension, machine, method_settings, quick, suggest
from config import overrides as given
from config.errors import ConfigError
from config.finalise import finalise
from config.nodes import give_types, settings_of
from config.values import values
from envs import extensions

Composer = Callable[[Sequence[str]], DictConfig]
KEPT = 64  # choices of options

NOT_COMPOSED = (HydraException, OmegaConfBaseException, AttributeError, TypeError, ValueError)

_sound: set[tuple[str, ...]] = set()  # those whose interpolations all lead somewhere


def compose(overrides: Sequence[str], config_dir: str | None = None) -> DictConfig:
    """The config of one run, complete: nothing is left for a later stage to decide.

    Args:
        overrides: as on the command line: ``["algo=ppo", "actor_rollout_ref.rollout.n=8"]``.
        config_dir: a folder with groups of one's own, searched besides ours.

    Raises:
        ConfigError: a typo, a value of a wrong type or outside its range, or an unknown option; the message is one line with
            the nearest valid choice.
    """
    with composer(config_dir) as composed:
        return composed(overrides)


@contextmanager
def composer(config_dir: str | None = None) -> Iterator[Composer]:
    """Compose several configs for the price of one start."""
    base.register()
    with quick.rare_collections(), initialize_config_dir(str(base.CONF), version_base="1.3"):
        yield lambda overrides: _whole(overrides, config_dir)


def _whole(overrides: Sequence[str], config_dir: str | None) -> DictConfig:
    def of_one(words: Sequence[str]) -> DictConfig:
        return finalise(_explained(words, config_dir))

    if run := extension.source(overrides):
        return extension.compose_extended(overrides, run, of_one)
    config = of_one(overrides)
    if config.extend is not None:  # set by a file: the settings would not be those of the run
        raise ConfigError(f"extend={config.extend} belongs on the command line, beside budget.rl_steps=STEPS")
    return config


def packages(overrides: Sequence[Override], config_dir: str | None) -> list[str]:
    """Folders of other packages' options, where an option that is not ours is chosen, or may be by a file of ``config_dir``.

    Raises:
        ConfigError: those options cannot be told apart.
    """
    asked = config_dir or suggest.from_elsewhere(overrides)
    return [str(folder) for folder in extensions.conf_folders()] if asked and suggest.of_packages() else []


def search_path(folders: Sequence[str]) -> tuple[str, ...]:
    """The override that shows them, folders or places such as ``pkg://a``, to Hydra, after our own ``conf/``. One for all:
    of several, Hydra follows the first alone."""
    places = dict.fromkeys(folder if "://" in folder else f"file://{folder}" for folder in folders)
    return (f"{given.SEARCHPATH}=[{','.join(map(given.quoted, places))}]",) if folders else ()


def _explained(overrides: Sequence[str], config_dir: str | None) -> DictConfig:
    parsed = given.refuse_at_sight(overrides, elsewhere=bool(config_dir))
    own = [*([config_dir] if config_dir else []), *given.places(parsed)]
    extra = search_path([*own, *packages(parsed, config_dir)])
    options, singles = _divided([override for override in parsed if not given.names_places(override)])
    options = (*extra, *options)
    try:
        return _typed(options, singles)
    except ConfigError:
        raise
    except NOT_COMPOSED as error:
        reason = given.explain([*extra, *overrides], error, lambda override: _fails_alone(override, options))
        raise ConfigError(reason) from error


def _typed(options: tuple[str, ...], singles: Sequence[Override]) -> DictConfig:
    config = _composed(options, singles)
    given.refuse_flattened_nodes(config, [*given.parse(options), *singles])
    settings = settings_of(config)
    values.check(config, settings)
    give_types(config, settings)
    method_settings.give_types(config)
    if options not in _sound or any(map(given.interpolates, singles)):
        values.check(config, settings, resolve=True)
        _sound.add(options)
    return config


def _fails_alone(override: Override, options: tuple[str, ...]) -> bool:
    """Without the others; a single key has the options beside it, since they may bring it."""
    try:
        _typed(options, [override]) if given.is_single(override) else _typed((given.typed(override),), [])
    except (ConfigError, *NOT_COMPOSED):
        return True
    return False


def _divided(overrides: Sequence[Override]) -> tuple[tuple[str, ...], list[Override]]:
    """The choices of options, and the values of single keys, which Hydra sets after them in any case."""
    singles = [override for override in overrides if given.is_single(override)]
    rest = [override for override in overrides if override not in singles]
    if any(isinstance(override.value(), dict) for override in rest):  # a whole node: its place among the others counts
        singles, rest = [], list(overrides)
    return tuple(override.input_line or "" for override in rest), singles


def _composed(options: tuple[str, ...], singles: Sequence[Override]) -> DictConfig:
    config: DictConfig = pickle.loads(_with_options(options, machine.gpu_rollout()))
    _forget_schedules(config, singles)
    ConfigLoaderImpl._apply_overrides_to_config(list(singles), config)
    return config


def _forget_schedules(config: DictConfig, singles: Sequence[Override]) -> None:
    """A method's schedule takes the place of another one; Hydra would merge the two mappings."""
    for override in singles:
        slot, *setting = override.key_or_group.split(".")
        schedule = slot in SLOTS and len(setting) == 2 and isinstance(override.value(), dict)
        if schedule and OmegaConf.is_dict(OmegaConf.select(config, override.key_or_group)):
            OmegaConf.update(config, override.key_or_group, None)


@lru_cache(maxsize=KEPT)
def _with_options(options: tuple[str, ...], server: str) -> bytes:
    """Hydra takes a quarter of a second, and a pickled config is copied in a tenth of that.

    ``server``: what an option's file asks the machine for, so that another answer is another config.
    """
    return pickle.dumps(hydra_compose("config", overrides=list(options)))
