"""bf16 on CPUs: attention from matrix products, and what is not rounded.

Not rounded are logits, and the hidden states between layers.
A rollout server and a trainer that compute in bf16 round different intermediate numbers. With
logits and hidden states in fp32, their log-probs differ half as much (docs/rollout_server.md).
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear, scaled_dot_product_attention

from turngrid.records.models.shape import LLAMA_LIKE

LIKELIEST = 64  # a row's logits that are exact when sampling; the others share almost no probability


def attend(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, scale: float | None = None
) -> Tensor:
    """Return torch's ``scaled_dot_product_attention``, in bf16 on a CPU by matrix products.

    On CPUs, torch's bf16 attention is as slow as fp32: twice the products' time on short rows,
    three times with gradients. Scores are rounded to bf16, as in transformers' "eager" attention.

    Args:
        query, key, value: (..., heads, tokens, head size), with one number of heads.
        attn_mask: is added to the scores, (..., queries, keys).
        scale: of the scores; by default 1 / sqrt(head size).
    """
    if query.device.type != "cpu" or query.dtype != torch.bfloat16:
        return scaled_dot_product_attention(query, key, value, attn_mask=attn_mask, scale=scale)
    query = query * (scale or query.shape[-1] ** -0.5)  # it is smaller than the scores
    scores = query @ key.transpose(-2, -1)
    return torch.softmax(scores if attn_mask is None else scores.add_(attn_mask), dim=-1) @ value


def round_less(model: Any, sampling: bool = False) -> None:
    """Change a causal language model or critic of transformers that computes in bf16.

    Its logits or values are fp32 then, and in models like Llama the hidden states between layers.
    A model in fp32 computes the same bits as before.
    """
    critic = hasattr(model, "score")
    old = model.score if critic else model.get_output_embeddings()
    head = OutputHead(old.in_features, old.out_features, bias=False, device="meta")
    head.weight, head.bias, head.sampling = old.weight, old.bias, sampling
    if critic:
        model.score = head
    else:
        model.set_output_embeddings(head)
    if model.config.model_type in LLAMA_LIKE:
        _keep_hidden_states(model.get_decoder())


class OutputHead(torch.nn.Linear):
    """An output layer whose weights and inputs are bf16, and whose logits are fp32.

    Attributes:
        sampling: compute in fp32 only the ``LIKELIEST`` logits of each row. torch has no product
            for CPUs that reads bf16 and writes fp32, and in fp32 all logits take six times as long.
    """

    sampling = False

    def forward(self, hidden: Tensor) -> Tensor:
        """Map (..., hidden size) to logits (..., vocabulary)."""
        if hidden.dtype != torch.bfloat16:
            return super().forward(hidden)
        bias = None if self.bias is None else self.bias.float()
        if not self.sampling:
            with torch.autocast(hidden.device.type, enabled=False):  # verl's engine would round them again
                return linear(hidden.float(), self.weight.float(), bias)
        logits = super().forward(hidden)
        likeliest = logits.topk(min(LIKELIEST, logits.shape[-1]), dim=-1).indices
        exact = (self.weight[likeliest].float() @ hidden.float()[..., None]).squeeze(-1)
        exact = exact if bias is None else exact.add_(bias[likeliest])
        return logits.float().scatter_(-1, likeliest, exact)


def _keep_hidden_states(decoder: Any) -> None:
    """Embeddings become fp32, so sums over layers are fp32. Norms give bf16 to the matrices."""
    decoder.embed_tokens.register_forward_hook(lambda _, inputs, embedded: embedded.float())
    last = decoder.norm  # FSDP replaces its weight for the whole pass, an embedding's until it has run
    decoder.rotary_emb.register_forward_hook(lambda _, inputs, angles: tuple(a.to(last.weight.dtype) for a in angles))
    layer_norms = [norm for layer in decoder.layers for norm in (layer.input_layernorm, layer.post_attention_layernorm)]
    for norm in (*layer_norms, last):
        norm.register_forward_hook(lambda norm, inputs, normed: normed.to(norm.weight.dtype))
