"""Check an environment before training in it.

    python -m experiments.check_env ENV [KEY=VALUE ...]
    python -m experiments.check_env textworld env.task=w2-o3-q4 games=8

ENV         an environment's name, as for env=, or module:Class
games=8     games of each split; those of test are played
turns=30    turns of a random episode at most
KEY=VALUE   as for `python -m train`: env.task=, env.data_dir=, reward=, ...

Prints a table, which docs/env.md explains. The exit code is 1 if a line says FAIL."""

import asyncio
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from rich.console import Console

from turngrid.envs.environment import PromptStyle
from turngrid.envs.hosting.pool import EnvPool
from turngrid.envs.types import TaskRef
from turngrid.experiments.check_env.rollouts import (
    HOSTILE,
    RESETS,
    STEPS,
    GameRollouts,
    Rollout,
    memory_growth,
    openings,
    rollouts,
)
from turngrid.experiments.evaluate import composed
from turngrid.experiments.evaluation.tables import filled
from turngrid.records.process.exit_codes import Refusal, command, own_words
from turngrid.records.statistics import mean_interval
from turngrid.rewards.reward import Reward, one_a_turn
from turngrid.tasks.run import Run

SPLITS = ("test", "validation", "demonstrations", "train")
OK, NOTE, FAIL, NONE = "ok", "note", "FAIL", "-"  # NONE: nothing to check
LEAST_SIZED = 20.0  # characters of an answer below which its words may stand in a prompt by chance
GROWTH = 20e6  # bytes over RESETS episodes


@dataclass(frozen=True)
class Finding:
    """The result of one check; ``seen`` is a short text with figures."""

    check: str
    verdict: str
    seen: str


@dataclass
class Options:
    games: int = 8
    turns: int = 30


@command(__doc__, resumes=False)
def main(arguments: list[str]) -> int:
    options = Options()
    words, overrides = own_words(arguments, options)
    if len(words) != 1:
        raise Refusal("python -m experiments.check_env ENV [KEY=VALUE ...] takes one environment")
    run = Run(composed([], [f"env{'.name' * (':' in words[0])}={words[0]}", *overrides]))
    findings = asyncio.run(check(run, options))
    columns = {"check": lambda one: one.check, "": lambda one: one.verdict, "what was seen": lambda one: one.seen}
    Console(markup=False).print(filled(f"env={words[0]}", columns, findings))
    return int(any(finding.verdict == FAIL for finding in findings))


async def check(run: Run, options: Options) -> list[Finding]:
    """List and play an environment's games, and return what was found."""
    catalogue, env, reward = run.catalogue, run.config.env, run.reward_name
    # one split at a time: a run's listing would leave out the games that two splits share
    listed = {split: catalogue.tasks(env.task, split, options.games, reward, at_most=[split]) for split in SPLITS}
    async with EnvPool(env.name, 1, env.step_deadline_s, settings=env, legal=True) as pool:
        opened = await openings(pool, [task for tasks in listed.values() for task in tasks])
        games = await rollouts(pool, listed["test"], options.turns)
        findings = [splits(listed, opened), *(one(games) for one in CHECKS)]
        findings += [rewards_only_wins(run.reward, games), no_answer_in_prompt(run.environment.prompt, games)]
        findings += [speed(games)]
        if any(game.error for game in games):
            return [*findings, Finding("memory", NONE, "not measured, since an episode failed")]
        return [*findings, memory(await memory_growth(pool, listed["test"]), games)]


# ---- what the episodes say, one finding each


def splits(listed: Mapping[str, Sequence[TaskRef]], opened: Mapping[str, str]) -> Finding:
    """No game is in two splits.

    A run leaves out a game whose fingerprint an earlier split has. It cannot see a game that has
    the same first text and expert plan under another fingerprint.

    Args:
        listed: the games of each split, each listed for itself.
        opened: the first text of each game, by ``TaskRef.key``.
    """
    tasks = [(split, task) for split, games in listed.items() for task in games]
    prints, texts = defaultdict(set), defaultdict(set)
    for split, task in tasks:
        prints[task.fingerprint].add(split)
        if task.expert_plan:
            texts[opened.get(task.key, task.key), task.expert_plan].add((split, task.fingerprint))
    twice = sum(len(where) > 1 for where in prints.values())
    unseen = sum(len({s for s, _ in where}) > 1 and len({p for _, p in where}) > 1 for where in texts.values())
    seen = (
        f"{len(tasks)} games of {', '.join(listed)}; {twice or 'none'} in two{', which a run leaves out' * (twice > 0)}"
    )
    hidden = f"; {unseen} equal games have different fingerprints" if unseen else ""
    return Finding("splits", FAIL if unseen else NOTE if twice else OK, seen + hidden)


def errors(games: Sequence[GameRollouts]) -> Finding:
    broken = [f"{game.task.key}: {game.error}" for game in games if game.error]
    return Finding("no errors", FAIL if broken else OK, broken[0] if broken else f"{len(games)} games played")


def repeats(games: Sequence[GameRollouts]) -> Finding:
    """The same actions give the same episode: after another game, and in another session."""
    pairs = [pair for game in games for pair in game.again]
    if outcomes := [first for first, again in pairs if first.outcome != again.outcome]:
        return Finding("repeats", FAIL, f"scores or ends differ in {len(outcomes)} of {len(pairs)} repetitions")
    if texts := [first for first, again in pairs if first.texts != again.texts]:
        words = f"words differ in {len(texts)} of {len(pairs)} repetitions, scores and ends do not"
        return Finding("repeats", NOTE, words)
    played = sum(bool(first.results) for first, _ in pairs)
    return Finding("repeats", OK if played else NONE, f"{played} repetitions are equal")


def expert_wins(games: Sequence[GameRollouts]) -> Finding:
    rollouts = [game.expert for game in games if game.expert]
    if not rollouts:
        return Finding("expert", NONE, "no expert: no demonstrations, no SFT")
    won = sum(rollout.won for rollout in rollouts)
    turns = sorted(len(rollout.results) for rollout in rollouts)
    seen = f"won {won} of {len(rollouts)} games in {turns[0]} to {turns[-1]} turns"
    return Finding("expert", OK if won == len(rollouts) else FAIL, seen)


def random_bound(games: Sequence[GameRollouts]) -> Finding:
    """What is won without reading; too much leaves nothing to learn. Each match has a winner."""
    played = [[one.won for one in game.random if one.results and not one.opening.seat] for game in games]
    if not any(played):
        return Finding("random", NONE, "a match, or the environment lists no admissible actions")
    between = mean_interval([fmean(won) for won in played if won])
    won, count = sum(map(sum, played)), sum(map(len, played))
    seen = f"won {won} of {count} episodes [{between.low:.0%}, {between.high:.0%}]"
    return Finding("random", NOTE if between.low > 0.5 else OK, seen)


def reachable(games: Sequence[GameRollouts]) -> Finding:
    """Some episode is rewarded; without an expert, random ones may never be."""
    played = [rollout for rollout in _all(games) if rollout.results]
    rewarded = [rollout for rollout in played if rollout.score > 0 or rollout.won]
    early = sum(any(r.score_delta > 0 for r in rollout.results[:-1]) for rollout in rewarded)
    seen = f"{len(rewarded)} of {len(played)} episodes were rewarded, {early} before their last turn"
    expert = any(game.expert for game in games)
    return Finding("reward", OK if rewarded else FAIL if expert else NOTE if played else NONE, seen)


def pays_only_for_winning(games: Sequence[GameRollouts]) -> Finding:
    """No episode that is not won scores as much as a win: at random, or by repeating one action."""
    lost = [(game.task.max_score, rollout) for game in games for rollout in [*game.random, *filter(None, [game.paid])]]
    shares = [rollout.score / most for most, rollout in lost if most > 0 and rollout.results and not rollout.won]
    best = max(shares, default=0.0)
    seen = f"at most {best:.2f} of a win's score in {len(shares)} episodes that were not won"
    return Finding("pays for winning", FAIL if best >= 1 else NOTE if best > 0.9 else OK if shares else NONE, seen)


def rewards_only_wins(reward: Reward, games: Sequence[GameRollouts]) -> Finding:
    """No episode that is not won earns as much of the run's reward as the best win of its game."""
    typed = f"{'turn_reward.name' if ':' in reward.name else 'reward'}={reward.name}"
    if getattr(reward, "blocking", False):
        return Finding("reward for winning", NONE, f"{typed} asks a server")
    lost: list[tuple[float, float]] = []  # what it earned, what a win earned
    try:
        for game in games:
            earned = _earned(reward, typed, game)
            wins = [total for won, total in earned if won]
            lost += [(total, max(wins)) for won, total in earned if wins and not won]
    except Exception as error:  # noqa: BLE001 - a reward of the user's may raise anything
        return Finding("reward for winning", FAIL, f"{type(error).__name__}: {error}")
    as_much = sum(total >= win for total, win in lost)
    nearly = any(total > 0.9 * win for total, win in lost)
    seen = f"{as_much} of {len(lost)} episodes that were not won earned as much of {typed} as a win"
    return Finding("reward for winning", FAIL if as_much else NOTE if nearly else OK if lost else NONE, seen)


def _earned(reward: Reward, typed: str, game: GameRollouts) -> list[tuple[bool, float]]:
    """Return of each episode whether it was won, and its reward. A match has one a seat."""
    played = [one for one in (*game.random, game.paid, game.expert) if one and one.results and not one.opening.seat]
    values = [(one, reward.turn_rewards(one.results, one.won, game.task.max_score)) for one in played]
    return [(one.won, sum(one_a_turn(typed, own, len(one.results)))) for one, own in values]


def hostile(games: Sequence[GameRollouts]) -> Finding:
    """Nonsense is answered: it is neither rewarded nor won, and its length does not matter."""
    results = [result for game in games for result in game.hostile]
    paid = [result for result in results if result.won or result.score_delta > 0]
    valid = sum(result.valid for result in results)
    seen = f"{len(results)} of {len(HOSTILE) * len(games)} answered, {len(paid)} rewarded, {valid} called valid"
    return Finding("hostile actions", FAIL if paid else NOTE if valid else OK, seen)


def no_answer_in_prompt(style: PromptStyle, games: Sequence[GameRollouts]) -> Finding:
    """Look in the first message for the expert's plan and answers of 20 characters or more."""
    looked: list[tuple[str, bool]] = []
    for game in (game for game in games if game.random):
        opening = game.random[0].opening
        prompt = f"{style.role} {style.how_to_act} {game.task.goal} {opening.goal} {opening.text}".lower()
        answers = [*opening.gold, *([joint.join(game.task.expert_plan) for joint in ("\n", ", ", " ")])]
        looked += [(game.task.key, answer.lower() in prompt) for answer in answers if len(answer) >= LEAST_SIZED]
    leaks = [key for key, found in looked if found]
    seen = f"the answer is in the first message of {leaks[0]}" if leaks else f"{len(games)} first messages"
    return Finding("prompt", FAIL if leaks else OK if looked else NONE, seen)


def speed(games: Sequence[GameRollouts]) -> Finding:
    rollouts = [rollout for rollout in _all(games) if rollout.seconds]
    steps, seconds = sum(len(rollout.results) for rollout in rollouts), sum(rollout.seconds for rollout in rollouts)
    return Finding("speed", OK if steps else NONE, f"{steps / seconds if seconds else 0:,.0f} steps/s, one session")


def memory(growth: float, games: Sequence[GameRollouts]) -> Finding:
    acted = any(rollout.results for game in games for rollout in game.random)
    seen = f"{growth / 1e6:+.1f} MB over {RESETS} episodes of up to {STEPS * acted} steps"
    return Finding("memory", FAIL if growth > GROWTH else OK if acted else NONE, seen)


def _all(games: Sequence[GameRollouts]) -> Iterator[Rollout]:
    for game in games:
        yield from game.random
        if game.expert:
            yield game.expert


CHECKS = (errors, repeats, expert_wins, random_bound, reachable, pays_only_for_winning, hostile)


if __name__ == "__main__":
    sys.exit(main())
