"""What the RL stage's bar says, from folders at each moment of a step; what stages hand verl."""

import asyncio
import io
from pathlib import Path

import pytest

from turngrid.config.compose import compose
from turngrid.envs.utils.files import remove_folder
from turngrid.experiments.evaluation.result import RunResult
from turngrid.experiments.evaluation.stage import Checkpoint
from turngrid.experiments.stages import pipeline
from turngrid.experiments.stages.rl import STARTING, Progress, doing, rl_config
from turngrid.experiments.stages.sft import ALLOCATOR, _launch, allocator, sft_config
from turngrid.records.metrics import append_metrics
from turngrid.records.resume import TURNS, RlFolder, TurnCounter, discard_beyond_checkpoint, turns_played
from turngrid.rollouts.episode import Episode, Outcome, Turn
from turngrid.rollouts.store import write_episodes
from turngrid.tasks.budget import Allocation
from turngrid.tasks.run import Run


def groups(rl: RlFolder, step: int, count: int) -> None:
    folder = rl.episodes / f"{step:06d}"
    folder.mkdir(parents=True, exist_ok=True)
    for index in range(count):
        (folder / f"{step:06d}-{index:04d}.jsonl").touch()


def gathered(rl: RlFolder, step: int, won: float, what: str = "success/train") -> None:
    """As the trainer ends a step: one file, then the line of metrics."""
    folder = rl.episodes / f"{step:06d}"
    remove_folder(folder)
    folder.with_suffix(".jsonl").touch()
    append_metrics(rl.metrics, step, {what: won})


def test_each_moment_of_a_step_has_its_words(tmp_path: Path) -> None:
    rl = RlFolder(tmp_path)
    assert doing(rl, 1, True, 16, 8) == STARTING
    groups(rl, 1, 5)
    (rl.episodes / "000001" / "000001-0009.failed").touch()  # refilled: no episodes of this step's
    assert doing(rl, 1, True, 16, 8) == "playing: 40 of 128 episodes"
    groups(rl, 1, 16)
    assert doing(rl, 1, True, 16, 8) == "learning from 128 episodes"
    validated = rl.validation / "000001"
    validated.mkdir(parents=True)
    (validated / "000000.jsonl").touch()
    (validated / TURNS).write_bytes(b"..")
    assert doing(rl, 1, True, 16, 8) == "validating: 1 games, 2 turns played"
    remove_folder(validated)
    gathered(rl, 1, 0.25)
    assert doing(rl, 1, True, 16, 8) == "between two steps"  # its line of metrics comes a moment later
    (rl.episodes / "000002").mkdir()
    rl.groups.mkdir()
    (rl.groups / TURNS).write_bytes(b"...")
    assert doing(rl, 2, False, 16, 8) == "playing and learning, 3 turns"


async def test_turns_of_two_counters_are_counted_together(tmp_path: Path) -> None:
    """As soon as they are written; those of a step that has ended count no more."""
    rl = RlFolder(tmp_path)
    groups(rl, 1, 0)
    step, ended = rl.episodes / "000001", rl.episodes / "000000"
    for counter, turns in ((TurnCounter(), 5), (TurnCounter(), 1200)):
        for _ in range(turns):
            counter.add(step)
            counter.add(ended)
    while turns_played(step) < 1205:
        await asyncio.sleep(0.05)
    assert doing(rl, 1, True, 16, 8) == "playing: 0 of 128 episodes, 1,205 turns"
    assert not ended.exists()


def test_what_is_beyond_the_checkpoint_is_discarded_but_for_a_step_that_had_only_begun(tmp_path: Path) -> None:
    rl = RlFolder(tmp_path)
    groups(rl, 1, 0)
    (rl.episodes / "000001" / TURNS).write_bytes(b"...")
    assert discard_beyond_checkpoint(rl) == 0
    assert not rl.discarded.exists() and not list(rl.episodes.iterdir())
    for step in (0, 2, 4):
        write_episodes(rl.validation / f"{step:06d}.jsonl", [])
    groups(rl, 4, 1)
    rl.model(2).mkdir(parents=True)
    (rl.checkpoints / "latest_checkpointed_iteration.txt").write_text("2")
    assert discard_beyond_checkpoint(rl) == 2
    assert [file.name for file in sorted(rl.validation.iterdir())] == ["000000.jsonl", "000002.jsonl"]
    found = sorted(file.relative_to(rl.discarded / "000").as_posix() for file in rl.discarded.rglob("*.jsonl"))
    assert found == ["episodes/000004/000004-0000.jsonl", "validation/000004.jsonl"]


@pytest.mark.parametrize("what", ["success/train", "success/train_after_prefix"])
def test_the_bar_follows_it(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    monkeypatch.setattr("turngrid.experiments.stages.rl.LOG_SECONDS", 0.0)
    monkeypatch.setattr("sys.stderr", shown)
    rl = RlFolder(tmp_path)
    bar = Progress(rl, 3, 0, 4, 2)
    for change in (
        lambda: None,
        lambda: groups(rl, 1, 2),
        lambda: gathered(rl, 1, 0.25, what),
        lambda: groups(rl, 2, 4),
        lambda: gathered(rl, 2, 0.5, "rollout/entropy"),  # none of success, as with algo=semi_online
    ):
        change()
        bar.update()
    bar.close()
    assert STARTING in shown.getvalue()
    assert "playing: 4 of 8 episodes" in shown.getvalue()
    assert "learning from 8 episodes, won 25% in step 1" in shown.getvalue()
    assert "2/3" in shown.getvalue().split("\r")[-1]


def test_the_run_summary_reads_it_off_the_metrics(tmp_path: Path) -> None:
    config = compose(["budget=rl_only", "health=off"])
    for step in (1, 2, 3):
        append_metrics(RlFolder(tmp_path).metrics, step, {"success/train": 0.0, "credit/groups_without_signal": 1.0})
    won = Episode("doors/1", 1, "test", "leave", [], [1], [Turn("a door.", "go", [1])], Outcome.WON)
    write_episodes(tmp_path / "evaluation" / "base.jsonl", [won])
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "test.jsonl").touch()
    (tmp_path / "tasks" / "skipped.json").write_text("{}")
    RlFolder(tmp_path).rollbacks.write_text('{"step": 3, "name": "success", "to": 1, "rate": 1e-4}\n')
    pipeline.write_summary(Run(config, tmp_path), [Checkpoint("base", "asset://tiny")])
    result = RunResult.read(tmp_path)
    assert result is not None and result.notes["no_signal"].startswith("step 3: no_signal: ")
    assert "filter=[dynamic_sampling]" in result.notes["no_signal"] and "step 1 with" in result.notes["rollbacks"][0]


# ---- what the stages hand verl


@pytest.mark.parametrize(
    ("games", "batch", "steps"), [(200, 128, 15), (1000, 128, 15), (128, 128, 3), (2, 4, 2), (13, 4, 1)]
)
def test_passes_suffice_for_the_steps(games: int, batch: int, steps: int, tmp_path: Path) -> None:
    """verl ends training after so many passes over the games, and a pass has whole batches only."""
    config = compose([f"data.train_batch_size={batch}"])
    allocation = Allocation(demonstrations=0, games=games, steps=steps, episodes_per_step=batch, units=games, unspent=0)
    batches = max(1, games // batch)  # of a pass; where there are fewer games than a batch has, they come several times
    passes = rl_config(Run(config, tmp_path), allocation, "model").trainer.total_epochs
    assert steps <= passes * batches < steps + 2 * batches + 1


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
