"""The tiny model for all environments: its tokenizer loses nothing of what they say, and its games
are no run's test games."""

import json
import random
import shutil
from importlib.resources import files
from pathlib import Path

import pytest
from tokenizers import Tokenizer
from transformers import AutoTokenizer

from turngrid.assets.make.all_recipe import SOURCES, STAGE
from turngrid.assets.make.noisy_transcripts import noisy_episode
from turngrid.assets.make.searcher_transcripts import transcript
from turngrid.assets.make.tiny_all import environment_of, shown
from turngrid.envs.games.catalogue import Catalogue
from turngrid.envs.registry import make_environment
from turngrid.records.models.locate import environments_of

ASSET = Path(str(files("turngrid.assets").joinpath("tiny_all")))
SLOW = ("tw_simple",)  # seconds a game, and TextWorld's texts again


@pytest.fixture(scope="module")
def tokenizer():
    return AutoTokenizer.from_pretrained(ASSET)


def test_it_is_at_home_in_what_it_was_trained_on(tokenizer):
    assert set(environments_of("asset://tiny_all")) == {source.env for source in SOURCES} | {"alfworld"}
    for word in ("take", "forward", "countertop"):
        assert len(tokenizer.encode(f" {word}", add_special_tokens=False)) == 1, word


def lossless(tokenizer, texts: list[str]) -> None:
    core = Tokenizer.from_file(str(ASSET / "tokenizer.json"))
    for text in texts:
        ids = tokenizer.encode(text, add_special_tokens=False)
        assert tokenizer.decode(ids) == text
        assert ids == core.encode(text, add_special_tokens=False).ids  # AutoTokenizer splits as it was trained


@pytest.mark.parametrize("source", [source for source in SOURCES if source.env not in SLOW], ids=lambda one: one.env)
def test_no_word_of_an_environment_is_lost(source, tokenizer, game_cache: Path):
    if source.env == "textworldexpress" and shutil.which("java") is None:
        pytest.skip("there is no java on the PATH")
    environment = environment_of(source)
    [task] = Catalogue(environment, game_cache).tasks(source.task, "test", 1, workers=1, progress=False)
    env = environment.new_env(legal=True, expert=True)
    played = noisy_episode(environment, env, task, 8, 0.7, random.Random(0))
    env.close()
    assert len(played.searched) == sum(message["role"] == "assistant" for message in played.messages)
    lossless(tokenizer, [message["content"] for message in played.messages])
    known = set(json.loads((ASSET / "pretraining_games.json").read_text())["fingerprints"][source.env])
    assert known and shown(task) not in known


def test_no_word_of_alfworld_or_of_source_code_is_lost(tokenizer):
    messages = transcript(make_environment("alfworld").prompt, STAGE, 1).messages
    code = [path.read_text() for path in sorted(Path("assets/repair").glob("*/*.py"))[:3]]
    strange = " Two  spaces, a\ttab\r\n\nand Ünïcödé ☃ 漢字 \x00 "
    lossless(tokenizer, [*(message["content"] for message in messages), *code, strange])
