"""Writes a step to disk: its groups' episodes, its line of metrics, then a checkpoint."""

from collections.abc import Collection, Sequence
from itertools import chain
from pathlib import Path

from omegaconf import DictConfig
from transfer_queue import KVBatchMeta

from turngrid.envs.utils.files import remove_folder
from turngrid.records.files.json_lines import read_lines
from turngrid.records.process.exit_codes import Failure
from turngrid.records.resume import RlFolder
from turngrid.records.step_metrics import step_metrics, validation_metrics
from turngrid.rollouts.episode import Episode
from turngrid.rollouts.store import read_episodes, write_episodes
from turngrid.tasks.budget import demonstration_price
from turngrid.tasks.demonstrations import episodes_file
from turngrid.verl_plugin.training.credit_log import CreditLog
from turngrid.verl_plugin.training.step import Metrics, Step

MAX_FAILED_GROUPS = 3  # limit of failed groups in one step, in batches


class StepGroups:
    """A synchronous step's files, one a prompt: ``.jsonl``, or ``.failed`` with the cause."""

    def __init__(self, rl: RlFolder, prompts: int, step: Step) -> None:
        self._rl, self._prompts, self._step = rl, prompts, step

    @property
    def folder(self) -> Path:
        return self._rl.episodes / f"{self._step.number:06d}"

    def begin(self) -> None:
        """Make the step's folder, which shows the progress bar that the step has begun."""
        self.folder.mkdir(parents=True, exist_ok=True)

    def note(self, batch: KVBatchMeta, metrics: Metrics) -> KVBatchMeta:
        return batch

    def files(self) -> list[Path]:
        """Return the files of the groups that the step trained on."""
        return sorted(self.folder.glob("*.jsonl"))

    def failures(self) -> list[Path]:
        """Return the files of the groups that failed since the last step was recorded."""
        return sorted(self.folder.glob("*.failed"))

    def guard(self) -> None:
        """End the run if groups keep failing, since verl would refill them forever.

        Raises:
            Failure: more than ``MAX_FAILED_GROUPS`` batches of groups failed.
        """
        failures = self.failures()
        if len(failures) > MAX_FAILED_GROUPS * self._prompts:
            cause = failures[-1].read_text(encoding="utf-8").strip()
            failed = f"{len(failures)} groups failed and were refilled"
            raise Failure(f"step {self._step.number}: {failed}; the last one:\n{cause}")

    def metrics(self, groups: Sequence[Sequence[Episode]]) -> dict[str, float]:
        return {}

    def recorded(self) -> None:
        """Delete the files, whose episodes are now in the step's file."""
        remove_folder(self.folder)

    def saved(self) -> None:
        """Act on the step's completed checkpoint."""

    def restored(self) -> None:
        """Act on a resume from the checkpoint of the step."""


class RunningTotal:
    """The budget spent so far, as the ledger charges it. A resumed run continues the count."""

    def __init__(self, config: DictConfig, folder: Path) -> None:
        self._budget, self._texts = config.budget, folder / "rl" / "library"
        self._games: set[str] = set()
        self.episodes = self.tokens = 0
        self.demonstrations = len(read_lines(episodes_file(folder)))
        for step in sorted((folder / "rl" / "episodes").glob("*.jsonl")):
            self.add(step)

    def add(self, step: Path) -> dict[str, float]:
        """Add one step's file of episodes, and the texts that the policy wrote before it."""
        for episode in read_episodes(step):
            self._games.add(episode.task)
            self.episodes += 1
            self.tokens += sum(len(turn.action_ids) for turn in episode.own_turns)
        written = sum(text["tokens"] for text in read_lines(self._texts / step.name))
        self.tokens += written
        return self.metrics() | ({"library/written_tokens": float(written)} if written else {})

    def metrics(self) -> dict[str, float]:
        games = len(self._games)
        charged = games if self._budget.count == "games" else self.episodes
        units = float(self.demonstrations * demonstration_price(self._budget)) + charged * self._budget.episode_cost
        return {
            "budget/units": units,
            "budget/episodes": float(self.episodes),
            "budget/games": float(games),
            "budget/tokens": float(self.tokens),
        }


# ---- a step's episodes


def gathered(
    groups: StepGroups, credit: CreditLog, replaced: Collection[str], config: DictConfig
) -> tuple[list[Episode], dict[str, float]]:
    """Merge the groups' files into one for the step; return its episodes and their metrics.

    ``replaced``: names of rows that a stored episode replaced.
    """
    files, failed = groups.files(), len(groups.failures())
    by_group = [list(read_episodes(file)) for file in files]
    episodes = [*chain.from_iterable(by_group)]
    names = [f"{file.stem}_{n}" for file, own in zip(files, by_group, strict=True) for n in range(len(own))]
    credit.write(groups.folder, names)
    write_episodes(groups.folder.with_suffix(".jsonl"), episodes)
    groups.recorded()
    prompts = {name.rpartition("_")[0] for name in replaced}
    replaced_groups = [number for number, file in enumerate(files) if file.stem in prompts]
    own = {name: role.max_tokens for name, role in (config.get("roles") or {}).items() if role.max_tokens}
    limits = {"": config.env.max_action_tokens, **own}
    metrics = step_metrics(by_group, config.turn_reward.name, replaced_groups, limits)
    return episodes, {**metrics, "rollout/failed_groups": float(failed), **groups.metrics(by_group)}


def gathered_validation(folder: Path, samples: int) -> dict[str, float]:
    """Merge a validation's files into one; return metrics of its episodes, ``samples`` a game."""
    episodes = [episode for file in sorted(folder.glob("*.jsonl")) for episode in read_episodes(file)]
    write_episodes(folder.with_suffix(".jsonl"), episodes)
    remove_folder(folder)
    return validation_metrics(episodes, samples)
