"""Values of a run that methods conflict with: by config key, by slot, or by a fact's name."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from omegaconf import DictConfig, OmegaConf

from turngrid.algorithms.chosen import Chosen, algorithm, is_schedule, method_class
from turngrid.algorithms.registry import ALGORITHMS, FORM, LINEAR, ROLES, SLOTS
from turngrid.config import asynchronous
from turngrid.config.method_settings import has_critic
from turngrid.config.prompts import in_asides, in_windows, one_row, several_rows
from turngrid.config.values.values import shown
from turngrid.envs.registry import make_environment

CRITIC_FREE = next(name for name, base in ALGORITHMS.items() if base.grain == "episode" and not base.needs_critic)
MINI_BATCH = "actor_rollout_ref.actor.ppo_mini_batch_size"


class Fact(NamedTuple):
    """A value that a method may conflict with."""

    value: Any
    shown: str  # the value as a message names it
    use: str = ""  # what to type to avoid the conflict


@dataclass(frozen=True)
class Run:
    """A composed config and its methods, as seen by the method ``name`` in ``slot``."""

    config: DictConfig
    methods: Chosen
    slot: str
    name: str

    def fact(self, key: str) -> Fact:
        """Return the value of a config key, the names in a slot, or a fact of ``FACTS``."""
        if key in FACTS:
            return FACTS[key](self)
        value = OmegaConf.select(self.config, key)
        if key in SLOTS:
            return Fact(tuple(value or {}), f"{key}=[{','.join(value or {})}]")
        return Fact(value, f"{key}={shown(value)}")

    def beside(self, after: bool) -> Fact:
        """Return the methods of the slot that act before this one, or after it."""
        names = [str(name) for name in self.config[self.slot]]
        index, others = names.index(self.name), [name for name in names if name != self.name]
        order = [*others, self.name] if after else [self.name, *others]
        fact = names[index + 1 :] if after else names[:index]
        return Fact(fact, f"{self.slot}=[{','.join(names)}]", f"{self.slot}=[{','.join(order)}]")

    def form(self, is_one: Callable[[Any], bool]) -> Fact:
        name, form = next(iter(self.methods.of(FORM, 1).items()), (LINEAR, None))
        return Fact(form is not None and is_one(form), f"{FORM}={name}", f"{FORM}={LINEAR}")

    def schedules(self) -> Fact:
        settings: Any = OmegaConf.to_container(self.config[self.slot][self.name], resolve=True)
        kind = method_class(self.slot, self.name, settings)
        names = [name for name, value in settings.items() if is_schedule(kind, name, value)]
        return Fact(names, f"{self.slot}.{self.name}.{names[0]} with a schedule" if names else "")

    def critic(self) -> Fact:
        name = str(self.config.algo.name)
        if algorithm(name).needs_critic:
            return Fact(True, f"algo={name}", f"algo={CRITIC_FREE}")
        return Fact(has_critic(self.config), "critic.enable=true", "critic.enable=false")

    def updates(self) -> Fact:
        actor, batch = self.config.actor_rollout_ref.actor, self.config.data.train_batch_size
        count = batch // actor.ppo_mini_batch_size * actor.ppo_epochs
        return Fact(count, f"{MINI_BATCH}={actor.ppo_mini_batch_size}")

    def share_of_a_step(self) -> Fact:
        """Return whether advantages are computed on a part of a step's prompts (separate_async)."""
        mode, batch = asynchronous.mode(self.config), self.config.data.train_batch_size
        shares = mode == asynchronous.SEPARATE and self.config.actor_rollout_ref.actor.ppo_mini_batch_size != batch
        return Fact(shares, f"trainer.v1.trainer_mode={mode}", f"{MINI_BATCH}={batch}")

    def opponents(self) -> Fact:
        env = self.config.env
        known = make_environment(env.name, env).opponents
        return Fact(known, f"env.task={env.task}", " or ".join(known))

    def row_tokens(self) -> Fact:
        room = int(self.config.data.max_prompt_length) + int(self.config.data.max_response_length)
        return Fact(room, f"data.max_prompt_length + data.max_response_length = {room}")


def _of_environment(attribute: str, use: str = "") -> Callable[[Run], Fact]:
    def fact(run: Run) -> Fact:
        env = run.config.env
        return Fact(getattr(make_environment(env.name, env), attribute), f"env={env.name}", use)

    return fact


def _rows(setting: str) -> Fact:
    """Return whether a setting that gives an episode several rows is made."""
    return Fact(bool(setting), setting, one_row(setting))


def _roles(run: Run) -> Fact:
    roles = run.methods.of(ROLES, 1)
    return Fact(roles, f"{ROLES}=[{','.join(roles)}]", f"{ROLES}=[]")


FACTS: dict[str, Callable[[Run], Fact]] = {
    "before": lambda run: run.beside(after=False),
    "after": lambda run: run.beside(after=True),
    "schedules": Run.schedules,
    "several rows": lambda run: _rows(several_rows(run.config)),
    "windows": lambda run: _rows(in_windows(run.config)),  # the policy sees only a part of an episode's turns
    "asides": lambda run: _rows(in_asides(run.config)),  # answers that do not reach the environment
    "shared turns": lambda run: run.form(lambda form: not form.compares_turns),
    "branches": lambda run: run.form(lambda form: form.branches),
    "several plays": lambda run: run.form(lambda form: form.several_plays),
    "critic": Run.critic,
    "updates": Run.updates,
    "share of a step": Run.share_of_a_step,
    "agent stops": _of_environment("agent_stops"),
    "answering": _of_environment("answering"),  # the action that submits an answer, if it knows right ones
    "seats": _of_environment("seats", "env=two_player"),
    "opponents": Run.opponents,
    "row tokens": Run.row_tokens,
    ROLES: _roles,
}
