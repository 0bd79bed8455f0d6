"""``estimate=true``: what is counted, predicted and refused, by hand and on real game files."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from omegaconf import DictConfig

from turngrid.config import machine
from turngrid.config.checks.check import check
from turngrid.config.compose import Composer
from turngrid.config.errors import ConfigError
from turngrid.envs.games.catalogue import Catalogue
from turngrid.envs.registry import make_environment
from turngrid.envs.types import TaskError
from turngrid.experiments.cost_estimate import estimate, memory
from turngrid.experiments.cost_estimate.amounts import Games, amounts, forecast, record, record_file, recorded
from turngrid.experiments.cost_estimate.memory import GB, Devices, demand
from turngrid.experiments.tables import duration
from turngrid.records.models import gpus
from turngrid.records.models.shape import PUBLISHED, Shape, from_config, shape_of
from turngrid.records.process.exit_codes import Refusal
from turngrid.tasks.run import Run

PAST = ("env=two_player", "rollout_form=self_play", "rollout_form.self_play.opponent=past")
EACH = {"demonstrations": 0.05, "sft": 0.2, "rl": 7.5, "evaluation": 0.1}  # seconds of a unit


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three training games, made, and seven test games, one of which is among them."""
    folder = tmp_path_factory.mktemp("cache")
    for split, count in (("train", 3), ("test", 7)):
        Catalogue(make_environment("gym"), folder).tasks("FrozenLake-v1", split, count, progress=False)
    return folder


# ---- what is needed


def test_games_that_are_there_are_counted(composed: Composer, cache: Path) -> None:
    small = ["env=gym", f"env.cache_dir={cache}", "budget.units=40", "eval.games=8", "budget.rl_steps=1"]
    before = sorted(cache.rglob("*"))
    wanted = amounts(Run(composed(small)))
    assert sorted(cache.rglob("*")) == before
    counts = {"test": (8, 7), "demonstrations": (2, 0), "train": (16, 2)}
    assert wanted.games == tuple(Games(split, "FrozenLake-v1", *count) for split, count in counts.items())
    assert (wanted.models, wanted.samples) == (3, 8)
    seats, library = ["env=two_player", "eval.opponents=[random,first]"], ["library=[experience]"]
    both, twice = (amounts(Run(composed(words))) for words in (seats, library))
    assert (both.samples, twice.models) == (200 * 2 * 2, 4)


def test_a_split_that_is_too_small_is_refused(composed: Composer) -> None:
    with pytest.raises(TaskError, match="split test has at most"):
        amounts(Run(composed(["eval.games=40000"])))


# ---- how long


def test_the_default_by_hand(composed: Composer) -> None:
    """60 demonstrations in batches of 4 are 15 steps; three models play 200 games each."""
    wanted = amounts(Run(composed([])))
    by_hand = {"demonstrations": 60 * 0.05, "sft": 15 * 0.2, "rl": 25 * 7.5, "evaluation": 600 * 0.1}
    assert forecast(wanted, EACH) == pytest.approx({**by_hand, "all": sum(by_hand.values())})
    without = forecast(wanted, {name: each for name, each in EACH.items() if name != "sft"})
    assert [stage for stage, value in without.items() if value is None] == ["sft", "all"]
    assert "rl" not in forecast(amounts(Run(composed(["budget=sft_only"]))), EACH)
    assert amounts(Run(composed(["demos.experience=world_model"]))).units["experience"] == 600 // (10 + 8)
    assert [duration(seconds) for seconds in (45, 276, 36000)] == ["45 s", "4 min 36 s", "10 h 00 min"]


def test_validation_is_counted(composed: Composer, cache: Path) -> None:
    """After steps 10, 20 and 25 of the default run's 25, two plays of 30 games each."""
    words = ["trainer.test_freq=10", "eval.validation_games=30", "actor_rollout_ref.rollout.val_kwargs.n=2"]
    wanted = amounts(Run(composed([*words, f"env.cache_dir={cache}"])))
    assert wanted.validation == 3 * 30 * 2
    assert [games.wanted for games in wanted.games if games.split == "validation"] == [30]
    assert amounts(Run(composed([*words, "trainer.val_before_train=true"]))).validation == 4 * 30 * 2


def test_which_runs_share_a_record(composed: Composer) -> None:
    default = record_file(Run(composed([])))
    same = ["seed=4", "budget=sft80_rl200", "eval.games=100", "estimate=true", "budget.rl_steps=7", "output_dir=/x"]
    assert record_file(Run(composed(same))) == default
    for other in ("algo=ppo", "env.task=w4-o6-q8", "env.max_turns=8", "env.workers=1", "demos.experience=world_model"):
        assert record_file(Run(composed([other]))) != default


def test_which_runs_are_recorded(composed: Composer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Uninterrupted ones of three steps and 64 test games; what they did not have stays."""
    monkeypatch.setenv("TURNGRID_CACHE", str(tmp_path))
    config, run = composed([]), tmp_path / "run"
    assert recorded(Run(config)) == {}
    run.mkdir()
    seconds = {"games": 2.0, "demonstrations": 3.0, "sft": 12.0, "rl": 60.0, "evaluation": 30.0}
    lines = [{"stage": name, "seconds": value, "ended": 1.0} for name, value in seconds.items()]
    (run / "stages.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (run / "result.json").write_text("{}")
    (run / "attempts.jsonl").write_text("1\n2\n")
    record(Run(config, run))  # it was interrupted
    (run / "attempts.jsonl").write_text("1\n")
    for short in ("budget.rl_steps=2", "eval.games=63"):
        record(Run(composed([short]), run))
    assert recorded(Run(config)) == {}
    record_file(Run(config)).parent.mkdir()
    record_file(Run(config)).write_text(json.dumps(EACH))
    record(Run(composed(["budget=rl_only"]), run))  # 25 RL steps, 2 x 200 evaluation episodes
    assert recorded(Run(config)) == {**EACH, "rl": 60 / 25, "evaluation": 30 / 400}


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
    experts = {**PUBLISHED["Qwen/Qwen2.5-0.5B-Instruct"], "num_experts": 60}
    assert from_config(experts) is None, "its experts are not counted"


def test_disk_by_hand(composed: Composer) -> None:
    """Two checkpoints stay, a third is being written; the SFT model is kept too. Past opponents are
    a model before RL, and one after each fifth of 11 steps. With LoRA: frozen weights twice,
    adapters twice, Adam of the adapters alone, 40,960 numbers of rank 8."""

    def disk(*words: str, shape: Shape | None) -> dict[str, float]:
        config = composed([*words])
        wanted = replace(amounts(Run(config)), games=(Games("train", "w2-o3-q4", 400, 340),))
        return {key: needed for key, _, needed in estimate.disk(Run(config), wanted, shape)}

    shape, tiny = Shape(1000, 4, 64, 1600, 16), shape_of("asset://tiny")
    run = 3 * 16 * 1000 + 4 * 1000 + (60 + 3200 + 600) * 12_000
    assert disk(shape=shape) == {"env.cache_dir": 60 * 400_000, "output_dir": run}
    rl = ("budget=rl_only", "budget.rl_steps=11", *PAST[:-1])
    past, first = (disk(*rl, f"{PAST[-1][:-4]}{other}", shape=shape)["output_dir"] for other in ("past", "first"))
    assert past - first == 3 * 4 * 1000
    lora, nothing = (disk("model.lora_rank=8", "budget=rl_only", shape=one)["output_dir"] for one in (tiny, None))
    assert tiny is not None and lora - nothing == 3 * (8 * (tiny.parameters + 40_960) + 8 * 40_960)


def test_memory_of_this_machine_by_hand(composed: Composer) -> None:
    """fp32: 16 bytes a trained parameter and 4 of the server; 92 a token, layer and hidden unit; 12
    a logit. bf16: 24 a token, layer and hidden unit. A token has 512 cached keys and values."""

    def needed(size: int, *words: str) -> float:
        where = Devices("this machine", 1, 20 * GB)
        return demand(Run(composed([*words])), Shape(size, 4, 64, 1600, 16), where).peak() - 3.5 * 2**30

    rl = ("budget=rl_only", "env.max_turns=5", "data.max_prompt_length=100", "data.max_response_length=300")
    rl, many = (*rl, "data.train_batch_size=4"), (*rl, "data.train_batch_size=400")  # times 8 samples
    tokens, logits = 4 * 400, 5 * 16 / 400  # four rows; the RL stage computes logits of actions alone
    passes = tokens * (92 * 4 * 64 + logits * 12 * 1600)
    assert needed(10**6, *rl) == pytest.approx(20e6 + passes)
    assert needed(10**6, *rl, "precision=bf16") == pytest.approx(20e6 + passes - tokens * 68 * 4 * 64)
    assert needed(10**6, *rl, "actor_rollout_ref.actor.use_kl_loss=true") == pytest.approx(24e6 + passes)
    adapters = needed(10**8, *rl, "model.lora_rank=8") - needed(10**6, *rl, "model.lora_rank=8")
    assert adapters == pytest.approx(99e6 * 8)  # frozen, and the server's
    past = needed(10**6, *rl, *PAST) - needed(10**6, *rl, *PAST[:-1])
    assert past == pytest.approx(4e6)  # a second model of the server
    taught, tiny = [*rl, "model.lora_rank=8", "algo=distill"], shape_of("asset://tiny")
    known, unknown = (needed(10**6, *taught, f"algo.teacher={path}") for path in ("asset://tiny", "nobody/knows"))
    assert tiny is not None and unknown - known == pytest.approx(4 * (10**6 - tiny.parameters))
    assert needed(10**6, *many) == pytest.approx(16e6 + 3200 * 400 * 512 * 4)
    assert needed(10**6, *many, "precision=bf16") == pytest.approx(16e6 + 3200 * 400 * 512 * 2)
    assert needed(10**6, *many, "data.train_batch_size=4000") == pytest.approx(16e6 + 4 * 2**30)  # the server's limit
    assert needed(10**6, "budget=sft_only") == pytest.approx(16e6 + 8192 * (92 * 4 * 64 + 12 * 1600))


# ---- on GPUs that are not here

BILLION = Shape(parameters=10**9, layers=20, hidden=2048, vocabulary=32_000, head_size=128)


def place(name: str, number: int) -> Devices:
    return Devices(*gpus.parse(f"{name}x{number}"))


def memory_bytes(config: DictConfig, card: tuple[str, int], shape: Shape) -> float:
    return demand(Run(config), shape, place(*card)).peak()


def test_names() -> None:
    texts = {"RTX4090": ("RTX4090", 1), "rtx3090x2": ("RTX3090", 2), "48gbx2": ("48GB", 2)}
    assert {text: gpus.parse(text)[:2] for text in texts} == texts
    assert gpus.parse("A100-40x2") == ("A100-40", 2, 40e9)
    for text, near in (("H10x8", "H100"), ("A100_40", "A100-40")):
        with pytest.raises(Refusal, match=f"use {near}x8"):
            gpus.parse(text)


def test_memory_by_hand(composed: Composer) -> None:
    """12 bytes a parameter over 8 GPUs beside vLLM's 60 % of 80 GB, 50 % where there is a critic; 2
    GB for CUDA."""

    def needed(number: int, *words: str) -> float:
        return memory_bytes(composed(["model=qwen2.5_1.5b", "cluster=gpu8", *words]), ("H100", number), BILLION)

    assert needed(8, "algo=grpo") == pytest.approx(12e9 / 8 + 0.6 * 80e9 + 2e9)
    assert needed(8, "algo=ppo") == pytest.approx(24e9 / 8 + 0.5 * 80e9 + 2e9)
    of_node = "actor_rollout_ref.actor.fsdp_config.fsdp_size=8"
    assert needed(16, "algo=ppo", of_node) == needed(8, "algo=ppo")
    offload = [f"actor_rollout_ref.actor.fsdp_config.{what}_offload=true" for what in ("param", "optimizer")]
    assert needed(1, *offload) == pytest.approx(0.6 * 80e9 + 2e9)
    plain = ["rollout=transformers", "actor_rollout_ref.model.enable_gradient_checkpointing=false"]
    assert needed(8, *plain) == pytest.approx(16e9 / 8 + 24576 * (34 * 20 * 2048 + 8 * 32_000) + 2e9 + 2e9)
    assert needed(8, plain[0]) == pytest.approx(16e9 / 8 + 24576 * (2 * 20 * 2048 + 8 * 32_000) + 2e9 + 2e9)


def test_memory_with_lora_by_hand(composed: Composer) -> None:
    """Rank 16 on all linear layers of Qwen2.5-1.5B: 18,464,768 numbers, 16 bytes each; 4 a frozen
    parameter, and a critic's 16."""
    words = ["model=qwen2.5_1.5b", "cluster=gpu8", "rollout=transformers", "model.lora_rank=16"]
    words.append("actor_rollout_ref.actor.ppo_max_token_len_per_gpu=16384")
    adapter, rest = 18_464_768, 16384 * (2 * 20 * 2048 + 8 * 32_000) + 2e9 + 2e9
    found = [memory_bytes(composed([*words, f"algo={algo}"]), ("H100", 8), BILLION) for algo in ("grpo", "ppo")]
    assert found == pytest.approx([(4e9 + 16 * adapter) / 8 + rest, (20e9 + 16 * adapter) / 8 + rest])


SHARE = "actor_rollout_ref.rollout.gpu_memory_utilization"
HALF = ["model=qwen2.5_0.5b", "cluster=gpu1", "budget=rl_only", "scale=first"]


def test_the_review_by_hand(composed: Composer) -> None:
    """0.5B on 24 GB: 16 bytes x 0.494e9 + 8,192 tokens x (8 x 151,936 + 2 x 24 x 896) bytes + 2 GB
    = 20.2 GB; with fused kernels 512 tokens x 24 x 151,936 bytes, so 12.1 GB, and sampling needs
    more: 12 bytes x 0.494e9 + 0.4 x 24 GB + 2 GB = 17.5 GB."""
    config, card = composed([*HALF, "estimate_gpu=RTX4090"]), ("RTX4090", 1)
    shape = shape_of(config.model.path)
    assert shape is not None and shape.cached_numbers * 2 == 12_288
    assert memory_bytes(config, card, shape) == pytest.approx(12 * shape.parameters + 0.4 * 24e9 + 2e9)
    expected = 16 * shape.parameters + 512 * 24 * 151_936 + 8192 * 2 * 24 * 896 + 2e9
    served = composed([*HALF, "estimate_gpu=RTX4090", f"{SHARE}=0.1"])
    assert memory_bytes(served, card, shape) == pytest.approx(expected) == pytest.approx(12.1e9, rel=0.01)
    assert memory.problems(Run(config), shape, place(*card)) == []


def test_all_that_is_offloaded_lies_elsewhere(composed: Composer) -> None:
    config = composed([*HALF, "estimate_gpu=24GB", f"{memory.ACTOR}.fsdp_config.offload_policy=true", f"{SHARE}=0.08"])
    passes = 8192 * 2 * 20 * 2048 + 512 * 24 * 32_000
    assert memory_bytes(config, ("24GB", 1), BILLION) == pytest.approx(passes + 16 * 32_000 * 2048 + 2e9)
    assert demand(Run(config), BILLION, place("24GB", 1)).states(0) == 16e9


SMOL = "model=smollm2_135m model.rows_per_pass=4 model.gradient_checkpointing=false precision=fp32"
HERE, QWEN = Devices("this machine", 1, 13.7 * GB), "model=qwen2.5_1.5b cluster=gpu1"


@pytest.mark.parametrize(
    ("words", "where"),
    [
        (SMOL, HERE),  # four rows of up to 3,584 tokens at once are too many, fewer fit
        (f"{SMOL} prompt=think_action", HERE),
        (f"{SMOL} prompt=think_action algo=ppo budget=rl_only", HERE),
        (f"{QWEN} estimate_gpu=RTX4090", place("RTX4090", 1)),
        (f"{QWEN} estimate_gpu=A100 algo=ppo {memory.ACTOR}.ppo_max_token_len_per_gpu=65536", place("A100", 1)),
        (f"{QWEN} estimate_gpu=H100 {SHARE}=0.9", place("H100", 1)),
        ("model=qwen2.5_7b cluster=gpu8 estimate_gpu=A100-40x8 algo=ppo", place("A100-40", 8)),
    ],
)
def test_what_is_suggested_fits(composed: Composer, words: str, where: Devices) -> None:
    """The suggested words, given to the same command, are accepted."""
    config = composed(words.split())
    shape = shape_of(config.model.path)
    problem = memory.problems(Run(config), shape, where)[-1]
    for change in re.sub(r" \(.*\)", "", problem.split("what fits: ")[1]).split("; or "):
        keys = {word.split("=")[0] for word in change.split()}
        asked = [word for word in words.split() if word.split("=")[0] not in keys]
        changed = composed([*asked, *change.split()])
        assert check(changed) is not None
        assert memory.problems(Run(changed), shape, where) == []


def test_vllm_must_have_room_for_the_whole_context(composed: Composer) -> None:
    """Keys and values of 32,768 tokens take 2 x 2 x 20 x 2,048 bytes each, at any row length."""
    problem = memory.problems(Run(composed([*HALF, "estimate_gpu=24GB"])), BILLION, place("6GB", 1))[-1]
    assert "5.4 for one row of 32768 tokens" in problem and "or offloading makes it fit" in problem


def test_a_run_that_does_not_fit_here_never_starts(composed: Composer, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(machine, "here", lambda: gpus.GPUS["RTX4090"])
    estimate.check(Run(composed(HALF)), said.append)
    assert "18 of a GPU's 24GB needed" in said[0]
    for host, offload in ((64 * GB, True), (16 * GB, False)):
        monkeypatch.setattr(memory, "memory_here", lambda cluster, host=host: host)
        with pytest.raises(ConfigError, match="30 GB a GPU needed, 24 GB there; what fits: ") as caught:
            estimate.check(Run(composed(["model=qwen2.5_1.5b", "cluster=gpu1"])), said.append)
        assert ("offload_policy=true" in str(caught.value)) == offload
    monkeypatch.setattr(machine, "here", lambda: None)
    estimate.check(Run(composed(HALF)), said.append)
    assert "cluster.gpu_memory_gb" in said[-1]
    estimate.check(Run(composed(["model.path=nobody/knows"])), said.append)
    assert said[-1].startswith("note: model.path=nobody/knows: its size is not known, so memory was not checked")
    job = [f"{memory.ACTOR}.fsdp_config.offload_policy=true", "model=qwen2.5_7b", "cluster=slurm_gpu8"]
    monkeypatch.undo()
    estimate.check(Run(composed([*job, "cluster.gpu_memory_gb=80"])), said.append)  # its node's memory is not known
    with pytest.raises(
        ConfigError, match="keeps 122 GB in the machine's memory, which has 69; use .*optimizer_offload=true"
    ):
        estimate.check(Run(composed([*job, "cluster.gpu_memory_gb=80", "cluster.slurm.mem_gb=64"])), said.append)
