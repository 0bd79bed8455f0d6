"""A model as transformers runs it, beside which our server and verl's engines are tested."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM

TINY = str(Path(__file__).parents[2] / "assets" / "tiny")


class Plain:
    """The model as transformers runs it: one row, no cache of ours, no padding."""

    def __init__(self, path: str = TINY, model: Any = None) -> None:
        self.model = model or AutoModelForCausalLM.from_pretrained(path, attn_implementation="eager").eval()

    @torch.no_grad()
    def greedy(self, ids: Sequence[int], limit: int, **ends: Any) -> list[int]:
        prompt = torch.tensor([list(ids)], device=self.model.device)
        settings = {"attention_mask": torch.ones_like(prompt), "max_new_tokens": limit, "do_sample": False}
        output = self.model.generate(prompt, **settings, **ends)
        return output[0, len(ids) :].tolist()

    @torch.no_grad()
    def log_probs(self, ids: Sequence[int], answer: Sequence[int], temperature: float = 1.0) -> torch.Tensor:
        """Of ``answer`` after ``ids``, in nats, from one forward pass."""
        rows = torch.tensor([[*ids, *answer]], device=self.model.device)
        logits = self.model(rows).logits[0, len(ids) - 1 : -1].float().cpu()
        return (logits / (temperature or 1.0)).log_softmax(-1).gather(1, torch.tensor(answer)[:, None]).squeeze(1)

    def learn(self, rows: Sequence[Sequence[int]]) -> None:
        """One step of AdamW towards these rows: new weights as training makes them."""
        optimiser = torch.optim.AdamW(self.model.parameters(), lr=3e-3)
        loss = sum(self.model(torch.tensor([row]), labels=torch.tensor([row])).loss for row in rows)
        loss.backward()  # type: ignore[union-attr]
        optimiser.step()
        self.model.zero_grad()
