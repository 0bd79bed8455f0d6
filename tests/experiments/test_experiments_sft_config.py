"""What the SFT stage hands verl, from composed configs."""

from pathlib import Path

import pytest

from turngrid.config.compose import compose
from turngrid.experiments.stages.sft import ALLOCATOR, _launch, allocator, sft_config
from turngrid.tasks.run import Run


def test_one_engine_serves_sft_and_rl() -> None:
    config = compose(["model=qwen2.5_7b", "cluster=gpu8", "seed=3"])
    stage = sft_config(Run(config, Path("/runs/name")), Path("/demos.jsonl"), "/base")
    engine, model, rl = stage.verl.engine, stage.verl.model, config.actor_rollout_ref
    assert (engine.strategy, engine.seed, model.path) == (rl.actor.fsdp_config.strategy, 3, "/base")
    for key in ("use_remove_padding", "use_fused_kernels"):
        assert model[key] == rl.model[key]
    whole_row = config.data.max_prompt_length + config.data.max_response_length
    assert stage.verl.data.max_token_len_per_gpu >= stage.run.max_tokens == whole_row
    torchrun = ["--standalone", "--nproc-per-node=8", "-m", "turngrid.verl_plugin.sft"]
    assert _launch(Run(config)) == ("torch.distributed.run", torchrun)


@pytest.mark.parametrize(
    ("cluster", "card", "set_to"), [("gpu1", 24, "expandable_segments:True"), ("gpu1", 80, None), ("cpu", 24, None)]
)
def test_the_allocator_of_a_card(cluster: str, card: int, set_to: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ALLOCATOR, raising=False)
    config = compose(["model=qwen2.5_0.5b", f"cluster={cluster}", f"cluster.gpu_memory_gb={card}"])
    assert allocator(Run(config)).get(ALLOCATOR) == set_to
    monkeypatch.setenv(ALLOCATOR, "max_split_size_mb:128")
    assert allocator(Run(config)) == {}
