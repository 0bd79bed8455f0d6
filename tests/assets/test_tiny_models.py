"""The tiny models: their tokenizers lose nothing, their transcripts are what an agent sees, their
making makes a model, and their games are nobody else's."""

import functools
import json
import random
import shutil
from collections.abc import Iterable
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from turngrid.assets.make import alfworld_recipe, tiny_alfworld, tiny_recipe
from turngrid.assets.make.all_recipe import SOURCES, STAGE
from turngrid.assets.make.card import measure
from turngrid.assets.make.noisy_transcripts import Transcript, noisy_episode, phase_transcripts
from turngrid.assets.make.searcher_transcripts import transcript
from turngrid.assets.make.tiny import build
from turngrid.assets.make.tiny_all import environment_of, shown
from turngrid.assets.make.tiny_recipe import NoisyExpert, Phase, TrainSettings
from turngrid.assets.make.train import CHOSEN, SEEN, Encoder
from turngrid.envs.games.catalogue import Catalogue
from turngrid.envs.registry import make_environment
from turngrid.envs.types import TaskRef
from turngrid.records.models.locate import environments_of
from turngrid.verl_plugin.rollout.token_stream import TokenCodec

TINY, ALFWORLD, ALL = (
    Path(str(files("turngrid.assets").joinpath(name))) for name in ("tiny", "tiny_alfworld", "tiny_all")
)
STYLE = make_environment("alfworld").prompt
TASK = "w2-o3-q4"
GAMES = 4
SETTINGS = TrainSettings(epochs=1, warmup_steps=2)
SMALL = alfworld_recipe.Stage("test", 2, 12, 8, noises=(alfworld_recipe.Noise(0.5, 1.0),), batches=1)
STRANGE = " Two  spaces, a\ttab\r\n\nand Ünïcödé ☃ 漢字 \x00 "
tokenizer = functools.cache(AutoTokenizer.from_pretrained)


def phase(*experts: tuple[float, float], name: str = "any", games: int = GAMES) -> Phase:
    return Phase(name, games, 1, tuple(NoisyExpert(*expert) for expert in experts), SETTINGS)


@pytest.fixture(scope="module")
def games(game_cache: Path) -> dict[str, list[TaskRef]]:
    catalogue = Catalogue(make_environment("textworld"), game_cache)
    splits = ("test", "train", "demonstrations", "validation", "pretraining")
    return {split: catalogue.tasks(TASK, split, GAMES, progress=False) for split in splits}


@pytest.fixture(scope="module")
def transcripts(games: dict[str, list[TaskRef]]) -> list[Transcript]:
    return phase_transcripts(games["test"] + games["train"], phase((0.35, 1.0), games=2 * GAMES), 12, 0, workers=1)


@pytest.mark.parametrize(
    ("folder", "most", "environments", "words"),
    [
        (TINY, 500_000, {"textworld"}, ()),
        (ALFWORLD, 400_000, {"alfworld"}, ("peppershaker", "countertop", "microwave", "desklamp", "from")),
        (ALL, 1_000_000, {"alfworld", *(source.env for source in SOURCES)}, ("take", "forward", "countertop")),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_a_shipped_model_is_small_and_joins_turns_as_verl_does(
    folder: Path, most: int, environments: set[str], words: tuple[str, ...]
) -> None:
    config = AutoConfig.from_pretrained(folder)
    assert config.model_type == "qwen3"  # with qwen2, AutoTokenizer drops a custom pre-tokenizer
    assert AutoModelForCausalLM.from_pretrained(folder).num_parameters() < most
    assert sum(path.stat().st_size for path in folder.iterdir()) < 2_000_000
    assert (tokenizer(folder).eos_token, tokenizer(folder).pad_token) == ("<|im_end|>", "<|endoftext|>")
    assert (config.eos_token_id, config.vocab_size) == (tokenizer(folder).eos_token_id, len(tokenizer(folder)))
    assert set(environments_of(f"asset://{folder.name}")) == environments
    for text in ("\n", "<|im_start|>", "<|im_end|>", "<|endoftext|>", *(f" {word}" for word in words)):
        assert len(tokenizer(folder).encode(text, add_special_tokens=False)) == 1, text


# ---- tokenizers


def lossless(folder: Path, texts: Iterable[str]) -> None:
    """The loaded tokenizer splits as the saved one; tiny's has small letters only."""
    core = Tokenizer.from_file(str(folder / "tokenizer.json"))
    for text in texts:
        ids = tokenizer(folder).encode(text, add_special_tokens=False)
        assert tokenizer(folder).decode(ids) == (text.lower() if folder == TINY else text)
        assert ids == core.encode(text, add_special_tokens=False).ids


def contents(messages: Iterable[dict[str, str]]) -> list[str]:
    return [message["content"] for message in messages]


def test_game_text_survives_a_round_trip(transcripts: list[Transcript]) -> None:
    lossless(TINY, [text for messages in transcripts for text in contents(messages)])
    code = [path.read_text() for path in sorted(Path("assets/repair").glob("*/*.py"))[:3]]
    lossless(ALL, [*contents(transcript(STYLE, STAGE, 1).messages), *code])
    for folder in (TINY, ALL):
        lossless(folder, [STRANGE])


@pytest.mark.parametrize(
    "source",
    [source for source in SOURCES if source.env != "tw_simple"],  # whose games take seconds, with texts of TextWorld's
    ids=lambda one: one.env,
)
def test_no_word_of_an_environment_is_lost(source: Any, game_cache: Path) -> None:
    """And its test game is not one that the model was trained on."""
    if source.env == "textworldexpress" and shutil.which("java") is None:
        pytest.skip("there is no java on the PATH")
    environment = environment_of(source)
    [task] = Catalogue(environment, game_cache).tasks(source.task, "test", 1, workers=1, progress=False)
    env = environment.new_env(legal=True, expert=True)
    played = noisy_episode(environment, env, task, 8, 0.7, random.Random(0))
    env.close()
    assert len(played.searched) == sum(message["role"] == "assistant" for message in played.messages)
    lossless(ALL, contents(played.messages))
    known = set(json.loads((ALL / "pretraining_games.json").read_text())["fingerprints"][source.env])
    assert known and shown(task) not in known


# ---- rows


def test_a_transcript_has_the_ids_of_an_episode(transcripts: list[Transcript]) -> None:
    """Turn by turn through verl's builder, as in RL, and all at once, as in pre-training."""
    messages = transcripts[0]
    stream = TokenCodec(tokenizer(TINY), "qwen3").stream()
    stream.start(messages[:1])
    for place in range(1, len(messages), 2):
        stream.add_sampled(stream.encode_action(messages[place]["content"]))
        if place + 1 < len(messages):
            stream.add_context(messages[place + 1 : place + 2])
    row = Encoder(tokenizer(TINY)).row(messages)
    assert list(stream.ids) == row.ids[: len(stream.ids)]
    assert tokenizer(TINY).decode(row.ids[len(stream.ids) :]) == "\n"
    assert marked(TINY, row, CHOSEN) == "".join(f"{action.lower()}<|im_end|>" for action in contents(messages[1::2]))


def marked(folder: Path, row: Any, *kinds: Any) -> str:
    """The text of a row's tokens of these kinds."""
    return tokenizer(folder).decode([token for token, kind in zip(row.ids, row.kinds, strict=True) if kind in kinds])


def test_a_row_has_the_tokens_of_play_and_trains_what_the_searcher_chose() -> None:
    others = 0
    for seed in range(8):
        played = transcript(STYLE, SMALL, seed)
        row = Encoder(tokenizer(ALFWORLD)).row(played.messages, played.searched)
        whole = tokenizer(ALFWORLD).apply_chat_template(played.messages, tokenize=False)
        assert row.ids == tokenizer(ALFWORLD).encode(whole, add_special_tokens=False)
        actions = contents(played.messages[1::2])
        chosen = [action for action, searched in zip(actions, played.searched, strict=True) if searched]
        assert marked(ALFWORLD, row, *{*row.kinds} - {SEEN}) == "".join(f"{action}<|im_end|>" for action in actions)
        assert marked(ALFWORLD, row, CHOSEN) == "".join(f"{action}<|im_end|>" for action in chosen)
        others += len(actions) - len(chosen)
    assert others


# ---- pre-training


def test_no_other_split_holds_a_game_of_pretraining(games: dict[str, list[TaskRef]]) -> None:
    listed = json.loads((TINY / "pretraining_games.json").read_text())
    known = set(listed["fingerprints"])
    assert all(task.fingerprint[:16] in known for task in games["pretraining"])
    for split in ("test", "train", "demonstrations", "validation"):
        assert all(task.fingerprint[:16] not in known for task in games[split]), split
        assert all(not listed["seeds"][0] <= task.seed <= listed["seeds"][1] for task in games[split]), split


def test_the_same_transcripts_give_the_same_bytes(transcripts: list[Transcript], tmp_path: Path) -> None:
    phases = (phase((1.0, 1.0), name="first"), phase((0.35, 1.0), name="second"))
    recipe = replace(tiny_recipe.Recipe(), vocabulary=400, phases=phases)
    for name in ("first", "second"):
        build(recipe, [transcripts[:4], transcripts[4:]], tmp_path / name)
    first, second = (load_file(tmp_path / name / "model.safetensors") for name in ("first", "second"))
    assert all(torch.equal(first[key], second[key]) for key in first)
    assert (tmp_path / "first/tokenizer.json").read_bytes() == (tmp_path / "second/tokenizer.json").read_bytes()


def test_the_making_makes_a_model_of_the_shipped_shape(tmp_path: Path) -> None:
    stages = (SMALL, replace(SMALL, max_places=99))
    recipe = replace(alfworld_recipe.Recipe(), stages=stages, tokenizer_transcripts=40)
    assert tiny_alfworld.build(recipe, tmp_path) > 0
    made, shipped = (AutoModelForCausalLM.from_pretrained(folder) for folder in (tmp_path, ALFWORLD))
    for name, weight in shipped.model.layers.named_parameters():
        assert made.model.layers.get_parameter(name).shape == weight.shape
    assert torch.isfinite(made(torch.tensor([[1, 2, 3]])).logits).all()


@pytest.mark.slow
def test_the_base_leaves_room() -> None:
    success = measure(TINY, TASK, 100)
    assert 0.03 <= success[0.4].mean <= 0.30
