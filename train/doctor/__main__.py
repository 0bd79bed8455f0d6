"""turngrid: check a machine and a run's settings in about two minutes

    python -m train.doctor [KEY=VALUE ...]   from the repository root
    turngrid-doctor [KEY=VALUE ...]          from any folder

Takes what `python -m train` takes (model=, cluster=, rollout=, precision=, env=, ...).
Two RL steps of one group of up to 8 episodes show whether rollout server and trainer agree, and
whether the server gets the trainer's new weights. Prints a report to paste; the exit code is 1 if
it names a fault. docs/cluster.md explains the report.
"""

import os
import platform
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from math import gcd, sqrt
from pathlib import Path

import numpy as np
import psutil
from omegaconf import DictConfig, OmegaConf

from turngrid.config import machine
from turngrid.config.checks.check import check
from turngrid.config.compose import compose
from turngrid.config.errors import ConfigError
from turngrid.config.lora import LR_FACTOR, adapter_parameters
from turngrid.config.precision import instructions
from turngrid.envs.games.catalogue import cache_root
from turngrid.experiments.cost_estimate import amounts, estimate
from turngrid.experiments.cost_estimate.memory import demand, devices
from turngrid.records.models.gpus import GB
from turngrid.records.models.locate import check_hub, resolve_model
from turngrid.records.models.shape import shape_of
from turngrid.records.process.exit_codes import command, say
from turngrid.records.provenance import Attempt
from turngrid.tasks.run import Run
from turngrid.tasks.splits import prepare_tasks
from turngrid.tasks.stage_process import run_stage
from turngrid.train.arguments import parsed
from turngrid.train.doctor import findings
from turngrid.train.doctor.findings import Step

STEPS = 2
SAMPLES = 8  # episodes of the group, unless the rollout form has fewer
# Adam's first step moves each weight by the rate, so log-probs by about rate x sqrt(weights)
MOVES, RATE = 0.5, 1e-5  # nats; the rate if the model's size is not known
ACTOR, ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
NOT_TAKEN = (
    *("budget", "curriculum", "demos", "estimate", "estimate_gpu", "eval", "extend", "fresh", "health", "tracking"),
)
PROBE = "turngrid.verl_plugin.training.probe"
SECONDS = 1.0  # between two looks at the memory


def facts(config: DictConfig) -> Iterator[tuple[str, str]]:
    """Yield rows of the report on machine, packages and run."""
    memory, attempt, rank = psutil.virtual_memory(), Attempt.now(), config.model.lora_rank
    bf16 = f"{instructions() or 'no instructions'} for bf16"
    yield "machine", f"{amounts.machine()}, {bf16}, {' '.join(platform.libc_ver())}"
    disk = shutil.disk_usage(Path.cwd()).free
    yield "free", f"{memory.available / GB:.1f} of {memory.total / GB:.1f} GB memory, {disk / GB:.0f} GB on this disk"
    for line in machine.nvidia_smi("name,driver_version,memory.free,memory.total"):
        yield "GPU", "{}, driver {}, {} of {} MiB free".format(*(word.strip() for word in line.split(",")))
    packages = attempt.versions
    with suppress(PackageNotFoundError):
        packages |= {"flash-attn": version("flash-attn")}
    yield "packages", ", ".join(f"{name} {number}" for name, number in packages.items())
    yield "commit", f"{attempt.commit}{', with changes' if attempt.dirty else ''}"
    server, adapter = config.actor_rollout_ref.rollout.name, f" lora_rank={rank}" if rank else ""
    yield "run", f"cluster={config.cluster.name} rollout={server} model={config.model.path}{adapter}"


class Peak:
    """The peak memory of a run: of the fullest GPU, or on CPUs of this process and all below it."""

    def __init__(self, run: Run) -> None:
        self._run, self._on_gpus, self._bytes, self._looked = run, run.config.trainer.device != "cpu", 0.0, 0.0

    def look(self) -> None:
        """Called a few times a second."""
        if time.monotonic() - self._looked >= SECONDS:
            self._looked = time.monotonic()
            gpus = [float(line) * 2**20 for line in machine.nvidia_smi("memory.used")] if self._on_gpus else []
            self._bytes = max(self._bytes, *(gpus or [self._of_processes()]))

    def _of_processes(self) -> float:
        """Return proportional set sizes: memory that processes share counts once."""
        total, own = 0.0, psutil.Process()
        for process in [own, *own.children(recursive=True)]:
            with suppress(psutil.Error):
                total += process.memory_full_info().pss
        return total

    def beside_estimate(self) -> str:
        shape, where = shape_of(self._run.model.path), devices(self._run)
        expected = f"{demand(self._run, shape, where).peak() / GB:.1f} GB" if shape and where else "not known"
        return f"{self._bytes / GB:.1f} GB{' of the fullest GPU' if self._on_gpus else ''}; the estimate is {expected}"


@command(__doc__, resumes=False)
def main(given: list[str]) -> int:
    """Print the report; return 1 if it names a fault."""
    if flag := next((word for word in given if word.startswith("-") and word != "--config-dir"), None):
        raise ConfigError(f"{flag}: python -m train.doctor takes KEY=VALUE, --config-dir and --help")
    args = parsed(given)
    taken = {word: word.lstrip("+~").partition("=")[0] for word in args.overrides}
    words = [word for word, key in taken.items() if key.split(".")[0] not in NOT_TAKEN]
    config = compose([*words, "budget=rl_only"], args.config_dir)
    check_here(config)
    for warning in check(config):
        say(f"note: {warning}")
    own = settings(config)
    words = [word for word in words if taken[word] not in own]
    config = compose([*words, *(f"{key}={value}" for key, value in own.items())], args.config_dir)
    check(config)
    print(f"turngrid doctor {' '.join(given)}\n", flush=True)
    table(facts(config))
    machine.check(config)
    return examine(config)


def check_here(config: DictConfig) -> None:
    """Raise ConfigError on a login node: the doctor examines the machine on which it runs."""
    if config.cluster.launcher == "slurm" and "SLURM_JOB_ID" not in os.environ:
        reason = "the doctor examines the machine on which it runs, and this is no node of a job"
        raise ConfigError(f"cluster={config.cluster.name}: {reason}; use srun before the command")


def settings(config: DictConfig) -> dict[str, object]:
    """Return what the doctor sets: steps of one group on one node, with one update each."""
    devices = int(config.trainer.n_gpus_per_node)
    samples = min([SAMPLES, *(form.episodes(SAMPLES) for form in Run(config).forms.values())])
    prompts = devices // gcd(devices, samples)
    return {
        "budget": "rl_only",
        "budget.rl_steps": STEPS,
        "budget.games": 1,
        "eval.games": 1,
        "curriculum": "none",
        "correction": "none",
        "env.tasks": "null",
        "filter": "[]",
        "buffer": "[]",
        "tracking": "local",
        "trainer.logger": "[console]",
        "trainer.v1.trainer_mode": "sync",
        "trainer.critic_warmup": 0,
        "trainer.test_freq": -1,
        "trainer.val_before_train": "false",
        "data.train_batch_size": prompts,
        "algorithm.rollout_correction.bypass_mode": "false",
        "algorithm.rollout_correction.rollout_rs": "null",  # the probe sees no tokens of rejected rows
        "trainer.nnodes": 1,
        "ray_kwargs.ray_init.address": "local",
        f"{ACTOR}.ppo_mini_batch_size": prompts,
        f"{ACTOR}.ppo_epochs": 1,
        f"{ACTOR}.optim.lr": f"{rate(config):.2g}",
        f"{ACTOR}.optim.lr_warmup_steps": 0,
        f"{ROLLOUT}.n": samples,
    }


def rate(config: DictConfig) -> float:
    """Return a learning rate at which an update moves log-probs by about ``MOVES``.

    One half of an adapter's product is 0 at first, so its rate is larger, as in a run: it moves
    SmolLM2 by 0.1 nats (rank 16) and tiny by 2 (rank 8).
    """
    shape = shape_of(config.model.path)
    adapter = adapter_parameters(config, shape) if shape else 0
    full = MOVES / sqrt(adapter or shape.parameters) if shape else RATE
    return LR_FACTOR * full if config.model.lora_rank else full


def examine(config: DictConfig) -> int:
    """Run the steps, print what they show, and keep the run folder only if that is a fault.

    Raises:
        StageFailed: the trainer's process failed; its log has the reason.
    """
    from transformers import AutoTokenizer

    estimate.check(Run(config), say)
    output, start = Path(config.output_dir).expanduser().absolute(), time.monotonic()
    output.mkdir(parents=True, exist_ok=True)
    run = Run(config, Path(tempfile.mkdtemp(prefix="doctor-", dir=output)))
    peak = Peak(run)
    train(run, model := resolve_model(config.model.path, cache_root()), peak)
    steps, episodes = findings.read_steps(run.folder)
    dtypes = findings.dtypes_of(config)
    compared, faults = findings.of_template(episodes, AutoTokenizer.from_pretrained(model), run.chat.kwargs)
    faults += findings.of_steps(steps, dtypes)
    table(measured(steps, dtypes))
    table([("chat template", f"{compared} prompts and messages compared")])
    table([("peak memory", peak.beside_estimate()), ("time", f"{time.monotonic() - start:.0f} s")])
    print(by_turn(steps))
    for fault in faults:
        step = f" (step {fault.step})" if fault.step else ""
        print(f"{fault.name}{step}: {fault.shown_by}; {findings.USE[fault.name]}")
    if ill := [fault for fault in faults if fault.name != findings.HIGH]:
        print(f"found: {', '.join(dict.fromkeys(fault.name for fault in ill))}; run folder {run.folder}")
        return 1
    shutil.rmtree(run.folder)
    print("no fault found")
    return 0


def train(run: Run, model: str, peak: Peak) -> None:
    """Run the steps in the RL stage's process, without checkpoints."""
    from turngrid.experiments.stages.rl import PROCESS, rl_config

    check_hub(model)
    config = rl_config(run, prepare_tasks(run), model)
    config.trainer.save_freq = -1
    run.rl.root.mkdir(parents=True)
    OmegaConf.save(config, run.rl.config)
    run_stage(run, "rl", PROCESS, [str(run.rl.config), PROBE], peak.look)


def measured(steps: Sequence[Step], dtypes: Sequence[str]) -> Iterator[tuple[str, str]]:
    yield "computes in", "trainer {}, server {}".format(*dtypes)
    bounds = "normal up to {:g}, suspect above {:g}".format(*findings.bounds_of(dtypes))
    yield "bounds", f"mean |difference| of probabilities: {bounds}"
    for step in steps:
        yield f"step {step.number}", f"{len(step.turn)} tokens, sampled with the weights of step {step.version}"
        yield "", f"server and trainer differ by {step.in_probability:.1e} in probability, {step.apart:.1e} nats"
        yield "", f"the update moved the trainer's log-probs by {step.moved:.1e} nats"


def by_turn(steps: Sequence[Step]) -> str:
    """Return the differences in nats by turn: mean and 99 % of each step."""
    lines = ["server and trainer differ by turn, in nats:"]
    lines += ["turn  " + "  ".join(f"{f'step {step.number}: mean, 99 %':>22}" for step in steps)]
    for turn in range(1 + int(max(step.turn.max() for step in steps))):
        differences = [np.abs(step.server - step.before)[step.turn == turn] for step in steps]
        cells = [f"{one.mean():.1e}, {np.quantile(one, 0.99):.1e}" if len(one) else "" for one in differences]
        lines.append(f"{turn + 1:>4}  " + "  ".join(f"{cell:>22}" for cell in cells))
    return "\n".join([*lines, ""])


def table(rows: Iterable[tuple[str, str]]) -> None:
    for name, value in rows:
        print(f"{name:<14}{value}", flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
