"""A model behind an OpenAI-compatible chat endpoint as a policy: text in, text out."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from turngrid.envs.functions import Function
from turngrid.envs.types import Call
from turngrid.envs.utils.printable import chat_text, printable
from turngrid.rollouts.policy import Reply, TurnContext
from turngrid.rollouts.prompt_forms.tool_call import read_calls
from turngrid.rollouts.stream import Message, in_words, joined, runs

if TYPE_CHECKING:
    import httpx

RETRIES = 3
WAIT_S = 1.0  # seconds before the first retry; doubles with each further one
RETRIED = (408, 409, 429)  # and every 5xx
SEED_BITS = 31  # accepted by every server


class EndpointError(RuntimeError):
    """The endpoint is unusable or does not answer as a chat endpoint; the message is one line."""


@dataclass(frozen=True)
class Endpoint:
    """A chat endpoint.

    Args:
        url: the address up to ``/v1``, inclusive.
        key_env: name of the environment variable that holds the key; "" if none is needed.
        timeout_s: limit of one request, in seconds.
        tools: send an environment's functions in the API's ``tools`` field.

    Raises:
        EndpointError: ``url`` is not an address, ``model`` is empty, or the variable is not set.
    """

    url: str
    model: str
    key_env: str = ""
    timeout_s: float = 120.0
    tools: bool = False

    def __post_init__(self) -> None:
        if not self.url.startswith(("http://", "https://")):
            raise EndpointError(f"endpoint={self.url} must be an address such as http://localhost:8000/v1")
        if not self.model:
            raise EndpointError(f"endpoint={self.url} needs endpoint_model=NAME, the model to ask there")
        if self.key_env and not os.environ.get(self.key_env):
            raise EndpointError(f"key_env={self.key_env}: that environment variable is not set")

    def client(self) -> httpx.AsyncClient:
        """Return a client for all requests of an event loop; the caller closes it."""
        import httpx

        key = os.environ.get(self.key_env, "") if self.key_env else ""
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        return httpx.AsyncClient(base_url=self.url.rstrip("/"), headers=headers, timeout=self.timeout_s)


@dataclass
class ChatPolicy:
    """Sends the whole conversation each turn; the reply is the policy's answer.

    If the endpoint calls a conversation too long, the episode ends as out of context.

    Args:
        max_tokens: limit of an answer.
        template_kwargs: variables of the chat template; vLLM's and SGLang's servers accept them.
        wait_s: seconds before a failed request is sent again.
        marks: text that a message may contain although it looks like a control token.
        functions: sent as the API's ``tools``.

    Raises:
        EndpointError: no usable answer after all retries.
    """

    endpoint: Endpoint
    client: httpx.AsyncClient
    temperature: float
    max_tokens: int
    run_seed: int = 0
    template_kwargs: Mapping[str, Any] = field(default_factory=dict)
    wait_s: float = WAIT_S
    marks: Sequence[str] = ()
    functions: Sequence[Function] = ()
    name: str = field(init=False)

    def __post_init__(self) -> None:
        self.name = self.endpoint.model

    async def act(self, context: TurnContext) -> Reply:
        reply = await self._ask(self._body(context.messages, context.seed(self.run_seed) % 2**SEED_BITS))
        if reply is None:
            return Reply(text="", out_of_context=True)
        return Reply(text=printable(_content(reply, self.endpoint)).strip())

    def _body(self, messages: Sequence[Message], seed: int) -> dict[str, Any]:
        clean = [{**message, "content": chat_text(message["content"], self.marks)} for message in messages]
        body: dict[str, Any] = {
            "model": self.endpoint.model,
            "messages": as_calls(clean) if self.functions else [each for run in runs(clean) for each in in_words(run)],
            "temperature": self.temperature,
            "max_tokens": self.max_tokens,
            "seed": seed,
        }
        if self.functions:
            body["tools"] = [function.tool for function in self.functions]
        return {**body, "chat_template_kwargs": dict(self.template_kwargs)} if self.template_kwargs else body

    async def _ask(self, body: dict[str, Any]) -> Any:
        """Return the reply, or None if the conversation is too long."""
        trouble = ""
        for retry in range(RETRIES + 1):
            if retry:
                await asyncio.sleep(self.wait_s * 2 ** (retry - 1))
            trouble, answer = await self._send(body)
            if not trouble:
                return answer
        raise EndpointError(f"{self.endpoint.url} failed {RETRIES + 1} times, last: {trouble}")

    async def _send(self, body: dict[str, Any]) -> tuple[str, Any]:
        """Return a temporary error ("" if there is none) and the reply."""
        import httpx

        try:
            reply = await self.client.post("/chat/completions", json=body)
        except httpx.HTTPError as error:
            return f"{type(error).__name__} {error}".strip(), None
        if reply.status_code in RETRIED or reply.status_code >= 500:
            return f"status {reply.status_code}", None
        if reply.status_code == 400 and "context" in reply.text and "length" in reply.text:
            return "", None
        if reply.status_code != 200:
            words = " ".join(reply.text.split())[:200]
            raise EndpointError(f"{self.endpoint.url} answered {reply.status_code} to {self.endpoint.model}: {words}")
        try:
            return "", reply.json()
        except ValueError as error:
            raise EndpointError(f"{self.endpoint.url} did not answer in JSON") from error


def _content(reply: Any, endpoint: Endpoint) -> str:
    """Return the text of the first choice, calls included; it may be empty."""
    try:
        return as_text(reply["choices"][0]["message"])
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise EndpointError(f"{endpoint.url} answered without a message; is that address a chat endpoint?") from error


def as_text(answer: Mapping[str, Any]) -> str:
    """Return an answer's words, then its calls in JSON.

    Raises:
        KeyError, TypeError: the answer does not have the API's structure.
    """
    calls = [call["function"] for call in answer.get("tool_calls") or ()]
    # without arguments, some servers send "", null or no field
    written = [{"name": call["name"], "arguments": _read(call.get("arguments") or "{}")} for call in calls]
    lines = [str(answer.get("content") or ""), *(json.dumps(call, ensure_ascii=False) for call in written)]
    return "\n".join(line for line in lines if line)


def _read(arguments: Any) -> Any:
    """Decode arguments from the API's JSON string; return invalid JSON unchanged."""
    try:
        return json.loads(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        return arguments


def as_calls(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Write earlier answers as ``tool_calls`` if a message follows each call, as its result."""
    converted: list[dict[str, Any]] = []
    ids: list[str] = []
    parts = list(runs(messages))
    for run, following in zip(parts, [*parts[1:], []], strict=True):
        called = read_calls(joined(run)) if run[0]["role"] == "assistant" else None
        if called and len(called.calls) == len(following):
            # Mistral's templates require nine letters and digits
            ids = [f"call{len(converted):03d}{number:02d}" for number in range(len(called.calls))]
            calls = [_tool_call(*pair) for pair in zip(ids, called.calls, strict=True)]
            converted.append({"role": "assistant", "content": called.thought, "tool_calls": calls})
        elif ids:
            results = zip(ids, run, strict=True)
            converted += [{"role": "tool", "tool_call_id": name, "content": each["content"]} for name, each in results]
            ids = []
        else:
            converted += in_words(run)
    return converted


def _tool_call(name: str, call: Call) -> dict[str, Any]:
    arguments = json.dumps(dict(call.arguments), ensure_ascii=False)
    return {"id": name, "type": "function", "function": {"name": call.name, "arguments": arguments}}
