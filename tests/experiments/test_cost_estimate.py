"""``estimate=true``: what is counted, predicted and refused, by hand and on real game files."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from turngrid.config.compose import Composer
from turngrid.envs.games.catalogue import Catalogue
from turngrid.envs.registry import make_environment
from turngrid.envs.types import TaskError
from turngrid.experiments.cost_estimate import estimate
from turngrid.experiments.cost_estimate.amounts import Games, amounts, forecast, record, record_file, recorded
from turngrid.experiments.cost_estimate.estimate import clock
from turngrid.experiments.cost_estimate.memory import GB, Devices, demand, problems
from turngrid.records.models.shape import PUBLISHED, Shape, from_config, shape_of

PAST = ("env=two_player", "rollout_form=self_play", "rollout_form.self_play.opponent=past")
EACH = {"demonstrations": 0.05, "sft": 0.2, "rl": 7.5, "evaluation": 0.1}  # seconds of a unit


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three training games and one test game, made."""
    folder = tmp_path_factory.mktemp("cache")
    Catalogue(make_environment("gym"), folder).listings("FrozenLake-v1", {"train": 3, "test": 1}, progress=False)
    return folder


# ---- what is needed


def test_games_that_are_there_are_counted(composed: Composer, cache: Path) -> None:
    small = ["env=gym", f"env.cache_dir={cache}", "budget.units=40", "eval.games=4", "budget.rl_steps=1"]
    before = sorted(cache.rglob("*"))
    wanted = amounts(composed(small))
    assert sorted(cache.rglob("*")) == before
    train, test = wanted.games[1:]
    assert wanted.games[0] == Games("demonstrations", "FrozenLake-v1", 2, 0)
    assert (train.split, train.wanted, train.cached) == ("train", 16, 3)
    assert (test.split, test.wanted, test.cached) == ("test", 4, 1)
    assert (wanted.models, wanted.samples) == (3, 4)


def test_a_split_that_is_too_small_is_refused(composed: Composer) -> None:
    with pytest.raises(TaskError, match="split test has at most"):
        amounts(composed(["eval.games=40000"]))


# ---- how long


def test_the_default_by_hand(composed: Composer) -> None:
    """60 demonstrations in batches of 4 are 15 steps; three models play 200 games each."""
    wanted = amounts(composed([]))
    by_hand = {"demonstrations": 60 * 0.05, "sft": 15 * 0.2, "rl": 25 * 7.5, "evaluation": 600 * 0.1}
    assert forecast(wanted, EACH) == pytest.approx({**by_hand, "all": sum(by_hand.values())})
    without = forecast(wanted, {name: each for name, each in EACH.items() if name != "sft"})
    assert [stage for stage, value in without.items() if clock(value) == "not recorded"] == ["sft", "all"]
    assert "rl" not in forecast(amounts(composed(["budget=sft_only"])), EACH)
    assert [clock(seconds) for seconds in (45, 276, 36000)] == ["45 s", "4.6 min", "10.0 h"]


def test_validation_is_counted(composed: Composer, cache: Path) -> None:
    """After steps 10, 20 and 25 of the default run's 25, two plays of 30 games each."""
    words = ["trainer.test_freq=10", "eval.validation_games=30", "actor_rollout_ref.rollout.val_kwargs.n=2"]
    wanted = amounts(composed([*words, f"env.cache_dir={cache}"]))
    assert wanted.validation == 3 * 30 * 2
    assert [games.wanted for games in wanted.games if games.split == "validation"] == [30]
    assert amounts(composed([*words, "trainer.val_before_train=true"])).validation == 4 * 30 * 2


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run with clocks set by hand."""
    run = tmp_path / "run"
    seconds = {"games": 2.0, "demonstrations": 3.0, "sft": 12.0, "rl": 60.0, "evaluation": 30.0}
    run.mkdir()
    lines = [{"stage": name, "seconds": value, "ended": 1.0} for name, value in seconds.items()]
    (run / "stages.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return run


def test_which_runs_share_a_record(composed: Composer) -> None:
    default = record_file(composed([]))
    same = ["seed=4", "budget=sft80_rl200", "eval.games=100", "estimate=true", "budget.rl_steps=7", "output_dir=/x"]
    assert record_file(composed(same)) == default
    for other in ("algo=ppo", "env.task=w4-o6-q8", "env.max_turns=8", "env.workers=1"):
        assert record_file(composed([other])) != default


def test_which_runs_are_recorded(
    composed: Composer, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Uninterrupted ones of three steps and 64 test games; what they did not have stays."""
    monkeypatch.setenv("TURNGRID_CACHE", str(tmp_path))
    config = composed([])
    assert recorded(config) == {}
    (folder / "result.json").write_text("{}")
    (folder / "attempts.jsonl").write_text("1\n2\n")
    record(config, folder)
    assert recorded(config) == {}  # it was interrupted
    (folder / "attempts.jsonl").write_text("1\n")
    for short in ("budget.rl_steps=2", "eval.games=63"):
        record(composed([short]), folder)
    assert recorded(config) == {}
    record_file(config).parent.mkdir()
    record_file(config).write_text(json.dumps(EACH))
    record(composed(["budget=rl_only"]), folder)  # 25 RL steps, 2 x 200 evaluation episodes
    assert recorded(config) == {**EACH, "rl": 60 / 25, "evaluation": 30 / 400}


# ---- does it fit


def test_shapes_have_the_published_sizes() -> None:
    """Qwen2.5's model cards: 0.49B, 1.54B, 3.09B, 7.61B; Qwen3-8B: 8.2B; SmolLM2: 134.5M; ours:
    316,096 with its norms."""
    sizes = [shape.parameters for config in PUBLISHED.values() if (shape := from_config(config))]
    assert [round(size / 1e6, -1) for size in sizes[:5]] == [490, 1540, 3090, 7620, 8190]
    assert sizes[5] == pytest.approx(134.5e6, rel=1e-3)
    tiny = shape_of("asset://tiny")
    assert tiny is not None and tiny.parameters == pytest.approx(316_096, rel=3e-3)
    assert shape_of("nobody/knows") is None


def test_disk_by_hand(composed: Composer) -> None:
    """Two checkpoints stay, a third is being written; the SFT model is kept too. Past opponents are
    a model before RL, and one after each fifth of 11 steps. With LoRA: frozen weights twice,
    adapters twice, Adam of the adapters alone, 40,960 numbers of rank 8."""

    def disk(*words: str, shape: Shape | None) -> dict[str, float]:
        config = composed([*words])
        wanted = replace(amounts(config), games=(Games("train", "w2-o3-q4", 400, 340),))
        return {key: needed for key, _, needed in estimate.disk(config, wanted, shape)}

    shape, tiny = Shape(1000, 4, 64, 1600, 16), shape_of("asset://tiny")
    assert disk(shape=shape) == {
        "env.cache_dir": 60 * 400_000,
        "output_dir": 3 * 16 * 1000 + 4 * 1000 + (60 + 3200 + 600) * 12_000,
    }
    rl = ("budget=rl_only", "budget.rl_steps=11", *PAST[:-1])
    past, first = (disk(*rl, f"{PAST[-1][:-4]}{other}", shape=shape)["output_dir"] for other in ("past", "first"))
    assert past - first == 3 * 4 * 1000
    lora, nothing = (disk("model.lora_rank=8", "budget=rl_only", shape=one)["output_dir"] for one in (tiny, None))
    assert tiny is not None and lora - nothing == 3 * (8 * (tiny.parameters + 40_960) + 8 * 40_960)


def test_memory_of_this_machine_by_hand(composed: Composer) -> None:
    """fp32: 16 bytes a trained parameter and 4 of the server; 92 a token, layer and hidden unit; 12
    a logit. bf16: 24 a token, layer and hidden unit."""

    def needed(size: int, *words: str) -> float:
        where = Devices("this machine", 1, 20 * GB)
        return demand(composed([*words]), Shape(size, 4, 64, 1600, 16), where).peak() - 3.5 * 2**30

    rl = ("budget=rl_only", "env.max_turns=5", "data.max_prompt_length=100", "data.max_response_length=300")
    tokens, logits = 4 * 400, 5 * 16 / 400  # four rows; the RL stage computes logits of actions alone
    passes = tokens * (92 * 4 * 64 + logits * 12 * 1600)
    assert needed(10**6, *rl) == pytest.approx(20e6 + passes)
    assert needed(10**6, *rl, "precision=bf16") == pytest.approx(20e6 + passes - tokens * 68 * 4 * 64)
    assert needed(10**6, *rl, "actor_rollout_ref.actor.use_kl_loss=true") == pytest.approx(24e6 + passes)
    adapters = needed(10**8, *rl, "model.lora_rank=8") - needed(10**6, *rl, "model.lora_rank=8")
    assert adapters == pytest.approx(99e6 * 8)  # frozen, and the server's
    past = needed(10**6, *rl, *PAST) - needed(10**6, *rl, *PAST[:-1])
    assert past == pytest.approx(4e6)  # a second model of the server
    assert needed(10**6, "budget=sft_only") == pytest.approx(16e6 + 8192 * (92 * 4 * 64 + 12 * 1600))


@pytest.mark.parametrize("words", ["prompt=think_action", "prompt=think_action algo=ppo budget=rl_only", ""])
def test_what_is_suggested_for_this_machine_fits(composed: Composer, words: str) -> None:
    """Four rows of up to 3,584 tokens at once are too many for SmolLM2; fewer fit."""
    asked = ["model=smollm2_135m", "model.rows_per_pass=4", "precision=fp32", *words.split()]
    config, where = composed(asked), Devices("this machine", 1, 13.7 * GB)
    shape = shape_of(config.model.path)
    assert shape is not None
    (problem,) = problems(config, shape, where)
    advised = [word for word in problem.split("what fits: ")[1].split() if "=" in word]
    assert advised and problems(composed([*asked, *advised]), shape, where) == []
