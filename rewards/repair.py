"""Rewards of repaired repositories, on the last turn: by the tests that pass, or by a judge."""

import abc
import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from turngrid.envs.repair.score import Counts
from turngrid.envs.types import EnvError
from turngrid.envs.utils.printable import chat_text
from turngrid.rewards.declared import number
from turngrid.rewards.reward import ScoredTurn, on_last


class _LastTurn(abc.ABC):
    """Base of rewards by the tests' counts, ``info["tests"]``; 0 if an episode was never graded."""

    name: ClassVar[str]

    def turn_rewards(self, turns: Sequence[ScoredTurn], won: bool, max_score: float) -> list[float]:
        counts = turns[-1].info.get("tests") if turns else None
        return on_last(turns, self._value(Counts(**counts), won) if counts else 0.0)

    @abc.abstractmethod
    def _value(self, counts: Counts, won: bool) -> float: ...


class Binary(_LastTurn):
    """1 if every FAIL_TO_PASS and PASS_TO_PASS test passes and the test run completed."""

    name = "binary"

    def _value(self, counts: Counts, won: bool) -> float:
        return float(won and counts.resolved)


class Ratio(_LastTurn):
    """Share of FAIL_TO_PASS tests repaired less share of PASS_TO_PASS tests broken, at least 0."""

    name = "ratio"

    def _value(self, counts: Counts, won: bool) -> float:
        return counts.ratio


class PassRatioReference(_LastTurn):
    """The formula of the study's released code, for comparison: passing tests / all tests.

    An untouched repository gets PASS_TO_PASS / all, nearly 1 if most tests never failed.
    """

    name = "pass_ratio_reference"

    def _value(self, counts: Counts, won: bool) -> float:
        return counts.pass_ratio


_ANSWER = re.compile(r"\s*(?:score\s*[:=]\s*)?(0(?:\.\d+)?|1(?:\.0+)?|\.\d+)\s*\.?\s*", re.IGNORECASE)
_SHOWN_CHARS = 8000
_WAIT_S = 1.0
_ASK = (
    "You grade a change to a Python repository. Answer with one number between 0 and 1 and nothing else: 1 for a "
    "change that repairs what is described and breaks nothing, 0 for one that repairs nothing."
)


class JudgeError(EnvError):
    """The judge did not answer with a score, so the episode fails."""


@dataclass(frozen=True)
class JudgeSettings:
    """The settings of conf/reward/judge.yaml."""

    url: str
    model: str
    key_env: str
    timeout_s: float = number(0.1, 86400)
    retries: int = number(0, 1000)


class Judge:
    """The judge's score in [0, 1] on the last turn; 0, without a request, if nothing was changed.

    Raises:
        JudgeError: no attempt gave a usable answer.
    """

    name: ClassVar[str] = "judge"
    blocking: ClassVar[bool] = True
    Settings: ClassVar[type] = JudgeSettings

    def __init__(self, settings: JudgeSettings) -> None:
        self.settings = settings

    def turn_rewards(self, turns: Sequence[ScoredTurn], won: bool, max_score: float) -> list[float]:
        if not turns:
            return []
        patch = str(turns[-1].info.get("patch", ""))
        score = self.ask(str(turns[-1].info.get("problem", "")), patch) if patch else 0.0
        return on_last(turns, score)

    def problem(self) -> str:
        """Return what is wrong with the settings, or ""."""
        if not self.settings.url.startswith(("http://", "https://")):
            return f"reward=judge needs turn_reward.url=http(s)://HOST/v1, not {self.settings.url!r}"
        if self.settings.key_env and not os.environ.get(self.settings.key_env):
            return f"turn_reward.key_env names {self.settings.key_env}, which is not set"
        return ""

    def ask(self, problem: str, patch: str) -> float:
        """Return the judge's score of one change; wait a second longer before each retry."""
        for retry in range(self.settings.retries):
            try:
                return _score(self._send(problem, patch))
            except JudgeError:
                time.sleep(_WAIT_S * (retry + 1))
        return _score(self._send(problem, patch))

    def _send(self, problem: str, patch: str) -> Any:
        import httpx  # here: the other rewards need none

        url, key = self.settings.url, os.environ.get(self.settings.key_env or "", "")
        task = f"What is wrong:\n{problem[:_SHOWN_CHARS]}\n\nThe change:\n{patch[:_SHOWN_CHARS]}"
        messages = [{"role": "system", "content": _ASK}, {"role": "user", "content": chat_text(task)}]
        body = {"model": self.settings.model, "messages": messages, "temperature": 0, "max_tokens": 16}
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        try:
            address = f"{url.rstrip('/')}/chat/completions"
            reply = httpx.post(address, json=body, headers=headers, timeout=self.settings.timeout_s)
            if not reply.is_success:  # includes redirections, which are not followed
                raise JudgeError(f"the judge at turn_reward.url={url} answered {reply.status_code}")
            return reply.json()
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
            raise JudgeError(f"the judge at turn_reward.url={url} did not answer: {error}") from error


def _score(reply: Any) -> float:
    try:
        text = reply["choices"][0]["message"]["content"]
    except (KeyError, IndexError, TypeError) as error:
        raise JudgeError("the judge at turn_reward.url sent no chat completion") from error
    match = _ANSWER.fullmatch(text) if isinstance(text, str) else None
    if not match:
        raise JudgeError(f"the judge at turn_reward.url answered {str(text)[:80]!r}, which is no number from 0 to 1")
    return float(match[1])
