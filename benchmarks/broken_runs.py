"""Runs that are ill and runs that only look odd, by which the doctor and the alarms are tested.

    python benchmarks/broken_runs.py             # what is told about the stored runs: rates for docs/doctor.md
    python benchmarks/broken_runs.py make        # make the runs that are missing: a minute each on two cores
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
from dataclasses import dataclass
from pathlib import Path

from turngrid.records.metrics import read_metrics

HOME = Path(__file__).resolve().parents[1] / "tests" / "experiments" / "doctor"
WORK = Path(tempfile.gettempdir()) / "turngrid-broken-runs"
ACTOR, ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
IMITATED = ("budget=sft_only", "budget.units=48", "budget.demo_cost=1", "model.sft.lr=1e-3", "eval.games=20")
USUAL = (
    *("budget=rl_only", "budget.units=40", "budget.sft_share=0", "budget.rl_steps=10", "eval.games=1"),
    *("data.train_batch_size=4", f"{ROLLOUT}.n=8", "env.max_turns=8", "trainer.save_freq=10"),
)
DECOUPLED = "algorithm.rollout_correction.bypass_mode=false"  # the trainer computes log-probs of its own


@dataclass(frozen=True)
class Case:
    """A run: what differs from ``USUAL``, and which alarms name its illness (none: it is healthy)."""

    words: tuple[str, ...] = ()
    alarms: tuple[str, ...] = ()
    illness: str = ""  # of ``sitecustomize.ILLNESSES``
    ill: bool = False


def ill(*alarms: str, by: str = "", words: tuple[str, ...] = ()) -> Case:
    return Case(words, alarms, by, ill=True)


def odd(*words: str) -> Case:
    return Case(words)


CASES: dict[str, Case] = {
    # ---- ill
    "rate_x30": ill("policy_kl", "clip_share", "grad_norm", words=(f"{ACTOR}.optim.lr=0.012",)),
    "kl_x100": ill("kl_coefficient", words=(f"{ACTOR}.use_kl_loss=true", f"{ACTOR}.kl_loss_coef=0.1")),
    "group_of_one": ill(
        "one_sided",
        by="group_of_one",
        words=(f"{ROLLOUT}.n=1", "data.train_batch_size=32", f"{ACTOR}.ppo_mini_batch_size=8"),
    ),
    "hackable_reward": ill("hacked", words=("turn_reward.name=hackable:Hackable", "budget.rl_steps=16")),
    "constant_reward": ill("no_signal", words=("turn_reward.name=hackable:Constant",)),
    "entropy_bonus": ill("entropy_up", words=(f"{ACTOR}.entropy_coeff=1.0",)),
    "cut_answers": ill("answers_at_limit", words=("env.max_action_tokens=2",)),
    "hard_task": ill("groups_all_lost", words=("env.task=w5-o8-q8",)),
    "short_rows": ill("out_of_context", words=("data.max_response_length=160",)),
    "cold_sampler": ill("no_signal", words=(f"{ROLLOUT}.temperature=0.05",)),
    "lost_separator": ill("policy_kl", "mismatch", by="lost_separator"),
    "lost_separator_decoupled": ill("mismatch", by="lost_separator", words=(DECOUPLED,)),
    "dropped_thoughts": ill("policy_kl", "mismatch", by="dropped_thoughts"),
    "noisy_logprobs": ill("clip_share", by="noisy_logprobs"),
    "noisy_logprobs_decoupled": ill("mismatch", by="noisy_logprobs", words=(DECOUPLED,)),
    "trained_observations": ill("trained_tokens", "policy_kl", by="trained_observations"),
    "reward_at_first_token": ill(by="reward_at_first_token", words=("algo=ppo",)),
    "window_without_goal": ill("policy_kl", "mismatch", by="window_without_goal"),
    "wrong_sign": ill("wrong_sign", by="wrong_sign"),
    "infinite_advantage": ill("not_finite", by="infinite_advantage"),
    "repeated_game": ill("repeated_prompts", by="repeated_game"),
    "done_is_won": ill("groups_all_won", by="done_is_won"),
    "leaking_expert": ill(by="leaking_expert"),
    "blank_observation": ill("repeated_prompts", by="blank_observation"),
    "forgetful_parser": ill("invalid_actions", by="forgetful_parser"),
    "slow_game": ill("slowest_episode", by="slow_game"),
    "stale_weights": ill("policy_kl", "clip_share", by="stale_weights", words=(f"{ACTOR}.optim.lr=0.002",)),
    # ---- odd, and healthy
    "seed_0": odd("budget.rl_steps=25", "env.max_turns=12", f"data.train_batch_size=8", "budget.units=100"),
    "seed_1": odd("seed=1"),
    "seed_2": odd("seed=2"),
    "ppo": odd("algo=ppo"),
    "gigpo": odd("algo=gigpo"),
    "rloo": odd("algo=rloo"),
    "reinforce": odd("algo=reinforce_plus_plus"),
    "dense_reward": odd("reward=dense"),
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
    "self_imitation": odd("buffer=self_imitation"),
    "thoughts": odd("prompt=think_action"),
    "rate_x3": odd(f"{ACTOR}.optim.lr=0.0012"),
    "asynchronous": odd("trainer.v1.trainer_mode=colocate_async"),
    "short_task": odd("env.task=w1-o2-q2"),
}


# ---- making


def make(names: list[str]) -> None:
    model = imitated()
    for name in names:
        try:
            store(name, run(name, CASES[name], model))
        except (subprocess.CalledProcessError, IndexError) as error:
            print(f"{name}: {error}; see {WORK / name}.log", flush=True)


def imitated() -> Path:
    """Return the model that all runs start from."""
    if not list((WORK / "sft").glob("*/result.json")):
        train(WORK / "sft", IMITATED, {})
    return next((WORK / "sft").glob("*/sft/model"))


def run(name: str, case: Case, model: Path) -> Path:
    folder = WORK / name
    shutil.rmtree(folder, ignore_errors=True)
    variables = {"TURNGRID_TEST_ILLNESS": case.illness, "PYTHONPATH": str(HOME / "breaking")}
    train(folder, (*USUAL, f"model.path={model}", *case.words), variables)
    return next(folder.glob("*/rl/metrics.jsonl"))


def train(folder: Path, words: tuple[str, ...], variables: dict[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "turngrid.train", *words, f"output_dir={folder}"]
    print("$", *command[1:], flush=True)
    with folder.with_suffix(".log").open("w") as log:
        subprocess.run(command, check=True, stdout=log, stderr=log, env={**os.environ, **variables})


def store(name: str, metrics: Path) -> None:
    lines = list(read_metrics(metrics))
    names = [name for name in sorted({name for line in lines for name in line}) if is_read(name)]
    with (HOME / "runs" / f"{name}.csv").open("w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["step", *names])
        rows.writerows([line["step"], *(text(line[name]) if name in line else "" for name in names)] for line in lines)


def text(value: float | None) -> str:
    return "nan" if value is None else f"{value:.6g}"


def is_read(name: str) -> bool:
    return name != "step" and name.split("/")[0] not in ("verl", "timing", "shaping", "budget")


if __name__ == "__main__":
    make(sys.argv[2:] or [name for name in CASES if not (HOME / "runs" / f"{name}.csv").exists()])
