"""``assets/tiny`` with attention heads of 32 numbers instead of 16, where vLLM's CPU kernels start.
It computes the same."""

import shutil
from pathlib import Path

import torch
from transformers import AutoConfig, AutoModelForCausalLM

TINY = Path(__file__).parents[1] / "assets" / "tiny"
OLD, NEW = 16, 32
# RoPE turns numbers i and i + size/2 of a head by an angle that falls with i/size: each keeps its
# angle at twice its place
TURNED = [2 * i for i in range(OLD // 2)] + [NEW // 2 + 2 * i for i in range(OLD // 2)]
STRAIGHT = list(range(OLD))
ROOT_2 = 2**0.5


def model_with_heads_of_32(folder: Path) -> Path:
    """Tiny, its tokenizer and generation config, in ``folder``, which is returned. The new numbers
    are zero and stay so in training, since nothing that reads them has a weight."""
    shutil.copytree(TINY, folder, dirs_exist_ok=True)
    tiny = AutoModelForCausalLM.from_pretrained(TINY, dtype=torch.float32)
    wide = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(TINY, head_dim=NEW), dtype=torch.float32)
    wide.load_state_dict({name: widened(name, value) for name, value in tiny.state_dict().items()})
    wide.save_pretrained(folder)
    return folder


def widened(name: str, value: torch.Tensor) -> torch.Tensor:
    """The norms divide by the root of a mean over twice as many numbers, half of them zero; and
    attention divides by the root of the heads' size."""
    kind = name.split(".")[-2]
    if kind in ("q_proj", "k_proj"):
        return spread(value, TURNED)
    if kind == "v_proj":
        return spread(value, STRAIGHT)
    if kind == "o_proj":
        return spread(value.T, STRAIGHT).T
    if kind in ("q_norm", "k_norm"):
        return spread(value[:, None], TURNED)[:, 0] / (ROOT_2 if kind == "k_norm" else 1.0)
    return value


def spread(rows: torch.Tensor, places: list[int]) -> torch.Tensor:
    """Each head's rows at these places of a wider head, zeros between. (heads * 16, n) -> (heads *
    32, n)"""
    wide = torch.zeros(len(rows) // OLD, NEW, rows.shape[1])
    wide[:, places] = rows.reshape(-1, OLD, rows.shape[1])
    return wide.reshape(-1, rows.shape[1])
