"""A critic with several heads: what each learns. What each says is in test_engines.py."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from engine_probe import jagged
from example_step import batch_of, estimated, read, trainer_of
from example_x import example_x
from tensordict import TensorDict
from test_estimators_numbers import tokens_of
from verl.utils import tensordict_utils as tu
from verl.workers.utils.losses import value_loss

from turngrid.verl_plugin.value_heads import SUMS, column, weight

HEADS = range(3)


def loss_of(
    heads: int, data: dict[str, list[list[float]]], said: dict[str, list[list[float]]]
) -> tuple[float, dict[str, Any]]:
    """verl's value loss with ours around it. ``said``: a number for each token of the prompt and of
    the response but the last."""
    config = SimpleNamespace(cliprange_value=100.0, loss_agg_mode="token-mean", loss_scale_factor=None)
    rows = {name: jagged(numbers) for name, numbers in data.items()}
    batch = TensorDict({"prompts": jagged([[1], [1]]), "responses": jagged([[2, 3, 4], [5, 6]]), **rows}, 2)
    sums = {weight(head): sum(map(sum, data[weight(head)])) for head in range(heads)} if heads > 1 else {}
    tokens = int(sum(map(sum, data["response_mask"])))
    tu.assign_non_tensor(batch, dp_size=1, batch_num_tokens=tokens, global_batch_size=2, **{SUMS: sums})
    output = {name: jagged(numbers) for name, numbers in said.items()}
    loss, metrics = value_loss(config, output, batch)
    return loss.item(), metrics


def test_the_loss_is_the_sum_of_each_heads_mean_over_its_own_tokens() -> None:
    """0.5 x ((1 + 9) / 2 + 4 / 1 + nothing)."""
    returns, nothing = [[0.0, 0, 0], [0.0, 0]], [[0.0, 0, 0], [0.0, 0]]
    data = {name: returns for head in HEADS for name in (column("values", head), column("returns", head))}
    data |= {weight(0): [[1.0, 0, 0], [0.0, 1]], weight(1): [[0.0, 1, 0], [0.0, 0]], weight(2): nothing}
    data["response_mask"] = [[1.0, 1, 1], [1.0, 1]]
    said = {
        "values": [[1.0, 7, 7, 7], [7.0, 3, 7]],
        "values_1": [[7.0, 2, 7, 7], [7.0] * 3],
        "values_2": [[7.0] * 4, [7.0] * 3],
    }
    loss, metrics = loss_of(3, data, said)
    assert loss == pytest.approx(0.5 * (5 + 4))
    losses = [metrics[f"critic/vf_loss{head}"].values[0] for head in ("", "_1", "_2")]
    assert losses == [2.5, 2, 0]
    one, _ = loss_of(1, data, {"values": said["values"]})
    assert one == pytest.approx(0.5 * (1 + 49 + 49 + 49 + 9) / 5), "verl's own where there is one head"
    muted = {**data, "response_mask": nothing}
    assert loss_of(1, muted, {"values": said["values"]})[0] == 0, "and not 0 / 0"


@pytest.mark.parametrize("windows", [False, True])
def test_what_each_head_learns_reaches_the_update(queue: None, windows: bool) -> None:
    made = trainer_of("algo=hiper", "algo.gamma=0.9")
    done = estimated(made, batch_of(f"hiper-{windows}", windows, dead=True), {})
    turns = example_x()
    tokens = tokens_of(turns)
    (estimator,) = made.methods.chosen.of("algo", 1).values()
    wanted = estimator(turns, replace(tokens, heads=(tokens.value, 2 * tokens.value)))  # as in the rows of the step
    heads = [(wanted.returns, wanted.targets), *((turns.spread(head.returns), head.targets) for head in wanted.heads)]
    expected = {"advantages": wanted.advantages, "returns": wanted.returns}
    expected |= {column("returns", head): returns for head, (returns, _) in enumerate(heads)}
    expected |= {weight(head): targets for head, (_, targets) in enumerate(heads)}
    assert {*expected, "values_1", "values_2"} <= set(done.fields)
    data = read(done, *expected, "turn_ids")
    acts = data["turn_ids"].values() > 0
    for name, numbers in expected.items():
        found = data[name].values()
        torch.testing.assert_close(found[acts], numbers[turns.place >= 0].to(found.dtype))
        assert not found[~acts].any() and found[acts].any()
