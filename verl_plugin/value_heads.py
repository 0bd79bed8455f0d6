"""A critic with several value heads (``algorithms/slots.py``); verl's has one.

``critic.model.override_config.value_heads`` is their number. The first head's values are
``values``, as in verl; others are numbered: ``values_1``. Each head has its own returns and its own
tokens (``weight``). A head's loss is the mean over its tokens; the critic's loss is their sum.
"""

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

from tensordict import TensorDict
from torch import Tensor
from verl.utils import tensordict_utils as tu

MOST = 3  # the maximum number of heads
SUMS = "turngrid_sums"  # key of a batch: sums of weights, by column
KEY = "value_heads"  # key in the model's config


def column(name: str, head: int) -> str:
    return f"{name}_{head}" if head else name


def weight(head: int) -> str:
    """Return the name of the column that marks the tokens a head is trained on, 1 or 0."""
    return f"head_{head}_weight"


def with_heads(load: Callable[..., Any], *, model_config: Any, **settings: Any) -> Any:
    """Load a critic with several heads.

    Until verl's critics have several heads.
    """
    model_config.num_labels = getattr(model_config, KEY, 1)
    return load(model_config=model_config, **settings)


def each_head(
    usual: Callable[..., dict[str, Tensor]], engine: Any, output: Any, *args: Any, **kwargs: Any
) -> dict[str, Tensor]:
    """Return the values of each head; verl expects one number a token.

    Until verl's critics have several heads.
    """
    heads = getattr(engine.model_config.hf_config, KEY, 1)
    if heads == 1:
        return usual(engine, output, *args, **kwargs)
    parts = [SimpleNamespace(logits=output.logits[..., head : head + 1]) for head in range(heads)]
    outputs = [usual(engine, part, *args, **kwargs) for part in parts]
    return {column("values", head): own["values"] for head, own in enumerate(outputs)}


def sum_of_heads(
    usual: Callable[..., tuple[Tensor, dict[str, Any]]],
    config: Any,
    model_output: Mapping[str, Tensor],
    data: TensorDict,
    dp_group: Any = None,
) -> tuple[Tensor, dict[str, Any]]:
    """Sum a loss over the heads of the critic; metrics of further heads end in their number.

    Until verl's critics have several heads.
    """
    without_0_tokens(data)
    heads = [head for head in range(MOST) if column("values", head) in model_output]
    if len(heads) == 1:
        return usual(config=config, model_output=model_output, data=data, dp_group=dp_group)
    losses: list[Tensor] = []
    metrics: dict[str, Any] = {}
    for head in heads:
        values = {"values": model_output[column("values", head)]}
        loss, own = usual(config=config, model_output=values, data=_of_head(data, head), dp_group=dp_group)
        losses.append(loss)
        metrics |= {column(name, head): value for name, value in own.items()}
    return sum(losses[1:], losses[0]), metrics


def _of_head(data: TensorDict, head: int) -> TensorDict:
    part = data.copy()
    for name in ("values", "returns"):
        part[name] = data[column(name, head)]
    part["response_mask"] = data[weight(head)]
    count = tu.get_non_tensor_data(data, SUMS, default={})[weight(head)]
    tu.assign_non_tensor(part, batch_num_tokens=count)
    without_0_tokens(part)
    return part


def without_0_tokens(data: TensorDict) -> None:
    """If every token of an update is muted, make its loss 0 instead of 0 / 0."""
    if not data["batch_num_tokens"]:
        tu.assign_non_tensor(data, batch_num_tokens=1)
