"""Mutual information of answers and prompts by hand, and what it is of answers that ignore their
prompts or give them away."""

import math

import pytest
import torch

from turngrid.algorithms.mutual_information import mutual_information

HAND = [[0.5, 0.25], [0.1, 0.4]]  # probabilities; the first answer has two tokens
NUMBERS = {
    "mutual_information": 0.378843,  # mean of ln(.5 / .375) and ln(.4 / .25)
    "mutual_information_per_token": 0.314175,  # of ln(.707107 / .603553) and ln(.4 / .25)
    "mutual_information_z": 0.711307,  # .314175 / (.440687 + .001), half of -.504921 + 1.386294
    "conditional_entropy_per_token": 0.631432,  # of -ln .707107 and -ln .4
    "marginal_entropy_per_token": 0.945607,  # of -ln .603553 and -ln .25
    "retrieval": 1.0,
    "retrieval_chance": 0.5,
}


def test_two_answers_by_hand() -> None:
    found = mutual_information(torch.tensor(HAND).log(), torch.tensor([2, 1]), torch.tensor([0, 1]))
    assert found == pytest.approx(NUMBERS, abs=1e-5)


@pytest.mark.parametrize(
    ("log_probs", "prompts", "information", "retrieval", "chance"),
    [
        ([[-3.0] * 4, [-1.0] * 4, [-2.0] * 4, [-9.0] * 4], [0, 1, 2, 3], 0, 0.25, 0.25),  # one template for all
        ([[0 if i == j else -200.0 for j in range(4)] for i in range(4)], [0, 1, 2, 3], math.log(4), 1, 0.25),
        ([[-1, -1, -9.0], [-1, -1, -9.0], [-2, -2, -5.0]], [0, 0, 1], None, 2 / 3, 5 / 9),  # two prompts are equal
        ([[-1.0]], [0], 0, 1, 1),
    ],
)
def test_templates_and_answers_that_give_their_prompt_away(
    log_probs: list[list[float]], prompts: list[int], information: float | None, retrieval: float, chance: float
) -> None:
    found = mutual_information(torch.tensor(log_probs), torch.ones(len(prompts)), torch.tensor(prompts))
    assert information is None or found["mutual_information"] == pytest.approx(information, abs=1e-5)
    assert found["mutual_information"] <= math.log(len(prompts)) + 1e-9
    assert [found["retrieval"], found["retrieval_chance"]] == pytest.approx([retrieval, chance])
    assert found["marginal_entropy_per_token"] - found["conditional_entropy_per_token"] == pytest.approx(
        found["mutual_information_per_token"]
    )
