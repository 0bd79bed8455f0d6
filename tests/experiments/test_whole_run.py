"""One real run, looked at from every side; copies of it half-way, damaged and taken up again."""

import shutil
from pathlib import Path

import damages
import pytest
import small
import torch
from omegaconf import OmegaConf
from transformers import AutoModelForCausalLM, AutoTokenizer

from turngrid.config.base import ROOT
from turngrid.config.compose import compose
from turngrid.envs.types import TaskError
from turngrid.experiments.evaluation.result import RunResult
from turngrid.experiments.stages.ledger import ledger
from turngrid.records import extended
from turngrid.records.damage import DISCARDED, discard_damaged
from turngrid.records.files.checkpoints import MODEL
from turngrid.records.process.exit_codes import Refusal
from turngrid.records.resume import RlFolder, discard_beyond_checkpoint
from turngrid.records.run_folder import open_run, run_name
from turngrid.rollouts.store import read_episodes
from turngrid.tasks.run import Run
from turngrid.tasks.splits import prepare_tasks, read_tasks, task_file, write_tasks
from turngrid.verl_plugin.rollout.token_stream import TokenCodec
from turngrid.verl_plugin.sft_rows import EpisodeRows

pytestmark = pytest.mark.timeout(1800)
STEPS = 3
DAMAGED = (
    "rl/checkpoints/global_step_2/actor/optim_world_size_1_rank_0.pt",
    "episodes/demonstrations.jsonl",
    "stages.jsonl",
    "rl/checkpoints/latest_checkpointed_iteration.txt",
)
VALIDATED = ("trainer.test_freq=2", "eval.validation_games=5")  # after steps 2 and 3
VALIDATED += ("model.sft.batch_size=2", "model.sft.epochs=2")  # four steps of SFT


@pytest.fixture(scope="session")
def run(half_way: Path) -> Path:
    return small.run_folder(half_way.parent.parent)


@pytest.fixture(scope="session")
def half_way(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a kill -9 would have left of it once the checkpoint of its second RL step was whole: a
    copy that was made while none of its processes moved. That they all die when one is killed is
    tested by test_child.py, and by the slow tests."""
    output = tmp_path_factory.mktemp("whole run")
    process = small.launch(output, *VALIDATED)
    second = "*/rl/checkpoints/global_step_2/manifest.json"
    small.wait_in(process, output, lambda: bool(list(output.glob(second))), 1500)
    with small.stopped(process):
        folder = small.run_folder(output)
        assert not list(folder.glob("evaluation/*.jsonl")), "too late to show anything"
        copy = Path(shutil.copytree(folder, output / "half-way" / folder.name))
    small.end(process, output, 1500)
    return copy


@pytest.fixture(scope="session")
def killed(half_way: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four of its files are damaged; it goes on by the console script, in a folder with modules of
    our names, and is killed with -9 after its last step."""
    output = tmp_path_factory.mktemp("killed")
    folder = Path(shutil.copytree(half_way, output / half_way.name))
    for name in DAMAGED[:2]:
        damages.cut_in_half(folder / name)
    with (folder / DAMAGED[2]).open("a") as file:
        file.write('rubbish\n{"stage": "rl", "seco')
    (folder / DAMAGED[3]).write_text("99")
    home = small.somebody_elses(tmp_path_factory.mktemp("else") / "home")
    process = small.launch(output, *VALIDATED, program=small.CONSOLE_SCRIPT, folder=home)
    last = folder / f"rl/checkpoints/global_step_{STEPS}/manifest.json"
    small.wait_in(process, output, last.exists, 1500)
    small.kill(process)
    return folder


# ---- what the model saw is what is on record


def test_logprobs_of_the_episodes_are_those_of_teacher_forcing(run: Path):
    model = AutoModelForCausalLM.from_pretrained(run / "sft" / "model", dtype=torch.float32)
    temperature = OmegaConf.load(run / "rl" / "config.yaml").actor_rollout_ref.rollout.temperature
    for episode in small.lines(run / "rl" / "episodes" / "000001.jsonl"):
        small.assert_sampled_by(model, episode, temperature, 3e-5)  # float32 strays by 5e-5 from float64 here


def test_the_first_loss_of_sft_is_the_cross_entropy_of_the_action_tokens(run: Path):
    """Of the demonstrations that the run's seed puts first; each is used once an epoch."""
    losses = [line["sft/loss"] for line in small.lines(run / "sft" / "metrics.jsonl")]
    config, base = OmegaConf.load(run / "config.yaml"), ROOT / "assets" / "tiny"
    episodes, sft = list(read_episodes(run / "episodes" / "demonstrations.jsonl")), config.model.sft
    assert len(losses) == sft.epochs * len(episodes) / sft.batch_size == 4 and sum(losses[2:]) < sum(losses[:2])
    rows = EpisodeRows(episodes, TokenCodec(AutoTokenizer.from_pretrained(base), "qwen3"), max_tokens=4096)
    policy = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    order = torch.randperm(len(episodes), generator=torch.Generator().manual_seed(config.seed))
    nll = torch.cat([action_nll(policy, rows[index]) for index in order[: sft.batch_size].tolist()])
    assert losses[0] == pytest.approx(nll.mean().item(), rel=1e-4)


@torch.no_grad()
def action_nll(policy: torch.nn.Module, row: dict[str, torch.Tensor]) -> torch.Tensor:
    log_probs = policy(row["input_ids"][None]).logits[0, :-1].log_softmax(-1)
    nll = -log_probs.gather(1, row["input_ids"][1:, None]).flatten()
    return nll[row["loss_mask"][1:] == 1]


# ---- the run's own books


def test_every_step_is_logged_once_with_its_episodes(run: Path):
    lines = small.lines(run / "rl" / "metrics.jsonl")
    assert [line["step"] for line in lines] == list(range(1, STEPS + 1))
    for line in lines:
        episodes = list(read_episodes(run / "rl" / "episodes" / f"{line['step']:06d}.jsonl"))
        assert len(episodes) == 16 and {episode.sample for episode in episodes} == {0, 1, 2, 3}
        wins = sum(episode.won for episode in episodes)
        assert line["success/train"] == pytest.approx(wins / len(episodes))
        assert line["reward/trained/mean"] == pytest.approx(wins / len(episodes))  # verl's count
        assert line["reward/sparse/episode"] == pytest.approx(wins / len(episodes))  # ours
        turns = sum(len(episode.turns) for episode in episodes)
        assert line["verl/training/num_turns/mean"] == pytest.approx(turns / len(episodes))
        assert line["rollout/turns"] == pytest.approx(turns / len(episodes))
        assert 0 < line["credit/repeated_states"] <= 1 and line["credit/group_std/p90"] <= 0.5**0.5


def test_the_result_adds_up(run: Path):
    result = RunResult.read(run)
    assert [(stage.name, stage.games) for stage in result.stages] == [("base", 8), ("sft", 8), ("rl", 8)]
    assert result.notes["precision"] == "computes in fp32: 0.315M parameters"
    assert (run.parent / "stdout.txt").read_text().count(f"turngrid: {result.notes['precision']}\n") == 1
    assert set(result.notes["skipped"]) == {"demonstrations", "train", "test", "validation"}
    ledger = small.lines(run / "ledger.jsonl")
    assert result.units == sum(entry["units"] for entry in ledger) == 16
    assert sum(entry["count"] for entry in ledger if entry["kind"] == "rl_episode") == STEPS * 16
    assert [(one.policy, one.successes, one.games_hash, one.max_turns, one.optimal_turns) for one in result.matrix] == [
        (stage.name, stage.successes, stage.games_hash, 6, 4) for stage in result.stages
    ]
    pairs = [(pair.before, pair.after, pair.games) for pair in result.comparisons]
    assert pairs == [("base", "sft", 8), ("base", "rl", 8), ("sft", "rl", 8)]


def test_held_out_games_are_the_same_for_each_stage_and_never_trained_on(run: Path):
    played = [[e["seed"] for e in small.lines(run / f"evaluation/{name}.jsonl")] for name in ("base", "sft", "rl")]
    assert played[0] == played[1] == played[2]
    games = [
        {task["sha256"] for task in small.lines(run / f"tasks/{split}.jsonl")}
        for split in ("train", "demonstrations", "test", "validation")
    ]
    assert len(set.union(*games)) == sum(map(len, games))


def test_validation_games_are_played_between_steps_and_charged_to_nobody(run: Path):
    asked = [task["seed"] for task in small.lines(run / "tasks" / "validation.jsonl")]
    logged = {line["step"]: line for line in small.lines(run / "rl" / "metrics.jsonl")}
    assert [step for step, line in logged.items() if "success/validation" in line] == [2, 3]
    for step in (2, 3):
        played = list(read_episodes(run / "rl" / "validation" / f"{step:06d}.jsonl"))
        assert [episode.seed for episode in played] == asked and len(asked) == 5
        assert logged[step]["success/validation"] == sum(episode.won for episode in played) / 5
        assert logged[step]["rollout/validation/turns"] == sum(len(episode.turns) for episode in played) / 5
    entries = [entry for entry in small.lines(run / "ledger.jsonl") if entry["kind"] == "validation"]
    assert [(entry["step"], entry["count"], entry["units"]) for entry in entries] == [(2, 5, 0), (3, 5, 0)]


# ---- killed and taken up again: also the same seed twice


def test_a_killed_run_plays_and_logs_each_step_once_and_ends_with_the_same_bits(run: Path, killed: Path):
    small.assert_same_rl(killed, run, STEPS)
    before, last = (f"rl/checkpoints/global_step_{step}/{MODEL}/model.safetensors" for step in (STEPS - 1, STEPS))
    credit = [f"rl/credit/{step:06d}.jsonl" for step in range(1, STEPS + 1)]
    for name in ("sft/model/model.safetensors", before, last, *credit):
        assert (run / name).read_bytes() == (killed / name).read_bytes(), name
    assert (run / before).read_bytes() != (run / last).read_bytes(), "nothing was learned"
    for name in ("rl/validation/000002.jsonl", "rl/validation/000003.jsonl"):
        assert small.without_clocks(run / name) == small.without_clocks(killed / name)


def test_what_was_damaged_is_named_in_a_line_each_and_kept(killed: Path):
    told = (killed.parent / "stdout.txt").read_text().splitlines()
    for name in DAMAGED[:2]:
        (line,) = [line for line in told if line.startswith(f"turngrid: note: {name} ")]
        assert f"; moved to {DISCARDED}/000/" in line
        assert (killed / DISCARDED / "000" / name).exists()
    assert not any("Traceback" in line for line in told)
    assert any("step_2" in line and "RL goes on from step 1" in line for line in told)


# ---- extended


def test_an_extension_is_a_copy_and_leaves_the_run_alone(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """No training here: up to where RL would go on."""
    before = damages.sizes(run)
    config = compose([f"extend={run}", f"budget.rl_steps={STEPS + 1}", f"output_dir={tmp_path}"])
    draft = tmp_path / extended.DRAFTS / run_name(config)
    draft.mkdir(parents=True)
    (draft / "result.json").write_text("what a kill left of the copy")
    with open_run(config, tmp_path) as longer:
        (note,) = capsys.readouterr().err.splitlines()
        assert f"step {STEPS} of {run.name}" in note
        assert not (longer / "result.json").exists()
        rl = RlFolder(longer)
        assert discard_beyond_checkpoint(rl) == STEPS and not rl.discarded.exists()
        assert rl.metrics.read_text() == (run / "rl" / "metrics.jsonl").read_text()
        assert sorted(path.stem for path in (longer / "evaluation").glob("*.jsonl")) == ["base", "sft"]
        assert [entry.units for entry in ledger(Run(config, longer)) if entry.units] == [8, 4, 4]  # spent once
        weights = f"rl/checkpoints/global_step_{STEPS}/actor/huggingface/model.safetensors"
        assert (longer / weights).samefile(run / weights)
    with open_run(config, tmp_path) as longer:
        assert capsys.readouterr().err == ""
    assert damages.sizes(run) == before and not draft.parent.exists()


def test_other_test_games_must_not_change_the_training_games(run: Path, tmp_path: Path):
    folder = damages.copy(run, tmp_path / "run")
    config = compose([f"extend={run}", f"budget.rl_steps={STEPS + 1}"])
    assert prepare_tasks(Run(config, folder)).games == 8
    write_tasks(task_file(folder, "train"), read_tasks(task_file(folder, "train"))[1:])
    with pytest.raises(TaskError, match=r"eval\.games.*experiments\.evaluate"):
        prepare_tasks(Run(config, folder))


# ---- every file, damaged in every way


@pytest.mark.parametrize("one_of", [8, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("how", damages.WAYS, ids=lambda how: how.__name__)
def test_a_run_goes_on_after_damage_to_any_file(half_way: Path, tmp_path: Path, how: damages.Way, one_of: int):
    """Up to where it has decided what to do next. Half of the files in a way; all if slow."""
    names, config = damages.names(half_way, 2), OmegaConf.load(half_way / "config.yaml")
    assert len(names) > 40
    for name in names[damages.WAYS.index(how) % one_of :: one_of]:
        folder = damages.copy(half_way, tmp_path / "run")
        how(folder / name)
        if name == "rl/episodes/000001.jsonl" or (name == "rl/metrics.jsonl" and how is not damages.cut_in_half):
            with pytest.raises(Refusal, match="fresh=true"):
                discard_damaged(folder)
            assert damages.sizes(folder).keys() >= damages.sizes(half_way).keys() - {name}
        else:
            lines = discard_damaged(folder)
            assert RlFolder(folder).saved_step() == _step_after(name, how), (name, lines)
            assert damages.lost(half_way, folder, name) == []
            damages.go_on(config, folder)
            assert discard_damaged(folder) == [], name
        shutil.rmtree(folder)


def _step_after(name: str, how: damages.Way) -> int:
    """A checkpoint without a manifest is none, but for the newest one, which verl notes."""
    sealed = name.startswith("rl/checkpoints/global_step_2/")
    noted = name.endswith("global_step_2/manifest.json") and how is damages.missing
    of_step = name in ("rl/episodes/000002.jsonl", "rl/metrics.jsonl")
    return 1 if (sealed and not noted) or of_step else 2
