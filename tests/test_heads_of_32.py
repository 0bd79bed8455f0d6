"""The model of the vLLM tests is tiny in other clothes, but for the epsilon of its norms (logits go
up to 26)."""

from pathlib import Path

import torch
from heads_of_32 import TINY, model_with_heads_of_32
from transformers import AutoModelForCausalLM


def test_it_computes_what_tiny_computes(tmp_path: Path) -> None:
    tiny = AutoModelForCausalLM.from_pretrained(TINY)
    wide = AutoModelForCausalLM.from_pretrained(model_with_heads_of_32(tmp_path / "wide"))
    ids = torch.randint(3, 1600, (2, 200), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        torch.testing.assert_close(wide(ids).logits, tiny(ids).logits, atol=2e-3, rtol=0)
