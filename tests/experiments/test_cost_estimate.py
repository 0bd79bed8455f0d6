"""``estimate=true``: what is counted, predicted and refused, by hand and on real game files."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from throughput_profiles import PROFILE

from config.compose import Composer, composer
from envs.catalogue import Catalogue
from envs.registry import make_environment
from envs.types import TaskError
from experiments.cost_estimate import calibrate, estimate
from experiments.cost_estimate.duration import forecast
from experiments.cost_estimate.memory import GIB, Headroom, disk, kept_checkpoints, memory
from experiments.cost_estimate.needs import Games, needs
from experiments.cost_estimate.profiles_of_runs import measure
from experiments.cost_estimate.throughput import kind, profile_file, save
from records.models.shape import PUBLISHED, Shape, from_config, shape_of
from records.run_folder import run_name
from rollouts.episode import Episode, Outcome, Turn
from rollouts.store import write_episodes
from tasks.budget import allocate_budget


@pytest.fixture(scope="module")
def composed() -> Iterator[Composer]:
    with composer() as compose:
        yield compose


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three training games and one test game, made."""
    folder = tmp_path_factory.mktemp("cache")
    Catalogue(make_environment("textworld"), folder).listings("w1-o1-q1", {"train": 3, "test": 1}, progress=False)
    return folder


# ---- what is needed


def test_games_that_are_there_are_counted(composed: Composer, cache: Path) -> None:
    small = ["env.task=w1-o1-q1", f"env.cache_dir={cache}", "budget.units=40", "eval.games=4", "budget.rl_steps=1"]
    wanted = needs(composed(small))
    train, test = wanted.games[1:]
    assert wanted.games[0] == Games("demonstrations", "w1-o1-q1", 2, 0, 2)
    assert (train.split, train.wanted, train.cached) == ("train", 16, 3)
    assert train.to_try >= 13  # more where some of the seeds that were tried are no games
    assert (test.split, test.wanted, test.cached) == ("test", 4, 1)
    assert (wanted.models, wanted.samples) == (3, 4)


def test_nothing_is_made_for_counting(composed: Composer, cache: Path) -> None:
    before = sorted(cache.rglob("*"))
    needs(composed(["env.task=w1-o1-q1", f"env.cache_dir={cache}"]))
    assert sorted(cache.rglob("*")) == before


def test_a_split_that_is_too_small_is_refused(composed: Composer) -> None:
    with pytest.raises(TaskError, match="split test has at most"):
        needs(composed(["eval.games=40000"]))


def test_what_is_evaluated(composed: Composer) -> None:
    several = needs(composed(["eval.temperatures=[0.4,0.7]", "eval.samples_per_game=3", "budget=rl_only"]))
    assert (several.models, several.samples) == (2, 2 * 3 * 200)
    assert [games.split for games in several.games] == ["train", "test"]


# ---- how long


def test_the_default_by_hand(composed: Composer) -> None:
    """60 demonstrations in batches of 4 are 15 steps; 25 steps have 5 checkpoints; three models play 200 games each."""
    config = composed([])
    wanted = replace(needs(config), games=(Games("train", "w2-o3-q4", 400, 350, 60),))
    found = {item.stage: item.seconds for item in forecast(config, wanted, PROFILE, cores=2)}
    by_hand = {
        "games": 60 * 0.5,
        "demonstrations": 1 + 60 * 0.05,
        "sft": 8 + 15 * 0.2,
        "rl": 20 + 25 * 7.5 + 5 * 0.4,
        "evaluation": 5 + 600 * 0.1,
    }
    assert found == pytest.approx(by_hand)


def test_validation_is_counted(composed: Composer, cache: Path) -> None:
    """After steps 10, 20 and 25 of the default run's 25, two plays of 30 games each."""
    words = ["trainer.test_freq=10", "eval.validation_games=30", "actor_rollout_ref.rollout.val_kwargs.n=2"]
    config, without = composed([*words, f"env.cache_dir={cache}"]), composed([f"env.cache_dir={cache}"])
    wanted = needs(config)
    assert wanted.validation == 3 * 30 * 2
    assert [games.wanted for games in wanted.games if games.split == "validation"] == [30]
    (longer,), (rl,) = (
        [item.seconds for item in forecast(c, needs(c), PROFILE, cores=2) if item.stage == "rl"]
        for c in (config, without)
    )
    assert longer - rl == pytest.approx(180 * PROFILE.evaluation_sample)
    before = composed([*words, "trainer.val_before_train=true"])
    assert needs(before).validation == 4 * 30 * 2
    assert needs(without).validation == 0 and "validation" not in {games.split for games in needs(without).games}


def test_what_dynamic_sampling_may_play_is_said(composed: Composer, cache: Path) -> None:
    config = composed(["algo=dapo", "filter.dynamic_sampling.batches=3", f"env.cache_dir={cache}"])
    assert (
        dict(estimate._samples(config, needs(config), PROFILE))["RL at most"]
        == "3 times as many: filter=[dynamic_sampling]"
    )


def test_stages_that_the_plan_does_not_have_take_no_time(composed: Composer) -> None:
    config = composed(["budget=sft_only"])
    assert "rl" not in [item.stage for item in forecast(config, needs(config), PROFILE, cores=2)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run of three steps, one game and clocks set by hand."""
    games = tmp_path / "game"
    games.mkdir()
    (games / "game.z8").write_bytes(b"x" * 3000)
    task = {
        "env": "textworld",
        "task": "t",
        "params": {},
        "seed": 1,
        "split": "train",
        "game_file": str(games / "game.z8"),
    }
    task |= {"sha256": "", "goal": "", "expert_plan": [], "fingerprint": "", "max_score": 1.0}
    run = tmp_path / "run"
    (run / "tasks").mkdir(parents=True)
    (run / "tasks" / "train.jsonl").write_text(json.dumps(task) + "\n")
    made = (games / "game.z8").stat().st_mtime
    seconds = {"games": 2.0, "demonstrations": 3.0, "sft": 12.0, "rl": 60.0, "evaluation": 30.0}
    lines = [{"stage": name, "seconds": value, "ended": made + 1} for name, value in seconds.items()]
    (run / "stages.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    turns = [Turn("a door.", "go", [1, 2, 3], context_ids=[4], act_seconds=0.0, env_seconds=0.25)] * 2
    played = [Episode("t", 1, "train", "", [], [5] * 10, turns, Outcome.WON)] * 4
    write_episodes(run / "episodes" / "demonstrations.jsonl", played)
    sft = [{"step": step, "timing/since_start": 10 + 0.5 * step} for step in (1, 2, 3)]
    (run / "sft").mkdir()
    (run / "sft" / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in sft))
    checkpoint = run / "rl" / "checkpoints" / "global_step_3" / "actor" / "huggingface"
    checkpoint.mkdir(parents=True)
    (checkpoint / "config.json").write_bytes(b"x" * 100)
    (checkpoint.parent / "optim.pt").write_bytes(b"x" * 900)
    (run / "rl" / "checkpoints" / "latest_checkpointed_iteration.txt").write_text("3")
    (run / "rl" / "config.yaml").write_text("trainer: {save_freq: 1}\n")
    clock = [(1, 8.0, 20.0), (2, 7.0, 28.0), (3, 6.0, 36.0)]  # between the logs: 7 + 1 of saving, 6 + 2 of saving
    metrics = [{"step": step, "timing/step": took, "timing/since_start": at} for step, took, at in clock]
    (run / "rl" / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in metrics))
    write_episodes(run / "rl" / "episodes" / "000001.jsonl", played)
    for index, name in enumerate(("base", "sft", "rl")):
        write_episodes(run / "evaluation" / f"{name}.jsonl", played)
        os.utime(run / "evaluation" / f"{name}.jsonl", (0, 1000 + 8 * index))
    return run


def test_profiles_are_read_off_a_run(composed: Composer, folder: Path) -> None:
    profile = measure(composed([]), folder, "a run")
    assert (profile.game_seconds, profile.game_bytes) == (2.0, 3000)
    assert (profile.demonstration_seconds, profile.demonstrations_seconds) == (
        0.25,
        2.0,
    )  # 0.5 s of play over two workers
    assert (profile.sft_step, profile.sft_start) == (0.5, 10.5)
    assert (profile.rl_step, profile.rl_save) == (6.5, 1.5)  # the first step's other 1.5 s belong to the start
    assert profile.rl_start == 60 - (36 - 20) - 6.5
    assert (profile.tokens, profile.sampled) == (18, 6)
    assert (profile.checkpoint_bytes, profile.model_bytes) == (1000, 100)
    assert (profile.evaluation_sample, profile.evaluation_start) == (2.0, 6.0)  # 8 s a model of 4 plays; 30 - 3 x 8


def test_what_changes_nothing_about_the_profiles_has_the_same_kind(composed: Composer) -> None:
    default = kind(composed([]))
    assert (
        kind(composed(["seed=4", "budget=sft80_rl200", "eval.games=100", "estimate=true", "budget.rl_steps=7"]))
        == default
    )
    for other in ("algo=ppo", "env.task=w4-o6-q8", "env.max_turns=8", "env.workers=1"):
        assert kind(composed([other])) != default


@pytest.mark.parametrize("budget", ["sft_rl", "rl_only", "sft_only", "sft80_rl200"])
def test_a_calibration_is_of_the_same_kind_and_short(composed: Composer, budget: str) -> None:
    config = composed([f"budget={budget}"])
    short = calibrate.short(config)
    assert kind(short) == kind(config)
    whole, part = allocate_budget(config), allocate_budget(short)
    assert part.demonstrations == min(64, whole.demonstrations)
    assert (part.steps, part.games) == ((3, 48) if whole.steps else (0, 0))
    assert part.unspent == 0


def test_a_calibration_has_two_sft_steps_at_least(composed: Composer) -> None:
    """One has no rate, so that the next estimate would measure anew."""
    words = ["budget.units=16", "budget.demo_cost=2", "budget.sft_share=0.5", "data.train_batch_size=4"]
    assert calibrate.short(composed(words)).model.sft.epochs == 2
    assert calibrate.short(composed([*words, "model.sft.batch_size=3"])).model.sft.epochs == 1
    assert calibrate.short(composed([*words, "model.sft.epochs=3"])).model.sft.epochs == 3


def test_which_measurement_is_kept(composed: Composer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A later one replaces the parts that it has, unless only it was made in a crowd."""
    monkeypatch.setenv("TURNGRID_CACHE", str(tmp_path))
    config = composed([])
    assert calibrate.known(config) is None
    save(PROFILE, profile_file(config, tmp_path))
    assert calibrate.known(config) == PROFILE
    assert calibrate.known(composed(["fresh=true"])) is None
    calibrate._keep(config, replace(PROFILE, source="later", rl_step=9.0, sft_start=None, sft_step=None))
    later = calibrate.known(config)
    assert later == replace(PROFILE, source="later", rl_step=9.0)
    calibrate._keep(config, replace(PROFILE, source="in a crowd", load=1000.0))
    assert calibrate.known(config) == later
    save(replace(PROFILE, load=1e6), profile_file(config, tmp_path))
    assert calibrate.known(config) is None  # it is quiet again
    save(replace(PROFILE, sft_step=None), profile_file(config, tmp_path))
    assert calibrate.known(config) is None
    assert calibrate.known(composed(["budget=rl_only"])) is not None


# ---- does it fit


def test_shapes_have_the_published_sizes() -> None:
    """Qwen2.5's model cards: 0.49B, 1.54B, 7.61B; Qwen3-8B: 8.2B; SmolLM2: 134.5M; ours: 316,096 with its norms."""
    sizes = [shape.parameters for config in PUBLISHED.values() if (shape := from_config(config))]
    assert [round(size / 1e6, -1) for size in sizes[:4]] == [490, 1540, 7620, 8190]
    assert sizes[4] == pytest.approx(134.5e6, rel=1e-3)
    tiny = shape_of("asset://tiny")
    assert tiny is not None and tiny.parameters == pytest.approx(316_096, rel=3e-3)
    assert shape_of("nobody/knows") is None


def test_disk_by_hand(composed: Composer, tmp_path: Path) -> None:
    config = composed([f"output_dir={tmp_path}/not/there/yet"])
    wanted = replace(needs(config), games=(Games("train", "w2-o3-q4", 400, 350, 60),))
    games, run = disk(config, wanted, None, PROFILE)
    assert games.needed == 60 * 1000
    assert kept_checkpoints(config, 25) == 3  # two stay, a third is being written
    assert run.needed == 3 * 5e6 + 1e6 + (60 + 3200 + 600) * 10_000
    assert run.free > 0


def test_disk_with_lora_by_hand(composed: Composer) -> None:
    """Frozen weights twice, adapters twice, and Adam of the adapters alone: 40,960 numbers of rank 8 beside the tiny model's."""
    config, shape = composed(["model.lora_rank=8", "budget=rl_only"]), shape_of("asset://tiny")
    assert shape is not None
    _, run = disk(config, needs(config), shape, replace(PROFILE, checkpoint_bytes=0, episode_bytes=0))
    _, episodes = disk(config, needs(config), None, None)
    assert run.needed - episodes.needed == 3 * (8 * (shape.parameters + 40_960) + 8 * 40_960)


def test_what_does_not_fit_says_so() -> None:
    assert Headroom("disk", "/runs", 10 * GIB, 20 * GIB).problem == ""
    assert Headroom("disk", "/runs", 19.5 * GIB, 20 * GIB).problem == "disk: 19.5 GiB needed in /runs, 20.0 GiB there"


def test_memory_grows_with_the_model(composed: Composer) -> None:
    shapes = [Shape(size, 4, 64, 1600, 16) for size in (300_000, 300_000_000)]
    small, large = (memory(composed([]), shape, 20.0)[0] for shape in shapes)
    assert large.needed - small.needed == pytest.approx(299.7e6 * 4 * 5)  # trained: 4 copies; the server: 1
    assert memory(composed(["cluster=gpu1"]), shapes[0], 20.0) == []
    adapters = composed(["model.lora_rank=8", "actor_rollout_ref.actor.use_kl_loss=true"])
    small, large = (memory(adapters, shape, 20.0)[0] for shape in shapes)
    assert large.needed - small.needed == pytest.approx(
        299.7e6 * 4 * 2
    )  # frozen, and the server's; the reference is the first


def test_planning_is_no_part_of_the_identity(composed: Composer) -> None:
    assert run_name(composed(["estimate=true", "estimate_gpu=H100x8"])) == run_name(composed([]))


@pytest.mark.parametrize(("seconds", "text"), [(45, "45 s"), (276, "4.6 min"), (36000, "10.0 h")])
def test_clock(seconds: float, text: str) -> None:
    assert estimate.clock(seconds) == text
