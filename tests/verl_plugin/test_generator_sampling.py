"""From a uniform number to a token, by hand and by counting."""

import math

import numpy as np
import pytest
import torch

from turngrid.verl_plugin.servers.transformers_server.batch import Rules, draw, full_entropies, restrict, uniforms

SHARES = [0.5, 0.3, 0.15, 0.05]


def draw_one(uniform: float, temperature: float = 1.0, top_p: float = 1.0, top_k: int = -1) -> tuple[int, float]:
    logits = torch.tensor([SHARES]).log()
    tokens, logprobs = draw(
        logits, Rules([temperature], [top_p], [top_k]), torch.tensor([uniform], dtype=torch.float64)
    )
    return int(tokens[0]), float(logprobs[0])


@pytest.mark.parametrize(
    ("uniform", "token"), [(0.0, 0), (0.49, 0), (0.51, 1), (0.79, 1), (0.81, 2), (0.94, 2), (0.96, 3), (1 - 2**-53, 3)]
)
def test_the_token_is_where_the_cumulative_share_passes_the_uniform(uniform: float, token: int) -> None:
    drawn, logprob = draw_one(uniform)
    assert drawn == token
    assert logprob == pytest.approx(math.log(SHARES[token]), abs=1e-6)


def test_temperature_two_takes_square_roots_of_the_shares() -> None:
    """sqrt(.5, .3, .15, .05) = .7071, .5477, .3873, .2236, in sum 1.8657: shares .3790, .2936,
    .2076, .1198."""
    assert [draw_one(u, temperature=2.0)[0] for u in (0.378, 0.380, 0.672, 0.674, 0.879, 0.881)] == [0, 1, 1, 2, 2, 3]
    assert draw_one(0.5, temperature=2.0)[1] == pytest.approx(math.log(math.sqrt(0.3) / 1.8657), abs=1e-4)


def test_entropies_are_of_the_whole_distribution_at_the_temperature() -> None:
    """Whatever top-k and top-p leave out; temperature 0 stands for 1. Of the shares above and of
    those of temperature two."""
    logits = torch.tensor([SHARES] * 3).log()
    found = full_entropies(logits, Rules([1.0, 2.0, 0.0], [0.5, 1.0, 1.0], [1, -1, -1]))
    halved = [math.sqrt(share) / 1.8657 for share in SHARES]
    wanted = [-sum(share * math.log(share) for share in shares) for shares in (SHARES, halved, SHARES)]
    assert found.tolist() == pytest.approx(wanted, abs=1e-4)


def test_top_k_rescales_what_is_left_but_not_the_log_probs() -> None:
    """Of 0.5 and 0.3 the first has 0.625."""
    assert [draw_one(u, top_k=2)[0] for u in (0.624, 0.626, 1 - 2**-53)] == [0, 1, 1]
    assert draw_one(0.9, top_k=2)[1] == pytest.approx(math.log(0.3), abs=1e-6)


def test_top_p_keeps_the_fewest_that_reach_it() -> None:
    """0.5 + 0.3 reach 0.7, and 0.5 + 0.3 + 0.15 reach 0.9."""
    weights = torch.tensor([SHARES], dtype=torch.float64)
    kept = [restrict(weights, Rules([1.0], [p], [-1]))[0].count_nonzero().item() for p in (0.4, 0.5, 0.7, 0.9, 0.99)]
    assert kept == [1, 1, 2, 3, 4]
    assert draw_one(1 - 2**-53, top_p=0.7)[0] == 1


def test_top_p_counts_in_what_top_k_has_left() -> None:
    """After top-k of two the first has 0.625 by itself, enough for 0.6."""
    assert draw_one(0.99, top_p=0.6, top_k=2)[0] == 0
    assert draw_one(0.99, top_p=0.7, top_k=2)[0] == 1


def test_temperature_zero_takes_the_likeliest_whatever_the_uniform() -> None:
    token, logprob = draw_one(0.999, temperature=0.0)
    assert token == 0
    assert logprob == pytest.approx(math.log(0.5), abs=1e-6), "log-probs of greedy choices are at temperature 1"


def test_uniforms_of_a_seed_do_not_depend_on_how_many_are_asked_for() -> None:
    assert np.array_equal(uniforms(11, 40)[:7], uniforms(11, 7))
    assert not np.array_equal(uniforms(11, 7), uniforms(12, 7))
    assert uniforms(2**64 - 1, 1)[0] < 1
