"""From command-line overrides to the config that a run uses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from train import base, suggest
from train.errors import ConfigError
from train.finalise import finalise
from train.nodes import give_types

Composer = Callable[[Sequence[str]], DictConfig]


def compose(overrides: Sequence[str], config_dir: str | None = None) -> DictConfig:
    """The config of one run, complete: nothing is left for a later stage to decide.

    Args:
        overrides: as on the command line: ``["algo=ppo", "actor_rollout_ref.rollout.n=8"]``.
        config_dir: a folder with groups of one's own, searched besides ours.

    Raises:
        ConfigError: a typo, a wrong type or an unknown option; the message is one line with the nearest valid choice.
    """
    with composer(config_dir) as composed:
        return composed(overrides)


@contextmanager
def composer(config_dir: str | None = None) -> Iterator[Composer]:
    """Compose several configs for the price of one start."""
    base.register()
    extra = [f"hydra.searchpath=[file://{config_dir}]"] if config_dir else []
    with initialize_config_dir(str(base.CONF), version_base="1.3"):
        yield lambda overrides: finalise(_explained([*extra, *overrides]))


def _explained(overrides: list[str]) -> DictConfig:
    suggest.refuse_at_sight(overrides)
    try:
        config = hydra_compose("config", overrides=overrides)
        suggest.refuse_flattened_nodes(config, overrides)
        give_types(config)
        OmegaConf.to_container(config, resolve=True)  # an interpolation to nowhere is found here and not in a stage
        return config
    except (HydraException, OmegaConfBaseException, AttributeError, TypeError) as error:
        raise ConfigError(suggest.explain(overrides, error)) from error
