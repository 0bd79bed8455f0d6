"""The games of a run by split: training, demonstrations, validation and test."""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from turngrid.envs.games.catalogue import SPLITS, Catalogue, Listing, TooFewGames
from turngrid.envs.types import TaskError, TaskRef
from turngrid.records.files.json_lines import write_lines
from turngrid.records.process.exit_codes import say
from turngrid.tasks.budget import Allocation, with_games
from turngrid.tasks.mixture import shares, spread, task_weights
from turngrid.tasks.run import Run

SKIPPED = Path("tasks") / "skipped.json"
SHORT_OF = {
    "test": "use eval.games={found} or fewer",
    "validation": "use eval.validation_games={found} or fewer",
    "demonstrations": "{found} games can be demonstrated; use a lower budget.units or budget.sft_share",
    "train": "use a lower weight of the task in env.tasks, or a lower budget.units or budget.rl_steps",  # of a mixture
}
NONE_LEFT = "other splits come first; use a lower eval.games, or another task"
NO_DEMONSTRATION = "use budget=rl_only, which needs none, or another task"


def prepare_tasks(run: Run, avoid: Iterable[str] = ()) -> Allocation:
    """Make or find the games of each split and list them in the run's ``tasks/SPLIT.jsonl``.

    An environment may have fewer training games than the budget pays for; they are revisited.

    Args:
        avoid: fingerprints of games that only the split ``test`` may have.

    Returns:
        The run's allocation with the number of training games that exist.

    Raises:
        TaskError: another split has too few games, or expert plans are needed and missing.
    """
    allocation = run.allocation
    with what_to_set():
        weights, reward = task_weights(run.config.env), run.turn_reward.name
        listings = list_games(run.catalogue, weights, games_wanted(run), reward, avoid, at_most=["train"])
    _refuse_without_plans(run, listings)
    if run.config.get("extend"):
        _refuse_other_games(run.folder, listings)
    _write(run.folder, listings)
    games = len(listings["train"].tasks) if allocation.games else 0
    if games == allocation.games:
        return allocation
    task, paid = run.env.task, allocation.games
    say(f"note: {task} has {games} training games, the budget pays for {paid}: they are revisited")
    return with_games(allocation, run.budget, games)


def _refuse_without_plans(run: Run, listings: Mapping[str, Listing]) -> None:
    """Refuse demonstrations and training games that need an expert plan and have none."""
    demonstrations = listings["demonstrations"].tasks if "demonstrations" in listings else []
    if not run.environment.seats and not all(game.expert_plan for game in demonstrations):
        raise TaskError(f"env.task={run.env.task}: a demonstration needs an expert plan; {NO_DEMONSTRATION}")
    if run.allocation.games:
        look_for_plans(run, listings["train"].tasks)


def _write(folder: Path, listings: Mapping[str, Listing]) -> None:
    for split, listing in listings.items():
        write_tasks(task_file(folder, split), listing.tasks)
    skipped = {split: Counter(reason for _, reason in listing.rejected) for split, listing in listings.items()}
    (folder / SKIPPED).write_text(json.dumps(skipped, indent=2) + "\n", encoding="utf-8")


def _refuse_other_games(folder: Path, listings: Mapping[str, Listing]) -> None:
    """Refuse an extension whose training games differ: its checkpoint refers to them by index."""
    file = task_file(folder, "train")
    if file.exists() and read_tasks(file) != list(listings["train"].tasks):
        raise TaskError(
            "eval.games, eval.tasks and eval.validation_games would change the training games of the extended run; "
            "use the values of that run, and python -m experiments.evaluate for other test games"
        )


def games_wanted(run: Run) -> dict[str, int]:
    """Return the number of games by split, as in ``SPLITS``; splits without games are omitted."""
    counts = {
        "test": run.eval.games,
        "validation": validation_games(run),
        "demonstrations": demonstration_games(run),
        "train": run.allocation.games,
    }
    return {split: count for split, count in counts.items() if count}


def demonstration_games(run: Run) -> int:
    """Return the number of games to demonstrate; one with seats has ``demos.per_game`` matches."""
    if run.demos.source == "episodes":
        return 0
    per_game = run.demos.per_game if run.environment.seats else 1
    return -(-run.allocation.demonstrations // per_game)


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
    for split in sorted(counts, key=list(SPLITS).index):
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


def look_for_plans(run: Run, games: Sequence[TaskRef]) -> None:
    """Raise TaskError if the rollout form needs expert plans and no training game has one."""
    form = next((name for name, form in run.forms.items() if form.needs_plan), None)
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


def task_file(folder: Path, split: str) -> Path:
    return folder / "tasks" / f"{split}.jsonl"


def write_tasks(path: Path, tasks: Iterable[TaskRef]) -> None:
    write_lines(path, (task.to_dict() for task in tasks))


def read_tasks(path: Path) -> Sequence[TaskRef]:
    return [TaskRef.from_dict(json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def fingerprints(folder: Path, *splits: str) -> dict[str, str]:
    """Return fingerprints by the games' keys in a run's lists, such as ``evaluation_sets/*``."""
    files = (file for split in splits for file in (folder / "tasks").glob(f"{split}.jsonl"))
    return {game.key: game.fingerprint for file in files for game in read_tasks(file)}


def validates(run: Run) -> bool:
    """Return whether validation runs between training steps (``trainer.test_freq``)."""
    return bool(run.config.trainer.test_freq > 0 or run.config.trainer.val_before_train)


def validation_games(run: Run) -> int:
    """Return the number of validation games, neither trained on nor tested; 0 without RL."""
    return run.eval.validation_games if run.allocation.steps and validates(run) else 0


def validation_samples(run: Run) -> int:
    """Return the number of validation episodes: first, every ``test_freq`` steps, at the end."""
    trainer, every = run.config.trainer, int(run.config.trainer.test_freq)
    times = (-(-run.allocation.steps // every) if every > 0 else 0) + bool(trainer.val_before_train)
    return times * validation_games(run) * int(run.config.actor_rollout_ref.rollout.val_kwargs.n)
