"""The tiny model: its tokenizer loses nothing, its transcripts are what an agent sees, its games
are nobody else's."""

import json
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from turngrid.assets.make.card import measure
from turngrid.assets.make.noisy_transcripts import (
    Transcript,
    phase_transcripts,
)
from turngrid.assets.make.tiny import build
from turngrid.assets.make.tiny_recipe import NoisyExpert, Phase, Recipe, TrainSettings
from turngrid.assets.make.train import CHOSEN, Encoder
from turngrid.envs.games.catalogue import Catalogue
from turngrid.envs.registry import make_environment
from turngrid.envs.types import TaskRef
from turngrid.verl_plugin.rollout.token_stream import TokenCodec

ASSET = Path(str(files("turngrid.assets").joinpath("tiny")))
TASK = "w2-o3-q4"
GAMES = 4
SETTINGS = TrainSettings(epochs=1, warmup_steps=2)


def phase(*experts: tuple[float, float], name: str = "any", games: int = GAMES, samples_per_game: int = 1) -> Phase:
    return Phase(name, games, samples_per_game, tuple(NoisyExpert(*expert) for expert in experts), SETTINGS)


@pytest.fixture(scope="module")
def tokenizer():
    return AutoTokenizer.from_pretrained(ASSET)


@pytest.fixture(scope="module")
def games(game_cache: Path) -> dict[str, list[TaskRef]]:
    catalogue = Catalogue(make_environment("textworld"), game_cache)
    splits = ("test", "train", "demonstrations", "validation", "pretraining")
    return {split: catalogue.tasks(TASK, split, GAMES, progress=False) for split in splits}


@pytest.fixture(scope="module")
def transcripts(games: dict[str, list[TaskRef]]) -> list[Transcript]:
    return phase_transcripts(games["test"] + games["train"], phase((0.35, 1.0), games=2 * GAMES), 12, 0, workers=1)


@pytest.mark.parametrize(("name", "most"), [("tiny", 500_000), ("tiny_alfworld", 400_000), ("tiny_all", 1_000_000)])
def test_a_shipped_model_is_small_and_joins_turns_as_verl_does(name: str, most: int):
    folder = ASSET.with_name(name)
    config, tokenizer = AutoConfig.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    assert config.model_type == "qwen3"  # with qwen2, AutoTokenizer drops a custom pre-tokenizer
    assert AutoModelForCausalLM.from_pretrained(folder).num_parameters() < most
    assert sum(path.stat().st_size for path in folder.iterdir()) < 2_000_000
    assert (tokenizer.eos_token, tokenizer.pad_token) == ("<|im_end|>", "<|endoftext|>")
    assert (config.eos_token_id, config.vocab_size) == (tokenizer.eos_token_id, len(tokenizer))
    for text in ("\n", "<|im_start|>", "<|im_end|>", "<|endoftext|>"):
        assert len(tokenizer.encode(text, add_special_tokens=False)) == 1, text


def test_game_text_survives_a_round_trip(tokenizer, transcripts: list[Transcript]):
    """The loaded tokenizer splits as the saved one."""
    core = Tokenizer.from_file(str(ASSET / "tokenizer.json"))
    texts = [message["content"] for messages in transcripts for message in messages]
    for text in [*texts, " two  spaces, a\ttab\n\nand Ünïcödé ☃ "]:
        ids = tokenizer.encode(text, add_special_tokens=False)
        assert tokenizer.decode(ids) == text.lower() and ids == core.encode(text, add_special_tokens=False).ids


def test_a_transcript_has_the_ids_of_an_episode(tokenizer, transcripts: list[Transcript]):
    """Turn by turn through verl's builder, as in RL, and all at once, as in pre-training."""
    messages = transcripts[0]
    stream = TokenCodec(tokenizer, "qwen3").stream()
    stream.start(messages[:1])
    for place in range(1, len(messages), 2):
        stream.add_sampled(stream.encode_action(messages[place]["content"]))
        if place + 1 < len(messages):
            stream.add_context(messages[place + 1 : place + 2])
    ids = Encoder(tokenizer).row(messages).ids
    assert list(stream.ids) == ids[: len(stream.ids)]
    assert tokenizer.decode(ids[len(stream.ids) :]) == "\n"


def test_only_actions_and_their_end_are_marked_as_acted(tokenizer, transcripts: list[Transcript]):
    for messages in transcripts:
        row = Encoder(tokenizer).row(messages)
        acted = [token for token, kind in zip(row.ids, row.kinds, strict=True) if kind == CHOSEN]
        actions = [message["content"] for message in messages if message["role"] == "assistant"]
        assert tokenizer.decode(acted) == "".join(f"{action.lower()}<|im_end|>" for action in actions)


def test_no_other_split_holds_a_game_of_pretraining(games: dict[str, list[TaskRef]]):
    listed = json.loads((ASSET / "pretraining_games.json").read_text())
    known = set(listed["fingerprints"])
    assert all(task.fingerprint[:16] in known for task in games["pretraining"])
    for split in ("test", "train", "demonstrations", "validation"):
        assert all(task.fingerprint[:16] not in known for task in games[split]), split
        assert all(not listed["seeds"][0] <= task.seed <= listed["seeds"][1] for task in games[split]), split


def test_the_same_transcripts_give_the_same_bytes(transcripts: list[Transcript], tmp_path: Path):
    phases = (phase((1.0, 1.0), name="first"), phase((0.35, 1.0), name="second"))
    recipe = replace(Recipe(), vocabulary=400, phases=phases)
    for name in ("first", "second"):
        build(recipe, [transcripts[:4], transcripts[4:]], tmp_path / name)
    first, second = (load_file(tmp_path / name / "model.safetensors") for name in ("first", "second"))
    assert all(torch.equal(first[key], second[key]) for key in first)
    assert (tmp_path / "first/tokenizer.json").read_bytes() == (tmp_path / "second/tokenizer.json").read_bytes()


@pytest.mark.slow
def test_the_base_leaves_room():
    success = measure(ASSET, TASK, 100)
    assert 0.03 <= success[0.4].mean <= 0.30
