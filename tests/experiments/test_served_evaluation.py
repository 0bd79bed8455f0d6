"""A checkpoint that plays its evaluation behind rollout servers plays as it does in one process."""

from pathlib import Path
from typing import Any

import pytest
import small

from turngrid.config.compose import compose
from turngrid.experiments.evaluate import main
from turngrid.records.run_folder import identity
from turngrid.rollouts.sampling import SampleRequest
from turngrid.tasks.evaluation_sets import through_servers
from turngrid.verl_plugin.rollout.local_rollouts import generator_on


@pytest.mark.parametrize(
    ("words", "served"),
    [
        ([], False),
        (["cluster=gpu8"], True),
        (["cluster=gpu8", "eval.servers=false"], False),
    ],
)
def test_gpus_with_vllm_play_through_servers(words: list[str], served: bool) -> None:
    config = compose(words)
    assert through_servers(config) is served
    assert identity(config) == identity(compose([]))


def test_on_a_cpu_the_process_plays_in_fp32() -> None:
    generator = generator_on("cpu", "assets/tiny")
    assert str(generator.model.dtype) == "torch.float32"
    (answer,) = generator.generate([SampleRequest("0/0/0", (1, 2, 3), max_tokens=3, temperature=0.0, seed=0)])
    assert answer.token_ids


def episodes(folder: Path) -> list[dict[str, Any]]:
    (file,) = folder.glob("evaluations/*/evaluation/*.jsonl")
    return small.without_clocks(file)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_servers_and_one_process_play_the_same_episodes(tmp_path: Path) -> None:
    """Requests have the same seeds, so ids differ where rounding decides a draw alone: in none of
    these."""
    asked = ["base", "eval.games=8", "env.max_turns=6"]
    for servers in ("false", "true"):
        assert main([*asked, f"eval.servers={servers}", f"output_dir={tmp_path / servers}"]) == 0
    alone, served = episodes(tmp_path / "false"), episodes(tmp_path / "true")
    assert len(alone) == 8
    for one, other in zip(alone, served, strict=True):
        assert one["outcome"] == other["outcome"]
        assert [turn["action_ids"] for turn in one["turns"]] == [turn["action_ids"] for turn in other["turns"]]
