"""The games of a run by split: training, demonstrations, validation and test."""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from omegaconf import DictConfig

from turngrid.envs.games.catalogue import PRECEDENCE, Catalogue, Listing, TooFewGames
from turngrid.envs.registry import make_environment
from turngrid.envs.types import TaskError, TaskRef
from turngrid.records.files.json_lines import write_lines
from turngrid.records.process.exit_codes import say
from turngrid.tasks.budget import Allocation, rollout_forms, with_games
from turngrid.tasks.mixture import shares, spread, task_weights

SKIPPED = Path("tasks") / "skipped.json"
SHORT_OF = {
    "test": "use eval.games={found} or fewer",
    "validation": "use eval.validation_games={found} or fewer",
    "demonstrations": "{found} games can be demonstrated; use a lower budget.units or budget.sft_share",
    "train": "use a lower weight of the task in env.tasks, or a lower budget.units or budget.rl_steps",  # of a mixture
}
NONE_LEFT = "other splits come first; use a lower eval.games, or another task"
NO_DEMONSTRATION = "use budget=rl_only, which needs none, or another task"


def prepare_tasks(config: DictConfig, allocation: Allocation, folder: Path, avoid: Iterable[str] = ()) -> Allocation:
    """Make or find the games of each split and list them in ``folder/tasks/SPLIT.jsonl``.

    An environment may have fewer training games than the budget pays for; they are revisited.

    Args:
        avoid: fingerprints of games that only the split ``test`` may have.

    Returns:
        The allocation with the number of training games that exist.

    Raises:
        TaskError: another split has too few games, or expert plans are needed and missing.
    """
    catalogue = Catalogue(make_environment(config.env.name, config.env), cache_dir(config))
    wanted = games_wanted(config, allocation)
    with what_to_set():
        weights = task_weights(config.env)
        listings = list_games(catalogue, weights, wanted, config.turn_reward.name, avoid, at_most=["train"])
    demonstrations = listings["demonstrations"].tasks if "demonstrations" in listings else []
    seats = make_environment(config.env.name, config.env).seats
    if not seats and not all(game.expert_plan for game in demonstrations):
        raise TaskError(f"env.task={config.env.task}: a demonstration needs an expert plan; {NO_DEMONSTRATION}")
    if allocation.games:
        look_for_plans(config, listings["train"].tasks)
    if config.get("extend"):
        _refuse_other_games(folder, listings)
    for split, listing in listings.items():
        write_tasks(task_file(folder, split), listing.tasks)
    skipped = {split: Counter(reason for _, reason in listing.rejected) for split, listing in listings.items()}
    (folder / SKIPPED).write_text(json.dumps(skipped, indent=2) + "\n", encoding="utf-8")
    games = len(listings["train"].tasks) if allocation.games else 0
    if games == allocation.games:
        return allocation
    task, paid = config.env.task, allocation.games
    say(f"note: {task} has {games} training games, the budget pays for {paid}: they are revisited")
    return with_games(allocation, config.budget, games)


def _refuse_other_games(folder: Path, listings: Mapping[str, Listing]) -> None:
    """Refuse an extension whose training games differ: its checkpoint refers to them by index."""
    file = task_file(folder, "train")
    if file.exists() and read_tasks(file) != list(listings["train"].tasks):
        raise TaskError(
            "eval.games, eval.tasks and eval.validation_games would change the training games of the extended run; "
            "use the values of that run, and python -m experiments.evaluate for other test games"
        )


def games_wanted(config: DictConfig, allocation: Allocation) -> dict[str, int]:
    """Return the number of games by split; splits without games are omitted."""
    counts = {
        "demonstrations": demonstration_games(config, allocation.demonstrations),
        "train": allocation.games,
        "test": int(config.eval.games),
        "validation": validation_games(config, allocation.steps),
    }
    return {split: count for split, count in counts.items() if count}


def demonstration_games(config: DictConfig, demonstrations: int) -> int:
    """Return the number of games to demonstrate.

    In games with seats, each has ``demos.per_game`` matches.
    """
    if config.demos.source == "episodes":
        return 0
    seats = make_environment(config.env.name, config.env).seats
    return -(-demonstrations // int(config.demos.per_game)) if seats else demonstrations


def list_games(
    catalogue: Catalogue,
    weights: Mapping[str, float],
    counts: Mapping[str, int],
    reward: str,
    avoid: Iterable[str] = (),
    at_most: Collection[str] = (),
) -> dict[str, Listing]:
    """Return the games by split, each task's in proportion to its weight.

    Only ``test`` may have games with the fingerprints to ``avoid``. The splits ``at_most`` may have
    fewer games, unless the tasks are a mixture.
    """
    avoid = list(avoid)
    if len(weights) == 1 and not avoid:
        (task,) = weights  # one call, which keeps its game makers
        return catalogue.listings(task, counts, reward, at_most=at_most)
    made: dict[str, Listing] = {}
    for split in sorted(counts, key=PRECEDENCE.index):
        seen = [game.fingerprint for listing in made.values() for game in listing.tasks]
        taken = seen if split == "test" else seen + avoid
        few = split in at_most and len(weights) == 1
        made[split] = _split(catalogue, split, shares(weights, counts[split]), reward, taken, few)
    return made


def _split(
    catalogue: Catalogue, split: str, counts: Mapping[str, int], reward: str, taken: list[str], at_most: bool
) -> Listing:
    """List a split's games; a game of two tasks (``all_types`` and a type) goes to the first."""
    parts: dict[str, Listing] = {}
    for task, count in counts.items():
        few = [split] if at_most else []
        parts[task] = catalogue.listings(task, {split: count}, reward, avoid=taken, at_most=few)[split]
        taken = [*taken, *(game.fingerprint for game in parts[task].tasks)]
    left = {task: iter(listing.tasks) for task, listing in parts.items()}
    order = spread({task: len(listing.tasks) for task, listing in parts.items()})
    return Listing([next(left[task]) for task in order], [skip for part in parts.values() for skip in part.rejected])


def look_for_plans(config: DictConfig, games: Sequence[TaskRef]) -> None:
    """Raise TaskError if the rollout form needs expert plans and no training game has one."""
    form = next((name for name, form in rollout_forms(config).items() if form.needs_plan), None)
    bare = sum(not game.expert_plan for game in games)
    if not form or not bare:
        return
    missing = f"{bare} of {len(games)} training games have no expert plan, which rollout_form={form} needs"
    if bare == len(games):
        raise TaskError(f"{missing}; use rollout_form=linear")
    say(f"note: {missing}; groups of such games are dropped")


@contextmanager
def what_to_set() -> Iterator[None]:
    """Raise ``TooFewGames`` again as a ``TaskError`` that names the key to set."""
    try:
        yield
    except TooFewGames as error:
        none = NO_DEMONSTRATION if error.split == "demonstrations" else NONE_LEFT
        advice = SHORT_OF[error.split] if error.count else none
        words = [str(error), advice.format(found=error.count), error.more]
        raise TaskError("; ".join(filter(None, words))) from error


def skipped_games(folder: Path) -> dict[str, dict[str, int]]:
    """Return the number of skipped seeds or files by split and reason."""
    return json.loads((folder / SKIPPED).read_text(encoding="utf-8"))


def cache_dir(config: DictConfig) -> Path | None:
    return Path(config.env.cache_dir).expanduser() if config.env.get("cache_dir") else None


def task_file(folder: Path, split: str) -> Path:
    return folder / "tasks" / f"{split}.jsonl"


def write_tasks(path: Path, tasks: Iterable[TaskRef]) -> None:
    write_lines(path, (task.to_dict() for task in tasks))


def read_tasks(path: Path) -> Sequence[TaskRef]:
    return [TaskRef.from_dict(json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def validates(config: DictConfig) -> bool:
    """Return whether validation runs between training steps (``trainer.test_freq``)."""
    return bool(config.trainer.test_freq > 0 or config.trainer.val_before_train)


def validation_games(config: DictConfig, steps: int) -> int:
    """Return the number of validation games, neither trained on nor tested; 0 without RL."""
    return int(config.eval.validation_games) if steps and validates(config) else 0


def validation_samples(config: DictConfig, steps: int) -> int:
    """Return the number of validation episodes: first, every ``test_freq`` steps, at the end."""
    every = int(config.trainer.test_freq)
    times = (-(-steps // every) if every > 0 else 0) + bool(config.trainer.val_before_train)
    return times * validation_games(config, steps) * int(config.actor_rollout_ref.rollout.val_kwargs.n)
