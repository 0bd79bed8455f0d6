"""An update with any number of padding rows: no model is given one, and nothing comes out
otherwise than without any."""

import itertools
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from engine_probe import jagged, make_engine, one_layer
from omegaconf import DictConfig
from step_probe import composed
from tensordict import TensorDict
from verl.protocol import DataProto
from verl.trainer.ppo.v1.utils import compute_advantage_for_multi_trajectories
from verl.utils import tensordict_utils as tu
from verl.utils.config import omega_conf_to_dataclass
from verl.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead
from verl.workers.utils.losses import ppo_loss, value_loss
from verl.workers.utils.padding import response_from_nested, response_to_nested

from turngrid.algorithms.registry import ALGORITHMS

pytestmark = pytest.mark.usefixtures("one_process")
MOST = 31
MASKS = ([1, 1, 0, 1], [1, 0, 1], [1, 1, 1, 0, 0, 1], [1, 1])  # of the responses of two prompts' two samples
SCORES = (1.0, 0.0, 0.0, 0.7)
PADDING = {"ids": [2] * 128, "mask": [0], "uid": "pad"}  # in verl's form
KL = {
    "without KL": ("algorithm.use_kl_in_reward=false",),
    "with KL": ("actor_rollout_ref.actor.use_kl_loss=true", "algorithm.use_kl_in_reward=true"),
}
OTHERS = [algo for algo in ALGORITHMS if algo != "ppo"]


@dataclass
class Models:
    actor: Any
    reference: Any
    critic: Any


@pytest.fixture(scope="module")
def models(one_process: None, tmp_path_factory: pytest.TempPathFactory) -> Models:
    path = one_layer(tmp_path_factory.mktemp("model"))
    reference = make_engine(forward_only=True, path=path)
    return Models(make_engine(path=path), reference, make_engine("value_model", path=path))


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[TensorDict]:
    """Every pass that a model was given."""
    given: list[TensorDict] = []
    forward = FSDPEngineWithLMHead.forward_step

    def noting(engine: Any, micro_batch: TensorDict, **settings: Any) -> Any:
        given.append(micro_batch)
        return forward(engine, micro_batch, **settings)

    monkeypatch.setattr(FSDPEngineWithLMHead, "forward_step", noting)
    return given


def batch(padding: int, order: np.ndarray) -> TensorDict:
    """The four rows and so many of padding, in this order."""
    draw = np.random.default_rng(0)
    rows: list[dict[str, Any]] = [
        {"ids": draw.integers(5, 60, 3 + len(mask)).tolist(), "mask": mask, "uid": f"p{row // 2}"}
        for row, mask in enumerate(MASKS)
    ]
    rows = [[*rows, *[PADDING] * padding][row] for row in order]
    masks = jagged([row["mask"] for row in rows])
    fields = {
        "input_ids": jagged([row["ids"] for row in rows]),
        "position_ids": jagged([list(range(len(row["ids"]))) for row in rows]),
        "prompts": jagged([row["ids"][: -len(row["mask"])] for row in rows]),
        "responses": jagged([row["ids"][-len(row["mask"]) :] for row in rows]),
    }
    data = TensorDict({**fields, "response_mask": masks, "loss_mask": masks}, batch_size=len(rows))
    settings = {"temperature": 0.7, "use_remove_padding": False, "global_batch_size": 4, "calculate_entropy": False}
    tu.assign_non_tensor(data, **settings, use_dynamic_bsz=False, micro_batch_size_per_gpu=4)
    return data


def judged(engine: Any, data: TensorDict, name: str) -> torch.Tensor:
    """What a model says of the responses' tokens; of the others it must say 0."""
    with engine.eval_mode():
        output = engine.infer_batch(data)["model_output"][name]
    assert [len(row) for row in output.unbind()] == [len(row) for row in data["input_ids"].unbind()]
    dead = [row for row, mask in zip(output.unbind(), data["response_mask"].unbind(), strict=True) if not mask.any()]
    assert not any(row.any() for row in dead)
    return response_from_nested(output, data["response_mask"])


def estimated(data: TensorDict, config: DictConfig, order: np.ndarray) -> None:
    """Advantages and returns, by the algorithm's own estimator and through verl's call."""
    mask = data["response_mask"]
    padded = data.select(*({"response_mask", "values"} & set(data.keys()))).to_padded_tensor()
    rewards = torch.zeros(padded["response_mask"].shape)
    rewards[:, 0] = torch.tensor([SCORES[row] if row < len(SCORES) else 0.0 for row in order])
    uids = np.array([f"p{row // 2}" if row < len(SCORES) else "pad" for row in order], dtype=object)
    proto = DataProto(batch=padded, non_tensor_batch={"uid": uids})
    proto.batch["token_level_rewards"] = rewards * padded["response_mask"]
    keys = [f"{uid}_{row}_0" for uid, row in zip(uids, order, strict=True)]
    name = config.algorithm.adv_estimator
    found = compute_advantage_for_multi_trajectories(proto, keys, name, 1.0, 1.0, config=config.algorithm)
    for field in ("advantages", "returns"):
        data[field] = response_to_nested(found.batch[field], mask)


def update(engine: Any, data: TensorDict, loss: Any) -> tuple[torch.Tensor, float]:
    """The gradient and the loss."""
    engine.optimizer_zero_grad()
    with engine.train_mode():
        output = engine.forward_backward_batch(data, loss)
        flat = torch.cat([weight.grad.full_tensor().flatten().clone() for weight in engine.module.parameters()])
    return flat, sum(output["loss"])


Losses = dict[str, Any]


def losses_of(config: DictConfig) -> Losses:
    """With a critic's, where there is one."""
    losses = {"actor": partial(ppo_loss, config=omega_conf_to_dataclass(config.actor_rollout_ref.actor))}
    if config.algorithm.adv_estimator == "gae":
        losses["critic"] = partial(value_loss, config=omega_conf_to_dataclass(config.critic))
    return losses


def step(models: Models, config: DictConfig, losses: Losses, padding: int) -> dict[str, Any]:
    """All that a step asks of models, as an asynchronous one does, which asks for more than a
    synchronous one."""
    order = np.random.default_rng(padding).permutation(len(MASKS) + padding)
    data = batch(padding, order)
    data["old_log_probs"] = judged(models.actor, data, "log_probs")
    data["rollout_is_weights"] = response_to_nested(torch.full((len(data), 6), 1.5), data["response_mask"])
    if config.actor_rollout_ref.actor.use_kl_loss:
        data["ref_log_prob"] = judged(models.reference, data, "log_probs")
    if "critic" in losses:
        data["values"] = judged(models.critic, data, "values")
    estimated(data, config, order)
    return {name: update(getattr(models, name), data, loss) for name, loss in losses.items()}


@pytest.mark.parametrize(("algo", "kl"), [*itertools.product(["ppo"], KL), *zip(OTHERS, itertools.cycle(KL))])
def test_padding_changes_nothing_and_reaches_no_model(
    algo: str, kl: str, models: Models, passes: list[TensorDict], tmp_path: Path
) -> None:
    """PPO, which has a critic too, has every fifth number of padding rows, with and without KL. The
    others have the least, the most and one between, and KL by turns."""
    config = composed(tmp_path, f"algo={algo}", *KL[kl])
    losses = losses_of(config)
    first = 1 + list(KL).index(kl)
    numbers = range(first, MOST + 1, 5) if algo == "ppo" else (first, 8, MOST)
    expected = step(models, config, losses, 0)
    assert all(loss and gradient.any() for gradient, loss in expected.values())
    for padding in numbers:
        torch.testing.assert_close(step(models, config, losses, padding), expected, atol=1e-6, rtol=1e-5)
    assert all(row.any() for one in passes for row in one["response_mask"].unbind())


def test_an_update_of_padding_alone_is_one_of_nothing(models: Models) -> None:
    """0 and not 0 / 0; outputs are 0 too."""
    data = batch(3, np.array([4, 5, 6]))
    for engine, name in ((models.actor, "log_probs"), (models.critic, "values")):
        assert not judged(engine, data, name).values().any()
    for field in ("advantages", "returns", "values", "old_log_probs"):
        data[field] = data["response_mask"].float()
    for name, loss in losses_of(composed(Path(), "algo=ppo")).items():
        gradient, value = update(getattr(models, name), data, loss)
        assert value == 0 and not gradient.any()
