"""Values of a run that methods declare conflicts with: by config key, by slot, or by a fact's
name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from omegaconf import DictConfig, OmegaConf

from turngrid.algorithms.chosen import Chosen, algorithm
from turngrid.algorithms.registry import ALGORITHMS, FORM, LINEAR, SLOTS
from turngrid.config import asynchronous
from turngrid.config.method_settings import has_critic
from turngrid.config.prompts import in_windows, one_row, several_rows
from turngrid.envs.registry import make_environment
from turngrid.rollouts.window import summed_up

CRITIC_FREE = next(name for name, base in ALGORITHMS.items() if base.grain == "episode" and not base.needs_critic)
MINI_BATCH = "actor_rollout_ref.actor.ppo_mini_batch_size"


class Fact(NamedTuple):
    """A value that a method may conflict with.

    Attributes:
        shown: the value as a message names it.
        use: what to type to avoid the conflict.
    """

    value: Any
    shown: str
    use: str = ""


@dataclass(frozen=True)
class Run:
    """A composed config and its methods, from the view of one method: ``name`` in ``slot``."""

    config: DictConfig
    methods: Chosen
    slot: str
    name: str

    def fact(self, key: str) -> Fact:
        if key in FACTS:
            return FACTS[key](self)
        value = OmegaConf.select(self.config, key)
        if key in SLOTS:
            names = tuple(value or {})
            return Fact(names, f"{key}=[{','.join(names)}]")
        return Fact(value, f"{key}={shown(value)}")


def shown(value: object) -> str:
    """Return a value as it is typed on the command line."""
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _before(run: Run) -> Fact:
    """Return the methods of the slot that act before this one, as a fact."""
    names = [str(name) for name in run.config[run.slot]]
    first = [run.name, *(name for name in names if name != run.name)]
    return Fact(names[: names.index(run.name)], f"{run.slot}=[{','.join(names)}]", f"{run.slot}=[{','.join(first)}]")


def _after(run: Run) -> Fact:
    """Return the methods of the slot that act after this one."""
    names = [str(name) for name in run.config[run.slot]]
    last = [*(name for name in names if name != run.name), run.name]
    return Fact(names[names.index(run.name) + 1 :], f"{run.slot}=[{','.join(names)}]", f"{run.slot}=[{','.join(last)}]")


def _schedules(run: Run) -> Fact:
    """Return the settings of the method that follow a schedule."""
    settings: Any = OmegaConf.to_container(run.config[run.slot][run.name], resolve=True)
    names = [name for name, value in settings.items() if isinstance(value, dict)]
    return Fact(names, f"{run.slot}.{run.name}.{names[0]} with a schedule" if names else "")


def _rows(run: Run) -> Fact:
    """Return whether an episode has several rows."""
    setting = several_rows(run.config)
    return Fact(bool(setting), setting, one_row(setting))


def _windows(run: Run) -> Fact:
    """Return whether the policy sees only a part of an episode's turns."""
    setting = in_windows(run.config)
    return Fact(bool(setting), setting, f"{setting.split('=')[0]}=null")


def _summaries(run: Run) -> Fact:
    form = summed_up(run.config.get(FORM))
    return Fact(bool(form), f"{FORM}={form}", f"{FORM}={LINEAR}")


def _shared(run: Run) -> Fact:
    """Return whether the rollout form replays turns or lets samples share them."""
    return _form(run, lambda form: not form.compares_turns)


def _branches(run: Run) -> Fact:
    return _form(run, lambda form: form.branches)


def _form(run: Run, is_one: Callable[[Any], bool]) -> Fact:
    forms = run.methods.of(FORM, 1)
    name = next((name for name, form in forms.items() if is_one(form)), "")
    return Fact(bool(name), f"{FORM}={name or next(iter(forms), LINEAR)}", f"{FORM}={LINEAR}")


def _critic(run: Run) -> Fact:
    name = str(run.config.algo.name)
    if algorithm(name).needs_critic:
        return Fact(True, f"algo={name}", f"algo={CRITIC_FREE}")
    return Fact(has_critic(run.config), "critic.enable=true", "critic.enable=false")


def _updates(run: Run) -> Fact:
    """Return the number of policy updates a step."""
    actor, batch = run.config.actor_rollout_ref.actor, run.config.data.train_batch_size
    count = batch // actor.ppo_mini_batch_size * actor.ppo_epochs
    return Fact(count, f"{MINI_BATCH}={actor.ppo_mini_batch_size}")


def _share(run: Run) -> Fact:
    """Return whether an update sees only a part of the step's prompts."""
    batch, mini = run.config.data.train_batch_size, run.config.actor_rollout_ref.actor.ppo_mini_batch_size
    mode = asynchronous.mode(run.config)
    return Fact(
        mode == asynchronous.SEPARATE and mini != batch, f"trainer.v1.trainer_mode={mode}", f"{MINI_BATCH}={batch}"
    )


def _agent_stops(run: Run) -> Fact:
    env = run.config.env
    return Fact(make_environment(env.name, env).agent_stops, f"env={env.name}")


def _row_tokens(run: Run) -> Fact:
    """Return the tokens of the longest row."""
    data = run.config.data
    room = int(data.max_prompt_length) + int(data.max_response_length)
    return Fact(room, f"data.max_prompt_length + data.max_response_length = {room}")


FACTS: dict[str, Callable[[Run], Fact]] = {
    "before": _before,
    "after": _after,
    "schedules": _schedules,
    "several rows": _rows,
    "windows": _windows,
    "summaries": _summaries,
    "shared turns": _shared,
    "branches": _branches,
    "critic": _critic,
    "updates": _updates,
    "share of a step": _share,
    "agent stops": _agent_stops,
    "row tokens": _row_tokens,
}
