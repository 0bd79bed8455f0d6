"""Entropies that our rollout server tells with its tokens: when it is asked, that they are right,
and their way into rows.

``test_engines`` has the trainer's own beside them, ``test_steps`` a step with either.
"""

from dataclasses import replace

import pytest
import torch
from step_probe import TINY
from transformers import AutoModelForCausalLM, AutoTokenizer

from turngrid.algorithms.chosen import ALGO, Chosen, slots_of
from turngrid.algorithms.registry import ON_BATCH
from turngrid.config.compose import composer
from turngrid.rollouts.episode import Episode, Outcome, Turn
from turngrid.rollouts.sampling import SampleRequest
from turngrid.verl_plugin.rollout.agent_loop import entropies_of, entropies_wanted, row_fields
from turngrid.verl_plugin.servers.transformers_server.generator import Generator

TEMPERATURE = 0.7
SEEN = "You are in a kitchen. There is a chest here. It is closed. You see a red door to the north. You carry a key."
PASS = "algorithm.rollout_correction.bypass_mode=false"


@pytest.fixture(scope="module")
def generator() -> Generator:
    return Generator.from_pretrained(str(TINY))


def played(generator: Generator, ids: list[int], context: list[int]) -> Episode:
    """Two turns, of which the second has the first's prefix."""
    turns: list[Turn] = []
    seen = list(ids)
    for _ in range(2):
        asked = SampleRequest("0", tuple(seen), 5, TEMPERATURE, top_k=200, seed=len(seen), full_entropies=True)
        (answer,) = generator.generate([asked])
        full = list(answer.full_entropies)
        turns.append(Turn("", "", answer.token_ids, answer.logprobs, full_entropies=full, context_ids=context))
        seen += [*answer.token_ids, *context]
    return Episode("task", 0, "train", "", [], ids, turns, Outcome.LOST)


def test_entropies_are_exact_in_every_turn(generator: Generator) -> None:
    model, words = AutoModelForCausalLM.from_pretrained(TINY).double(), AutoTokenizer.from_pretrained(TINY).encode(SEEN)
    for first in range(3):
        episode = played(generator, words[first:12], words[: 4 + first])
        (row,) = row_fields(episode, "dense")
        with torch.no_grad():
            logits = model(input_ids=torch.cat([row["prompts"], row["responses"]])[None]).logits[0] / TEMPERATURE
        wanted = torch.distributions.Categorical(logits=logits[len(row["prompts"]) - 1 : -1]).entropy()
        alive = row["response_mask"].bool()
        assert wanted[alive].std() > 0.1 and not row["entropy"][~alive].any()
        torch.testing.assert_close(row["entropy"][alive].double(), wanted[alive], atol=1e-5, rtol=0)


def test_asking_for_entropies_changes_no_answer(generator: Generator) -> None:
    bare = [SampleRequest(f"{n}", (5, 6 + n), 4, TEMPERATURE, seed=n) for n in range(3)]
    answers = []
    for requests in (bare, [replace(one, full_entropies=one.seed != 1) for one in bare]):
        generator.memory.clear()
        answers.append(generator.generate(requests))
    assert [replace(answer, full_entropies=()) for answer in answers[1]] == answers[0]
    asked = [len(answer.full_entropies) == len(answer.token_ids) for answer in answers[1]]
    assert asked == [True, False, True] and not answers[1][1].full_entropies


@pytest.mark.parametrize(
    ("words", "bypassed", "asked"),
    [
        ("algo=grpo", True, False),
        ("algo=aem", True, True),
        ("algo=epo", True, True),
        (f"algo=aem {PASS}", False, False),
        ("algo=aem rollout=vllm", False, False),
        ("algo=aem trainer.v1.trainer_mode=colocate_async", False, False),
        ("algo=gigpo rollout=vllm", True, False),
    ],
)
def test_the_trainer_has_its_pass_where_the_server_cannot_tell(words: str, bypassed: bool, asked: bool) -> None:
    with composer() as compose:
        config = compose(["model=tiny", *words.split()])
    assert config.algorithm.rollout_correction.bypass_mode is bypassed
    assert entropies_wanted(config, Chosen(slots_of(config, (*ON_BATCH, ALGO)))) is asked


def test_a_token_without_its_entropy_is_an_error() -> None:
    assert not entropies_of([Turn("", "", [1, 2], [-1.0, -1.0])])
    with pytest.raises(ValueError, match="of every token"):
        entropies_of([Turn("", "", [1, 2], [-1.0] * 2, full_entropies=[0.5, 0.5]), Turn("", "", [1], [-1.0])])
