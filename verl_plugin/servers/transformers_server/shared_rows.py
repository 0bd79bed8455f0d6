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
from verl_plugin.servers.transformers_server.sampling import Rules, draw, uniforms

ANSWERS_AT_ONCE = 128
PROMPT_BYTES = 512 * 2**20
Key = tuple[bytes, int]  # prompt, seed


class SharedRows:
    """Not thread-safe. What was answered is remembered until ``forget``: the same request again costs nothing."""

    def __init__(self, generator: Generator) -> None:
        self.generator = generator
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
        return 0 if self.known is None else self.known.shape[3]

    @property
    def new(self) -> int:
        return len(self.ids) - self.start


class _Prompts:
    """Keys and values of prompts, (layer, key or value, head, token, head size); the oldest go."""

    def __init__(self) -> None:
        self._states: dict[bytes, torch.Tensor] = {}
        self._lengths: Counter[int] = Counter()
        self._nbytes = 0

    def longest(self, packed: bytes) -> torch.Tensor | None:
        """Of the longest beginning that is kept; the last token is always left over."""
        for length in sorted((length for length in self._lengths if length <= len(packed)), reverse=True):
            states = self._states.get(packed[:length])
            if states is not None:
                return states[:, :, :, :-1] if length == len(packed) else states
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
    """Answers with the same tokens so far: ``token`` is the newest, at ``column`` of the cache's row ``place``."""

    place: int
    column: int
    token: int
    members: list[int]


class _Batch:
    """One chunk from prompts to answers."""

    def __init__(self, owner: SharedRows, prompts: Sequence[_Prompt]) -> None:
        self.owner, self.model, self.cache = owner, owner.generator.model, owner.generator.cache
        self.prompts = prompts
        self.keys = [(prompt.packed, request.seed) for prompt in prompts for request in prompt.requests]
        self.requests = [request for prompt in prompts for request in prompt.requests]
        self.longest = max(request.max_tokens for request in self.requests)
        self.uniform = torch.as_tensor(np.stack([uniforms(request.seed, self.longest) for request in self.requests]))
        self.eos = set(owner.generator.eos.tolist())
        self.tokens: list[list[int]] = [[] for _ in self.requests]
        self.logprobs: list[list[float]] = [[] for _ in self.requests]
        self.cache.begin(len(self.requests), max(len(prompt.ids) for prompt in prompts) + self.longest)

    def run(self) -> dict[Key, Sample]:
        logits, rows = self._prefill(), self._first_rows()
        for step in range(self.longest):
            rows = self._close_ranks(self._forked(rows, self._draw(rows, logits, step)))
            if not rows:
                break
            logits = self._forward(rows)
        samples = (Sample(tuple(ids), tuple(own)) for ids, own in zip(self.tokens, self.logprobs, strict=True))
        return dict(zip(self.keys, samples, strict=True))

    def _first_rows(self) -> list[_Row]:
        rows, first = [], 0
        for place, prompt in enumerate(self.prompts):
            members = list(range(first, first + len(prompt.requests)))
            rows.append(_Row(place, len(prompt.ids) - 1, -1, members))
            first += len(members)
        return rows

    def _prefill(self) -> torch.Tensor:
        """Feed what is new of the prompts, right-padded; logits (rows, vocabulary) after their last tokens."""
        self.cache.rows = self.used = len(self.prompts)
        for place, prompt in enumerate(self.prompts):
            if prompt.known is not None:
                self.cache.load(place, prompt.known)
        sizes = torch.tensor([[prompt.new] for prompt in self.prompts])
        width, pad = int(sizes.max()), self.owner.generator.pad_id
        ids = torch.tensor([[*prompt.ids[prompt.start :], *[pad] * (width - prompt.new)] for prompt in self.prompts])
        offsets = torch.arange(width)[None]
        positions = torch.tensor([[prompt.start] for prompt in self.prompts]) + torch.minimum(offsets, sizes - 1)
        logits = self._feed(ids, positions, offsets < sizes, sizes.squeeze(1) - 1)
        for place, prompt in enumerate(self.prompts):
            self.owner._prompts.put(prompt.packed, self.cache.save(place, len(prompt.ids)))
        return logits

    def _feed(self, ids: torch.Tensor, positions: torch.Tensor, real: torch.Tensor, last: torch.Tensor) -> torch.Tensor:
        self.owner.tokens += int(real.sum())
        device = self.model.device
        hidden = self.model.model(
            input_ids=ids.to(device),
            attention_mask=self.cache.aim(positions.to(device), real.to(device)),
            position_ids=positions.to(device),
            past_key_values=self.cache,
            use_cache=True,
        ).last_hidden_state
        return self.model.lm_head(hidden[torch.arange(len(ids), device=device), last.to(device)]).cpu()

    def _draw(self, rows: Sequence[_Row], logits: torch.Tensor, step: int) -> list[int]:
        """Each answer's next token, in the order of the rows' members; it is written down."""
        members = [member for row in rows for member in row.members]
        asked = [self.requests[member] for member in members]
        rules = Rules([one.temperature for one in asked], [one.top_p for one in asked], [one.top_k for one in asked])
        places = torch.tensor([row.place for row in rows for _ in row.members])
        tokens, logprobs = draw(logits[places], rules, self.uniform[members, step])
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
                place = self._copied(row) if number else row.place
                after.append(_Row(place, row.column + 1, token, members))
        return after

    def _copied(self, row: _Row) -> int:
        """A row of its own, with the same columns."""
        self._move(row.place, self.used, row.column + 1)
        self.used += 1
        return self.used - 1

    def _move(self, source: int, target: int, columns: int) -> None:
        self.cache.buffer[:, :, target, :, :columns] = self.cache.buffer[:, :, source, :, :columns]

    def _close_ranks(self, rows: list[_Row]) -> list[_Row]:
        """Once at most half of the rows go on, they move to the front."""
        if len(rows) > self.used // 2:
            return rows
        closed = []
        for place, row in enumerate(sorted(rows, key=lambda row: row.place)):
            if place != row.place:
                self._move(row.place, place, row.column)
            closed.append(_Row(place, row.column, row.token, row.members))
        self.used = len(closed)
        return closed

    def _forward(self, rows: Sequence[_Row]) -> torch.Tensor:
        """Feed every row's newest token; what stands in the places of rows that have ended is padding."""
        self.cache.rows = self.used
        ids, positions = (
            torch.full((self.used,), self.owner.generator.pad_id),
            torch.zeros(self.used, dtype=torch.int64),
        )
        real = torch.zeros(self.used, dtype=torch.bool)
        places = torch.tensor([row.place for row in rows])
        ids[places] = torch.tensor([row.token for row in rows])
        positions[places] = torch.tensor([row.column for row in rows])
        real[places] = True
        return self._feed(ids[:, None], positions[:, None], real[:, None], torch.zeros(self.used, dtype=torch.int64))
