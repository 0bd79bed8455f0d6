"""What a run's log-probs and prompts show: the faults that the doctor names."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from omegaconf import DictConfig, OmegaConf

from turngrid.records.resume import RlFolder
from turngrid.rollouts.episode import Episode
from turngrid.rollouts.store import read_episodes

# verl's bounds of rollout_probs_diff_mean (its docs/faq/faq.rst), the mean |difference| of
# probabilities: below 0.005 is normal, above 0.01 an issue of precision
NORMAL, SUSPECT = 0.005, 0.01
EXACT = 1e-4  # the same with fp32 on both sides, where it is about 1e-7
PROOF = 5  # an update must move log-probs by so many times their difference to prove anything
STALE, ADAPTER, DTYPE, TEMPLATE = "stale weights", "adapter not sent", "wrong dtype", "wrong chat template"
HIGH, APART, NO_PROOF = "high difference", "log-probs do not agree", "no proof"
# the setting to look at, for each fault; docs/cluster.md says more
USE = {
    STALE: "look at actor_rollout_ref.rollout.checkpoint_engine",
    ADAPTER: "look at vLLM's log; model.lora_rank=null trains all weights",
    DTYPE: "compare rollout.dtype and actor.fsdp_config.mixed_precision.param_dtype of actor_rollout_ref",
    TEMPLATE: "use actor_rollout_ref.model.custom_chat_template=null, or the template of the model's own family",
    APART: "use correction=token_tis, on CPUs with algorithm.rollout_correction.bypass_mode=false",
    HIGH: "watch verl/training/rollout_probs_diff_mean, on CPUs with algorithm.rollout_correction.bypass_mode=false",
    NO_PROOF: "run the doctor again with another seed=",
}
DTYPES = {"fp32": "float32", "float": "float32", "bf16": "bfloat16", "fp16": "float16", "half": "float16"}


@dataclass(frozen=True)
class Finding:
    """A fault and the figures that show it; ``step`` is 0 if it belongs to no step."""

    name: str
    step: int
    shown_by: str


@dataclass(frozen=True)
class Step:
    """A step's sampled tokens: log-probs in nats, (tokens,) each."""

    number: int
    version: int  # training step whose weights the server sampled with, as it reports them
    turn: np.ndarray  # number of each token's turn in its row, from 0
    server: np.ndarray  # by the server while it sampled
    before: np.ndarray  # by the trainer, before the step's update
    after: np.ndarray  # and after it
    base: np.ndarray | None = None  # by the trainer without its LoRA; None if it has none

    @cached_property
    def apart(self) -> float:
        """Mean |difference| of server and trainer in nats."""
        return float(np.abs(self.server - self.before).mean())

    @cached_property
    def in_probability(self) -> float:
        """Mean |difference| of probabilities (``rollout_probs_diff_mean``); at most ``apart``."""
        return float(np.abs(np.exp(self.server) - np.exp(self.before)).mean())

    @cached_property
    def moved(self) -> float:
        """Mean |difference| that the update made, in nats."""
        return float(np.abs(self.after - self.before).mean())


def dtypes_of(config: DictConfig) -> list[str]:
    """Return the dtypes of trainer and server by their settings, in torch's names."""
    mixed = OmegaConf.select(config.actor_rollout_ref.actor, "fsdp_config.mixed_precision.param_dtype")
    given = (str(mixed or "bf16"), str(config.actor_rollout_ref.rollout.dtype))  # the first is verl's default
    return [DTYPES.get(dtype, dtype) for dtype in given]


def bounds_of(dtypes: Sequence[str]) -> tuple[float, float]:
    """Return which mean |difference| of probabilities is normal, and which is suspect."""
    return (EXACT, EXACT) if {*dtypes} == {"float32"} else (NORMAL, SUSPECT)


def read_steps(folder: Path) -> tuple[list[Step], list[Episode]]:
    """Read a run's steps, as the probe wrote them, and its episodes."""
    steps, episodes, rl = [], [], RlFolder(folder)
    for file in sorted(rl.probe.glob("*.npz")):
        played = list(read_episodes(rl.step_episodes(int(file.stem))))
        with np.load(file) as columns:
            steps.append(Step(int(file.stem), min(one.versions()[0] for one in played), **columns))
        episodes += played
    return steps, episodes


def of_steps(steps: Sequence[Step], dtypes: Sequence[str]) -> Iterator[Finding]:
    """Yield faults of weights and dtypes, at most one a step; ``NO_PROOF`` if none could show."""
    for before, step in zip([None, *steps], steps, strict=False):
        if fault := _fault(before, step, dtypes):
            yield fault
        elif before and before.moved < PROOF * step.apart:
            shown = f"the update moved log-probs by {before.moved:.1e} nats, and the sides differ by {step.apart:.1e}"
            yield Finding(NO_PROOF, step.number, shown)


def _fault(before: Step | None, step: Step, dtypes: Sequence[str]) -> Finding | None:
    shown = f"server and trainer differ by {step.in_probability:.1e} in probability, {step.apart:.1e} nats a token"
    normal, suspect = bounds_of(dtypes)
    if step.version < step.number - 1:
        words = f"the server sampled with the weights of step {step.version}, not {step.number - 1}"
        return Finding(STALE, step.number, f"{words}; {shown}")
    if step.in_probability <= normal:
        return None
    if before and step.base is not None:
        base = float(np.abs(step.server - step.base).mean())
        if base < step.apart / 4:
            return Finding(ADAPTER, step.number, f"{shown}, server and trainer without LoRA by {base:.1e} nats")
    if before and step.apart > before.moved / 2:
        return Finding(STALE, step.number, f"{shown}; the update before it moved them by {before.moved:.1e}")
    if normal == EXACT or dtypes[0] != dtypes[1]:
        words = "by their settings the trainer computes in {}, the server in {}".format(*dtypes)
        return Finding(DTYPE, step.number, f"{shown}; {words}")
    if step.in_probability > suspect:
        return Finding(APART, step.number, f"{shown}, above {suspect}: other kernels, or another dtype")
    return Finding(HIGH, step.number, f"{shown}, above {normal}")


def of_template(episodes: Sequence[Episode], tokenizer: Any, kwargs: Mapping[str, Any]) -> tuple[int, list[Finding]]:
    """Compare what the model saw with the messages as the model's own chat template renders them.

    Episodes with replayed turns, summaries or roles are left out. Return the number of messages
    that were compared, and the first fault.
    """
    compared = 0
    plain = [one for one in episodes if not one.prefix and not any(turn.role for turn in one.turns)]
    for seen, messages, whole in (prompt for one in plain for prompt in _prompts(one, tokenizer.eos_token_id)):
        ids = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False, **kwargs)
        own = ids if whole else ids[len(ids) - len(seen) :]
        if own != seen:
            first = next((n for n, pair in enumerate(zip(seen, own, strict=False)) if len({*pair}) > 1), 0)
            there, mine = (tokenizer.decode(ids[max(0, first - 3) : first + 9]) for ids in (seen, own))
            return compared, [Finding(TEMPLATE, 0, f"the model saw {there!r}, its own template has {mine!r}")]
        compared += 1
    return compared, []


def _prompts(episode: Episode, eos: int) -> Iterator[tuple[list[int], list[dict[str, str]], bool]]:
    """Yield ids that the model saw, the messages that end with them, and whether that is all."""
    messages = episode.messages
    first = next((n for n, message in enumerate(messages) if message["role"] == "assistant"), len(messages))
    yield episode.prompt_ids, messages[:first], True
    for number, turn in enumerate(episode.turns, 1):
        cut_off = bool(turn.action_ids) and turn.action_ids[-1] != eos  # what follows begins with the end of the turn
        if ids := turn.context_ids[cut_off:]:
            yield ids, messages[: first + 2 * number], False
