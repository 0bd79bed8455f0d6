"""A policy whose answers a test chooses."""

from typing import Any

from turngrid.rollouts.policy import Reply, TurnContext


class Says:
    """One text whenever it is asked (None: no room), then nothing; keeps what it was shown."""

    name = "says"

    def __init__(self, *texts: str | None) -> None:
        self.left = iter(texts)
        self.seen: list[list[dict[str, Any]]] = []

    async def act(self, context: TurnContext) -> Reply:
        self.seen.append([*context.messages])
        text = next(self.left, "")
        return Reply(text or "", out_of_context=text is None)
