"""What a person mistypes in a value is answered by one line that names the key, before anything is
made or started."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import hydra
import pytest
import yaml
from omegaconf import OmegaConf

from turngrid.config import compose
from turngrid.config.base import ROOT
from turngrid.config.errors import ConfigError
from turngrid.config.overrides import parse
from turngrid.config.schema import NODES, Top
from turngrid.config.values.limits import Only, Range
from turngrid.config.values.values import limits_in, limits_of
from turngrid.config.values.verl_limits import verl_keys
from turngrid.envs.registry import ENVIRONMENTS, environment_class
from turngrid.rewards.registry import REWARDS, settings_class
from turngrid.train.app import main, ready

SIZES, OURS = "must be a whole number of at least 1", "must be a whole number from 1 to "
SEEDS = "must be a whole number from 0 to 4294967295"
SHARE = "must be a number from 0 to 1"
ACTOR, ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
# An override -> what its answer says after KEY=VALUE, or the whole of it
REFUSED = {
    "=1": "cannot read '=1' (no key); use KEY=VALUE",
    "~dry_run": "use dry_run=VALUE",
    "~trainer.nnodes": "use trainer.nnodes=VALUE",
    "+sede=1": "+sede=1: nothing reads sede; use seed",
    f"+{ACTOR}.optim.larning_rate=1": f"unknown key {ACTOR}.optim.larning_rate",
    "algo=7": "unknown option algo=7 (choices of algo: aem, ",
    "recipe=null": "unknown option recipe=None",
    "+algo@here=ppo": "use algo=ppo",
    "env.task=${nope}": "env.task=${nope}: Interpolation key 'nope' not found",
    "env.task=w0": "env.task=w0: unknown task 'w0' of textworld",
    "hydra.job.num=seven": "Value 'seven'",
    "env=[a,b]": "use -m env=A,B to run both",
    "env.name=:": "env.name=: is no environment: Empty module name (its form is module:Class)",
    "env.name=7": "unknown environment '7' (choices:",
    "turn_reward.name=spars": "unknown reward 'spars'; use sparse",
    "env.tasks=7": "must list tasks",
    "env.tasks={w2-o3-q4: [1]}": "the weight of w2-o3-q4 is [1]; it must be more than 0",
    "trainer.logger=[wand]": "use wandb",
    "model.path=???": "must be given",
    "trainer.save_freq=0": SIZES,
    "trainer.nnodes=0": SIZES,
    "trainer.nnodes=seven": SIZES,
    f"{ACTOR}.optim=3": "must be a node, whose keys are set one by one",
    f"{ACTOR}.use_kl_loss=7": "must be true or false",
    f"{ACTOR}.optim.lr=-1e-3": SHARE,
    "model.sft.lr=inf": SHARE,
    f"{ACTOR}.optim.num_cycles=inf": "must be a number of at least 0",
    "model.sft.batch_size=0": OURS,
    "model.sft.epochs=0.5": OURS,
    "eval.temperatures=[nan]": "must be a list of numbers from 0 to 10",
    f"{ROLLOUT}.temperature=-1": "must be a number from 0.01 to 10",
    "env.step_deadline_s=-1": "must be a number from 0.1 to 86400",
    "seed=-1": SEEDS,
    "fresh=maybe": "must be true or false",
    "algorithm.gamma=2": SHARE,
    "data.max_response_length=0": SIZES,
    "algorithm.adv_estimator=gea": "use gae",
    f"{ACTOR}.policy_loss.loss_mode=vanila": "use vanilla",
    "model.lora_rank=0": "must be a whole number from 1 to 512 or null",
    "actor_rollout_ref.model.lora_rank=8": "cannot be: the run's own key is model.lora_rank",
    "critic.model.lora_rank=8": "cannot be: a critic is trained whole",
    "actor_rollout_ref.model.lora_adapter_path=there": "cannot be: LoRA begins with a new adapter; merge yours",
    "budget.count=turns": "must be one of: games, rollouts",
    "cluster.computes_in=fp8": "must be one of: bf16, fp32, null",
    "cluster.name=${seed}": "must be one word",
    "model.name=7": "must be one word",
    "critic._target_=''": "cannot be: ",
    "model.path=0x10": "use model.path=ORG/NAME",
    "model.path=tiny": "use model.path=asset://tiny",
    "actor_rollout_ref.model.lora.merge=true": "cannot be: it follows from rollout=",
}
FLAGS = {
    "--config-dir=/nope": "--config-dir /nope: no such folder",
    "--package=nope": "--package is for what --cfg job shows: add it",
    "--resolve": "--resolve is for what --cfg job shows: add it",
}


@pytest.mark.parametrize("override", REFUSED)
def test_one_line_that_names_the_key(override: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main([override]) == 2
    out, err = capfd.readouterr()
    (line,) = err.splitlines()
    assert out == "" and REFUSED[override] in line
    assert override.lstrip("+~").partition("=")[0] in line


@pytest.mark.parametrize("flag", FLAGS)
def test_flags_that_mean_nothing_here(flag: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main([flag]) == 2
    assert capfd.readouterr().err == f"turngrid: {FLAGS[flag]}\n"


WRONG = "algorithm.gamma=2"


@pytest.mark.parametrize(
    "arguments",
    [
        [WRONG, "estimate=true"],
        ["--cfg", "job", WRONG],
        ["-m", "algorithm.gamma=1,2"],
        ["-m", "seed=range(3)", WRONG],
        ["-m", "sweep=table10_algorithms", "dry_run=true", WRONG, "only.algo=ppo"],
        ["cluster=local_parallel", WRONG],
    ],
    ids=" ".join,
)
def test_whatever_was_asked_for(arguments: list[str], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"algorithm\.gamma=2 must be a number from 0 to 1"):
        ready([*arguments, f"output_dir={tmp_path}"])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        (["seed=range(0,3,0)"], "seed=range(0,3,0) must be a range of 1 to 10000 values"),
        (["seed=range(0,1e9)"], "seed=range(0,1e9) must be a range of 1 to 10000 values"),
        (["algorithm.lam=interval(0,1)", WRONG], "algorithm.gamma=2 must be"),
        (["seed=0,1", "algorithm.lam=interval(0,1)"], "algorithm.lam=interval(0,1): only an optimiser's sweeper"),
        (["env=glob(t*)", WRONG], "algorithm.gamma=2 must be"),
        (["seed=0,1", "output_dir=/dev/null"], "output_dir=/dev/null is a file"),
        (["seed=0,1", "hydra/launcher=nope"], "hydra/launcher/nope"),
        (["sweep=table10_algorithms", "env.task=glob(*)"], "env.task=glob(*): write the values out"),
    ],
    ids=str,
)
def test_several_runs(arguments: list[str], answer: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(answer)):
        ready(["-m", *arguments])


def test_a_range_is_left_to_a_sweeper_that_somebody_chose() -> None:
    assert callable(ready(["-m", "algorithm.lam=interval(0,1)", "hydra/sweeper=basic"]))


def test_a_bug_of_ours_is_no_mistake_of_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise TypeError("a bug")

    monkeypatch.setattr(compose.values, "check", broken)
    with pytest.raises(TypeError, match="^a bug$"):
        compose.compose(["seed=1"])


def test_an_output_folder_that_is_none(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    for place, reason in ((file, "is a file"), (file / "runs", f"lies below {file}, which is a file")):
        with pytest.raises(ConfigError, match=f"^output_dir={place} {reason}"):
            ready([f"output_dir={place}"])


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
    ],
    ids=" ".join,
)
def test_what_is_composed_is_what_hydra_composes(overrides: list[str]) -> None:
    """Options once and single values on top of a copy, or all at once."""
    with compose.composer():
        quick = compose._composed((), parse(overrides))
        assert OmegaConf.to_container(quick) == OmegaConf.to_container(hydra.compose("config", overrides=overrides))


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


def test_every_number_of_verls_that_we_name_has_a_range() -> None:
    """In our files, or in full in the docs."""
    limits = limits_of()
    named = {key for key in _in_files() | _in_docs() if _is_number(key)}
    assert len(named) > 40
    assert sorted(key for key in named if not isinstance(limits[key], Range | Only)) == []


def _is_number(key: str) -> bool:
    names = verl_keys()[key].types.names - {"null"}
    return bool(names) and names <= {"int", "float"}


def _in_files() -> set[str]:
    files = (file for folder in ("conf", "recipes") for file in (ROOT / folder).rglob("*.yaml"))
    return {key for file in files for key in _leaves(yaml.safe_load(file.read_text())) if key in verl_keys()}


def _leaves(node: Any, prefix: str = "") -> Iterator[str]:
    if not isinstance(node, dict):
        yield prefix.removesuffix(".")
        return
    for key, value in node.items():
        yield from _leaves(value, f"{prefix}{key}.")


def _in_docs() -> set[str]:
    text = " ".join(file.read_text(encoding="utf-8") for file in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
    words = set(re.findall(r"\w+(?:\.\w+)+", text))
    return {key for key in verl_keys() for word in words if key == word or key.endswith(f".{word}")}
