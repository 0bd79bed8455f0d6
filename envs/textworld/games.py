"""Make TextWorld games in this process: generate and compile."""

import functools
import hashlib
import json
from pathlib import Path
from typing import Any

import textworld
from textworld.challenges import CHALLENGES
from textworld.generator import QuestGenerationError, make_game
from textworld.generator.data import KnowledgeBase
from textworld.generator.inform7 import CouldNotCompileGameError, compile_inform7_game, generate_inform7_source
from textworld.logic import GameLogic

from turngrid.envs.environment import GameRecord, Rejected

_SERIAL = slice(0x12, 0x18)  # Z-machine header: six characters of the compilation date


@functools.cache
def _in_order(logic_path: str, grammar_path: str) -> KnowledgeBase:
    """Return rules and grammar, the rule files read in sorted order.

    TextWorld reads them in the file system's order, so that games would differ by machine.
    """
    kb = KnowledgeBase(GameLogic.load(sorted(map(str, Path(logic_path).glob("*.twl")))), grammar_path)
    kb.logic_path = logic_path
    return kb


class _Options(textworld.GameOptions):
    """Options of a game whose rules, also those that a challenge loads itself, are in order.

    A challenge has no argument for them, so it parses them for each game (half a second).
    """

    @property
    def kb(self) -> KnowledgeBase:
        return super().kb

    @kb.setter
    def kb(self, loaded: KnowledgeBase) -> None:
        textworld.GameOptions.kb.fset(self, _in_order(loaded.logic_path, loaded.text_grammars_path))


def challenge(name: str, settings: dict[str, Any], seed: int) -> Any:
    """Generate a game of a challenge, whose generator loads the rules itself."""
    options = _Options()
    options.seeds = seed
    return CHALLENGES[name][1](settings=settings, options=options)


def custom(rooms: int, objects: int, quest: int, seed: int) -> Any:
    """Generate a custom game.

    Raises:
        Rejected: the seed gives no quest of the asked length.
    """
    options = _Options()
    options.seeds, options.kb = seed, KnowledgeBase.default()
    options.nb_rooms, options.nb_objects, options.quest_length = rooms, objects, quest
    options.chaining.max_breadth = 1  # one quest: the default breadth gives some games two
    try:
        game = make_game(options)
    except QuestGenerationError as error:
        raise Rejected("no quest of this length") from error
    steps = len(game.metadata.get("walkthrough") or ())
    if steps != quest:
        raise Rejected(f"the expert plan has {steps} steps")
    return game


def finish(game: Any, folder: Path) -> GameRecord:
    """Compile a generated game into ``folder``. Raises: Rejected: it does not compile."""
    file = folder / "game.z8"
    _compile(game, file)
    _write_data(game, file.with_suffix(".json"))
    story = bytearray(file.read_bytes())
    story[_SERIAL] = b"000000"  # the date, which the header's checksum does not cover
    file.write_bytes(story)
    return GameRecord(
        file=file.name,
        goal=" ".join(game.objective.split()),
        expert_plan=tuple(game.metadata["walkthrough"]),
        fingerprint=fingerprint(game),
        max_score=float(game.max_score),
    )


def _compile(game: Any, file: Path) -> None:
    try:
        compile_inform7_game(generate_inform7_source(game), str(file))
    except CouldNotCompileGameError as error:
        raise Rejected("does not compile") from error
    finally:
        file.with_suffix(".ni").unlink(missing_ok=True)  # the source


def _write_data(game: Any, file: Path) -> None:
    """Write the data of TextWorld's ``game.save``, without what differs between two runs.

    That is a list in a set's order, and the path of TextWorld's grammars, which a game does not
    read.
    """
    data = json.loads(json.dumps(game.serialize()))
    data["grammar"]["names_to_exclude"] = sorted(data["grammar"]["names_to_exclude"], key=str)
    data["KB"]["text_grammars_path"] = ""
    file.write_text(json.dumps(data, sort_keys=True))


def fingerprint(game: Any) -> str:
    """Return sha256 over the initial facts, by name, and the plan; two wordings of a game agree."""
    names = {key: info.name or key for key, info in game.infos.items()}
    facts = sorted(
        " ".join([fact.name, *(names.get(arg.name, arg.name) or "" for arg in fact.arguments)])
        for fact in game.world.facts
    )
    return hashlib.sha256("\n".join([*facts, *game.metadata["walkthrough"]]).encode()).hexdigest()
