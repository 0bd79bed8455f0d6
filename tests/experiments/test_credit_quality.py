"""``python -m experiments.credit_quality`` on games whose values are known."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from test_viewer_page import unpacked

from turngrid.experiments.credit_quality.__main__ import main
from turngrid.experiments.credit_quality.game import MeasuredGame, keys
from turngrid.experiments.credit_quality.results import Results
from turngrid.records.credit import unpack_runs

COUNTING = ["env.name=counting_environment:Counting", "env.task=count-2", "eval.games=40", "env.workers=1"]
SMALL = ["tasks=6", "samples=4", "k=32", "methods=[grpo,rloo,gigpo,graft:backup=mean]"]
TURNS = 6
Call = Callable[..., tuple[int, str, str]]


@cache
def value(left: int, turns: int) -> float:
    """Of the random policy: it says add, drop or wait."""
    if not left:
        return 1.0
    return (value(left - 1, turns - 1) + value(left, turns - 1)) / 3 if turns else 0.0


def games(folder: Path) -> list[MeasuredGame]:
    found = [MeasuredGame.read(file, "") for file in sorted(folder.glob("out/credit_quality/*/games/*.json"))]
    return [game for game in found if game.values]


def test_values_are_those_of_the_policy_and_methods_are_rated(call: Call, tmp_path: Path) -> None:
    code, out, err = call(main, "random", *COUNTING, *SMALL, "screen=0")
    assert code == 0, err
    errors, exact = [], []
    for game in games(tmp_path):
        for episode in game.episodes:
            adds = np.cumsum([0, *(turn.action == "add" for turn in episode.turns)])
            for turn, key in enumerate(keys(episode)):
                exact.append(value(2 - adds[turn], TURNS - turn))
                errors.append(np.mean(game.values[key]) - exact[-1])
            assert len(episode.turns) <= TURNS
    spread = np.sqrt(np.mean([v * (1 - v) for v in exact]) / 32)
    assert np.std(errors) == pytest.approx(spread, rel=0.3) and abs(np.mean(errors)) < spread
    assert any(len(episode.turns) == 1 for game in games(tmp_path) for episode in game.episodes)  # dropped at once
    (file,) = tmp_path.glob("out/credit_quality/*/results.json")
    found = Results.read(file)
    assert found.about["tasks"] == 6 and found.about["episodes"] == 24
    assert found.methods["r"]["grpo"].mean > 0.2 < found.methods["r"]["gigpo"].mean
    assert found.differences["r"]["grpo"].mean == 0 == found.methods["r_inside"]["rloo"].mean
    assert found.methods["r_inside"]["graft:backup=mean"].mean > 0.2
    assert f"| `gigpo` | {found.methods['r']['gigpo'].mean:.2f}" in out
    _, (first, *_) = unpacked(file.with_name("episodes.html").read_text())
    shown, truth = first["turns"][0], true_of_first_turn(games(tmp_path)[0])
    assert list(shown["compared"]) == ["true advantage", "grpo", "rloo", "gigpo", "graft:backup=mean"]
    assert unpack_runs(shown["advantages"]) == pytest.approx([truth])


def true_of_first_turn(game: MeasuredGame) -> float:
    first, *after = [float(np.mean(game.values[key])) for key in keys(game.episodes[0])]
    return (after[0] if after else float(game.episodes[0].won)) - first


def test_interrupted_and_extended_it_goes_on_to_the_same_numbers(call: Call, tmp_path: Path) -> None:
    small = ["random", *COUNTING, "tasks=4", "samples=4", "k=8", "methods=[grpo]"]
    assert call(main, *small)[0] == 0
    (file,) = tmp_path.glob("out/credit_quality/*/results.json")
    whole = json.loads(file.read_text())
    folder = file.parent / "games"
    measured = [path for path in sorted(folder.iterdir()) if json.loads(path.read_text())["values"]]
    for path in measured[1:3]:
        path.unlink()  # as a kill leaves them: not there, since a game's file is written whole
    half = json.loads(measured[3].read_text())
    measured[3].write_text(json.dumps(half | {"episodes": [], "values": {}}))  # screened only
    assert call(main, *small)[0] == 0
    again = json.loads(file.read_text())
    assert again["about"] == whole["about"]
    assert again["methods"] == whole["methods"] and again["truth"] == whole["truth"]
    before = games(tmp_path)
    assert call(main, *small, "k=16", "samples=6")[0] == 0
    after = games(tmp_path)
    for old, new in zip(before, after, strict=True):
        assert [episode.to_dict() for episode in new.episodes[:4]] == [episode.to_dict() for episode in old.episodes]
        assert all(new.values[key][:8] == values for key, values in old.values.items())
    assert call(main, *small, "precision=fp32")[0] == 0 and len([*file.parents[1].iterdir()]) == 2


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        (["random", "methods=[gigpp]"], "no method gigpp; use gigpo"),
        (["random", "methods=[turn_ppo]"], "turn_ppo needs values, and random is no model that has any"),
        (["random", "k=1"], "k=1: the noise"),
        (["random", "noise=0.5"], "is the expert's"),
        (["expert", "noise=2"], "noise=2: it is a share"),
        (["random", "gradients=no"], "gradients=no must be true or false"),
        (["random", "base"], "one policy, not 2"),
    ],
)
def test_refused_before_anything_is_played(call: Call, arguments: list[str], answer: str) -> None:
    code, _, err = call(main, *arguments, *COUNTING)
    assert code == 2 and answer in err


def test_too_few_games_of_middling_difficulty(call: Call) -> None:
    code, _, err = call(main, "expert", *COUNTING, "tasks=2", "eval.games=4")
    assert code == 2 and "won in 10% to 90% of 8 other episodes" in err
