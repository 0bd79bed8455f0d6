"""verl's clients of rollout servers. That for asynchronous trainers goes on with an answer that new weights cut off."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from omegaconf import OmegaConf
from verl.workers.rollout.llm_server import FullyAsyncLLMServerClient, LLMServerClient


class KeptRoutes(LLMServerClient):
    """Asks the load balancer for a server once an episode, not at each turn: the episode stays with the server that has its prefix
    anyway, and each question costs about half of what the request itself does. For synchronous trainers, whose servers stay."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        rollout = OmegaConf.to_container(self.config.actor_rollout_ref.rollout, resolve=True)
        read = SimpleNamespace(rollout=SimpleNamespace(**rollout))  # three times a turn, which OmegaConf is slow at
        self.config = SimpleNamespace(actor_rollout_ref=read)
        self._routes: dict[str, tuple[str, Any]] = {}

    async def _acquire_server(self, request_id: str, **extra: Any) -> tuple[str, Any]:
        if route := self._routes.get(request_id):
            return route
        asked = await super()._acquire_server(request_id, **extra)
        route = self._routes.setdefault(request_id, asked)
        if route is not asked:  # two first turns at once: it is one episode all the same
            super()._release_server(asked[0], request_id)
        return route

    def _release_server(self, server_id: str, request_id: str | None = None) -> None:
        """``leave`` does, when the episode has ended."""

    def leave(self, request_id: str) -> None:
        """The episode asks no more: its server has one less."""
        if route := self._routes.pop(request_id, None):
            super()._release_server(route[0], request_id)


class EpisodeClient(FullyAsyncLLMServerClient):
    """For our own server, which keeps an episode's prefix under the id that all its turns share. verl gives each turn an id of
    its own, as vLLM needs it."""

    def _vllm_request_id(self, request_id: str) -> str:
        return request_id


def client_class(server: str) -> type[FullyAsyncLLMServerClient]:
    """``server``: verl's ``rollout.name``."""
    return EpisodeClient if server == "transformers" else FullyAsyncLLMServerClient
