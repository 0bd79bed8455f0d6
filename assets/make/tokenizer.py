"""A small lossless BPE tokenizer of game text, mostly lower-cased, with the ChatML template."""

from __future__ import annotations

from collections.abc import Iterable

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

PAD, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"

# A word or sign with its leading space, or one line break: a line break is always one token (verl
# joins turns with it), and an object has the same tokens wherever it is named.
WORDS = r"\n|'[a-z]+| ?[a-z]+| ?[0-9]| ?[^\sa-z0-9]|\s"

CHATML = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


def train_tokenizer(texts: Iterable[str], size: int, max_length: int, lower: bool = True) -> PreTrainedTokenizerFast:
    """Train a tokenizer of ``size`` entries: 256 bytes, three special tokens, merges.

    Any text survives: decode(encode(x)) == x.lower(), or x without ``lower``.
    """
    core = Tokenizer(models.BPE())
    if lower:
        core.normalizer = normalizers.Lowercase()
    words = WORDS if lower else WORDS.replace("a-z", "a-zA-Z")
    core.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(words), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    core.decoder = decoders.ByteLevel()
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=[PAD, START, END], initial_alphabet=letters, show_progress=False
    )
    core.train_from_iterator(texts, trainer)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core,
        eos_token=END,
        pad_token=PAD,
        additional_special_tokens=[START],
        model_max_length=max_length,
        clean_up_tokenization_spaces=False,
    )
    tokenizer.chat_template = CHATML
    return tokenizer
