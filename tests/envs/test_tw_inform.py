"""The quick way to compile a TextWorld game gives TextWorld's own story file."""

from pathlib import Path

import pytest
from textworld.generator import compile_game, make_game
from textworld.generator.inform7 import CouldNotCompileGameError, generate_inform7_source
from textworld.generator.inform7.world2inform7 import I7_DEFAULT_PATH

from envs import tw_making
from envs.tw_inform import compile_story, quick_compiler

SERIAL = slice(0x12, 0x18)  # the date


def undated(story: Path) -> bytes:
    data = bytearray(story.read_bytes())
    data[SERIAL] = b"000000"
    return bytes(data)


def test_the_story_is_the_one_that_textworld_compiles(tmp_path: Path) -> None:
    opts = tw_making.options(30_001)
    opts.kb = tw_making.knowledge_base()
    opts.nb_rooms, opts.nb_objects, opts.quest_length = 2, 3, 4
    opts.path = str(tmp_path / "theirs.z8")
    game = make_game(opts)
    compile_story(generate_inform7_source(game), tmp_path / "ours.z8")
    compile_game(game, opts)
    assert undated(tmp_path / "ours.z8") == undated(tmp_path / "theirs.z8")
    assert not (tmp_path / "inform").exists()


def test_the_compiler_of_the_wheel_is_known_and_another_one_is_left_as_it_is(tmp_path: Path) -> None:
    command, handed_over = quick_compiler(Path(I7_DEFAULT_PATH, "share", "inform7", "Compilers", "ni"))
    assert handed_over and command == f"/proc/self/fd/{handed_over[0]}"
    other = tmp_path / "ni"
    other.write_bytes(b"another compiler")
    assert quick_compiler(other) == (str(other), ())


def test_a_source_that_is_no_story_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CouldNotCompileGameError, match="find a verb"):
        compile_story("The lamp glorbs the wug.", tmp_path / "game.z8")
