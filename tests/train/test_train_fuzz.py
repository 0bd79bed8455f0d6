"""400 overrides that could be typed, 2,000 with the slow tests, on lines of one to eight: each is
refused in a line that names what is wrong with it, or makes a config that a run can use.
``TURNGRID_FUZZ_SEED=7`` before pytest draws others."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from math import inf, nan
from pathlib import Path
from random import Random

import pytest
from fuzz.door import Outcome, knock
from fuzz.judge import Judge, named, smallest
from fuzz.overrides import Command, Generator, Piece, environments_of
from fuzz.sanity import Flat, flat, nonsense
from omegaconf import OmegaConf

from turngrid.config.base import CONF
from turngrid.config.compose import compose
from turngrid.config.suggest import groups

SEED = os.environ.get("TURNGRID_FUZZ_SEED", "0")
OVERRIDES = 200  # of a chunk
CHUNKS = [*range(2), *(pytest.param(chunk, marks=pytest.mark.slow) for chunk in range(2, 10))]


@pytest.fixture(scope="module")
def default() -> Flat:
    return flat(OmegaConf.to_container(compose([]), resolve=True))


@pytest.fixture(scope="module")
def settable(default: Flat) -> Flat:
    """Without what is below an interpolation: such keys are set elsewhere."""
    return {key: default.get(key) for key in flat(OmegaConf.to_container(compose([])))}


@pytest.fixture(scope="module")
def judge(default: Flat, settable: Flat) -> Judge:
    options = [f"{group}={option}" for group, names in groups().items() for option in names]
    return Judge(default, [*settable, *groups(), *options])


@pytest.fixture
def somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to stand in, with the file that generated commands name."""
    (tmp_path / "README.md").write_text("a file")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


# Folders that are not there, and deprecated keys: these libraries warn before the line is refused.
@pytest.mark.filterwarnings("ignore:provider=hydra.searchpath:UserWarning:hydra._internal.config_loader_impl")
@pytest.mark.filterwarnings("ignore:.* is deprecated. Change your code:UserWarning:omegaconf.resolvers.oc")
@pytest.mark.parametrize("chunk", CHUNKS)
def test_every_command_line_is_answered(chunk: int, settable: Flat, judge: Judge, somewhere: Path) -> None:
    generator = Generator(Random(f"{SEED}-{chunk}"), settable, groups(), environments_of(CONF))
    commands, faults, accepted = list(_drawn(generator)), [], 0
    for command, outcome in (answer for drawn in commands for answer in _answers(drawn)):
        accepted += outcome.code == 0
        if judge(command, outcome):
            least = smallest(command, lambda fewer: judge(fewer, knock(fewer)))
            faults.append(f"{least}\n    {judge(least, knock(least))}")
    assert not faults, f"TURNGRID_FUZZ_SEED={SEED}, chunk {chunk}: {len(faults)} faults\n" + "\n".join(faults)
    assert sum(command.overrides for command in commands) >= OVERRIDES
    assert accepted > len(commands) / 3, "a door that nothing passes is none"
    assert list(somewhere.iterdir()) == [somewhere / "README.md"], "something has been begun"


def _drawn(generator: Generator) -> Iterator[Command]:
    count = 0
    while count < OVERRIDES:
        command = generator.command()
        count += command.overrides
        yield command


def _answers(command: Command) -> Iterator[tuple[Command, Outcome]]:
    """As a person would: what is refused is left out, and the rest tried again, so that nothing
    hides behind it."""
    refused: tuple[Piece, ...] = command.pieces[:1]
    while command.pieces and refused:
        outcome = knock(command)
        yield command, outcome
        refused = named(command, outcome) if outcome.code else ()
        command = command.without(refused)


# What once ended in a traceback, was answered without the key's name, or passed: a line, and what
# its answer names
ONCE = {
    "budget=3": "budget",
    "trainer.test_freq=007": "trainer.test_freq",
    "trainer.n_gpus_per_node=007": "trainer.n_gpus_per_node",
    "-m --cfg=job": "--cfg",
    "-m any.key='glob(*)'": "any.key",
    "-m sweep=../conf/config": "sweep",
    "-m sweep=table10_algorithms only.=1": "only.",
    "--config-name=": "--config-name",
    "--config-dir ''": "--config-dir",
    "--cfg=job '--package=env['": "--package",
    "-reward.path=x": "-reward.path",
    "--experimental-rerun=nope": "--experimental-rerun",
    "'actor_rollout_ref.rollout.mtp={a: {b: c}}'": "actor_rollout_ref.rollout.mtp.a",
    "actor_rollout_ref.ref.fsdp_config.entropy_from_logits_with_chunking=null": (
        "actor_rollout_ref.ref.fsdp_config.entropy_from_logits_with_chunking"
    ),
    "-m sweep=table10_algorithms only.algo": "only.algo",
    "-m critic.ppo_epochs='x${seed}'": "critic.ppo_epochs",
    "trainer.n_gpus_per_node=7": "trainer.n_gpus_per_node",
    "hydra.nope=1": "hydra.nope",
    "algorithm.kl_ctrl=[1]": "algorithm.kl_ctrl",
    "seed=1 trainer.save_freq='${nope}'": "trainer.save_freq",
    "trainer.nnodes='${nope:1}' seed=1": "trainer.nnodes",
    "tracking.run_name='${tracking.group}' tracking.group='${tracking.run_name}'": "tracking.group",
    "tracking.run_name='${trainer}'": "tracking.run_name",
    "env=textarena 'env.id={null: 1}'": "env.id",
    "global_profiler.global_tool_config.torch_memory.memory_snapshot_num_steps='x${seed}'": (
        "global_profiler.global_tool_config.torch_memory.memory_snapshot_num_steps"
    ),
    "'hydra.callbacks={a: {_target_: nope}}'": "hydra.callbacks",
    "env.task=true": "env.task",
    f"model.name={'x' * 3000}": "model.name",
    "critic.model.lora.alpha=.nan": "critic.model.lora.alpha",
    "reward_model.n_gpus_per_node=[nan]": "reward_model.n_gpus_per_node",
    "ray_kwargs.ray_init.num_gpus=-99999999999999999999": "ray_kwargs.ray_init.num_gpus",
    "ray_kwargs.ray_init.num_cpus='???'": "ray_kwargs.ray_init.num_cpus",
    "actor_rollout_ref.rollout.seed=[null]": "actor_rollout_ref.rollout.seed",
    "actor_rollout_ref.rollout.full_determinism=10%": "actor_rollout_ref.rollout.full_determinism",
    "actor_rollout_ref.rollout.max_num_seqs=-7": "actor_rollout_ref.rollout.max_num_seqs",
    "~actor_rollout_ref.actor.policy_loss.clip_cov_ub": "actor_rollout_ref.actor.policy_loss.clip_cov_ub",
    "actor_rollout_ref.rollout.load_format=nope": "actor_rollout_ref.rollout.load_format",
    "actor_rollout_ref.rollout.mode=sync": "actor_rollout_ref.rollout.mode",
    "actor_rollout_ref.actor.optim.optimizer=nope": "actor_rollout_ref.actor.optim.optimizer",
    "actor_rollout_ref.rollout.agent.default_agent_loop=nope": "actor_rollout_ref.rollout.agent.default_agent_loop",
    "algorithm.rollout_correction.rollout_is_threshold=-1": "algorithm.rollout_correction.rollout_is_threshold",
    "algorithm.adv_estimator=remax": "algorithm.adv_estimator",
    "env=swegym env.instances=/nope": "env.instances",
    "env=repo_repair env.tests_deadline_s=20000": "env.tests_deadline_s",
    "scale.rl_steps=0": "scale.rl_steps",
}


@pytest.mark.parametrize("line", ONCE)
def test_what_once_passed_or_crashed(line: str, judge: Judge, somewhere: Path) -> None:
    command = Command((Piece(tuple(shlex.split(line)), (ONCE[line],), wrong=True),))
    assert judge(command, knock(command)) is None


TYPED = Command((Piece(("trainer.nnodes=seven",), ("trainer.nnodes",)),))
MISSPELT = Command((Piece(("trainer.nnods=1",), ("trainer.nnods",), near="trainer.nnodes", wrong=True),))
SOUND = Command((Piece(("trainer.nnodes=1",), ("trainer.nnodes",), fine=True),))
GOOD = "turngrid: trainer.nnodes=seven must be a whole number\n"
BAD = {
    "a traceback": (TYPED, Outcome(crash="TypeError: ['x'] (a.py:1 f)"), "traceback"),
    "a traceback that was printed": (TYPED, Outcome(2, err=f"{GOOD}Traceback (most recent call last):\n"), "Traceback"),
    "one that was let pass": (MISSPELT, Outcome(0), "trainer.nnods=1 is wrong"),
    "no exit code": (TYPED, Outcome(None, err=GOOD), "exit code None"),
    "no words": (TYPED, Outcome(2), "0 lines"),
    "many lines": (TYPED, Outcome(2, err=GOOD * 9), "9 lines"),
    "the name of another key": (TYPED, Outcome(2, err="turngrid: my.trainer.nnodes is wrong\n"), "names nothing"),
    "the beginning of another key": (TYPED, Outcome(2, err="turngrid: trainer.nnodes_ is wrong\n"), "names nothing"),
    "Hydra's own words": (TYPED, Outcome(2, err=f"{GOOD}Set HYDRA_FULL_ERROR=1\n"), "HYDRA_FULL_ERROR"),
    "no suggestion": (MISSPELT, Outcome(2, err="turngrid: unknown key trainer.nnods\n"), "does not suggest"),
    "a far suggestion": (MISSPELT, Outcome(2, err="turngrid: trainer.nnods; trainer.device?\n"), "does not suggest"),
    "a sound one refused": (SOUND, Outcome(2, err="turngrid: trainer.nnodes=1 is wrong\n"), "it is sound"),
}  # fmt: skip


@pytest.mark.parametrize("bad", BAD)
def test_the_judge_finds(bad: str, judge: Judge) -> None:
    command, outcome, words = BAD[bad]
    assert words in str(judge(command, outcome))


NONSENSE = {
    "algorithm.gamma": 2,
    "algorithm.lam": nan,
    "trainer.nnodes": 0,
    "trainer.n_gpus_per_node": "seven",
    "trainer.save_freq": 0,
    "env.workers": 1_000_000,
    "env.step_deadline_s": inf,
    "seed": -1,
    "model.sft.lr": -0.1,
    "eval.temperatures": [-1],
    "actor_rollout_ref.actor.optim.betas": [0.9],
    "actor_rollout_ref.rollout.stop": [inf],
    "data.shuffle": "perhaps",
    "trainer.logger": 3,
    "critic.ppo_epochs": 1.5,
    "demos.source": "heaven",
    "env.window_keep": 3,
    "data.train_batch_size": 10**20,
    "trainer.device": ["cpu"],
    "budget.units": True,
}


@pytest.mark.parametrize("key", NONSENSE)
def test_nonsense_in_a_config_is_found(key: str, default: Flat) -> None:
    found = list(nonsense(default | {key: NONSENSE[key]}, default))
    assert found
    assert all(key in line for line in found)


def test_a_key_that_is_gone_is_found_and_the_default_has_no_nonsense(default: Flat) -> None:
    without = {key: value for key, value in default.items() if key != "trainer.project_name"}
    assert list(nonsense(without, default)) == ["trainer.project_name is gone, or a node"]
    assert list(nonsense(default, default)) == []


def test_the_judge_lets_pass(judge: Judge) -> None:
    assert judge(TYPED, Outcome(2, err=GOOD)) is None
    assert judge(MISSPELT, Outcome(2, err="turngrid: unknown key trainer.nnods; use trainer.nnodes\n")) is None
    assert judge(SOUND, Outcome(0, configs=[compose([])])) is None


def test_a_config_that_a_run_could_not_use_is_found(judge: Judge) -> None:
    config = compose([])
    config.seed = -1
    assert "nonsense: seed=-1" in str(judge(TYPED, Outcome(0, configs=[config])))
    config.trainer.nnodes = "${nowhere}"
    assert "accepted, and then InterpolationKeyError" in str(judge(TYPED, Outcome(0, configs=[config])))


def test_the_smallest_command_is_told() -> None:
    others = [Piece((f"seed={seed}",), ("seed",)) for seed in range(3)]
    command = Command((others[0], *TYPED.pieces, *others[1:]), unset=("HOME",))
    assert smallest(command, lambda fewer: "trainer.nnodes=seven" in fewer.words) == TYPED
    assert smallest(command, lambda fewer: not {"seed=0", "seed=2"} - {*fewer.words}).words == ["seed=0", "seed=2"]
