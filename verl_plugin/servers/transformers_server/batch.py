"""One ragged batch, from prompts to answers; each row has its own sampling parameters."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch

from turngrid.rollouts.sampling import Sample, SampleRequest
from turngrid.verl_plugin.servers.transformers_server.key_values import KeyValues
from turngrid.verl_plugin.servers.transformers_server.packing import Packing, Span

Forward = Callable[[torch.Tensor, Packing], torch.Tensor]
TOP = 10  # number of likeliest tokens in ``top_entropies``


def uniforms(seed: int, count: int) -> np.ndarray:
    """Return ``count`` numbers in [0, 1), one a token, determined by ``seed`` alone."""
    return np.random.Generator(np.random.Philox(key=seed)).random(count)


class Rules:
    """Temperature, top-p and top-k of each row, as tensors. Temperature 0 is greedy."""

    def __init__(
        self,
        temperature: Sequence[float],
        top_p: Sequence[float],
        top_k: Sequence[int],
        device: torch.device | str = "cpu",
    ) -> None:
        warm = [t if t > 0 else 1.0 for t in temperature]
        self.scale = torch.tensor(warm, device=device)[:, None]
        self.greedy = torch.tensor([t <= 0 for t in temperature], device=device)
        self.top_p = torch.tensor([p if 0 < p < 1 else 1.0 for p in top_p], dtype=torch.float64, device=device)[:, None]
        self.top_k = torch.tensor([max(0, k) for k in top_k], device=device)[:, None]
        self.restricted = any(0 < p < 1 for p in top_p) or any(k > 0 for k in top_k)
        self.any_greedy = any(t <= 0 for t in temperature)

    def keep(self, rows: torch.Tensor) -> None:
        self.scale, self.greedy = self.scale[rows], self.greedy[rows]
        self.top_p, self.top_k = self.top_p[rows], self.top_k[rows]


def draw(logits: torch.Tensor, rules: Rules, uniform: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Sample the first tokens at which the cumulative distribution exceeds ``uniform``.

    Args:
        logits: (rows, vocabulary).
        rules: of the same rows.
        uniform: (rows,) in [0, 1), float64.

    Returns:
        Token ids (rows,) and their log-probabilities (rows,) in nats under the temperature-scaled,
        unrestricted distribution, which is what teacher forcing gives.

    Raises:
        FloatingPointError: the logits are not finite.
    """
    logprobs = torch.log_softmax(logits.float() / rules.scale, dim=-1)
    weights = logprobs.double().exp_()
    if rules.restricted:
        weights = restrict(weights, rules)
    cumulative = weights.cumsum_(-1)
    total = cumulative[:, -1:]
    if not bool(total.isfinite().all()):
        raise FloatingPointError("the model's logits are not finite; did its training diverge?")
    below = torch.nextafter(total, torch.zeros_like(total))  # rounding must select no token beyond the last
    tokens = torch.searchsorted(cumulative, torch.minimum(uniform[:, None] * total, below), right=True).squeeze(1)
    if rules.any_greedy:
        tokens = torch.where(rules.greedy, logits.argmax(-1), tokens)
    return tokens, logprobs.gather(1, tokens[:, None]).squeeze(1)


def top_entropies(logits: torch.Tensor, rules: Rules) -> torch.Tensor:
    """Return -sum p log p over the ``TOP`` likeliest tokens, over the log of the vocabulary size.

    The distribution is temperature-scaled: (rows, vocabulary) -> (rows,), in [0, 1].
    """
    size = logits.shape[-1]
    top = torch.log_softmax(logits.float() / rules.scale, dim=-1).topk(min(TOP, size), dim=-1).values
    return -(top.exp() * top).sum(-1) / math.log(size)


def full_entropies(logits: torch.Tensor, rules: Rules) -> torch.Tensor:
    """Return entropies (rows,) in nats of the temperature-scaled distribution, as verl does."""
    logprobs = torch.log_softmax(logits.float() / rules.scale, dim=-1)
    return -(logprobs.exp() * logprobs).sum(-1)


def restrict(weights: torch.Tensor, rules: Rules) -> torch.Tensor:
    """Keep the k likeliest tokens, then the fewest of them that reach the share p."""
    ordered, index = weights.sort(dim=-1, descending=True, stable=True)
    rank = torch.arange(weights.shape[-1], device=weights.device).expand_as(weights)
    ordered = torch.where((rules.top_k == 0) | (rank < rules.top_k), ordered, 0)
    share = ordered / ordered.sum(-1, keepdim=True)
    ordered = torch.where(share.cumsum(-1) - share < rules.top_p, ordered, 0)
    return torch.zeros_like(weights).scatter_(-1, index, ordered)


ENTROPIES = {"entropies": top_entropies, "full_entropies": full_entropies}  # by a request's field


class Batch:
    """Requests that are sampled together. Its rows are the requests whose answer has not ended.

    Args:
        forward: maps ids (tokens,) and their packing to each row's last logits, (rows, vocabulary).
        eos: ids of tokens that end an answer, on the memory's device.
        requests: best sorted so that neighbours have prompts of similar length.
    """

    def __init__(
        self, forward: Forward, memory: KeyValues, eos: torch.Tensor, requests: Sequence[SampleRequest]
    ) -> None:
        self.forward, self.memory, self.eos, self.requests = forward, memory, eos, requests
        self.stretches = memory.take(requests)
        self.device = memory.buffer.device
        self.rules = Rules(
            [r.temperature for r in requests], [r.top_p for r in requests], [r.top_k for r in requests], self.device
        )
        longest = max(r.max_tokens for r in requests)
        self.uniform = self._tensor(np.stack([uniforms(r.seed, longest) for r in requests]))
        self.limit = self._tensor([r.max_tokens for r in requests])
        self.rows = self._tensor(range(len(requests)))  # index of each row's request
        self.tokens = self.rows.new_zeros((len(requests), longest))
        self.logprobs = torch.zeros_like(self.tokens, dtype=torch.float32)
        asked = [name for name in ENTROPIES if any(getattr(request, name) for request in requests)]
        self.entropies = {name: torch.zeros_like(self.logprobs) for name in asked}
        self.counts = torch.zeros_like(self.rows)

    def _tensor(self, data: Sequence[int] | np.ndarray) -> torch.Tensor:
        return torch.as_tensor(data, device=self.device)

    def run(self) -> list[Sample]:
        logits = self._read_prompts()
        for step in range(self.tokens.shape[1]):
            tokens, logprobs = draw(logits, self.rules, self.uniform[:, step])
            self._record(step, tokens, logprobs, logits)
            going_on = (~torch.isin(tokens, self.eos) & (step + 1 < self.limit)).nonzero().squeeze(1)
            if not len(going_on):
                break
            if len(going_on) < len(self.rows):
                self._keep(going_on)
            logits = self.forward(tokens[going_on], Packing(self.memory, self._spans(step)))
        return self._answers()

    def _read_prompts(self) -> torch.Tensor:
        """Prefill the tokens that no earlier turn has fed, and return logits (rows, vocabulary).

        A prompt that several requests share is fed once.
        """
        first: dict[tuple[int, ...], int] = {}
        readers = [first.setdefault(tuple(r.prompt_ids), index) for index, r in enumerate(self.requests)]
        reading = sorted(set(readers))
        new = [self.requests[index].prompt_ids[len(self.stretches[index].ids) :] for index in reading]
        spans = [
            Span(self.stretches[index].start, len(self.stretches[index].ids), len(ids))
            for index, ids in zip(reading, new, strict=True)
        ]
        logits = self.forward(self._tensor([i for ids in new for i in ids]), Packing(self.memory, spans))
        for index, reader in enumerate(readers):
            if index != reader:
                own, length = self.stretches[index], len(self.requests[index].prompt_ids)
                self.memory.copy(self.stretches[reader], own, len(own.ids), length)
        return logits[[reading.index(reader) for reader in readers]]

    def _spans(self, step: int) -> list[Span]:
        rows = self.rows.tolist()
        return [Span(self.stretches[row].start, len(self.requests[row].prompt_ids) + step, 1) for row in rows]

    def _record(self, step: int, tokens: torch.Tensor, logprobs: torch.Tensor, logits: torch.Tensor) -> None:
        self.tokens[self.rows, step], self.logprobs[self.rows, step] = tokens, logprobs
        self.counts[self.rows] = step + 1
        for name, column in self.entropies.items():
            column[self.rows, step] = ENTROPIES[name](logits, self.rules)

    def _keep(self, going_on: torch.Tensor) -> None:
        self.rules.keep(going_on)
        self.rows, self.uniform, self.limit = self.rows[going_on], self.uniform[going_on], self.limit[going_on]

    def _answers(self) -> list[Sample]:
        """Return the answers, and cache the fed tokens: all but each answer's last one."""
        eos, answers = set(self.eos.tolist()), []
        columns = (self.counts, self.tokens, self.logprobs, *self.entropies.values())
        sampled = zip(*(column.tolist() for column in columns))
        for request, stretch, (count, tokens, *numbers) in zip(self.requests, self.stretches, sampled, strict=True):
            ids, (logprobs, *entropies) = tokens[:count], (row[:count] for row in numbers)
            self.memory.put(request.request_id, stretch, [*request.prompt_ids, *ids[:-1]])
            reason = "eos" if ids[-1] in eos else "length"
            columns_of_row = zip(self.entropies, entropies, strict=True)
            wanted = {name: row for name, row in columns_of_row if getattr(request, name)}
            answers.append(Sample(ids, logprobs, stop_reason=reason, **wanted))
        return answers
