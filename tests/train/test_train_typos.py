"""Every typo gets one line with what was probably meant, and an exit code that is not 0."""

from __future__ import annotations

from pathlib import Path

import pytest

from turngrid.config.suggest import groups
from turngrid.train.app import main

TYPOS = {
    "algo=pppo": ["algo=ppo", "choices of algo: ", " reinforce_plus_plus, rloo"],
    "algo.name=turn_pp": ["algo.name=turn_pp: unknown algorithm 'turn_pp'; use turn_ppo", "or module:Name"],
    "algo.name=nowhere:It": ["algo.name=nowhere:It: algo nowhere:It: No module named 'nowhere'"],
    "algo.name=turngrid.algorithms.credit.gigpo:Gigpo": [
        "algo.name=turngrid.algorithms.credit.gigpo:Gigpo is no estimator: it has no grain"
    ],
    "+algo.gamma=1": ["unknown key algo.gamma; use one of: name, state"],
    "loss=aepo": ["algo=aepo or ", "credit=[aepo]", "(choices of loss: aepo_clip, "],
    "algo=tree": ["use ", "rollout_form=tree"],
    "algo=empg": ["unknown option algo=empg; use credit=[empg]"],
    "credit=[dapo]": ["unknown option credit=dapo; use algo=dapo"],
    "algo=tcod": ["use rollout_form=tcod"],
    "env=textwrld": ["env=textworld"],
    "reward=dens": ["reward=dense"],
    "credit=[gigp]": ["credit=gigpo"],
    "loss=[gspo,cispo]": ["loss=[gspo,cispo]: a step has one; use loss=gspo"],
    "loss=gsp": ["loss=gspo"],
    "+credit.gigpo.wight=1": ["unknown key credit.gigpo.wight; use credit.gigpo.weight"],
    "+filter.void_turns.void=invalid": ["filter.void_turns.stop must be given; use filter.void_turns.stop=VALUE"],
    "filter=[void_turns] filter.void_turns.void=some": [
        "filter=[void_turns]: void=some must be one of: unparsed, invalid"
    ],
    "shaping=[turn_bonu]": ["shaping=turn_bonus"],
    "+shaping.turn_bonus.wieght=1": ["unknown key shaping.turn_bonus.wieght; use shaping.turn_bonus.weight"],
    "+shaping.g_ra.levels=[{reward:outcome,gat:1},{reward:dense}]": [
        "unknown key shaping.g_ra.gat; use shaping.g_ra.gate"
    ],
    "shaping=[format] shaping.format.at=first": ["shaping=[format]: at=first must be one of: own, last"],
    "credit=[gigpo] credit.gigpo.weight={cosin:10}": ["unknown schedule 'cosin'; use cosine_up"],
    "+terms.mine.target=nowhere:It": ["terms nowhere:It: No module named 'nowhere'"],
    "model=qwen2.5": ["choices of model:", "qwen2.5_0.5b"],
    "model=Qwen/Qwen2.5-1.5B-Instruct": ["model.path=Qwen/Qwen2.5-1.5B-Instruct"],
    "algorithm.adv_estimator=gigpo": ["use algo=gigpo"],
    "algorithm.adv_estimator={a:1}": ["algorithm.adv_estimator={'a': 1} must be one of: ", "turngrid_grpo"],
    "algorithm.adv_estimator=[[a]]": ["algorithm.adv_estimator=[['a']] must be one of: ", "turngrid_grpo"],
    "recipe=nothing_of_that_name": ["unknown option recipe=nothing_of_that_name"],
    "+recipe=nothing_of_that_name": ["unknown option recipe=nothing_of_that_name"],
    "turn_reward=dense": ["reward=dense"],
    "rewrd=dense": ["reward"],
    "algo=GRPO": ["algo=grpo"],
    "env.id=Taxi-v4": ["env.id is a setting of another option; use env=gym or env=textarena"],
    "turn_reward.url=x": ["turn_reward.url is a setting of another option; use reward=judge"],
    "algo.lam=1": ["unknown key algo.lam; use algorithm.lam"],
    "model.path=tiny": ["use model.path=asset://tiny"],
    "model.path=packaged://smollm2": ["there is: smollm2_135m"],
    "fresh": ["fresh has no value; use fresh=true"],
    "env.tsk=w2-o3-q4": ["env.task"],
    "env.task=w2-o3-4": ["w2-o3-q4"],
    "env.task=w4o6q8": ["w4-o6-q8"],
    "env.task=tw-simple": ["tw-simple is no task of env=textworld; use env=tw_simple"],
    "env.task=alfworld": ["use env=alfworld"],
    "env.tasks=[w2-o3-q4,pick_and_place_simple]": ["use env=alfworld"],
    "actor_rollout_ref.rollot.n=8": ["actor_rollout_ref.rollout.n"],
    "trainer.savefreq=3": ["trainer.save_freq"],
    "lr=1e-3": ["actor_rollout_ref.actor.optim.lr"],
    "seed=abc": ["seed=abc must be a whole number from 0 to 4294967295"],
    "budget.units=many": ["budget.units=many must be a number from 1e-06 to 1e+12"],
    "env.max_turns=ten": ["env.max_turns=ten must be a whole number from 1 to 1000000 or null"],
    "model_engine=megatron": ["unknown key model_engine"],
    "actor@actor_rollout_ref.actor=megatron_actor": ["unknown key actor;"],
    "data=3": ["data.KEY=VALUE"],
    "algorithm=gigpo": ["use algo=gigpo"],
    "~env": ["textworld"],
    "credit.gigpo.weight=0.5": ["credit.gigpo.weight is a setting of another option; use credit=[gigpo]"],
    "rollout_form.tree.nodes=3": ["use rollout_form=tree"],
    "credit.gigpoo.weight=0.5": ["unknown key credit.gigpoo.weight"],
    "env=null": ["textworld"],
    "~turn_reward": ["reward=NAME"],
    "algo=ppo,grpo": ["-m"],
    "algo=[ppo": ["KEY=VALUE"],
    "algo": ["KEY=VALUE"],
}


@pytest.mark.parametrize("override", TYPOS)
def test_one_line_with_a_suggestion(override: str, capfd: pytest.CaptureFixture[str]) -> None:
    code = main(override.split())
    out, err = capfd.readouterr()
    assert code != 0
    assert out == ""
    (line,) = err.splitlines()
    assert line.startswith("turngrid: ")
    assert [words for words in TYPOS[override] if words not in line] == []


def test_a_typo_in_a_multirun_starts_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["-m", "algo=ppo,grp"]) != 0
    assert capfd.readouterr().err.splitlines() == [
        f"turngrid: unknown option algo=grp; use algo=grpo (choices of algo: {', '.join(groups()['algo'])})"
    ]


@pytest.mark.parametrize("flag", ["--halp", "--dry-run", "--env.task=w2-o3-q4", "--xyz=3"])
def test_a_flag_that_does_not_exist_gets_one_line_too(flag: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main([flag]) == 2
    out, err = capfd.readouterr()
    (line,) = err.splitlines()
    assert out == "" and flag in line and "--help lists the flags; settings are KEY=VALUE without dashes" in line


def test_a_sweep_starts_nothing_where_a_word_of_its_own_is_wrong(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Above all not where somebody wanted a dry run."""
    for word, answer in {
        "dry_run=maybe": "dry_run=maybe must be true or false",
        "fresh=perhaps": "fresh=perhaps must be true or false",
        "seed=a": "seeds are whole numbers",
        "scale=laptpo": "this sweep has no scale=laptpo (choices: laptop, paper)",
    }.items():
        assert main(["-m", "sweep=table10_algorithms", word, f"output_dir={tmp_path}"]) == 2
        (line,) = capfd.readouterr().err.splitlines()
        assert answer in line
    assert main(["-m", "sweep=table10_algorithms", "dry_run=yes", f"output_dir={tmp_path}"]) == 0
    assert list(tmp_path.iterdir()) == []


def test_what_only_sizes_for_gpus_ask_for_is_refused_as_elsewhere(capfd: pytest.CaptureFixture[str]) -> None:
    gpu = ["cluster=gpu1", "model=qwen2.5_7b"]
    for words, answer in {
        ("model.path=/nowhere/at/all",): "turngrid: model.path=/nowhere/at/all does not exist",
        ("model.lora_rank=8", "model.lora_target_modules=[norm]"): "turngrid: model.lora_target_modules=['norm']: ",
    }.items():
        assert main([*gpu, *words]) == 2
        assert capfd.readouterr().err.splitlines()[-1].startswith(answer)


def test_our_config_cannot_be_swapped_away(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["--config-name", "other"]) != 0
    assert "recipe=" in capfd.readouterr().err
