"""Answers that share rows are those of the generator, and nothing is computed twice."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from turngrid.experiments.credit_quality import shared_rows
from turngrid.experiments.credit_quality.shared_rows import SharedRows
from turngrid.rollouts.sampling import RequestTooLong, SampleRequest
from turngrid.verl_plugin.servers.transformers_server.generator import Generator

TINY = str(Path(__file__).parents[2] / "assets" / "tiny")


def make_generator() -> Generator:
    return Generator.from_pretrained(TINY)


def prompts(count: int) -> list[list[int]]:
    rng = random.Random(0)
    return [[rng.randrange(10, 1500) for _ in range(rng.randrange(1, 40))] for _ in range(count)]


def asked(rows: Sequence[Sequence[int]], answers: int) -> list[SampleRequest]:
    return [
        SampleRequest(f"{seed} {number}", ids, 12, temperature=0.4, seed=seed)
        for seed in range(answers)
        for number, ids in enumerate(rows)
    ]


@pytest.mark.parametrize("at_once", [16, 128])
def test_answers_are_the_generators(monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    monkeypatch.setattr(shared_rows, "ANSWERS_AT_ONCE", at_once)
    first = prompts(5) + [[11] * 30]
    shared, generator = SharedRows(make_generator()), make_generator()
    for rows in (
        first,
        [[*row, 12, 13, 14] for row in first] + first[:2],
    ):  # what follows begins with what was asked before
        requests = asked(rows, 20)
        expected = generator.generate(requests)
        got = shared.generate([*requests, requests[0]])
        for one, other in zip(expected, got, strict=False):
            assert tuple(one.token_ids) == other.token_ids
            assert other.logprobs == pytest.approx(one.log_probs, abs=1e-4)
        assert got[-1] is got[0]


def test_equal_prompts_and_equal_answers_are_fed_once() -> None:
    shared, rows = SharedRows(make_generator()), [[11] * 20]
    greedy = [SampleRequest(str(seed), rows[0], 6, temperature=0, seed=seed) for seed in range(50)]
    answer = shared.generate(greedy)[0]
    assert shared.tokens == 20 + len(answer.token_ids) - 1
    shared.generate(greedy)
    assert shared.tokens == 20 + len(answer.token_ids) - 1
    shared.generate([SampleRequest("next", (*rows[0], *range(20, 30)), 1)])
    assert shared.tokens == 20 + len(answer.token_ids) - 1 + 10
    shared.forget()
    assert shared.tokens == 0


def test_prompts_of_one_call_that_begin_alike_share_their_beginning() -> None:
    """Prompts of four turns, each the one before and 10 tokens more, with 64 answers each so that
    none shares a batch."""
    shared, rows = SharedRows(make_generator()), [[11] * 20 + list(range(20, 20 + 10 * turns)) for turns in range(4)]
    shared.generate([SampleRequest(f"{seed}", row, 1, seed=seed) for row in rows for seed in range(64)])
    assert shared.tokens == len(rows[-1])


def test_what_does_not_fit_is_an_error_of_its_own() -> None:
    shared = SharedRows(make_generator())
    long, short = shared.generate([SampleRequest("a", [11] * 2040, 12), SampleRequest("b", [11] * 5, 2)])
    assert isinstance(long, RequestTooLong) and len(short.token_ids) <= 2


def test_old_prompts_make_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_rows, "PROMPT_BYTES", 1)
    shared, generator = SharedRows(make_generator()), make_generator()
    for rows in ([[11] * 9, [12] * 9], [[11] * 12, [12] * 12]):
        requests = asked(rows, 3)
        assert [a.token_ids for a in shared.generate(requests)] == [
            tuple(a.token_ids) for a in generator.generate(requests)
        ]


def test_what_is_counted_is_what_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a piece is dropped after a prompt of the same batch was found to begin with it,
    and then put again."""
    shared, (first, other) = SharedRows(make_generator()), ([11] * 20, [12] * 15)
    shared.generate([SampleRequest("first", first, 1)])
    token_bytes = shared._prompts._nbytes // len(first)
    monkeypatch.setattr(shared_rows, "PROMPT_BYTES", 30 * token_bytes)
    for rows in ([other, [*first, 13, 13, 13, 13, 13]], [other, first], [[*first, 14], [*other, 14]]):
        shared.generate([SampleRequest("", row, 1) for row in rows])
        kept = shared._prompts
        held = {id(piece): piece.states for one in kept._pieces.values() for piece in one.chain()}
        assert kept._nbytes == sum(states.nbytes for states in held.values()) <= shared_rows.PROMPT_BYTES
        assert kept._lengths == Counter(map(len, kept._pieces))
        assert all(kept.longest(packed) is piece for packed, piece in kept._pieces.items())
