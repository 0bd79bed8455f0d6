"""The worked example of docs/extending.md, built and installed into an environment of its own, used
from a folder elsewhere."""

import json
import os
import re
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest
import yaml

from turngrid.rollouts.store import read_episodes

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/extending.md").read_text()
FILE = re.compile(r"```\w+\n(?=(?:# @[^\n]*\n)?# (\S+)\n)(.*?)```", re.DOTALL)
COMMAND = re.compile(r"^turngrid-(train|play) (.*)$", re.MULTILINE)

# What is asked after the package was installed and nothing of it was imported by name.
USE = """
import asyncio, contextlib, io, json, sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
import torch
import turngrid.train.app, turngrid.train.play.__main__
from example_x import example_x
from turngrid.algorithms.chosen import Chosen
from turngrid.algorithms.slots import OfferedEpisode
from turngrid.config.checks.check import check
from turngrid.config.compose import compose
from turngrid.config.errors import ConfigError
from turngrid.envs.games.catalogue import Catalogue
from turngrid.envs.hosting.pool import EnvPool
from turngrid.envs.registry import make_environment
from turngrid.rewards.registry import reward
from turngrid.rewards.reward import RewardView
from turngrid.rollouts.episode import Episode, Outcome, Turn
from turngrid.tasks import evaluation_sets
from turngrid.tasks.run import Run

async def played(name, task, actions):
    async with EnvPool(name, 1, 60.0) as pool:
        session = await pool.open()
        await session.reset(task, 0)
        return [await session.step(action) for action in actions]

def answer(*overrides):
    try:
        return check(compose(overrides))
    except ConfigError as error:
        return str(error)

found = {}
catalogue = Catalogue(make_environment("lamps"), Path("cache"))
[task] = catalogue.tasks("lamps-12", "test", 1, reward="brisk", progress=False)
odd = ["", "\\n", "light", "quit", "x" * 200_000, "light " + "9" * 200_000, "light ²", "ł 💡"]
results = asyncio.run(played("lamps", task, [*odd, *task.expert_plan]))
nonsense, results = results[:len(odd)], results[len(odd):]
found["nonsense"] = [[step.valid, step.over, "Dark:" in step.observation.text] for step in nonsense]
found["won"] = [result.won for result in results].index(True) == len(results) - 1
found["score"] = sum(result.score_delta for result in results) == task.max_score
found["reward"] = reward("brisk", {"price": 0.5}).turn_rewards([Turn("", ""), Turn("", "")], True, 2.0)
for name, settings in (("last", {"others": 0.25}), ("mine", {"others": 0.25, "target": "lamps.credit:Last"})):
    method = Chosen({"credit": {name: settings}}).of("credit", 1)[name]
    found[name] = method(example_x(), torch.ones(7, 3))[1:3].tolist()
memory = Chosen({"credit": {"memory": {"weight": 2.0}}})
turns = replace(example_x(), log_prob=torch.full((7, 13), -1.0))
turns = replace(turns, scored=(turns.place == 1).where(turns.place == 1, torch.nan) * -1.5)
found["memory"] = memory.of("credit", 1)["memory"](turns, torch.ones(7, 3))[0].tolist()
row = SimpleNamespace(turns=[0, 0], before=lambda turn: [7, 8], answer=lambda turn: ([9, 9], [False, True]))
found["contexts"] = {name: [list(c) for c in one.contexts(row)] for name, one in memory.asking().items()}
found["asynchronous"] = answer("algo=grpo", "credit=[memory]", "trainer.v1.trainer_mode=colocate_async")
view = RewardView(Episode("t", 1, "train", "", [], [], [Turn("", "")] * 4, Outcome.WON), {"trained": [0.0] * 4}, 1)
found["shaping"] = Chosen({"shaping": {"early": {"bonus": {"linear": [0, 2, 2]}}}}).of("shaping", 1)["early"](view)
hints, again = (Chosen({"library": {"hints": {"tokens": 60}}}) for _ in range(2))
library, won = hints.of("library", 1)["hints"], Turn("dark", "light 2")
library.offer(1, [OfferedEpisode("t", "", True, 1.0, [won]), OfferedEpisode("t", "", False, 0.0, [Turn("lit", "a")])])
again.load(hints.state())
found["library"] = [again.of("library", 2)["hints"].look_up("t", seen, 2) for seen in ("dark", "lit")]
typos = (["env=lamp"], ["credit=[lst]"], ["env.name=lampz"], ["credit=[last]", "credit.last.other=1"])
found["near"] = [answer(*typo) for typo in typos]
tasks = "eval.tasks=[w2-o3-q4,lamps/lamps-5,lamps.environment:Lamps/lamps-6]"
foreign = Run(compose(["reward=brisk", tasks, "eval.games=2"]), Path("run"))
evaluation_sets.prepare_evaluation_sets(foreign)
found["sets"] = [[*names, evaluation_sets.turns_of(foreign, *names)] for names in evaluation_sets.tested(foreign)]
found["files"] = sorted(path.name for path in Path("run").rglob("*.jsonl"))
found["spelled out"] = answer("env.name=lamps.environment:Lamps", "env.task=lamps-4",
                              "turn_reward.name=lamps.reward:Brisk", "+turn_reward.price=0.01",
                              "+credit.mine.target=lamps.credit:Last", "+credit.mine.others=0.5",
                              "scale=laptop")

found["commands"] = []
for command, *arguments in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        code = {"train": turngrid.train.app, "play": turngrid.train.play.__main__}[command].main(arguments)
    found["commands"].append([code, shown.getvalue()])
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the page's package; turngrid and what it depends on are borrowed."""
    home, source = tmp_path_factory.mktemp("an environment"), tmp_path_factory.mktemp("source")
    for name, content in FILE.findall(PAGE):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(content)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    (packages,) = home.glob("lib/python*/site-packages")
    borrowed = sysconfig.get_paths()["purelib"]  # addsitedir reads its .pth files too: turngrid's editable install
    (packages / "borrowed.pth").write_text(f"import site; site.addsitedir({borrowed!r})\n")
    fresh = home / "bin" / "python"
    offline = ["--disable-pip-version-check", "--no-index", "--no-deps", "--no-build-isolation", "-qq"]
    done = run(fresh, source, "-m", "pip", "install", *offline, str(source))
    assert done.returncode == 0, done.stderr
    return fresh


def run(python: Path, folder: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    return subprocess.run(
        [str(python), "-P", *arguments], cwd=folder, env=kept | more, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def found(python: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What one process in an empty folder says: verl's tree, torch and the package's list are read
    once. Its games are in a cache of their own: the page's environment may change without another
    version."""
    commands = json.dumps([*([name, *shlex.split(rest)] for name, rest in COMMAND.findall(PAGE)), ["train", "--help"]])
    folder = tmp_path_factory.mktemp("elsewhere")
    paths = {"PYTHONPATH": str(ROOT / "tests" / "algorithms"), "TURNGRID_CACHE": str(folder / "cache")}
    done = run(python, folder, "-c", USE, commands, **paths)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


WANTED = {
    "won": True,  # by its last action
    "score": True,
    "reward": [-0.5, 0.5],
    "nonsense": [[False, False, True]] * 8,  # an answer that is no action is shown the game
    "last": [[0.25, 0.25, 1.0], [0.25, 1.0, 0.25]],
    "mine": [[0.25, 0.25, 1.0], [0.25, 1.0, 0.25]],
    "memory": [1.0, 1 + 2 * 0.5, 1.0],
    "contexts": {"credit/memory": [[[7, 8, 9, 9], [False, False, False, True], 1]]},
    "shaping": {"trained": [0, 0, 0, 0.25]},
    "library": ["This won before: light 2", ""],  # from its state
    "sets": [["textworld", "w2-o3-q4", 12], ["lamps", "lamps-5", 5], ["lamps.environment:Lamps", "lamps-6", 24]],
    "files": ["lamps-lamps-5.jsonl", "lamps.environment_Lamps-lamps-6.jsonl"],
}


@pytest.mark.parametrize("piece", WANTED)
def test_each_piece_gives_what_the_page_says(found: dict[str, Any], piece: str) -> None:
    assert found[piece] == WANTED[piece]


def test_refusals_know_the_packages_names(found: dict[str, Any]) -> None:
    wanted = ("use env=lamps", "use credit=last", "use lamps", "use credit.last.others")
    for said, near in zip(found["near"], wanted, strict=True):
        assert near in said and "\n" not in said
    assert found["asynchronous"].endswith("use trainer.v1.trainer_mode=sync")


def test_every_kind_may_be_spelled_out(found: dict[str, Any]) -> None:
    assert isinstance(found["spelled out"], list), found["spelled out"]


def test_the_commands_of_the_page(found: dict[str, Any]) -> None:
    codes, shown = zip(*found["commands"], strict=True)
    assert codes == (0, 0, 0, 0)
    first, second = map(yaml.safe_load, shown[:2])
    assert (first["env"]["name"], first["env"]["max_turns"]) == ("lamps", 12)
    assert first["turn_reward"] == {"name": "brisk", "price": 0.01}
    assert first["credit"] == {"memory": {"weight": 0.1}, "last": {"others": 0.5}}
    assert first["shaping"] == {"early": {"bonus": 0.1}} and first["library"] == {"hints": {"tokens": 60}}
    assert list(second["credit"]) == ["gigpo", "last"]
    assert "won" in shown[2]
    assert "| lamps |" in shown[3] and "| brisk |" in shown[3] and re.search(r"gigpo .*\| last", shown[3])


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_a_whole_run_with_the_package(python: Path, tmp_path: Path) -> None:
    """Demonstrations, SFT, RL and evaluation, by names and, for the reward, by its module; nothing
    of ours is told of it."""
    brisk = "lamps.reward:Brisk"
    chosen = ["env=lamps", "env.task=lamps-5", f"turn_reward.name={brisk}", "+turn_reward.price=0.01"]
    chosen += ["library=hints", "shaping=[early]", "credit=[memory,last]"]
    size = ["budget.units=16", "budget.demo_cost=2", "budget.rl_steps=2", "data.train_batch_size=4", "eval.games=4"]
    size += ["actor_rollout_ref.rollout.n=4", "actor_rollout_ref.actor.ppo_mini_batch_size=4"]
    cache = {"TURNGRID_CACHE": str(tmp_path / "cache")}
    done = run(python, tmp_path, "-m", "turngrid.train", *chosen, *size, "output_dir=runs", **cache)
    assert done.returncode == 0, done.stderr[-3000:]
    (folder,) = (path.parent for path in tmp_path.glob("runs/*/result.json"))
    for step, line in enumerate(map(json.loads, (folder / "rl/metrics.jsonl").open()), start=1):
        episodes = list(read_episodes(folder / f"rl/episodes/{step:06d}.jsonl"))
        paid = [sum(turn.rewards["trained"] for turn in episode.turns) for episode in episodes]
        assert line["step"] == step and line["reward/trained/mean"] == pytest.approx(sum(paid) / 16)
        assert line["rollout/contexts"] == sum(len(episode.turns) - 1 for episode in episodes)
        for episode in episodes:
            before = episode.won - 0.01 * len(episode.turns)
            early = 0.1 * episode.won / len(episode.turns)
            assert sum(turn.rewards[brisk] for turn in episode.turns) == pytest.approx(before)
            assert sum(turn.rewards["trained"] for turn in episode.turns) == pytest.approx(before + early)
