"""Batched sampling from a causal language model, with each episode's prefix kept from turn to turn.

Pure torch and transformers. A request's tokens depend on its prompt, its parameters and its seed; neighbours in the
batch can change them only through rounding, which is why our agent loop repeats its batches exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from records.models.loading import load_whole
from rollouts.sampling import RequestTooLong, SampleRequest
from verl_plugin.servers.transformers_server.batch import Batch
from verl_plugin.servers.transformers_server.key_values import KeyValues
from verl_plugin.servers.transformers_server.llama_forward import KINDS, LlamaForward
from verl_plugin.servers.transformers_server.module_forward import ModuleForward
from verl_plugin.servers.transformers_server.results import GenResult

PREFIX_BYTES = 512 * 2**20


class Generator:
    """Owns a model and the prefixes of the episodes that play with it. Not thread-safe.

    Args:
        model: a causal language model of transformers with full attention in all layers.
        eos_ids: tokens that end an answer.
        prefix_bytes: how much memory prefixes may take, the batch's own working memory not counted.

    Raises:
        ValueError: the model has layers with another attention, such as a sliding window.
    """

    def __init__(self, model: Any, eos_ids: Iterable[int], prefix_bytes: int = PREFIX_BYTES) -> None:
        window = "sliding_attention" if getattr(model.config, "sliding_window", None) else "full_attention"
        other = set(getattr(model.config, "layer_types", None) or {window}) - {"full_attention"}
        if other:
            raise ValueError(f"rollout=transformers needs full attention in all layers, the model has {sorted(other)}")
        self.model = model.eval()
        self.forward = LlamaForward(model) if model.config.model_type in KINDS else ModuleForward(model)
        self.eos = torch.tensor(sorted(set(eos_ids)), device=model.device)
        self.memory = KeyValues(model, prefix_bytes)
        self.context = int(model.config.max_position_embeddings)

    @classmethod
    def from_pretrained(cls, path: str, device: str = "cpu", dtype: torch.dtype = torch.float32) -> Generator:
        """A model folder as transformers saves it; its tokenizer and its generation config say what ends an answer.

        Raises: ModelError: weights of the model are missing there, or there are others.
        """
        config = AutoConfig.from_pretrained(path, attn_implementation="sdpa")
        model = load_whole(AutoModelForCausalLM, path, config=config, dtype=dtype)
        tokenizer = AutoTokenizer.from_pretrained(path)
        also = model.generation_config.eos_token_id
        eos_ids = {tokenizer.eos_token_id, *(also if isinstance(also, list) else [also])} - {None}
        return cls(model.to(device), eos_ids)

    def load_weights(self, weights: Iterable[tuple[str, torch.Tensor]]) -> None:
        """Take new weights; every prefix was computed with the old ones and goes.

        Raises:
            ValueError: names that the model lacks, or weights of the model that were not given; nothing is loaded then.
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
    def generate(self, requests: Sequence[SampleRequest]) -> list[GenResult]:
        """Sample all requests as one ragged batch.

        Raises:
            RequestTooLong, ValueError: as ``check``; none of the batch is sampled then.
            FloatingPointError: the model gives log-probabilities that are not finite.
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
        """Raises: RequestTooLong where prompt and answer do not fit; ValueError where there is nothing to do, or ids are
        not in the vocabulary (a GPU would not survive them)."""
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
