"""Tokenizers as the families of models have them, made here: small vocabularies, real control
tokens, real templates."""

from collections.abc import Callable
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from turngrid.config.base import ROOT

CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
QWEN3 = (
    "{% for m in messages %}{% if m['role'] == 'tool' %}"
    "{% if loop.first or messages[loop.index0 - 1]['role'] != 'tool' %}{{ '<|im_start|>user' }}{% endif %}"
    "{{ '\n<tool_response>\n' + m['content'] + '\n</tool_response>' }}"
    "{% if loop.last or messages[loop.index0 + 1]['role'] != 'tool' %}{{ '<|im_end|>\n' }}{% endif %}"
    "{% else %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}"
    "{% if enable_thinking is defined and enable_thinking is false %}{{ '<think>\n\n</think>\n\n' }}{% endif %}"
    "{% endif %}"
)
LLAMA3 = (
    "{{ bos_token }}{% for m in messages %}"
    "{{ '<|start_header_id|>' + m['role'] + '<|end_header_id|>\n\n' + m['content'] | trim + '<|eot_id|>' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"
)
LLAMA2 = (
    "{{ bos_token }}{% for m in messages %}{% if m['role'] == 'assistant' %}{{ m['content'] + eos_token }}"
    "{% else %}{{ '[INST] ' + m['content'] + ' [/INST]' }}{% endif %}{% endfor %}"
)
GEMMA = (
    "{{ '<bos>' }}{% for m in messages %}"
    "{{ '<start_of_turn>' + m['role'] + '\n' + m['content'] | trim + '<end_of_turn>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}"
)
SPACED = (
    "{% for m in messages %}{{ '<turn of ' + m['role'] + '>' + m['content'] + '<end of turn>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<turn of assistant>' }}{% endif %}"
)
SMOLLM2 = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<repo_name>", "<reponame>", "<file_sep>", "<filename>")


def byte_level(*added: AddedToken, normalizer: normalizers.Normalizer | None = None) -> Tokenizer:
    core = Tokenizer(models.BPE({c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}, []))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    core.decoder = decoders.ByteLevel()
    if normalizer:
        core.normalizer = normalizer
    core.add_tokens(list(added))
    return core


def special(*names: str) -> list[AddedToken]:
    return [AddedToken(name, special=True, normalized=False) for name in names]


def ready(core: Tokenizer, template: str, **ends: str) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(tokenizer_object=core, chat_template=template, **ends)


def qwen3() -> PreTrainedTokenizerBase:
    """``<think>`` and the tools' marks are no special tokens there; nor are runs of spaces, which
    are text."""
    tags = [f"<{end}{name}>" for name in ("think", "tool_call", "tool_response") for end in ("", "/")]
    text = [AddedToken(name, special=False, normalized=False) for name in (*tags, "<|fim_prefix|>", "    ", "lantern")]
    core = byte_level(*special("<|endoftext|>", "<|im_start|>", "<|im_end|>"), *text)
    return ready(core, QWEN3, eos_token="<|im_end|>", pad_token="<|endoftext|>")


def llama3() -> PreTrainedTokenizerBase:
    names = ("<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|python_tag|>")
    return ready(byte_level(*special(*names)), LLAMA3, bos_token=names[0], eos_token=names[3])


def llama2() -> PreTrainedTokenizerBase:
    """Words are pieces of a table, with their spaces; what is not in it is ``<unk>``."""
    letters = [(chr(code), -3.0) for code in (10, *range(33, 127))]
    table = [("<unk>", 0.0), ("<s>", 0.0), ("</s>", 0.0), ("▁", -2.0), *letters]
    core = Tokenizer(models.Unigram(table, unk_id=0, byte_fallback=False))
    core.pre_tokenizer, core.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    core.add_tokens(special("<unk>", "<s>", "</s>", "[INST]", "[/INST]"))
    return ready(core, LLAMA2, bos_token="<s>", eos_token="</s>", unk_token="<unk>")


def gemma() -> PreTrainedTokenizerBase:
    names = ("<pad>", "<eos>", "<bos>", "<start_of_turn>", "<end_of_turn>", "<mask>", "[multimodal]", "<unused0>")
    return ready(byte_level(*special(*names)), GEMMA, bos_token="<bos>", eos_token="<end_of_turn>", pad_token="<pad>")


def normalising() -> PreTrainedTokenizerBase:
    """Looks for its tokens, which have spaces in them, after small letters and NFKC; and swallows
    the spaces around one."""
    form = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    names = ("<turn of user>", "<turn of assistant>", "<turn of system>", "<end of turn>")
    tokens = [AddedToken(name, special=True, normalized=True) for name in names]
    wide = AddedToken("<pad here>", special=True, normalized=True, lstrip=True, rstrip=True)
    core = byte_level(*tokens, wide, normalizer=form)
    return ready(core, SPACED, eos_token="<end of turn>", pad_token="<pad here>")


def chatml() -> PreTrainedTokenizerBase:
    return ready(byte_level(*special(*SMOLLM2)), CHATML, eos_token="<|im_end|>", pad_token="<|endoftext|>")


def tiny(folder: Path = ROOT / "assets" / "tiny") -> PreTrainedTokenizerBase:
    return AutoTokenizer.from_pretrained(folder)


# By name: how it is made, and the model type from which verl chooses how turns are joined.
FAMILIES: dict[str, tuple[Callable[[], PreTrainedTokenizerBase], str]] = {
    "tiny": (tiny, "qwen3"),
    "smollm2": (chatml, "llama"),
    "qwen3": (qwen3, "qwen3"),
    "llama3": (llama3, "llama"),
    "llama2": (llama2, "llama"),
    "gemma": (gemma, "gemma3_text"),
    "normalising": (normalising, "llama"),
}
