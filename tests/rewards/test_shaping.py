"""Reward transforms against numbers worked out by hand; episodes as a worker plays them."""

from typing import Any

import pytest
from usual import method, usual

from turngrid.algorithms.chosen import Chosen
from turngrid.rewards.registry import named_reward
from turngrid.rewards.reward import TRAINED, RewardView
from turngrid.rewards.shaping.g_ra import GRa, Level
from turngrid.rollouts.ending import shape
from turngrid.rollouts.episode import Episode, Outcome, Turn
from turngrid.rollouts.row import to_rows


def episode(turns: list[Turn]) -> Episode:
    return Episode("t", 1, "train", "win", [], [1], turns, Outcome.WON, step=1)


def played(rewards: list[float], **columns: list[Any]) -> Episode:
    """One turn a reward; ``columns`` are fields of the turns."""
    rest = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    fields = rest or [{} for _ in rewards]
    return episode([Turn("", "", rewards={"sparse": r}, **f) for r, f in zip(rewards, fields, strict=True)])


def trained(made: Episode) -> list[float]:
    return [turn.trained("sparse") for turn in made.turns]


def transforms(step: int = 1, **settings: dict[str, Any]) -> dict[str, Any]:
    nodes = {name: usual("shaping", name, **(own or {})) for name, own in settings.items()}
    return Chosen({"shaping": nodes}).of("shaping", step)


# ---- the penalties and the bonus


def test_an_action_that_was_not_understood_may_cost_at_the_end() -> None:
    made = played([0, 0, 1], valid=[True, False, True])
    shape(made, "sparse", transforms(invalid_action={"coefficient": 0.1, "at": "last"}))
    assert trained(made) == pytest.approx([0, 0, 0.9])


def test_keeping_a_subgoal_costs_and_changing_it_under_that_name_more() -> None:
    """Three turns of four keep theirs, of which one names another: 0.3 x 3/4 spread over three, and
    0.2."""
    made = played([0, 0, 0, 1], label=["KEEP", "SWITCH", "KEEP", "KEEP"], thought=["a", "b", "b", "c"])
    shape(made, "sparse", transforms(subgoals={"changed": 0.2}))
    assert trained(made) == pytest.approx([-0.075, 0, -0.075, 1 - 0.075 - 0.2])
    assert made.shaping == {"subgoals": pytest.approx(-0.3 * 3 / 4 - 0.2)}


@pytest.mark.parametrize(
    ("step", "bonus"), [(0, 0.7), (50, 0.59749), (100, 0.35), (200, 0.0), (201, 0.0)], ids=lambda value: str(value)
)
def test_the_bonus_for_turns_ends(step: int, bonus: float) -> None:
    made = played([0.0] * 6 + [1.0])
    shape(made, "sparse", transforms(step, turn_bonus={"weight": 1.0, "decay": {"cosine_down": 200}}))
    assert trained(made) == pytest.approx([0.0] * 6 + [1 + bonus], abs=1e-5)
    long = played([0.0] * 30)
    shape(long, "sparse", transforms(turn_bonus={}))
    assert trained(long)[-1] == pytest.approx(0.1)  # at most its weight


# ---- overlong


@pytest.mark.parametrize(("tokens", "price"), [(80, 0), (85, -0.25), (90, -0.5), (100, -1), (110, -1.5)])
def test_the_last_tokens_before_the_limit_cost(tokens: int, price: float) -> None:
    made = played([0, 1], action_ids=[[1] * 20, [1] * 10], context_ids=[[2] * (tokens - 30), []])
    shape(made, "sparse", transforms(overlong={"limit": 100, "buffer": 20}))
    assert trained(made) == pytest.approx([0, 1 + price])
    assert trained(made)[0] == 0


def test_the_longest_window_counts_and_observations_need_not() -> None:
    turns = [Turn("", "", action_ids=[1] * 50, context_ids=[2] * 40, rewards={"sparse": 0.0}) for _ in range(3)]
    turns[2].prompt_ids = [7]  # the third turn begins a row of its own
    for settings, n in (({}, 180), ({"actions_only": True}, 100)):
        made = episode([Turn(**vars(turn)) for turn in turns])
        shape(made, "sparse", {"overlong": method("shaping", "overlong", limit=100, **settings)})
        assert trained(made)[-1] == pytest.approx(-(n - 80) / 20)  # a fifth of the limit


# ---- gates


@pytest.mark.parametrize(
    ("sums", "wanted"), [((1, 0.5, 0.8), 2.3), ((0, 0.5, 0.8), 0), ((1, 0.1, 0.8), 1.1), ((0.5, 0.3, 0.2), 1.0)]
)
def test_a_lesser_reward_waits_for_the_greater_ones(sums: tuple[float, ...], wanted: float) -> None:
    levels = [Level("a", 0.5), Level("b", 0.3), Level("c")]
    rewards = {TRAINED: [9.0, 9.0], **{name: [value, 0.0] for name, value in zip("abc", sums, strict=True)}}
    gated, view = GRa(levels=levels), RewardView(played([0, 0]), rewards, 1)
    assert gated(view) == {TRAINED: [pytest.approx(wanted), 0.0]} and gated.reads == {"a", "b", "c"}
    passed = sums[0] >= 0.5, sums[0] >= 0.5 and sums[1] >= 0.3  # the share of a gate counts those before it
    assert gated.logged(view) == {"passed/a": passed[0], "passed/b": passed[1]}


def test_every_turn_keeps_its_own_and_a_sum_of_floats_passes_its_gate() -> None:
    made = played([0.0] * 10)
    for number, turn in enumerate(made.turns):
        turn.rewards |= {"tenth": 0.1, "dense": number / 10}
    assert sum([0.1] * 10) < 1.0
    shape(made, "sparse", transforms(g_ra={"levels": [{"reward": "tenth", "gate": 1.0}, {"reward": "dense"}]}))
    assert trained(made) == pytest.approx([0.1 + number / 10 for number in range(10)])
    assert made.shaping == {"g_ra": pytest.approx(5.5), "g_ra/passed/tenth": 1.0}


@pytest.mark.parametrize(
    ("levels", "message"),
    [
        ([{"reward": "outcome"}], "must name two rewards or more"),
        ([{"reward": "outcome", "gate": 1}, {"reward": "outcome"}], "must name two rewards or more"),
        ([{"reward": "outcome"}, {"reward": "dense"}], "level outcome needs a gate"),
        (
            [{"reward": "outcome", "gate": 1}, {"reward": "dense", "gate": 1}],
            "level dense is the last and takes no gate",
        ),
    ],
)
def test_levels_that_gate_nothing_are_refused(levels: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GRa(levels=levels)


# ---- one after the other, and what is left on record


def marks(view: RewardView) -> dict[str, list[float]]:
    """Somebody's own: marks the first turn under its own name, which the next transform reads."""
    return {"first": [1.0] + [0.0] * (len(view.episode.turns) - 1)}


def doubles(view: RewardView) -> dict[str, list[float]]:
    """Doubles what is trained on and adds what is marked."""
    return {TRAINED: [2 * r + m for r, m in zip(view.rewards[TRAINED], view.rewards["first"], strict=True)]}


def test_transforms_act_in_the_lists_order() -> None:
    both, back = played([0, 1]), played([0, 1])
    price = transforms(invalid_action={"coefficient": 0.25})["invalid_action"]
    for made in (both, back):
        made.turns[1].valid = False
    shape(both, "sparse", {"mark": marks, "price": price, "double": doubles})
    shape(back, "sparse", {"mark": marks, "double": doubles, "price": price})
    assert (trained(both), trained(back)) == ([1, 1.5], [1, 1.75])
    assert both.turns[0].rewards == {"sparse": 0, "first": 1, "trained": 1}
    assert both.shaping == {"mark": 0, "price": -0.25, "double": 1.75}


@pytest.mark.parametrize(
    ("rewards", "message"),
    [([0.0], "gave 1 rewards to 2 turns"), *(([0.0, float(x)], f"gave {x} to turn 2") for x in ("nan", "inf"))],
)
def test_a_transform_that_forgets_a_turn_or_gives_no_finite_number_is_named(rewards, message) -> None:
    with pytest.raises(ValueError, match=f"shaping=mine, trained: {message}"):
        shape(played([0, 1]), "sparse", {"mine": lambda view: {TRAINED: rewards}})


def test_the_row_has_what_is_trained_on_at_the_turns_last_token() -> None:
    made = played([0, 1], valid=[False, True], action_ids=[[5, 6], [7, 8]], context_ids=[[9], []])
    shape(made, "sparse", transforms(invalid_action={"coefficient": 0.25}, turn_bonus={}))
    (row,) = to_rows(made, "sparse")
    assert row.rewards == pytest.approx([0, -0.25, 0, 0, 1.02])
    assert Episode.from_dict(made.to_dict()) == made


def test_rewards_that_methods_read_by_name() -> None:
    turns = [Turn("", "", valid=False, parsed=False), Turn("", "", valid=False), Turn("", "", score_delta=2.0)]
    wanted = {"outcome": [0, 0, 1], "valid": [0, 0, 1], "parsed": [0, 1, 1], "dense": [0, 0, 0.5]}
    assert {name: named_reward(name).turn_rewards(turns, True, 4.0) for name in wanted} == wanted
    with pytest.raises(ValueError, match="use dense"):
        named_reward("dens")
