"""Every algorithm x credit x filter x loss, and x term, either runs or is refused, as one table
here says."""

import itertools
from functools import cache
from typing import Any, cast

import pytest
import yaml
from omegaconf import DictConfig, OmegaConf

from turngrid.algorithms.registry import ALGORITHMS, SLOTS, VERLS_LOSSES
from turngrid.config.base import CONF
from turngrid.config.checks.methods import bad_methods
from turngrid.config.compose import composer

LOSSES = ("", *SLOTS["loss"], *VERLS_LOSSES)
A_TURN = set(SLOTS["credit"]) - {"aem", "aepo"}  # take one advantage a turn; these multiply what there is
BY_TOKEN = ("ppo", "reinforce_plus_plus")
DIVIDED_BY_EPISODES = ("dr_grpo", "gspo")
COMPARED = ("gigpo", "hgpo", "mt_grpo", "graft")  # turns with each other
DIVIDED_BY_STD = ("gigpo", "hgpo")
Names = tuple[str, ...]
CREDITS = [(), *((name,) for name in SLOTS["credit"])]
PAIRS = list(itertools.permutations(SLOTS["credit"], 2))
FILTERS = [(), *((name,) for name in SLOTS["filter"]), ("std_top", "dr_bot")]
TERMS = [(name,) for name in SLOTS["terms"]]
PRODUCT = [*itertools.product(CREDITS, FILTERS, [()]), *itertools.product(CREDITS, [()], TERMS)]
FILTERED = list(itertools.product([()], FILTERS, [()]))  # a loss minds no credit and no term
PAIRED = [(pair, (), ()) for pair in PAIRS]  # which the algorithms divide among them, as they do losses
MANY = ("credit", "filter", "terms")  # slots that hold several methods


@pytest.fixture(scope="module")
def composed() -> dict[str, DictConfig]:
    """By the option of ``loss=`` a config with every method of every slot that may hold several."""
    with composer() as compose:
        config = compose([f"{slot}=[{','.join(SLOTS[slot])}]" for slot in MANY] + ["loss=turn_clip"])
    return {loss: with_loss(config, loss) for loss in LOSSES}


@cache
def _file(loss: str) -> Any:
    return yaml.safe_load((CONF / "loss" / f"{loss}.yaml").read_text(encoding="utf-8"))


def with_loss(everything: DictConfig, loss: str) -> DictConfig:
    """As composed with this one."""
    config = cast(DictConfig, OmegaConf.merge(everything, _file(loss) if loss in VERLS_LOSSES else {}))
    if loss not in SLOTS["loss"]:
        config["loss"] = {}
    if not loss:
        config.actor_rollout_ref.actor.policy_loss.loss_mode = "vanilla"
    return config


def refused(algo: str, credit: Names, filters: Names, loss: str) -> bool:
    """The declared table. A group has 8 samples, an episode one row, no episode branches off, and
    the trainer is synchronous. ``role_norm`` needs roles, ``tree``, ``tree_q`` and ``pair`` a form
    that branches off, ``plays`` one that plays again, ``rlvmr`` a prompt form of its own, and
    ``igpo`` an environment with right answers."""
    return (
        bool({"tree", "tree_q", "pair", "attempts", "rlvmr", "igpo", "role_norm"} & {*credit})
        or (algo in BY_TOKEN and bool(A_TURN & {*credit}))
        or (algo == "rloo" and bool({*DIVIDED_BY_STD} & {*credit}))
        or ("hgpo" in credit and (credit[0] != "hgpo" or len({*COMPARED} & {*credit}) > 1))
        or ("group_scale" in credit and scales_in_vain(algo, credit, filters))
        or (bool(filters) and loss in DIVIDED_BY_EPISODES)
    )


def scales_in_vain(algo: str, credit: Names, filters: Names) -> bool:
    return credit[-1] != "group_scale" or algo == "lite_ppo" or bool({"zero_std", "dynamic_sampling"} & {*filters})


@pytest.mark.parametrize(("number", "algo"), enumerate(ALGORITHMS))
def test_what_is_refused_is_what_the_table_says(composed: dict[str, DictConfig], number: int, algo: str) -> None:
    nodes, met = {slot: dict(composed[""][slot].items()) for slot in MANY}, set()
    for loss in ("", *LOSSES[1 + number :: len(ALGORITHMS)]):
        chosen = composed[loss].copy()
        chosen.algo.name = algo
        for credit, filters, terms in [*PRODUCT, *PAIRED[number :: len(ALGORITHMS)]] if not loss else FILTERED:
            for slot, names in zip(MANY, (credit, filters, terms), strict=True):
                chosen[slot] = {name: nodes[slot][name] for name in names}
            expected = refused(algo, credit, filters, loss)
            problem = next(bad_methods(chosen), None)
            assert bool(problem) == expected, (algo, credit, filters, loss, problem)
            met.add(expected)
    assert met == {True, False}


@pytest.mark.parametrize("loss", VERLS_LOSSES)
def test_a_word_for_a_loss_of_verls_sets_keys_of_verls_alone(composed: dict[str, DictConfig], loss: str) -> None:
    assert set(_file(loss)) == {"actor_rollout_ref"} and set(_file(loss)["actor_rollout_ref"]) == {"actor"}
    mode = composed[loss].actor_rollout_ref.actor.policy_loss.loss_mode
    assert mode == (loss if mode in VERLS_LOSSES else "vanilla")
