"""Groups of an asynchronous run from play to record, at checkpoints and after kills; and how old
their weights were."""

from pathlib import Path

import pytest

from turngrid.records.files import checkpoints
from turngrid.records.process.exit_codes import Failure
from turngrid.records.resume import RlFolder, discard_beyond_checkpoint
from turngrid.rollouts.episode import Episode, Outcome, Turn
from turngrid.rollouts.store import read_episodes, write_episodes
from turngrid.verl_plugin.training.rollout_groups import AsyncGroups, staleness_metrics
from turngrid.verl_plugin.training.step import Step
from turngrid.verl_plugin.training.step_records import MAX_FAILED_GROUPS, StepGroups

WAITING = {"000002-0002": "finished", "000002-0003": "running"}  # what the checkpoint of step 2 knows


def play(group: str, take: int = 1, **more: object) -> list[Episode]:
    """Two samples. A take is one rollout of the group: another one has other clocks."""
    turn = {"observation": "You see\u2028a door.", "action": "look", "act_seconds": take + 0.5}
    return [
        Episode("a", 1, "train", "Win.", [], [], [Turn(**turn)], Outcome.WON, sample=sample, group=group, **more)
        for sample in range(2)
    ]


@pytest.fixture
def rl(tmp_path: Path) -> RlFolder:
    return RlFolder(tmp_path)


@pytest.fixture
def groups(tmp_path: Path) -> AsyncGroups:
    return AsyncGroups(RlFolder(tmp_path), 4, Step())


def played(groups: AsyncGroups, *names: str, take: int = 1) -> None:
    for name in names:
        write_episodes(groups.file(name), play(name, take))


def train(rl: RlFolder, groups: AsyncGroups, step: int, *names: str) -> None:
    """As a step records what it trained on; the groups' files stay until the next checkpoint."""
    episodes = [episode for name in names for episode in read_episodes(groups.file(name))]
    write_episodes(rl.step_episodes(step), episodes)


def save(rl: RlFolder, step: int) -> None:
    rl.model(step).mkdir(parents=True)
    checkpoints.seal_newest(rl.checkpoints, step, None)


def names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.jsonl"))


def discarded(rl: RlFolder) -> list[Episode]:
    return [episode for path in sorted(rl.discarded.glob("*/episodes/**/*.jsonl")) for episode in read_episodes(path)]


def test_a_checkpoint_files_away_what_it_needs_no_more(rl: RlFolder, groups: AsyncGroups) -> None:
    played(groups, "000001-0000", "000001-0001", "000001-0002", "000002-0002", "000002-0003")
    train(rl, groups, 1, "000001-0000")
    train(rl, groups, 2, "000001-0001")
    save(rl, 2)
    groups.settle(2, WAITING)
    assert names(rl.groups) == ["000002-0002.jsonl", "000002-0003.jsonl"]
    assert names(rl.stale) == ["000002/000001-0002.jsonl"]  # never trained on, and verl has it no more
    assert not rl.discarded.exists()


def test_groups_without_a_file_are_sampled_again(rl: RlFolder, groups: AsyncGroups) -> None:
    """A damaged checkpoint of step 3 had settled what that of step 2 still waited for."""
    played(groups, *WAITING)
    train(rl, groups, 3, "000002-0002", "000002-0003")
    save(rl, 2)
    groups.settle(3, {})
    assert not names(rl.groups)
    assert discard_beyond_checkpoint(rl) == 2
    for _ in range(2):
        assert groups.restore(2, WAITING) == ["000002-0002"]


@pytest.mark.parametrize("settled", [True, False], ids=["settled", "killed before it had settled"])
def test_after_a_kill_only_what_the_checkpoint_knows_comes_back(
    rl: RlFolder, groups: AsyncGroups, settled: bool
) -> None:
    played(groups, "000001-0000", "000001-0001", "000002-0002")
    train(rl, groups, 1, "000001-0000")
    train(rl, groups, 2, "000001-0001")
    save(rl, 2)
    if settled:
        groups.settle(2, WAITING)
    played(groups, "000002-0003", "000003-0000", "000003-0001")
    train(rl, groups, 3, "000002-0002", "000003-0000")  # and killed here
    (rl.groups / "000003-0002.failed").write_text("EnvError\n")
    assert discard_beyond_checkpoint(rl) == 2
    for _ in range(2):  # killed in its midst, it is done again
        assert not groups.restore(2, WAITING)
    assert names(rl.groups) == ["000002-0002.jsonl"]
    assert not rl.stale.exists() and not groups.failures()
    spoilt = discarded(rl)
    found = sorted((episode.group, episode.sample) for episode in spoilt)
    # each once, and not 000002-0002, which will be trained on after all
    assert found == [(group, sample) for group in ("000002-0003", "000003-0000", "000003-0001") for sample in (0, 1)]


def test_what_was_played_twice_is_spoilt_once(rl: RlFolder, groups: AsyncGroups) -> None:
    """A group that was being played when the checkpoint was saved is played again by its id."""
    save(rl, 2)
    played(groups, "000002-0003")
    train(rl, groups, 3, "000002-0003")
    discard_beyond_checkpoint(rl)
    groups.restore(2, {"000002-0003": "pending"})
    played(groups, "000002-0003", take=2)
    train(rl, groups, 3, "000002-0003")
    save(rl, 3)
    groups.settle(3, {})
    assert discarded(rl) == play("000002-0003") and not names(rl.groups) and not rl.stale.exists()
    assert list(read_episodes(rl.step_episodes(3))) == play("000002-0003", take=2)


def test_credit_follows_the_episodes_that_come_back(rl: RlFolder, groups: AsyncGroups) -> None:
    save(rl, 2)
    played(groups, "000002-0002", "000003-0000")
    train(rl, groups, 3, "000002-0002", "000003-0000")
    rl.credit.mkdir(parents=True)
    (rl.credit / "000003.jsonl").write_text("1\n2\n3\n4\n")
    discard_beyond_checkpoint(rl)
    groups.restore(2, WAITING)
    (credit,) = rl.discarded.rglob("credit/*.jsonl")
    (record,) = rl.discarded.glob("*/episodes/000003.jsonl")
    assert credit.read_text().split() == ["3", "4"] and len(list(read_episodes(record))) == 2


def test_before_the_first_checkpoint_everything_is_played_again(rl: RlFolder, groups: AsyncGroups) -> None:
    played(groups, "000001-0000", "000001-0001")
    train(rl, groups, 1, "000001-0000")
    assert discard_beyond_checkpoint(rl) == 0
    groups.restore(0, {})
    assert not names(rl.groups) and not rl.stale.exists()


# ---- staleness


def of_versions(last: int, *turns: list[int]) -> Episode:
    made = [Turn("You see a door.", "look", versions=versions) for versions in turns]
    return Episode("a", 1, "train", "Win.", [], [], made, Outcome.WON, policy_version=last)


def test_staleness_is_counted_from_the_oldest_turn() -> None:
    episodes = [of_versions(4, []), of_versions(4, [2, 2], [3, 4])]
    assert staleness_metrics(episodes, 5) == {
        "rollout/staleness/mean": 1.0,
        "rollout/staleness/max": 2.0,
        "rollout/versions/mean": 2.0,
        "rollout/versions/max": 3.0,
    }
    assert staleness_metrics([], 5) == {} and episodes[1].versions(0, 1) == (2, 2)


# ---- a synchronous step


def test_an_environment_that_fails_again_and_again_ends_the_run(tmp_path: Path) -> None:
    groups = StepGroups(RlFolder(tmp_path), 4, Step(2))
    groups.begin()
    for number in range(MAX_FAILED_GROUPS * 4 + 1):
        groups.guard()
        (groups.folder / f"000002-{number:04d}.failed").write_text("EnvError: the game hung\n", encoding="utf-8")
    with pytest.raises(Failure, match="^step 2: 13 groups failed .*\nEnvError: the game hung$"):
        groups.guard()
