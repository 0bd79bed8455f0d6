"""Clients of rollout servers for asynchronous trainers, and our server's registration."""

import importlib

from verl.workers.rollout.llm_server import FullyAsyncLLMServerClient
from verl.workers.rollout.replica import RolloutReplicaRegistry


class EpisodeClient(FullyAsyncLLMServerClient):
    """The client of our own server, which caches an episode's prefix under its request id."""

    def _vllm_request_id(self, request_id: str) -> str:
        """All turns of an episode have one id; verl gives each turn its own."""
        return request_id


def client_class(server: str) -> type[FullyAsyncLLMServerClient]:
    """Return the client for a server by verl's ``rollout.name``."""
    return EpisodeClient if server == "transformers" else FullyAsyncLLMServerClient


REPLICA = "turngrid.verl_plugin.servers.transformers_server.replica"
RolloutReplicaRegistry.register("transformers", lambda: importlib.import_module(REPLICA).TransformersReplica)
