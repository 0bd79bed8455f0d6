"""The precision in which a run on CPUs computes (docs/model.md).

``precision`` is what the user asks for. ``cluster.computes_in`` is what follows from it, from the
model and from the processor; verl's keys follow from that, in ``conf/cluster/cpu.yaml``.
"""

from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from turngrid.records.models.shape import LLAMA_LIKE, settings_of, shape_of
from turngrid.records.run_folder import begun_folder, composed, run_stem
from turngrid.tasks.run import Run

KEY = "cluster.computes_in"
AUTO, FULL, HALF = "auto", "fp32", "bf16"
DTYPES = {FULL: "float32", HALF: "bfloat16"}
SERVER = "actor_rollout_ref.rollout.dtype"
ENGINES = ("actor_rollout_ref.actor.fsdp_config", "actor_rollout_ref.ref.fsdp_config", "critic.fsdp")
LARGE = 20_000_000  # parameters; in smaller models the matrices are too small for bf16 to gain much
INSTRUCTIONS = {"amx_bf16": "AMX", "avx512_bf16": "AVX512-BF16"}  # by their flags in Linux's /proc/cpuinfo
NONE = f"this processor has neither {' nor '.join(INSTRUCTIONS.values())}"


@cache
def flags() -> frozenset[str]:
    """Return the words of Linux's description of the processor; none elsewhere."""
    with suppress(OSError):
        return frozenset(Path("/proc/cpuinfo").read_text(encoding="utf-8").split())
    return frozenset()


def instructions() -> str:
    """Return the processor's instructions for bf16 matrices; "" if it has none."""
    return next((name for flag, name in INSTRUCTIONS.items() if flag in flags()), "")


def of_precision(full: Any, half: Any, *, _root_: DictConfig) -> Any:
    """Return the value for fp32 or for bf16, in options for CPUs."""
    return half if OmegaConf.select(_root_, KEY) == HALF else full


def server_agrees(*, _root_: DictConfig) -> bool:
    """Return whether the server's log-probs can be the trainer's old ones; never on GPUs.

    In fp32 they are the same. In bf16 they can be used with ``rollout=transformers`` and models
    like Llama: SmolLM2's mean difference in probability is below verl's bound for normal, 0.005
    (docs/rollout_server.md). With LoRA the server rounds W + B A, the trainer each of the three.
    A rejection compares with log-probs of the trainer.
    """
    if _root_.trainer.device == "cuda" or _root_.algorithm.rollout_correction.rollout_rs:
        return False
    if of_precision(True, False, _root_=_root_):
        return True
    if _root_.actor_rollout_ref.rollout.name != "transformers" or _root_.model.lora_rank:
        return False
    with suppress(ValueError):
        return (settings_of(_root_.model.path) or {}).get("model_type") in LLAMA_LIKE
    return False


def fill_in(config: DictConfig) -> None:
    if config.trainer.device == "cpu" and config.cluster.computes_in is None:
        config.cluster.computes_in = choice(config.precision, config.model.path)[0]


def choice(precision: str, model: str) -> tuple[str, str]:
    """Return the precision for a model on this machine, and the reason."""
    if precision != AUTO:
        return precision, f"precision={precision}"
    size = _parameters(model)
    if not size:
        return FULL, "the model's number of parameters is not known"
    reason = f"{size / 1e6:.3g}M parameters"
    if size <= LARGE:
        return FULL, reason
    return (HALF, f"{reason}, and this processor has {instructions()}") if instructions() else (FULL, NONE)


def _parameters(model: str) -> int:
    with suppress(ValueError):  # no model, or no JSON: it is refused later
        return shape.parameters if (shape := shape_of(model)) else 0
    return 0


def _is_small(model: str) -> bool:
    return 0 < _parameters(model) <= LARGE  # one of unknown size may be large


def begun_in(config: DictConfig) -> str | None:
    """Return the precision of the resumed or extended run if precision=auto chose it, else None."""
    if config.precision != AUTO or config.fresh or _is_small(config.model.path):
        return None
    if not config.extend and not any(Path(config.output_dir).expanduser().glob(f"{run_stem(config)}-*")):
        return None  # the hash takes 0.3 s
    folder = begun_folder(config)
    with suppress(ValueError):  # a damaged config is replaced
        if before := composed(folder):  # of a run that is on GPUs for some steps too
            return before["cluster"]["computes_in"]
    return None


def dtype(config: DictConfig, model: str) -> str:
    """Return torch's name of the dtype in which a process of the run samples with ``model``.

    The evaluated model may be larger or smaller than the one that the config names.
    """
    if config.trainer.device != "cpu":
        return DTYPES[HALF]
    word = config.cluster.computes_in
    if config.precision == AUTO and (_is_small(config.model.path) or _is_small(model)):
        word = choice(AUTO, model)[0]
    return DTYPES[word]


def explained(config: DictConfig) -> str:
    """Return one line: what a run on CPUs computes in, and why; "" on GPUs."""
    word = config.cluster.computes_in
    if config.trainer.device != "cpu":
        return ""
    chosen, reason = choice(config.precision, config.model.path)
    return f"computes in {word}: {reason if chosen == word else 'as this run began'}"


def of_gpus(run: Run) -> Iterator[str]:
    if run.config.trainer.device != "cpu" and run.config.precision != AUTO:
        cluster = run.config.cluster.name
        yield f"precision={run.config.precision}: cluster={cluster} has a precision of its own; use precision=auto"


def typed_dtypes(run: Run) -> Iterator[str]:
    config, given = run.config, run.config.actor_rollout_ref.rollout.dtype
    if config.trainer.device == "cpu":
        word = config.cluster.computes_in
        keys = {f"{node}.mixed_precision.param_dtype": word for node in ENGINES} | {SERVER: DTYPES[word]}
        keys |= {f"{node}.model_dtype": FULL for node in ENGINES}
        for key, value in keys.items():
            if (other := OmegaConf.select(config, key)) != value:
                yield f"{key}={other}: it follows from precision; use {key}={value} or another precision="
    elif config.actor_rollout_ref.rollout.name == "transformers" and given == "auto":
        yield f"{SERVER}=auto: rollout=transformers needs a dtype; use {SERVER}=bfloat16"


def without_instructions(run: Run) -> Iterator[str]:
    config = run.config
    if config.trainer.device == "cpu" and config.cluster.computes_in == HALF and not instructions():
        factor, vectors = ("1.3", "with") if "avx512f" in flags() else ("4", "without")
        reason = f"{NONE}; {vectors} AVX-512, {FULL} is about {factor} times as fast"
        use = f"use precision={FULL}"
        if config.precision == AUTO:
            use = f"this run began in {HALF} and goes on so; precision={FULL} starts another run"
        yield f"precision={config.precision}: {reason}; {use}"
