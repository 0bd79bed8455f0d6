"""``precision=``: what a run on CPUs computes in, and that a run keeps it."""

import json
from pathlib import Path

import pytest
from omegaconf import DictConfig, OmegaConf

from turngrid.config import precision
from turngrid.config.checks.check import check
from turngrid.config.compose import compose
from turngrid.records.models.shape import PUBLISHED
from turngrid.records.run_folder import run_name

SMOL = "model=smollm2_135m"
HALVES = (
    "actor_rollout_ref.actor.fsdp_config.mixed_precision.param_dtype",
    "actor_rollout_ref.ref.fsdp_config.mixed_precision.param_dtype",
    "critic.fsdp.mixed_precision.param_dtype",
)


def on(monkeypatch: pytest.MonkeyPatch, instructions: str) -> None:
    monkeypatch.setattr(precision, "instructions", lambda: instructions)


def words(config: DictConfig) -> set[str]:
    """Of all engines and of the server, whose log-probs are the trainer's old ones."""
    correction = config.algorithm.rollout_correction
    assert (correction.bypass_mode, correction.rollout_is) == (True, None)
    assert {OmegaConf.select(config, key) for key in HALVES} == {config.cluster.computes_in}
    rollout = config.actor_rollout_ref.rollout
    assert rollout.checkpoint_engine.engine_kwargs.turngrid_ray.dtype == rollout.dtype
    return {config.cluster.computes_in, rollout.dtype}


def test_auto_follows_the_model_and_the_processor(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    here = f"output_dir={tmp_path}"
    on(monkeypatch, "AMX")
    tiny, large = compose([here]), compose([here, SMOL])
    assert words(tiny) == {"fp32", "float32"} and words(large) == {"bf16", "bfloat16"}
    assert precision.explained(tiny) == "computes in fp32: 0.315M parameters"
    assert precision.explained(large) == "computes in bf16: 134M parameters, and this processor has AMX"
    played = [precision.dtype(tiny, model) for model in ("asset://tiny", "packaged://smollm2_135m")]
    played.append(precision.dtype(large, "asset://tiny"))
    assert played == ["float32", "bfloat16", "float32"], "an evaluation may play models of other sizes"
    on(monkeypatch, "")
    older = compose([here, SMOL])
    assert words(older) == {"fp32", "float32"} and run_name(older) == run_name(large)
    assert precision.explained(older) == f"computes in fp32: {precision.NONE}"


def test_a_name_of_the_hub_is_known_once_it_is_cached(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Until then all stages compute in fp32, also with a model of known size that the run made."""
    on(monkeypatch, "AMX")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    line = ["model.path=ORG/NAME", f"output_dir={tmp_path}"]
    unknown = compose(line)
    assert words(unknown) == {"fp32", "float32"} and precision.dtype(unknown, "packaged://smollm2_135m") == "float32"
    for file, text in {
        "refs/main": "1",
        "snapshots/1/config.json": json.dumps(PUBLISHED["packaged://smollm2_135m"]),
    }.items():
        (cached := tmp_path / "models--ORG--NAME" / file).parent.mkdir(parents=True)
        cached.write_text(text)
    assert words(compose(line)) == {"bf16", "bfloat16"}


def test_in_bf16_other_models_or_servers_have_old_log_probs_of_their_trainer(tmp_path: Path):
    (tmp_path / "config.json").write_text('{"model_type": "mistral"}')
    for words in ([f"model.path={tmp_path}"], ["model=tiny", "rollout=vllm"], [SMOL, "model.lora_rank=8"]):
        correction = compose(["precision=bf16", *words]).algorithm.rollout_correction
        assert (correction.bypass_mode, correction.rollout_is) == (False, "token")


def test_a_word_that_is_typed_is_another_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    on(monkeypatch, "")
    here = f"output_dir={tmp_path}"
    half = compose([here, "precision=bf16"])
    assert words(half) == {"bf16", "bfloat16"} and run_name(half) != run_name(compose([here]))


@pytest.mark.parametrize("recorded", ["bf16", "fp32"])
def test_a_run_keeps_what_it_began_in(recorded: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    began, other = ("AMX", "") if recorded == "bf16" else ("", "AMX")
    line = [SMOL, f"output_dir={tmp_path}"]
    on(monkeypatch, began)
    config = compose(line)
    folder = tmp_path / run_name(config)
    folder.mkdir()
    (folder / "config.yaml").write_text(OmegaConf.to_yaml(config, resolve=True))
    on(monkeypatch, other)
    on_gpus = compose([*line, "cluster=gpu1"])
    assert run_name(on_gpus) == folder.name
    (folder / "config.yaml").write_text(OmegaConf.to_yaml(on_gpus, resolve=True))
    again = compose(line)
    assert words(again) == words(config) and run_name(again) == folder.name
    assert precision.explained(again).endswith("as this run began")
    for flags, factor in ((frozenset(), "4 times"), (frozenset({"avx512f"}), "1.3 times")):
        monkeypatch.setattr(precision, "flags", lambda flags=flags: flags)
        told = [text for text in check(again) if "precision=auto" in text]
        assert len(told) == (recorded == "bf16")
        assert all(f"about {factor}" in text and "precision=fp32 starts another run" in text for text in told)
    assert words(compose([*line, "fresh=true"])) != words(again)
