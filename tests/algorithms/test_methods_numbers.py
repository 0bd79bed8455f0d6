"""Each method against numbers worked out by hand, and by its authors' code where there is any."""

from dataclasses import dataclass, field

import pytest
import torch
from example_x import GRPO, PATHS, example_x, spread
from torch import Tensor
from usual import method, usual

from turngrid.algorithms.chosen import Chosen
from turngrid.algorithms.schedules import schedule
from turngrid.algorithms.slots import LossView, StoredEpisode
from turngrid.algorithms.turn_table import turn_ids, turn_table
from turngrid.algorithms.turns import Turns


def assert_turns(found: Tensor, turns: Turns, wanted: list[list[float]]) -> None:
    """To 5 digits, the way the specifications give them."""
    for name, row, mask, numbers in zip(PATHS, found, turns.mask, wanted, strict=True):
        assert row[mask].tolist() == pytest.approx(numbers, abs=1.01e-5), name


GIGPO = [
    [2.44945, 1.91409],
    [-1.56418, -1.96192, -1.56418],
    [-1.56418, -0.84887],
    [1.39421, 0.89670, 0.60634],
    [-1.15470, -0.57735],
    [2.30940, 1.15470],
    [-1.15470, -0.57735],
]
GIGPO_WITHOUT_STD = [
    [1.18475, 0.98750],
    [-0.76525, -1.01250, -0.76525],
    [-0.76525, -0.43750],
    [0.67350, 0.46250, 0.31250],
    [-0.65, -0.33333],
    [1.3, 0.66667],
    [-0.65, -0.33333],
]


def epo_example() -> tuple[Turns, Tensor]:
    """Entropies e0 [.2 .4][1.0], e1 [.6][.1 .3 .5]."""
    masks = [[1, 1, 0, 1, 0, 0, 0], [1, 0, 1, 1, 1, 0, 0]]
    entropy = [[0.2, 0.4, 7, 1.0, 7, 7, 7], [0.6, 7, 0.1, 0.3, 0.5, 7, 7]]
    rows = {"loss_mask": torch.tensor(masks), "reward": torch.zeros(len(masks), 7), "entropy": torch.tensor(entropy)}
    record = [torch.tensor([0, 0])] * len(masks)
    columns = dict.fromkeys(("state", "after", "action", "valid", "parsed"), record)
    members = {str(row): [row] for row in range(len(masks))}
    outcome = [torch.tensor([0])] * len(masks)
    return turn_table(rows, {**columns, "outcome": outcome}, members, ["g"] * len(masks)), rows["entropy"]


def test_epo() -> None:
    """In two passes; through verl's own in tests/verl_plugin/test_method_losses.py, as those of
    turn_clip."""
    turns, entropy = epo_example()
    epo = method("terms", "epo", weight=0.001, low=0.5, high=1.5, alpha=0.1, decay=1.0)
    epo.load({"total": 0.3, "count": 1})
    data, coefficients = epo.prepare(turns, turns.mask, entropy, step=11, steps=40)
    assert coefficients["beta"] == pytest.approx(1.60653, abs=1e-5)
    assert data["weight"].sum().item() == pytest.approx(1.0)
    found = [
        epo.loss(LossView(entropy[part], entropy[part], {"weight": data["weight"][part]}, 1.0), coefficients)
        for part in (slice(0, 1), slice(1, None))
    ]
    assert sum(loss.item() for loss, _ in found) == pytest.approx(-5.20547e-4, abs=1e-9)
    assert sum(metrics["entropy"].item() for _, metrics in found) == pytest.approx(0.55, abs=1e-5)
    assert sum(metrics["smooth"].item() for _, metrics in found) == pytest.approx(0.01833, abs=1e-5)
    assert epo.state() == {"total": pytest.approx(0.3 + 0.442857), "count": 2}


def test_epos_released_penalty_has_no_gradient() -> None:
    """The loss is the same, and only the entropy is learned from."""
    turns, entropy = epo_example()
    found = {}
    for gradient in (True, False):
        epo = method("terms", "epo", low=0.5, high=1.5, decay=0.0, gradient=gradient)
        epo.load({"total": 0.3, "count": 1})
        data, coefficients = epo.prepare(turns, turns.mask, entropy, step=11, steps=40)
        leaf = entropy.clone().requires_grad_()
        loss, _ = epo.loss(LossView(leaf, leaf, data, 1.0), coefficients)
        loss.backward()
        found[gradient] = loss.item(), leaf.grad[0, 3].item()  # H = 1 lies above 1.5 x 0.3
    assert found[True][0] == found[False][0]
    assert [found[True][1], found[False][1]] == pytest.approx([-0.00025 * (1 - 2 * 0.1), -0.00025])


def test_epo_counts_the_episodes_that_are_kept() -> None:
    turns, entropy = epo_example()
    keep = turns.mask & torch.tensor([[True], [False]])
    data, coefficients = method("terms", "epo").prepare(turns, keep, entropy, step=1, steps=40)
    _, metrics = method("terms", "epo").loss(LossView(entropy, entropy, data, 1.0), coefficients)
    assert metrics["entropy"].item() == pytest.approx((0.3 + 1.0) / 2)


def test_step_clip_bounds_what_a_bad_turn_costs() -> None:
    """A = -1: ratios e^0.5 and e^2 cost 1.5 at most with dual 1.5; a good turn is bounded by the
    clip alone."""
    ratios, mask = torch.tensor([[0.5, 0.0, 2.0, 0.0, 2.0]]), torch.tensor([[1, 0, 1, 0, 1]])
    advantages = torch.tensor([[-1.0, 0, -1, 0, 1]])
    clip = method("loss", "step_clip", low=0.2, high=0.2, dual=1.5)
    losses, metrics = clip(ratios * 0, ratios, advantages, mask, turn_ids(mask))
    assert losses[mask.bool()].tolist() == pytest.approx([1.5, 1.5, -1.2])
    assert metrics["bounded"][mask.bool()].tolist() == [1, 1, 0]
    plain, _ = method("loss", "turn_clip", low=0.2, high=0.2)(ratios * 0, ratios, advantages, mask, turn_ids(mask))
    assert plain[mask.bool()].tolist() == pytest.approx([1.64872, 7.38906, -1.2], abs=1e-5)


def test_aepo_clip_costs_what_ppos_does_and_keeps_a_gradient_above_the_clip() -> None:
    """Ratios e^2, e^-2 with A = 1, then with A = -1; PPO's gradients are 0, -e^-2, 0, 0."""
    ratios, mask = torch.tensor([[2.0, -2.0, 2.0, -2.0]]), torch.ones(1, 4).long()
    advantages, now = torch.tensor([[1.0, 1, -1, -1]]), ratios.clone().requires_grad_()
    clip = method("loss", "aepo_clip", low=0.2, high=0.3, dual=3.0)
    losses, metrics = clip(ratios * 0, now, advantages, mask, turn_ids(mask))
    losses.sum().backward()
    assert now.grad is not None
    assert losses[0].tolist() == pytest.approx([-1.3, -0.13534, 3.0, 0.8], abs=1e-5)
    assert now.grad[0].tolist() == pytest.approx([-1.3, -0.13534, 0, 0], abs=1e-5)
    assert metrics["clipped"][0].tolist() == [1, 0, 0, 1]


def stored(score: float, step: int = 1) -> StoredEpisode:
    return StoredEpisode([{}], score, step)


def test_self_imitation_divides_by_no_deviation_of_0() -> None:
    """Where most groups' scores are equal, 1e-6 alone would make an advantage of a million."""
    buffer = method("buffer", "self_imitation", capacity=1)
    buffer.load({"episodes": [vars(stored(1))] * 2, "groups": [(1, [0.0, 0.0, 0.25], [0.0, 0.0, 0.4])]})
    assert [episode.advantage for episode in buffer.take(2)] == [1.0, 1.0]


def test_self_imitation_waits_until_it_holds_enough() -> None:
    buffer = method("buffer", "self_imitation", capacity=2)
    buffer.load({"episodes": [vars(stored(1))] * 3, "groups": [(1, [0.5], [0.5])]})
    assert buffer.take(2) == [] and len(buffer) == 3  # 3 is not more than 1.5 x 2


def test_self_imitation_stores_what_beat_its_group_and_forgets_what_is_old() -> None:
    turns, buffer = example_x(), method("buffer", "self_imitation", tolerate=1)
    assert buffer.wanted(turns, spread(GRPO, turns), 1) == [0, 3, 5]
    for step in (1, 2, 3, 4):
        buffer.offer(step, [stored(1.0, step)], turns)
    # when step 4 came, the newest held was of step 3: what was of step 1 went
    assert [episode.step for episode in buffer._episodes] == [2, 3, 4]
    assert buffer._groups[0][1] == pytest.approx([0.4375, 1 / 3])
    assert buffer._groups[0][2][0] == pytest.approx(((0.5625**2 + 2 * 0.4375**2 + 0.3125**2) / 4) ** 0.5)


@pytest.mark.parametrize(
    ("node", "steps", "wanted"),
    [
        ({"cosine_up": 100}, [0, 25, 50, 75, 100, 150], [0, 0.14645, 0.5, 0.85355, 1, 1]),
        ({"cosine_down": 100}, [0, 25, 100, 150], [1, 0.85355, 0, 0]),
        ({"linear": [1, 0, 10]}, [0, 5, 10, 99], [1, 0.5, 0, 0]),
        ({"steps": {1: 6, 101: 13, 201: 20}}, [1, 100, 101, 200, 201, 999], [6, 6, 13, 13, 20, 20]),
    ],
)
def test_schedules(node: dict, steps: list[int], wanted: list[float]) -> None:
    assert [schedule(node)(step) for step in steps] == pytest.approx(wanted, abs=1e-5)


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ({}, "a schedule is one name with its arguments"),
        ({"linear": [1, 0, 0]}, "must be above 0"),
        ({"linear": [1, 0]}, r"linear takes \[from, to, steps\], not \[1, 0\]"),
        ({"steps": {5: 1}}, "must begin with step 1"),
    ],
)
def test_schedules_that_are_refused(node: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("?", r"\?")):
        schedule(node)


@dataclass
class Counted:
    """Settings of each type that a schedule may stand for, and one that is a mapping of its own."""

    size: int | None = None
    on: bool = False
    by_name: dict[str, float] = field(default_factory=dict)


def test_a_schedule_gives_what_its_setting_is() -> None:
    given = {"size": {"linear": [0, 4, 4]}, "on": {"steps": {1: 0, 3: 1}}, "by_name": {"a": 1.0}}
    chosen = Chosen({"credit": {"mine": {"target": "test_methods_numbers:Counted", **given}}})
    sizes = [vars(chosen.of("credit", step)["mine"]) | {} for step in (1, 3)]
    assert sizes == [{"size": 1, "on": False, "by_name": {"a": 1.0}}, {"size": 3, "on": True, "by_name": {"a": 1.0}}]
    with pytest.raises(ValueError, match="on: .* gives 0.5; use 0 or 1"):
        Chosen({"credit": {"mine": {"target": "test_methods_numbers:Counted", "on": {"cosine_up": 2}}}})


def test_state_comes_back() -> None:
    names = {"terms": "epo", "buffer": "self_imitation", "credit": "gigpo"}
    node = {slot: {name: usual(slot, name)} for slot, name in names.items()}
    chosen, other = Chosen(node), Chosen(node)
    turns, entropy = epo_example()
    chosen.of("terms", 1)["epo"].prepare(turns, turns.mask, entropy, 1, 10)
    chosen.of("buffer", 1)["self_imitation"].offer(1, [stored(1.0)], turns)
    other.load(chosen.state())
    assert other.state() == chosen.state() and set(chosen.state()) == {"terms/epo", "buffer/self_imitation"}
    assert chosen.needs() == {"entropy"}
