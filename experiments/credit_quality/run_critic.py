"""The critic that a run trained beside its policy, from the same checkpoint."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch.distributed.tensor import DTensor
from transformers import AutoConfig, AutoModelForTokenClassification

from experiments.credit_quality.policy_model import places, rows
from rollouts.episode import Episode

WEIGHTS = "model_world_size_1_rank_0.pt"  # verl's name of them


def critic_file(policy: str) -> Path | None:
    """The weights of the critic of the checkpoint whose policy lies in ``policy`` (``global_step_N/actor/huggingface``). None: the run
    has none, or one that is spread over several devices."""
    file = Path(policy).parents[1] / "critic" / WEIGHTS
    return file if file.exists() else None


class RunCritic:
    """Of several heads it is the first."""

    def __init__(self, file: Path) -> None:
        """Raises: RuntimeError: the weights are not those of its config."""
        state = torch.load(file, weights_only=True, map_location="cpu")
        whole = {name: value.to_local() if isinstance(value, DTensor) else value for name, value in state.items()}
        config = AutoConfig.from_pretrained(file.parent / "huggingface", num_labels=len(whole["score.bias"]))
        self.model = AutoModelForTokenClassification.from_config(config, dtype=torch.float32).eval()
        self.model.load_state_dict(whole)

    @torch.no_grad()
    def values(self, episode: Episode) -> np.ndarray:
        """(tokens,) before each action token."""
        placed = [places(row) for row in rows([episode])]
        return np.concatenate([self.model(input_ids=ids).logits[0, at, 0].numpy() for ids, at in placed])
