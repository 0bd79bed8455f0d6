"""Fills in missing token ids of demonstrations, if they are sampled again for an existing SFT
model.

    python -P -m verl_plugin.demonstration_ids CONFIG.yaml

``CONFIG.yaml`` is the SFT stage's.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from transformers import AutoConfig, AutoTokenizer

from turngrid.rollouts.chat_settings import ChatSettings
from turngrid.rollouts.prompt_forms.registry import prompt_form
from turngrid.verl_plugin.rollout.token_stream import TokenCodec
from turngrid.verl_plugin.sft_rows import record_ids


def main(config_file: Path) -> None:
    """Fill in the ids of the episodes that a config file names."""
    config = OmegaConf.load(config_file)
    path, trusted = config.verl.model.path, bool(config.verl.model.get("trust_remote_code", False))
    tokenizer = AutoTokenizer.from_pretrained(path, trust_remote_code=trusted)
    kwargs: Any = OmegaConf.to_container(config.run.template_kwargs)
    ChatSettings(kwargs, config.verl.model.get("custom_chat_template")).apply(tokenizer)
    model_type = AutoConfig.from_pretrained(path, trust_remote_code=trusted).model_type
    marks = prompt_form(config.run.get("prompt")).marks
    record_ids(config.run, TokenCodec(tokenizer, model_type, kwargs, marks))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
