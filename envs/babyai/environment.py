"""BabyAI's levels in words: ``env=babyai env.task=GoToLocal``.

minigrid loads pygame, so only processes that make or run games import it.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from turngrid.envs.environment import Environment, GameRecord, Params, PromptStyle
from turngrid.envs.functions import CommandFunction

# Turns of an episode, at least 1.3 times the longest of 12 plans of the bot. Levels that the bot
# does not win are missing: KeyInBox, PutNext*Carrying, OpenDoorsOrder*Debug.
_BY_TURNS = {
    10: """GoToLocalS5N2 GoToLocalS6N2 GoToLocalS6N3 GoToLocalS6N4 GoToLocalS7N5 GoToObjS4 GoToObjS6 PickupDist
        PickupDistDebug""",
    20: """GoToDoor GoToLocal GoToLocalS7N4 GoToLocalS8N2 GoToLocalS8N3 GoToLocalS8N4 GoToLocalS8N5 GoToLocalS8N7
        GoToObj GoToObjDoor GoToRedBall GoToRedBallGrey GoToRedBallNoDists GoToRedBlueBall OneRoomS8 OpenDoor
        OpenDoorColor OpenDoorDebug OpenDoorLoc OpenDoorsOrderN4 OpenRedDoor PickupLoc PutNextLocalS5N3 PutNextLocalS6N4
        PutNextS4N1 PutNextS5N2""",
    40: """ActionObjDoor GoToLocalS8N6 GoToObjMazeS4R2 GoToSeqS5R2 KeyCorridorS3R1 MoveTwoAcrossS5N2 OneRoomS12
        OneRoomS16 OpenDoorsOrderN2 OpenRedBlueDoors OpenRedBlueDoorsDebug OpenTwoDoors PutNextLocal PutNextS5N1
        PutNextS6N3 UnlockLocal UnlockLocalDist UnlockPickup""",
    80: """BlockedUnlockPickup GoToObjMazeS4 GoToObjMazeS5 KeyCorridorS3R2 MoveTwoAcrossS8N9 PutNextS7N4
        UnlockPickupDist UnlockToUnlock""",
    160: """FindObjS5 FindObjS6 GoToObjMazeS6 KeyCorridorS3R3 KeyCorridorS4R3 KeyCorridorS5R3 MiniBossLevel OneRoomS20
        Open PickupAbove SynthLoc SynthS5R2""",
    320: """BossLevel BossLevelNoUnlock FindObjS7 GoTo GoToImpUnlock GoToObjMaze GoToObjMazeOpen GoToObjMazeS7 GoToOpen
        GoToSeq KeyCorridor KeyCorridorS6R3 Pickup Synth SynthSeq UnblockPickup Unlock""",
}
LEVELS = {level: turns for turns, levels in _BY_TURNS.items() for level in levels.split()}
_PRIMITIVE = (
    CommandFunction("turn_left", "by 90 degrees", pattern="turn left"),
    CommandFunction("turn_right", "by 90 degrees", pattern="turn right"),
    CommandFunction("go_forward", "by one cell", pattern="go forward"),
    CommandFunction("pick_up", "what is right in front of you", pattern="pick up"),
    CommandFunction("drop", "what you carry, into the free cell in front of you", pattern="drop"),
    CommandFunction("toggle", "open or close the door in front of you; a key opens a locked one", pattern="toggle"),
)
_MACRO = (
    CommandFunction("go_to", "something that you see, and face it", pattern="go to {thing}"),
    CommandFunction(
        "pick_up",
        "something that you see; without a thing, what is right in front of you",
        pattern="pick up {thing}",
        optional=("thing",),
    ),
    CommandFunction("open", "go to a door that you see and open it", pattern="open {door}"),
    CommandFunction("go_through", "an open door that you see", pattern="go through {door}"),
)
_ROLE = "You are in a world of rooms and see up to six cells ahead and three to each side, but not through walls."


@dataclass(frozen=True)
class BabyAISettings:
    actions: str = field(metadata={"choices": ("primitive", "macro")})


class BabyAI(Environment):
    """The task is the level's name, without ``BabyAI-`` and its version."""

    name = "babyai"
    package = "minigrid"
    modules = ("minigrid",)
    rewards = ("sparse", "dense")
    Settings = BabyAISettings
    Env = "turngrid.envs.babyai.env:BabyAIEnv"
    examples = tuple(LEVELS)
    lists_actions = True
    settings: BabyAISettings

    @property
    def prompt(self) -> PromptStyle:  # type: ignore[override]
        words = "turn left, turn right, go forward, pick up, drop or toggle"
        if self.settings.actions == "primitive":
            return PromptStyle(_ROLE, f"Answer with one action: {words}.", _PRIMITIVE)
        more = 'With something that you see: go to, pick up, open or go through, such as "go to red ball 1"'
        functions = tuple(function for function in _PRIMITIVE if function.name != "pick_up")
        return PromptStyle(_ROLE, f"Answer with one action. {more}. Without: {words}.", _MACRO + functions)

    def parse_task(self, task: str) -> dict[str, Any]:
        self.check_task(task)
        return {"level": task, "actions": self.settings.actions, "turns": LEVELS[task], "dense": False}

    def max_turns(self, task: str) -> int:
        return self.parse_task(task)["turns"]

    def with_reward(self, params: Params, reward: str) -> dict[str, Any]:
        """Compute the bot's plan after each action only for a reward that may read scores."""
        return {**params, "dense": reward != "sparse"}

    def make_game(self, params: Params, seed: int, folder: Path) -> GameRecord:
        from turngrid.envs.babyai.env import write_game

        return write_game(params, seed, folder)
