"""The SFT stage with verl's own trainer: same seed, same weights; a kill in the middle changes
nothing."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from omegaconf import DictConfig, OmegaConf
from safetensors.torch import load_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from turngrid.experiments.stages import sft
from turngrid.rollouts.episode import Episode, Outcome, Turn
from turngrid.rollouts.store import write_episodes
from turngrid.tasks.run import Run
from turngrid.verl_plugin.rollout.token_stream import TokenCodec
from turngrid.verl_plugin.sft_rows import EpisodeRows

TEMPLATE = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
DEMONSTRATIONS = 10


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A byte-level qwen3 of 60k parameters."""
    folder = tmp_path_factory.mktemp("model")
    core = Tokenizer(models.BPE({c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}, []))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens([AddedToken(f"<|{name}|>", special=True) for name in ("endoftext", "im_start", "im_end")])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core, pad_token="<|endoftext|>", eos_token="<|im_end|>", chat_template=TEMPLATE
    )
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    ends = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id, "bos_token_id": None}
    heads = {"num_key_value_heads": 2, "head_dim": 16, "tie_word_embeddings": True}
    Qwen3ForCausalLM(Qwen3Config(vocab_size=len(tokenizer), **shape, **heads, **ends)).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def demonstrations(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Played in text: the stage fills the token ids in."""
    path = tmp_path_factory.mktemp("episodes") / "demonstrations.jsonl"
    write_episodes(path, [demonstration(index) for index in range(DEMONSTRATIONS)])
    return path


def demonstration(index: int) -> Episode:
    texts = [(f"you see door {index}.", "open door"), ("it is open.", f"go {'north' if index % 2 else 'south'}")]
    pairs = [
        [{"role": "user", "content": f"{seen}\nYour action:"}, {"role": "assistant", "content": did}]
        for seen, did in texts
    ]
    return Episode(
        task=f"doors/{index}",
        seed=index,
        split="demonstrations",
        goal="leave",
        messages=[message for pair in pairs for message in pair],
        prompt_ids=[],
        turns=[Turn(observation=seen, action=did, sampled=False) for seen, did in texts],
        outcome=Outcome.WON,
        policy="expert",
    )


def config(seed: int = 0) -> DictConfig:
    """The part of a run's config that the stage reads."""
    engine = {"strategy": "fsdp2", "mixed_precision": {"param_dtype": "fp32"}, "use_torch_compile": False}
    model_node = {
        "trust_remote_code": False,
        "override_config": {"attn_implementation": "sdpa"},
        "enable_gradient_checkpointing": False,
        "use_remove_padding": False,
        "lora_rank": 0,
    }
    return OmegaConf.create(
        {
            "seed": seed,
            "env": {},
            "model": {
                "sft": {"lr": 1e-2, "epochs": 2, "batch_size": 4, "weight_decay": 0.0, "tokens_per_pass": 8192},
            },
            "data": {"max_prompt_length": 256, "max_response_length": 256},
            "actor_rollout_ref": {"actor": {"fsdp_config": engine}, "model": model_node},
            "trainer": {"device": "cpu", "n_gpus_per_node": 1, "project_name": "test", "logger": ["console"]},
            "tracking": {},
        }
    )


@pytest.fixture(scope="module")
def trained(model: Path, demonstrations: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run with a space")
    sft.train(Run(config(), folder), demonstrations, str(model))
    return folder


def losses(folder: Path) -> list[float]:
    lines = (folder / "sft" / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line)["sft/loss"] for line in lines]


def weights(folder: Path) -> bytes:
    return (folder / "sft" / "model" / "model.safetensors").read_bytes()


def test_every_demonstration_of_every_epoch_is_used_and_the_loss_falls(trained: Path) -> None:
    assert len(losses(trained)) == 2 * 3  # 10 episodes in batches of 4, 4 and 2
    assert losses(trained)[-1] < losses(trained)[0] - 0.5


def test_the_first_loss_is_the_cross_entropy_of_the_action_tokens(trained: Path, model: Path) -> None:
    """Computed here, on the four episodes that seed 0 puts first."""
    codec = TokenCodec(AutoTokenizer.from_pretrained(model), "qwen3")
    rows = EpisodeRows([demonstration(index) for index in range(DEMONSTRATIONS)], codec, max_tokens=512)
    policy = AutoModelForCausalLM.from_pretrained(model)
    order = torch.randperm(DEMONSTRATIONS, generator=torch.Generator().manual_seed(0))
    nll = torch.cat([action_nll(policy, rows[index]) for index in order[:4].tolist()])
    assert losses(trained)[0] == pytest.approx(nll.mean().item(), rel=1e-5)


@torch.no_grad()
def action_nll(policy: torch.nn.Module, row: dict[str, torch.Tensor]) -> torch.Tensor:
    log_probs = policy(row["input_ids"][None]).logits[0, :-1].log_softmax(-1)
    nll = -log_probs.gather(1, row["input_ids"][1:, None]).flatten()
    return nll[row["loss_mask"][1:] == 1]


def test_the_result_loads_as_a_model_in_full_precision(trained: Path, model: Path) -> None:
    folder = trained / "sft" / "model"
    loaded = AutoModelForCausalLM.from_pretrained(folder, dtype="auto")
    assert loaded.dtype == torch.float32
    saved, before = load_file(folder / "model.safetensors"), load_file(model / "model.safetensors")
    assert all(torch.equal(tensor, loaded.state_dict()[name]) for name, tensor in saved.items())
    assert not torch.equal(saved["model.norm.weight"], before["model.norm.weight"])
    assert AutoTokenizer.from_pretrained(folder).eos_token == "<|im_end|>"


def test_a_second_call_does_nothing(trained: Path, model: Path, demonstrations: Path) -> None:
    stamp = (trained / "sft" / "model").stat().st_mtime_ns
    assert sft.train(Run(config(), trained), demonstrations, str(model)) == trained / "sft" / "model"
    assert (trained / "sft" / "model").stat().st_mtime_ns == stamp


DRIVER = """
import sys, time
from pathlib import Path
from turngrid.experiments.stages import sft
from turngrid.tasks.run import Run
folder, episodes, model = sys.argv[1:]
sft._publish = lambda stage: time.sleep(1000)  # the kill comes before the model is there, however late it is
sft.train(Run.read(Path(folder)), Path(episodes), model)
"""


@pytest.mark.slow  # two more starts of the stage; the kill of a whole run in RL is in test_whole_run.py
def test_killed_in_the_middle_then_run_again_gives_the_same_weights(
    trained: Path, model: Path, demonstrations: Path, tmp_path: Path
) -> None:
    """The driver is killed with -9 once the first step is logged: its child dies too, and the rest
    is as if unbroken."""
    OmegaConf.save(config(), tmp_path / "config.yaml")
    command = [sys.executable, "-c", DRIVER, str(tmp_path), str(demonstrations), str(model)]
    driver = subprocess.Popen(command, cwd=Path(__file__).parents[2], stderr=subprocess.DEVNULL)
    metrics = tmp_path / "sft" / "metrics.jsonl"
    while not metrics.exists() and driver.poll() is None:
        time.sleep(0.01)
    children = Path(f"/proc/{driver.pid}/task/{driver.pid}/children").read_text().split()  # stage and reaper
    os.kill(driver.pid, signal.SIGKILL)
    driver.wait()
    assert all(gone(int(child)) for child in children)
    assert not (tmp_path / "sft" / "model").exists()
    sft.train(Run(config(), tmp_path), demonstrations, str(model))
    assert weights(tmp_path) == weights(trained)
    assert losses(tmp_path) == losses(trained)


def gone(pid: int, seconds: float = 100) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        status = Path(f"/proc/{pid}/stat")
        if not status.exists() or status.read_text().split()[2] == "Z":
            return True
        time.sleep(0.05)
    return False


@pytest.mark.slow
def test_another_seed_gives_another_order(model: Path, demonstrations: Path, trained: Path, tmp_path: Path) -> None:
    sft.train(Run(config(seed=1), tmp_path), demonstrations, str(model))
    assert losses(tmp_path) != losses(trained)
