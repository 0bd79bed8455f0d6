"""Which episodes a rollout form plans, and what is told of them."""

from dataclasses import replace
from functools import partial
from random import Random

import pytest
from usual import method

from turngrid.envs.registry import make_environment
from turngrid.envs.types import EnvError, TaskRef
from turngrid.records.step_metrics import step_metrics
from turngrid.rollouts.episode import Episode, Outcome, Turn
from turngrid.rollouts.forms.aepo import branches_in_a_row
from turngrid.rollouts.forms.linear import Linear
from turngrid.rollouts.forms.retry import Retry
from turngrid.rollouts.forms.tcod import Tcod
from turngrid.rollouts.forms.tree import nodes_of, roots_of, samplers_of
from turngrid.rollouts.loop import EpisodeSpec
from turngrid.tasks.rejection import Standards

ACTIONS = tuple(f"go {number}" for number in range(12))
TASK = TaskRef("textworld", "w2-o3-q4", {}, 1, "train", "", "", "", ACTIONS, "", 1.0)
BASE = EpisodeSpec(TASK, make_environment("textworld").prompt, 30, prompt="000001-0000")
shipped = partial(method, "rollout_form")


def planned(form: Linear, step: int = 1) -> EpisodeSpec:
    """What all samples of a step have in common."""
    plans = form.specs(replace(BASE, step=step), 3, Random(0))
    assert [plan.sample for plan in plans] == [0, 1, 2] and form.episodes(3) == 3
    first, *others = [replace(plan, sample=0, step=0) for plan in plans]
    assert all(other == first for other in others)
    return first


@pytest.mark.parametrize(("turns", "replayed"), [(0, 0), (3, 3), (30, 11)])
def test_prefix_leaves_the_policy_at_least_the_last_action(turns: int, replayed: int) -> None:
    assert planned(shipped("prefix", turns=turns)) == replace(BASE, prefix=ACTIONS[:replayed])


@pytest.mark.parametrize(("finished", "turns"), [(0, 1), (5, 1), (6, 2), (60, 11), (174, 30), (200, 30)])
def test_tcod_forward(finished: int, turns: int) -> None:
    assert planned(Tcod(direction="f2b", every=6), finished + 1) == replace(BASE, max_turns=turns)


@pytest.mark.parametrize(("finished", "replayed"), [(0, 11), (6, 10), (30, 6), (66, 0), (90, 0)])
def test_tcod_backward(finished: int, replayed: int) -> None:
    assert planned(Tcod(direction="b2f", every=6), finished + 1) == replace(BASE, prefix=ACTIONS[:replayed])


@pytest.mark.parametrize("form", [shipped("prefix"), shipped("tcod")])
def test_a_game_without_a_plan_cannot_be_replayed(form: Linear) -> None:
    with pytest.raises(EnvError, match="textworld/w2-o3-q4/1 has no expert plan"):
        form.specs(replace(BASE, task=replace(TASK, expert_plan=())), 2, Random(0))


def episode(outcome: Outcome, **more: object) -> Episode:
    turns = [Turn("a room", "look", action_ids=[1, 2], logprobs=[-1.0, -1.0], rewards={"sparse": 0.0})]
    return Episode("t", 1, "train", "win", [], [9], turns, outcome, **more)


def test_a_win_after_a_prefix_is_no_win_from_the_start() -> None:
    replayed = [Turn("a hall", "go east", action_ids=[3, 4, 5], context_ids=[6], sampled=False)]
    helped = [episode(Outcome.WON, prefix=replayed)] * 3
    told = step_metrics([[episode(Outcome.LOST), *helped]], "sparse")
    assert (told["success/train"], told["success/train_after_prefix"]) == (0.0, 1.0)
    assert (told["rollout/replayed_turns"], told["rollout/replayed_tokens"]) == (0.75, 12.0)
    assert told["rollout/sampled_tokens"] == 8.0
    assert "success/train" not in step_metrics([helped], "sparse")
    assert Standards(1, 0, 12).objection(helped[0]) and not Standards(1, 0, 12).objection(episode(Outcome.WON))
    assert Episode.from_dict(helped[0].to_dict()) == helped[0]
    assert "prefix" not in episode(Outcome.WON).to_dict()


# ---- retry


def attempts(*outcomes: Outcome) -> list[Episode]:
    return [replace(episode(won), sample=n, final_observation=f"end {n}\n.") for n, won in enumerate(outcomes)]


LOST = attempts(Outcome.LOST, Outcome.OUT_OF_TURNS)


@pytest.mark.parametrize(
    ("guidance", "first"),
    [
        ("plan", f"A plan that works: {', '.join(ACTIONS)}"),
        ("expert_hint", "Hint: begin with: go 0"),
        ("last_feedback", "An earlier attempt failed. It ended with: end 0 ."),
    ],
)
def test_a_group_without_a_win_plays_again_with_guidance(guidance: str, first: str) -> None:
    form = Retry(guidance=guidance)
    plans = form.next(LOST, BASE, 2, Random(0))
    assert [plan.sample for plan in plans] == [2, 3] and plans[0].guidance == first
    assert (plans[1].guidance == first) == (guidance != "last_feedback")
    again = [replace(e, sample=2 + e.sample, guidance=first, outcome=Outcome.WON) for e in LOST]
    assert form.next([*LOST, *again], BASE, 2, Random(0)) == []
    group = form.group([*LOST, *again], 2, Random(0))
    assert [(e.sample, e.trained) for e in group] == [(2, True), (3, True), (0, False), (1, False)]
    told = step_metrics([group], "sparse")
    assert (told["success/train"], told["success/train_guided"], told["rollout/guided"]) == (0.0, 1.0, 1.0)
    assert (told["rollout/episodes"], told["rollout/only_played"]) == (4.0, 2.0)
    assert [Episode.from_dict(e.to_dict()) for e in group] == group and Standards(1, 0, 12).objection(group[0])


def test_a_group_with_a_win_is_learned_from_as_it_is() -> None:
    won = attempts(Outcome.LOST, Outcome.WON)
    assert shipped("retry").next(won, BASE, 2, Random(0)) == [] and shipped("retry").group(won, 2, Random(0)) == won
    assert shipped("retry").episodes(2) == 4


# ---- trees


def leaf(sample: int, parent: int | None, shared: int, own: int) -> Episode:
    turns = [Turn(f"seen {n}", "look", [7], [-1.0], shared=n < shared) for n in range(shared + own)]
    return replace(episode(Outcome.LOST), sample=sample, parent=parent, turns=turns)


def test_every_node_of_a_tree_is_drawn_from_once() -> None:
    grown = [leaf(0, None, 0, 3), leaf(1, None, 0, 1), leaf(2, 0, 1, 2), leaf(3, 1, 0, 2), leaf(4, 2, 2, 3)]
    assert roots_of(grown) == {0: 0, 1: 1, 2: 0, 3: 1, 4: 0}
    assert samplers_of(grown)[4] == [0, 2, 4, 4, 4]
    tree = [e for e in grown if roots_of(grown)[e.sample] == 0]
    assert [(e.sample, turns) for e, turns in nodes_of(tree)] == [(0, 0), (0, 1), (0, 2), (2, 2), (4, 3), (4, 4)]


def test_a_group_of_trees_has_so_many_leaves() -> None:
    form, rng = shipped("tree", trees=2, nodes=2, rounds=2), Random(1)
    played = [leaf(plan.sample, None, 0, 4) for plan in form.specs(BASE, 5, rng)]
    while plans := form.next(played, BASE, 5, rng):
        assert [plan.sample for plan in plans] == [len(played) + n for n in range(4)]
        for plan in plans:
            parent = played[plan.branch.parent]
            assert plan.branch.turns == tuple(parent.turns[: len(plan.branch.turns)])
            assert plan.branch.observation == parent.turns[len(plan.branch.turns)].observation
            played.append(leaf(plan.sample, plan.branch.parent, len(plan.branch.turns), 2))
    assert len(played) == form.episodes(5) == 2 * (1 + 2 * 2)
    group = form.group(played, 5, Random(3))
    assert [e.trained for e in group] == [True] * 5 + [False] * 5
    assert sorted(e.sample for e in group) == list(range(10)) and group != form.group(played, 5, Random(4))


def test_a_shared_turn_counts_once() -> None:
    told = step_metrics([[leaf(0, None, 0, 3), leaf(1, 0, 2, 1)]], "sparse")
    assert (told["rollout/sampled_tokens"], told["rollout/shared_tokens"]) == (4.0, 2.0)
    assert {"success/train", "success/train_branched"} <= set(told)


# ---- arpo


def certain(sample: int, *entropies: float, parent: int | None = None, shared: int = 0) -> Episode:
    """A turn an entropy, of which the first 20 tokens have an equal share; what comes after counts
    for nothing."""
    turns = [
        Turn(f"seen {n}", "look", [7], [-1.0], shared=n < shared, entropies=[entropy / 20] * 20 + [9.0])
        for n, entropy in enumerate(entropies)
    ]
    return replace(episode(Outcome.LOST), sample=sample, parent=parent, turns=turns)


@pytest.mark.parametrize(("risen", "chance"), [(-3.0, 0.0), (-0.5, 0.4), (0.0, 0.5), (0.5, 0.6), (2.6, 1.0)])
def test_the_chance_to_branch_follows_the_rise_of_entropy(risen: float, chance: float) -> None:
    assert shipped("arpo").chance(certain(0, 3.0, 3.0 + risen), 2) == pytest.approx(chance)
    assert shipped("arpo", mean=True).chance(certain(0, 3.0, 3.0 + risen), 2) == pytest.approx(
        min(1.0, max(0.0, 0.5 + 0.2 * risen / 20))
    )


def branches_of(specs: list[EpisodeSpec]) -> list[tuple[int, int, int]]:
    return [(spec.sample, spec.branch.parent, len(spec.branch.turns)) for spec in specs if spec.branch]


def test_arpo_branches_turn_by_turn_while_samples_are_left() -> None:
    """Chances of 0 and 1 only: H falls by 3 or more, or rises by 2.5."""
    form = shipped("arpo", alpha=0.0, gamma=1.0)
    assert len(form.specs(BASE, 6, Random(0))) == 3
    falling, rising = certain(0, 5.0, 1.0, 1.0), certain(1, 1.0, 1.0, 5.0, 5.0, 5.0)
    played = [falling, rising, certain(2, 1.0)]
    plans = form.next(played, BASE, 6, Random(0))
    # after the third turn, and neither after one that did not rise nor the last
    assert branches_of(plans) == [(3, 1, 3)]
    played.append(certain(3, 1.0, 1.0, 5.0, 9.0, 9.0, parent=1, shared=3))
    plans = form.next(played, BASE, 6, Random(0))
    assert branches_of(plans) == [(4, 1, 4), (5, 3, 4)]
    assert branches_of(form.next(played, BASE, 5, Random(0))) == [(4, 1, 4)]


def test_arpo_fills_up_with_fresh_episodes_where_nothing_goes_on() -> None:
    played = [certain(0, 5.0, 1.0), certain(1, 5.0)]
    plans = shipped("arpo", alpha=0.0, gamma=1.0).next(played, BASE, 4, Random(0))
    assert [(plan.sample, plan.branch) for plan in plans] == [(2, None), (3, None)]
    assert shipped("arpo").next([*played, *played], BASE, 4, Random(0)) == []
    assert shipped("arpo").episodes(4) == 4


# ---- aepo


@pytest.mark.parametrize(("first", "later", "whole"), [(0.5, 0.3, 8.79734), (0.3, 0.5, 7.20266), (0.4, 0.4, 8.0)])
def test_a_probe_says_how_many_are_played_from_the_start(first: float, later: float, whole: float) -> None:
    probe = certain(0, first, later + 0.1, later - 0.1)
    assert shipped("aepo").from_the_start(probe, 16) == pytest.approx(whole, abs=1e-5)
    assert len(shipped("aepo").specs(BASE, 16, Random(0))) == 1
    plans = shipped("aepo").next([probe], BASE, 16, Random(0))
    assert [plan.sample for plan in plans] == list(range(1, round(whole))) and not branches_of(plans)


def test_a_path_that_branched_branches_less() -> None:
    """H rises by 0.5."""
    rising = (1.0, 1.5, 1.5, 1.5, 1.5)
    grown = [certain(0, *rising), certain(1, *rising, parent=0, shared=1), certain(2, *rising, parent=1, shared=2)]
    rows = {turns: branches_in_a_row(grown[1], turns, grown) for turns in (1, 2, 3, 4)}
    assert rows == {1: 0, 2: 1, 3: 2, 4: 0}
    assert [shipped("aepo").chance(grown[1], turns, grown) for turns in (4, 2, 3)] == pytest.approx([0.6, 0.42, 0.24])
    assert branches_in_a_row(grown[0], 3, grown) == 0  # after its second turn another path branched, not this one
