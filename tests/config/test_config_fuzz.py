"""Command lines that a person, a script or a tired mind could type: each is refused in a line that
names what is wrong with it, or makes a config that a run can use."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from random import Random

import pytest
from omegaconf import OmegaConf

from turngrid.config.compose import compose
from turngrid.config.nodes import dotted
from turngrid.envs.types import TaskError
from turngrid.records.process.exit_codes import Refusal
from turngrid.train.app import ready

DRAWN = 25
VALUES = (
    *("-1", "0", "1", "0.5", "007", "1e30", "99999999999999999999", ".nan", ".inf", "0x10", "10%"),
    *("null", "true", "perhaps", "''", "'a b'", "ä", "[]", "[1]", "[null]", "{}", "{a: 1}", "{null: 1}"),
    *("'???'", "'${nope}'", "'${seed}'", "'x${seed}'", "'${nope:1}'"),
)

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


@pytest.fixture(autouse=True)
def somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to stand in, with the file that some lines name."""
    (tmp_path / "README.md").write_text("a file")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def answer(line: str) -> str:
    """What a line is refused with; "" if a run could start."""
    try:
        ready(shlex.split(line))
    except (Refusal, TaskError) as error:
        return str(error)
    return ""


def assert_names(message: str, name: str) -> None:
    """In one line, without a library's own words, and the name as itself, not within another."""
    assert "\n" not in message and not re.search("Traceback|HYDRA_FULL_ERROR|full_key:|<class ", message)
    assert re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", message), message


@pytest.mark.parametrize("line", ONCE)
def test_what_once_passed_or_crashed(line: str) -> None:
    assert_names(answer(line), ONCE[line])


# Deprecated keys: OmegaConf warns before the line is refused
@pytest.mark.filterwarnings("ignore:.* is deprecated. Change your code:UserWarning:omegaconf.resolvers.oc")
@pytest.mark.parametrize("chunk", [0, *(pytest.param(chunk, marks=pytest.mark.slow) for chunk in range(1, 6))])
def test_every_override_is_answered(chunk: int, somewhere: Path) -> None:
    """Of keys drawn at random with odd values: refused by name, or accepted; a misspelt key is
    refused."""
    draw, keys = Random(chunk), [key for key, _ in dotted(OmegaConf.to_container(compose([])))]
    accepted = 0
    for _ in range(DRAWN):
        key, value = draw.choice(keys), draw.choice(VALUES)
        message = answer(f"{key}={value}")
        accepted += not message
        if message:
            assert_names(message, key)
        place = draw.randrange(len(key))
        typo = key[:place] + draw.choice(["", key[place] * 2]) + key[place + 1 :]
        if typo not in keys and not typo.startswith(("hydra", ".")) and re.fullmatch(r"[\w.]*\w", typo):
            assert_names(answer(f"{typo}=1"), typo)
    assert accepted > DRAWN / 20
    assert list(somewhere.iterdir()) == [somewhere / "README.md"], "something has been begun"
