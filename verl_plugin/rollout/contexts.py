"""Contexts of a row (``turngrid.algorithms.contexts``), made where its episode was sampled."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from turngrid.algorithms.contexts import Asks, Context
from turngrid.rollouts.episode import Episode, Turn
from turngrid.rollouts.prompt_forms.form import messages_of
from turngrid.rollouts.retrieval import lines_of, with_text
from turngrid.rollouts.row import turns_of_rows
from turngrid.rollouts.spec import EpisodeSpec
from turngrid.rollouts.stream import user
from turngrid.verl_plugin.rollout.token_stream import TokenCodec
from turngrid.verl_plugin.servers.transformers_server.key_values import common_length

PREFIX = "contexts_"  # of a field of a row: contexts_<slot>_<name>
SPANS = "answer_spans"  # field of a row: of each turn's answer, as ``SeenRow.answer_spans``
OTHER = "0"  # a text without a common beginning or end with others, unless they begin or end with 0


def field_of(name: str) -> str:
    return PREFIX + name.replace("/", "_")


def context_fields(
    asking: Mapping[str, Asks],
    episode: Episode,
    spec: EpisodeSpec,
    codec: TokenCodec,
    answering: str,
    spans: bool = False,
) -> list[dict[str, Tensor]]:
    """Return for each row of an episode the contexts that methods ask for, packed, by field.

    Args:
        asking: the methods by ``slot/name``.
        answering: the action that submits an answer (``Environment.answering``).
        spans: whether rows have the field ``SPANS`` too.
    """
    rows = [SeenRow(episode, *part, spec, codec, answering) for part in turns_of_rows(episode)]
    return [
        {field_of(name): packed(method.contexts(row)) for name, method in asking.items()}
        | ({SPANS: row.answer_spans()} if spans else {})
        for row in rows
    ]


class SeenRow:
    """The row of turns ``first`` to ``last``: a ``RowView``."""

    def __init__(
        self, episode: Episode, first: int, last: int, spec: EpisodeSpec, codec: TokenCodec, answering: str
    ) -> None:
        self.episode, self.first, self.turns = episode, first, episode.turns[first:last]
        self.task, self.won, self.gold, self.plan = episode.task, episode.won, episode.gold, spec.task.expert_plan
        self._prompt = self.turns[0].prompt_ids or episode.prompt_ids
        self._spec, self._form, self._codec, self._answering = spec, spec.form, codec, answering

    def before(self, turn: int) -> list[int]:
        earlier = (ids for one in self.turns[:turn] for ids in (one.action_ids, one.context_ids))
        return [*self._prompt, *(number for ids in earlier for number in ids)]

    def answer(self, turn: int) -> tuple[list[int], list[bool]]:
        ids, muted = self.turns[turn].action_ids, self.episode.muted(self.turns[turn])
        return list(ids), [number >= muted for number in range(len(ids))]

    def answer_spans(self) -> Tensor:
        """Return the first token in the row of each turn's answer, and the one after its last.

        If an answer has a thought, those of the thought alone, without its tags. Equal for a
        summary. (turns * 2,) int64.
        """
        spans, start = [], len(self._prompt)
        for turn in self.turns:
            spans += [start + number for number in self._span(turn)]
            start += len(turn.action_ids) + len(turn.context_ids)
        return torch.tensor(spans, dtype=torch.int64)

    def _span(self, turn: Turn) -> tuple[int, int]:
        begins = turn.response.find(turn.thought) if turn.thought and self._form.thinks else -1
        if turn.aside or begins < 0:
            return 0, len(turn.action_ids) * (not turn.aside)
        count, ids = self._codec.stream().tokens_of, turn.action_ids
        return count(ids, turn.response[:begins]), count(ids, turn.response[: begins + len(turn.thought)])

    def after_prompt(self) -> tuple[list[int], list[bool]]:
        ids: list[int] = []
        trained: list[bool] = []
        for number, turn in enumerate(self.turns):
            own, scored = self.answer(number)
            ids += own + turn.context_ids
            trained += scored + [False] * len(turn.context_ids)
        return ids, trained

    def with_observation(self, turn: int, text: str) -> list[int] | None:
        seen, ids = self.turns[turn], self.before(turn)
        if not turn:  # a row's first turn has the library's text in its head
            seen = replace(seen, retrieved="")
        shown, wanted, other = map(self._shown, (seen, *(_as(seen, given) for given in (text, OTHER))))
        start, end = map(min, common(other, wanted), common(shown, wanted))
        own, given = shown[start : len(shown) - end], wanted[start : len(wanted) - end]
        first = len(ids) - len(own) - end
        if not (own and given) or ids[first:] != shown[start:]:
            return None
        filled = (given + given[-1:] * len(own))[: len(own)]
        return ids[:first] + filled + ids[first + len(own) :]

    def _shown(self, turn: Turn) -> list[int]:
        """Return the ids that a turn's observation adds after an answer."""
        text = turn.retrieved if turn.retrieved_tokens else ""
        return self._codec.after_turn(with_text(self._form, messages_of(self._form, turn), text))[1:]

    def with_line(self, text: str) -> list[int] | None:
        own = lines_of(self.episode.guidance, self.turns[0].retrieved)
        plain, hinted = map(self._first_prompt, (own, lines_of(own, text)))
        start, end = common(plain, hinted)
        if not start or self._prompt[: len(plain) - end] != plain[: len(plain) - end]:
            return None
        return hinted[: len(hinted) - end] + self._prompt[len(plain) - end :]

    def _first_prompt(self, guidance: str) -> list[int]:
        head = self._form.head(self._spec.style, self.episode.goal, guidance)
        return self._codec.first_prompt([user(head + self._form.message(OTHER))])

    def submitted(self, text: str, thought: str) -> tuple[list[int], list[bool]]:
        form: Any = self._form
        functions = (self._spec.style.functions,) if form.calls else ()
        answer = form.write(self._answering.format(text), thought, *functions)
        stream, start = self._codec.stream(), answer.rindex(text)
        ids = stream.encode_action(answer)
        first = stream.tokens_of(ids, answer[:start])
        last = stream.tokens_of(ids, answer[: start + len(text)])
        last += len(self._codec.decode(ids[:last])) < start + len(text)  # a token that reaches beyond it
        return ids[:last], [first <= number for number in range(last)]


def _as(turn: Turn, text: str) -> Turn:
    """Return a turn that was shown this text, as one result if it was shown results."""
    shown = {"retrieved": turn.retrieved, "retrieved_tokens": turn.retrieved_tokens}
    return Turn(text, "", results=[text] if turn.results else [], **shown)


def common(one: Sequence[int], other: Sequence[int]) -> tuple[int, int]:
    """Return how many ids two sequences share at the start and, of the rest, at the end."""
    start = common_length(one, other)
    return start, common_length(one[start:][::-1], other[start:][::-1])


def packed(contexts: Sequence[Context]) -> Tensor:
    """Return contexts as one int64 tensor, which a queue or a buffer stores as any field.

    Raises:
        ValueError: a context scores no token, or its first, or lacks a mark a token.
    """
    numbers = [len(contexts)]
    for ids, scored, turn in contexts:
        if len(ids) != len(scored) or not any(scored) or scored[0]:
            raise ValueError("a context scores one token or more after its first, with a mark for each of its tokens")
        numbers += [turn, len(ids), *ids, *map(int, scored)]
    return torch.tensor(numbers, dtype=torch.int64)


def unpacked(field: Tensor) -> Iterator[tuple[int, Tensor, Tensor]]:
    """Yield each context's turn, its ids and which of them are scored (0 or 1)."""
    start = 1
    for _ in range(int(field[0])):
        turn, length = field[start : start + 2].tolist()
        ids, scored = field[start + 2 : start + 2 + 2 * length].split(length)
        yield turn, ids, scored
        start += 2 + 2 * length
