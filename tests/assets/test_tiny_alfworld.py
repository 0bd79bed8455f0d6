"""The tiny model for ALFWorld: its words are single tokens, its transcripts are those of play, its
making makes a model."""

from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from turngrid.assets.make.alfworld_recipe import Noise, Recipe, Stage
from turngrid.assets.make.searcher_transcripts import transcript
from turngrid.assets.make.tiny_alfworld import build
from turngrid.assets.make.train import CHOSEN, SEEN, Encoder
from turngrid.envs.registry import make_environment
from turngrid.records.models.locate import environments_of

ASSET = Path(str(files("turngrid.assets").joinpath("tiny_alfworld")))
STYLE = make_environment("alfworld").prompt
SMALL = Stage("test", 2, 12, 8, noises=(Noise(0.5, 1.0),), batches=1)


@pytest.fixture(scope="module")
def tokenizer():
    return AutoTokenizer.from_pretrained(ASSET)


def test_it_is_at_home_in_alfworld(tokenizer):
    assert environments_of("asset://tiny_alfworld") == ("alfworld",)
    for word in ("peppershaker", "countertop", "microwave", "desklamp", "from"):
        assert len(tokenizer.encode(f" {word}", add_special_tokens=False)) == 1, word


def test_a_row_has_the_tokens_of_play_and_trains_what_the_searcher_chose(tokenizer):
    others = 0
    for seed in range(8):
        played = transcript(STYLE, SMALL, seed)
        row = Encoder(tokenizer).row(played.messages, played.searched)
        whole = tokenizer.apply_chat_template(played.messages, tokenize=False)
        assert row.ids == tokenizer.encode(whole, add_special_tokens=False)
        actions = [message["content"] for message in played.messages[1::2]]
        text = tokenizer.decode([token for token, kind in zip(row.ids, row.kinds, strict=True) if kind != SEEN])
        assert text == "".join(f"{action}<|im_end|>" for action in actions)
        chosen = [action for action, searched in zip(actions, played.searched, strict=True) if searched]
        text = tokenizer.decode([token for token, kind in zip(row.ids, row.kinds, strict=True) if kind == CHOSEN])
        assert text == "".join(f"{action}<|im_end|>" for action in chosen)
        others += len(actions) - len(chosen)
    assert others


def test_the_making_makes_a_model_of_the_shipped_shape(tmp_path):
    recipe = replace(Recipe(), stages=(SMALL, replace(SMALL, max_places=99)), tokenizer_transcripts=40)
    assert build(recipe, tmp_path) > 0
    made, shipped = (AutoModelForCausalLM.from_pretrained(folder) for folder in (tmp_path, ASSET))
    for name, weight in shipped.model.layers.named_parameters():
        assert made.model.layers.get_parameter(name).shape == weight.shape
    assert torch.isfinite(made(torch.tensor([[1, 2, 3]])).logits).all()
