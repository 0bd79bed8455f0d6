"""``rollouts.TokenStream`` over verl's continuous-token builder.

The text of a message is never tokenised as one of the model's control tokens. A tokenizer gets the
marks of a chat template and the text of messages as one string, and reads ``<|im_end|>`` as the end
of a turn in both. So each rendering is checked: its control tokens must equal those of the same
messages with harmless text. Ordinary text passes unchanged. In other text control tokens are broken
up by a space. If a tokenizer reads one even so, only words and plain punctuation are kept.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import cached_property, lru_cache
from typing import Any

from turngrid.envs.utils.printable import broken_up, printable
from turngrid.records.models.locate import ModelError
from turngrid.rollouts.stream import Message, in_words, tool, user

CHATML_END = "<|im_end|>"
IDS = "i"  # 4 bytes a token; a list takes 8 and slows down garbage collection
CACHED_PROMPTS = 256  # samples of a group share their first messages, at about the same time
CACHED_MESSAGES = 50_000  # samples of a group see much of the same text
_NAMES_TOOL = re.compile(r"['\"]tool['\"]")


class TokenCodec:
    """Tokenizer, builder and cached renderings, shared by all streams of one model.

    Everything that a model reads in training, SFT and evaluation is rendered here.

    Args:
        tokenizer: the model's Hugging Face tokenizer, with a chat template.
        hf_model_type: ``model_type`` of ``config.json``: verl joins turns by it.
        template_kwargs: settings of the chat template (``turngrid.rollouts.chat_settings``).
        marks: text that messages may contain although it is spelled like a control token.

    Raises:
        ModelError: the chat template renders no two messages of the user in a row.
    """

    def __init__(
        self,
        tokenizer: Any,
        hf_model_type: str | None,
        template_kwargs: dict[str, Any] | None = None,
        marks: Sequence[str] = (),
    ) -> None:
        from verl.utils.tokenizer.continuous_token_wiring import create_continuous_token_builder

        self.tokenizer = tokenizer
        self.eos_id = int(tokenizer.eos_token_id)
        # ChatML joins turns the same way for all model types; verl lists it under Qwen.
        family = "qwen" if tokenizer.eos_token == CHATML_END else "auto"
        self._builder = create_continuous_token_builder(
            tokenizer, model_family=family, hf_model_type=hf_model_type, chat_template_kwargs=template_kwargs
        )
        # A prompt or a message is rendered the same way at any position, so it is cached.
        self._render_prompt = lru_cache(maxsize=CACHED_PROMPTS)(self._render_first)
        self._render = lru_cache(maxsize=CACHED_MESSAGES)(self._render_next)
        self._controls = ControlTokens(tokenizer, marks)
        try:
            self.after_turn([user(HARMLESS)])
        except Exception as error:
            reason = "its chat template does not render two messages of the user in a row"
            use = "actor_rollout_ref.model.custom_chat_template=TEMPLATE"
            raise ModelError(f"model.path={tokenizer.name_or_path}: {reason}; use {use}") from error

    def stream(self) -> VerlTokenStream:
        return VerlTokenStream(self)

    def first_prompt(self, messages: Sequence[Message]) -> list[int]:
        return list(self._render_prompt(tuple(tuple(message.items()) for message in messages)))

    def _render_first(self, messages: Sequence[Sequence[tuple[str, str]]]) -> array[int]:
        first = [dict(message) for message in messages]

        def render(texts: Sequence[str]) -> list[int]:
            messages = [{**message, "content": text} for message, text in zip(first, texts, strict=True)]
            return list(self._builder.build_initial_tokens(messages))

        kind = ("first prompt", *(message["role"] for message in first))
        return array(IDS, self._controls.harmless(kind, render, [message["content"] for message in first]))

    def after_turn(self, messages: Sequence[Message]) -> list[int]:
        """Return the end of a turn, then messages of one role and the generation prompt, as ids."""
        shown = messages if self.has_tool_role else in_words(messages)
        return list(self._render(shown[0]["role"], tuple(message["content"] for message in shown)))

    def _render_next(self, role: str, contents: Sequence[str]) -> array[int]:
        def render(texts: Sequence[str]) -> list[int]:
            messages = [{"role": role, "content": text} for text in texts]
            return list(self._builder.merge_context_tokens([], messages, [self.eos_id]).token_ids)

        return array(IDS, self._controls.harmless(("next", role), render, contents))

    @cached_property
    def has_tool_role(self) -> bool:
        """Whether the chat template names the role ``tool`` and renders two results.

        Without it, the results of calls are one message of the user.
        """
        if not _NAMES_TOOL.search(str(self.tokenizer.chat_template)):
            return False
        try:
            ids = self._builder.tokenize_context_incremental_messages([], [tool("one"), tool("two")])
        except Exception:  # noqa: BLE001 - templates raise many types, such as Llama 3's for two calls at once
            return False
        return "one" in (text := self.decode(ids)) and "two" in text

    def encode(self, text: str) -> list[int]:
        """Return the ids of an action that is given as text."""

        def render(texts: Sequence[str]) -> list[int]:
            return list(self.tokenizer.encode(*texts, add_special_tokens=False))

        return self._controls.harmless("action", render, [text])

    def decode(self, ids: Sequence[int]) -> str:
        return self.tokenizer.decode(ids, skip_special_tokens=True)


class VerlTokenStream:
    """The ids of one episode. An action cut off by its limit gets the end-of-turn as context."""

    def __init__(self, codec: TokenCodec) -> None:
        self._codec = codec
        self.ids: array[int] = array(IDS)

    def start(self, messages: Sequence[Message]) -> list[int]:
        first = self._codec.first_prompt(messages)
        self.ids = array(IDS, first)
        return first

    def add_sampled(self, ids: Sequence[int]) -> None:
        self.ids.extend(array(IDS, ids))

    def add_context(self, messages: Sequence[Message]) -> list[int]:
        before, cut_off = len(self.ids), self.ids[-1] != self._codec.eos_id
        joined = array(IDS, self._codec.after_turn(messages))
        self.ids[before if cut_off else before - 1 :] = joined
        return self.ids[before:].tolist()

    def encode_action(self, text: str) -> list[int]:
        return [*self._codec.encode(text), self._codec.eos_id]

    def tokens_of(self, ids: Sequence[int], text: str) -> int:
        """Count the tokens of ``text``, without one that reaches beyond its end."""
        decode = self._codec.decode
        longer = bisect_left(range(len(ids)), True, key=lambda end: len(decode(ids[:end]).lstrip()) > len(text))
        return max(0, longer - 1)


# ---- control tokens


Render = Callable[[Sequence[str]], list[int]]
HARMLESS = "unreadable"
_NOT_PLAIN = re.compile(r"[^\w\s.,:;!?'()-]|_")
_MARKUP = re.compile(r"[<>\[\]{}|｜]")


class ControlTokens:
    """The control tokens: special tokens, and added ones that look like markup (``<think>``).

    Added runs of spaces and plain words count as text, and so does a single character.
    """

    def __init__(self, tokenizer: Any, allowed: Sequence[str] = ()) -> None:
        added = tokenizer.added_tokens_decoder.items()
        long = {number: token for number, token in added if len(token.content.strip()) > 1}
        steering = {n: token.content for n, token in long.items() if token.special or _MARKUP.search(token.content)}
        spelled = {number: content for number, content in steering.items() if content.strip() not in allowed}
        self._ids = frozenset(spelled) - _unknown(tokenizer)
        self._marks = _any_of(spelled.values())
        self._own: dict[Hashable, list[int]] = {}

    def within(self, ids: Iterable[int]) -> list[int]:
        return [token for token in ids if token in self._ids]

    def harmless(self, kind: Hashable, render: Render, texts: Sequence[str]) -> list[int]:
        """Return ``render(texts)``, changed until its only control tokens are the template's."""
        placeholders = [HARMLESS if text.strip() else "" for text in texts]
        key = (kind, *placeholders)
        if key not in self._own:
            self._own[key] = self.within(render(placeholders))
        own = self._own[key]
        for change in (self._broken_up, lambda text: _NOT_PLAIN.sub(" ", text).strip()):
            texts = [change(text) for text in texts]
            ids = render(texts)
            if self.within(ids) == own:
                return ids
        return render(placeholders)

    def _broken_up(self, text: str) -> str:
        return broken_up(printable(text), self._marks)


def _unknown(tokenizer: Any) -> set[int]:
    """Return the token for unknown characters, harmless unless it has another role."""
    others = [token for name, token in tokenizer.special_tokens_map.items() if name != "unk_token"]
    return set() if tokenizer.unk_token in (None, *others) else {tokenizer.unk_token_id}


def _any_of(spelled: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern of all tokens, longest first; a number matches any (``<unused17>``)."""
    words = {re.sub(r"\d+", r"\\d+", re.escape(word)) for word in spelled}
    return re.compile("|".join(sorted(words, key=len, reverse=True)) or r"(?!)")
