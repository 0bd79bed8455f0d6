"""The policies that can be evaluated.

They are a run's last checkpoint, a model folder, the base model, expert, random, an endpoint.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from turngrid.algorithms.registry import FORM, ROLES
from turngrid.config.extension import is_in, key_of, recorded
from turngrid.config.overrides import parse, problem
from turngrid.envs.games.catalogue import cache_root
from turngrid.envs.utils.names import file_name, meant
from turngrid.records.models.locate import ModelError, check_hub, library_file, local_folder, resolve_model, run_of
from turngrid.records.process.exit_codes import Refusal, say
from turngrid.records.run_folder import OUTPUT_KEYS
from turngrid.rollouts.chat_policy import Endpoint
from turngrid.rollouts.chat_settings import ChatSettings
from turngrid.rollouts.prompt_forms.registry import PLAIN, changed_text
from turngrid.rollouts.window import summed_up
from turngrid.tasks.run import Run

SCRIPTED = ("expert", "random")
WORDS = ("base", *SCRIPTED)
# of a run's overrides, those that decide how games are played: with its environment, and in any
OPTIONS, OF_ENV, TASKS = ("model", "scale"), ("env", "recipe"), {"env.task", "env.tasks"}
LENGTHS = ("env.max_action_tokens", "env.window_turns", "env.window_keep", "data.max_prompt_length")
ANYWHERE = (*LENGTHS, "data.max_response_length", "model.path", "model.context", "prompt", FORM, ROLES)


@dataclass(frozen=True)
class PolicyRef:
    """A requested policy."""

    label: str  # its name in tables
    kind: str  # ``expert``, ``random``, ``endpoint`` or ``checkpoint``
    identity: str  # tells policies with the same label apart
    path: str = ""  # the checkpoint's model folder or name
    endpoint: Endpoint | None = None
    chat: ChatSettings = field(default_factory=ChatSettings)  # chat settings that render its messages
    library: bool = False  # looked up as training left it

    @property
    def name(self) -> str:
        """Return a file name that is unique to the policy."""
        if self.kind in SCRIPTED:
            return self.kind
        identity = self.identity if self.chat == ChatSettings() else f"{self.identity} {self.chat}"
        identity += " with library" * self.library
        return f"{file_name(self.label)}-{hashlib.sha256(identity.encode()).hexdigest()[:8]}"


def policies(words: Sequence[str], endpoint: Endpoint | None, run: Run) -> list[PolicyRef]:
    """Return the policies that ``run`` is asked to evaluate, in order, an endpoint last.

    Raises:
        Refusal: a name is unknown or repeated, or no policy is named.
        ModelError: a folder holds no model.
    """
    candidates = [each for word in words for each in _with_library(_policy(word, run), run.eval.library)]
    if endpoint is not None:
        if endpoint.tools and not run.prompt.calls:
            raise Refusal("endpoint_tools=true offers the functions of an environment: add prompt=tool_call")
        identity = f"{endpoint.url} {endpoint.model}{' by tools' * endpoint.tools}"
        chat = ChatSettings(run.chat.kwargs)
        candidates.append(PolicyRef(endpoint.model, "endpoint", identity, endpoint=endpoint, chat=chat))
    if not candidates:
        raise Refusal(f"which policy? name a run folder, a model folder, {', '.join(WORDS)}, or endpoint=URL")
    names = [candidate.name for candidate in candidates]
    if twice := next((candidate.label for candidate in candidates if names.count(candidate.name) > 1), None):
        raise Refusal(f"{twice} is named twice")
    labels = [candidate.label for candidate in candidates]  # rows of a table: equal ones get the digits of their names
    again = [candidate.name if labels.count(candidate.label) > 1 else candidate.label for candidate in candidates]
    return [replace(candidate, label=label) for label, candidate in zip(again, candidates, strict=True)]


def _policy(word: str, run: Run) -> PolicyRef:
    model = run.model
    if word in SCRIPTED:
        return PolicyRef(word, word, word)
    if word == "base":
        path = resolve_model(str(model.path), cache_root())
        check_hub(path)
        return PolicyRef(f"base {model.name}", "checkpoint", _contents(path), path, chat=run.chat)
    if local_folder(word) is None and "/" not in word and not word.startswith(("asset:", "packaged:")):
        raise Refusal(
            f"no policy {word}{meant(word, WORDS)} (choices: a run folder, a model folder, {', '.join(WORDS)})"
        )
    if Path(word).parts[:1] == (str(run.config.output_dir),):
        word = f"./{word}"  # a missing run folder is no name on the hub
    try:
        path = resolve_model(word, cache_root())
        check_hub(path)
    except ModelError as error:
        raise Refusal(str(error).replace("model.path=", "")) from error
    trained = _run_of(word)
    for own, asked in zip(_rendering(trained), _rendering(run), strict=True) if trained else ():
        if own != asked:
            raise Refusal(f"{word} was trained with {own}: evaluate it with the same")
    chat = run.chat.over(trained.chat if trained else ChatSettings())
    return PolicyRef(_label(word), "checkpoint", _contents(path), path, chat=chat)


def _with_library(policy: PolicyRef, asked: str | None) -> list[PolicyRef]:
    """Return a policy that was trained with a library without it and with it (``eval.library``)."""
    wanted = (asked or "both") if library_file(policy.path) else "none"
    without = replace(policy, label=f"{policy.label} without library") if wanted == "both" else policy
    return [without] * (wanted != "frozen") + [replace(policy, library=True)] * (wanted != "none")


def _rendering(run: Run) -> tuple[str, str, str]:
    """Return prompt form, summaries and roles as overrides; evaluation refuses other ones."""
    config = run.config
    prompt = {"name": PLAIN} | changed_text(config.get("prompt"))
    words = [f"prompt={prompt.pop('name')}", *(f"prompt.{key}={value}" for key, value in prompt.items())]
    return " ".join(words), _summaries(run), f"{ROLES}=[{','.join(config.get(ROLES) or ())}]"


def _summaries(run: Run) -> str:
    """Return, as overrides, the rollout form with which the policy writes summaries, or linear."""
    forms: Any = OmegaConf.to_container(run.config.get(FORM) or OmegaConf.create(), resolve=True)
    name = summed_up(forms)
    if not name:
        return f"{FORM}=linear"
    settings = (f"{FORM}.{name}.{key}={'null' if value is None else value}" for key, value in forms[name].items())
    return " ".join([f"{FORM}={name}", *settings])


def _label(word: str) -> str:
    """Return a run's name, followed by the path inside the run."""
    folder, run = local_folder(word), run_of(word)
    if folder is None:
        return word
    return folder.name if run in (None, folder) else str(folder.relative_to(run.parent))


def _contents(path: str) -> str:
    """Return path and state of the model's files: a rewritten checkpoint is another policy."""
    files = sorted(Path(path).glob("*")) if Path(path).is_dir() else []
    return "\n".join([path, *(f"{file.name} {file.stat().st_size} {file.stat().st_mtime_ns}" for file in files)])


def as_trained(words: Sequence[str], overrides: Sequence[str]) -> list[str]:
    """Return the overrides that decide how the named runs played, then ``overrides``.

    A typed key, environment or task replaces that of the runs. An override that not all of these
    runs had, or an option that is not known here, is a note.
    """
    typed = {key_of(text) for text in overrides}
    gone = [
        *typed - {"env"},
        *({*OUTPUT_KEYS} - {"env.step_deadline_s"}),
        *((*TASKS, "env.max_turns") if typed & TASKS else ()),
    ]
    kept = [*ANYWHERE, *(() if typed & {"env", "env.name"} else OF_ENV)]

    def played_by(run: Run) -> list[str]:
        own = {key: text for key, text in recorded(run.folder).items() if key in OPTIONS or is_in(key, kept)}
        return [text for key, text in own.items() if not is_in(key, gone)]

    played = {word: played_by(run) for word in words if (run := _run_of(word))}
    common = [text for text in next(iter(played.values()), ()) if all(text in own for own in played.values())]
    common = [text for text in common if not problem(parse([text])[0], elsewhere=False)]
    for word, own in played.items():
        if others := [text for text in own if text not in common]:
            say(f"note: {word} was trained with {' '.join(others)}; type that to evaluate with it")
    return [*common, *overrides]


def trained_on(word: str) -> str | None:
    """Return the environment of the policy's run; None without a run."""
    return str(run.env.name) if (run := _run_of(word)) else None


def _run_of(word: str) -> Run | None:
    folder = run_of(word) if word not in WORDS else None
    return Run.read(folder) if folder and (folder / "config.yaml").exists() else None
