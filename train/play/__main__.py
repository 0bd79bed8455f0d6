"""``python -m train.play`` and ``turngrid-play``: play an environment by hand in the terminal, or watch its expert.

The worker pool, the loop and the rewards are those of training, so what is seen and earned here is what a model sees and
earns there.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

from omegaconf import DictConfig

from config.checks.check import check
from config.compose import compose
from config.errors import ConfigError
from envs.games.catalogue import Catalogue
from envs.hosting.pool import EnvPool, Session
from envs.registry import make_environment
from envs.types import TaskError, TaskRef
from records.process.exit_codes import exit_code, say
from rewards.registry import reward
from rollouts.loop import EpisodeSpec, run_episode
from tasks.splits import cache_dir
from train.arguments import parsed
from train.play.screen import COMMANDS, Screen
from train.play.settings import PlaySettings, split_settings
from train.play.table import Human, Leave, ShownExpert, ShownSession

HELP = """turngrid: play an environment by hand, or watch its expert

    python -m train.play [KEY=VALUE ...]   from the repository root
    turngrid-play [KEY=VALUE ...]          from any folder

Keys of its own, beside all that `python -m train` takes (env=, env.task=, reward=, env.max_turns=, ...):
  watch=true     the expert plays: a step a key press
  delay=0.5      seconds between its steps instead
  split=test     test, train, demonstrations, validation, ...
  game=1         which game of the split

While playing, everything goes to the game except:
{commands}"""


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code; every foreseen error is one line on stderr."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    return exit_code(lambda: _dispatch(given), resumes=False)


def _dispatch(arguments: list[str]) -> int:
    flags = {text.partition("=")[0] for text in arguments if text.startswith("-")}
    if flags - {"--config-dir", "-cd", "--help", "-h"}:
        raise ConfigError("python -m train.play takes KEY=VALUE, --config-dir and --help")
    args = parsed(arguments)
    if args.help:
        width = max(map(len, COMMANDS))
        print(HELP.format(commands="\n".join(f"  {name:<{width}}  {what}" for name, what in COMMANDS.items())))
        return 0
    settings, overrides = split_settings(args.overrides)
    config = compose(overrides, args.config_dir)
    for warning in check(config, with_model=False):
        say(f"note: {warning}")
    _choose_task(config)
    asyncio.run(_play(config, settings))
    return 0


def _choose_task(config: DictConfig) -> None:
    """Of a mixture, the first task; its episodes have the turns that they have in training."""
    if config.env.tasks:
        first, *others = map(str, config.env.tasks)
        config.env.tasks, config.env.task = None, first
        if others:
            say(f"note: of env.tasks, {first} is played; env.task={others[0]} plays another")


@dataclass
class Games:
    """The games of one split, made when they are asked for."""

    config: DictConfig
    split: str
    _listed: list[TaskRef] = field(default_factory=list)

    def game(self, number: int) -> TaskRef:
        """Game ``number``, counted from 1.

        Raises:
            TaskError: the split does not have that many.
        """
        if number > len(self._listed):
            config = self.config
            catalogue = Catalogue(make_environment(config.env.name, config.env), cache_dir(config))
            progress, earned = sys.stderr.isatty(), config.turn_reward.name
            self._listed = catalogue.tasks(config.env.task, self.split, number, earned, progress=progress)
        return self._listed[number - 1]


async def _play(config: DictConfig, settings: PlaySettings) -> None:
    # asyncio's own handler waits for the loop, which stands still while the policy is asked
    signal.signal(signal.SIGINT, signal.default_int_handler)
    games, screen, number = Games(config, settings.split), Screen(), settings.game
    task = games.game(number)
    env = config.env
    async with EnvPool(env.name, 1, env.step_deadline_s, settings=env, legal=True) as pool:
        session = await pool.open()
        while True:
            screen.game(task, number, config.turn_reward.name)
            wish = await _one_game(config, settings, session, task, screen)
            if wish == "quit":
                return
            if wish == "next":
                task, number = games.game(number + 1), number + 1


async def _one_game(config: DictConfig, settings: PlaySettings, session: Session, task: TaskRef, screen: Screen) -> str:
    """Play it to its end, or until the policy leaves; what is wished for next: restart, next or quit."""
    plan = _plan(config, task, settings.watch)
    table = ShownSession(session, plan, screen)
    policy = (
        ShownExpert(screen, float(settings.delay) if settings.delay else None)
        if settings.watch
        else Human(screen, table)
    )
    try:
        episode = await run_episode(policy, table, plan, None)
    except Leave as leave:
        return leave.to
    screen.ending(episode, plan.max_turns, config.turn_reward.name)
    return _wish(screen, settings.watch)


def _plan(config: DictConfig, task: TaskRef, watch: bool) -> EpisodeSpec:
    if watch and not task.expert_plan:
        raise TaskError(f"{task.key} has no expert to watch: nobody knows a plan for it")
    place, turns = make_environment(config.env.name, config.env), config.env.max_turns
    return EpisodeSpec(
        task,
        place.prompt,
        max(turns, len(task.expert_plan)) if watch else turns,
        reward(config.turn_reward.name, config.turn_reward),
        grade_unfinished=place.grades_unfinished,
    )


def _wish(screen: Screen, watch: bool) -> str:
    if watch and not screen.interactive:
        return "quit"
    while True:
        try:
            words = screen.ask("restart, next or quit? ").strip()
        except EOFError:
            return "quit"
        if words in ("restart", "next", "quit"):
            return words


if __name__ == "__main__":
    sys.exit(main())
