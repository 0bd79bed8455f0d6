"""``extend=runs/NAME budget.rl_steps=8``: repeat a run's settings with more RL steps.

Settings that affect the training so far must not change.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from turngrid.config import curriculum_settings
from turngrid.config import overrides as given
from turngrid.config.errors import ConfigError
from turngrid.envs.utils.names import meant
from turngrid.records.provenance import ATTEMPTS, read_attempts
from turngrid.records.run_folder import Plain, composed, flattened, identifying, identity, outside_identity
from turngrid.tasks.budget import demonstration_price
from turngrid.tasks.run import Run
from turngrid.tasks.splits import task_file

FREE = (  # keys and nodes that an extension may change, since the training so far does not depend on them
    "budget.rl_steps",
    "budget.rl_epochs",
    "budget.units",
    "budget.sft_share",
    "extend",
    "budget.games",
    "eval",
    "actor_rollout_ref.rollout.val_kwargs",
    "trainer.save_freq",
    "trainer.test_freq",
    "trainer.max_actor_ckpt_to_keep",
    "trainer.max_critic_ckpt_to_keep",
)
NOT_AGAIN = ("extend", "fresh", "dry_run", "estimate", "estimate_gpu", "output_dir", "budget.games")
PLANS = ("phases", "horizon")  # keys of the node ``curriculum``
OPTIMIZERS = ("actor_rollout_ref.actor.optim", "critic.optim")
HASH = 8  # hex digits at the end of a run's name
Compose = Callable[[Sequence[str]], DictConfig]


def source(overrides: Sequence[str]) -> Path | None:
    """Return the folder of ``extend=`` or None; raise ConfigError if it is no run's folder."""
    words = [text for text in overrides if text.lstrip("+").startswith("extend=")]
    value = given.parse(words)[-1].value() if words else None
    if not isinstance(value, str):  # several values are refused or expanded in another module
        return None
    run = Path(value).expanduser().absolute()
    if not (run / "config.yaml").exists():
        runs = [path.parent.name for path in run.parent.glob("*/config.yaml")]
        raise ConfigError(f"extend={value}: no run lies there{meant(run.name, runs, f'{Path(value).parent}/')}")
    return run


def compose_extended(overrides: Sequence[str], run: Path, compose: Compose) -> DictConfig:
    """Compose the config of ``run`` with the changes of ``overrides``.

    Raises:
        ConfigError: a change affects the training so far, or there are no more steps than before.
    """
    was = composed(run)
    config = compose(_with_recorded(overrides, run, _listed(run)))
    kept = [text for text in overrides if not is_in(key_of(text), FREE)]
    before = compose(_with_recorded(kept, run, (was.get("budget") or {}).get("games")))
    recorded = OmegaConf.create(was)
    for key in FREE:
        OmegaConf.update(before, key, OmegaConf.select(recorded, key))
    if identity(before) != run.name[-HASH:]:
        raise ConfigError(_another_past(was, before, run, [key_of(text) for text in overrides]))
    _refuse_same_length(config, before, run)
    for key in PLANS:  # derived from the number of steps; kept, so that each step keeps its task and turns
        config.curriculum[key] = before.curriculum[key]
    return config


def _listed(run: Path) -> int:
    """Return the number of training games, kept since a checkpoint refers to games by index."""
    games = task_file(run, "train")
    return len(games.read_text(encoding="utf-8").splitlines()) if games.exists() else 0


def _with_recorded(overrides: Sequence[str], run: Path, games: int | None) -> list[str]:
    """Return the overrides with which the run was started, then ``overrides`` and ``games``."""
    typed = {key_of(text) for text in overrides}
    again = [text for key, text in recorded(run).items() if key not in typed and key not in NOT_AGAIN]
    folder = [] if "output_dir" in typed else [f"output_dir={given.quoted(str(run.parent))}"]
    return [*again, *overrides, *folder, *([f"budget.games={games}"] if games else [])]


def recorded(run: Path) -> dict[str, str]:
    """Return the overrides with which the run was started, by key."""
    return {key_of(text): text for attempt in read_attempts(run / ATTEMPTS) for text in attempt.overrides}


def key_of(text: str) -> str:
    return given.parse([text])[0].key_or_group


def is_in(key: str, nodes: Sequence[str]) -> bool:
    return any(f"{key}.".startswith(f"{node}.") for node in nodes)


def _another_past(was: Plain, before: DictConfig, run: Path, typed: Sequence[str]) -> str:
    """Return the message that names a key to blame: a typed one if possible."""
    changed = _changed(was, before)
    if not changed:
        return f"extend={run}: its name is not the one that its settings make; give the folder its first name again"
    key = min(changed, key=lambda name: (name.removesuffix(".name") not in typed, not name.endswith(".name"), name))
    old, new = changed[key]
    key = key.removesuffix(".name")
    return f"{key}={new}: it would change the past of {run.name}; use {key}={old}"


def _changed(was: Plain, now: DictConfig) -> dict[str, tuple[Any, Any]]:
    """Return key -> (old, new) for changed values that affect the training so far."""
    old, new = (dict(flattened(node)) for node in (was, OmegaConf.to_container(now, resolve=True)))
    outside = (*FREE, *outside_identity())
    keys = [key for key in {**old, **new} if old.get(key) != new.get(key) and not is_in(key, outside)]
    return {key: (old.get(key), new.get(key)) for key in keys}


def _refuse_same_length(config: DictConfig, before: DictConfig, run: Path) -> None:
    budget, old, new = config.budget, Run(before).allocation, Run(config).allocation
    if budget.count == "games" and budget.units != before.budget.units:
        reason = "it buys games (budget.count=games), and an extended run keeps its games"
        raise ConfigError(f"budget.units={budget.units:g}: {reason}; use budget.rl_steps")
    if new.demonstrations != old.demonstrations:
        share = math.ceil(old.demonstrations * float(demonstration_price(budget)) / budget.units * 1e6) / 1e6
        reason = f"it would buy {new.demonstrations} demonstrations, and {run.name} learned from {old.demonstrations}"
        raise ConfigError(f"budget.units={budget.units:g}: {reason}; use budget.sft_share={share:g} as well")
    if new.steps <= old.steps:
        more = " and budget.units that pay for it" if budget.count == "rollouts" else ""
        use = f"use budget.rl_steps={old.steps + 1} or more{more}"
        raise ConfigError(f"extend={config.extend}: {new.steps} RL steps are not more than its {old.steps}; {use}")


def depends_on_length(run: Run) -> Iterator[str]:
    """Warn of schedules that a run of the new length would have followed differently so far."""
    config = run.config
    if not config.extend:
        return
    was = composed(Path(config.extend).expanduser())
    trained = dict(flattened(identifying(config)))  # without keys that follow from the cluster
    optimizers = {key: OmegaConf.select(config, key) for key in OPTIMIZERS}
    names = [
        f"{key}.lr_scheduler_type"
        for key, optim in optimizers.items()
        if optim.lr_scheduler_type != "constant" or (optim.lr_warmup_steps_ratio > 0 and optim.lr_warmup_steps < 0)
    ]
    names += _of_curriculum(was)
    names += run.methods.of_length()
    names += [key for key in _changed(was, config) if key in trained]
    if names:
        reason = "made for another number of steps, so a run of this length from the start would differ"
        yield f"{', '.join(names)}: {reason}"


def _of_curriculum(was: Plain) -> list[str]:
    """Return the curriculum's keys that were derived from the number of steps."""
    made = OmegaConf.create({**was, "curriculum": {**was["curriculum"], "phases": None, "horizon": None}})
    curriculum_settings.fill_in(made)
    return [
        f"curriculum.{key}"
        for key, value in made.curriculum.items()
        if key in PLANS and value and value == was["curriculum"][key]
    ]
