"""Entropies that our rollout server tells with its tokens, beside those of a pass of the trainer's over the same rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
import transfer_queue as tq
from step_probe import TINY, composed, made, turns_of
from transformers import AutoModelForCausalLM, AutoTokenizer

from algorithms.chosen import ALGO, Chosen, slots_of
from algorithms.registry import ON_BATCH
from config.compose import composer
from rollouts.episode import Episode, Outcome, Turn
from rollouts.sampling import SampleRequest
from verl_plugin.rollout.agent_loop import entropies_of, entropies_wanted, to_outputs
from verl_plugin.rollout.agent_worker import AgentLoopWorker, _tag
from verl_plugin.servers.transformers_server.generator import Generator

TEMPERATURE = 0.7  # the default run's
METHODS = ("algo=grpo", "credit=[aem,empg]", "credit.aem.scope=batch")
SIZES = ("actor_rollout_ref.rollout.n=2", "actor_rollout_ref.actor.ppo_mini_batch_size=2")
SEEN = "You are in a kitchen. There is a chest here. It is closed. You see a red door to the north. You carry a key."
PASS = "algorithm.rollout_correction.bypass_mode=false"
Row = tuple[str, dict[str, Any], dict[str, Any]]


@pytest.fixture(scope="module")
def generator() -> Generator:
    return Generator.from_pretrained(str(TINY))


@pytest.fixture(scope="module")
def sampled(queue: None, one_process: None, generator: Generator) -> Callable[[str, int, int], Row]:
    """Rows of two turns, of a real generator, sampled once."""
    words = AutoTokenizer.from_pretrained(TINY).encode(SEEN)

    def turn(ids: list[int], name: str) -> Turn:
        request = SampleRequest(
            name, tuple(ids), 3 + int(name[3]) % 3, TEMPERATURE, top_k=200, seed=len(ids), full_entropies=True
        )
        (answer,) = generator.generate([request])
        return Turn("", "", answer.token_ids, answer.log_probs, full_entropies=list(answer.full_entropies))

    @cache
    def row(prompt: str, sample: int, window: int) -> Row:
        ids, context = words[int(prompt) : 12 + sample], words[: 4 + sample]
        first = turn(ids, f"{prompt}_{sample}")
        first.context_ids, first.rewards = context, {"dense": float(sample)}
        second = turn([*ids, *first.action_ids, *context], f"{prompt}_{sample}")
        told = {"seed": 0, "split": "train", "goal": "", "messages": [], "outcome": Outcome.LOST}
        episode = Episode("task", prompt_ids=ids, turns=[first, second], **told)
        (output,) = to_outputs(episode, "dense")
        asked = {"uid": prompt, "session_id": sample, **turns_of(sample)}
        fields = AgentLoopWorker._fields(None, output, asked)  # type: ignore[arg-type]
        return f"{prompt}_{sample}_{window}", fields, _tag(fields, 1)

    return row


def stepped(folder: Path, row: Callable[[str, int, int], Row], *overrides: str) -> tuple[Any, dict[str, Any]]:
    """What is in the queue after a step, by field, and its metrics."""
    trainer, metrics = made(composed(folder, *METHODS, *SIZES, *overrides), str(TINY), 1), {}
    trainer.replay_buffer.row = row
    batch = trainer.step(metrics, {})
    wanted = ["entropy", "loss_mask", "advantages"]
    data = tq.kv_batch_get(keys=sorted(batch.keys), partition_id=batch.partition_id, select_fields=wanted)
    found = {name: torch.cat(list(data[name].unbind())) for name in wanted}
    tq.kv_clear(keys=batch.keys, partition_id=batch.partition_id)
    return found, metrics


def test_a_step_learns_the_same_from_the_servers_entropies(
    sampled: Callable[[str, int, int], Row], tmp_path: Path
) -> None:
    told, metrics = stepped(tmp_path, sampled)
    computed, again = stepped(tmp_path, sampled, PASS)
    assert "actor/entropy" in again and "actor/entropy" not in metrics, "both had the same number of passes"
    alive = told["loss_mask"].bool()
    assert told["entropy"][alive].std() > 0.1
    assert not told["entropy"][~alive].any()
    assert torch.allclose(told["entropy"][alive], computed["entropy"][alive], atol=1e-4, rtol=0), (
        "verl's sum in float32"
    )
    assert torch.allclose(told["advantages"], computed["advantages"], atol=1e-4, rtol=0)
    assert metrics["actor/grad_norm"] == pytest.approx(again["actor/grad_norm"], rel=1e-3)


def test_entropies_are_exact(sampled: Callable[[str, int, int], Row]) -> None:
    """Within 1e-5 of the model in float64, in every turn; the trainer's own are within 4e-5 of it."""
    model = AutoModelForCausalLM.from_pretrained(TINY).double()
    for prompt, sample in ((0, 0), (1, 1), (2, 0)):
        _, row, _ = sampled(f"{prompt:04d}", sample, 0)
        with torch.no_grad():
            logits = model(input_ids=row["input_ids"][None]).logits[0, len(row["prompts"]) - 1 : -1] / TEMPERATURE
        wanted = torch.distributions.Categorical(logits=logits).entropy()
        alive = row["loss_mask"].bool()
        torch.testing.assert_close(row["entropy"].double()[alive], wanted[alive], atol=1e-5, rtol=0)


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
