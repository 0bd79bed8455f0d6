"""What may stand at the end of a command line: our groups and their options, keys and values, sweeps, recipes, flags."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

from train.completion.settings import Keys, groups, keys
from train.completion.shells import MODULES, ROOT, SCRIPTS

FLAGS = {
    "train": ("--multirun", "--cfg", "--resolve", "--package", "--help", "--config-dir", "--info", "--hydra-help"),
    "play": ("--help", "--config-dir"),
    "evaluate": ("--help",),
}
AFTER_FLAG = {
    "--cfg": ("job", "hydra", "all"),
    "-c": ("job", "hydra", "all"),
    "--info": ("defaults", "config", "plugins"),
}
FOLDER_FLAGS = ("--config-dir", "-cd")
# What a command takes besides the keys of a run, and what it takes that is no KEY=VALUE
OWN = {
    "train": ("sweep",),
    "play": ("watch", "delay", "split", "game"),
    "evaluate": ("endpoint", "endpoint_model", "key_env", "endpoint_tools", "at_once"),
}
WORDS = {"evaluate": ("base", "expert", "random")}
CHOICES = {
    "budget.count": ("games", "rollouts"),
    "demos.source": ("expert", "episodes"),
    "demos.experience": ("world_model", "reflection"),
    "cluster.launcher": ("here", "slurm", "local_parallel"),
    "watch": ("true", "false"),
    "endpoint_tools": ("true", "false"),
    "delay": ("0", "0.5", "1"),
    "game": ("1",),
    "at_once": ("16",),
}


def completions(line: str, breaks: str = "") -> list[str]:
    """What may take the place of the line's last word, in order.

    Args:
        line: up to the cursor.
        breaks: letters at which the shell itself parts words: what stands up to the last of them is left out.
    """
    command, before, word = read(line)
    found = sorted({text for text in _candidates(command, before, word) if text.startswith(word) and text != word})
    cut = 1 + max((word.rfind(letter) for letter in breaks), default=-1)
    return [text[cut:] for text in found]


def read(line: str) -> tuple[str, list[str], str]:
    """(command, its whole words, the word that is being written)."""
    words = _words(line)
    last = "" if line[-1:].isspace() or not words else words.pop()
    command, start = "train", 1
    for place, word in enumerate(words):
        if Path(word).name in SCRIPTS:
            command, start = SCRIPTS[Path(word).name], place + 1
        elif word in MODULES and words[place - 1] == "-m":
            command, start = MODULES[word], place + 1
    return command, words[start:], last


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError:  # a quote that is still open
        return line.split()


def _candidates(command: str, before: Sequence[str], word: str) -> Iterable[str]:
    flag = before[-1] if before else ""
    if flag in AFTER_FLAG or flag in FOLDER_FLAGS:
        return AFTER_FLAG.get(flag, ())
    if word.startswith("-"):
        return FLAGS[command]
    if flag in ("--package", "-p"):
        return [name.rstrip("=") for name in _names(_keys(before), word)]
    sign = word[:1] if word[:1] in ("+", "~") else ""
    return [sign + text for text in _unsigned(command, before, word.removeprefix(sign))]


def _unsigned(command: str, before: Sequence[str], word: str) -> list[str]:
    key, equals, value = word.partition("=")
    if equals:
        chosen, comma, _ = value.rpartition(",")
        free = [text for text in _values(key, before) if text not in chosen.split(",")]
        return [f"{key}={chosen}{comma}{text}" for text in free]
    own = [*(f"{name}=" for name in (*OWN[command], *groups(_folder(before)))), *WORDS.get(command, ())]
    return [*own, *_names(_keys(before), word)]


def _names(known: Keys, word: str) -> list[str]:
    """The keys and nodes one level below what ``word`` names."""
    above = word[: word.rfind(".") + 1]
    below = {key.removeprefix(above).partition(".")[:2] for key in known if key.startswith(above)}
    return [f"{above}{name}{dot or '='}" for name, dot in below]


def _values(key: str, before: Sequence[str]) -> Sequence[str]:
    options = groups(_folder(before))
    if key in options:
        return options[key]
    if key == "sweep":
        return sorted(file.stem for file in (ROOT / "sweeps").glob("*.yaml"))
    if key in CHOICES:
        return CHOICES[key]
    if key == "split":
        return ("test", "train", "demonstrations", "validation", "pretraining", "test_paper")
    if key == "env.task":
        return _tasks(before)
    return _keys(before).get(key, ())


def _tasks(before: Sequence[str]) -> Sequence[str]:
    """Names that the chosen environment offers, or the default."""
    from envs.registry import environment_class, spec

    known = _keys(before)
    name = next(iter(known["env.name"]), "")  # none where it is no word that can be typed as it is
    return (environment_class(spec(name)).examples if name else ()) or known["env.task"]


def _keys(before: Sequence[str]) -> Keys:
    """Those of the config with the options that the line has chosen so far."""
    options, folder = groups(_folder(before)), _folder(before)
    chosen = [word for word in before if word.lstrip("+").partition("=")[0] in options and "," not in word]
    return keys([word for word in chosen if word.partition("=")[2]], folder)


def _folder(before: Sequence[str]) -> str | None:
    places = [place for place, word in enumerate(before[:-1]) if word in FOLDER_FLAGS]
    return before[places[-1] + 1] if places else None
