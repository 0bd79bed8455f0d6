"""Values of a run that methods conflict with: by config key, by slot, or by a fact's name."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from omegaconf import OmegaConf

from turngrid.algorithms.chosen import is_schedule, method_class
from turngrid.algorithms.registry import ALGORITHMS, FORM, LINEAR, ROLES, SLOTS
from turngrid.config import asynchronous
from turngrid.config.method_settings import has_critic
from turngrid.config.prompts import in_asides, in_windows, one_row, several_rows
from turngrid.config.values.values import shown
from turngrid.tasks.run import Run

CRITIC_FREE = next(name for name, base in ALGORITHMS.items() if base.grain == "episode" and not base.needs_critic)
MINI_BATCH = "actor_rollout_ref.actor.ppo_mini_batch_size"


class Fact(NamedTuple):
    """A value that a method may conflict with."""

    value: Any
    shown: str  # the value as a message names it
    use: str = ""  # what to type to avoid the conflict


@dataclass(frozen=True)
class Facts:
    """The values of a run, as seen by the method ``name`` in ``slot``."""

    run: Run
    slot: str
    name: str

    def fact(self, key: str) -> Fact:
        """Return the value of a config key, the names in a slot, or a fact of ``FACTS``."""
        if key in FACTS:
            return FACTS[key](self)
        value = OmegaConf.select(self.run.config, key)
        if key in SLOTS:
            return Fact(tuple(value or {}), f"{key}=[{','.join(value or {})}]")
        return Fact(value, f"{key}={shown(value)}")

    def beside(self, after: bool) -> Fact:
        """Return the methods of the slot that act before this one, or after it."""
        names = [str(name) for name in self.run.config[self.slot]]
        index, others = names.index(self.name), [name for name in names if name != self.name]
        order = [*others, self.name] if after else [self.name, *others]
        fact = names[index + 1 :] if after else names[:index]
        return Fact(fact, f"{self.slot}=[{','.join(names)}]", f"{self.slot}=[{','.join(order)}]")

    def form(self, is_one: Callable[[Any], bool]) -> Fact:
        name, form = next(iter(self.run.methods.of(FORM, 1).items()), (LINEAR, None))
        return Fact(form is not None and is_one(form), f"{FORM}={name}", f"{FORM}={LINEAR}")

    def schedules(self) -> Fact:
        settings: Any = OmegaConf.to_container(self.run.config[self.slot][self.name], resolve=True)
        kind = method_class(self.slot, self.name, settings)
        names = [name for name, value in settings.items() if is_schedule(kind, name, value)]
        return Fact(names, f"{self.slot}.{self.name}.{names[0]} with a schedule" if names else "")

    def critic(self) -> Fact:
        if self.run.algorithm.needs_critic:
            return Fact(True, f"algo={self.run.config.algo.name}", f"algo={CRITIC_FREE}")
        return Fact(has_critic(self.run.config), "critic.enable=true", "critic.enable=false")

    def updates(self) -> Fact:
        actor, batch = self.run.config.actor_rollout_ref.actor, self.run.config.data.train_batch_size
        count = batch // actor.ppo_mini_batch_size * actor.ppo_epochs
        return Fact(count, f"{MINI_BATCH}={actor.ppo_mini_batch_size}")

    def share_of_a_step(self) -> Fact:
        """Return whether advantages are computed on a part of a step's prompts (separate_async)."""
        config = self.run.config
        mode, batch = asynchronous.mode(config), config.data.train_batch_size
        shares = mode == asynchronous.SEPARATE and config.actor_rollout_ref.actor.ppo_mini_batch_size != batch
        return Fact(shares, f"trainer.v1.trainer_mode={mode}", f"{MINI_BATCH}={batch}")

    def opponents(self) -> Fact:
        known = self.run.environment.opponents
        return Fact(known, f"env.task={self.run.config.env.task}", " or ".join(known))

    def row_tokens(self) -> Fact:
        data = self.run.config.data
        room = int(data.max_prompt_length) + int(data.max_response_length)
        return Fact(room, f"data.max_prompt_length + data.max_response_length = {room}")


def _of_environment(attribute: str, use: str = "") -> Callable[[Facts], Fact]:
    return lambda facts: Fact(getattr(facts.run.environment, attribute), f"env={facts.run.config.env.name}", use)


def _rows(setting: str) -> Fact:
    """Return that ``setting`` gives an episode several rows; "" means that none does."""
    return Fact(bool(setting), setting, one_row(setting))


def _roles(facts: Facts) -> Fact:
    roles = facts.run.methods.of(ROLES, 1)
    return Fact(roles, f"{ROLES}=[{','.join(roles)}]", f"{ROLES}=[]")


FACTS: dict[str, Callable[[Facts], Fact]] = {
    "before": lambda facts: facts.beside(after=False),
    "after": lambda facts: facts.beside(after=True),
    "schedules": Facts.schedules,
    "several rows": lambda facts: _rows(several_rows(facts.run)),
    "windows": lambda facts: _rows(in_windows(facts.run)),  # the policy sees only a part of an episode's turns
    "asides": lambda facts: _rows(in_asides(facts.run)),  # answers that do not reach the environment
    "shared turns": lambda facts: facts.form(lambda form: not form.compares_turns),
    "branches": lambda facts: facts.form(lambda form: form.branches),
    "several plays": lambda facts: facts.form(lambda form: form.several_plays),
    "critic": Facts.critic,
    "updates": Facts.updates,
    "share of a step": Facts.share_of_a_step,
    "agent stops": _of_environment("agent_stops"),
    "answering": _of_environment("answering"),  # the action that submits an answer, if it knows right ones
    "seats": _of_environment("seats", "env=two_player"),
    "opponents": Facts.opponents,
    "row tokens": Facts.row_tokens,
    ROLES: _roles,
}
