"""``correction=``: verl's keys of each option, and what is refused before anything starts."""

import pytest

from turngrid.config.base import CONF
from turngrid.config.checks.check import CHECKS
from turngrid.config.compose import Composer

KEYS = ("rollout_is", "rollout_is_threshold", "rollout_rs", "rollout_rs_threshold", "bypass_mode")
TOKEN = ("token", 2.0, None, None, False)
OPTIONS = {
    "auto": (None, 2.0, None, None, True),
    "none": (None, 2.0, None, None, True),
    "sampler_clip": (None, 2.0, None, None, True),
    "token_tis": TOKEN,
    "sequence_tis": ("sequence", 2.0, None, None, False),
    "icepop": ("token", "0.5_5.0", None, None, False),
    "sequence_mis": ("sequence", 2.0, "seq_sum_k1", "0.5_2.0", False),
    "geometric": (None, 2.0, "seq_mean_k1", "0.999_1.001", False),
    "geometric_tis": ("token", 2.0, "seq_mean_k1", "0.999_1.001", False),
    "k3": (None, 2.0, "seq_mean_k3", 0.01, False),
}
NODE = "algorithm.rollout_correction"


def test_every_option_is_here() -> None:
    assert {path.stem for path in (CONF / "correction").glob("*.yaml")} == set(OPTIONS)


@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_sets_verls_keys(composed: Composer, name: str) -> None:
    config = composed([f"correction={name}"])
    assert tuple(config.algorithm.rollout_correction[key] for key in KEYS) == OPTIONS[name]
    assert [problem for rule in CHECKS for problem in rule(config)] == []


@pytest.mark.parametrize("name", ["none", "sampler_clip"])
def test_asynchronous_modes_weigh_tokens_unless_told_otherwise(composed: Composer, name: str) -> None:
    mode = "trainer.v1.trainer_mode=colocate_async"
    assert composed([mode]).algorithm.rollout_correction.rollout_is == "token"
    assert composed([mode, f"correction={name}"]).algorithm.rollout_correction.rollout_is is None


REFUSED = {
    f"{NODE}.rollout_is=token": f"use {NODE}.bypass_mode=false or correction=token_tis",
    f"{NODE}.rollout_rs=seq_mean_k1": f"use {NODE}.rollout_rs_threshold=0.999_1.001",
    f"correction=k3 {NODE}.rollout_rs_threshold=0.9_1.1": f"use {NODE}.rollout_rs_threshold=0.01",
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_verl_would_refuse_or_leave_out_is_refused(composed: Composer, words: str) -> None:
    config = composed(words.split())
    (problem,) = [problem for rule in CHECKS for problem in rule(config)]
    assert problem.endswith(REFUSED[words])
