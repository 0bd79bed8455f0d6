"""Keys that follow from the choice of a prompt form (docs/prompt.md)."""

from typing import Any

from omegaconf import DictConfig, OmegaConf

from turngrid.algorithms.registry import FORM, ROLES
from turngrid.config.errors import ConfigError
from turngrid.rollouts.prompt_forms.form import PromptForm
from turngrid.rollouts.prompt_forms.registry import PLAIN, prompt_form
from turngrid.rollouts.window import summed_up, window_of
from turngrid.tasks.run import Run

# for policy, teacher and servers (``turngrid.rollouts.chat_settings``)
THINKING = "data.apply_chat_template_kwargs.enable_thinking"
ON_CPUS = ("laptop", "small")  # scales
ANSWERS = 12  # answers of env.max_action_tokens in a row, before it is summed up


def of_scale(laptop: int, paper: int, *, _root_: DictConfig) -> int:
    return laptop if _root_.scale.name in ON_CPUS else paper


def answer_tokens(short: int, long: int, *, _root_: DictConfig) -> int:
    """Return ``long`` for a pretrained model at a scale in ``ON_CPUS``, else ``short``."""
    tiny = str(_root_.model.name).startswith("tiny")
    return long if _root_.scale.name in ON_CPUS and not tiny else short


def of_prompt(plain: Any, other: Any, *, _root_: DictConfig) -> Any:
    return plain if _root_.prompt.name == PLAIN else other


def of_answers(least: int, *, _root_: DictConfig) -> int:
    """Return a row's tokens: ``ANSWERS`` answers, or fewer if that leaves no room for a summary."""
    answer, room = int(_root_.env.max_action_tokens), _root_.data.max_response_length
    most = ANSWERS * answer if room is None else int(room) - 3 * answer
    return max(least, min(ANSWERS * answer, most))


def fill_in(config: DictConfig) -> None:
    """Set verl's key of the chat template.

    Raises:
        ConfigError: that key has another value.
    """
    thinking = config.prompt.thinking
    if thinking is None:
        return
    if OmegaConf.select(config, THINKING) not in (None, thinking):
        key = f"prompt.thinking={str(thinking).lower()}"
        raise ConfigError(f"{key} sets {THINKING}, which has another value; set only one of them")
    OmegaConf.update(config, THINKING, thinking, force_add=True)


def form_of(config: DictConfig) -> PromptForm:
    """Return the prompt form; raise ConfigError if it refuses its settings."""
    try:
        return prompt_form(config.prompt)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"prompt={config.prompt.name}: prompt.{error}") from error


def several_rows(run: Run) -> str:
    """Return the setting that gives an episode several rows; "" if it has one row."""
    forms = (f"{FORM}={name}" for name, form in run.forms.items() if form.several_rows)
    return in_windows(run) or in_asides(run) or next(forms, "")


def in_asides(run: Run) -> str:
    """Return the setting by which answers do not reach the environment; "" if all do."""
    if roles := run.config.get(ROLES):
        return f"{ROLES}=[{','.join(map(str, roles))}]"
    form = summed_up(run.config.get(FORM))
    return f"{FORM}={form}" if form else ""


def one_row(setting: str) -> str:
    """Return what to type instead of a setting of ``several_rows``."""
    key = setting.split("=")[0]
    return {FORM: f"{FORM}=linear", ROLES: f"{ROLES}=[]"}.get(key, f"{key}=null")


def in_windows(run: Run) -> str:
    """Return the setting that hides turns from the policy; "" if it sees all."""
    prompt, env = run.config.prompt, run.config.env
    if prompt.history is not None:
        return f"prompt.history={prompt.history}"
    return "" if window_of(env, run.prompt) is None else f"env.window_turns={env.window_turns}"
