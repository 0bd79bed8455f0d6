"""SFT rows: the ids of the episode, and loss on the actions alone."""

from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf
from tokenizers_of_families import chatml
from transformers import Qwen3Config

from turngrid.rollouts.episode import Episode, Outcome, Turn
from turngrid.rollouts.prompt_forms.registry import PLAIN_FORM
from turngrid.rollouts.row import to_rows
from turngrid.rollouts.store import write_episodes
from turngrid.rollouts.stream import assistant, user
from turngrid.rollouts.tokenise import fill_ids
from turngrid.tasks.early_experience import ASK, world_model_row
from turngrid.verl_plugin.rollout.token_stream import TokenCodec
from turngrid.verl_plugin.sft import keep_precision
from turngrid.verl_plugin.sft_rows import EpisodeRows, SftBatches, record_experience


@pytest.fixture(scope="module")
def codec() -> TokenCodec:
    return TokenCodec(chatml(), "qwen3")


def demonstration() -> Episode:
    turns = [Turn(*texts, sampled=False) for texts in (("a door.", "open door"), ("it is open.", "go north"))]
    messages = [one for t in turns for one in (user(f"{t.observation}\nYour action:"), assistant(t.action))]
    return Episode("doors/1", 1, "demonstrations", "leave", messages, [], turns, Outcome.WON)


def as_text(codec: TokenCodec, ids: torch.Tensor) -> str:
    tokens = codec.tokenizer.convert_ids_to_tokens(ids.tolist())
    return "".join(tokens).replace("Ġ", " ").replace("Ċ", "\n")


def test_a_row_is_the_chat_with_loss_on_the_actions(codec: TokenCodec) -> None:
    row = EpisodeRows([demonstration()], codec, max_tokens=200)[0]
    assert as_text(codec, row["input_ids"]) == (
        "<|im_start|>user\na door.\nYour action:<|im_end|>\n<|im_start|>assistant\nopen door<|im_end|>\n"
        "<|im_start|>user\nit is open.\nYour action:<|im_end|>\n<|im_start|>assistant\ngo north<|im_end|>"
    )
    assert as_text(codec, row["input_ids"][row["loss_mask"] == 1]) == "open door<|im_end|>go north<|im_end|>"
    assert row["position_ids"].tolist() == list(range(len(row["input_ids"])))


def test_sft_and_rl_rows_are_one_tokenisation(codec: TokenCodec) -> None:
    """Ids that an episode carries are taken as they are: here a token that no text gives."""
    episode = fill_ids(demonstration(), codec.stream())
    episode.turns[0].action_ids[0] = codec.tokenizer.convert_tokens_to_ids("<|endoftext|>")
    rl, row = to_rows(episode, reward="")[0], EpisodeRows([episode], codec, max_tokens=200)[0]
    whole = rl.prompt_ids + rl.response_ids
    assert row["input_ids"].tolist() == whole[: len(row["input_ids"])]
    assert row["loss_mask"].tolist()[len(rl.prompt_ids) :] == rl.mask[: len(row["loss_mask"]) - len(rl.prompt_ids)]
    assert sum(rl.mask) == int(row["loss_mask"].sum())


def test_a_prediction_has_its_loss_on_what_was_seen_alone(codec: TokenCodec, tmp_path: Path) -> None:
    """Of a turn after a replayed one; what was seen has 300 bytes, 256 of which are learned. A row
    without room is left out."""
    shown = demonstration()
    drawn = replace(shown, prefix=shown.turns[:1], turns=[replace(shown.turns[1], action="jump")])
    drawn.messages[-1] = assistant("jump")
    rows = [world_model_row(replace(drawn, final_observation=seen)) for seen in ("you fall.", "o" * 300)]
    write_episodes(tmp_path / "rows.jsonl", rows)
    run = OmegaConf.create(
        {"experience": {"kind": "world_model", "rows": str(tmp_path / "rows.jsonl")}, "max_tokens": 600}
    )
    short, long = EpisodeRows(record_experience(run, codec, PLAIN_FORM), codec, 600)
    assert as_text(codec, short["input_ids"]) == (
        "<|im_start|>user\na door.\nYour action:<|im_end|>\n<|im_start|>assistant\nopen door<|im_end|>\n"
        "<|im_start|>user\nit is open.\nYour action:<|im_end|>\n<|im_start|>assistant\njump<|im_end|>\n"
        f"<|im_start|>user\n{ASK}<|im_end|>\n<|im_start|>assistant\nyou fall.<|im_end|>"
    )
    assert as_text(codec, short["input_ids"][short["loss_mask"] == 1]) == "you fall.<|im_end|>"
    assert as_text(codec, long["input_ids"][long["loss_mask"] == 1]) == "o" * 256
    assert len(record_experience(OmegaConf.merge(run, {"max_tokens": 300}), codec, PLAIN_FORM)) == 1


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_the_first_epoch_predicts_in_as_many_updates_as_the_others_imitate(ranks: int) -> None:
    """10 demonstrations in batches of 4 and 23 predictions: 3 updates an epoch with every row, some
    of them twice where they do not divide over the ranks."""
    epochs = []
    for epoch in (0, 1, 2):
        samplers = [SftBatches(10, 23, 4, rank, ranks) for rank in range(ranks)]
        for sampler in samplers:
            sampler.seed = 5
            sampler.set_epoch(epoch)
        assert all(len(sampler) == 3 for sampler in samplers)
        parts = list(zip(*samplers, strict=True))
        assert all(len({len(part) for part in batch}) == 1 for batch in parts)
        epochs.append([list(chain(*batch)) for batch in parts])
    sizes = [[len(batch) for batch in epoch] for epoch in epochs]
    last = 4 if ranks == 4 else 2
    assert sizes == [[8, 8, 7 if ranks == 1 else 8], [4, 4, last], [4, 4, last]]
    assert [{*chain(*epoch)} for epoch in epochs] == [{*range(10, 33)}, {*range(10)}, {*range(10)}]
    assert epochs[1] != epochs[2]
    few = [SftBatches(5, 0, 8, rank, 8) for rank in range(8)]  # without early experience
    assert [len(sampler) for sampler in few] == [1] * 8 and {*chain(*chain(*few))} == {*range(5)}
    with pytest.raises(ValueError, match="2 alternatives are fewer than the 3 updates"):
        SftBatches(10, 2, 4, 0, 1)


def test_too_long_and_missing_demonstrations_are_refused(codec: TokenCodec) -> None:
    with pytest.raises(ValueError, match=r"data.max_prompt_length .*=20: .*raise them"):
        EpisodeRows([demonstration()], codec, max_tokens=20)
    with pytest.raises(ValueError, match="no demonstrations"):
        EpisodeRows([], codec, max_tokens=20)


def test_full_precision_weights_are_said_to_be_so(tmp_path: Path) -> None:
    Qwen3Config(dtype="bfloat16", vocab_size=7).save_pretrained(tmp_path)
    keep_precision(tmp_path)
    config = Qwen3Config.from_pretrained(tmp_path)
    assert (config.dtype, config.vocab_size) == (torch.float32, 7)
