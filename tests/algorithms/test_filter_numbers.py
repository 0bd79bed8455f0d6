"""Every filter on example X."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from example_x import PATHS, example_x
from usual import method, of_words

from turngrid.algorithms.registry import SLOTS

# what is chosen -> the episodes that are kept. P1 ran out of turns and has an invalid turn, Q6 is
# garbled; scores P 1 0 0 .75, Q 0 1 0
KEPT = {
    "void_turns": [0, 2, 3, 4, 5, 6],
    "over_turns": [0, 2, 3, 4, 5, 6],
    "dr_bot": [0, 2, 3, 4, 5],
    "zero_std": [0, 1, 2, 3, 4, 5, 6],
    "dynamic_sampling": [0, 1, 2, 3, 4, 5, 6],
    "solved": [0, 1, 2, 3, 4, 5, 6],  # it acts on later epochs
    "difficulty": [0, 1, 2, 3, 4, 5, 6],
    "difficulty low=0.4": [0, 1, 2, 3],  # the means are .4375 and .33333
    "difficulty high=0.4": [4, 5, 6],
    "std_top share=0.5": [4, 5, 6],  # the deviations are .51539 and .57735
    "std_top share=0.5 smallest=true": [0, 1, 2, 3],
    "std_top share=0.1": [4, 5, 6],  # int(.1 x 2) is 0, and one group is kept
    "std_top share=1": [0, 1, 2, 3, 4, 5, 6],
    "std_top_p": [0, 1, 2, 3, 4, 5, 6],  # .9 x 1.09274 - .01 is above .57735
    "std_min_p": [0, 1, 2, 3, 4, 5, 6],
}


@pytest.mark.parametrize("words", KEPT)
def test_what_a_filter_keeps_of_example_x(words: str) -> None:
    made = of_words("filter", words)
    assert made(example_x(), 1).nonzero().flatten().tolist() == KEPT[words]


def test_every_filter_has_an_example() -> None:
    assert {words.split()[0] for words in KEPT} == set(SLOTS["filter"]) - {"entropy_turns"}


# share, scope -> the turns that are muted. P's entropies .1 .2 .2 .3 .4 .5 .6 .7 .8 .9, Q's all .5
MUTED = {
    (0.2, "group"): [[3, 0]],  # the quantile is .2, and ties stay
    (0.1, "group"): [[3, 0]],  # .19
    (0, "group"): [],
    (0.5, "group"): [[0, 0], [0, 1], [2, 0], [3, 0], [3, 1]],  # .45; equal ones stay
    (0.2, "batch"): [[0, 0], [3, 0], [3, 1]],  # .3: the fourth of 16
}


@pytest.mark.parametrize(("share", "scope"), MUTED)
def test_turns_of_low_entropy_are_muted(share: float, scope: str) -> None:
    made = method("filter", "entropy_turns", share=share, scope=scope)
    turns = example_x()
    assert (turns.mask & ~made(turns, 1)).nonzero().tolist() == MUTED[share, scope]
    alone = example_x(paths={"P_0": PATHS["P_0"]})
    assert made(alone, 1)[0].tolist() == [share == 0, True]


def test_std_top_of_the_specification_and_ties_go_to_the_first_prompts() -> None:
    """Deviations (.5, 0, .433, .25), half of four: groups 0 and 2. Of equal ones, the first
    prompts, in whatever order rows lie."""
    top = of_words("filter", "std_top share=0.5")
    assert kept(top, SPREAD) == "ac"
    top_p = of_words("filter", "std_top_p share=0.5")  # half of 3 x .70711 needs two
    for order in (1, -1):
        assert kept(top, EQUAL, order) == kept(top_p, EQUAL, order) == "ab"
    assert kept(of_words("filter", "std_min_p share=1"), EQUAL) == "abd"


EQUAL = [0, 1, 1, 0, 0.5, 0.5, 0, 1]  # all deviate by .70711, but the third group
SPREAD = [0, 0.707, 0, 0, 0, 0.612, 0, 0.354]  # deviations .49992 0 .43275 .25032, together 1.18299


def kept(keeps: Any, scores: list[float], order: int = 1) -> str:
    """The groups of two that a filter keeps of four; ``order`` -1: rows lie the other way round."""
    names, group = [f"{group}_{sample}" for group in "abcd" for sample in "01"], torch.arange(8) // 2
    columns = {"group": group[::order] if order > 0 else group.flip(0), "episodes": tuple(names[::order])}
    rewards = torch.tensor(scores[::order]).double().unsqueeze(1)
    found = keeps(replace(example_x(), reward=rewards, mask=torch.ones(8, 1).bool(), **columns), 1)
    return "".join(sorted({columns["episodes"][place][0] for place in found.nonzero().flatten().tolist()}))


@pytest.mark.parametrize(
    ("words", "factor", "groups"),
    [
        ("std_top_p share=0.9", 1, "acd"),  # 1.06469 - .01 lies above .93267, the sum of a and c
        ("std_top_p share=0.795", 1, "ac"),  # .94048 - .01
        ("std_top_p share=0.795 epsilon=0", 1, "acd"),
        ("std_top_p share=1", 1, "acd"),  # whatever epsilon is
        ("std_top_p share=0.9", 0.01, "a"),  # .01065 - .01 lies above 0
        ("std_top_p share=0.9", 0.009, ""),  # .00958 - .01 does not
        ("std_min_p share=0.5", 1, "acd"),  # .24996
        ("std_min_p share=0.51", 1, "ac"),
        ("std_min_p share=1", 1, "a"),
        ("std_min_p share=0.1", 0, ""),
        ("std_top_p share=1", 0, ""),
    ],
)
def test_top_p_and_min_p_of_deviations(words: str, factor: float, groups: str) -> None:
    made = of_words("filter", words)
    assert kept(made, [factor * score for score in SPREAD]) == groups
    alone = example_x(paths={"P_0": PATHS["P_0"]})
    assert not made(alone, 1).any()


def test_bounds_that_cannot_be() -> None:
    with pytest.raises(ValueError, match=r"high=0.05 must lie in \[0.1, inf\]"):
        of_words("filter", "difficulty high=0.05")
