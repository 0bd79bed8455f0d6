"""The role that docs/roles.md adds answers in an episode."""

import re
from pathlib import Path

from turngrid.config.checks.check import CHECKS
from turngrid.config.compose import compose
from turngrid.envs.types import Observation
from turngrid.rollouts.episode import Turn
from turngrid.tasks.run import Run

PAGE = (Path(__file__).parents[2] / "docs" / "roles.md").read_text(encoding="utf-8")


def test_a_role_of_a_users_folder(tmp_path: Path) -> None:
    (tmp_path / "roles").mkdir()
    (example,) = re.findall(r"```yaml\n(# @package roles.critic\n.*?)```", PAGE, re.DOTALL)
    (tmp_path / "roles" / "critic.yaml").write_text(example, encoding="utf-8")
    config = compose(["algo=dr_mas", "roles=[critic,planner,actor]"], str(tmp_path))
    assert [problem for rule in CHECKS for problem in rule(Run(config))] == []
    run = Run(config, tmp_path)
    roles, turns = run.roles, [Turn("A room.", "look", role="actor"), Turn("A door.", "no", role="critic", aside=True)]
    assert roles and roles.names == ["critic", "planner", "actor"] and run.several_rows
    assert roles.opening(turns) == "critic" and roles.following(turns) == "planner"
    shown = roles.prompt("critic", run.prompt, run.environment.prompt, "Win.", turns[:1], Observation("A hall."), 4)
    assert shown.endswith("Goal: Win.\nSo far:\nA room.\nactor: look\nNow:\nYour answer:")
