"""Verdicts on claims: how runs are paired, and when the data are not enough. Curves of training
beside success: which metrics, and alarms on them."""

from dataclasses import replace
from math import sqrt
from pathlib import Path

import numpy as np
import pytest
from report_sweep import BASE, SweepMaker, claim, wins

from turngrid.experiments.evaluation.result import State
from turngrid.experiments.report.charts import Panel, draw_panels, metric_panels, over_seeds
from turngrid.experiments.report.comparisons import Comparison, Word, interval_and_p, verdicts
from turngrid.experiments.report.contents import alarms
from turngrid.experiments.report.runs import ReportedRun, curve_of
from turngrid.records.health.alarms import Alarm

PPO, GRPO = {"algo": "ppo", "stage": "rl"}, {"algo": "grpo", "stage": "rl"}


def judged(maker: SweepMaker, higher: dict, lower: dict) -> Comparison:
    subject = maker.subject({"all": {}}, {"last": {}}, [claim(higher, lower)])
    (found,) = verdicts(subject.sweep, subject.runs)
    return found


def test_a_clear_difference_holds_and_its_reverse_does_not(maker: SweepMaker) -> None:
    for seed in range(3):
        maker.run({"base": BASE, "rl": wins(16)}, seed, algo="ppo")
        maker.run({"base": BASE, "rl": wins(4 + seed % 2)}, seed, algo="grpo")
    held = judged(maker, PPO, GRPO)
    assert held.word is Word.HOLDS
    assert held.contrast.by_seed == {0: pytest.approx(0.6), 1: pytest.approx(0.55), 2: pytest.approx(0.6)}
    reverse = judged(maker, GRPO, PPO)
    assert (reverse.word, "wholly below zero" in reverse.why) == (Word.DOES_NOT_HOLD, True)
    base = judged(maker, PPO, {"stage": "base"})
    assert base.word is Word.HOLDS and base.contrast is not None
    assert base.contrast.by_seed == dict.fromkeys(range(3), pytest.approx(0.6))


def test_the_interval_by_hand(maker: SweepMaker) -> None:
    """PPO wins games 0-9 and 0-11, GRPO 0-7 both times. The mean difference of games 8 and 9 is 1,
    of 10 and 11 it is 1/2, of the rest 0: mean 0.15, sum of squares 2.5, variance (2.5 - 20 *
    0.0225) / 19. By seed: 0.1, 0.2."""
    for seed, count in enumerate((10, 12)):
        maker.run({"rl": wins(count)}, seed, algo="ppo")
        maker.run({"rl": wins(8)}, seed, algo="grpo")
    found = judged(maker, PPO, GRPO).contrast
    a, b = (2.5 - 20 * 0.0225) / 19 / 20, 0.005 / 2
    freedom = (a + b) ** 2 / (a**2 / 19 + b**2 / 1)
    assert freedom == pytest.approx(8.0, abs=0.05)  # t(0.975, 8) = 2.306
    assert found.interval.mean == pytest.approx(0.15)
    assert found.interval.high - 0.15 == pytest.approx(2.306 * sqrt(a + b), rel=1e-3)
    assert 1.397 < 0.15 / sqrt(a + b) < 1.860 and 0.1 < found.p < 0.2  # t(0.90, 8) and t(0.95, 8)


@pytest.mark.parametrize(("seeds", "shared"), [((0,), []), ((1, 2, 3), [1, 2])])
def test_seeds_count_where_both_sides_have_them(maker: SweepMaker, seeds: tuple[int, ...], shared: list[int]) -> None:
    for seed in range(3):
        maker.run({"rl": wins(16)}, seed, algo="ppo")
    for seed in seeds:
        maker.run({"rl": wins(4)}, seed, algo="grpo")
    found = judged(maker, PPO, GRPO)
    if shared:
        assert found.contrast is not None and list(found.contrast.by_seed) == shared
    else:
        assert (found.word, found.contrast) == (Word.NOT_ENOUGH, None)
        assert found.why == "1 seed in common, and an interval needs 2 or more."


def test_seeds_that_disagree_are_not_enough_however_many_games_there_are(maker: SweepMaker) -> None:
    """A bootstrap over games alone would be sure of the mean of +60 and -20 points."""
    for seed, count in enumerate((16, 0)):
        maker.run({"rl": wins(count)}, seed, algo="ppo")
        maker.run({"rl": wins(4)}, seed, algo="grpo")
    found = judged(maker, PPO, GRPO)
    assert (found.word, "includes zero" in found.why) == (Word.NOT_ENOUGH, True)


def test_settings_that_no_side_names_are_paired(maker: SweepMaker) -> None:
    """Easy games +20 points, hard ones +10: +15 in the mean, whatever else is easy or hard."""
    for seed in range(2):
        for task, ppo, grpo in (("easy", 18, 14), ("hard", 4, 2)):
            maker.run({"rl": {task: wins(ppo)}}, seed, algo="ppo", task=task)
            maker.run({"rl": {task: wins(grpo)}}, seed, algo="grpo", task=task)
    found = judged(maker, PPO, GRPO).contrast
    assert (found.settings, found.games) == (2, 20)
    assert found.interval.mean == pytest.approx(0.15)
    by_game = 0.5 * np.array([wins(4, 14), wins(2, 2)])
    a = sum(row.var(ddof=1) / 20 for row in by_game)
    assert found.interval.high - found.interval.mean == pytest.approx(2.093 * sqrt(a), rel=1e-3)  # t(0.975, 19)


def test_a_gain_can_be_compared_with_a_gain(maker: SweepMaker) -> None:
    """RL adds 10 wins to 2 with the one, 4 to 8 with the other: +50 against +20 points."""
    for seed in range(2):
        maker.run({"sft": wins(2), "rl": wins(12)}, seed, algo="ppo")
        maker.run({"sft": wins(8), "rl": wins(12)}, seed, algo="grpo")
    gains = [{**side, "minus": {"algo": side["algo"], "stage": "sft"}} for side in (PPO, GRPO)]
    found = judged(maker, *gains).contrast
    assert found.interval.mean == pytest.approx(0.3)


def test_a_side_that_names_several_settings_is_no_comparison(maker: SweepMaker) -> None:
    for seed in range(2):
        for algo in ("ppo", "grpo", "rloo"):
            maker.run({"rl": wins(10)}, seed, algo=algo)
    found = judged(maker, PPO, {"stage": "rl"})
    assert found.word is Word.NOT_ENOUGH
    assert "several settings at once: algo=ppo; algo=grpo; algo=rloo" in found.why


def test_settings_that_cannot_be_compared_are_left_out_and_named(maker: SweepMaker) -> None:
    for seed in range(2):
        for task in ("easy", "hard"):
            maker.run({"rl": {task: wins(16)}}, seed, algo="ppo", task=task)
        maker.run({"rl": {"easy": wins(2)}}, seed, algo="grpo", task="easy")
        maker.failed(seed, algo="grpo", task="hard")
    found = judged(maker, PPO, GRPO)
    assert found.word is Word.HOLDS
    assert found.contrast.settings == 1
    assert "1 comparison(s) left out: 2 failed" in found.why


# ---- the statistics against hand-worked values


@pytest.mark.parametrize(
    ("by_seed", "over_games", "games", "half"),
    [
        # standard error 0.1 / sqrt(3), t(0.975, 2) = 4.303 (any table)
        ([0.1, 0.2, 0.3], 0.0, 200, 4.303 * 0.1 / sqrt(3)),
        # seeds that agree, 0.0025 over 101 games: standard error 0.05, t(0.975, 100) = 1.984
        ([0.2, 0.2], 0.0025, 101, 1.984 * 0.05),
        # a = 0.0004, b = 0.0012 / 3 (three seeds): Satterthwaite's freedom is
        # 4e-4^2 * 4 / (4e-4^2 (1/100 + 1/2)) = 7.843; t(0.975, 7.843) = 2.314
        ([0.1 - sqrt(0.0012), 0.1, 0.1 + sqrt(0.0012)], 0.0004, 101, 2.314 * sqrt(0.0008)),
        # without any spread: Wilson's upper bound of 0 in 20 (Newcombe, 1998)
        ([0.0, 0.0], 0.0, 20, 0.1611),
    ],
)
def test_intervals_over_seeds_and_games(by_seed: list[float], over_games: float, games: int, half: float) -> None:
    found, _ = interval_and_p(by_seed, over_games, games)
    mean = np.mean(by_seed)
    assert (found.mean, found.low, found.high) == pytest.approx((mean, mean - half, mean + half), abs=2e-4)


def test_p_belongs_to_the_interval() -> None:
    """At p = .05 the interval ends at zero. Without any spread: of 2^4 signs of four equal
    differences, 2 are as large."""
    bounds, _ = interval_and_p([0.1, 0.2, 0.3], 0.004, 20)
    shifted = [share - bounds.low for share in (0.1, 0.2, 0.3)]
    assert interval_and_p(shifted, 0.004, 20)[1] == pytest.approx(0.05)
    few, p = interval_and_p([1.0, 1.0], 0.0, 4)
    assert (few.low, p, interval_and_p([0.0, 0.0], 0.0, 4)[1]) == (-1.0, 2 / 2**4, 1.0)
    found, _ = interval_and_p([0.7, 0.9], over_games=0.0, games=50)
    assert (found.low, found.high) == pytest.approx((-0.4706, 1.0), abs=1e-3)  # 0.8 - 12.706 * 0.1
    assert interval_and_p([0.7, 0.9], over_games=0.0, games=50, limit=2)[0].high == pytest.approx(2)


# ---- curves


def trained(name: str, seed: int, others: dict[str, dict[int, float]]) -> ReportedRun:
    """Of two steps."""
    lines = [{"step": step, "success/train": 0.5, "rollout/episodes": 8} for step in (1, 2)]
    for line in lines:
        line |= {metric: values[line["step"]] for metric, values in others.items() if line["step"] in values}
    return ReportedRun(Path(f"{name}-s{seed}"), {"algo": name}, seed, State.UNFINISHED, curve=curve_of(lines))


def test_a_curve_takes_what_is_drawn_and_nothing_else() -> None:
    dropped = "filter/zero_std/dropped_share"
    lines = [
        {"step": 1, "success/train": 0.25, "rollout/episodes": 8.0, "rollout/entropy": 0.5, "timing/step": 3.0},
        {"step": 2, "success/train": 0.5, "rollout/episodes": 8.0, dropped: 0.25, "actor/ppo_kl": None},
        {"step": 3, "rollout/entropy": 9.0},  # of a step without training episodes
        {"step": 2, "success/train": 0.5, "rollout/episodes": 8.0, dropped: 0.75},  # the step was repeated
    ]
    found = curve_of(lines)
    assert {name: column.dropna().to_dict() for name, column in found.items()} == {
        "success/train": {1: 0.25, 2: 0.5},
        "rollout/episodes": {1: 8, 2: 16},
        "rollout/entropy": {1: 0.5},
        dropped: {2: 0.75},
    }
    assert curve_of(lines[2:3]).empty


def test_a_panel_is_a_metric_and_a_line_a_setting() -> None:
    entropy = "rollout/entropy"
    runs = [
        trained("ppo", 0, {entropy: {1: 1.0, 2: 2.0}, "rollout/unparsed_actions": {1: 0.0, 2: 0.0}}),
        trained("ppo", 1, {entropy: {1: 3.0, 2: 2.0}, "success/by_task/w2": {1: 0.5}}),
        trained("grpo", 0, {}),
    ]
    found = metric_panels(runs)
    assert [(panel.title, panel.unit) for panel in found] == [("success in w2", "share"), ("entropy", "nats a token")]
    assert list(found[1].lines) == ["ppo"]  # grpo has no entropy
    line = found[1].lines["ppo"]
    assert line[["mean", "low", "high"]].to_numpy().tolist() == [[2.0, 1.0, 3.0], [2.0, 2.0, 2.0]]


def test_an_alarm_is_a_mark_on_its_metrics_curve_and_on_success() -> None:
    alarm = Alarm(2, "entropy_up", "it grew", "a smaller rate", metric="rollout/entropy")
    ill = replace(trained("ppo", 0, {"rollout/entropy": {1: 1.0, 2: 2.0}}), alarms=[alarm])
    runs = [ill, trained("ppo", 1, {"rollout/entropy": {1: 1.0, 2: 2.0}})]
    for metric in ("success/train", "rollout/entropy"):
        assert over_seeds(runs, metric)["alarm"].to_dict() == {1: False, 2: True}
        panels = (Panel("", "", {"a": over_seeds(own, metric)}) for own in (runs, runs[1:]))
        marked, plain = (draw_panels("training", [panel]) for panel in panels)
        assert marked.count("<use") == plain.count("<use") + 1
    assert not over_seeds(runs, "rollout/episodes")["alarm"].any()
    assert alarms([replace(ill, sft_alarms=[alarm])]) == ["ppo-s0: entropy_up in SFT step 2, entropy_up in step 2"]
