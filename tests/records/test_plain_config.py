"""What is read off a config in a fraction of OmegaConf's time is what OmegaConf says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from config.compose import Composer, composer
from records.plain_config import plain, resolved

LINES = (
    [],
    ["seed=7"],
    ["algo=ppo", "env.tasks=[w2-o3-q4,w4-o6-q8]"],
    ["shaping=[turn_bonus,format]", "tracking.run_name='a ${seed}'"],
    ["shaping=[format,turn_bonus]", "tracking.run_name=${tracking.group}", "tracking.group=null"],
    ["cluster=gpu1", "seed=${actor_rollout_ref.rollout.n}", "+critic.model.override_config.x=${eval}"],
)
ODD = (
    {"a": {"b": "${c}", "l": [1, "${a.b}", {"x": "${c}"}]}, "c": 1, "d": "${a}", "e": "${oc.select:a.b,2}"},
    {"a": {"b": "${c}", "l": [True]}, "c": True, "d": "${oc.select:a.x,[1]}", "e": "${oc.select:nope.b,2}"},
    {"a": None, "c": "???", "d": "${oc.select:a.b,3}", "e": "${oc.select:c,4}"},
    {"a": {"b": 1}, "c": "\\${a.b}", "d": "${a.b}${a.b}", "e": "${a[b]}"},
)


@pytest.fixture(scope="module")
def composed() -> Iterator[Composer]:
    with composer() as compose:
        yield compose


def same(one: Any, other: Any) -> bool:
    """Types and the order of keys, too."""
    return repr(one) == repr(other)


@pytest.mark.parametrize("overrides", LINES, ids=" ".join)
def test_of_a_runs_config(composed: Composer, overrides: list[str]) -> None:
    whole = plain(composed(overrides))
    assert same(whole, OmegaConf.to_container(composed(overrides)))
    assert same(resolved(whole), OmegaConf.to_container(OmegaConf.create(whole), resolve=True))


@pytest.mark.parametrize("whole", [*ODD, *ODD[::-1]], ids=json.dumps)
def test_of_odd_ones(whole: dict[str, Any]) -> None:
    assert same(resolved(whole), OmegaConf.to_container(OmegaConf.create(whole), resolve=True))


@pytest.mark.parametrize(
    "whole", [{"a": "${b}", "b": "${a}"}, {"a": "${nope}", "b": 1}, {"a": "${b.c}", "b": 1}], ids=json.dumps
)
def test_an_interpolation_to_nowhere_is_none_here_either(whole: dict[str, Any]) -> None:
    with pytest.raises((OmegaConfBaseException, RecursionError)):
        resolved(whole)
    assert resolved({"a": "${b}", "b": 1}) == {"a": 1, "b": 1}
