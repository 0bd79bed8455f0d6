"""The front door: what it shows, one's own groups, completion, one line for every typo."""

import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from turngrid.train.app import main


def test_cfg_shows_what_the_run_gets_and_leaves_nothing_behind(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["--cfg", "job", "--package", "env", "env.task=w4-o6-q8"]) == 0
    assert "max_turns: 24" in capfd.readouterr().out
    assert main(["--cfg", "job", "--package", "actor_rollout_ref.rollout", "actor_rollout_ref.rollout.n=5"]) == 0
    assert "\n'n': 5\n" in capfd.readouterr().out
    assert main(["--cfg", "job", "--package", "algo", "algo=ppo", "critic.enable=false"]) == 0
    out, err = capfd.readouterr()
    assert "name: ppo" in out and "only shown; a run of it is refused: critic.enable=false" in err
    assert list(tmp_path.iterdir()) == []


def test_groups_of_ones_own(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "budget").mkdir()
    (tmp_path / "budget" / "mine.yaml").write_text("# @package _global_\nbudget: {name: mine, sft_share: 0.25}\n")
    arguments = ["--config-dir", str(tmp_path), "--cfg", "job", "--package", "budget"]
    assert main([*arguments, "budget=mine"]) == 0
    assert "sft_share: 0.25" in capfd.readouterr().out


def test_a_shell_completes_options_and_keys(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {"algo=gi": "algo=gigpo", "env.ta": "env.task= env.tasks=", "sandbox_fusion.ur": "sandbox_fusion.url="}
    for word, offered in answers.items():
        line = f"turngrid-train {word}"
        monkeypatch.setenv("COMP_LINE", line)
        monkeypatch.setenv("COMP_POINT", str(len(line)))
        assert not main(["-sc", "query=bash"])
        assert capfd.readouterr().out.split() == offered.split()


TYPOS = {
    "algo=pppo": ["algo=ppo", "choices of algo: ", " reinforce_plus_plus, rloo"],
    "algo.name=turn_pp": ["algo.name=turn_pp: unknown algorithm 'turn_pp'; use turn_ppo", "or module:Name"],
    "algo.name=nowhere:It": "algo.name=nowhere:It: algo nowhere:It: No module named 'nowhere'",
    "loss=aepo": ["algo=aepo or ", "credit=[aepo]", "(choices of loss: aepo_clip, "],
    "+credit.gigpo.wight=1": "unknown key credit.gigpo.wight; use credit.gigpo.weight",
    "+filter.void_turns.void=invalid": "filter.void_turns.stop must be given; use filter.void_turns.stop=VALUE",
    "credit=[gigpo] credit.gigpo.weight={cosin:10}": "unknown schedule 'cosin'; use cosine_up",
    "model=qwen2.5": ["choices of model:", "qwen2.5_0.5b"],
    "model=Qwen/Qwen2.5-1.5B-Instruct": "model.path=Qwen/Qwen2.5-1.5B-Instruct",
    "algorithm.adv_estimator=gigpo": "use algo=gigpo",
    "env.id=Taxi-v4": "env.id is a setting of another option; use env=gym or env=textarena",
    "model.path=tiny": "use model.path=asset://tiny",
    "fresh": "fresh has no value; use fresh=true",
    "env.task=w4o6q8": "w4-o6-q8",
    "env.task=tw-simple": "tw-simple is no task of env=textworld; use env=tw_simple",
    "actor_rollout_ref.rollot.n=8": "actor_rollout_ref.rollout.n",
    "lr=1e-3": "actor_rollout_ref.actor.optim.lr",
    "seed=abc": "seed=abc must be a whole number from 0 to 4294967295",
    "health.foo=1": "unknown key health.foo; use a key of health: not_finite, ",
    "rollout.n=4": "unknown key rollout.n; use actor_rollout_ref.rollout.n or",
    "actor@actor_rollout_ref.actor=megatron_actor": "unknown key actor;",
    "credit.gigpo.weight=0.5": "credit.gigpo.weight is a setting of another option; use credit=[gigpo]",
    "algo=ppo,grpo": "-m",
    "algo=[ppo": "KEY=VALUE",
    "--halp": ("--halp", "use KEY=VALUE without dashes", "--help lists the flags"),
    "--config-name other": "unrecognized arguments: --config-name",
    "sweep=table10_algorithms": "add -m",
    "-m sweep=table10_algorithm": "use sweep=table10_algorithms",
    "eval.tasks=[nobody:Hill/hill-3]": "eval.tasks: nobody:Hill is no environment: No module named 'nobody'",
    "-m seed=range(0,3,0)": "seed=range(0,3,0) must be a range of 1 to 10000 values",
    "-m seed=0,1 hydra/launcher=joblib": ("hydra/launcher=joblib", "cluster=NAME"),
    "hydra.searchpath=[file:///nowhere]": ("hydra.searchpath=", "use --config-dir FOLDER"),
    "=1": "cannot read '=1' (no key); use KEY=VALUE",
    "+sede=1": "+sede=1: nothing reads sede; use seed",
    "env.task=${nope}": "env.task=${nope}: Interpolation key 'nope' not found",
    "hydra.job.num=seven": "hydra.job.num=seven",
    "+algo@here=ppo": "use algo=ppo",
    "turn_reward=dense": "reward=dense",
    "env=null": "textworld",
    "-m sweep=a,b": "one sweep at a time",
    "-m rollout=transformers,vllm": "rollout=vllm seed=0: ",
    "-m rollout=transformers,vllm cluster=local_parallel": "rollout=vllm seed=0: ",
    "-m seed=0,1 algorithm.lam=interval(0,1)": "algorithm.lam=interval(0,1): write the values out",
    "env=[a,b]": "use -m env=A,B to run both",
    "env.name=:": "env.name=: is no environment: Empty module name (its form is module:Class)",
    "model.path=???": "must be given",
    "actor_rollout_ref.actor.optim=3": "must be a node, whose keys are set one by one",
    "actor_rollout_ref.actor.use_kl_loss=7": "must be true or false",
    "trainer.max_actor_ckpt_to_keep=1": "must be a whole number of at least 2 or null",
    "eval.temperatures=[nan]": "must be a list of numbers from 0 to 10",
    "actor_rollout_ref.model.lora_rank=8": "cannot be: the run's own keys are model.lora_",
    "cluster.name=${seed}": "must be one word",
    "precision=fp8": "precision=fp8 must be one of: auto, bf16, fp32",
    "data.train_max_samples=100": "data.train_max_samples=100 cannot be: budget.games=GAMES",
    "algorithm.rollout_correction.rollout_rs_threshold=0": "must be a number of at least 1e-09",
    "algo.state=words": "algo.state=words must be one of: cluster, history, null, observation, ",
    "\"critic._target_=''\"": "cannot be: ",
    "--config-dir=/nope": "--config-dir /nope: no such folder",
    "--package=nope": "--package is for what --cfg job shows: add it",
    # once ended in a traceback, or without the key's name, or passed
    "-m --cfg=job": "--cfg",
    "-m sweep=../conf/config": "sweep",
    "--cfg=job '--package=env['": "--package",
    "-reward.path=x": "-reward.path",
    "'actor_rollout_ref.rollout.mtp={a: {b: c}}'": "actor_rollout_ref.rollout.mtp.a",
    "-m sweep=table10_algorithms only.algo": "only.algo",
    "tracking.run_name='${tracking.group}' tracking.group='${tracking.run_name}'": "tracking.group",
    "env=textarena 'env.id={null: 1}'": "env.id",
    "'hydra.callbacks={a: {_target_: nope}}'": "hydra.callbacks",
    "~actor_rollout_ref.actor.policy_loss.clip_cov_ub": "clip_cov_ub cannot be removed: every run needs it; use ",
}


# Folders that are not there: Hydra warns before the line is refused.
@pytest.mark.filterwarnings("ignore:provider=hydra.searchpath:UserWarning:hydra._internal.config_loader_impl")
@pytest.mark.parametrize("line", TYPOS)
def test_one_line_with_the_key_and_a_suggestion(
    line: str, refused: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    answer, asked = refused(main, shlex.split(line)), TYPOS[line]
    assert "Traceback" not in answer
    assert [words for words in ([asked] if isinstance(asked, str) else asked) if words not in answer] == []
    assert list(tmp_path.iterdir()) == [], "something has begun"
