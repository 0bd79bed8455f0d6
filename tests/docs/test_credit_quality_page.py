"""docs/credit_quality.md: its figures are those of the results, and what it names exists."""

import json
import math
import re
from pathlib import Path

import pytest

from benchmarks.credit_tables import GAIN, compared, predictions, rank_correlation, settings, side_by_side
from turngrid.experiments.credit_quality.__main__ import Options
from turngrid.experiments.credit_quality.measures import BEST
from turngrid.experiments.credit_quality.methods import STANDARD
from turngrid.experiments.credit_quality.results import Results, markdown
from turngrid.experiments.tables import listed

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/credit_quality.md").read_text(encoding="utf-8")
FOUND = {file.stem: Results.read(file) for file in sorted((ROOT / "docs/credit_quality").glob("*.json"))}
TINY = FOUND["w2_tiny"]
ALL_METHODS = Results.read(ROOT / "docs/credit_quality.json")


def test_the_tables_are_those_of_the_results() -> None:
    assert all(table in PAGE for table in (settings(FOUND), compared(FOUND, "r")))
    assert (ROOT / "docs/credit_quality/tables.md").read_text(encoding="utf-8") == side_by_side(FOUND)


def test_each_table_has_the_command_that_made_it() -> None:
    lists = dict(re.findall(r"^([MN])='(methods=.*)'", PAGE, re.MULTILINE))
    commands = dict(re.findall(r"^\| `(\w+)` \|.*`([^`]+)` \|$", PAGE, re.MULTILINE))
    assert set(commands) == set(FOUND)
    for name, command in commands.items():
        typed = re.sub(r'"\$([MN])"', lambda found: lists[found[1]], command)
        given = dict(item.split("=", 1) for item in typed.split() if "=" in item)
        about, asked = FOUND[name].about, Options()
        for key in ("tasks", "samples", "k"):
            assert int(given.get(key, getattr(asked, key))) == about[key]
        assert given.get("env", "textworld") == about["env"]
        task = given.get("env.task") or given["env.id"]
        policy = {"runs/NAME": "textworld-", "runs/NAME/sft/model": "textworld-", "expert": "expert"}
        word = typed.split()[0]
        assert task == about["task"] and about["policy"].startswith(policy.get(word, f"base {word}"))
        assert set(FOUND[name].methods["r"]) == set(listed(given["methods"]))
        assert "gradient" not in FOUND[name].methods and (given.get("gradients") == "false" or typed[:6] == "expert")


def test_what_all_methods_were_rated_is_told() -> None:
    assert markdown(ALL_METHODS, ("gradient",)) in PAGE
    assert set(ALL_METHODS.methods["r"]) == set(STANDARD)
    for measure in ("r", "r_inside"):  # the same games
        assert all(
            ALL_METHODS.methods[measure][name] == TINY.methods[measure][name] for name in ("grpo", "graft", "salt")
        )


def test_what_methods_gained_is_told() -> None:
    gains = json.loads((ROOT / "docs/credit_quality_gains.json").read_text(encoding="utf-8"))
    assert predictions(ALL_METHODS, gains) in PAGE
    trained = set(re.findall(r"algo=(\S+) budget=rl_only", PAGE)[0].split(","))
    assert trained == set(gains[GAIN])
    seeds = set(re.findall(r"seed=(\S+) \\\n", PAGE)[0].split(","))
    assert seeds == {seed for outcome in gains.values() for own in outcome.values() for seed in own}


def test_every_measure_is_told() -> None:
    assert all(f"| `{measure}` |" in PAGE for measure in BEST)


# ---- python -m benchmarks.credit_tables: rank correlations

RATED = {"grpo": 0.3, "gigpo": 0.35, "salt": 0.4, "graft": 0.6, "hgpo": 0.1}
WON = {"grpo": 110, "gigpo": 105, "salt": 120, "graft": 130, "hgpo": 90}  # of 200 games, base 100


def test_spearmans_by_hand() -> None:
    """Ranks 2 3 4 5 1 and 3 2 4 5 1: 1 - 6 (1 + 1) / (5 x 24) = 0.9; z = 1.472, and its error
    sqrt(1.405 / 2) = 0.838."""
    found = rank_correlation(list(RATED.values()), list(WON.values()))
    assert found.mean == pytest.approx(0.9)
    assert found.low == pytest.approx(math.tanh(1.4722 - 1.96 * 0.8382), abs=1e-3)
    assert found.high == pytest.approx(math.tanh(1.4722 + 1.96 * 0.8382), abs=1e-3)
    assert rank_correlation([1.0, 2, 3, 4], [1.0, 2, 3, 4]).mean == pytest.approx(1)
