"""Environments of a suite that cannot run here, since an extra is not installed."""

from collections.abc import Sequence

from turngrid.envs.extensions import shipped
from turngrid.envs.registry import make_environment
from turngrid.envs.types import TaskError

INSTALL = "install "  # the messages on missing extras name a command that installs them


def lacking(overrides: Sequence[str]) -> str:
    """Return the message on the extra that the environment of these overrides lacks; "" if none.

    Raises:
        TaskError: there is no such environment or task.
    """
    values = dict(item.split("=", 1) for item in overrides)
    name = values["env"]
    settings = {key.removeprefix("env."): value for key, value in values.items() if key in ("env.task", "env.id")}
    node = {**shipped("env", name), **settings}
    try:
        make_environment(name, settings).parse_task(node.get("task") or node["id"])
    except TaskError as error:
        if INSTALL in str(error):
            return str(error)
        raise
    return ""
