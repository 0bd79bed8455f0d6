"""Rows of question sets, as FlashRAG, HotpotQA, 2Wiki, MuSiQue and Search-R1 publish them."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from turngrid.envs.data_set import Fields
from turngrid.envs.search.scores import normalised

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")


def sentences(text: str) -> list[str]:
    return [sentence for sentence in _SENTENCE_END.split(text.strip()) if sentence]


def read_row(row: Mapping[str, Any]) -> Fields:
    """Return a row's question, right answers, gold facts and paragraphs.

    Raises:
        ValueError: the row is no question with an answer.
        KeyError: it lacks a field.
    """
    try:
        about = {**(row.get("metadata") or {}), **row}
        question, golds = _asked(about)
        paragraphs = _paragraphs(about)
        facts = [fact for fact in _facts(about, dict(paragraphs)) if fact]
    except (TypeError, AttributeError, IndexError) as error:
        raise ValueError(f"a row has another form: {error}") from error
    golds = [gold for gold in map(str, golds) if normalised(gold)]
    if not question.strip() or not golds or about.get("answerable") is False:
        raise ValueError("a row has no question, or no answer")
    kind = about.get("type")
    return {
        "question": " ".join(question.split()),
        "golds": golds,
        "facts": facts,
        "paragraphs": paragraphs,
        "kind": kind if isinstance(kind, str) else "",
    }


def _asked(about: Mapping[str, Any]) -> tuple[str, Sequence[Any]]:
    if "golden_answers" in about:  # FlashRAG
        return about["question"], _listed(about["golden_answers"])
    if "reward_model" in about:  # Search-R1
        message = about["prompt"][-1]["content"]
        return message.rpartition("Question:")[2].strip(), _listed(about["reward_model"]["ground_truth"]["target"])
    return about["question"], [about["answer"], *_listed(about.get("answer_aliases") or ())]


def _listed(value: Any) -> list[Any]:
    return [value] if isinstance(value, str) else list(value)


def _paragraphs(about: Mapping[str, Any]) -> list[tuple[str, list[str]]]:
    """Return titles and sentences: MuSiQue's ``paragraphs``, or ``context``."""
    if "paragraphs" in about:
        return [(one["title"], sentences(one["paragraph_text"])) for one in about["paragraphs"]]
    return [(title, [text.strip() for text in texts if text.strip()]) for title, texts in _pairs(about.get("context"))]


def _facts(about: Mapping[str, Any], paragraphs: Mapping[str, Sequence[str]]) -> Iterable[tuple[str, str]]:
    """Yield titles and sentences of ``paragraphs`` that lead to the answer."""
    if "paragraphs" in about:
        for one in about["paragraphs"]:
            if one.get("is_supporting"):
                yield one["title"], sentences(one["paragraph_text"])[0]
    for title, number in _pairs(about.get("supporting_facts")):
        texts = paragraphs.get(title, ())
        if number < len(texts):  # HotpotQA names some that are not there
            yield title, texts[number]


def _pairs(value: Any) -> list[tuple[Any, Any]]:
    """Return pairs that are written as a list, or as two columns of which one is ``title``."""
    if isinstance(value, Mapping):
        other = next(name for name in value if name != "title")
        return list(zip(value["title"], value[other], strict=True))
    return [(first, second) for first, second in value or ()]
