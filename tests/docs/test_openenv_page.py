"""docs/openenv.md: a run with its command, against its server."""

import re
import shlex
import sys
from pathlib import Path

import pytest

from turngrid.config.checks.check import check
from turngrid.config.compose import compose
from turngrid.config.errors import ConfigError
from turngrid.envs.registry import make_environment
from turngrid.tasks.run import Run
from turngrid.tasks.splits import prepare_tasks, read_tasks, task_file

sys.path.append(str(Path(__file__).parents[1] / "envs"))
from openenv_servers import dial_module, served

PAGE = (Path(__file__).parents[2] / "docs" / "openenv.md").read_text(encoding="utf-8")
COMMAND = re.findall(r"^python -m train (.*)$", PAGE.replace("\\\n", " "), re.MULTILINE)[0]


def test_the_command_trains_on_the_pages_server(tmp_path: Path) -> None:
    words = [*shlex.split(COMMAND), f"output_dir={tmp_path}", f"env.cache_dir={tmp_path}"]
    with dial_module(tmp_path) as dial, served(dial.app) as url:
        words = [word.replace("http://127.0.0.1:8000", url) for word in words]
        config = compose([*words, "budget.rl_steps=1", "eval.games=2"])
        check(config)
        prepare_tasks(Run(config, tmp_path))
        games = read_tasks(task_file(tmp_path, "train"))
        assert games and all(game.max_score == 0.9 and game.task == "dial" for game in games)
        env = make_environment("openenv", config.env).new_env(legal=True)
        opening = env.reset(games[0], 0)
        assert opening.text.startswith("The dial is at ") and opening.legal == ("left", "right", "open")
        assert Run(config, tmp_path).spec(games[0], 12).task.goal == "Turn the dial to the mark, then open."
        with pytest.raises(ConfigError, match="env.action_field=mov: .* use env.action_field=move"):
            check(compose([*words, "env.action_field=mov"]))
