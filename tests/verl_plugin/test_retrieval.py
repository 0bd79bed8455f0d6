"""A library in episodes and beside the trainer: what rows hold of its texts, and what workers read
of its state."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import test_contexts
import torch
from omegaconf import OmegaConf
from test_contexts import HISTORY, PLAN, SEEN, SPEC, WINDOWS, codec, text

from turngrid.algorithms.chosen import Chosen, slots_of
from turngrid.algorithms.library.experience import EXAMPLE, Entry
from turngrid.algorithms.slots import Request
from turngrid.config.compose import compose
from turngrid.experiments.evaluation.policies import PolicyRef, _with_library
from turngrid.experiments.stages import pipeline
from turngrid.records.files.checkpoints import METHODS, MODEL
from turngrid.records.models.locate import library_file
from turngrid.rollouts.episode import Episode
from turngrid.rollouts.retrieval import NOTHING, retrieved
from turngrid.rollouts.row import to_rows
from turngrid.tasks.run import Run
from turngrid.verl_plugin import shared_state
from turngrid.verl_plugin.rollout.agent_worker import fitted
from turngrid.verl_plugin.rollout.contexts import SeenRow
from turngrid.verl_plugin.rollout.turn_fields import turn_fields

KEY, DOOR = "What worked before:\n- take key", "What worked before:\n- open door"
KNOWN = {SEEN[0]: KEY, SEEN[1]: KEY, SEEN[2]: DOOR}  # nothing for the last turn


@dataclass
class Shelf:
    """A library that gives known texts."""

    tokens: int = 200

    def look_up(self, task: str, observation: str, step: int) -> str:
        assert (task, step) == (SPEC.task.key, SPEC.step)
        return KNOWN.get(observation, "")


def played(window: Any = None, form: str = "plain") -> tuple[Episode, list[SeenRow]]:
    return test_contexts.played(window, form, library=Shelf())


@pytest.mark.parametrize("window", [*WINDOWS, HISTORY], ids=str)
@pytest.mark.parametrize("form", ["plain", "think_action"])
def test_a_row_holds_the_texts_that_its_turns_were_shown(window: Any, form: str) -> None:
    """In its head, or between observation and cue if they changed since; none is trained on."""
    episode, rows = played(window, form)
    turns = episode.played_turns
    assert [turn.retrieved for turn in turns] == [KEY, KEY, DOOR, ""]
    for row, own in zip(rows, to_rows(episode, "sparse"), strict=True):
        shown = text(row.before(len(row.turns) - 1))
        fresh = [turn for turn in row.turns if turn.retrieved_tokens]
        assert shown.count("worked before") == len(fresh) == len({turn.retrieved for turn in row.turns} - {""})
        assert not row.turns[0].retrieved or text(row.before(0)).count(row.turns[0].retrieved.lower()) == 1
        cue = "Your summary:" if row.turns[-1].aside else row._form.cue
        assert shown.endswith(f"{cue}<|im_end|>\n<|im_start|>assistant\n".lower())
        trained = [token for token, one in zip(own.response_ids, own.mask, strict=True) if one]
        assert trained == [token for turn in row.turns for token in turn.action_ids]
    if window is None:
        first, *_, third = (turn.retrieved_tokens for turn in turns[:3])
        assert turns[1].retrieved_tokens == 0 and third == len(codec().encode(DOOR)) and first
        last = text(rows[0].before(2))
        place = [last.index(words.lower()) for words in (KEY, "Goal:", SEEN[0], SEEN[2], DOOR)]
        assert place == sorted(place)


@pytest.mark.parametrize(("limit", "kept"), [(14, KEY), (10, "What worked before:"), (5, "What worked"), (0, "")])
def test_a_text_is_cut_to_its_limit(limit: int, kept: str) -> None:
    found = retrieved(Shelf(limit), SPEC.task.key, SEEN[0], SPEC.step, codec().stream())
    assert found.text == kept and found.tokens == len(codec().encode(kept)) <= limit
    assert retrieved(Shelf(), SPEC.task.key, "unknown", SPEC.step, codec().stream()) == NOTHING


def test_a_long_transcript_loses_its_first_lines() -> None:
    request = Request([f"line {number}" for number in range(50)], "what made this attempt fail?", 8)
    ids = fitted(codec(), request, 120)
    assert len(ids) <= 120 and "line 49\nwhat made this attempt fail?" in text(ids) and "line 0\n" not in text(ids)


def _methods() -> Chosen:
    words = ["algo=slea_rl", "library.experience.warmup=0", "library.experience.least=0"]
    return Chosen(slots_of(compose(words)))


def test_workers_read_the_state_of_the_step(tmp_path: Path) -> None:
    """Written again, as after a resume at the same step, it is read again."""
    trainers, workers = _methods(), _methods()
    own, theirs = (one.of("library", 1)["experience"] for one in (trainers, workers))
    file, seen = tmp_path / "shared_state.pt", shared_state.Reader(tmp_path / "shared_state.pt", workers)
    for number, step in enumerate((1, 1, 2)):
        own.admit([Entry(PLAN[number], EXAMPLE, number, SEEN[0])])
        assert len(theirs) == number
        shared_state.write(file, trainers, step)
        seen.at(step)
        assert theirs.state() == own.state() and len(theirs) == number + 1
        seen.at(step)
    assert PLAN[2] in theirs.look_up("t", SEEN[0], 2)


def test_states_of_turns_are_clusters() -> None:
    """Equal for observations of one cluster, those of a new cluster of the group too."""
    library = _methods().of("library", 1)["experience"]
    episode, _ = played()
    seen = [turn.observation for turn in episode.turns]
    episode.turns[1].observation = seen[0].replace("hall", "hal")
    fields = turn_fields(episode, 0, 4, "cluster", cluster=library.states())
    assert fields["turn_state"][0] == fields["turn_state"][1] == fields["turn_after"][0]
    plain = turn_fields(episode, 0, 4, "observation")["turn_state"]
    assert plain[0] == fields["turn_state"][0] != plain[1] and torch.equal(plain[2:], fields["turn_state"][2:])


@pytest.mark.parametrize(
    ("wanted", "names"), [("null", ["rl_without_library", "rl+"]), ("frozen", ["rl+"]), ("none", ["rl"])]
)
def test_evaluation_looks_up_what_training_left(tmp_path: Path, wanted: str, names: list[str]) -> None:
    """After the warm-up, at any step; ``experiments.evaluate`` offers the same policies."""
    words = ["algo=slea_rl", "library.experience.warmup=7", "library.experience.least=0", f"eval.library={wanted}"]
    run = Run(compose(words), tmp_path / "run")
    model = run.rl.checkpoints / "global_step_7" / MODEL
    model.mkdir(parents=True)
    (run.folder / "attempts.jsonl").touch()
    OmegaConf.save(run.config, run.folder / "config.yaml")
    methods = Chosen(slots_of(run.config))
    methods.of("library", 1)["experience"].admit([Entry("take key", EXAMPLE, 1.0, SEEN[0])])
    torch.save(methods.state(), model.parents[1] / METHODS)
    library = shared_state.frozen_library(str(model))
    assert library.look_up("t", SEEN[0], 0) == KEY and library.tokens == 200
    made = pipeline._after_rl(run, str(model))
    assert [f"{one.name}{'+' * one.library}" for one in made] == names
    offered = _with_library(PolicyRef("run", "checkpoint", "it", str(model)), run.config.eval.library)
    assert [one.library for one in offered] == [one.library for one in made]
    assert len({one.name for one in offered}) == len(offered)
    assert not library_file(str(tmp_path)) and not library_file("")
