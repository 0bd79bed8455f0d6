"""``python -m train.play`` and ``turngrid-play``: play an environment by hand, or watch its expert.

Workers, loop and rewards are those of training: the player sees and earns what a model would.
"""

import asyncio
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

from turngrid.config.checks.check import check
from turngrid.config.compose import compose
from turngrid.config.errors import ConfigError
from turngrid.envs.games.catalogue import SPLITS
from turngrid.envs.hosting.pool import EnvPool, Session
from turngrid.envs.types import TaskError, TaskRef
from turngrid.envs.utils.names import meant
from turngrid.records.process.exit_codes import command, own_words, say
from turngrid.rollouts.episode import Episode
from turngrid.rollouts.loop import EpisodeSpec, run_episode
from turngrid.rollouts.prompt_forms.registry import PLAIN_FORM
from turngrid.tasks.run import Run
from turngrid.train.arguments import parsed
from turngrid.train.play.table import LEAVING, Human, Leave, Screen, ShownExpert, ShownSession, commands

HELP = f"""turngrid: play an environment by hand, or watch its expert

    python -m train.play [KEY=VALUE ...]   from the repository root
    turngrid-play [KEY=VALUE ...]          from any folder

Keys of its own, beside all that `python -m train` takes (env=, env.task=, reward=, env.max_turns=, ...):
  watch=true     the expert plays: a step a key press
  split=test     test, train, demonstrations, validation, ...
  game=1         which game of the split

While playing, everything goes to the game except:
{commands()}"""
COLOURS = {"won": "bold green", "lost": "bold red"}


@dataclass
class PlaySettings:
    """The keys that only this command has."""

    split: str = "test"
    game: int = 1  # from 1, in the order of the split's seeds
    watch: bool = False


def split_settings(arguments: Sequence[str]) -> tuple[PlaySettings, list[str]]:
    """Return the settings, and the overrides that are left for the run's config.

    Raises:
        Refusal: an impossible value, or a key that is nearly one of these.
    """
    settings = PlaySettings()
    words, overrides = own_words(arguments, settings)
    if (split := settings.split) not in SPLITS:
        raise ConfigError(f"unknown split {split!r}{meant(split, SPLITS)} (choices: {', '.join(SPLITS)})")
    return settings, [*words, *overrides]


@command(HELP, resumes=False)
def main(arguments: list[str]) -> int:
    if {text.partition("=")[0] for text in arguments if text.startswith("-")} - {"--config-dir", "-cd"}:
        raise ConfigError("python -m train.play takes KEY=VALUE, --config-dir and --help")
    args = parsed(arguments)
    settings, overrides = split_settings(args.overrides)
    config = compose(overrides, args.config_dir)
    for warning in check(config, with_model=False):
        say(f"note: {warning}")
    if config.env.tasks:
        first, *others = map(str, config.env.tasks)
        config.env.tasks, config.env.task = None, first  # env.max_turns stays the mixture's, as in training
        if others:
            say(f"note: of env.tasks, {first} is played; env.task={others[0]} plays another")
    asyncio.run(_play(Run(config), settings))
    return 0


async def _play(run: Run, settings: PlaySettings) -> None:
    # instead of asyncio's handler, which waits for the event loop: reading input blocks it
    signal.signal(signal.SIGINT, signal.default_int_handler)
    env, screen, number = run.config.env, Screen(), settings.game
    task = _game(run, settings.split, number)
    async with EnvPool(env.name, 1, env.step_deadline_s, settings=env, legal=True) as pool:
        session, choice = await pool.open(), ""
        while choice != "quit":
            if choice == "next":
                number += 1
                task = _game(run, settings.split, number)
            title = f"{task.env} {task.task}, game {number} of {task.split} (seed {task.seed})"
            screen.show(f"--- {title}, reward={run.turn_reward.name}")
            choice = await _one_game(run, settings, session, task, screen)


def _game(run: Run, split: str, number: int) -> TaskRef:
    name, progress = run.turn_reward.name, sys.stderr.isatty()
    return run.catalogue.tasks(run.env.task, split, number, name, progress=progress)[number - 1]


async def _one_game(run: Run, settings: PlaySettings, session: Session, task: TaskRef, screen: Screen) -> str:
    """Play until the end, or until the player leaves; return restart, next or quit."""
    spec = _spec(run, task, settings.watch)
    table = ShownSession(session, spec, screen)
    player = ShownExpert(screen) if settings.watch else Human(screen, table)
    try:
        episode = await run_episode(player, table, spec, None)
        _show_end(screen, episode, spec.max_turns, run.turn_reward.name)
        if settings.watch and not screen.interactive:
            return "quit"
        while (words := screen.ask("restart, next or quit? ").strip()) not in LEAVING:
            pass
        return words
    except Leave as leave:
        return str(leave)


def _spec(run: Run, task: TaskRef, watch: bool) -> EpisodeSpec:
    if watch and not task.expert_plan:
        raise TaskError(f"watch=true: {task.key} has no expert plan; use watch=false, or another game=")
    turns = max(run.max_turns, len(task.expert_plan)) if watch else run.max_turns
    # a person sees the whole episode and types plain actions
    return replace(run.spec(task, turns), window=None, form=PLAIN_FORM, max_actions=None, roles=None)


def _show_end(screen: Screen, episode: Episode, max_turns: int, reward: str) -> None:
    outcome = str(episode.outcome).replace("_", " ")
    earned = [turn.rewards.get(reward, 0.0) for turn in episode.turns]
    screen.show(f"{outcome} after {len(episode.turns)} of {max_turns} turns", COLOURS.get(outcome, "bold yellow"))
    screen.show(f"{reward}: {' '.join(f'{value:.3g}' for value in earned)}; sum {sum(earned):.3g}")


if __name__ == "__main__":
    sys.exit(main())
