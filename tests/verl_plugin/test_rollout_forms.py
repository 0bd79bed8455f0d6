"""Rollout forms on real games with the tiny model: what the server saw is what is trained, and
nothing else is."""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

import pytest
import torch
from game_table import REWARD, SAMPLES, TURNS, Table
from usual import method

from turngrid.rollouts.episode import Episode, Turn
from turngrid.rollouts.forms.arpo import TOKENS
from turngrid.rollouts.forms.linear import GroupFailed, Linear
from turngrid.rollouts.loop import EpisodeSpec
from turngrid.rollouts.row import to_rows, turns_of_rows
from turngrid.rollouts.sampling import SampleRequest
from turngrid.rollouts.spec import Branch


def assert_trained_as_sampled(episode: Episode, asked: Sequence[SampleRequest]) -> None:
    """The row, cut at the turns, is what the server saw and produced in the episode's own turns."""
    row = to_rows(episode, REWARD)[0]
    assert row.prompt_ids == episode.prompt_ids
    ids, at = row.prompt_ids + row.response_ids, len(row.prompt_ids)
    requests = [*[None] * (len(episode.turns) - len(episode.own_turns)), *asked]
    for turn, request in zip(episode.turns, requests, strict=True):
        assert request is None or ids[:at] == list(request.prompt_ids)
        at += len(turn.action_ids) + len(turn.context_ids)
    trained = [token for token, mask in zip(row.response_ids, row.mask, strict=True) if mask]
    assert trained == list(chain.from_iterable(turn.action_ids for turn in episode.turns))
    assert sum(logprob != 0 for logprob in row.logprobs) == len(trained)


def test_a_prefix_is_the_experts_tokens_and_carries_no_loss(table: Table) -> None:
    expert = table.demonstrated()
    episodes, asked = table.play(method("rollout_form", "prefix", turns=2), prompt=len(expert.prompt_ids))
    shown = [*expert.prompt_ids, *chain.from_iterable(t.action_ids + t.context_ids for t in expert.turns[:2])]
    for episode in episodes:
        assert episode.prompt_ids == shown and episode.prefix_tokens == len(shown) - len(expert.prompt_ids)
        assert episode.messages[:5] == expert.messages[:5]
        assert [turn.action for turn in episode.prefix] == list(table.game.expert_plan[:2])
        assert 1 <= len(episode.turns) <= TURNS
        assert_trained_as_sampled(episode, asked[episode.sample])
        assert sum(to_rows(episode, REWARD)[0].rewards) == sum(turn.rewards[REWARD] for turn in episode.turns)
        assert not any(turn.rewards for turn in episode.prefix)
        assert episode.turns[0].observation == expert.turns[2].observation
        assert Episode.from_dict(episode.to_dict()) == episode
    assert len({tuple(turn.action for turn in episode.turns) for episode in episodes}) > 1


def test_an_episode_with_nothing_left_to_play_fails_its_group(table: Table) -> None:
    class All(Linear):
        def specs(self, base: EpisodeSpec, n: int, rng: object) -> list[EpisodeSpec]:
            return [replace(base, prefix=table.game.expert_plan)] * n

    with pytest.raises(GroupFailed, match="the game ended at replayed action 4 of the 4"):
        table.play(All())


def test_a_retry_is_trained_on_as_it_was_played(table: Table) -> None:
    """One turn an episode: nobody wins."""
    episodes, asked = table.play(method("rollout_form", "retry"), replace(table.base, max_turns=1))
    again, first = episodes[:SAMPLES], episodes[SAMPLES:]
    assert [e.trained for e in episodes] == [True] * SAMPLES + [False] * SAMPLES
    assert not any(e.guidance for e in first) and {e.guidance for e in again} == {
        f"A plan that works: {', '.join(table.game.expert_plan)}"
    }
    for episode in episodes:
        assert_trained_as_sampled(episode, asked[episode.sample])
        assert (f"\n{episode.guidance}\nGoal: " in episode.messages[0]["content"]) == bool(episode.guidance)
    plain = table.demonstrated()
    assert first[0].prompt_ids == plain.prompt_ids and first[0].messages[0] == plain.messages[0]
    seeds = [request.seed for requests in asked.values() for request in requests]
    assert len(set(seeds)) == 2 * SAMPLES


def test_a_patched_turn_ends_its_row(table: Table) -> None:
    """Each row is what the server saw; the next one has the expert's answer in its prompt."""
    form = method("rollout_form", "semi_online", patches=-1)
    episodes, asked = table.play(form, prompt=len(table.demonstrated().prompt_ids))
    plan, patched = table.game.expert_plan, 0
    for episode in episodes:
        requests = iter(asked[episode.sample])
        assert len(episode.turns) == len(plan)
        for row, (first, _) in zip(to_rows(episode, REWARD), turns_of_rows(episode), strict=True):
            ids, at = row.prompt_ids + row.response_ids, len(row.prompt_ids)
            if first:
                patched += 1
                assert episode.turns[first - 1].patch == plan[first - 1] and not episode.turns[first - 1].context_ids
                assert f"{plan[first - 1]}\n" in table.codec.decode(row.prompt_ids[-200:]) + "\n"
            while at < len(ids):
                request, turn = next(requests), episode.turns[first]
                assert ids[:at] == list(request.prompt_ids)
                at, first = at + len(turn.action_ids) + len(turn.context_ids), first + 1
        assert next(requests, None) is None
    assert patched


def test_a_branch_begins_with_the_tokens_of_its_parent(table: Table) -> None:
    form = method("rollout_form", "tree", trees=2, nodes=1, rounds=2)
    episodes, asked = table.play(form)
    assert len(episodes) == 6 and sum(e.trained for e in episodes) == SAMPLES
    of = {episode.sample: episode for episode in episodes}
    inner = [episode for episode in episodes if episode.branched]
    assert inner, "all branches were drawn at a root"
    for episode in inner:
        parent, shared = of[episode.parent], len(episode.turns) - len(episode.own_turns)
        assert 1 <= shared < len(parent.turns) and len(episode.turns) <= TURNS
        for ours, theirs in zip(episode.turns[:shared], parent.turns, strict=False):
            for name in ("observation", "action", "action_ids", "logprobs", "context_ids", "score_delta", "valid"):
                assert getattr(ours, name) == getattr(theirs, name), name
        assert_trained_as_sampled(episode, asked[episode.sample])
        assert sum(to_rows(episode, REWARD)[0].rewards) == sum(turn.score_delta for turn in episode.turns)
    again, _ = table.play(form)
    assert [[(e.sample, e.parent, t.action_ids) for t in e.turns] for e in again] == [
        [(e.sample, e.parent, t.action_ids) for t in e.turns] for e in episodes
    ]


def test_a_branch_of_a_game_that_goes_another_way_is_played_from_its_start(table: Table) -> None:
    class Astray(Linear):
        """As if the game had answered otherwise before."""

        def specs(self, base: EpisodeSpec, n: int, rng: object) -> list[EpisodeSpec]:
            turns = (Turn("somewhere else", "look", [5], [-1.0]),)
            return [replace(base, sample=1, branch=Branch(0, turns, "a hall"))]

    (episode,), asked = table.play(Astray())
    assert episode.parent == 0 and episode.own_turns == episode.turns and episode.whole
    assert_trained_as_sampled(episode, asked[1])


def test_arpo_reads_the_servers_entropies(table: Table) -> None:
    episodes, asked = table.play(method("rollout_form", "arpo", start=0.25, alpha=1.0))
    assert [e.sample for e in episodes] == list(range(SAMPLES)) and all(e.trained for e in episodes)
    assert any(e.branched for e in episodes) or len(episodes[0].turns) == 1
    for episode in episodes:
        for turn in episode.turns:
            assert len(turn.entropies) == len(turn.action_ids) <= TOKENS
    turn, request = episodes[0].turns[0], asked[0][0]
    ids = torch.tensor([[*request.prompt_ids, *turn.action_ids]])
    with torch.no_grad():
        logits = table.generator.model(input_ids=ids).logits[0, len(request.prompt_ids) - 1 : -1].double()
    top = logits.log_softmax(-1).topk(10).values
    wanted = -(top.exp() * top).sum(-1) / math.log(logits.shape[-1])
    assert turn.entropies == pytest.approx(wanted.tolist(), abs=1e-5)
    assert not table.play(Linear())[0][0].turns[0].entropies
