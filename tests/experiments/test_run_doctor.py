"""The doctor of runs: what it reads, whole or damaged, and what it says of stored runs."""

import json
import math
import re
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from benchmarks.broken_runs import CASES, outcomes, table
from turngrid.experiments.doctor.__main__ import main
from turngrid.experiments.doctor.sources import read
from turngrid.experiments.stages.rl import Rollback
from turngrid.records.credit import Credit, write_credit
from turngrid.records.health.alarms import alarms
from turngrid.records.process.exit_codes import REFUSED
from turngrid.records.resume import RlFolder
from turngrid.rollouts.episode import Episode, Outcome, Turn
from turngrid.rollouts.store import write_episodes

KL = {1: 0.01, 2: 0.02, 3: 0.5}
RUNS = Path(__file__).parent / "doctor" / "runs"
PAGE = (Path(__file__).parents[2] / "docs" / "doctor.md").read_text(encoding="utf-8")


def verls_file(path: Path) -> None:
    """As verl's FileLogger writes it."""
    path.write_text("".join(json.dumps({"step": s, "data": {"actor/ppo_kl": v}}) + "\n" for s, v in KL.items()))


def our_file(path: Path) -> None:
    path.write_text("".join(json.dumps({"step": s, "actor/ppo_kl": v}) + "\n" for s, v in KL.items()))


def plain_csv(path: Path) -> None:
    path.write_text("training/global_step,actor/ppo_kl,other\n" + "".join(f"{s},{v},\n" for s, v in KL.items()))


def wandb_csv(path: Path) -> None:
    """As its page exports a panel; rows in another order."""
    rows = "".join(f'"{s}","{v}"\n' for s, v in reversed(KL.items()))
    path.write_text(f'"Step","a - run - actor/ppo_kl"\n{rows}')


def events(path: Path) -> None:
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(path)) as writer:
        for step, value in KL.items():
            writer.add_scalar("actor/ppo_kl", value, step)


def wandb_offline(path: Path) -> None:
    import wandb

    with wandb.init(mode="offline", dir=path.parent, settings=wandb.Settings(console="off", quiet=True)) as run:
        for step, value in KL.items():
            run.log({"actor/ppo_kl": value}, step=step)
    wandb.teardown()  # the file is whole when W&B's process has ended
    next(path.parent.glob("wandb/offline-run-*/*.wandb")).rename(path)


FORMATS = {"verl.jsonl": verls_file, "ours.jsonl": our_file, "tensorboard": events}
FORMATS |= {"plain.csv": plain_csv, "wandb.csv": wandb_csv, "offline.wandb": wandb_offline}


@pytest.mark.parametrize("name", FORMATS)
def test_it_reads_metrics_of_others(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    FORMATS[name](tmp_path / name)
    assert main([str(tmp_path / name)]) == 1
    told = capsys.readouterr().out
    assert "3 steps (1 to 3)\nfirst, at step 3: policy_kl\n" in told
    assert "likely cause: the policy is far" in told and "actor_rollout_ref.actor.optim.lr" in told
    assert "trends: some rules need 6 steps" in told and "no_signal (credit/groups_without_signal)" in told


@pytest.mark.parametrize("name", FORMATS)
def test_of_a_damaged_file_it_reads_what_is_whole(name: str, tmp_path: Path) -> None:
    """Cut within its last record, and with rubbish before it."""
    path = tmp_path / name
    FORMATS[name](path)
    file = next(path.iterdir()) if path.is_dir() else path
    whole = file.read_bytes()
    file.write_bytes(whole[:-3])
    assert read(path).curves.steps[:2] == [1, 2]
    if name in {"tensorboard", "offline.wandb"}:  # binary
        return
    *first, last = whole.splitlines(keepends=True)
    file.write_bytes(b"".join([*first, b"\xff\x00 rubbish\n", last]))
    source = read(path)
    assert source.curves.steps == [1, 2, 3] and sum(source.skipped.values()) == 1


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("nothing.jsonl", None, "no such file or folder; use a run folder, verl's file logger"),
        ("rubbish.jsonl", b"\x00\xff\n[1, 2]\n", "2 lines that are no metrics; use"),
        ("none.csv", b"a,b\n1,2\n", "no column of steps; use a CSV whose head has one of step, _step"),
        ("foreign.csv", b"step,loss\n1,2\n", "no metric that a rule reads; use verl's names"),
        ("two.csv", b"Step,a - actor/ppo_kl,b - actor/ppo_kl\n1,2,3\n", "several columns of one metric; use a CSV of"),
        ("long.csv", b"run,step,actor/ppo_kl\na,1,2\nb,1,3\n", "step 1 has two values of actor/ppo_kl"),
        ("wandb/run-1.wandb", b"no log", "an offline file of Weights & Biases without a step of training"),
        ("events.out.tfevents.1", b"\x00" * 40, "without a step"),
    ],
)
def test_what_cannot_be_read_is_refused(
    name: str, content: bytes | None, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if content is not None:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    assert main([str(tmp_path / Path(name).parts[0])]) == REFUSED  # a file, or the folder with it
    assert says in capsys.readouterr().err


def test_a_folder_must_be_one_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a", "b"):
        (tmp_path / name / "rl").mkdir(parents=True)
        our_file(tmp_path / name / "rl" / "metrics.jsonl")
    assert main([str(tmp_path), str(tmp_path / "a")]) == REFUSED
    told = capsys.readouterr()
    assert f"2 runs; use one or more of them, such as {tmp_path / 'a'}" in told.err and "3 steps" in told.out


def test_a_failure_and_sft_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = {"config.yaml": "seed: 1", "failure.json": '{"message": "it hung\\n  | log"}', "tensorboard/tfevents": ""}
    for file, text in (files | {"sft/metrics.jsonl": '{"step": 2, "sft/loss": null}'}).items():
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(text)
    assert main([str(tmp_path)]) == 1
    assert "no step of RL\n  it failed: it hung\nfirst, at step 2: not_finite of SFT\n" in capsys.readouterr().out
    (tmp_path / "sft").rename(tmp_path / "rl")
    (tmp_path / "rl" / "metrics.jsonl").write_text('{"step": 2, "actor/ppo_kl": 0.0}')
    assert main([str(tmp_path)]) == 1 and "  it failed: it hung\nno alarm" in capsys.readouterr().out


def test_a_huge_file_keeps_only_what_rules_read(tmp_path: Path) -> None:
    others = {f"verl/{number}": 0.123456789 for number in range(60)}
    with (tmp_path / "huge.jsonl").open("w") as file:
        for step in range(1, 2_001):
            file.write(json.dumps({"step": step, "actor/ppo_kl": 0.5 * (step == 1_500), **others}) + "\n")
        file.write('{"step": 2001, "rubbish": "' + "x" * 20_000_000 + '"}\n')
    source = read(tmp_path / "huge.jsonl")
    assert list(source.curves.columns) == ["actor/ppo_kl"] and source.skipped == {"lines of more than 16 MiB": 1}
    assert [alarm.step for alarm in alarms(source.curves, source.limits)] == [1_500]


def turn(valid: bool, tokens: int) -> Turn:
    return Turn("o", "eat door", [1] * tokens, [-0.1] * tokens, valid=valid)


def test_of_a_run_folder_it_says_where(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rl = RlFolder(tmp_path)
    rl.root.mkdir()
    rl.metrics.write_text('{"step": 3, "actor/grad_norm": null}\n')
    episode = Episode("doors/1", 3, "train", "", [], [1], [turn(True, 2), turn(False, 3)], Outcome.LOST)
    episode = replace(episode, trains_thoughts=False, turns=[replace(one, thought_tokens=1) for one in episode.turns])
    write_episodes(rl.step_episodes(3), [episode, episode])
    for worst, seen in ((-3.0, "perhaps the largest advantage, 3"), (math.nan, "an advantage that is not finite")):
        write_credit(rl.credit / "000003.jsonl", [None, Credit([None, worst, 0.1], [0.0] * 3)])
        assert main([str(tmp_path)]) == 1
        assert f"where:        {seen}: turn 2, token 2 of episode 2 (doors/1)" in capsys.readouterr().out
    our_file(rl.metrics)  # no file tells where the policy moved
    assert main([str(tmp_path)]) == 1 and "where:" not in capsys.readouterr().out
    rows = [{"step": step, "rollout/invalid_actions": 0.1 if step < 4 else 0.9} for step in range(1, 7)]
    rl.metrics.write_text("".join(json.dumps(row) + "\n" for row in rows))
    write_episodes(rl.step_episodes(6), [episode, episode])
    rl.rollbacks.write_text(json.dumps(asdict(Rollback(2, "policy_kl", 1, 1e-4))) + "\n")
    main([str(tmp_path)])
    told = capsys.readouterr().out
    assert "6)\n  health=rollback: policy_kl in step 2: back to the checkpoint of step 1" in told
    assert "most often in turn 2 (2 of 2 episodes), such as 'eat door' in doors/1" in told
    rows = [{"step": step, "rollout/answers_at_limit": 0.5, "rollout/distinct_prompts": 0.1} for step in range(1, 4)]
    rl.metrics.write_text("".join(json.dumps(row) + "\n" for row in rows))
    write_episodes(rl.step_episodes(3), [episode])
    main([str(tmp_path)])
    told = capsys.readouterr().out
    assert "where:        most often in turn 2 (1 of 1 episodes), such as 'eat door'" in told
    assert "then:\n  step 3: repeated_prompts: rollout/distinct_prompts: 0.1" in told and "check_env" in told


# ---- the stored runs


def test_ill_runs_are_told_within_five_steps_and_healthy_ones_are_let_be() -> None:
    told = outcomes()
    assert table(told) in PAGE, "python benchmarks/broken_runs.py"
    assert {one.name for one in told} <= {*CASES}
    missed = {one.name for one in told if one.ill and not one.naming}
    assert missed == {name for name, case in CASES.items() if case.ill and not case.alarms}
    assert all(f"`{name}`" in PAGE.partition("## What it cannot detect")[2] for name in missed), "the reason"
    # True, and no illness: two groups a step score alike three times
    assert [one.name for one in told if not one.ill and one.first] == ["few_episodes"]


def test_each_stored_run_is_one_of_its_own_and_raises_what_the_page_says() -> None:
    """A setting that changed nothing would count the plain run twice."""
    runs = [read(path) for path in RUNS.glob("*.csv")]
    seen = [{name: values for name, values in run.curves.columns.items() if "timing/" not in name} for run in runs]
    assert all(one not in seen[:number] for number, one in enumerate(seen))
    raised = {alarm.name for run in runs for alarm in alarms(run.curves, run.limits)}
    denied = re.findall(r"`(\w+)`", PAGE.partition("No stored run raises")[2].partition(";")[0])
    assert denied and not raised & {*denied}
