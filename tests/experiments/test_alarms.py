"""Alarms of a run: series of metrics that are ill, and their neighbours that are not."""

import math
import re
from pathlib import Path
from typing import Any

import pytest
from rollback_trainer import checkpoint

from turngrid.config.checks.check import check
from turngrid.config.compose import compose
from turngrid.config.errors import ConfigError
from turngrid.experiments.report.runs import read_run
from turngrid.experiments.stages import rl as stage
from turngrid.experiments.stages import sft
from turngrid.records.files.json_lines import append_line, read_lines
from turngrid.records.health.alarms import Alarm, Curves, Watch, alarms, limits_of, read_alarms
from turngrid.records.health.rules import RULES
from turngrid.records.metrics import append_metrics
from turngrid.records.process.child import StageFailed
from turngrid.records.process.exit_codes import Failure
from turngrid.records.resume import RlFolder
from turngrid.records.run_folder import run_name
from turngrid.tasks.budget import Allocation
from turngrid.tasks.run import Run

DOCS = Path(__file__).parents[2] / "docs"
HEALTH = dict(compose([]).health)
LIMITS = limits_of(HEALTH)
RISING, NOISY = (0.5, 0.52, 0.5, 0.51, 0.6, 0.7, 0.8), (0.16, 0.14, 0.16, 0.13, 0.15, 0.14, 0.13)
# For each rule of a name: values that raise it at the last step, and others; pairs of two metrics
SERIES: dict[str, list[tuple[list[Any], list[Any]]]] = {
    "not_finite": [([1.0, math.nan], [1.0, 1e9]), ([1.0, None], [1.0, 0.0])] * 2,  # of the policy, of the critic
    "grad_norm": [([1, 2, 0, 1, 2, 19], [1, 2, 0, 1, 2, 14])],
    "critic_grad_norm": [([2.4, 1.2, 0.7, 0.6, 0.5, 8], [2.4, 1.2, 0.7, 0.6, 0.5, 4])],  # its values start at random
    "entropy_up": [([0.3] * 3 + [0.9, 0.9, 1.0], [0.3] * 3 + [0.9, 0.9, 0.8])],
    "entropy_down": [([0.3] * 3 + [0.02, 0.02, 0.02], [0.3] * 3 + [0.04, 0.04, 0.02])],
    "policy_kl": [([0.01, 0.08], [0.01, 0.07])],
    "clip_share": [([0.1, 0.31], [0.1, 0.29])],
    "mismatch": [([0.004, 0.011], [0.004, 0.009])],
    "kl_coefficient": [([0.1], [0.04])] * 2,  # in the loss, in the reward
    "wrong_sign": [([0.3, -0.4, -0.3, -0.5], [0.3, 0.1, -0.3, -0.3])],
    "one_sided": [([(0, 1)] * 3, [(0, 1), (-0.1, 1), (0, 1), (0, 0), (0, 1)])],
    "trained_tokens": [([(90, 100), (160, 100)], [(90, 100), (110, 100)])],
    "no_signal": [([0.5, 1, 1, 1], [1, 1, 0.9, 1, 1]), ([(0, 1), (0, 0), (0, 0), (0, 0)], [(0, 0), (0, 0), (0, 1)])],
    "groups_all_won": [([0.8, 1, 1, 1], [0.9, 0.9, 1, 0.9])],
    "groups_all_lost": [([0.8, 1, 1, 1], [0.9, 0.9, 1, 0.9])],
    "hacked": [([(reward, 0.3 - reward / 9) for reward in RISING], [*zip(RISING, NOISY, strict=True)])],
    "invalid_actions": [([0.5] * 3 + [0.7, 0.8, 0.8], [0.5] * 3 + [0.7, 0.7, 0.7])],
    "unparsed_actions": [([0.08] * 3 + [0.16, 0.17, 0.18], [0.0] * 3 + [0.04, 0.05, 0.05])],
    "mostly_unparsed": [([1.0, 0.9, 0.8], [1.0, 0.9, 0.3])],
    "repeated_tokens": [([0.1] * 3 + [0.1, 0.3, 0.6], [0.1] * 3 + [0.2, 0.2, 0.3])],
    "answers_at_limit": [([0.1, 0.2, 0.6], [0.1, 0.2, 0.3])],
    "out_of_context": [([0.0, 0.06], [0.0, 0.05])],
    "repeated_prompts": [([1, 1, 0.25, 0.25], [1, 0.5, 0.5, 1])],
    "staleness": [([3, 9], [3, 8])],
    "replay_age": [([3, 11], [3, 10])],
    "slowest_episode": [([2, 9, 9, 13], [2, 9, 9, 9])],
    "success": [([0.5, 0.52, 0.5, 0.51, 0.5, 0.51, 0.5, 0.1], [0.5, 0.6, 0.4, 0.6, 0.4, 0.6, 0.5, 0.3])],
}
CASES = [(name, number) for name in SERIES for number in range(len(SERIES[name]))]


def lines_of(name: str, number: int, values: list[Any]) -> list[dict[str, Any]]:
    rules = [rule for rule in RULES if rule.name == name]
    metrics = [metric.replace("*", "any") for metric in rules[number].metrics]
    rows = [value if isinstance(value, tuple) else (value,) for value in values]
    return [{"step": step, **dict(zip(metrics, row, strict=True))} for step, row in enumerate(rows, 1)]


def test_every_rule_has_a_limit_a_series_and_a_line_in_the_docs():
    page = re.findall(r"^\| `(\w+)`( ↩)? \| `([^`]+)`.*\| ([^|]+) \|$", (DOCS / "health.md").read_text(), re.MULTILINE)
    shown = {name: (metric, limit, bool(back)) for name, back, metric, limit in page}
    assert {*SERIES} == {*LIMITS} == {*shown} == {rule.name for rule in RULES}
    for rule in reversed(RULES):  # the first rule of a name is in the table
        if rule == next(one for one in RULES if one.name == rule.name):
            assert shown[rule.name] == (rule.metrics[0], f"{LIMITS[rule.name]:g}", rule.by_rate)


def test_every_limit_has_a_source_in_the_docs():
    _, table = (DOCS / "health.md").read_text().split("## Where the limits come from")
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", table, re.MULTILINE)
    assert sorted(key for row in rows for key in re.findall(r"\w+", row)) == sorted(LIMITS)


@pytest.mark.parametrize(("name", "number"), CASES)
def test_an_alarm_is_raised_where_it_begins_and_only_there(name: str, number: int):
    ill, well = (lines_of(name, number, values) for values in SERIES[name][number])
    assert [alarm.step for alarm in alarms(Curves.of(ill), LIMITS) if alarm.name == name] == [len(ill)]
    later = [line | {"step": step} for step, line in enumerate([ill[-1], ill[0], ill[-1]], len(ill) + 1)]
    assert [alarm.step for alarm in alarms(Curves.of([*ill, *later]), LIMITS) if alarm.name == name] == [len(ill)]
    blind = [dict.fromkeys(ill[0], math.nan) | {"step": 0}, *ill]
    assert name in {alarm.name for alarm in alarms(Curves.of(blind), LIMITS)}
    assert name not in {alarm.name for alarm in alarms(Curves.of(well), LIMITS)}
    assert not list(alarms(Curves.of(ill), {rule: limit for rule, limit in LIMITS.items() if rule != name}))


def test_a_rule_raises_nothing_in_runs_for_which_it_means_nothing():
    lines = lines_of("no_signal", 0, [1, 1, 1])
    assert alarms(Curves.of(lines), LIMITS) and not alarms(Curves.of(lines, of_groups=False), LIMITS)
    for algo, off in (("distill", "wrong_sign no_signal"), ("semi_online", "no_signal groups_all_lost groups_all_won")):
        assert not {*off.split()} & {*limits_of(compose([f"algo={algo}"]).health)}
    others = {"hacked": "rollout/match/self/seat_0/won", "trained_tokens": "rollout/shared_tokens"}
    others |= {"success": "filter/solved/left_out", "one_sided": "filter/over_turns/dropped_share"}
    for name, other in others.items():
        lines = lines_of(name, 0, SERIES[name][0][0])
        assert [alarm.name for alarm in alarms(Curves.of(lines), LIMITS)] == [name]
        assert not alarms(Curves.of(line | {other: 0.4} for line in lines), LIMITS)


def test_a_step_is_compared_with_those_of_its_stage():
    lines = lines_of("success", 0, [0.9] * 7 + SERIES["success"][0][0])
    staged = [line | {"curriculum/stage": 1 + (line["step"] > 7)} for line in lines]
    assert [[alarm.step for alarm in alarms(Curves.of(own), LIMITS)] for own in (lines, staged)] == [[8, 15], [15]]


def watched(rl: RlFolder, option: str, lines: list[dict[str, Any]]) -> list[str]:
    """Log lines as a trainer does; return the trackers' alerts."""
    alerts: list[str] = []
    watch = Watch(rl, {**HEALTH, "name": option}, lambda title, text: alerts.append(f"{title}: {text}"), True)
    for line in lines:
        step, metrics = line["step"], {name: value for name, value in line.items() if name != "step"}
        append_metrics(rl.metrics, step, metrics)
        watch(step, metrics)
    return alerts


def test_an_alarm_is_told_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """In the folder, the terminal and trackers; a resumed run does not repeat it."""
    rl, lines = RlFolder(tmp_path), lines_of("policy_kl", 0, [0.0, 0.5, 0.0, 0.0, 0.0, 0.5])
    bar = stage.Progress(rl, 6, 0, 4, 2)
    (alert,) = watched(rl, "warn", lines[:2])
    assert alert.startswith("turngrid: policy_kl: step 2: policy_kl: actor/ppo_kl: 0.5 is above 0.075; the policy is")
    bar.update()
    assert capsys.readouterr().err.count("turngrid: alarm: step 2: policy_kl") == 1
    assert len(watched(rl, "warn", lines[1:])) == 1  # step 2 again
    bar.update()
    bar.close()
    told = capsys.readouterr().err
    assert "alarm: step 6" in told and "alarm: step 2" not in told
    assert [(alarm.step, alarm.name) for alarm in read_alarms(rl)] == [(2, "policy_kl"), (6, "policy_kl")]


def test_health_says_what_an_alarm_does(tmp_path: Path):
    lines, rl = lines_of("policy_kl", 0, [0.0, 0.5]), RlFolder(tmp_path)
    lines[1]["rollout/out_of_context"] = 1.0
    with pytest.raises(Failure, match=r"step 2: policy_kl: .*\n.*: step 2: out_of_context: .*\nRL goes on"):
        watched(rl, "stop", lines)
    assert watched(rl, "stop", lines) == []  # the run goes on
    assert watched(RlFolder(tmp_path / "off"), "off", lines) == []
    assert run_name(compose(["health=stop", "health.success=null"])) == run_name(compose([])), "it changes no run"
    assert run_name(compose(["health=rollback"])) != run_name(compose([])), "it may"
    with pytest.raises(ConfigError, match=r"health=rollback and trainer.v1.trainer_mode=colocate_async.*health=stop"):
        check(compose(["health=rollback", "trainer.v1.trainer_mode=colocate_async"]))
    kept, often = "trainer.max_actor_ckpt_to_keep", ["health=rollback", "trainer.save_freq=1"]
    for words, use in ((often, kept), ([*often, f"{kept}=3", "algo=ppo"], "trainer.max_critic_ckpt_to_keep")):
        with pytest.raises(ConfigError, match=f"{use}=2: with trainer.save_freq=1 health=rollback .*use {use}=3"):
            check(compose(words))
    check(compose([*often, f"{kept}=3"]))


def test_sft_warns_once_of_a_loss_that_is_not_finite_or_ends(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    lines = [{"step": step, "sft/loss": loss} for step, loss in enumerate((2.0, None, None), 1)]
    for option, seen in (("warn", 1), ("warn", 2), ("off", 1)):
        sft.check_finite(Run(compose([f"health={option}", "model.sft.lr=3e-3"]), tmp_path), lines, seen)
    with pytest.raises(StageFailed, match=r"model.sft.lr=0.003: .* SFT step 2 .*use model.sft.lr=0.001"):
        sft.check_finite(Run(compose(["health=stop", "model.sft.lr=3e-3"]), tmp_path), lines, seen=1)
    assert capsys.readouterr().err.count("alarm: model.sft.lr=0.003") == 1
    assert [alarm.step for alarm in read_run(tmp_path).sft_alarms] == [2, 2]  # of warn and of stop


def test_a_rollback_goes_back_before_what_the_alarm_saw(tmp_path: Path):
    """Twice; the third such alarm ends the run. Alarms that the rate does not cure only warn."""
    rl = RlFolder(tmp_path)
    fallen = lines_of("success", 0, SERIES["success"][0][0])  # raised at step 8 of steps 6 to 8
    for step in (3, 5, 7):
        checkpoint(rl, step)
    with pytest.raises(Failure, match="health=rollback: step 8: success"):
        watched(rl, "rollback", fallen)
    assert "back to the checkpoint of step 5 with actor_rollout_ref.actor.optim.lr=0.05" in stage.go_back(rl, 0.1)
    assert not stage.asking(rl) and stage.go_back(rl, 0.1) == ""
    assert (rl.saved_step(), [line["step"] for line in read_lines(rl.metrics)]) == (5, [1, 2, 3, 4, 5])
    assert len(watched(rl, "rollback", [{"step": 6, "rollout/out_of_context": 0.5}])) == 1
    append_line(rl.alarms, Alarm(7, "success", "", "", since=5, action="rollback 2"))  # step 5 stays good
    assert "step 5 with actor_rollout_ref.actor.optim.lr=0.025" in stage.go_back(rl, 0.1)
    with pytest.raises(Failure, match="health=rollback"):
        watched(rl, "rollback", [{"step": 6, "actor/ppo_kl": 9.0}])
    assert not stage.asking(rl) and read_alarms(rl)[-1].action == "stop"
    first, second = stage.read_rollbacks(rl)
    assert (first.step, first.name, first.to, second.step, second.to) == (8, "success", 5, 7, 5)


def test_a_rollback_that_was_killed_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    rl = RlFolder(tmp_path)
    checkpoint(rl, 1)
    with pytest.raises(Failure, match="health=rollback"):
        watched(rl, "rollback", lines_of("policy_kl", 0, [0.0, 0.5]))
    with monkeypatch.context() as killed, pytest.raises(KeyboardInterrupt):
        killed.setattr(stage, "discard_beyond_checkpoint", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
        stage.go_back(rl, 1.0)
    assert stage.asking(rl) and "step 1" in stage.go_back(rl, 1.0)
    assert len(stage.read_rollbacks(rl)) == 1 and stage.rate_after(rl, 1.0) == 0.5


@pytest.mark.parametrize(("limit", "count"), [(0.3, 1), (0.05, 2)])
def test_a_stage_starts_again(
    limit: float, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """With rates of 0.4, 0.2 and 0.1, the KL from the third step on; a third alarm ends the run."""
    monkeypatch.setattr(stage, "PROCESS", "rollback_trainer")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    words = ["health=rollback", f"health.policy_kl={limit}", "actor_rollout_ref.actor.optim.lr=0.4", "budget=rl_only"]
    run = Run(compose(words), tmp_path)
    allocation = Allocation(demonstrations=0, games=8, steps=4, episodes_per_step=8, units=8, unspent=0)
    if count == 2:
        with pytest.raises(StageFailed, match="^health=rollback: step 3: policy_kl: (.|\\n)*RL goes on past"):
            stage.train(run, allocation, "model")
    assert stage.train(run, allocation, "model") == run.rl.model(4)  # at once, or past the alarm
    made, lines = stage.read_rollbacks(run.rl), read_lines(run.rl.metrics)
    assert [line["step"] for line in lines] == [1, 2, 3, 4]
    assert [(one.step, one.to) for one in made] == [(3, 2)] * len(made)
    assert [one.rate for one in made] == [0.2, 0.1][:count]
    assert [line["actor/lr"] for line in lines] == [0.4, 0.4, made[-1].rate, made[-1].rate]
    assert capsys.readouterr().err.count("turngrid: alarm: step 3: policy_kl: actor/ppo_kl: 0.") == count
    assert [len(read_lines(file)) for file in run.rl.discarded.glob("*/alarms.jsonl")] == [1] * count
