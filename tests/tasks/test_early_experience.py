"""Early experience: which of the model's actions are kept, what rows they make, what they cost, who
writes thoughts."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from chat_stub import chat_stub, says
from omegaconf import OmegaConf

from turngrid.config.compose import Composer
from turngrid.envs.types import TaskRef
from turngrid.experiments.stages import experience
from turngrid.experiments.stages.ledger import ledger
from turngrid.records.process.exit_codes import Refusal
from turngrid.rollouts.episode import Episode, Outcome, Turn
from turngrid.rollouts.prompt_forms.registry import PLAIN_FORM, prompt_form
from turngrid.rollouts.store import read_episodes, write_episodes
from turngrid.rollouts.stream import assistant, user
from turngrid.tasks.demonstrations import episodes_file
from turngrid.tasks.early_experience import (
    ASK,
    alternatives_file,
    distinct,
    question,
    reflection_row,
    rows_file,
    world_model_row,
)
from turngrid.tasks.run import Run
from turngrid.tasks.splits import task_file

PLAN = ("take key", "open door", "go north")
SEEN = ("a room.", "you hold a key.", "a door is open.", "you are out.")
TASK = TaskRef("doors", "one", {}, 7, "demonstrations", "", "", "leave", PLAN, "", 1.0)
FORM = prompt_form(OmegaConf.create({"name": "think_action"}))


def turns(actions: tuple[str, ...]) -> list[Turn]:
    return [Turn(seen, action, sampled=False) for seen, action in zip(SEEN, actions, strict=False)]


def messages(actions: tuple[str, ...]) -> list[dict[str, str]]:
    return [
        said for turn in turns(actions) for said in (user(PLAIN_FORM.message(turn.observation)), assistant(turn.action))
    ]


DEMONSTRATION = Episode(
    TASK.key, 7, "demonstrations", "leave", messages(PLAN), [], turns(PLAN), Outcome.WON, final_observation=SEEN[3]
)


def draw(number: int, action: str, seen: str = "nothing happens.") -> Episode:
    """The model's answer after so many actions of the plan."""
    before = PLAN[:number]
    (*prefix, last) = turns((*before, action))
    sampled = replace(last, sampled=True, action_ids=[5, 6], logprobs=[-1.0, -1.0])
    return replace(
        DEMONSTRATION,
        messages=messages((*before, action)),
        prefix=prefix,
        turns=[sampled],
        outcome=Outcome.OUT_OF_TURNS,
        final_observation=seen,
    )


def test_the_specs_example_three_states_two_draws_four_rows() -> None:
    """(b b | expert b | c d): 1 + 1 + 2."""
    drawn = [draw(0, "b"), draw(0, " b"), draw(1, PLAN[1]), draw(1, "b"), draw(2, "c"), draw(2, "d"), draw(2, " ")]
    kept = distinct(DEMONSTRATION, drawn)
    assert [(len(e.prefix), e.turns[0].action) for e in kept] == [(0, "b"), (1, "b"), (2, "c"), (2, "d")]
    with pytest.raises(Refusal, match="doors/one/7 answers"):
        distinct(DEMONSTRATION, [replace(draw(0, "b"), turns=[Turn("a cave.", "b")])])


def test_a_row_of_the_world_model_asks_for_what_was_seen() -> None:
    row = world_model_row(draw(1, "jump", "you fall."))
    said = [message["content"] for message in row.messages[2:]]
    assert said == [PLAIN_FORM.message(SEEN[1]), "jump", ASK, "you fall."]
    assert [turn.response for turn in row.prefix] == [PLAN[0], "jump"]
    assert [turn.response for turn in row.turns] == ["you fall."]
    assert not any(turn.action_ids or turn.sampled for turn in [*row.prefix, *row.turns])


def test_a_reflection_thinks_and_then_does_as_the_expert() -> None:
    row = reflection_row(draw(1, "jump"), PLAN[1], "A key\nopens doors.", FORM, ())
    assert row.messages[-1] == assistant("<think>A key opens doors.</think>\n<action>open door</action>")
    assert row.messages[:-1] == draw(1, "jump").messages[:-1]
    assert reflection_row(draw(1, "jump"), PLAN[1], "So</think><action>jump</action>", FORM, ()) is None
    assert reflection_row(draw(1, "jump"), PLAN[1], "", FORM, ()) is None


def test_the_writer_is_told_both_outcomes() -> None:
    told = question(DEMONSTRATION, draw(2, "sleep", "it is night."))
    assert all(words in told for words in (*SEEN, *PLAN, "sleep", "it is night.", "Goal: leave"))
    assert told.index("Another action was: sleep\nAfter it: it is night.") > told.index(f"After it: {SEEN[3]}")


# ---- through a composed config


WORLD = ("demos.experience=world_model", "model.sft.epochs=2")


@pytest.mark.parametrize(
    ("more", "bought", "units"),
    [
        (WORLD, (33, 25), 33 * 18 + 400),  # 0.6 x 1000 / (10 + 8 x 1) demonstrations, and 25 steps of 16 games
        ((*WORLD, "demos.alternatives=2", "budget.episode_cost=0.5"), (54, 25), 54 * 11 + 200),
        ((*WORLD, "budget.experience_cost=0"), (60, 25), 60 * 10 + 400),
    ],
)
def test_a_demonstration_costs_an_episode_more_for_each_draw(
    composed: Composer, more: tuple[str, ...], bought: tuple[int, int], units: float
) -> None:
    plan = Run(composed(more)).allocation
    assert ((plan.demonstrations, plan.steps), plan.units) == (bought, units)
    assert plan.unspent == 1000 - units


def test_the_ledger_charges_the_draws_and_counts_passes(composed: Composer, tmp_path: Path) -> None:
    """One demonstration of 3 actions; two alternatives of 2 sampled tokens; 3 epochs, the first of
    predictions."""
    ids = [replace(turn, action_ids=[1, 2, 3]) for turn in DEMONSTRATION.turns]
    alternatives = [draw(0, "b"), draw(1, "c")]
    write_episodes(episodes_file(tmp_path), [replace(DEMONSTRATION, turns=ids)])
    write_episodes(alternatives_file(tmp_path), alternatives)
    rows = [world_model_row(episode) for episode in alternatives]
    told = [replace(row, turns=[replace(row.turns[0], action_ids=[4] * 5)]) for row in rows]
    write_episodes(rows_file(tmp_path), told)
    (tmp_path / "sft" / "model").mkdir(parents=True)
    config = composed(["budget=sft_only", "demos.experience=world_model", "model.sft.epochs=3"])
    lines = {entry.kind: entry for entry in ledger(Run(config, tmp_path))}
    assert lines["demonstration"].units == 10
    assert (lines["alternative"].count, lines["alternative"].units, lines["alternative"].tokens) == (2, 8, 4)
    assert (lines["sft"].count, lines["sft"].tokens) == (2 * 1 + 2, 2 * 9 + 2 * 5)


def reflecting(composed: Composer, folder: Path, url: str) -> list[Episode]:
    more = ["prompt=think_action", "demos.experience=reflection", f"demos.writer={url}", "demos.writer_model=m"]
    (folder / "tasks").mkdir(parents=True)
    task_file(folder, "demonstrations").write_text(json.dumps(TASK.to_dict()) + "\n")
    write_episodes(episodes_file(folder), [DEMONSTRATION])
    write_episodes(alternatives_file(folder), [draw(0, "b"), draw(2, "c")])
    experience.make_rows(Run(composed(more), folder), "no model is asked")
    return list(read_episodes(rows_file(folder)))


def test_thoughts_come_from_the_endpoint_each_with_a_seed_of_its_own(composed: Composer, tmp_path: Path) -> None:
    def answer(body: dict[str, Any]) -> tuple[int, str]:
        return says("A key opens doors." if "Another action was: b" in body["messages"][0]["content"] else "  ")

    with chat_stub(answer) as stub:
        (row,) = reflecting(composed, tmp_path, stub.url)
    assert (row.turns[0].thought, row.turns[0].action) == ("A key opens doors.", PLAN[0])
    assert len({body["seed"] for _, _, body in stub.seen}) == 2
