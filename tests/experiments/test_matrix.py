"""Cells, pairs and ratings of a matrix by hand, their tables, the result file, the run summary."""

from dataclasses import replace
from math import log10
from pathlib import Path

import numpy as np
import pytest
from finished_run import ONE_OF_TWO

from turngrid.envs.types import TaskRef
from turngrid.experiments.evaluation.ratings import fitted, rated, ratings_of
from turngrid.experiments.evaluation.result import RunResult, StageResult, evaluations_of, results_of
from turngrid.experiments.evaluation.tables import (
    comparisons_table,
    manner_table,
    matrix_tables,
    p_value,
    plain_text,
    ratings_table,
    summary_table,
)
from turngrid.records.process.exit_codes import Refusal
from turngrid.records.statistics import sign_flip, wilson
from turngrid.rollouts.episode import Episode, Outcome, Turn
from turngrid.tasks.evaluation_sets import EvaluationSet, EvaluationSetting
from turngrid.tasks.splits import write_tasks

LOST, DRAWN, WON = Outcome.OUT_OF_TURNS, Outcome.DRAWN, Outcome.WON


def evaluation_set(**fields: object) -> EvaluationSet:
    given = {"env": "doors", "task": "d2", "file": "", "sha256": "ab" * 32, "games": 4, "max_turns": 6}
    rest = {"max_response_length": 512, "optimal_turns": 2.0, "out_of_reach": 0}
    return EvaluationSet(**{**given, **rest, **fields})


def game(seed: int, task: str = "d2") -> TaskRef:
    return TaskRef("doors", task, {}, seed, "test", "/game", f"{seed}", "leave", ("open door", "go"), f"{seed}", 1.0)


def episode(outcome: Outcome, turns: int = 2, tokens: int = 3, score: float | None = None) -> Episode:
    played = [Turn("a door.", "open door", action_ids=list(range(tokens))) for _ in range(turns)]
    return Episode("doors/d2/1", 1, "test", "leave", [], [], played, outcome, score=score)


def episodes(*wins: int) -> list[Episode]:
    return [episode(WON if won else LOST) for won in wins]


@pytest.fixture
def once(tmp_path: Path) -> EvaluationSetting:
    """Four games of one task, played once."""
    write_tasks(tmp_path / "panel.jsonl", [game(seed) for seed in range(4)])
    return EvaluationSetting("", evaluation_set(file=str(tmp_path / "panel.jsonl")), 0.4, 1)


def test_an_evaluation_by_hand(once: EvaluationSetting) -> None:
    played = [episode(WON, 2, 4), episode(LOST, 6, 1), episode(WON, 4, 4), episode(Outcome.LOST, 1, 5)]
    played[0].turns[1].valid = played[3].turns[0].valid = played[3].turns[0].parsed = False
    (evaluation,) = evaluations_of(once, {"rl": played})
    assert (evaluation.policy, evaluation.env, evaluation.task) == ("rl", "doors", "d2")
    assert evaluation.games_hash == "ab" * 32
    assert (evaluation.successes, evaluation.games, evaluation.samples_per_game) == (2, 4, 1)
    assert (evaluation.interval.low, evaluation.interval.high) == (wilson(2, 4).low, wilson(2, 4).high)
    assert evaluation.mean_turns_to_success == 3
    assert evaluation.tokens_per_turn == pytest.approx((2 * 4 + 6 * 1 + 4 * 4 + 1 * 5) / 13)
    assert (evaluation.max_turns, evaluation.optimal_turns, evaluation.turns_over_optimal) == (6, 2, 3)
    assert evaluation.outcomes == {"lost": 1, "out_of_turns": 1, "won": 2}
    assert (evaluation.invalid_share, evaluation.unparsed_share) == (2 / 13, 1 / 13)
    assert evaluation.pass_at == {}


@pytest.mark.parametrize(
    ("played", "mean"),
    [
        ([(WON, 1.0), (LOST, 0.5), (LOST, 0.25), (LOST, 0.0)], 0.4375),
        ([(WON, 1.0), (WON, 1.0), (LOST, 0.5), (Outcome.ERROR, None)], 0.625),  # where the environment failed: 0
        ([(WON, 1.0), (LOST, None), (LOST, 0.0), (LOST, 0.0)], None),  # a game whose best score nobody knows
        ([(Outcome.ERROR, None)] * 4, 0.0),
    ],
)
def test_the_mean_score_by_hand(once: EvaluationSetting, played: list, mean: float | None) -> None:
    (evaluation,) = evaluations_of(once, {"rl": [episode(outcome, score=score) for outcome, score in played]})
    assert evaluation.mean_score == mean


def test_a_score_is_shown_where_it_says_more_than_success(once: EvaluationSetting) -> None:
    (won,) = evaluations_of(once, {"rl": [episode(WON, score=1.0), episode(LOST, score=0.0)] * 2})
    (part,) = evaluations_of(once, {"sft": [episode(LOST, score=0.25)] * 4})
    assert "score" not in plain_text(matrix_tables([won]))
    shown = plain_text(matrix_tables([won, part]))
    assert "score, % of best" in shown and "50.0" in shown and "25.0" in shown


def test_several_samples_by_hand(once: EvaluationSetting) -> None:
    """Of three plays the games win 3, 1, 0 and 0: mean 4/12; of two plays of a game, 1, 2/3, 0 and
    0 see a win."""
    item = replace(once, samples_per_game=3)
    (evaluation,) = evaluations_of(item, {"rl": episodes(1, 1, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0)})
    assert (evaluation.successes, evaluation.games, evaluation.samples_per_game) == (4, 4, 3)
    assert evaluation.interval.mean == pytest.approx(4 / 12)
    assert evaluation.low < 4 / 12 < evaluation.high
    assert {k: mean for k, (mean, _, _) in evaluation.pass_at.items()} == pytest.approx({"2": 5 / 12, "3": 2 / 4})
    (many,) = evaluations_of(replace(once, samples_per_game=6), {"expert": [episode(LOST, tokens=0)] * 24})
    assert (list(many.pass_at), many.pass_at["6"]) == (["2", "4", "6"], [0.0, 0.0, wilson(0, 4).high])
    assert many.tokens_per_turn is None  # of a policy that answers in text
    assert many.mean_turns_to_success is None


def test_a_comparison_by_hand(once: EvaluationSetting) -> None:
    (comparison,) = results_of([once], lambda _: {"base": episodes(1, 0, 0, 0), "rl": episodes(0, 1, 1, 0)})[1]
    assert (comparison.before, comparison.after, comparison.games) == ("base", "rl", 4)
    assert (comparison.gained, comparison.lost, comparison.p) == (2, 1, sign_flip([1, 1, -1]))
    assert comparison.gain == 0.25
    assert comparison.low < 0.25 < comparison.high
    (_, row) = rows(plain_text(comparisons_table([comparison])))
    assert row[:2] == ["after RL - base model", "d2"] and row[3:] == ["2 games", "1 games", "1.000"]
    assert comparisons_table([]) == []


def test_a_comparison_of_several_samples_counts_games(once: EvaluationSetting) -> None:
    """Wins by game 2, 0, 1, 0 before and 2, 2, 0, 1 after: differences 0, +2, -1, +1."""
    before, after = episodes(1, 1, 0, 0, 1, 0, 0, 0), episodes(1, 1, 1, 1, 0, 0, 0, 1)
    (comparison,) = results_of([replace(once, samples_per_game=2)], lambda _: {"sft": before, "rl": after})[1]
    assert (comparison.gained, comparison.lost, comparison.p) == (2, 1, sign_flip([0, 2, -1, 1]))
    assert comparison.gain == pytest.approx(2 / 8)


def test_a_mixture_has_an_evaluation_of_its_own_for_each_task(tmp_path: Path) -> None:
    """Games of d2 and d3 in turn, each played twice; 2 of 4 plays of d3 are won, 1 of d2."""
    write_tasks(tmp_path / "mixed.jsonl", [game(1), game(2, "d3"), game(3), game(4, "d3")])
    item = EvaluationSetting("", evaluation_set(task="d2+d3", file=str(tmp_path / "mixed.jsonl")), 0.4, 2)
    whole, first, second = evaluations_of(item, {"rl": episodes(0, 0, 1, 1, 0, 1, 0, 0)})
    found = [(c.task, c.successes, c.games) for c in (whole, first, second)]
    assert found == [("d2+d3", 3, 4), ("d2", 1, 2), ("d3", 2, 2)]
    assert len({c.games_hash for c in (whole, first, second)}) == 3


# ---- tables


def rows(text: str) -> list[list[str]]:
    lines = [line.replace("┃", "│") for line in text.splitlines() if "│" in line or "┃" in line]
    return [[word.strip() for word in line.split("│")[1:-1]] for line in lines]


def test_the_matrix_has_policies_down_and_evaluation_sets_across(once: EvaluationSetting) -> None:
    of_d9 = replace(once.evaluation_set, task="d9", sha256="cd" * 32, max_turns=24, optimal_turns=8.0)
    harder = replace(once, evaluation_set=of_d9)
    evaluations = evaluations_of(once, {"base": episodes(0, 0, 0, 0), "rl": episodes(1, 1, 0, 1)})
    evaluations += evaluations_of(harder, {"base": episodes(0, 0, 0, 0), "rl": episodes(1, 0, 0, 0)})
    success, manner = matrix_tables(evaluations)
    shown = rows(plain_text([success]))
    assert shown[0] == ["model", "d2", "d9"]
    assert shown[1] == ["base model", "0.0 [0.0, 49.0]", "0.0 [0.0, 49.0]"]
    assert shown[2] == ["after RL", wilson(3, 4).percent(), wilson(1, 4).percent()]
    assert shown[3:] == [
        ["evaluation set", "abababab", "cdcdcdcd"],
        ["games x samples", "4 x 1", "4 x 1"],
        ["turns / plan", "6 / 2", "24 / 8"],
    ]
    assert rows(plain_text([manner]))[2] == ["after RL", "d2", "2.0", "0.0", "3.0", "1 out of turns"]
    assert len(matrix_tables(evaluations[:2])) == 1 and matrix_tables([]) == []  # one set needs no matrix
    older = replace(evaluations[0], unparsed_share=None)  # read from a result that does not know
    other = replace(evaluations[1], unparsed_share=0.125, temperature=1.0, env="gates")
    heading, *answers = rows(plain_text([manner_table([older, other])]))
    assert heading[-1] == "unparsed %" and [row[-1] for row in answers] == ["-", "12.5"]
    assert [row[1] for row in answers] == ["doors/d2 t=0.4", "gates/d2 t=1"]


@pytest.mark.parametrize(
    ("p", "shown"), [(1.0, "1.000"), (0.0312, "0.031"), (0.00234, "0.0023"), (1e-12, "< 0.0001"), (0.0, "< 0.0001")]
)
def test_p_values_as_shown(p: float, shown: str) -> None:
    assert p_value(p) == shown


# ---- ratings


def apart(points: float, matches: int) -> float:
    """The difference of two players who only met each other, and drew one match more."""
    share = (points + 0.5) / (matches + 1)
    return 400 * log10(share / (1 - share))


def test_two_players_and_a_chain_by_hand() -> None:
    points = np.zeros((3, 3))
    points[0, 1], points[1, 0] = 7, 2
    assert fitted(points[:2, :2], 1) == pytest.approx([1000 + 400 * log10(3), 1000])  # 7.5 of 10
    points[2, 0], points[0, 2] = 4, 0  # won every match
    assert fitted(points, 1) == pytest.approx([1190.84850, 1000, 1190.84850 + apart(4, 4)], abs=1e-5)


def test_each_player_is_expected_to_score_what_it_scored() -> None:
    """The equations of the maximum, for players who all met; matches against itself say nothing."""
    points = np.random.default_rng(0).integers(0, 9, (4, 4)).astype(float)
    ratings = fitted(points, 2)
    expected = 1 / (1 + 10 ** ((ratings[None] - ratings[:, None]) / 400))
    apart = (points - np.diag(np.diag(points))) + 0.5 * (1 - np.eye(4))
    assert (apart.sum(1) - ((apart + apart.T) * expected).sum(1)) == pytest.approx(0, abs=1e-6)
    order = [3, 1, 0, 2]
    assert fitted(points[order][:, order], 3) == pytest.approx(ratings[order])


def test_openings_are_drawn_again() -> None:
    """Two openings, one won and one lost: a quarter of the draws has one of them twice."""
    points = np.zeros((2, 2, 2))
    points[0, 0, 1] = points[1, 1, 0] = 2
    policy, anchor = rated(points, 1)
    assert (policy.mean, policy.low, policy.high) == pytest.approx((1000, 1000 + apart(0, 4), 1000 + apart(4, 4)))
    assert (anchor.mean, anchor.low, anchor.high) == (1000, 1000, 1000)


def test_the_matches_of_a_run() -> None:
    """Two openings, both seats, two opponents; ``random`` is a policy and an opponent."""
    ends = {
        "random": {"rl": (WON, WON, DRAWN, LOST), "random": (WON, LOST, WON, WON)},
        "exact": {"rl": (LOST, DRAWN, LOST, LOST), "random": (LOST,) * 4},
    }
    of_set = evaluation_set(games=2)
    settings = [EvaluationSetting("", of_set, 0.4, 2, name) for name in ends]
    played = {name: {one: list(map(episode, own)) for one, own in of.items()} for name, of in ends.items()}
    ratings = ratings_of(settings, lambda item: played[item.opponent])
    assert [(one.policy, one.matches) for one in ratings] == [("rl", 8), ("random", 8), ("exact", 8)]
    points = np.array([[0, 2.5, 0.5], [1.5, 0, 0], [3.5, 4, 0]])
    assert [one.rating for one in ratings] == pytest.approx(fitted(points, 1))
    shown = [line.split("│") for line in plain_text(ratings_table(ratings)).splitlines() if "d2" in line]
    assert [line[1].strip() for line in shown] == ["exact", "after RL", "random"]
    assert shown[2][3].strip() == "1000 [1000, 1000]"
    assert ratings_of(settings[1:], lambda _: {"rl": played["exact"]["rl"]}) == []
    assert ratings_of([EvaluationSetting("", of_set, 0.4, 2)], lambda _: {}) == [] and ratings_table([]) == []


# ---- a run's result


def stage(name: str, **own: float | None) -> StageResult:
    return StageResult(name=name, checkpoint=f"/runs/{name}", **{**ONE_OF_TWO, "games": 200, **own})


@pytest.fixture
def result() -> RunResult:
    rl = stage("rl", successes=80, low=0.3346, high=0.4692, units=400, tokens=123456, seconds=321.4)
    stages, folder = [stage("base", successes=20), stage("sft", successes=50), rl], "/somewhere with a space/a-run"
    return RunResult("a-run", folder, 0, stages, units=1000, seconds=401)


def test_result_survives_the_disk(result: RunResult, tmp_path: Path) -> None:
    assert RunResult.read(tmp_path) is None
    result.write(tmp_path)
    path = tmp_path / "result.json"
    assert RunResult.read(tmp_path) == result and [*tmp_path.iterdir()] == [path]
    path.write_text(path.read_text().replace('"successes"', '"success_rate"'))
    with pytest.raises(Refusal, match="cannot be read"):
        RunResult.read(tmp_path)


def test_the_table_at_the_end(result: RunResult) -> None:
    sums = {"units_by_games": 1000.0, "units_by_rollouts": 3800.0}
    text = summary_table(replace(result, notes={"spent": sums, "rollbacks": ["a", "b"], "no_signal": "in steps ..."}))
    (row,) = [line.split("│") for line in text.splitlines() if "after RL" in line]
    shown = ["after RL", "40.0", "33.5 to 46.9", "200", "3.0", "400", "123,456", "321"]
    assert [cell.strip() for cell in row[1:-1]] == shown
    report = f"python -m turngrid.experiments.report '{result.folder}'"
    assert f"run folder:     {result.folder}\ncurves:         {report}\n" in text
    assert "temperature 0.4, at most 12 turns" in text
    assert "1000 units spent, 0 left (1000 counting games, 3800 counting rollouts); 401 s in all" in text
    assert text.endswith("\nrollbacks:      a; b\nno signal:      in steps ...\n")
    lost = stage("base", successes=0, mean_turns_to_success=None)
    text = summary_table(replace(result, stages=[lost]))
    (row,) = [line.split("│") for line in text.splitlines() if "base model" in line]
    assert row[5].strip() == "-"
