"""Make and check the runs that test the doctor and the alarms: broken ones, and some that look odd.

    python benchmarks/broken_runs.py               # the table of the stored runs
    python benchmarks/broken_runs.py make          # make the missing runs: two minutes each
    python benchmarks/broken_runs.py make NAME...  # make these again

A run is broken by settings, or from outside by ``tests/experiments/doctor/breaking``, which Python
imports in each of its processes. Of each run the metrics that the rules read are stored, as
``tests/experiments/doctor/runs/NAME.csv``.
"""

from __future__ import annotations

import csv
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from turngrid.experiments.doctor.sources import read
from turngrid.records.files.json_lines import read_lines
from turngrid.records.health.alarms import Alarm, Curves, alarms
from turngrid.records.statistics import wilson

HOME = Path(__file__).resolve().parents[1] / "tests" / "experiments" / "doctor"
WORK = Path(tempfile.gettempdir()) / "turngrid-broken-runs"
ACTOR, ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
IMITATED = ("budget=sft_only", "budget.units=48", "budget.demo_cost=1", "model.sft.lr=1e-3", "eval.games=20")
USUAL = (
    *("budget=rl_only", "budget.units=40", "budget.sft_share=0", "budget.rl_steps=10", "eval.games=1"),
    *("env.task=w1-o2-q1", "env.max_turns=8", "data.train_batch_size=4", f"{ROLLOUT}.n=8", "trainer.save_freq=10"),
)
WITHIN = 5  # steps
ATTEMPTS = 5  # on a loaded machine Ray does not always start
DECOUPLED = "algorithm.rollout_correction.bypass_mode=false"  # the trainer computes log-probs of its own


@dataclass(frozen=True)
class Case:
    """A run: what differs from ``USUAL``, and the alarms that name its illness within five steps.

    If there are none, docs/doctor.md has the reason.
    """

    words: tuple[str, ...] = ()
    alarms: tuple[str, ...] = ()
    illness: str = ""  # of ``sitecustomize.ILLNESSES``
    ill: bool = False
    begins: int = 1  # the first step that is ill


def ill(*alarms: str, by: str = "", words: tuple[str, ...] = (), begins: int = 1) -> Case:
    return Case(words, alarms, by, True, begins)


def odd(*words: str) -> Case:
    return Case(words)


CASES: dict[str, Case] = {
    # ---- ill
    "rate_x30": ill("entropy_up", "policy_kl", "clip_share", words=(f"{ACTOR}.optim.lr=0.012",)),
    "kl_x100": ill("kl_coefficient", words=(f"{ACTOR}.use_kl_loss=true", f"{ACTOR}.kl_loss_coef=0.1")),
    "group_of_one": ill(
        "one_sided",
        words=(
            *("algo=reinforce_plus_plus", "algorithm.adv_estimator=grpo", f"{ROLLOUT}.n=1"),
            *("data.train_batch_size=32", f"{ACTOR}.ppo_mini_batch_size=8"),
        ),
    ),
    "hackable_reward": ill(words=("turn_reward.name=hackable:Hackable", "budget.rl_steps=12")),
    "constant_reward": ill("no_signal", words=("turn_reward.name=hackable:Constant",)),
    "entropy_bonus": ill(words=(f"{ACTOR}.entropy_coeff=1.0",)),
    "cut_answers": ill("answers_at_limit", words=("env.max_action_tokens=2",)),
    "hard_task": ill("groups_all_lost", words=("env.task=w5-o8-q8",)),
    "short_rows": ill("out_of_context", words=("data.max_response_length=160",)),
    "cold_sampler": ill("no_signal", words=(f"{ROLLOUT}.temperature=0.05",)),
    "lost_separator": ill("policy_kl", by="lost_separator"),
    "lost_separator_decoupled": ill("mismatch", by="lost_separator", words=(DECOUPLED,)),
    "dropped_thoughts": ill("policy_kl", "mismatch", by="dropped_thoughts"),
    "noisy_logprobs": ill("clip_share", by="noisy_logprobs"),
    "noisy_logprobs_decoupled": ill("mismatch", by="noisy_logprobs", words=(DECOUPLED,)),
    "trained_observations": ill("trained_tokens", "policy_kl", by="trained_observations"),
    "reward_at_first_token": ill(by="reward_at_first_token", words=("algo=ppo",)),
    "window_without_goal": ill("policy_kl", "mismatch", by="window_without_goal"),
    "wrong_sign": ill("wrong_sign", by="wrong_sign"),
    "infinite_advantage": ill("not_finite", by="infinite_advantage", begins=4),
    "repeated_game": ill(by="repeated_game"),
    "done_is_won": ill("groups_all_won", by="done_is_won"),
    "leaking_expert": ill(by="leaking_expert"),
    "blank_observation": ill(by="blank_observation"),
    "forgetful_parser": ill(by="forgetful_parser", begins=8, words=("budget.rl_steps=14",)),
    "slow_game": ill(by="slow_game"),
    "stale_weights": ill("policy_kl", "clip_share", by="stale_weights", words=(f"{ACTOR}.optim.lr=0.002",)),
    "stale_adapter": ill(
        *("policy_kl", "clip_share"),
        by="stale_weights",
        words=("model.lora_rank=8", f"{ACTOR}.optim.lr=0.02"),
    ),
    "thoughts": ill("mostly_unparsed", words=("prompt=think_action",)),  # of a model that was not trained to write any
    # ---- odd, and healthy
    "seed_3": odd("seed=3"),
    "seed_1": odd("seed=1"),
    "seed_2": odd("seed=2"),
    "ppo": odd("algo=ppo"),
    "gigpo": odd("algo=gigpo"),
    "rloo": odd("algo=rloo"),
    "reinforce": odd("algo=reinforce_plus_plus"),
    "dense_reward": odd("reward=dense", "env.task=w2-o3-q3"),
    "hot_sampler": odd(f"{ROLLOUT}.temperature=1.3"),
    "frozen": odd(f"{ACTOR}.optim.lr=1e-8"),
    "few_episodes": odd(
        "data.train_batch_size=2", f"{ROLLOUT}.n=4", f"{ACTOR}.ppo_mini_batch_size=2", "budget.rl_steps=25"
    ),
    "one_update": odd(f"{ACTOR}.ppo_mini_batch_size=4", f"{ACTOR}.optim.lr=0.001"),
    "dynamic_sampling": odd("filter=[dynamic_sampling]"),
    "windows": odd("env.window_turns=3"),
    "kl_loss": odd(f"{ACTOR}.use_kl_loss=true", f"{ACTOR}.kl_loss_coef=0.001"),
    "token_tis": odd("correction=token_tis", DECOUPLED),
    "self_imitation": odd(
        *("buffer=self_imitation", "buffer.self_imitation.capacity=16", "buffer.self_imitation.weight.cosine_up=5")
    ),
    "rate_x3": odd(f"{ACTOR}.optim.lr=0.0012"),
    "asynchronous": odd("trainer.v1.trainer_mode=colocate_async"),
    "short_task": odd("env.task=w1-o1-q1"),
}


# ---- making


def make(names: list[str]) -> None:
    model = imitated()
    for name in names:
        shutil.rmtree(WORK / name, ignore_errors=True)
        for _ in range(ATTEMPTS):
            try:
                store(name, run(name, CASES[name], model))
                break
            except subprocess.CalledProcessError as error:  # the same command goes on
                print(f"{name}: {error.returncode}; see {WORK / name}.log", flush=True)


def imitated() -> Path:
    """Return the model that all runs start from."""
    if not list((WORK / "sft").glob("*/result.json")):
        train(WORK / "sft", IMITATED, {})
    return next((WORK / "sft").glob("*/sft/model"))


def run(name: str, case: Case, model: Path) -> Path:
    folder = WORK / name
    variables = {"TURNGRID_TEST_ILLNESS": case.illness, "PYTHONPATH": str(HOME / "breaking")}
    train(folder, (*USUAL, f"model.path={model}", *case.words), variables, until="*/evaluation")
    return next(folder.glob("*/rl/metrics.jsonl"))


def train(folder: Path, words: tuple[str, ...], variables: dict[str, str], until: str = "") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "turngrid.train", *words, f"output_dir={folder}"]
    print("$", *command[1:], flush=True)
    with folder.with_suffix(".log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, **variables})
        while process.poll() is None:
            if until and list(folder.glob(until)):
                process.terminate()  # the evaluation is not needed
            time.sleep(1)
    if process.returncode and not (until and list(folder.glob(until))):
        raise subprocess.CalledProcessError(process.returncode, command)


def store(name: str, metrics: Path) -> None:
    lines = read_lines(metrics)
    names = [name for name in sorted({name for line in lines for name in line}) if Curves().is_read(name)]
    with (HOME / "runs" / f"{name}.csv").open("w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["step", *names])
        rows.writerows([line["step"], *(text(line[name]) if name in line else "" for name in names)] for line in lines)


def text(value: float | None) -> str:
    return "nan" if value is None else f"{value:.6g}"


# ---- the alarms of the stored runs


@dataclass(frozen=True)
class Outcome:
    """The alarms of a stored run; ``first`` are those of the first step with any."""

    name: str
    ill: bool
    steps: int
    first: tuple[Alarm, ...]
    naming: Alarm | None  # the first alarm that names the illness, within five steps of its beginning


def outcomes() -> list[Outcome]:
    return [_outcome(name) for name in CASES if (HOME / "runs" / f"{name}.csv").exists()]


def _outcome(name: str) -> Outcome:
    source, case = read(HOME / "runs" / f"{name}.csv"), CASES[name]
    raised = alarms(source.curves, source.limits)
    first = tuple(alarm for alarm in raised if alarm.step == raised[0].step)
    soon = case.begins + WITHIN
    naming = next((alarm for alarm in raised if alarm.name in case.alarms and alarm.step < soon), None)
    return Outcome(name, case.ill, source.curves.steps[-1], first, naming)


def table(found: list[Outcome]) -> str:
    """Return docs/doctor.md's table of the stored runs, and the rates."""
    lines = [f"| run | ill | named within {WITHIN} steps | first alarm |", "|---|---|---|---|"]
    for one in found:
        naming = f"`{one.naming.name}`, step {one.naming.step}" if one.naming else "no" if one.ill else ""
        first = f"`{one.first[0].name}`, step {one.first[0].step}" if one.first else "none"
        lines.append(f"| `{one.name}` | {'yes' if one.ill else 'no'} | {naming} | {first} |")
    ill, well = ([one for one in found if one.ill is wanted] for wanted in (True, False))
    rates = {
        f"named within {WITHIN} steps": (sum(one.naming is not None for one in ill), len(ill)),
        "false alarms": (sum(bool(one.first) for one in well), len(well)),
    }
    lines += [
        "",
        f"stored: {len(found)} of {len(CASES)} runs  ",
        *(
            f"{name}: {count} of {of} runs, {wilson(count, of).percent()} %  "
            for name, (count, of) in rates.items()
            if of
        ),
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    if sys.argv[1:2] == ["make"]:
        make(sys.argv[2:] or [name for name in CASES if not (HOME / "runs" / f"{name}.csv").exists()])
    else:
        print(table(outcomes()))
