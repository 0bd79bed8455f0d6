"""kill -9 in each stage, then the same command, with a method in every slot: nothing is lost."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import small
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from turngrid.config.base import ROOT
from turngrid.experiments.stages.ledger import read_ledger
from turngrid.records.files.checkpoints import MODEL
from turngrid.rollouts.store import read_episodes

pytestmark = pytest.mark.slow
METHODS = ("algo=gigpo", "shaping=[turn_bonus,invalid_action]", "filter=[void_turns]", "filter.void_turns.void=invalid")
METHODS += ("loss=turn_clip", "terms=[epo]", "buffer=self_imitation", "buffer.self_imitation.capacity=1")
IDS = ("fa2a0ef295375625", "6f6f47157c0068e6", "6cfdc7b34a038d8c")  # of the three steps' episodes
GRAD_NORMS, LOSSES = (3.3240287, 0.9811405, 0.7809200), (-0.9593759, -0.2033279, -0.1680117)
AS_SMOLLM2 = ("precision=bf16", "model.rows_per_pass=8", "model.gradient_checkpointing=true")  # and two threads
SPLITS = ("train", "demonstrations", "test")


# stage -> (files that are there when it is killed, how many, what must not be there yet)
MOMENTS = {
    "games": ("cache/**/game.z8", 3, "tasks/test.jsonl"),
    "demonstrations": ("runs/*/tasks/skipped.json", 1, "episodes/demonstrations.jsonl"),
    "sft": ("runs/*/logs/sft.log", 1, "sft/model"),
    "rl start": ("runs/*/rl/config.yaml", 1, "rl/metrics.jsonl"),
    "rl checkpoint": ("runs/*/rl/checkpoints/global_step_1", 1, "evaluation/base.jsonl"),
    "evaluation": ("runs/*/evaluation/base.jsonl", 1, "evaluation/rl.jsonl"),
}


def killed(folder: Path, stage: str, *words: str) -> None:
    """Start a run in ``folder``/runs and kill it in this stage."""
    files, count, not_yet = MOMENTS[stage]
    process = small.launch(folder / "runs", *words)
    small.wait_for(lambda: len(list(folder.glob(files))) >= count, 400)
    small.kill(process)
    assert not list(folder.glob(f"runs/*/{not_yet}")), "killed too late to show anything"


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small.finish(tmp_path_factory.mktemp("unbroken"), *METHODS)


@pytest.mark.parametrize("stage", MOMENTS)
@pytest.mark.timeout(900)
def test_a_run_killed_in_a_stage_ends_as_an_unbroken_one(stage: str, unbroken: Path, tmp_path: Path) -> None:
    own_cache = [f"env.cache_dir={tmp_path / 'cache'}"] if stage == "games" else []
    killed(tmp_path, stage, *METHODS, *own_cache)
    assert_same(small.finish(tmp_path / "runs", *METHODS, *own_cache), unbroken)


def test_the_tiny_models_tokens_and_metrics_are_those_on_record(unbroken: Path) -> None:
    """Recorded on a processor with AVX-512; another one may draw other tokens."""
    for step, ids in enumerate(IDS, 1):
        episodes = read_episodes(unbroken / "rl" / "episodes" / f"{step:06d}.jsonl")
        tokens = [[e.prompt_ids, [(t.action_ids, t.context_ids) for t in e.turns]] for e in episodes]
        assert hashlib.sha256(json.dumps(tokens).encode()).hexdigest()[:16] == ids
    metrics = small.lines(unbroken / "rl" / "metrics.jsonl")
    assert [line["actor/grad_norm"] for line in metrics] == pytest.approx(GRAD_NORMS, rel=1e-4)
    assert [line["actor/pg_loss"] for line in metrics] == pytest.approx(LOSSES, rel=1e-4)


@pytest.mark.timeout(1500)
def test_a_killed_run_of_a_wider_model_repeats_its_bits(tmp_path: Path) -> None:
    """On two threads, in passes of eight rows whose activations are computed again. A random model
    gives no valid action, so that a filter of void turns would leave nothing to learn."""
    model, tiny = tmp_path / "model", ROOT / "assets" / "tiny"
    wider = {"model_type": "llama", "hidden_size": 256, "num_hidden_layers": 2, "layer_types": None}
    torch.manual_seed(0)
    config = AutoConfig.for_model(**{**json.loads((tiny / "config.json").read_text()), **wider})
    AutoModelForCausalLM.from_config(config).save_pretrained(model)
    AutoTokenizer.from_pretrained(tiny).save_pretrained(model)
    words = (*(word for word in METHODS if "void" not in word), *AS_SMOLLM2, f"model.path={model}")
    killed(tmp_path, "rl checkpoint", *words)
    folder, unbroken = (small.finish(tmp_path / name, *words) for name in ("runs", "unbroken"))
    assert_same(folder, unbroken)
    before, last = (f"rl/checkpoints/global_step_{step}/{MODEL}/model.safetensors" for step in (2, 3))
    assert (folder / last).read_bytes() == (unbroken / last).read_bytes() != (unbroken / before).read_bytes()


def assert_same(folder: Path, unbroken: Path) -> None:
    for split in SPLITS:
        ours, theirs = (small.lines(run / "tasks" / f"{split}.jsonl") for run in (folder, unbroken))
        assert [task["sha256"] for task in ours] == [task["sha256"] for task in theirs]
    weights = "sft/model/model.safetensors"
    assert (folder / weights).read_bytes() == (unbroken / weights).read_bytes()
    name = "evaluation/rl.jsonl"
    assert small.without_clocks(folder / name) == small.without_clocks(unbroken / name)
    small.assert_same_rl(folder, unbroken)
    states = [_state(run) for run in (folder, unbroken)]
    assert same(*states) and states[0]["terms/epo"]["count"] == 3
    ours, theirs = (read_ledger(run / "ledger.jsonl") for run in (folder, unbroken))
    assert sum(entry.units for entry in ours) == sum(entry.units for entry in theirs)


def _state(run: Path) -> dict[str, Any]:
    state = torch.load(run / "rl" / "checkpoints" / "global_step_3" / "methods.pt", weights_only=True)
    for episode in state["buffer/self_imitation"]["episodes"]:
        episode["task"] = json.loads(episode["task"])["sha256"]  # the same game lies elsewhere in a cache of its own
    return state


def same(ours: Any, theirs: Any) -> bool:
    """To the last bit."""
    if isinstance(ours, torch.Tensor):
        return torch.equal(ours, theirs)
    if isinstance(ours, dict):
        return ours.keys() == theirs.keys() and all(same(ours[key], theirs[key]) for key in ours)
    if isinstance(ours, (list, tuple)):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    return ours == theirs
