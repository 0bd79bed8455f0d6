"""Early experience (arXiv 2510.08558): what the model does where an expert did something else, and what comes of it, as SFT data.

At each state of a demonstration the model that SFT begins with draws actions; those that differ from the expert's and from each
other are *alternatives*. Each is an episode of one turn after replayed ones, so the game must answer the expert's actions as it did.

- ``world_model``: an alternative becomes a row whose target is what was seen after it.
- ``reflection``: a writer says why the expert's action is better; the target is that thought, then the expert's action.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from omegaconf import DictConfig, OmegaConf

from envs.functions import Function
from records.process.exit_codes import Refusal
from rollouts.episode import Episode, Turn
from rollouts.prompt_forms.form import PromptForm, meaning
from rollouts.prompts import Message, assistant, user
from rollouts.spec import EpisodeSpec

WORLD_MODEL, REFLECTION = KINDS = ("world_model", "reflection")
ALTERNATIVES = {WORLD_MODEL: 8, REFLECTION: 3}  # drawn at each state; the paper's 8, and 2 to 4
TEMPERATURE = 1.0
ASK = "Predict what you will see next."
WRITE = (
    "Write, in the first person and in one short paragraph, the thoughts that lead from what was seen to the best action and say why "
    "it is better than the other. Speak as somebody who has not acted yet. Do not end with the action itself."
)


class NotAgain(Refusal):
    """A game does not answer the expert's actions as it did."""


def kind_of(config: DictConfig) -> str | None:
    """One of ``KINDS``, or nothing."""
    return OmegaConf.select(config, "demos.experience")


class Passes(NamedTuple):
    """Times that SFT reads each demonstration, and each row of ``rows_file``."""

    demonstrations: int
    others: int


def passes(kind: str | None, epochs: int) -> Passes:
    """Predictions come in the first epoch, in as many updates as imitation would have made; reflections beside the demonstrations."""
    return Passes(epochs - 1, 1) if kind == WORLD_MODEL else Passes(epochs, epochs)


def alternatives_file(folder: Path) -> Path:
    return folder / "episodes" / "alternatives.jsonl"


def rows_file(folder: Path) -> Path:
    """What SFT learns from besides the demonstrations: an episode a row, whose last message is the target."""
    return folder / "episodes" / "experience.jsonl"


# ---- alternatives


def specs(demonstration: Episode, base: EpisodeSpec, count: int) -> list[EpisodeSpec]:
    """``count`` draws at each state, which is told as the demonstration tells it, thoughts included. ``base`` is of the
    demonstration's game; a sample's number tells its turn and its place there, and so its seed."""
    actions, said = (tuple(getattr(turn, part) for turn in demonstration.turns) for part in ("action", "response"))
    one = replace(base, max_turns=1, prompt=base.task.key)
    places = [(turn, turn * count + place) for turn in range(len(actions)) for place in range(count)]
    return [replace(one, prefix=actions[:turn], answers=said[:turn], sample=sample) for turn, sample in places]


def distinct(demonstration: Episode, drawn: Sequence[Episode]) -> list[Episode]:
    """Of all draws at a demonstration's states the alternatives: neither the expert's action nor one that came before it there.

    Raises:
        NotAgain: another state was reached.
    """
    known = {(number, turn.action.strip()) for number, turn in enumerate(demonstration.turns)}
    kept = []
    for episode in drawn:
        number, turn = len(episode.prefix), next(iter(episode.turns), Turn("", ""))
        if not turn.action.strip() or (number, turn.action.strip()) in known:
            continue
        if turn.observation != demonstration.turns[number].observation:
            raise NotAgain(f"{episode.task} does not answer the expert's actions as it did: leave out demos.experience")
        known.add((number, turn.action.strip()))
        kept.append(episode)
    return kept


# ---- rows


def world_model_row(alternative: Episode) -> Episode:
    """To say, in the assistant's place, what was seen after the action."""
    target = Turn(ASK, alternative.final_observation, sampled=False)
    before = [*alternative.prefix, *alternative.turns]
    return _row(alternative, before, [*alternative.messages, user(ASK)], target)


def reflection_row(
    alternative: Episode, expert: str, reason: str, form: PromptForm, functions: Sequence[Function]
) -> Episode | None:
    """To think the reason and then do as the expert did; None where the form cannot say that, as when the reason holds its marks."""
    said = form.write(expert, " ".join(reason.split()))
    seen = alternative.turns[0]
    target = Turn(seen.observation, sampled=False, admissible=seen.admissible, **meaning(form, said, functions))
    if target.action != expert or not target.thought:
        return None
    return _row(alternative, alternative.prefix, alternative.messages[:-1], target)


def _row(alternative: Episode, before: Sequence[Turn], messages: Sequence[Message], target: Turn) -> Episode:
    """Without ids: SFT fills in those of its model."""
    bare: Mapping[str, Any] = {"action_ids": [], "context_ids": [], "logprobs": [], "sampled": False}
    prefix = [replace(turn, **bare) for turn in before]
    told: Mapping[str, Any] = {"messages": [*messages, assistant(target.response)], "prefix": prefix, "turns": [target]}
    return replace(alternative, prompt_ids=[], final_observation="", trains_thoughts=True, **told)


def question(demonstration: Episode, alternative: Episode) -> str:
    """To the writer: what was seen so far, both actions, and what came of each."""
    number = len(alternative.prefix)
    shown = [*(turn.observation for turn in demonstration.turns), demonstration.final_observation]
    ours, theirs = alternative.turns[0].action, demonstration.turns[number].action
    return "\n".join(
        [
            *_story(demonstration, number),
            f"The best action is: {theirs}\nAfter it: {shown[number + 1]}",
            f"Another action was: {ours}\nAfter it: {alternative.final_observation}",
            WRITE,
        ]
    )


def _story(demonstration: Episode, turns: int) -> Iterator[str]:
    yield f"Goal: {demonstration.goal}"
    for turn in demonstration.turns[:turns]:
        yield f"{turn.observation}\nAction: {turn.action}"
    yield demonstration.turns[turns].observation
