"""Sample many answers to few prompts: compute equal prompts once, and let equal answers share a
row.

The answers equal those of ``Generator`` up to rounding: each depends on prompt, parameters and
seed. Two games of 8 samples with 16 continuations a prefix take 20 CPU seconds, and 86 with
``Generator``.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from turngrid.rollouts.sampling import RequestTooLong, Sample, SampleRequest
from turngrid.verl_plugin.servers.transformers_server.generator import Generator
from turngrid.verl_plugin.servers.transformers_server.key_values import KeyValues, Stretch
from turngrid.verl_plugin.servers.transformers_server.packing import Packing, Span
from turngrid.verl_plugin.servers.transformers_server.sampling import Rules, draw, uniforms

ANSWERS_AT_ONCE = 64
PROMPT_BYTES = 512 * 2**20
ID_BYTES = 4
Key = tuple[bytes, int]  # prompt, seed


class SharedRows:
    """Answers requests and remembers the answers until ``forget``. Not thread-safe."""

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
        """Return an answer for each request, or an error if prompt and answer exceed the
        context."""
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
        """Yield batches of prompts, short ones first, so that a long prompt can reuse a shorter
        one.
        """
        chunk: list[_Prompt] = []
        for packed in sorted(wanted, key=lambda packed: (len(packed), packed)):
            requests = tuple(wanted[packed].values())
            for first in range(0, len(requests), ANSWERS_AT_ONCE):
                part = requests[first : first + ANSWERS_AT_ONCE]
                if chunk and sum(len(one.requests) for one in chunk) + len(part) > ANSWERS_AT_ONCE:
                    yield chunk
                    chunk = []
                chunk.append(_Prompt(packed, tuple(part[0].prompt_ids), part, self._prompts.longest(packed)))
        if chunk:
            yield chunk


def _packed(ids: Sequence[int]) -> bytes:
    return np.asarray(ids, dtype=np.int32).tobytes()


@dataclass(frozen=True)
class _Prompt:
    """A prompt with its requests; ``known`` is its longest cached prefix."""

    packed: bytes
    ids: tuple[int, ...]
    requests: tuple[SampleRequest, ...]
    known: _Piece | None

    @property
    def start(self) -> int:
        """Return the number of cached tokens, but never all: feeding the last one gives the
        logits.
        """
        return min(self.known.end, len(self.ids) - 1) if self.known else 0

    @property
    def new(self) -> int:
        return len(self.ids) - self.start


@dataclass(frozen=True, eq=False)
class _Piece:
    """Keys and values of a cached prompt's last tokens, in a linked list.

    Attributes:
        before: the piece with the tokens before these.
        states: (layer, key or value, token, head, head size).
    """

    packed: bytes
    before: _Piece | None
    states: torch.Tensor

    @property
    def end(self) -> int:
        return len(self.packed) // ID_BYTES

    def chain(self) -> Iterator[_Piece]:
        """Yield this piece and all pieces before it, last to first."""
        piece: _Piece | None = self
        while piece:
            yield piece
            piece = piece.before

    def write(self, buffer: torch.Tensor, end: int) -> None:
        """Write keys and values of the tokens before ``end`` into a buffer."""
        for piece in self.chain():
            first = piece.end - piece.states.shape[2]
            buffer[:, :, first : min(piece.end, end)] = piece.states[:, :, : end - first]


class _Prompts:
    """Cache of pieces by prompt. The least recently used is dropped first, and always before its
    prefix.
    """

    def __init__(self) -> None:
        self._pieces: dict[bytes, _Piece] = {}
        self._lengths: Counter[int] = Counter()
        self._nbytes = 0

    def longest(self, packed: bytes) -> _Piece | None:
        """Return the longest cached prefix of a prompt."""
        for length in sorted((length for length in self._lengths if length <= len(packed)), reverse=True):
            if piece := self._pieces.get(packed[:length]):
                return piece
        return None

    def put(self, prompt: _Prompt, states: torch.Tensor) -> None:
        """Keep the states of all tokens of a prompt."""
        if prompt.packed in self._pieces:
            return
        before = self.longest(prompt.packed)  # ``prompt.known`` may have been dropped meanwhile
        new = _Piece(prompt.packed, before, states[:, :, before.end if before else 0 :].clone())
        self._lengths[len(prompt.packed)] += 1
        self._nbytes += new.states.nbytes
        for piece in new.chain():
            self._pieces.pop(piece.packed, None)
            self._pieces[piece.packed] = piece
        while self._nbytes > PROMPT_BYTES:
            self._drop(next(iter(self._pieces)))

    def _drop(self, packed: bytes) -> None:
        self._nbytes -= self._pieces.pop(packed).states.nbytes
        self._lengths[len(packed)] -= 1
        self._lengths += Counter()  # drops lengths of which none is left


@dataclass(frozen=True)
class _Row:
    """Answers whose tokens are the same so far.

    Attributes:
        known: number of tokens in the stretch, all before ``token``.
        token: the newest token.
    """

    stretch: Stretch
    known: int
    token: int
    members: list[int]


class _Batch:
    """One batch, from prompts to answers."""

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
        """Feed the new tokens of all prompts; return rows and logits (prompts, vocabulary)."""
        stretches = self.memory.take([prompt.requests[0] for prompt in self.prompts])
        for prompt, stretch in zip(self.prompts, stretches, strict=True):
            if prompt.known:
                prompt.known.write(self.memory.buffer[:, :, stretch.start :], prompt.start)
        spans = [Span(own.start, prompt.start, prompt.new) for prompt, own in zip(self.prompts, stretches, strict=True)]
        logits = self._forward([i for prompt in self.prompts for i in prompt.ids[prompt.start :]], spans)
        rows, first = [], 0
        for prompt, stretch in zip(self.prompts, stretches, strict=True):
            size, members = len(prompt.ids), list(range(first, first + len(prompt.requests)))
            states = self.memory.buffer[:, :, stretch.start : stretch.start + size]
            self.owner._prompts.put(prompt, states)
            rows.append(_Row(stretch, size - 1, prompt.ids[-1], members))
            first += len(members)
        return rows, logits

    def _forward(self, ids: Sequence[int], spans: Sequence[Span]) -> torch.Tensor:
        self.owner.tokens += len(ids)
        return self.owner.generator.forward(torch.tensor(ids, device=self.device), Packing(self.memory, spans))

    def _draw(self, rows: Sequence[_Row], logits: torch.Tensor, step: int) -> list[int]:
        """Draw and record the next token of each answer; return them in the order of the rows'
        members.
        """
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
        """Split rows whose answers drew different tokens; drop answers that have ended."""
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
        """Return a new stretch with a copy of the same tokens' keys and values."""
        (stretch,) = self.memory.take([self.requests[row.members[0]]])
        self.memory.copy(row.stretch, stretch, 0, row.known + 1)
        return stretch
