"""Early experience (arXiv 2510.08558): the model's own actions at an expert's states, as SFT data.

At each state of a demonstration, SFT's initial model samples actions. Those that differ from the
expert's and from each other are *alternatives*: episodes of one turn after replayed ones.

- ``world_model``: the target of a row is the observation after the alternative.
- ``reflection``: a writer explains why the expert's action is better; the target is that thought,
  then the expert's action.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from turngrid.envs.functions import Function
from turngrid.records.process.exit_codes import Refusal
from turngrid.rollouts.episode import Episode, Turn
from turngrid.rollouts.prompt_forms.form import PromptForm, meaning
from turngrid.rollouts.spec import EpisodeSpec
from turngrid.rollouts.stream import Message, assistant, user
from turngrid.tasks.rejection import bare

WORLD_MODEL, REFLECTION = "world_model", "reflection"
ALTERNATIVES = {WORLD_MODEL: 8, REFLECTION: 3}  # samples at each state; the paper has 8, and 2 to 4
TEMPERATURE = 1.0
ASK = "Predict what you will see next."
WRITE = (
    "Write, in the first person and in one short paragraph, the thoughts that lead from what was seen "
    "to the best action and say why it is better than the other. "
    "Speak as somebody who has not acted yet. Do not end with the action itself."
)


def alternatives_file(folder: Path) -> Path:
    return folder / "episodes" / "alternatives.jsonl"


def rows_file(folder: Path) -> Path:
    """Return the file of further SFT rows; the target of each is its last message."""
    return folder / "episodes" / "experience.jsonl"


# ---- alternatives


def specs(demonstration: Episode, base: EpisodeSpec, count: int) -> list[EpisodeSpec]:
    """Return ``count`` samples at each state, after the demonstration's answers, thoughts included.

    ``base`` is of the demonstration's game. A sample's number, and so its seed, encodes its turn.
    """
    actions, answers = (tuple(getattr(turn, part) for turn in demonstration.turns) for part in ("action", "response"))
    one = replace(base, max_turns=1, prompt=base.task.key)
    samples = [(turn, turn * count + index) for turn in range(len(actions)) for index in range(count)]
    return [replace(one, prefix=actions[:turn], answers=answers[:turn], sample=sample) for turn, sample in samples]


def distinct(demonstration: Episode, drawn: Sequence[Episode]) -> list[Episode]:
    """Return the alternatives: samples that are neither the expert's action nor a repetition.

    Raises:
        Refusal: a sample began at another state.
    """
    known = {(number, turn.action.strip()) for number, turn in enumerate(demonstration.turns)}
    kept = []
    for episode in drawn:
        number, turn = len(episode.prefix), next(iter(episode.turns), Turn("", ""))
        if not turn.action.strip() or (number, turn.action.strip()) in known:
            continue
        if turn.observation != demonstration.turns[number].observation:
            raise Refusal(
                f"{episode.task} answers the expert's actions differently than before; use demos.experience=null"
            )
        known.add((number, turn.action.strip()))
        kept.append(episode)
    return kept


# ---- rows


def world_model_row(alternative: Episode) -> Episode:
    target = Turn(ASK, alternative.final_observation, sampled=False)
    before = [*alternative.prefix, *alternative.turns]
    return _row(alternative, before, [*alternative.messages, user(ASK)], target)


def reflection_row(
    alternative: Episode, expert: str, reason: str, form: PromptForm, functions: Sequence[Function]
) -> Episode | None:
    """Return a row whose target is the reason as a thought, then the expert's action.

    None if the prompt form cannot express it, for example if the reason contains its tags.
    """
    answer = form.write(expert, " ".join(reason.split()))
    seen = alternative.turns[0]
    before: Mapping[str, Any] = {"admissible": seen.admissible, "results": seen.results}
    target = Turn(seen.observation, sampled=False, **before, **meaning(form, answer, functions))
    if target.action != expert or not target.thought:
        return None
    return _row(alternative, alternative.prefix, alternative.messages[:-1], target)


def _row(alternative: Episode, before: Sequence[Turn], messages: Sequence[Message], target: Turn) -> Episode:
    """Return a row without ids; SFT adds those of its model."""
    answered, prefix = [*messages, assistant(target.response)], [*map(bare, before)]
    row = replace(alternative, messages=answered, prompt_ids=[], prefix=prefix, turns=[target])
    return replace(row, final_observation="", trains_thoughts=True)


def question(demonstration: Episode, alternative: Episode) -> str:
    """Return the question to the writer: the story so far, both actions and their results."""
    number = len(alternative.prefix)
    observations = [*(turn.observation for turn in demonstration.turns), demonstration.final_observation]
    other, best = alternative.turns[0].action, demonstration.turns[number].action
    return "\n".join(
        [
            *_story(demonstration, number),
            f"The best action is: {best}\nAfter it: {observations[number + 1]}",
            f"Another action was: {other}\nAfter it: {alternative.final_observation}",
            WRITE,
        ]
    )


def _story(demonstration: Episode, turns: int) -> Iterator[str]:
    yield f"Goal: {demonstration.goal}"
    for turn in demonstration.turns[:turns]:
        yield f"{turn.observation}\nAction: {turn.action}"
    yield demonstration.turns[turns].observation
