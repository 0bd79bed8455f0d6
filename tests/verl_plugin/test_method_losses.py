"""Loss forms and terms through verl's own ``ppo_loss``: the numbers of the specifications, whole
and cut into passes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import verl.workers.utils.losses as verls
from engine_probe import jagged
from omegaconf import open_dict
from step_probe import composed
from tensordict import TensorDict
from torch import Tensor
from usual import filled
from verl.utils import tensordict_utils as tu
from verl.utils.config import omega_conf_to_dataclass
from verl.workers.engine.utils import prepare_micro_batches

from turngrid.algorithms.chosen import slots_of
from turngrid.algorithms.turn_table import turn_ids
from turngrid.verl_plugin.cpu import engines
from turngrid.verl_plugin.training.losses import EPISODES, IN_WORKERS, SUMS, with_sums

pytestmark = pytest.mark.usefixtures("one_process")
PASSES: dict[str, Callable[[TensorDict], Sequence[TensorDict]]] = {
    "whole": lambda data: [data],
    "ours": lambda data: engines.prepare(data, prepare_micro_batches)[0],
    "verl's": lambda data: prepare_micro_batches(data)[0],
    "dynamic": lambda data: prepare_micro_batches(tu.assign_non_tensor(data, use_dynamic_bsz=True))[0],
}


@pytest.fixture(scope="module")
def actor_node() -> Any:
    return composed(Path()).actor_rollout_ref.actor


def actor_of(node: Any, mode: str) -> Any:
    with open_dict(node):
        node.policy_loss.loss_mode = mode
    return omega_conf_to_dataclass(node)


@dataclass
class Rows:
    """Of an update: a model's outputs, with gradients, and what verl's engines are given."""

    log_probs: list[Tensor]
    entropy: list[Tensor]
    data: TensorDict


def rows_of(
    ratios: list[list[float]],
    masks: list[list[int]],
    advantages: list[list[float]],
    muted: Sequence[int] = (),
    entropy: list[list[float]] | None = None,
    weights: list[list[float]] | None = None,
) -> Rows:
    """``ratios`` are log-ratios; the prompts differ in length."""
    ids = [turn_ids(torch.tensor([mask]))[0].tolist() for mask in masks]
    alive = [[0] * len(mask) if row in muted else mask for row, mask in enumerate(masks)]
    prompts = [list(range(2 + row)) for row in range(len(masks))]
    fields = {
        "prompts": jagged(prompts),
        "responses": jagged([list(range(len(mask))) for mask in masks]),
        "input_ids": jagged([[*prompt, *range(len(mask))] for prompt, mask in zip(prompts, masks, strict=True)]),
        "response_mask": jagged(alive),
        "loss_mask": jagged(alive),
        "old_log_probs": jagged([[-1.0] * len(mask) for mask in masks]),
        "advantages": jagged(advantages),
        "turn_ids": jagged(ids),
        "row": torch.arange(len(masks)),
    }
    if weights is not None:
        fields["term_epo_weight"] = jagged(weights)
    return Rows(
        [(torch.tensor(row) - 1).requires_grad_() for row in ratios],
        [torch.tensor(row).requires_grad_() for row in entropy or ratios],
        TensorDict(fields, batch_size=len(masks)),
    )


def model_output(rows: Rows, part: TensorDict) -> dict[str, Tensor]:
    """As an engine gives it: a number for every token of prompt and response, one place to the
    left."""
    chosen, prompts = part["row"].tolist(), part["prompts"].offsets().diff().tolist()

    def shifted(columns: list[Tensor]) -> Tensor:
        pads = [
            torch.cat([torch.zeros(size - 1), columns[row], torch.zeros(1)])
            for row, size in zip(chosen, prompts, strict=True)
        ]
        return torch.nested.nested_tensor_from_jagged(torch.cat(pads), part["input_ids"].offsets())

    return {"log_probs": shifted(rows.log_probs), "entropy": shifted(rows.entropy)}


def loss_of(rows: Rows, actor: Any, asked: dict[str, Any], passes: str) -> tuple[float, dict[str, float]]:
    """What the passes add up to; their gradients are left in the rows."""
    data, found = rows.data, {}
    tokens = int(data["loss_mask"].values().sum())
    size = {"micro_batch_size_per_gpu": 1, "use_dynamic_bsz": False, "max_token_len_per_gpu": 12, "sp_size": 1}
    told = {"batch_num_tokens": tokens, "dp_size": 1, "global_batch_size": len(data), "calculate_entropy": True}
    tu.assign_non_tensor(data, **size, **told, **{IN_WORKERS: asked})
    engine, total = SimpleNamespace(get_data_parallel_group=lambda: None), 0.0

    def passes_of(self: Any, data: TensorDict, loss_function: Any, forward_only: bool) -> Sequence[TensorDict]:
        return PASSES[passes](data)

    for part in with_sums(passes_of, engine, data, None):
        loss, metrics = verls.ppo_loss(config=actor, model_output=model_output(rows, part), data=part)
        loss.backward()
        total += loss.item()
        for name, value in metrics.items():
            number = value.aggregate() if hasattr(value, "aggregate") else value
            found[name] = found.get(name, 0.0) + float(number)
    return total, found


RATIOS = [[0.1, -0.1, 0.3, 0.0, -0.5, 0.2], [0.05, 0.0], [0.3, 0.2, 0.1]]
MASKS = [[1, 1, 1, 0, 1, 1], [1, 1], [1, 1, 1]]
ADVANTAGES = [[1.0, 1, 1, 0, -1, -1], [0.5, 0.5], [-1.0, -1, -1]]


@pytest.mark.parametrize("passes", PASSES)
def test_clipped_turns_and_a_muted_row_counts_nowhere(actor_node: Any, passes: str) -> None:
    rows = rows_of(RATIOS, MASKS, ADVANTAGES, muted=(2,))
    asked = filled({"loss": {"turn_clip": {"low": 0.2, "high": 0.2}}, "step": 1})
    loss, metrics = loss_of(rows, actor_of(actor_node, "turngrid"), asked, passes)
    assert loss == pytest.approx(-0.37420, abs=1.01e-5)
    gradients = [[0.0] * len(row) if row.grad is None else row.grad.tolist() for row in rows.log_probs]
    for found, numbers in zip(gradients, [WORDS["loss=turn_clip"][1], [-0.07324] * 2, [0.0] * 3], strict=True):
        assert found == pytest.approx(numbers, abs=1.01e-5)
    assert "actor/clipped" in metrics
    assert metrics.get("actor/bounded", 0) == 0


CLIP = [-0.15788, -0.12926, 0, 0, 0, 0.17449]
# an option of loss=, verl's keys besides -> the loss; its gradients by the log-probs of row 1
WORDS = {
    "loss=[]": (-0.31632, CLIP),
    "loss=clip_higher": (-0.32775, CLIP),
    "loss=dr_grpo data.max_response_length=6": (-0.18452, [-0.09210, -0.07540, 0, 0, 0, 0.10178]),
    "loss=gspo actor.loss_agg_mode=token-mean actor.clip_ratio_low=0.2 actor.clip_ratio_high=0.2": (
        -0.28933,
        [-0.14286] * 3 + [0, 0.14286, 0.14286],
    ),
    "loss=cispo": (0.24403, [-0.15788, -0.12926, -0.18286, 0, 0.11429, 0.17449]),
    "loss=clip_cov": (-0.31632, CLIP),  # no token's covariance lies above its bound
    "loss=turn_clip": (-0.37420, [-0.15788] * 3 + [0, 0.12296, 0.12296]),
    "loss=step_clip actor.clip_ratio_low=0.2 actor.clip_ratio_high=0.2": (
        -0.25237,
        [-0.12280] * 3 + [0, 0.14345, 0.14345],
    ),
    "loss=step_clip actor.clip_ratio_low=3e-4 actor.clip_ratio_high=4e-4": (-0.16697, [0.0] * 6),
    "loss=aepo_clip": (-0.31632, [-0.15788, -0.12926, -0.17143, 0, 0, 0.17449]),
}


@pytest.mark.parametrize("words", WORDS)
def test_words_for_losses(words: str) -> None:
    """Row 3 of the example is dead and not in the batch; the seq-mean modes divide by two rows."""
    chosen = [word.replace("actor.", "actor_rollout_ref.actor.", 1) for word in words.split()]
    config = composed(Path(), *chosen)
    rows = rows_of(RATIOS[:2], MASKS[:2], ADVANTAGES[:2])
    wanted, gradient = WORDS[words]
    asked = {**slots_of(config, ("loss",)), "step": 1}
    loss, _ = loss_of(rows, omega_conf_to_dataclass(config.actor_rollout_ref.actor), asked, "verl's")
    assert loss == pytest.approx(wanted, abs=1.01e-5)
    assert rows.log_probs[0].grad.tolist() == pytest.approx(gradient, abs=1.01e-5)


@pytest.mark.parametrize("passes", PASSES)
def test_dr_grpo_divides_the_rows_of_windows_by_episodes(passes: str) -> None:
    """The first episode in two windows, and a row of padding: the numbers of one row an episode
    (``WORDS``)."""
    config = composed(Path(), "loss=dr_grpo", "data.max_response_length=6")
    rows = rows_of(
        [[0.1, -0.1, 0.3], [-0.5, 0.2], [0.05, 0.0], [0.0]],
        [[1, 1, 1], [1, 1], [1, 1], [0]],
        [[1.0, 1, 1], [-1.0, -1], [0.5, 0.5], [0.0]],
    )
    tu.assign_non_tensor(rows.data, **{EPISODES: 2})
    loss, _ = loss_of(rows, omega_conf_to_dataclass(config.actor_rollout_ref.actor), {}, passes)
    assert loss == pytest.approx(-0.18452, abs=1.01e-5)
    gradients = [*rows.log_probs[0].grad.tolist(), *rows.log_probs[1].grad.tolist()]
    assert gradients == pytest.approx([-0.09210, -0.07540, 0, 0, 0.10178], abs=1.01e-5)


def test_a_schedule_of_a_loss_form_is_followed(actor_node: Any) -> None:
    """And a replay, which is a second update of its step, does not advance the learning rate's."""
    form = {"turn_clip": {"low": {"steps": {1: 0.2, 5: 3e-4}}, "high": {"steps": {1: 0.2, 5: 4e-4}}}}
    for step, wanted in ((1, -0.37420), (5, -0.28603), (4, -0.37420)):
        rows = rows_of(RATIOS, MASKS, ADVANTAGES, muted=(2,))
        tu.assign_non_tensor(rows.data, update_lr_scheduler=True)
        asked = {"loss": form, "step": step, "replay": step == 5}
        loss, _ = loss_of(rows, actor_of(actor_node, "turngrid"), asked, "whole")
        assert loss == pytest.approx(wanted, abs=1.01e-5) and rows.data["update_lr_scheduler"] is (step != 5)


@pytest.mark.parametrize("form", ["turn_clip", "step_clip", ""])
def test_an_update_that_is_muted_whole_has_a_loss_of_0(actor_node: Any, form: str) -> None:
    rows = rows_of(RATIOS, MASKS, ADVANTAGES, muted=(0, 1, 2))
    mode, asked = ("turngrid", filled({"loss": {form: {}}, "step": 1})) if form else ("vanilla", {})
    loss, _ = loss_of(rows, actor_of(actor_node, mode), asked, "whole")
    assert loss == 0.0 and not any(row.grad is not None and row.grad.any() for row in rows.log_probs)


COEFFICIENTS = {"weight": 0.001, "beta": 1.606531, "alpha": 0.1, "low": 0.15, "high": 0.45}


@pytest.mark.parametrize("passes", PASSES)
@pytest.mark.parametrize("dead", [False, True])
def test_epo(actor_node: Any, passes: str, dead: bool) -> None:
    masks = [[1, 1, 0, 1], [1, 0, 1, 1, 1], *([[0], [0, 0]] if dead else [])]
    entropy = [[0.2, 0.4, 7, 1.0], [0.6, 7, 0.1, 0.3, 0.5], *([[3.0], [3.0, 3.0]] if dead else [])]
    weights = [[0.125, 0.125, 0, 0.25], [0.25, 0, 1 / 12, 1 / 12, 1 / 12], *([[0.0], [0.0, 0.0]] if dead else [])]
    still = [[0.0] * len(mask) for mask in masks]
    rows = rows_of(still, masks, still, entropy=entropy, weights=weights)
    asked = filled({"terms": {"epo": {}}, "coefficients": {"epo": COEFFICIENTS}, "step": 1})
    loss, metrics = loss_of(rows, actor_of(actor_node, "vanilla"), asked, passes)
    assert loss == pytest.approx(-5.20547e-4, abs=1e-9)
    assert metrics["actor/epo"] == pytest.approx(-5.20547e-4, abs=1e-9)
    assert metrics["actor/epo/entropy"] == pytest.approx(0.55)
    assert metrics["actor/epo/smooth"] == pytest.approx(0.01833, abs=1e-5)
    assert rows.entropy[0].grad is not None and rows.entropy[0].grad[2] == 0  # no action token
    assert rows.entropy[0].grad[0].item() == pytest.approx(-0.001 * 0.125)


def test_a_term_on_one_of_two_devices_is_its_share(actor_node: Any) -> None:
    """Gradients are averaged over devices, and the sums of the weights counted over both."""
    parts = []
    for mask, entropy, weights in (
        ([1, 1, 0, 1], [0.2, 0.4, 7, 1.0], [0.125, 0.125, 0, 0.25]),
        ([1, 0, 1, 1, 1], [0.6, 7, 0.1, 0.3, 0.5], [0.25, 0, 1 / 12, 1 / 12, 1 / 12]),
    ):
        still = [[0.0] * len(mask)]
        rows = rows_of(still, [mask], still, entropy=[entropy], weights=[weights])
        asked = filled({"terms": {"epo": {}}, "coefficients": {"epo": COEFFICIENTS}, "step": 1})
        tu.assign_non_tensor(
            rows.data,
            batch_num_tokens=7,
            dp_size=2,
            global_batch_size=2,
            **{IN_WORKERS: asked, SUMS: {"term_epo_weight": 1.0}},
        )
        actor = actor_of(actor_node, "vanilla")
        loss, _ = verls.ppo_loss(config=actor, model_output=model_output(rows, rows.data), data=rows.data)
        parts.append(loss.item())
    assert sum(parts) / 2 == pytest.approx(-5.20547e-4, abs=1e-9)
