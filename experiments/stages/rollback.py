"""health=rollback: after an alarm, RL goes back to the checkpoint before it, with half the rate.

The trainer ends with an alarm whose action is ``rollback N``. What follows can be repeated after a
kill: the alarm is dropped last.
"""

import json
from dataclasses import asdict, dataclass

from turngrid.envs.utils.files import remove_folder
from turngrid.records.files import checkpoints
from turngrid.records.files.json_lines import append_line, read_lines, write_lines
from turngrid.records.health.alarms import Alarm
from turngrid.records.health.raising import ROLLBACK, read_alarms
from turngrid.records.resume import RlFolder, discard_beyond_checkpoint

FACTOR = 0.5  # of the learning rate, each time


@dataclass(frozen=True)
class Rollback:
    """One line of ``rl/rollbacks.jsonl``.

    Attributes:
        alarm: the step and name of the alarm.
        to: step of the checkpoint from which RL goes on; 0: the start of RL.
        rate: learning rate of the policy from then on.
        alarms: those of the steps that were dropped.
    """

    number: int
    step: int
    name: str
    to: int
    rate: float
    alarms: list[dict[str, object]]

    def __str__(self) -> str:
        back = f"the checkpoint of step {self.to}" if self.to else "the start of RL"
        return (
            f"health=rollback: {self.name} in step {self.step}: back to {back} with "
            f"actor_rollout_ref.actor.optim.lr={self.rate:g} (rl/rollbacks.jsonl)"
        )


def read_rollbacks(rl: RlFolder) -> list[Rollback]:
    return [Rollback(**json.loads(line)) for line in read_lines(rl.rollbacks)]


def rate_after(rl: RlFolder, rate: float) -> float:
    """Return the learning rate after the rollbacks so far."""
    return rate * FACTOR ** len(read_rollbacks(rl))


def is_asked(rl: RlFolder) -> bool:
    """Return whether an alarm asked for a rollback that was not made yet."""
    return any(alarm.action.startswith(ROLLBACK) for alarm in read_alarms(rl))


def go_back(rl: RlFolder, rate: float) -> str:
    """Roll back if an alarm asked for it; return a line for the user, or "".

    Args:
        rate: the config's learning rate.
    """
    raised = read_alarms(rl)
    asked = next((alarm for alarm in raised if alarm.action.startswith(ROLLBACK)), None)
    if asked is None:
        return ""
    number = int(asked.action.split()[1])
    if len(read_rollbacks(rl)) < number:
        append_line(rl.rollbacks, asdict(_planned(rl, asked, number, raised, rate)))
    last = read_rollbacks(rl)[-1]
    for step in (step for step in checkpoints.steps(rl.checkpoints) if step > last.to):
        remove_folder(checkpoints.folder_of(rl.checkpoints, step))
    discard_beyond_checkpoint(rl)
    write_lines(rl.alarms, [asdict(alarm) for alarm in raised if alarm.step <= last.to])
    return str(last)


def _planned(rl: RlFolder, asked: Alarm, number: int, raised: list[Alarm], rate: float) -> Rollback:
    to = checkpoints.newest(rl.checkpoints, before=asked.since).step
    dropped = [asdict(alarm) for alarm in raised if alarm.step > to]
    return Rollback(number, asked.step, asked.name, to, rate * FACTOR**number, dropped)
