"""Roles of one policy: who answers, what it sees, and what is trained of it. Real games."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from game_table import REWARD, SAMPLES, TURNS, Says, Table
from plain_model import Plain
from usual import form_of, method

from turngrid.records.step_metrics import step_metrics
from turngrid.rollouts.episode import Episode, Outcome
from turngrid.rollouts.forms.linear import Linear
from turngrid.rollouts.policy import ContextLimit, ModelPolicy
from turngrid.rollouts.roles import Roles
from turngrid.rollouts.row import to_rows
from turngrid.rollouts.sampling import SamplingParams
from turngrid.verl_plugin.rollout.agent_loop import row_fields


def roles(*names: str, **changes: dict[str, Any]) -> Roles:
    return Roles({name: method("roles", name, **changes.get(name, {})) for name in names})


def test_each_answer_is_a_row_which_its_server_saw(table: Table) -> None:
    """Sampled by the tiny model. An answer is trained once, in the row of its own role; in another
    one's prompt it carries no loss."""
    chosen = roles("planner", "actor", planner={"max_tokens": 5, "every": 2})
    episodes, asked = table.play(Linear(), replace(table.base, roles=chosen))
    seeds = [request.seed for requests in asked.values() for request in requests]
    assert len({*seeds}) == len(seeds) and len(episodes) == SAMPLES
    for episode in episodes:
        rows, requests = to_rows(episode, REWARD), asked[episode.sample]
        assert len(rows) == len(episode.turns) == len(requests) and len(episode.played_turns) <= TURNS
        for row, turn, request in zip(rows, episode.turns, requests, strict=True):
            assert row.prompt_ids == list(request.prompt_ids) and row.response_ids == turn.action_ids
            assert row.mask == [1] * len(turn.action_ids)
            assert request.max_tokens == {"planner": 5, "actor": 6}[turn.role]
            assert turn.aside == (turn.role == "planner") and turn.rewards.keys() == {REWARD}
            assert not (turn.aside and turn.rewards[REWARD])
        planned = [number for number, turn in enumerate(episode.turns) if turn.aside]
        assert planned[:2] == [0, 3][: len(planned)], "before every second action"
        prompt = table.codec.decode(rows[1].prompt_ids)
        assert f"planner: {episode.turns[0].action.strip()}" in prompt and "by the plan of a planner" in prompt
        fields = row_fields(episode, REWARD, "observation", roles=[*chosen])
        assert [field["turn_role"].tolist() for field in fields] == [[int(not turn.aside)] for turn in episode.turns]
        assert [field["turn_aside"].tolist() for field in fields] == [[int(turn.aside)] for turn in episode.turns]
        assert Episode.from_dict(episode.to_dict()) == episode
    row = to_rows(episodes[0], REWARD)[1]
    expected = Plain().log_probs(row.prompt_ids, row.response_ids)
    torch.testing.assert_close(torch.tensor(row.logprobs), expected, atol=1e-4, rtol=0)
    counts = step_metrics([episodes], REWARD, limits={"": 99, "planner": 1})
    asides = sum(turn.aside for episode in episodes for turn in episode.turns)
    assert counts["rollout/role/planner/turns"] == asides / SAMPLES
    assert counts["rollout/answers_at_limit"] == asides / sum(len(episode.turns) for episode in episodes)
    assert counts["rollout/turns"] == counts["rollout/role/actor/turns"]


def played(table: Table, chosen: Roles, texts: Sequence[str], room: int = 4096, **more: Any) -> Episode:
    """An episode in which the roles say these texts."""
    server, params = Says(table.codec, list(texts)), SamplingParams(1.0, max_action_tokens=24)
    policy = ModelPolicy(server, table.codec.decode, params, ContextLimit(room, 64), 0)
    return table.episode(policy, replace(table.base, roles=chosen, **more), table.codec.stream())


def who(episode: Episode) -> list[tuple[str, bool, str]]:
    return [(turn.role, turn.aside, turn.action) for turn in episode.turns]


def test_an_actor_may_ask_for_another_plan_once(table: Table) -> None:
    episode = played(table, roles("planner", "actor"), ["look", "replan", "go", "replan", "look"], max_turns=2)
    assert who(episode) == [
        ("planner", True, "look"),
        ("actor", True, "replan"),
        ("planner", True, "go"),
        ("actor", False, "replan"),  # the planner gives two answers at an observation
        ("actor", False, "look"),  # it begins every fourth turn
    ]
    other = {"planner": {"next": "verifier", "most": 1}, "verifier": {"next": "planner"}}
    critic = played(table, roles(*other, "actor", **other), ["go", "no", "look"], max_turns=1)
    assert who(critic)[2:] == [("actor", False, "look")], "an action follows, although the planner may not answer again"


def test_a_checker_sends_the_action_that_was_proposed(table: Table) -> None:
    plan = table.game.expert_plan
    texts = ["look", "no: it leads nowhere", plan[0], "yes", "look", "no.", "wait", "no", "inventory"]
    chosen = roles("proposer", "checker")
    episode = played(table, chosen, texts, max_turns=2)
    assert who(episode) == [
        ("proposer", True, "look"),
        ("checker", True, "no: it leads nowhere"),
        ("proposer", True, plan[0]),
        ("checker", False, plan[0]),
        ("proposer", True, "look"),
        ("checker", True, "no."),
        ("proposer", True, "wait"),
        ("checker", True, "no"),
        ("proposer", False, "inventory"),  # after two refusals nobody is asked
    ]
    accepted, last = episode.turns[3], episode.turns[-1]
    assert accepted.answer == accepted.response == "yes" and accepted.valid
    assert episode.turns[4].observation != accepted.observation and last.score_delta == 0
    prompt = table.codec.decode(to_rows(episode, REWARD)[2].prompt_ids)
    assert "proposer: look\nchecker: no: it leads nowhere\nnow:\n" in prompt
    assert prompt.count(accepted.observation.split("\n")[0].lower()) == 1  # an observation is shown once


def test_a_verifier_decides_who_acts_and_roles_see_what_they_may(table: Table) -> None:
    blind, labels = {"sees": ["others"], "history": 1}, {"Not": "answerer", "Not-yet": "searcher", "Yes": "answerer"}
    chosen = roles("verifier", "searcher", "answerer", answerer=blind, verifier={"next": labels})
    episode = played(
        table,
        chosen,
        ["Hm, not-yet", "look", "YES, now.", "<think>a</think><action>wait</action>"],
        max_turns=2,
        form=form_of("think_action"),
    )
    assert [(turn.role, turn.aside) for turn in episode.turns] == [
        ("verifier", True),
        ("searcher", False),
        ("verifier", True),
        ("answerer", False),
    ]
    assert [turn.parsed for turn in episode.turns] == [True, False, True, True] and episode.turns[3].action == "wait"
    prompts = [table.codec.decode(row.prompt_ids) for row in to_rows(episode, REWARD)]
    assert "so far:\nverifier: yes, now.\nnow:\nyour thought and action:" in prompts[3]
    assert "goal: " in prompts[2] and "searcher: (no action could be read)" in prompts[2] and "goal: " not in prompts[3]


def test_a_prompt_without_room_has_fewer_turns_and_an_aside_that_no_action_follows_is_not_trained(table: Table) -> None:
    """The actor's second prompt has three earlier turns; its shortest one has none."""
    chosen = roles("planner", "actor", planner={"every": 1, "sees": ["goal"], "history": 0})
    whole = played(table, chosen, ["look", "look", "look", "look"], max_turns=2)
    rows = to_rows(whole, REWARD)
    room = len(rows[3].prompt_ids) - 1
    assert max(len(row.prompt_ids) for row in rows[:3]) <= room
    episode = played(table, chosen, ["look"] * 4, room=room, max_turns=2)
    assert episode.outcome is Outcome.OUT_OF_TURNS and [turn.role for turn in episode.turns] == ["planner", "actor"] * 2
    assert table.codec.decode(to_rows(episode, REWARD)[3].prompt_ids).count("planner: look") == 1
    nothing = played(table, chosen, ["look"] * 4, room=len(rows[0].prompt_ids), max_turns=2)
    assert nothing.outcome is Outcome.OUT_OF_CONTEXT and nothing.turns == []
