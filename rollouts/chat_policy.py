"""A model behind an OpenAI-compatible chat endpoint as a policy: text in, text out."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from envs.chat_text import chat_text
from envs.functions import Function
from envs.printable import printable
from rollouts.chat_tools import as_calls, as_text, tool
from rollouts.policy import Action, TurnContext
from rollouts.prompts import Message
from rollouts.seeds import request_seed

if TYPE_CHECKING:
    import httpx

RETRIES = 3
WAIT_S = 1.0  # before the first retry; twice as long before each further one
RETRIED = (408, 409, 429)  # and every 5xx: the server's trouble, not ours
SEED_BITS = 31  # what any server takes


class EndpointError(RuntimeError):
    """The endpoint cannot be asked, or does not answer as a chat endpoint does; the message is one line."""


@dataclass(frozen=True)
class Endpoint:
    """``url`` up to and with ``/v1``; ``key_env`` names the environment variable that holds the key, "" where none is
    wanted. ``timeout_s`` bounds one request. ``tools``: it is offered an environment's functions by the API's own field.

    Raises:
        EndpointError: ``url`` is no address, ``model`` is empty, or the variable is not set.
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
        """One for all requests of an event loop; to be closed by whoever asked for it."""
        import httpx

        key = os.environ.get(self.key_env, "") if self.key_env else ""
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        return httpx.AsyncClient(base_url=self.url.rstrip("/"), headers=headers, timeout=self.timeout_s)


@dataclass
class ChatPolicy:
    """Sends the whole conversation each turn and plays the answer. A conversation that the endpoint calls too long ends the
    episode as out of context.

    ``max_tokens`` bounds an answer; ``template_kwargs`` are settings of the chat template, which vLLM's and SGLang's servers
    take with a request; ``wait_s`` is the pause before a failed request is sent again. ``marks``: what a message may say although it
    is spelled like a control token (``rollouts.prompt_forms``). ``functions``: offered as the API's ``tools``.

    Raises:
        EndpointError: no usable answer, at any try.
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

    async def act(self, context: TurnContext) -> Action:
        seed = request_seed(self.run_seed, context.step, context.prompt, context.sample, context.turn)
        reply = await self._ask(self._body(context.messages, seed % 2**SEED_BITS))
        if reply is None:
            return Action(text="", out_of_context=True)
        return Action(text=printable(_content(reply, self.endpoint)).strip())

    def _body(self, messages: Sequence[Message], seed: int) -> dict[str, Any]:
        said = [{**message, "content": chat_text(message["content"], self.marks)} for message in messages]
        body: dict[str, Any] = {
            "model": self.endpoint.model,
            "messages": as_calls(said) if self.functions else said,
            "temperature": self.temperature,
            "max_tokens": self.max_tokens,
            "seed": seed,
        }
        if self.functions:
            body["tools"] = [tool(function) for function in self.functions]
        return {**body, "chat_template_kwargs": dict(self.template_kwargs)} if self.template_kwargs else body

    async def _ask(self, body: dict[str, Any]) -> Any:
        """The answer; None where the conversation no longer fits."""
        trouble = ""
        for retry in range(RETRIES + 1):
            if retry:
                await asyncio.sleep(self.wait_s * 2 ** (retry - 1))
            trouble, answer = await self._send(body)
            if not trouble:
                return answer
        raise EndpointError(f"{self.endpoint.url} failed {RETRIES + 1} times, last: {trouble}")

    async def _send(self, body: dict[str, Any]) -> tuple[str, Any]:
        """(what may pass if tried again, the answer)."""
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
            raise EndpointError(f"{self.endpoint.url} answered something that is not JSON") from error


def _content(reply: Any, endpoint: Endpoint) -> str:
    """The text of the first choice, calls included; a model may say nothing."""
    try:
        return as_text(reply["choices"][0]["message"])
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise EndpointError(f"{endpoint.url} answered without a message; is that address a chat endpoint?") from error
