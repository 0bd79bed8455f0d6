"""Which algorithm, credit method and filter go together, as one table here says."""

import itertools

import pytest

from turngrid.algorithms.registry import ALGORITHMS, SLOTS
from turngrid.config.checks.methods import bad_methods
from turngrid.config.compose import Composer
from turngrid.tasks.run import Run

A_TURN = set(SLOTS["credit"]) - {"aem", "aepo"}  # take one advantage a turn; these multiply what there is
BY_TOKEN = ("ppo", "reinforce_plus_plus")
ELSEWHERE = {"tree", "tree_q", "pair", "attempts", "rlvmr", "igpo", "role_norm"}  # with another form, env or roles
COMPARED = {"gigpo", "hgpo", "mt_grpo", "graft"}  # turns with each other
SCALED = {"zero_std", "dynamic_sampling"}  # filters after which group_scale has nothing left to do
CREDITS = [*((name,) for name in SLOTS["credit"]), *itertools.permutations(SLOTS["credit"], 2)]
FILTERS = [(), *((name,) for name in SLOTS["filter"])]


def refused(algo: str, credit: tuple[str, ...], filters: tuple[str, ...]) -> bool:
    """The declared table. A group has 8 samples, an episode one row, no episode branches off."""
    return (
        bool(ELSEWHERE & {*credit})
        or (algo in BY_TOKEN and bool(A_TURN & {*credit}))
        or (algo == "rloo" and bool({"gigpo", "hgpo"} & {*credit}))
        or ("hgpo" in credit and (credit[0] != "hgpo" or len(COMPARED & {*credit}) > 1))
        or (
            "group_scale" in credit and (credit[-1] != "group_scale" or algo == "lite_ppo" or bool(SCALED & {*filters}))
        )
    )


@pytest.mark.parametrize(("number", "algo"), enumerate(ALGORITHMS))
def test_what_is_refused_is_what_the_table_says(composed: Composer, number: int, algo: str) -> None:
    """Each credit method with each filter, and a share of the pairs of credit methods."""
    config = composed([f"{slot}=[{','.join(SLOTS[slot])}]" for slot in ("credit", "filter")])
    nodes = {slot: dict(config[slot].items()) for slot in ("credit", "filter")}
    config.algo.name = algo
    single, paired = CREDITS[: len(SLOTS["credit"])], CREDITS[len(SLOTS["credit"]) :]
    chosen = [*itertools.product(single, FILTERS), *((pair, ()) for pair in paired[number :: len(ALGORITHMS)])]
    for credit, filters in chosen:
        for slot, names in (("credit", credit), ("filter", filters)):
            config[slot] = {name: nodes[slot][name] for name in names}
        problem = next(bad_methods(Run(config)), None)
        assert bool(problem) == refused(algo, credit, filters), (algo, credit, filters, problem)
