"""turngrid: play an environment by hand, or watch its expert

    python -m train.play [KEY=VALUE ...]   from the repository root
    turngrid-play [KEY=VALUE ...]          from any folder

Keys of its own, beside all that `python -m train` takes (env=, env.task=, reward=, ...):
  watch=true     the expert plays: a step a key press
  split=test     test, train, demonstrations, validation, ...
  game=1         which game of the split

While playing, everything goes to the game except:
  ?      what the game would accept now
  quit   the end (Ctrl-D too)
  \"\"\"    start, and in a second line end, an action of several lines
"""

import asyncio
import contextlib
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from omegaconf import DictConfig
from rich.console import Console
from rich.text import Text

from turngrid.config.checks.check import check
from turngrid.config.compose import compose
from turngrid.config.errors import ConfigError
from turngrid.envs.games.catalogue import SPLITS, Catalogue
from turngrid.envs.hosting.pool import EnvPool
from turngrid.envs.registry import make_environment
from turngrid.envs.types import Observation, StepResult, TaskError, TaskRef
from turngrid.envs.utils.names import meant
from turngrid.envs.utils.printable import printable
from turngrid.records.process.exit_codes import command, own_words, say
from turngrid.rewards.registry import reward
from turngrid.rollouts.episode import Episode
from turngrid.rollouts.loop import EpisodeSpec, Session, run_episode
from turngrid.rollouts.policy import Policy, Reply, TurnContext
from turngrid.tasks.evaluation_sets import opponents_of
from turngrid.tasks.splits import cache_dir
from turngrid.train.arguments import parsed

QUOTES = '"""'
COLOURS = {"won": "bold green", "lost": "bold red"}


@dataclass
class PlaySettings:
    """The keys of this command alone."""

    split: str = "test"
    game: int = 1  # from 1, in the order of the split's seeds
    watch: bool = False


class Quit(Exception):
    """The player leaves the game."""


class Screen:
    """Shows text and asks for lines; in a pipe (not ``interactive``) the lines are shown too."""

    def __init__(self) -> None:
        self._console = Console(highlight=False)
        self.interactive = sys.stdin.isatty()
        if self.interactive:
            with contextlib.suppress(ImportError):
                import readline  # noqa: F401 - input() gets a history and line editing

    def show(self, text: str, style: str = "") -> None:
        """Show a block of text; rich would take the brackets of a game for markup."""
        self._console.print(Text(printable(text), style=style), soft_wrap=not self._console.is_terminal)

    def ask(self, prompt: str = "> ") -> str:
        """Return the next line; raise Quit if it is ``quit`` or there is none."""
        try:
            line = input(prompt) if self.interactive else sys.stdin.readline()
        except EOFError:
            raise Quit from None
        if not self.interactive and line:
            self.show(f"{prompt}{line.rstrip()}", "bold")
        if line.strip() == "quit" or not (line or self.interactive):
            raise Quit
        return line.rstrip()


@dataclass
class ShownSession:
    """A session that prints the observations, and each turn's score and rewards."""

    session: Session
    spec: EpisodeSpec
    screen: Screen
    results: list[StepResult] = field(default_factory=list)

    async def reset(self, task: TaskRef, seed: int) -> Observation:
        seen = await self.session.reset(task, seed)
        if goal := seen.goal or task.goal:
            self.screen.show(f"Goal: {goal}", "cyan")
        self._show(seen)
        return seen

    async def step(self, action: str) -> StepResult:
        result = await self.session.step(action)
        self.results.append(result)
        self._show(result.observation)
        return result

    async def finish(self) -> StepResult:
        self.screen.show("Cut off, and graded as it stands.", "dim")
        return await self.session.finish()

    def _show(self, seen: Observation) -> None:
        self.screen.show(f"[{', '.join([*self._progress(self.results), *self._last_turn(self.results)])}]", "dim")
        self.screen.show(seen.text)

    def _progress(self, results: Sequence[StepResult]) -> list[str]:
        turn_count, most, best = len(results), self.spec.max_turns, self.spec.task.max_score
        score = sum(result.score_delta for result in results)
        over = turn_count == most or (turn_count and (results[-1].terminated or results[-1].truncated))
        turns = f"{turn_count} of {most} turns played" if over else f"turn {turn_count + 1} of {most}"
        return [turns, f"score {score:.3g}" + (f" of {best:g}" if best > 0 else "")]

    def _last_turn(self, results: Sequence[StepResult]) -> list[str]:
        if not results:
            return []
        reward: Any = self.spec.reward
        understood = [] if results[-1].valid else ["not a valid action"]
        if getattr(reward, "blocking", False):  # such a reward asks a server, once, at the end
            return [*understood, f"{reward.name} reward at the end"]
        values = reward.turn_rewards(results, results[-1].won, self.spec.task.max_score)
        return [*understood, f"{reward.name} reward {values[-1]:+.3g}"]


@dataclass
class Human:
    """Reads lines until one is an action."""

    screen: Screen
    name: str = "human"

    async def act(self, context: TurnContext) -> Reply:
        while not (action := self._action()) or action == "?":
            if action:
                legal = "; ".join(context.observation.legal) or "it does not say"
                self.screen.show(f"The game accepts: {legal}")
        return Reply(text=action)

    def _action(self) -> str:
        words = self.screen.ask().strip()
        if words != QUOTES:
            return words
        lines = []
        while (line := self.screen.ask("")).strip() != QUOTES:
            lines.append(line)
        return "\n".join(lines)


@dataclass
class ShownExpert:
    """Plays the expert plan: at a terminal a step a key press, in a pipe without a pause."""

    screen: Screen
    name: str = "expert"

    async def act(self, context: TurnContext) -> Reply:
        if self.screen.interactive:
            self.screen.ask("(Enter: the next step; quit) ")
        action = context.task.expert_plan[context.turn]
        self.screen.show(f"> {action}", "bold")
        return Reply(text=action)


def split_settings(arguments: Sequence[str]) -> tuple[PlaySettings, list[str]]:
    """Return the settings, and the overrides that are left for the run's config.

    Raises:
        ConfigError: an impossible value, or a key that is nearly one of these.
    """
    settings = PlaySettings()
    words, overrides = own_words(arguments, settings, ConfigError)
    if (split := settings.split) not in SPLITS:
        raise ConfigError(f"unknown split {split!r}{meant(split, SPLITS)} (choices: {', '.join(SPLITS)})")
    return settings, [*words, *overrides]


@command(__doc__, resumes=False)
def main(arguments: list[str]) -> int:
    if {text.partition("=")[0] for text in arguments if text.startswith("-")} - {"--config-dir", "-cd"}:
        raise ConfigError("python -m train.play takes KEY=VALUE, --config-dir and --help")
    args = parsed(arguments)
    settings, overrides = split_settings(args.overrides)
    config = compose(overrides, args.config_dir)
    for warning in check(config, with_model=False):
        say(f"note: {warning}")
    if config.env.tasks:  # its episodes have training's number of turns
        config.env.tasks, config.env.task = None, str(next(iter(config.env.tasks)))
    # asyncio's own handler waits for the event loop, which is blocked while it reads input
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with contextlib.suppress(Quit):
        asyncio.run(_play(config, settings))
    return 0


async def _play(config: DictConfig, settings: PlaySettings) -> None:
    env, screen, task = config.env, Screen(), _game(config, settings)
    title = f"{task.env} {task.task}, game {settings.game} of {task.split} (seed {task.seed})"
    screen.show(f"--- {title}, reward={config.turn_reward.name}")
    spec = _spec(config, task, settings.watch)
    player: Policy = ShownExpert(screen) if settings.watch else Human(screen)
    async with EnvPool(env.name, 1, env.step_deadline_s, settings=env, legal=True) as pool:
        episode = await run_episode(player, ShownSession(await pool.open(), spec, screen), spec, None)
    _show_end(screen, episode, spec.max_turns, config.turn_reward.name)


def _game(config: DictConfig, settings: PlaySettings) -> TaskRef:
    catalogue = Catalogue(make_environment(config.env.name, config.env), cache_dir(config))
    name, progress, number = config.turn_reward.name, sys.stderr.isatty(), settings.game
    return catalogue.tasks(config.env.task, settings.split, number, name, progress=progress)[number - 1]


def _spec(config: DictConfig, task: TaskRef, watch: bool) -> EpisodeSpec:
    if watch and not task.expert_plan:
        raise TaskError(f"{task.key} has no expert plan to watch; drop watch=true or choose another game")
    environment, turns = make_environment(config.env.name, config.env), config.env.max_turns
    return EpisodeSpec(
        task,
        environment.prompt,
        max(turns, len(task.expert_plan)) if watch else turns,
        reward(config.turn_reward.name, config.turn_reward),
        grade_unfinished=environment.grades_unfinished,
        seat=environment.seats[task.seed % 2] if environment.seats else "",
        opponent=opponents_of(config)[0] if environment.seats else "",
    )


def _show_end(screen: Screen, episode: Episode, max_turns: int, reward: str) -> None:
    outcome = str(episode.outcome).replace("_", " ")
    earned = [turn.rewards.get(reward, 0.0) for turn in episode.turns]
    screen.show(f"{outcome} after {len(episode.turns)} of {max_turns} turns", COLOURS.get(outcome, "bold yellow"))
    screen.show(f"{reward}: {' '.join(f'{value:.3g}' for value in earned)}; sum {sum(earned):.3g}")


if __name__ == "__main__":
    sys.exit(main())
