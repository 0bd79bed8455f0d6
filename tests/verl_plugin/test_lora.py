"""LoRA in verl's FSDP2 engine: adapters, what leaves the engine, what it saves and loads."""

from pathlib import Path
from typing import Any

import pytest
import torch
from engine_probe import TINY, make_engine
from peft import PeftModel
from safetensors.torch import save_file
from test_engines import played, policy_gradient, with_advantages
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoModelForTokenClassification

from turngrid.records.models.locate import ModelError, load_whole, resolve_model
from turngrid.verl_plugin.lora import merged, scaling
from turngrid.verl_plugin.servers.transformers_server.generator import Generator

pytestmark = pytest.mark.usefixtures("one_process")
LORA = {"lora_rank": 4, "lora_alpha": 8, "lora": {"merge": True}}
IDS = torch.arange(4, 68).reshape(2, 32)


def trained(seed: int = 0, **keys: Any) -> Any:
    """An engine whose adapters are no longer 0."""
    engine = make_engine(**{**LORA, **keys})
    torch.manual_seed(seed)
    with torch.no_grad():
        for name, parameter in engine.module.named_parameters():
            if ".lora_B." in name:
                parameter.normal_(std=0.05)
    return engine


def logits(model: Any) -> Tensor:
    with torch.no_grad():
        return model.double().eval()(IDS).logits


def state_of(engine: Any) -> dict[str, Tensor]:
    return {name: tensor.full_tensor().clone() for name, tensor in engine.module.state_dict().items()}


@pytest.fixture(scope="module")
def saved(one_process: None, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    """An engine and its checkpoint."""
    engine, folder = trained(), tmp_path_factory.mktemp("checkpoint")
    engine.save_checkpoint(str(folder), global_step=1)
    return engine, folder


def test_merged_and_adapter_give_the_same_logits(saved: tuple[Any, Path]) -> None:
    """In float64, of all the vocabulary; what was saved in fp32 is off by its rounding alone."""
    engine, folder = saved
    state = {name: tensor.double() for name, tensor in state_of(engine).items()}
    in_memory, plain, base = (AutoModelForCausalLM.from_pretrained(TINY, dtype=torch.float64) for _ in range(3))
    in_memory.load_state_dict(dict(merged(state, scaling(engine.module))))
    wanted = logits(PeftModel.from_pretrained(plain, str(folder / "lora_adapter")))
    assert (wanted - logits(base)).abs().max() > 0.1, "an adapter that does nothing shows nothing"
    torch.testing.assert_close(logits(in_memory), wanted, atol=1e-10, rtol=0)
    loaded = load_whole(AutoModelForCausalLM, str(folder / "huggingface"), dtype=torch.float64)
    torch.testing.assert_close(logits(loaded), wanted, atol=1e-5, rtol=0)


def test_the_server_is_sent_what_the_trainer_computes_with() -> None:
    """Played with merged weights, judged with base and adapter apart."""
    engine = trained()
    before = state_of(engine)
    batch, behaviour = played(engine)
    with engine.eval_mode():
        judged = engine.infer_batch(batch)["model_output"]["log_probs"]
        with engine.disable_adapter():
            of_base = engine.infer_batch(batch)["model_output"]["log_probs"]
    for row, base, result in zip(judged.unbind(), of_base.unbind(), behaviour, strict=True):
        of_actions = slice(-len(result.logprobs) - 1, -1)
        torch.testing.assert_close(row[of_actions], torch.tensor(result.logprobs), atol=1e-5, rtol=0)
        assert (row - base)[of_actions].abs().max() > 1e-3
    after = state_of(engine)
    assert all(torch.equal(before[name], after[name]) for name in before), "sending leaves the engine as it was"


def test_adapters_come_from_the_runs_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    def drawn(seed: str) -> Tensor:
        monkeypatch.setenv("TURNGRID_SEED", seed)
        state = state_of(make_engine(**LORA))
        return torch.cat([tensor.flatten() for name, tensor in state.items() if ".lora_A." in name])

    first, again, other = drawn("1"), drawn("1"), drawn("2")
    assert torch.equal(first, again) and not torch.equal(first, other)


def test_adapters_alone_are_trained_and_a_resumed_engine_goes_on_with_the_same_bytes(tmp_path: Path) -> None:
    def step(engine: Any) -> None:
        engine.optimizer_zero_grad()
        with engine.train_mode():
            engine.forward_backward_batch(batch, policy_gradient)
            engine.optimizer_step()

    unbroken = trained()
    batch = with_advantages(played(unbroken)[0], [1.0, 0.0, -0.5])
    start = state_of(unbroken)
    step(unbroken)
    unbroken.save_checkpoint(str(tmp_path / "1"), global_step=1)
    step(unbroken)
    unbroken.save_checkpoint(str(tmp_path / "2"), global_step=2)
    moved = {name for name, tensor in state_of(unbroken).items() if not torch.equal(tensor, start[name])}
    assert moved == {name for name in start if ".lora_" in name}
    resumed = make_engine(**LORA)
    resumed.load_checkpoint(str(tmp_path / "1"))
    step(resumed)
    resumed.save_checkpoint(str(tmp_path / "again"), global_step=2)
    files = (
        "huggingface/model.safetensors",
        "lora_adapter/adapter_model.safetensors",
        "lora_adapter/adapter_config.json",
    )
    for name in files:
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "2" / name).read_bytes(), name


@pytest.mark.filterwarnings("ignore:Model has `tie_word_embeddings=True`:UserWarning:peft.tuners.tuners_utils")
def test_layers_that_cannot_be_merged_are_refused() -> None:
    with pytest.raises(ModelError, match=r"model\.embed_tokens is no linear layer"):
        make_engine(**LORA, target_modules=["embed_tokens"])


# ---- models are loaded whole


def lacking(folder: Path, without: str, more: str = "") -> str:
    model = AutoModelForCausalLM.from_pretrained(TINY)
    state = {name: tensor for name, tensor in model.state_dict().items() if name not in (without, "lm_head.weight")}
    model.save_pretrained(folder)
    save_file(state | ({more: torch.zeros(1)} if more else {}), folder / "model.safetensors", metadata={"format": "pt"})
    return str(folder)


def test_one_weight_too_few_or_too_many_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"lacks model\.norm\.weight: .*Qwen3ForCausalLM"):
        Generator.from_pretrained(lacking(tmp_path / "less", "model.norm.weight"))
    with pytest.raises(ModelError, match=r"has unknown model\.abnorm\.weight"):
        make_engine(path=lacking(tmp_path / "more", "", "model.abnorm.weight"))


def test_a_new_head_may_be_missing_and_nothing_else() -> None:
    load_whole(AutoModelForTokenClassification, TINY, head=("score.",), num_labels=1)
    with pytest.raises(ModelError, match=r"lacks score\.bias, score\.weight"):
        load_whole(AutoModelForTokenClassification, TINY, num_labels=1)


def test_an_adapter_is_no_model(saved: tuple[Any, Path]) -> None:
    with pytest.raises(ModelError, match="a PEFT adapter.*merge it"):
        resolve_model(str(saved[1] / "lora_adapter"))
