"""Refuses methods that cannot be combined: with each other, an algorithm, verl's settings.

A method declares its requirements and conflicts (``turngrid.rewards.declared``). This module reads
the declarations and names no method.
"""

from collections.abc import Iterator
from typing import Any

from turngrid.algorithms.registry import ALGO, FORM, LOSS_MODE, ONE, ROLES, SLOTS, VERLS_LOSSES, on_turns
from turngrid.config import asynchronous
from turngrid.config.checks import estimators
from turngrid.config.checks.facts import CRITIC_FREE, Facts
from turngrid.rewards.declared import (
    CONTEXTS,
    GAMES_AGAIN,
    GROUPS,
    OWN_ROWS,
    OWN_TURNS,
    SYNCHRONOUS,
    WHOLE_STEP,
    Conflict,
    only,
    without,
)
from turngrid.rewards.registry import NAMED, named_reward
from turngrid.rollouts.prompt_forms.registry import PROMPTS, prompt_class
from turngrid.tasks.run import Run

N, MODE = "actor_rollout_ref.rollout.n", "trainer.v1.trainer_mode"
SYNC = f"{MODE}={asynchronous.SYNC}"
CORRECTION, LOSS_KEY = estimators.CORRECTION, estimators.LOSS


def _synchronous(reason: str) -> Conflict:
    return only(MODE, asynchronous.SYNC, reason=reason)


# Conflicts of the words of ``requires``
REQUIREMENTS: dict[str, tuple[Conflict, ...]] = {
    GROUPS: (Conflict((N,), lambda _, samples: samples < 2, "it compares the samples of a prompt", f"{N}=2"),),
    WHOLE_STEP: (without("share of a step", "it compares all episodes of a step, and an update has a share of them"),),
    SYNCHRONOUS: (_synchronous("it counts synchronous steps"),),
    OWN_TURNS: (without("shared turns", "it compares the turns of a group, of which some are replayed or shared"),),
    OWN_ROWS: (
        without("several rows", "it replaces one row by another, and an episode has several"),
        without("branches", "episodes that share turns cannot be replaced"),
        Conflict(
            (f"{CORRECTION}.bypass_mode", f"{CORRECTION}.rollout_is"),
            lambda _, bypass, weights: not bypass and weights != "token",
            "nothing corrects for the earlier policy that sampled a stored episode",
            f"{CORRECTION}.rollout_is=token or {CORRECTION}.bypass_mode=true",
        ),
        without(
            f"{CORRECTION}.rollout_rs",
            "it would drop stored episodes, which an earlier policy sampled",
            f"{CORRECTION}.rollout_rs=null",
        ),
    ),
    CONTEXTS: (
        _synchronous("it scores other contexts by the weights that sampled"),
        without(ROLES, "it changes prompts that all answers of an episode share"),
    ),
    GAMES_AGAIN: (),  # depends on the budget: ``bad_schedules``
}
# Conflicts of every method of a slot
OF_SLOT: dict[str, tuple[Conflict, ...]] = {
    FORM: (
        _synchronous("it is for synchronous steps"),
        Conflict(
            ("windows",), lambda form, are: are and not form.windows, "it needs the turns that the window leaves out"
        ),
        Conflict(
            ("seats",),
            lambda form, two: two and (form.several_plays or form.needs_plan or not form.compares_turns),
            "it replays actions, and another seat moves between them",
        ),
        Conflict(
            (N,),
            lambda form, samples: form.episodes(samples) < samples,
            "it samples fewer episodes of a prompt",
            f"a lower {N}",
        ),
        Conflict(
            ("actor_rollout_ref.rollout.name",),
            lambda form, server: form.entropies and server != "transformers",
            "the server reports no entropies",
            "rollout=transformers",
        ),
        Conflict(
            ("curriculum.name",),
            lambda form, name: name == "threshold" and not form.whole,
            "its episodes begin after replayed turns, so their success says nothing of the task",
            "curriculum=phases",
        ),
    ),
    "library": (without("shared turns", "it is looked up before each turn, and some are replayed or shared"),),
    "filter": (
        Conflict(
            ("actor_rollout_ref.actor.loss_agg_mode",),
            lambda _, mode: str(mode).startswith("seq-mean"),
            "a muted episode would still count in the mean",
            "actor_rollout_ref.actor.loss_agg_mode=token-mean",
        ),
    ),
    "loss": (
        Conflict(
            (LOSS_KEY,), lambda _, mode: mode != LOSS_MODE, "verl's loss takes its place", f"{LOSS_KEY}={LOSS_MODE}"
        ),
    ),
    "terms": (
        Conflict(
            (MODE,), lambda _, mode: mode == asynchronous.SEPARATE, "its state counts steps of one update each", SYNC
        ),
    ),
    "buffer": (without("critic", "it replays for the policy alone, not for a critic"),),
    ALGO: tuple(
        Conflict((f"algorithm.{key}",), lambda _, value: value != 1, "verl's key is for tokens", f"algo.{key}={{0}}")
        for key in ("gamma", "lam")
    ),
}
LABELLED = Conflict(
    ("asides",),
    lambda method, are: are and bool(getattr(method, "labels", ())),
    "it distinguishes kinds of answer, and one that is no action has none",
)


def bad_methods(run: Run) -> Iterator[str]:
    yield from _conflicts(run, warns=False)
    yield from estimators.verls_keys(run)
    yield from estimators.reasons(run)
    for slot in ONE:
        if len(names := list(run.config.get(slot) or {})) > 1:
            yield f"{slot}=[{','.join(names)}]: a step has one; use {slot}={names[0]}"
    yield from _named(run)


def doubtful_methods(run: Run) -> Iterator[str]:
    yield from _conflicts(run, warns=True)


def _conflicts(run: Run, warns: bool) -> Iterator[str]:
    for facts, method, conflicts in _chosen(run):
        yield from (problem for one in conflicts if one.warns == warns and (problem := _problem(facts, method, one)))
        if not warns:
            yield from _labels(facts, method)
            yield from (_grain(facts, method) if facts.slot == "credit" else ())


def _chosen(run: Run) -> Iterator[tuple[Facts, Any, tuple[Conflict, ...]]]:
    config, algo = run.config, str(run.config.algo.name)
    mode = config.actor_rollout_ref.actor.policy_loss.loss_mode
    for slot in (ALGO, *SLOTS):
        for name, method in run.methods.of(slot, 1).items():
            own = (*OF_SLOT.get(slot, ()), LABELLED, *getattr(method, "conflicts", ()))
            yield Facts(run, slot, name), method, (*_required(method), *own)
    if not on_turns(algo):
        yield Facts(run, ALGO, algo), run.algorithm, _required(run.algorithm)
    if mode in VERLS_LOSSES:
        yield Facts(run, "loss", mode), None, VERLS_LOSSES[mode]


def _required(method: Any) -> tuple[Conflict, ...]:
    return tuple(conflict for word in sorted(getattr(method, "requires", ())) for conflict in REQUIREMENTS[word])


def _problem(facts: Facts, method: Any, conflict: Conflict) -> str:
    read = [facts.fact(key) for key in conflict.keys]
    values = [fact.value for fact in read]
    if not conflict.when(method, *values):
        return ""
    reason, use = (text.format(*values, method=method, fact=read[0].use) for text in (conflict.reason, conflict.use))
    return f"{facts.slot}={facts.name} and {' and '.join(fact.shown for fact in read)}: {reason}; use {use}"


def _grain(facts: Facts, credit: Any) -> Iterator[str]:
    algo, base, name = str(facts.run.config.algo.name), facts.run.algorithm, facts.name
    taken = getattr(credit, "grains", (base.grain,))
    if base.grain not in taken:
        reason = f"it acts on one advantage for each {' or '.join(sorted(taken))}, not for each {base.grain}"
        yield f"credit={name} and algo={algo}: {reason}; use algo={CRITIC_FREE}"
    if not base.divides and getattr(credit, "std", False):
        yield f"credit.{name}.std=true and algo={algo}: it divides by no deviation; use credit.{name}.std=false"


def _labels(facts: Facts, method: Any) -> Iterator[str]:
    """Yield a refusal of a method whose labels the prompt form lacks."""
    wanted = getattr(method, "labels", ())
    if wanted and facts.run.prompt.labels != wanted:
        fitting = [f"prompt={form}" for form in PROMPTS if prompt_class(form).labels == wanted]
        both, use = f"{facts.slot}={facts.name} and prompt={facts.run.config.prompt.name}", " or ".join(fitting)
        yield f"{both}: it distinguishes answers of {', '.join(wanted)}; use {use or 'a form with these labels'}"


def _named(run: Run) -> Iterator[str]:
    """Yield refusals of rewards that methods read by name."""
    config, environment, chosen = run.config, run.environment, run.config.turn_reward.name
    for name in sorted(run.methods.reads() - {*NAMED, chosen}):
        try:
            problem = getattr(named_reward(name), "problem", str)()
        except (ValueError, ImportError, AttributeError) as error:
            yield f"reward={name}: a method reads it: {error}"
            continue
        if problem:
            yield f"reward={name}: a method reads it with default settings: {problem}"
        if not environment.offers(name):
            names = ", ".join([*NAMED, *environment.rewards])
            yield f"reward={name}: a method reads it, and env={config.env.name} does not offer it; use {names}"


def bad_schedules(run: Run) -> Iterator[str]:
    """Refuse schedules that leave their range, and methods whose games do not come again."""
    config, bought = run.config, run.allocation
    try:
        run.methods.check_schedules(bought.steps)
    except ValueError as error:
        yield str(error)
    prompts = bought.steps * int(config.data.train_batch_size)
    for slot in SLOTS if prompts <= bought.games else ():
        for name, method in run.methods.of(slot, 1).items():
            if GAMES_AGAIN in getattr(method, "requires", ()):
                reason = f"it needs games that come again, and {prompts} prompts sample each of {bought.games} once"
                use = "a lower budget.units, a higher budget.rl_steps or a lower budget.games"
                yield f"{slot}={name} and budget.units={config.budget.units}: {reason}; use {use}"
