"""The expert's plan for a game that was just drawn, and its commands."""

from __future__ import annotations

from envs.alfworld import pddl
from envs.alfworld.generate import Draft, openable
from envs.alfworld.kinds import TOOLS, TWO


def commands(draft: Draft) -> tuple[str, ...]:
    """The plan of one who knows where everything is, as an agent would type it; it should win the game."""
    plan = _Planner(draft)
    for thing in draft.targets[: 2 if draft.task_type == TWO else 1]:
        plan.take(thing)
        if draft.task_type in TOOLS:
            plan.treat(thing, *TOOLS[draft.task_type])
        plan.use(draft.lamp) if draft.lamp else plan.put(thing, draft.destination)
    return tuple(plan.commands)


class _Planner:
    """Where one stands and what is open, while a plan grows."""

    def __init__(self, draft: Draft) -> None:
        self._draft, self._here, self._open = draft, draft.start, set[str]()
        self._shown = pddl.names_in(draft)
        self.commands: list[str] = []

    def take(self, thing: str) -> None:
        receptacle = self._place(thing)
        self._reach(receptacle)
        self._do("take {} from {}", thing, receptacle)

    def treat(self, thing: str, verb: str, tool: str) -> None:
        receptacle = self._draft.layout.of_type(tool)[0]
        self._go(receptacle)
        self._do(verb + " {} with {}", thing, receptacle)

    def put(self, thing: str, receptacle: str) -> None:
        self._reach(receptacle)
        self._do("move {} to {}", thing, receptacle)

    def use(self, lamp: str) -> None:
        self._go(self._place(lamp))
        self._do("use {}", lamp)

    def _place(self, thing: str) -> str:
        receptacle = self._draft.things[thing][1]
        assert receptacle is not None
        return receptacle

    def _reach(self, receptacle: str) -> None:
        self._go(receptacle)
        if openable(receptacle) and receptacle not in self._open:
            self._do("open {}", receptacle)
            self._open.add(receptacle)

    def _go(self, receptacle: str) -> None:
        """Several receptacles may be reached from one spot; going to the spot where one stands is no action."""
        spot = self._draft.layout.receptacles[receptacle]
        if self._here != spot:
            self._do("go to {}", receptacle)
            self._here = spot

    def _do(self, command: str, *arguments: str) -> None:
        self.commands.append(command.format(*(self._shown[name] for name in arguments)))
