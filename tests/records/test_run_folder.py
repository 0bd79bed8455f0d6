"""Identity, lock, fresh starts and the record of attempts, on real folders and real processes."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from omegaconf import DictConfig, OmegaConf

from turngrid.config.base import ROOT
from turngrid.config.compose import Composer
from turngrid.records.process.exit_codes import Refusal
from turngrid.records.provenance import Attempt
from turngrid.records.run_folder import identity, open_run, run_name


@pytest.fixture(scope="module")
def default(composed: Composer) -> str:
    return identity(composed([]))


@pytest.fixture
def config() -> DictConfig:
    names = {"env": {"name": "textworld", "task": "w2-o3-q4"}, "algo": {"name": "ppo"}, "seed": 3, "fresh": False}
    nodes = {node: {"name": node} for node in ("turn_reward", "budget", "model")}
    return OmegaConf.create(names | nodes)


def test_the_name_says_what_was_asked_for(composed: Composer, config: DictConfig) -> None:
    name = run_name(composed(["algo=rloo", "seed=7", "env.task=w4-o6-q8"]))
    assert name.startswith("textworld-w4-o6-q8-rloo-sparse-sft_rl-tiny-s7-")
    assert len(name.rsplit("-", 1)[1]) == 8
    config.budget.sft_share = 1.0  # without RL there is no algorithm
    assert run_name(config).startswith("textworld-w2-o3-q4-turn_reward-")


CLUSTERS = ["cluster=gpu1", "cluster=slurm", "cluster=slurm_multinode", "cluster=local_parallel"]
WHERE_AND_HOW = [*CLUSTERS, "tracking=wandb", "output_dir=x", "fresh=true", "env.workers=9"]
DEFAULTS = ["env.max_turns=12", "algo=grpo"]
LEARNING_RATE = "actor_rollout_ref.actor.optim.lr=0.5"
OTHERS = ["algo=ppo", "seed=1", "eval.games=100", LEARNING_RATE, "env.max_turns=11", "scale=paper"]


@pytest.mark.parametrize("override", [*WHERE_AND_HOW, *DEFAULTS, *OTHERS])
def test_identity_is_what_is_asked_for_and_not_where_or_how(composed: Composer, default: str, override: str) -> None:
    assert (identity(composed([override])) != default) is (override in OTHERS)


def test_a_new_key_that_says_nothing_changes_no_name(composed: Composer, default: str) -> None:
    config = composed([])
    more = OmegaConf.create({"env": {"newer": None}, "newest": {"inner": {"key": None}}, "cluster": {"newer": 3}})
    assert identity(OmegaConf.merge(_untyped(config), more)) == default
    assert identity(OmegaConf.merge(_untyped(config), {"env": {"newer": 0}})) != default


def test_a_null_for_somebody_elses_function_does_say_something(composed: Composer) -> None:
    """FrozenLake without ``desc`` has a lake a seed, with ``desc=None`` one for all."""
    assert identity(composed(["env=gym", "env.kwargs={desc: null}"])) != identity(composed(["env=gym"]))


@dataclass
class Nothing:
    """A method without settings."""


def test_a_run_is_told_by_its_methods_and_their_order(composed: Composer, default: str) -> None:
    one, other = (composed([f"shaping=[{names}]"]) for names in ("format,turn_bonus", "turn_bonus,format"))
    bare = composed(["+shaping.mine.target=test_run_folder:Nothing"])
    silent = _untyped(composed([]))
    silent.shaping = {"mine": {}}
    assert len({default, *map(identity, (one, other, bare, silent))}) == 5
    assert identity(one) == identity(composed(["shaping=[format,turn_bonus]"]))


def _untyped(config: DictConfig) -> DictConfig:
    return OmegaConf.create(OmegaConf.to_container(config))


def test_config_and_attempt_are_kept(config: DictConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with open_run(config, tmp_path) as run:
        assert OmegaConf.load(run / "config.yaml") == config
        (attempt,) = (run / "attempts.jsonl").read_text().splitlines()
    assert json.loads(attempt)["versions"]["torch"]
    assert not (ROOT / ".git").exists() or len(json.loads(attempt)["commit"]) == 40
    assert capsys.readouterr().err == ""
    assert not (run / "result.json").exists()


def test_one_process_at_a_time(config: DictConfig, tmp_path: Path) -> None:
    fix = f"^{tmp_path}/.*: another process is at work there; wait for its end$"
    with open_run(config, tmp_path), pytest.raises(Refusal, match=fix), open_run(config, tmp_path):
        pass
    with open_run(config, tmp_path):
        pass  # let go of at the end of the block
    with pytest.raises(Refusal, match=r"^output_dir=/proc/nope: no run folder can be made there \("):
        open_run(config, Path("/proc/nope")).__enter__()


def test_fresh_puts_the_old_run_aside_whole(config: DictConfig, tmp_path: Path) -> None:
    with open_run(config, tmp_path) as run:
        (run / "result.json").write_text("{}")
        config.fresh = True
        with pytest.raises(Refusal, match="another process"), open_run(config, tmp_path):
            pass
    for number in range(2):
        with open_run(config, tmp_path) as run:
            assert not (run / "result.json").exists()
            (run / "result.json").write_text("{}")
        assert (tmp_path / ".old" / f"{run.name}.{number:03d}" / "result.json").exists()
    shutil.rmtree(tmp_path / ".old" / f"{run.name}.000")  # the next takes its number, not that of 001
    with open_run(config, tmp_path):
        assert sorted(path.name[-3:] for path in (tmp_path / ".old").iterdir()) == ["000", "001"]


def test_another_commit_and_other_packages_are_told_and_recorded(tmp_path: Path) -> None:
    path = tmp_path / "attempts.jsonl"
    first = Attempt("a" * 40, False, {"torch": "2.12.0", "python": "3.11.1"}, 0.0)
    second = Attempt("b" * 40, False, {"torch": "2.13.0", "python": "3.11.1"}, 1.0)
    assert first.record(path) == ()
    assert first.record(path) == ()
    path.write_text(path.read_text() + '{"commit": "cut sho')
    assert second.record(path) == (
        "this run was started at commit aaaaaaaaaa and goes on at bbbbbbbbbb",
        "this run was started with other packages: torch 2.12.0 -> 2.13.0",
    )
    assert second.record(path) == ()  # the cut line did not swallow the one after it
