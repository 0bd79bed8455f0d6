"""Batched sampling from a causal language model that caches each episode's keys and values.

It uses only torch and transformers. A request's tokens depend on its prompt, parameters and seed.
Other requests in the batch change them only by rounding, so our agent loop repeats its batches
exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from turngrid.records.models.locate import load_whole
from turngrid.records.models.shape import LLAMA_LIKE, PREFIX_BYTES
from turngrid.rollouts.sampling import RequestTooLong, Sample, SampleRequest
from turngrid.verl_plugin.bf16 import round_less
from turngrid.verl_plugin.servers.transformers_server.batch import Batch
from turngrid.verl_plugin.servers.transformers_server.forward import LlamaForward, ModuleForward
from turngrid.verl_plugin.servers.transformers_server.key_values import KeyValues


class Generator:
    """A causal language model of transformers with the keys and values of its episodes.

    Args:
        eos_ids: tokens that end an answer.
        prefix_bytes: memory limit for cached keys and values, without the batch's working memory.

    Raises:
        ValueError: a layer has another attention, such as a sliding window.
    """

    def __init__(self, model: Any, eos_ids: Iterable[int], prefix_bytes: int = PREFIX_BYTES) -> None:
        window = "sliding_attention" if getattr(model.config, "sliding_window", None) else "full_attention"
        other = set(getattr(model.config, "layer_types", None) or {window}) - {"full_attention"}
        if other:
            raise ValueError(
                f"rollout=transformers: the model has {sorted(other)}, not full attention; use rollout=vllm"
            )
        round_less(model, sampling=True)
        self.model = model.eval()
        self.forward = LlamaForward(model) if model.config.model_type in LLAMA_LIKE else ModuleForward(model)
        self.eos = torch.tensor(sorted(set(eos_ids)), device=model.device)
        self.memory = KeyValues(model, prefix_bytes)
        self.context = int(model.config.max_position_embeddings)

    @classmethod
    def from_pretrained(cls, path: str, device: str = "cpu", dtype: torch.dtype = torch.float32) -> Generator:
        """Load a model folder, which names the tokens that end an answer.

        Raises:
            ModelError: weights are missing or unknown.
        """
        config = AutoConfig.from_pretrained(path, attn_implementation="sdpa")
        model = load_whole(AutoModelForCausalLM, path, config=config, dtype=dtype)
        tokenizer = AutoTokenizer.from_pretrained(path)
        also = model.generation_config.eos_token_id
        eos_ids = {tokenizer.eos_token_id, *(also if isinstance(also, list) else [also])} - {None}
        return cls(model.to(device), eos_ids)

    def load_weights(self, weights: Iterable[tuple[str, torch.Tensor]]) -> None:
        """Load new weights and clear the cache.

        Raises:
            ValueError: weights are missing or unknown; the old ones stay.
        """
        state = dict(weights)
        own = self.model.state_dict().keys()
        tied = getattr(self.model, "all_tied_weights_keys", {}) if self.model.config.tie_word_embeddings else {}
        missing = sorted(own - state.keys() - set(tied))
        unexpected = sorted(state.keys() - own)
        if missing or unexpected:
            raise ValueError(f"weights do not fit: missing {missing[:3]}, unexpected {unexpected[:3]}")
        self.model.load_state_dict(state, strict=False)
        self.model.tie_weights()
        self.memory.clear()

    @torch.inference_mode()
    def generate(self, requests: Sequence[SampleRequest]) -> list[Sample]:
        """Sample all requests as one ragged batch.

        Raises:
            RequestTooLong, ValueError: as ``check``.
            FloatingPointError: the logits are not finite.
        """
        if not requests:
            return []
        for request in requests:
            self.check(request)
        order = sorted(range(len(requests)), key=lambda index: len(requests[index].prompt_ids))
        try:
            answers = Batch(self.forward, self.memory, self.eos, [requests[index] for index in order]).run()
        except Exception:
            self.memory.clear()
            raise
        return [answer for _, answer in sorted(zip(order, answers, strict=True), key=lambda pair: pair[0])]

    def check(self, request: SampleRequest) -> None:
        """Check a request.

        Raises:
            RequestTooLong: prompt and answer exceed the model's context.
            ValueError: there is nothing to sample, or an id is not in the vocabulary, which would
                crash a process on a GPU.
        """
        if not len(request.prompt_ids) or request.max_tokens < 1:
            raise ValueError(
                f"{request.request_id}: {len(request.prompt_ids)} prompt ids, at most {request.max_tokens} more"
            )
        if not 0 <= min(request.prompt_ids) <= max(request.prompt_ids) < self.model.config.vocab_size:
            raise ValueError(f"{request.request_id}: ids beyond the vocabulary of {self.model.config.vocab_size}")
        if len(request.prompt_ids) + request.max_tokens > self.context:
            raise RequestTooLong(
                f"{request.request_id}: {len(request.prompt_ids)} + {request.max_tokens} tokens, "
                f"the model's context holds {self.context}"
            )


def by_weights(requests: Sequence[SampleRequest], generator_of: Callable[[str], Generator]) -> list[Sample]:
    """Sample the requests of equal ``weights`` as one batch; those of the newest weights first."""
    results: dict[int, Sample] = {}
    for weights in sorted({request.weights for request in requests}):
        own = [index for index, request in enumerate(requests) if request.weights == weights]
        results |= zip(own, generator_of(weights).generate([requests[index] for index in own]), strict=True)
    return [results[index] for index in range(len(requests))]
