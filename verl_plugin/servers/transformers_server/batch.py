"""One ragged batch from prompts to answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import numpy as np
import torch

from rollouts.sampling import SampleRequest
from verl_plugin.servers.transformers_server.prefix_store import Prefix, PrefixStore
from verl_plugin.servers.transformers_server.ragged_cache import RaggedCache
from verl_plugin.servers.transformers_server.sampling import Rules, draw, top_entropies, uniforms


class Machinery(Protocol):
    """What one batch after the other computes with: a ``Generator``.

    Attributes:
        model: a causal language model of transformers.
        eos: ids of the tokens that end an answer.
        pad_id: any id of the vocabulary; what it gives is never seen.
    """

    model: Any
    eos: torch.Tensor
    pad_id: int
    prefixes: PrefixStore
    cache: RaggedCache


class Batch:
    """Rows that are sampling, at first in the order of their requests.

    A row that has ended stays where it is, as padding, until at most half of the rows go on: then these close ranks.
    """

    def __init__(self, owner: Machinery, requests: Sequence[SampleRequest]) -> None:
        self.owner, self.requests, self.device = owner, requests, owner.model.device
        self.cache = owner.cache
        self.cache.begin(len(requests), max(len(r.prompt_ids) + r.max_tokens for r in requests))
        self.rules = Rules(
            [r.temperature for r in requests], [r.top_p for r in requests], [r.top_k for r in requests], self.device
        )
        longest = max(r.max_tokens for r in requests)
        self.uniform = self._tensor(np.stack([uniforms(r.seed, longest) for r in requests]))
        self.limit = self._tensor([r.max_tokens for r in requests])
        self.next = self._tensor([len(r.prompt_ids) for r in requests])  # where a row's next token will stand
        self.active = torch.ones_like(self.limit, dtype=torch.bool)
        self.request_of = list(range(len(requests)))  # of each row
        self.tokens: list[list[int]] = [[] for _ in requests]
        self.logprobs: list[list[float]] = [[] for _ in requests]
        self.entropies: list[list[float]] = [[] for _ in requests]

    def _tensor(self, data: Sequence[int] | Sequence[list[int]] | np.ndarray) -> torch.Tensor:
        return torch.as_tensor(data, device=self.device)

    def run(self) -> list[tuple[list[int], list[float], list[float]]]:
        """Tokens, log-probabilities and, where they were asked for, entropies of each request.

        Raises:
            FloatingPointError: logits that are no distribution.
        """
        logits = self._prefill(self._load())
        for step in range(self.uniform.shape[1]):
            tokens, logprobs = draw(logits, self.rules, self.uniform[:, step])
            self._record(tokens, logprobs)
            if any(request.entropies for request in self.requests):
                self._record_entropies(top_entropies(logits, self.rules))
            self.active &= ~torch.isin(tokens, self.owner.eos) & (step + 1 < self.limit)
            going_on = int(self.active.sum())
            if not going_on:
                break
            if going_on <= len(self.request_of) // 2:
                tokens = self._close_ranks(tokens)
            logits = self._forward(tokens[:, None], self.next[:, None], self.active[:, None])
            self.next = self.next + self.active
        self._store(range(len(self.request_of)))
        return list(zip(self.tokens, self.logprobs, self.entropies, strict=True))

    def _load(self) -> list[int]:
        """Bring back what earlier turns computed; how many ids of each prompt that covers."""
        known = []
        for row, request in enumerate(self.requests):
            states = self.owner.prefixes.take(request.request_id, request.prompt_ids)
            if states is not None:
                self.cache.load(row, states)
            known.append(0 if states is None else states.shape[3])
        return known

    def _prefill(self, known: Sequence[int]) -> torch.Tensor:
        """Feed the other ids, right-padded; logits (rows, vocabulary) after each last one."""
        new = [list(r.prompt_ids[n:]) for r, n in zip(self.requests, known, strict=True)]
        width = max(map(len, new))
        ids = self._tensor([row + [self.owner.pad_id] * (width - len(row)) for row in new])
        sizes = self._tensor([len(row) for row in new])[:, None]
        offsets = torch.arange(width, device=self.device)[None]
        positions = self._tensor(known)[:, None] + torch.minimum(offsets, sizes - 1)
        return self._forward(ids, positions, offsets < sizes, last=sizes.squeeze(1) - 1)

    def _forward(
        self, ids: torch.Tensor, positions: torch.Tensor, real: torch.Tensor, last: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Feed ids (rows, n); logits (rows, vocabulary) after each row's ``last`` one, or its only one."""
        model = self.owner.model
        hidden = model.model(
            input_ids=ids,
            attention_mask=self.cache.aim(positions, real),
            position_ids=positions,
            past_key_values=self.cache,
            use_cache=True,
        ).last_hidden_state
        final = hidden[:, 0] if last is None else hidden[torch.arange(len(ids), device=self.device), last]
        return model.lm_head(final)

    def _record(self, tokens: torch.Tensor, logprobs: torch.Tensor) -> None:
        columns = zip(self.request_of, self.active.tolist(), tokens.tolist(), logprobs.tolist(), strict=True)
        for request, active, token, logprob in columns:
            if active:
                self.tokens[request].append(token)
                self.logprobs[request].append(logprob)

    def _record_entropies(self, entropies: torch.Tensor) -> None:
        for request, active, entropy in zip(self.request_of, self.active.tolist(), entropies.tolist(), strict=True):
            if active and self.requests[request].entropies:
                self.entropies[request].append(entropy)

    def _close_ranks(self, tokens: torch.Tensor) -> torch.Tensor:
        """Put away the rows that have ended; the tokens of the others."""
        active = self.active.tolist()
        self._store(row for row, going_on in enumerate(active) if not going_on)
        rows = [row for row, going_on in enumerate(active) if going_on]
        self.cache.keep(rows)
        self.request_of = [self.request_of[row] for row in rows]
        keep = self._tensor(rows)
        self.rules.keep(keep)
        self.uniform, self.limit, self.next = self.uniform[keep], self.limit[keep], self.next[keep]
        self.active = self.active[keep]
        return tokens[keep]

    def _store(self, rows: Iterable[int]) -> None:
        """Put away rows that have ended. Their last token was never fed, so it is not part of what is kept."""
        for row in rows:
            request = self.requests[self.request_of[row]]
            ids = [*request.prompt_ids, *self.tokens[self.request_of[row]][:-1]]
            self.owner.prefixes.put(request.request_id, Prefix(ids, self.cache.save(row, len(ids))))
