"""Control tokens: text in a message is never tokenised as one of the model's control tokens.

A tokenizer gets the marks of a chat template and the text of messages as one string, and reads
``<|im_end|>`` as the end of a turn in both. So each rendering is checked: its control tokens must
equal those of the same messages with harmless text. Ordinary text passes unchanged. Other text is
changed a little, then more, until the check passes.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

from turngrid.envs.utils.chat_text import broken_up
from turngrid.envs.utils.printable import printable

Render = Callable[[Sequence[str]], list[int]]
HARMLESS = "unreadable"
_NOT_PLAIN = re.compile(r"[^\w\s.,:;!?'()-]|_")
_MARKUP = re.compile(r"[<>\[\]{}|｜]")


class ControlTokens:
    """The control tokens of a tokenizer: special tokens, and added tokens that look like markup
    (``<think>``).

    Added runs of spaces and plain words count as text, and so does a single character used for
    padding.

    Args:
        allowed: control tokens that messages may contain as text.
    """

    def __init__(self, tokenizer: Any, allowed: Sequence[str] = ()) -> None:
        added = tokenizer.added_tokens_decoder.items()
        long = {number: token for number, token in added if len(token.content.strip()) > 1}
        steering = {n: token.content for n, token in long.items() if token.special or _MARKUP.search(token.content)}
        spelled = {number: content for number, content in steering.items() if content.strip() not in allowed}
        self._ids = frozenset(spelled) - _unknown(tokenizer)
        self._marks, self._marks_in_any_case = _any_of(spelled.values()), _any_of(spelled.values(), re.IGNORECASE)
        self._own: dict[Hashable, list[int]] = {}

    def within(self, ids: Iterable[int]) -> list[int]:
        return [token for token in ids if token in self._ids]

    def harmless(self, kind: Hashable, render: Render, texts: Sequence[str]) -> list[int]:
        """Return ``render(texts)``, with the texts changed until its only control tokens are the
        template's.

        Args:
            kind: names the template of ``render``.
        """
        placeholders = [HARMLESS if text.strip() else "" for text in texts]
        key = (kind, *placeholders)
        if key not in self._own:
            self._own[key] = self.within(render(placeholders))
        own = self._own[key]
        for change in (self._broken_up, self._normalised, lambda text: _NOT_PLAIN.sub(" ", text).strip()):
            texts = [change(text) for text in texts]
            ids = render(texts)
            if self.within(ids) == own:
                return ids
        return render(placeholders)

    def _broken_up(self, text: str) -> str:
        return broken_up(printable(text), self._marks)

    def _normalised(self, text: str) -> str:
        """Also break up control tokens in full-width letters and capitals, which a tokenizer may
        normalise.
        """
        return broken_up(unicodedata.normalize("NFKC", text), self._marks_in_any_case)


def _unknown(tokenizer: Any) -> set[int]:
    """Return the token for unknown characters, which is harmless unless it also has another
    role.
    """
    others = [token for name, token in tokenizer.special_tokens_map.items() if name != "unk_token"]
    return set() if tokenizer.unk_token in (None, *others) else {tokenizer.unk_token_id}


def _any_of(spelled: Iterable[str], flags: re.RegexFlag = re.NOFLAG) -> re.Pattern[str]:
    """Return a pattern of all tokens, longest first; a number in a token matches any
    (``<unused17>``).
    """
    words = {re.sub(r"\d+", r"\\d+", re.escape(word)) for word in spelled}
    return re.compile("|".join(sorted(words, key=len, reverse=True)) or r"(?!)", flags)
