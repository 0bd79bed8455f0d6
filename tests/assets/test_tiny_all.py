"""The tiny model for all environments: its tokenizer loses nothing of what they say, and its games
are no run's test games."""

import json
import random
import shutil
from importlib.resources import files
from pathlib import Path

import pytest
from tokenizers import Tokenizer
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from turngrid.assets.make.all_recipe import SOURCES, STAGE
from turngrid.assets.make.copying import common_tokens, copied, renamed
from turngrid.assets.make.noisy_transcripts import noisy_episode
from turngrid.assets.make.searcher_transcripts import transcript
from turngrid.assets.make.tiny_all import environment_of, shown
from turngrid.assets.make.train import CHOSEN, SEEN, Row
from turngrid.envs.games.catalogue import Catalogue
from turngrid.envs.registry import make_environment
from turngrid.records.models.locate import environments_of

ASSET = Path(str(files("turngrid.assets").joinpath("tiny_all")))
SLOW = ("tw_simple",)  # seconds a game, and TextWorld's texts again


@pytest.fixture(scope="module")
def tokenizer():
    return AutoTokenizer.from_pretrained(ASSET)


def test_the_weights_are_small_and_of_the_qwen3_type(tokenizer):
    config = AutoConfig.from_pretrained(ASSET)
    assert config.model_type == "qwen3"  # with qwen2, AutoTokenizer drops a custom pre-tokenizer
    assert config.vocab_size == len(tokenizer) and config.eos_token_id == tokenizer.eos_token_id
    assert AutoModelForCausalLM.from_pretrained(ASSET).num_parameters() < 1_000_000
    assert sum(path.stat().st_size for path in ASSET.iterdir()) < 4_000_000
    assert set(environments_of("asset://tiny_all")) == {source.env for source in SOURCES} | {"alfworld"}


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


def test_what_verl_joins_turns_with_and_common_words_are_one_token_each(tokenizer):
    for text in ("\n", "<|im_start|>", "<|im_end|>", *(f" {word}" for word in ("take", "forward", "countertop"))):
        assert len(tokenizer.encode(text, add_special_tokens=False)) == 1, text


def test_what_is_learned_of_copying_stood_in_the_row_before():
    row = copied(300, random.Random(0))
    length = len(row.ids) // 3
    assert row.ids == row.ids[:length] * 3 and min(row.ids) > 2  # no special token
    assert row.kinds == [SEEN] * length + [CHOSEN] * length * 2


def test_only_names_that_an_action_copies_change_and_everywhere():
    row = Row([9, 5, 6, 9, 5, 7], [SEEN, SEEN, SEEN, CHOSEN, CHOSEN, CHOSEN])  # 9 is common, 6 is not said, 7 is new
    changed = renamed(row, common_tokens([row, Row([9], [SEEN])], 1), 300, 1.0, random.Random(0))
    name = changed.ids[1]
    assert (changed.ids, changed.kinds) == ([9, name, 6, 9, name, 7], row.kinds) and name != 5


def test_a_game_without_experts_for_its_states_is_played_along_its_plan(game_cache: Path):
    """Textarena's games have a plan and nothing more, so noise would leave it for good."""
    environment = environment_of(next(source for source in SOURCES if source.env == "textarena"))
    name = next(source.task for source in SOURCES if source.env == "textarena")
    [task] = Catalogue(environment, game_cache).tasks(name, "test", 1, workers=1, progress=False)
    env = environment.new_env(legal=True, expert=True)
    played = noisy_episode(environment, env, task, 3, 0.0, random.Random(0))
    env.close()
    assert [message["content"] for message in played.messages[1::2]] == list(task.expert_plan)
    assert all(played.searched)
