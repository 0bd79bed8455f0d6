"""What the SFT stage hands verl, from composed configs."""

from pathlib import Path

import pytest

from turngrid.config.compose import compose
from turngrid.experiments.stages.sft import ALLOCATOR, _launch, allocator, sft_config
from turngrid.tasks.run import Run


@pytest.mark.parametrize(
    ("overrides", "launched"),
    [
        (["model=tiny"], ("turngrid.verl_plugin.sft", [])),
        (
            ["model=qwen2.5_7b", "cluster=gpu8"],
            ("torch.distributed.run", ["--standalone", "--nproc-per-node=8", "-m", "turngrid.verl_plugin.sft"]),
        ),
    ],
)
def test_one_engine_serves_sft_and_rl(overrides: list[str], launched: tuple[str, list[str]]) -> None:
    config = compose([*overrides, "seed=3"])
    stage = sft_config(Run(config, Path("/runs/name")), Path("/demos.jsonl"), "/base")
    actor = config.actor_rollout_ref.actor
    assert (stage.verl.engine.strategy, stage.verl.engine.seed) == (actor.fsdp_config.strategy, 3)
    assert stage.verl.model.path == "/base"
    for key in ("use_remove_padding", "use_fused_kernels"):
        assert stage.verl.model[key] == config.actor_rollout_ref.model[key]
    assert (stage.verl.optim.lr, stage.verl.trainer.total_epochs) == (config.model.sft.lr, config.model.sft.epochs)
    assert stage.run.max_tokens == config.data.max_prompt_length + config.data.max_response_length
    assert stage.verl.data.max_token_len_per_gpu >= stage.run.max_tokens
    assert _launch(config) == launched


@pytest.mark.parametrize(
    ("cluster", "card", "set_to"), [("gpu1", 24, "expandable_segments:True"), ("gpu1", 80, None), ("cpu", 24, None)]
)
def test_small_cards_get_another_allocator(
    cluster: str, card: int, set_to: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(ALLOCATOR, raising=False)
    config = compose(["model=qwen2.5_0.5b", f"cluster={cluster}", f"cluster.gpu_memory_gb={card}"])
    assert allocator(config).get(ALLOCATOR) == set_to
    monkeypatch.setenv(ALLOCATOR, "max_split_size_mb:128")
    assert allocator(config) == {}
