"""Contexts: how they are made of an episode's tokens, and the pass that scores them."""

import asyncio
import math
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
import transfer_queue as tq
from engine_probe import TINY
from step_probe import composed, made
from test_steps import SIZES, given  # noqa: F401 - a fixture
from transformers import AutoTokenizer
from usual import form_of, method

from turngrid.algorithms.contexts import Context
from turngrid.envs.environment import PromptStyle
from turngrid.envs.types import Observation, StepResult, TaskRef
from turngrid.rollouts.episode import Episode
from turngrid.rollouts.loop import run_episode
from turngrid.rollouts.policy import ExpertPolicy
from turngrid.rollouts.prompt_forms.form import PromptForm
from turngrid.rollouts.row import turns_of_rows
from turngrid.rollouts.spec import EpisodeSpec
from turngrid.rollouts.window import Summaries, Window
from turngrid.verl_plugin.rollout.agent_loop import row_fields
from turngrid.verl_plugin.rollout.contexts import SeenRow, common, context_fields, packed, unpacked
from turngrid.verl_plugin.rollout.token_stream import TokenCodec
from turngrid.verl_plugin.rollout.turn_fields import lengths
from turngrid.verl_plugin.training import replay
from turngrid.verl_plugin.training.turn_rows import padded

SEEN = ("You are in a hall.", "You take the key.", "The door opens.", "You go east, into the garden.", "You win.")
PLAN = ("take key", "open door", "go east", "take rose")
STYLE = PromptStyle("You play a game.", "Answer with one action.")
TASK = TaskRef("t", "t", {}, 1, "train", "", "", "take the rose", PLAN, "", 1.0)
SPEC = EpisodeSpec(TASK, STYLE, max_turns=4)
WINDOWS = [None, Window(2, 1), Window(2, 0), Summaries(tokens=None, turns=2, most=None, length=8)]
HISTORY = Window(1, 2, inline=True)
HINT, OTHER = "This attempt succeeds.", "No information found."


class Game:
    """A session whose game is won by its fourth action; it knows a right answer."""

    async def reset(self, task: TaskRef, seed: int) -> Observation:
        self.turn = 0
        return Observation(SEEN[0], gold=("rose",))

    async def step(self, action: str) -> StepResult:
        self.turn += 1
        over = self.turn == len(PLAN)
        return StepResult(Observation(SEEN[self.turn], gold=("rose",)), float(over), over, False, over, False, True)


@cache
def codec() -> TokenCodec:
    return TokenCodec(AutoTokenizer.from_pretrained(TINY), "llama")


def played(window: Any = None, form: str | PromptForm = "plain", **more: Any) -> tuple[Episode, list[SeenRow]]:
    """An episode of the expert's, whose ids are as sampled ones, and its rows."""
    if isinstance(form, str):
        form = form_of(form, history=window.keep if window is HISTORY else None)
    spec = replace(SPEC, window=window, form=form, **more)
    episode = asyncio.run(run_episode(ExpertPolicy(), Game(), spec, codec().stream()))  # type: ignore[arg-type]
    return episode, [SeenRow(episode, *part, spec, codec(), "take {}") for part in turns_of_rows(episode)]


def text(ids: list[int]) -> str:
    return codec().tokenizer.decode(ids)


@pytest.mark.parametrize("window", [*WINDOWS, HISTORY], ids=str)
@pytest.mark.parametrize("form", ["plain", "think_action"])
def test_a_masked_observation_moves_no_token(window: Any, form: str) -> None:
    """Also where it begins a row, in the prompt; nothing but the newest observation is another."""
    _, rows = played(window, form)
    assert (len(rows) > 1) == (window is not None)
    for row in rows:
        for turn, seen in enumerate(row.turns):
            plain, masked = row.before(turn), row.with_observation(turn, OTHER)
            if seen.aside:  # asked for after the observation, in one message
                continue
            assert masked is not None and len(masked) == len(plain)
            start, end = common(plain, masked)
            assert seen.observation.lower().startswith(text(plain[start : len(plain) - end]).lower().strip()[:4])
            assert text(plain).lower().rstrip().count(seen.observation.lower()) == 1 + (
                text(masked).lower().count(seen.observation.lower())
            )
            assert OTHER.lower()[:8] in text(masked).lower()


@pytest.mark.parametrize("window", [*WINDOWS, HISTORY], ids=str)
def test_a_hint_stands_before_the_goal(window: Any) -> None:
    for row in played(window)[1]:
        plain, hinted = row.before(0), row.with_line(HINT)
        assert hinted is not None
        line = f"{HINT.lower()}\n"
        assert text(hinted).lower() == text(plain).lower().replace("goal:", f"{line}goal:", 1)
        ids, trained = row.after_prompt()
        assert plain + ids == row.before(len(row.turns)) and sum(trained) == sum(
            len(turn.action_ids) for turn in row.turns
        )


def test_the_right_answer_is_scored_alone() -> None:
    """In a form with a thought, and in one without; a row of a window has its own prefix."""
    for form, before in (("plain", "take"), ("think_action", "<think>now i can answer.</think>")):
        ids, scored = played(None, form)[1][0].submitted("rose", "Now I can answer.")
        marked = [token for token, mark in zip(ids, scored, strict=True) if mark]
        assert text(marked).strip() == "rose" and text(ids).lower().replace(" ", "").startswith(before.replace(" ", ""))
    igpo = method("credit", "igpo")
    for window in WINDOWS:
        episode, rows = played(window)
        asked = [(row, *context) for row in rows for context in igpo.contexts(row)]
        assert len(asked) == len(episode.played_turns)
        assert all(ids[: len(row.before(turn))] == row.before(turn) for row, ids, _, turn in asked)


def test_muted_thoughts_are_not_scored() -> None:
    (row,) = played(form=form_of("think_action", train_thoughts=False))[1]
    _, trained = row.after_prompt()
    assert 0 < sum(trained) < sum(len(turn.action_ids) for turn in row.turns)
    assert [sum(context.scored) for context in method("terms", "self_distill").contexts(row)] == [sum(trained)]


@pytest.mark.parametrize("window", [*WINDOWS, HISTORY], ids=str)
@pytest.mark.parametrize("form", ["plain", "think_action", "react"])
def test_the_span_of_an_answer_is_its_thought(window: Any, form: str) -> None:
    """Without its tags; the whole answer if it has none, and nothing of a summary."""
    for row in played(window, form)[1]:
        whole = row.before(len(row.turns))
        for turn, (first, end) in zip(row.turns, row.answer_spans().reshape(-1, 2).tolist(), strict=True):
            ids = turn.action_ids if form == "plain" else []
            assert turn.aside or ids or turn.thought
            wanted = "" if turn.aside else text(ids) if ids else turn.thought
            assert text(whole[first:end]).strip().lower() == wanted.strip().lower()
    (row,) = played(form="think_action")[1]
    row.turns[0].thought, row.turns[1].thought = "", "what the answer lacks"
    lengths = [end - first for first, end in row.answer_spans().reshape(-1, 2).tolist()]
    whole = [len(turn.action_ids) for turn in row.turns]
    assert lengths[:2] == whole[:2] and lengths[2] < whole[2] and lengths[3] < whole[3]


def test_contexts_travel_as_one_tensor() -> None:
    contexts = [Context([5, 6, 7], [False, True, True], 0), Context([8, 9], [False, True], 3)]
    found = [(ids.tolist(), scored.bool().tolist(), turn) for turn, ids, scored in unpacked(packed(contexts))]
    assert found == [(list(ids), list(scored), turn) for ids, scored, turn in contexts]
    assert not list(unpacked(packed([])))
    for ids, scored in (([1, 2], [True, False]), ([1, 2], [False, False]), ([1], [False, True])):
        with pytest.raises(ValueError, match="scores one token or more after its first"):
            packed([Context(ids, scored, 0)])


# ---- the pass


def step(folder: Path, path: str, words: str, row: Any = None) -> tuple[dict[str, list[torch.Tensor]], dict[str, Any]]:
    """What a real step writes of action tokens row by row, and its metrics; of made-up rows or
    given ones."""
    trainer, metrics = made(composed(folder, *SIZES, *words.split()), path, 1), {}
    if row:
        trainer.replay_buffer.row = row
    batch = trainer.step(metrics, {})
    names = [f"scored_contexts_{key.replace('/', '_')}" for key in trainer.methods.contexts.asking]
    data = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id)
    mask = padded(data["loss_mask"]).bool()
    fields = {
        name: [one[own] for one, own in zip(padded(data[name]), mask, strict=True)]
        for name in (*names, "old_log_probs")
    }
    left = {key.partition("_")[0] for key in tq.kv_list(partition_id=batch.partition_id)[batch.partition_id]}
    assert not [key for key in left if key.startswith(("context", "filling"))]
    tq.kv_clear(keys=batch.keys, partition_id=batch.partition_id)
    assert not [name for name, value in metrics.items() if not math.isfinite(value)]
    return fields, metrics


def test_a_context_that_is_the_row_has_the_old_log_probs(model: str, given: list[Any], tmp_path: Path) -> None:  # noqa: F811
    """One pass for both; without contexts there are as many passes."""
    found, metrics = step(tmp_path, model, "algo=infopo terms=[self_distill]")
    passes = len(given)
    tokens, turns, old = (
        found[name] for name in ("scored_contexts_terms_self_distill", "scored_contexts_credit_infopo", "old_log_probs")
    )
    for one, mean, own in zip(tokens, turns, old, strict=True):
        torch.testing.assert_close(one, own, rtol=0, atol=1e-5)
        means = torch.cat([own[:3].mean().expand(3), own[3:].mean().expand(2)])
        torch.testing.assert_close(mean, means, rtol=0, atol=1e-5)
    assert metrics["rollout/contexts"] == 16 * 3 and metrics["actor/self_distill"] == pytest.approx(0, abs=1e-5)
    given.clear()
    step(tmp_path, model, "algo=grpo algorithm.rollout_correction.bypass_mode=false terms=[epo]")
    assert passes == len(given)


def test_without_verls_pass_the_contexts_have_their_own(model: str, tmp_path: Path) -> None:
    found, metrics = step(tmp_path, model, "algo=grpo credit=[igpo] algorithm.rollout_correction.bypass_mode=true")
    wanted, _ = step(tmp_path, model, "algo=grpo credit=[igpo] algorithm.rollout_correction.bypass_mode=false")
    (name,) = (name for name in found if "igpo" in name)
    for one, other in zip(found[name], wanted[name], strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-5)
    assert metrics["rollout/contexts"] == 32


def test_a_buffer_stores_contexts_which_are_scored_again(model: str, tmp_path: Path) -> None:
    """With the row that it puts in another's place."""
    words = ("algo=infopo", "buffer=task_replay", "algorithm.rollout_correction.rollout_is=token")
    trainer, metrics = made(composed(tmp_path, *SIZES, *words), model, 1), {}
    batch = trainer._sampled(metrics, 8)
    rows = trainer.methods.rows(batch)
    assert "contexts_credit_infopo" in rows.recorded
    turns = rows.turns()
    (held,) = replay.stored(batch, turns, [0], 1, rows.recorded)
    name = turns.episodes[3]
    replay.in_place(batch, {name: held})
    data = tq.kv_batch_get(keys=[f"{turns.episodes[0]}_0", f"{name}_0"], partition_id=batch.partition_id)
    tq.kv_clear(keys=batch.keys, partition_id=batch.partition_id)
    assert torch.equal(*data["contexts_credit_infopo"].unbind())


def test_hinted_log_probs_are_others(queue: None, one_process: None, tmp_path: Path) -> None:
    """And so are those after a masked observation, except of the first answer, which has none."""
    episode, _ = played()
    asking = {
        "terms/self_distill": method("terms", "self_distill", hint="plan"),
        "credit/infopo": method("credit", "infopo"),
    }
    (fields,) = row_fields(episode, "sparse", "observation")
    (contexts,) = context_fields(asking, episode, SPEC, codec(), "")

    def row(prompt: str, sample: int, window: int) -> Any:
        steps = {"min_global_steps": 0, "max_global_steps": 0}
        own = {key: value for key, value in fields.items() if key not in ("metrics", "extra_fields")}
        own["rollout_log_probs"] = -torch.arange(1.0, len(own["loss_mask"]) + 1) * own["loss_mask"]
        return f"{prompt}_{sample}_0", {**own, **contexts, "uid": prompt}, lengths(fields) | steps

    found, metrics = step(tmp_path, TINY, "algo=infopo terms=[self_distill] terms.self_distill.hint=plan", row)
    old = found["old_log_probs"][0]
    hinted = found["scored_contexts_terms_self_distill"][0]
    masked = found["scored_contexts_credit_infopo"][0]
    assert hinted.isfinite().all() and (hinted - old).abs().max() > 0.01
    first = len(episode.turns[0].action_ids)
    assert masked[:first].isnan().all() and masked[first:].isfinite().all()
    known = [len(turn.action_ids) for turn in episode.turns]
    means = torch.cat([one.mean().expand(len(one)) for one in old.split(known)])
    assert ((masked - means)[first:].abs() > 0.01).all()
    assert abs(metrics["actor/self_distill"]) > 1e-6 and metrics["credit/infopo/gate"] == 0.5
