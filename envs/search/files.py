"""Users' own questions: ``env.data_dir`` has a folder for each set, with files for its splits.

Rows are read as FlashRAG, HotpotQA, 2Wiki, MuSiQue and Search-R1 publish them. Exact match is
that of SQuAD, HotpotQA and Search-R1; F1 is HotpotQA's.
"""

import hashlib
import re
import string
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from turngrid.envs.data_set import Fields, Row, rows
from turngrid.envs.environment import GameRecord, Rejected
from turngrid.envs.types import TaskError
from turngrid.envs.utils.names import nearest

_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_CLOSED = {"yes", "no", "noanswer"}
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
VALIDATION = 0.02  # share of the training questions
_SUFFIXES = (".jsonl", ".json", ".parquet")


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
    form = about.get("type")
    return {
        "question": " ".join(question.split()),
        "golds": golds,
        "facts": facts,
        "paragraphs": paragraphs,
        "kind": form if isinstance(form, str) else "",
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


@dataclass(frozen=True)
class QuestionFiles:
    """The questions of one set.

    Attributes:
        data_dir: ``env.data_dir``.
        task: the folder in it.
        paragraphs: whether a question is searched in its own paragraphs, not in a collection.
    """

    data_dir: str
    task: str
    paragraphs: bool

    @property
    def folder(self) -> Path:
        return Path(self.data_dir).expanduser() / self.task

    def check(self) -> None:
        """Raise TaskError if the folder does not exist, or has no file of questions."""
        if not self.folder.parent.is_dir():
            raise TaskError(f"env.data_dir={self.data_dir}: no such folder; use one that has a folder for each set")
        sets = [path.name for path in sorted(self.folder.parent.iterdir()) if path.is_dir()]
        if self.task not in sets:
            near = f"use env.task={nearest(self.task, sets)}" if sets else "it must have a folder for each set"
            raise TaskError(f"env.task={self.task}: env.data_dir={self.data_dir} has no such folder; {near}")
        if not any(map(self.file, ("train", "dev", "test"))):
            raise TaskError(
                f"env.data_dir: {self.folder} has no file of questions, such as train.jsonl or test.parquet; "
                "docs/search.md says where the official ones come from"
            )

    def file(self, split: str) -> Path | None:
        """Return the file whose name contains the word ``split``.

        Raises:
            TaskError: there are several.
        """
        files = [path for path in sorted(self.folder.iterdir()) if path.suffix in _SUFFIXES]
        named = [path for path in files if split in re.split("[^a-z]+", path.stem.lower())]
        if len(named) > 1:
            names = " and ".join(path.name for path in named)
            raise TaskError(f"env.data_dir: {self.folder} has {names} for one split; keep one of them")
        return named[0] if named else None

    def of_split(self, split: str) -> list[Row]:
        """Return a split's rows; training and validation have no question of the test split.

        Raises:
            TaskError: the split has no question that can be used.
        """
        if split == "test":
            return self._test()
        own = [row for row in self._train() if (row.rank < VALIDATION) == (split == "validation")]
        held = {asked(row) for row in self._test()} - {""} if self.file("test") or self.file("dev") else set()
        return [row for row in own if asked(row) not in held]

    def _train(self) -> list[Row]:
        if (file := self.file("train")) is None:
            raise TaskError(f"env.task={self.task}: {self.folder} has no file train.jsonl; use it in eval.tasks only")
        return self._rows(file)

    def _test(self) -> list[Row]:
        """Return the rows of ``test``, or of ``dev`` if ``test`` has no answers."""
        files = [file for file in map(self.file, ("test", "dev")) if file]
        if not files:
            raise TaskError(f"env.task={self.task}: {self.folder} has no questions to test on; add a file test.jsonl")
        try:
            return self._rows(files[0])
        except TaskError:
            if len(files) == 1:
                raise
            return self._rows(files[1])

    def _rows(self, file: Path) -> list[Row]:
        questions = list(rows(str(file), read_row, key="env.data_dir"))
        if self.paragraphs and not any(row.fields["paragraphs"] for row in questions if row.fields):
            raise TaskError(
                f"env.corpus: the questions of {file} bring no paragraphs to search in; "
                "use env.corpus=FILE.jsonl or env.url=http://HOST:8000/retrieve"
            )
        return questions

    def make(self, seed: int, split: str, folder: Path) -> GameRecord:
        """Write the game of a row.

        Raises:
            Rejected: the row is no question, or is not there any more.
        """
        questions = self._test() if split == "test" else self._train()
        row = next((row for row in questions if row.seed == seed), None)
        if row is None or row.fields is None:
            raise Rejected(row.problem if row else "the question is no longer in the file")
        if self.paragraphs and not row.fields["paragraphs"]:
            raise Rejected("the question brings no paragraphs to search in")
        facts = row.fields["facts"]
        if not self.paragraphs:
            facts = [[title, ""] for title in dict.fromkeys(title for title, _ in facts)]
        own = row.fields["paragraphs"] if self.paragraphs else []
        same = hashlib.sha256(asked(row).encode()).hexdigest()
        about = {"goal": row.fields["question"], "fingerprint": same, "max_score": len(facts) + 1}
        return GameRecord.written(folder, {**row.fields, "facts": facts, "paragraphs": own}, **about)


def asked(row: Row) -> str:
    """Return a row's question as it is compared; "" if the row is none."""
    return normalised(row.fields["question"]) if row.fields else ""


def normalised(text: str) -> str:
    """Return lower-case words without ASCII punctuation and articles.

    >>> normalised("The Orlen-Bridge.")
    'orlenbridge'
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


def exact_match(answer: str, golds: Iterable[str]) -> bool:
    """Return whether an answer equals a gold; an answer without words equals none."""
    words = normalised(answer)
    return bool(words) and words in map(normalised, golds)


def f1(answer: str, golds: Iterable[str]) -> float:
    """Return the best F1 over the golds, in [0, 1]: 2c/(|a| + |g|), c the words in common."""
    return max((_f1(normalised(answer), normalised(gold)) for gold in golds), default=0.0)


def _f1(answer: str, gold: str) -> float:
    if answer != gold and _CLOSED & {answer, gold}:
        return 0.0
    words, wanted = Counter(answer.split()), Counter(gold.split())
    common = (words & wanted).total()
    return 2 * common / (words.total() + wanted.total()) if common else 0.0
