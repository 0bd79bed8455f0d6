"""Episodes that the policy sums up: real games, the tiny model, and what is trained of them."""

from dataclasses import dataclass, replace

import pytest
import torch
from game_table import REWARD, SAMPLES, TURNS, Group, Table
from plain_model import Plain
from test_windows import assert_rows_are_what_the_server_saw, last_of_turn
from usual import method

from turngrid.experiments.stages.ledger import of_episodes
from turngrid.records.statistics import summarise
from turngrid.records.step_metrics import step_metrics
from turngrid.rewards.reward import TRAINED, RewardView
from turngrid.rollouts.episode import Episode, Outcome
from turngrid.rollouts.forms.linear import Linear
from turngrid.rollouts.policy import Reply, TurnContext
from turngrid.rollouts.row import to_rows
from turngrid.rollouts.stream import user
from turngrid.rollouts.tokenise import fill_ids
from turngrid.rollouts.window import ASK, Summaries, rows_of
from turngrid.tasks.rejection import Standards, without_ids
from turngrid.verl_plugin.rollout.agent_loop import row_fields
from turngrid.verl_plugin.sft_rows import EpisodeRows

LENGTH = 5
BY_TURNS = Summaries(tokens=None, turns=2, most=None, length=LENGTH)


def play(table: Table, rules: Summaries, response: int = 1024, prompt: int = 1024) -> Group:
    return table.play(Linear(), replace(table.base, window=rules), prompt, response)


@pytest.fixture(scope="module")
def played(table: Table) -> Group:
    return play(table, BY_TURNS)


def summaries(episode: Episode) -> list[int]:
    return [number for number, turn in enumerate(episode.turns) if turn.aside]


def test_rows_are_what_the_server_saw_and_summaries_are_trained(played: Group) -> None:
    episodes, asked = played
    for episode in episodes:
        assert_rows_are_what_the_server_saw(episode, asked[episode.sample])
        rows = to_rows(episode, REWARD)
        assert sum(sum(row.mask) for row in rows) == sum(len(turn.action_ids) for turn in episode.turns)
        assert len(rows) == 1 + len(summaries(episode)) == rows_of(len(episode.played_turns), BY_TURNS)
        for turn, request in zip(episode.turns, asked[episode.sample], strict=True):
            assert request.max_tokens == (LENGTH if turn.aside else 6)
        for row in rows:
            expected = Plain().log_probs(row.prompt_ids, row.response_ids) * torch.tensor(row.mask)
            torch.testing.assert_close(torch.tensor(row.logprobs), expected, atol=1e-4, rtol=0)
    assert len({request.seed for requests in asked.values() for request in requests}) == sum(map(len, asked.values()))


def test_a_row_begins_with_the_goal_the_summary_and_what_is_seen(played: Group, table: Table) -> None:
    (episode, *_) = played[0]
    assert len(episode.played_turns) == TURNS, "choose an episode that goes on to its last turn"
    assert summaries(episode) == [2, 5], "after the second turn and the fourth, and not after the last"
    head = episode.messages[0]["content"].removesuffix(f"{episode.turns[0].observation}\nYour action:")
    for number in summaries(episode):
        said, following = episode.turns[number], episode.turns[number + 1]
        first = f"{head}Your summary so far:\n{said.response}\nNow:\n{following.observation}\nYour action:"
        assert following.prompt_ids == table.codec.stream().start([user(first)])
        stream, asking = table.codec.stream(), episode.turns[number - 1]
        stream.add_sampled(asking.action_ids)
        assert asking.context_ids == stream.add_context([user(f"{following.observation}\n{ASK}")])
        assert said.context_ids == [] and said.prompt_ids == []
    assert [message["role"] for message in episode.messages] == ["user", "assistant"] * TURNS
    assert Episode.from_dict(episode.to_dict()) == episode


def test_a_summary_is_no_turn_of_the_environment(played: Group) -> None:
    episodes, _ = played
    for episode in episodes:
        assert all(turn.rewards == {REWARD: 0.0} for turn in episode.turns if turn.aside)
        assert sum(sum(row.rewards) for row in to_rows(episode, REWARD)) == pytest.approx(
            sum(turn.score_delta for turn in episode.played_turns)
        )
        assert not episode.turns[-1].aside and not episode.turns[0].aside
        outputs = row_fields(episode, REWARD)
        assert [output["num_turns"] for output in outputs][:-1] == [2] * (len(outputs) - 1)
        view = RewardView(episode, {TRAINED: [0.0] * len(episode.turns)}, 1)
        bonus = method("shaping", "turn_bonus", weight=1.0)(view)
        assert sum(bonus[TRAINED]) == pytest.approx(0.1 * len(episode.played_turns))
        assert Standards(1, 0, TURNS).objection(episode) in ("not won", "")
    told, tokens = step_metrics([episodes], REWARD), sum(len(t.action_ids) for e in episodes for t in e.turns)
    said = [turn for episode in episodes for turn in episode.turns if turn.aside]
    assert told["rollout/turns"] == sum(len(e.turns) for e in episodes) / SAMPLES - len(said) / SAMPLES
    assert told["rollout/sampled_tokens"] == tokens == of_episodes("rl_episode", 1, episodes, SAMPLES).tokens
    assert (told["rollout/summaries"], told["rollout/episodes"]) == (len(said) / SAMPLES, SAMPLES)
    assert told["rollout/summary_tokens"] == sum(len(turn.action_ids) for turn in said) / len(said) <= LENGTH
    won = sum(episode.won for episode in episodes)
    assert told["success/train"] == won / SAMPLES, "an episode counts once, whatever its rows"
    found = summarise([replace(episode, outcome=Outcome.WON) for episode in episodes])
    assert found["mean_turns_to_success"] == told["rollout/turns"] and found["successes"] == SAMPLES


def test_a_row_is_summed_up_once_it_is_long(table: Table, tokens: int = 280) -> None:
    rules = Summaries(tokens=tokens, turns=None, most=None, length=LENGTH)
    episodes, asked = play(table, rules)
    assert any(summaries(episode) for episode in episodes)
    for episode in episodes:
        assert_rows_are_what_the_server_saw(episode, asked[episode.sample])
        for row in to_rows(episode, REWARD)[:-1]:
            ends = [place + 1 for place, last in enumerate(last_of_turn(row)) if last]
            sizes = [len(row.prompt_ids) + end for end in ends[:-1]]  # up to each of the row's actions
            assert sizes[-1] >= tokens and all(size < tokens for size in sizes[:-1])


def test_no_more_summaries_than_may_be(table: Table) -> None:
    episodes, asked = play(table, replace(BY_TURNS, most=1))
    cut = [episode for episode in episodes if episode.outcome is Outcome.OUT_OF_CONTEXT]
    assert cut, "an episode of four turns needs a second one"
    for episode in cut:
        assert (len(episode.played_turns), summaries(episode)) == (4, [2])
        assert episode.turns[-1].context_ids == []
        assert_rows_are_what_the_server_saw(episode, asked[episode.sample])


def test_where_a_summary_has_no_room_the_row_ends_with_the_action(table: Table, played: Group) -> None:
    row = to_rows(played[0][0], REWARD)[0]
    asked_with = len(row.mask) - row.mask[::-1].index(0)
    (episode, *_), asked = play(table, BY_TURNS, response=asked_with + LENGTH - 1)
    assert episode.outcome is Outcome.OUT_OF_CONTEXT and not summaries(episode) and len(asked[0]) == 2
    assert [len(turn.context_ids) > 0 for turn in episode.turns] == [True, False]
    assert [turn.action_ids for turn in episode.turns] == [turn.action_ids for turn in played[0][0].turns[:2]]


@dataclass
class Talker:
    """Looks around and sums up at length, until a row's prompt has more than ``room`` tokens."""

    room: int
    name: str = "talker"

    async def act(self, context: TurnContext) -> Reply:
        if context.prompt_length > self.room:
            return Reply("", out_of_context=True)
        return Reply("I looked. " * 100 if context.max_tokens else "look")


@pytest.mark.parametrize(("room", "turns"), [(400, 2), (5000, TURNS)])
def test_a_summary_that_no_turn_follows_is_not_learned_from(table: Table, room: int, turns: int) -> None:
    episode = table.episode(Talker(room), replace(table.base, window=BY_TURNS), table.codec.stream())
    assert episode.outcome is (Outcome.OUT_OF_CONTEXT if turns < TURNS else Outcome.OUT_OF_TURNS)
    assert (len(episode.played_turns), len(summaries(episode))) == (turns, turns // 2 - 1)
    assert not episode.turns[-1].aside and episode.turns[-1].context_ids == []


# ---- SFT


def test_demonstrations_are_summed_up_in_the_same_rows(table: Table) -> None:
    bare = without_ids(table.demonstrated())
    plan = list(table.game.expert_plan)
    assert len(plan) == 4
    filled = fill_ids(bare, table.codec.stream(), BY_TURNS)
    assert [turn.action for turn in filled.turns] == [*plan[:2], f"Done so far: {', '.join(plan[:2])}.", *plan[2:]]
    rows = EpisodeRows([filled], table.codec, max_tokens=1024)
    learned = [rows[n]["input_ids"][rows[n]["loss_mask"].bool()].tolist() for n in range(len(rows))]
    ids = [turn.action_ids for turn in filled.turns]
    assert learned == [ids[0] + ids[1] + ids[2], ids[3] + ids[4]]
    assert fill_ids(bare, table.codec.stream(), replace(BY_TURNS, turns=4)).turns[-1].action == plan[-1]
    own = replace(filled, turns=[replace(t, action="I began.") if t.aside else t for t in filled.turns])
    again = fill_ids(without_ids(own), table.codec.stream(), replace(BY_TURNS, turns=1))
    assert [turn.action for turn in again.turns if turn.aside] == ["I began."], "its own, where it made it"
    without = fill_ids(without_ids(own), table.codec.stream(), None)
    assert [turn.action_ids for turn in without.turns] == [ids[0], ids[1], ids[3], ids[4]]
