"""``prompt=``: its options, and what is refused."""

import dataclasses

import pytest
import yaml

from turngrid.config.base import CONF
from turngrid.config.checks.environment import little_room
from turngrid.config.compose import compose
from turngrid.config.errors import ConfigError
from turngrid.config.prompts import form_of
from turngrid.records.run_folder import identity
from turngrid.rollouts.prompt_forms.form import PromptForm
from turngrid.rollouts.prompt_forms.registry import PROMPTS, changed_text, non_default, prompt_class, prompt_form
from turngrid.rollouts.prompt_forms.think_action import ThinkAction
from turngrid.tasks.run import Run


@dataclasses.dataclass(frozen=True)
class Shouted(ThinkAction):
    """Somebody's own form."""

    louder: int = 2


def test_options_are_the_registry_and_have_the_settings_of_the_forms() -> None:
    files = {file.stem: yaml.safe_load(file.read_text()) for file in (CONF / "prompt").glob("*.yaml")}
    assert set(files) == set(PROMPTS)
    common = {field.name for field in dataclasses.fields(PromptForm)}
    for name, content in files.items():
        own = {field.name for field in dataclasses.fields(prompt_class(name))} - common
        assert {"name", *own} <= set(content["prompt"]) <= {"name", *own, "max_actions"}


def test_without_a_form_nothing_changes() -> None:
    config = compose(["prompt=plain"])
    assert non_default(config.prompt) == {} == non_default(None) and prompt_form(None) == form_of(config)
    assert config.env.max_action_tokens == 16 and compose(["env=alfworld"]).env.max_action_tokens == 32
    bare = config.copy()
    del bare.prompt
    assert identity(bare) == identity(config)
    others = ("prompt.history=2", "prompt=react", "prompt=think_action", "prompt=think_action prompt.action_tag=answer")
    assert len({identity(compose(words.split())) for words in others} - {identity(config)}) == len(others)


def test_an_answer_has_room_for_its_thought() -> None:
    assert compose(["prompt=think_action", "env=alfworld"]).env.max_action_tokens == 96
    pretrained = {"": 48, "env=repo_repair": 128, "prompt=react": 96, "env.max_action_tokens=9": 9}
    for words, tokens in pretrained.items():
        assert compose(["model=smollm2_135m", *words.split()]).env.max_action_tokens == tokens
    assert compose(["model=qwen2.5_0.5b"]).env.max_action_tokens == 16, "as in the study"
    rows = {"env=repo_repair prompt=react": 128, "env=bfcl prompt=tool_call": 256, "env=search prompt=react": 0}
    for words, needed in rows.items():
        told = "\n".join(little_room(Run(compose(words.split()))))
        assert ("cut off" in told) == (needed > 0) == (f"use env.max_action_tokens={needed} or more" in told)


@pytest.mark.parametrize(
    ("words", "tokens"), [("", 384), ("prompt=react", 12 * 96), ("prompt=react model=qwen2.5_0.5b", 3072 - 3 * 512)]
)
def test_a_row_that_is_summed_up_has_room_for_answers_and_leaves_some(words: str, tokens: int) -> None:
    """By default: 12 answers, at least 384 tokens, at most what leaves room for three answers."""
    assert compose(["rollout_form=summary", *words.split()]).rollout_form.summary.tokens == tokens


def test_thinking_is_one_setting_under_two_names() -> None:
    typed = ("prompt.thinking=false", "+data.apply_chat_template_kwargs.enable_thinking=false")
    ours, verls = (compose([word]) for word in typed)
    assert Run(ours).chat.kwargs == Run(verls).chat.kwargs == {"enable_thinking": False}
    assert identity(ours) == identity(verls) != identity(compose([]))
    assert Run(compose(["model=qwen3_8b"])).chat.kwargs == {"enable_thinking": False}
    with pytest.raises(ConfigError, match=r"prompt\.thinking=false .*enable_thinking.*set only one"):
        compose(["prompt.thinking=false", "+data.apply_chat_template_kwargs.enable_thinking=true"])


def test_a_form_of_ones_own_has_its_settings_typed() -> None:
    name = f"prompt.name={Shouted.__module__}:Shouted"
    config = compose(["prompt=think_action", name, "+prompt.louder=3", "prompt.think_tag=mull"])
    form = form_of(config)
    assert isinstance(form, Shouted) and (form.louder, form.think_tag) == (3, "mull")
    assert changed_text(config.prompt)["louder"] == 3 and "train_thoughts" not in changed_text(config.prompt)
    with pytest.raises(ConfigError, match="prompt.louder=loud must be"):
        compose(["prompt=think_action", name, "+prompt.louder=loud"])
    with pytest.raises(ConfigError, match="unknown key prompt.softer"):
        compose(["prompt=think_action", name, "+prompt.softer=3"])
