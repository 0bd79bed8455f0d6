"""What a person mistypes in a value is answered by one line that names the key, before anything is
made or started."""

from pathlib import Path
from typing import get_args, get_type_hints

import pytest
from omegaconf import OmegaConf

from turngrid.config import base, compose
from turngrid.config.errors import ConfigError
from turngrid.config.overrides import parse
from turngrid.config.values.limits import Range
from turngrid.config.values.values import limits_in
from turngrid.envs.registry import ENVIRONMENTS, environment_class
from turngrid.rewards.registry import REWARDS, settings_class
from turngrid.tasks.schema import NODES, Top
from turngrid.train.app import ready

WRONG = "algorithm.gamma=2"


@pytest.mark.parametrize(
    "arguments",
    [
        [WRONG, "estimate=true"],
        ["-m", "algorithm.gamma=1,2"],
        ["-m", "sweep=table10_algorithms", "dry_run=true", WRONG, "only.algo=ppo"],
    ],
    ids=" ".join,
)
def test_whatever_was_asked_for(arguments: list[str], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"algorithm\.gamma=2 must be a number from 0 to 1"):
        ready([*arguments, f"output_dir={tmp_path}"])
    assert list(tmp_path.iterdir()) == []


def test_ready_starts_and_writes_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for arguments in ([], ["estimate=true"], ["-m", "seed=0,1"], ["--cfg", "job"], ["--help"]):
        assert callable(ready([*arguments, f"output_dir={tmp_path / 'runs'}"]))
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "overrides",
    [
        ["trainer.nnodes=2", "cluster=gpu8", "+trainer.mine=1"],
        ["env.task=w4-o6-q8", "env={max_turns: 7}", "env.max_turns=8"],
        ["algo=gigpo", "credit.gigpo={weight: 0.5}", "seed=1"],
        ["model=smollm2_135m", "~actor_rollout_ref.model.override_config.attn_implementation"],
        ["model=qwen2.5_7b", "cluster=gpu8", "algo=hiper", "scale=paper"],
    ],
    ids=" ".join,
)
def test_what_is_composed_is_what_hydra_composes(overrides: list[str]) -> None:
    """Options once and single values on top of a copy, or all at once."""
    with compose.composer():
        quick, whole = compose._composed((), parse(overrides)), base.hydra_config(overrides)
        assert OmegaConf.to_yaml(quick) == OmegaConf.to_yaml(whole)  # as they were typed, and in their order


KINDS = {
    **{f"{name}.": kind for name, kind in NODES.items()},
    **{f"env={name}: ": environment_class(place).Settings for name, place in ENVIRONMENTS.items()},
    **{f"reward={name}: ": settings_class(name) for name in REWARDS},
    "": Top,
}


@pytest.mark.parametrize("prefix", KINDS)
def test_every_number_of_our_schema_has_a_range(prefix: str) -> None:
    limits = limits_in(KINDS[prefix])
    numbers = [name for name, hint in get_type_hints(KINDS[prefix]).items() if {int, float} & {hint, *get_args(hint)}]
    assert [name for name in numbers if not isinstance(limits[name], Range)] == []
