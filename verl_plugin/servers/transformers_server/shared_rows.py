"""Very many answers to few prompts: equal prompts are computed once, and answers share a row for as long as their tokens are equal.

An answer is that of the ``Generator`` to the same request, up to rounding: it depends on prompt, parameters and seed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from rollouts.sampling import RequestTooLong, Sample, SampleRequest
from verl_plugin.servers.transformers_server.generator import Generator
from verl_plugin.servers.transformers_server.key_values import KeyValues, Stretch
from verl_plugin.servers.transformers_server.packing import Packing, Span
from verl_plugin.servers.transformers_server.sampling import Rules, draw, uniforms

ANSWERS_AT_ONCE = 64
PROMPT_BYTES = 512 * 2**20
Key = tuple[bytes, int]  # prompt, seed


class SharedRows:
    """Not thread-safe. What was answered is remembered until ``forget``: the same request again costs nothing."""

    def __init__(self, generator: Generator) -> None:
        self.generator = generator
        self.memory = KeyValues(generator.model, 0)  # of one batch
        self._answers: dict[Key, Sample] = {}
        self._prompts = _Prompts()
        self.tokens = 0  # fed to the model since the last ``forget``

    def forget(self) -> None:
        self._answers, self._prompts, self.tokens = {}, _Prompts(), 0

    @torch.inference_mode()
    def generate(self, requests: Sequence[SampleRequest]) -> list[Sample | Exception]:
        """One answer a request; an error where prompt and answer do not fit."""
        keys = [(_packed(request.prompt_ids), request.seed) for request in requests]
        errors = {key: error for key, request in zip(keys, requests, strict=True) if (error := self._problem(request))}
        wanted: dict[bytes, dict[int, SampleRequest]] = defaultdict(dict)
        for key, request in zip(keys, requests, strict=True):
            if key not in self._answers and key not in errors:
                wanted[key[0]][key[1]] = request
        for chunk in self._chunks(wanted):
            self._answers |= _Batch(self, chunk).run()
        return [errors.get(key) or self._answers[key] for key in keys]

    def _problem(self, request: SampleRequest) -> RequestTooLong | None:
        try:
            self.generator.check(request)
        except RequestTooLong as error:
            return error
        return None

    def _chunks(self, wanted: Mapping[bytes, Mapping[int, SampleRequest]]) -> Iterator[list[_Prompt]]:
        """Prompts of about as many new tokens go together, since rows are padded."""
        prompts = []
        for packed, asked in wanted.items():
            requests = list(asked.values())
            for first in range(0, len(requests), ANSWERS_AT_ONCE):
                known = self._prompts.longest(packed)
                part = tuple(requests[first : first + ANSWERS_AT_ONCE])
                prompts.append(_Prompt(packed, tuple(part[0].prompt_ids), part, known))
        prompts.sort(key=lambda prompt: (prompt.new, prompt.packed))
        chunk: list[_Prompt] = []
        for prompt in prompts:
            if chunk and sum(len(one.requests) for one in chunk) + len(prompt.requests) > ANSWERS_AT_ONCE:
                yield chunk
                chunk = []
            chunk.append(prompt)
        if chunk:
            yield chunk


def _packed(ids: Sequence[int]) -> bytes:
    return np.asarray(ids, dtype=np.int32).tobytes()


@dataclass(frozen=True)
class _Prompt:
    """One prompt and what is asked of it; ``known``: keys and values of its first tokens."""

    packed: bytes
    ids: tuple[int, ...]
    requests: tuple[SampleRequest, ...]
    known: torch.Tensor | None

    @property
    def start(self) -> int:
        return 0 if self.known is None else self.known.shape[2]

    @property
    def new(self) -> int:
        return len(self.ids) - self.start


class _Prompts:
    """Keys and values of prompts, (layer, key or value, token, head, head size); the oldest go."""

    def __init__(self) -> None:
        self._states: dict[bytes, torch.Tensor] = {}
        self._lengths: Counter[int] = Counter()
        self._nbytes = 0

    def longest(self, packed: bytes) -> torch.Tensor | None:
        """Of the longest beginning that is kept; the last token is always left over."""
        for length in sorted((length for length in self._lengths if length <= len(packed)), reverse=True):
            states = self._states.get(packed[:length])
            if states is not None:
                return states[:, :, :-1] if length == len(packed) else states
        return None

    def put(self, packed: bytes, states: torch.Tensor) -> None:
        if packed in self._states:
            return
        self._states[packed] = states
        self._lengths[len(packed)] += 1
        self._nbytes += states.nbytes
        while self._nbytes > PROMPT_BYTES:
            oldest = next(iter(self._states))
            self._nbytes -= self._states.pop(oldest).nbytes
            self._lengths[len(oldest)] -= 1
            self._lengths += Counter()  # drops lengths of which none is left


@dataclass(frozen=True)
class _Row:
    """Answers with the same tokens so far: ``token`` is the newest; ``known`` tokens before it stand in the stretch."""

    stretch: Stretch
    known: int
    token: int
    members: list[int]


class _Batch:
    """One chunk from prompts to answers."""

    def __init__(self, owner: SharedRows, prompts: Sequence[_Prompt]) -> None:
        self.owner, self.memory, self.prompts = owner, owner.memory, prompts
        self.keys = [(prompt.packed, request.seed) for prompt in prompts for request in prompt.requests]
        self.requests = [request for prompt in prompts for request in prompt.requests]
        self.longest = max(request.max_tokens for request in self.requests)
        self.device = self.memory.buffer.device
        uniform = np.stack([uniforms(request.seed, self.longest) for request in self.requests])
        self.uniform = torch.as_tensor(uniform, device=self.device)
        self.eos = set(owner.generator.eos.tolist())
        self.tokens: list[list[int]] = [[] for _ in self.requests]
        self.logprobs: list[list[float]] = [[] for _ in self.requests]

    def run(self) -> dict[Key, Sample]:
        self.memory.clear()
        rows, logits = self._read_prompts()
        for step in range(self.longest):
            rows = self._forked(rows, self._draw(rows, logits, step))
            if not rows:
                break
            logits = self._forward([row.token for row in rows], [Span(row.stretch.start, row.known, 1) for row in rows])
        samples = (Sample(tuple(ids), tuple(own)) for ids, own in zip(self.tokens, self.logprobs, strict=True))
        return dict(zip(self.keys, samples, strict=True))

    def _read_prompts(self) -> tuple[list[_Row], torch.Tensor]:
        """Feed what is new of them; logits (prompts, vocabulary) after their last tokens."""
        stretches = self.memory.take([prompt.requests[0] for prompt in self.prompts])
        for prompt, stretch in zip(self.prompts, stretches, strict=True):
            if prompt.known is not None:
                self.memory.buffer[:, :, stretch.start : stretch.start + prompt.start] = prompt.known
        spans = [Span(own.start, prompt.start, prompt.new) for prompt, own in zip(self.prompts, stretches, strict=True)]
        logits = self._forward([i for prompt in self.prompts for i in prompt.ids[prompt.start :]], spans)
        rows, first = [], 0
        for prompt, stretch in zip(self.prompts, stretches, strict=True):
            size, members = len(prompt.ids), list(range(first, first + len(prompt.requests)))
            states = self.memory.buffer[:, :, stretch.start : stretch.start + size]
            self.owner._prompts.put(prompt.packed, states.clone())
            rows.append(_Row(stretch, size - 1, prompt.ids[-1], members))
            first += len(members)
        return rows, logits

    def _forward(self, ids: Sequence[int], spans: Sequence[Span]) -> torch.Tensor:
        self.owner.tokens += len(ids)
        return self.owner.generator.forward(torch.tensor(ids, device=self.device), Packing(self.memory, spans))

    def _draw(self, rows: Sequence[_Row], logits: torch.Tensor, step: int) -> list[int]:
        """Each answer's next token, in the order of the rows' members; it is written down."""
        members = [member for row in rows for member in row.members]
        asked = [self.requests[member] for member in members]
        settings = [[one.temperature for one in asked], [one.top_p for one in asked], [one.top_k for one in asked]]
        counts = torch.tensor([len(row.members) for row in rows], device=self.device)
        own = logits.repeat_interleave(counts, dim=0)
        tokens, logprobs = draw(own, Rules(*settings, self.device), self.uniform[members, step])
        for member, token, logprob in zip(members, tokens.tolist(), logprobs.tolist(), strict=True):
            self.tokens[member].append(token)
            self.logprobs[member].append(logprob)
        return tokens.tolist()

    def _forked(self, rows: Sequence[_Row], tokens: Sequence[int]) -> list[_Row]:
        """Those whose tokens differ part; those that have ended are gone."""
        after, drawn = [], iter(tokens)
        for row in rows:
            following: dict[int, list[int]] = defaultdict(list)
            for member in row.members:
                token = next(drawn)
                if token not in self.eos and len(self.tokens[member]) < self.requests[member].max_tokens:
                    following[token].append(member)
            for number, (token, members) in enumerate(following.items()):
                stretch = self._copied(row) if number else row.stretch
                after.append(_Row(stretch, row.known + 1, token, members))
        return after

    def _copied(self, row: _Row) -> Stretch:
        """A stretch of its own, with the same tokens."""
        (stretch,) = self.memory.take([self.requests[row.members[0]]])
        self.memory.copy(row.stretch, stretch, 0, row.known + 1)
        return stretch
