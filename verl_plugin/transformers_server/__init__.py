"""A rollout server where there is no vLLM: plain transformers, on CPUs (``generator`` alone runs on a GPU too)."""
