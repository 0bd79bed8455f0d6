"""Command lines that a person, a script or a tired mind could type: seeded, and each with the words
that a refusal must say."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any

from fuzz import words
from fuzz.ranges import range_of
from fuzz.sanity import Flat, flat
from omegaconf import OmegaConf


@dataclass(frozen=True)
class Piece:
    """Some words of a command line.

    Attributes:
        names: a refusal says one of these.
        near: what was meant where something is misspelt; a refusal suggests it, or what is as near.
        wrong: no command with it may be accepted.
        fine: alone, it must be accepted.
    """

    words: tuple[str, ...]
    names: tuple[str, ...]
    near: str = ""
    wrong: bool = False
    fine: bool = False


@dataclass(frozen=True)
class Command:
    """``unset``: variables that its environment lacks."""

    pieces: tuple[Piece, ...]
    unset: tuple[str, ...] = ()

    @property
    def words(self) -> list[str]:
        return [word for piece in self.pieces for word in piece.words]

    @property
    def overrides(self) -> int:
        return sum(not word.startswith("-") for word in self.words)

    def without(self, pieces: Sequence[Piece]) -> Command:
        return Command(tuple(piece for piece in self.pieces if not any(piece is other for other in pieces)), self.unset)

    def __str__(self) -> str:
        """To be pasted into a shell."""
        without = f"env {' '.join(f'-u {name}' for name in self.unset)} " if self.unset else ""
        return f"{without}python -m train {shlex.join(self.words)}"


class Generator:
    """Draws commands.

    Args:
        default: the config without overrides, resolved and flat.
        groups: the groups and their options.
        environments: words that choose an environment or a reward -> the keys that it brings, with
            their defaults.
    """

    def __init__(
        self, random: Random, default: Flat, groups: Mapping[str, Sequence[str]], environments: Mapping[str, Flat]
    ) -> None:
        self.random, self.default, self.groups, self.environments = random, default, groups, environments
        self.keys = {
            self._value: 50,
            self._beside_its_range: 12,
            self._fine: 8,
            self._misspelt_key: 8,
            self._with_signs: 8,
            self._place: 2,
            self._cycle: 1,
        }
        self.kinds = self.keys | {
            self._option: 16,
            self._misspelt_option: 6,
            self._misspelt_group: 4,
            self._key_of_an_environment: 8,
            self._node: 4,
            self._flag: 6,
            self._key_of_hydra: 4,
            self._new_key: 4,
        }

    def command(self) -> Command:
        """A sixth have one piece, the others up to eight, one of which may choose an option: Hydra
        takes long over each."""
        count = self.random.choices([1, 2, 3, 4, 6, 8], [15, 10, 10, 15, 25, 25])[0]
        drawn = [self._one_of(self.kinds), *(self._one_of(self.keys) for _ in range(count - 1))]
        pieces = list({piece.names: piece for piece in drawn}.values())  # a key once: of two, the later alone counts
        self.random.shuffle(pieces)
        if self.random.random() < 0.03:
            pieces.append(Piece(("-m",), ("-m", "--multirun")))
        unset = (self.random.choice(words.VARIABLES),) if self.random.random() < 0.03 else ()
        return Command(tuple(pieces), unset)

    def _one_of(self, kinds: Mapping[Callable[[], Piece], float]) -> Piece:
        return self.random.choices(list(kinds), list(kinds.values()))[0]()

    def _value(self) -> Piece:
        key = self._key()
        return Piece((f"{key}={self._any(key, self.default[key])}",), (key,))

    def _beside_its_range(self) -> Piece:
        """Numbers where numbers have a range: just outside of it, and far out."""
        key = self.random.choice(self._ranged)
        entry = range_of(key)
        assert entry
        low, high = entry.low, entry.high
        near = [low, low - 1, low - 1e-6, low + 0.5, high, high + 1, high * 1.001]
        return Piece((f"{key}={self.random.choice([*map(str, near), *words.NUMBERS])}",), (key,))

    def _fine(self) -> Piece:
        key = self.random.choice([key for key in self._ranged if (entry := range_of(key)) and entry.fine])
        entry = range_of(key)
        assert entry
        return Piece((f"{key}={self.random.choice(entry.fine)}",), (key,), fine=key not in words.NEEDS_OTHERS)

    def _misspelt_key(self) -> Piece:
        """Only parts of three letters or more: two letters could be any others."""
        key = self._key()
        parts = key.split(".")
        place = self.random.choice([at for at, part in enumerate(parts) if len(part) >= 3])
        taken = {other.split(".")[place] for other in self.default if other.count(".") >= place}
        parts[place] = self._misspelt(parts[place], {*taken, *self.groups})
        wrong = ".".join(parts)
        return Piece((f"{wrong}=1",), (wrong,), near=key, wrong=True)

    def _with_signs(self) -> Piece:
        key = self._key()
        wrong = self.random.random() < 0.5
        form = self.random.choice(words.WRONG_FORMS if wrong else words.FORMS)
        word = form.format(k=key, v=self._any(key, self.default[key]))
        return Piece((word,), (word, repr(word), *([key] if key in word else [])), wrong=wrong)

    def _option(self) -> Piece:
        group = self._group()
        one, other = self.random.choice(self.groups[group]), self.random.choice(self.groups[group])
        form = self.random.choice(words.GROUP_FORMS)
        return Piece((form.format(g=group, o=one, p=other, v=self._any(group, one)),), (group,))

    def _misspelt_option(self) -> Piece:
        group = self._group()
        right = self.random.choice([name for name in self.groups[group] if len(name) > 2])
        wrong = self._misspelt(right, set(self.groups[group]))
        return Piece((f"{group}={wrong}",), (f"{group}={wrong}",), near=f"{group}={right}", wrong=True)

    def _misspelt_group(self) -> Piece:
        group = self._group()
        wrong = self._misspelt(group, {*self.groups, *(key.split(".")[0] for key in self.default)})
        return Piece((f"{wrong}={self.random.choice(self.groups[group])}",), (wrong,), near=group, wrong=True)

    def _key_of_an_environment(self) -> Piece:
        chosen = self.random.choice(list(self.environments))
        key = self.random.choice(list(self.environments[chosen]))
        typed = self._misspelt(key, set(self.environments[chosen])) if self.random.random() < 0.15 else key
        group = chosen.split("=")[0]
        return Piece((chosen, f"{typed}={self._any(key, self.environments[chosen][key])}"), (f"{group}=", key, typed))

    def _node(self) -> Piece:
        parts = self._key().split(".")
        node = ".".join(parts[: self.random.randint(1, max(1, len(parts) - 1))])
        return Piece((self.random.choice(words.NODE_FORMS).format(n=node, v=self._any(node, None)),), (node,))

    def _flag(self) -> Piece:
        wrong = self.random.random() < 0.6
        return Piece(*self.random.choice(words.WRONG_FLAGS if wrong else words.FLAGS), wrong=wrong)

    def _key_of_hydra(self) -> Piece:
        word = self.random.choice(words.HYDRA)
        return Piece((word,), (word.lstrip("+~").split("=")[0],))

    def _new_key(self) -> Piece:
        key = self.random.choice(words.NEW)
        word = f"{self.random.choice(['', '+', '++', '~'])}{key}={self.random.choice(words.NUMBERS + words.WORDS)}"
        names = (key, key.split("@")[0], key.rpartition(".")[0], word, repr(word))
        return Piece((word,), names, wrong=not word.startswith("+"))

    def _place(self) -> Piece:
        wrong = self.random.random() < 0.6
        place = self.random.choice(words.WRONG_PLACES if wrong else words.PLACES)
        return Piece((f"output_dir={place}",), ("output_dir",), wrong=wrong)

    def _cycle(self) -> Piece:
        first, second = self._key(), self._key()
        return Piece((f"{first}=${{{second}}}", f"{second}=${{{first}}}"), (first, second), wrong=True)

    def _key(self) -> str:
        """Ours twice as often as their number says."""
        return self.random.choice(self._ours if self.random.random() < 0.4 else list(self.default))

    def _group(self) -> str:
        return self.random.choice(list(self.groups))

    @cached_property
    def _ours(self) -> list[str]:
        verls = ("actor_rollout_ref", "critic", "data", "trainer", "algorithm", "reward", "distillation")
        return [key for key in self.default if key.split(".")[0] not in verls]

    @cached_property
    def _ranged(self) -> list[str]:
        return [key for key in self.default if range_of(key)]

    def _any(self, key: str, default: Any) -> str:
        """A value of any kind; now and then one beside the default, which is nearest to what is
        right."""
        if self.random.random() < 0.15:
            return self._beside(default)
        if self.random.random() < 0.03:
            return f"${{{key}}}"
        pool = self.random.choices([pool for pool, _ in words.POOLS], [weight for _, weight in words.POOLS])[0]
        return self.random.choice(pool)

    def _beside(self, default: Any) -> str:
        if isinstance(default, bool) or default is None:
            return self.random.choice(["true", "false", "null", "0", "1"])
        if isinstance(default, (int, float)):
            beside = [default + 1, default - 1, default * 2, -default, default / 2, default * 1000]
            return str(self.random.choice(beside))
        word = str(default)
        return self.random.choice([word.upper(), self._typo(word), f"[{word}]", f"'{word}'", f" {word}", f"{word} "])

    def _misspelt(self, word: str, taken: set[str]) -> str:
        """One or two edits, so that it is still nearer to ``word`` than to noise."""
        wrong = word
        while wrong in taken or not wrong[:1].isalpha():
            wrong = self._typo(word)
            wrong = self._typo(wrong) if len(word) > 5 and self.random.random() < 0.3 else wrong
        return wrong

    def _typo(self, word: str) -> str:
        """A letter left out, put in, replaced, or swapped with the next."""
        at, letter = self.random.randrange(max(1, len(word))), self.random.choice(words.LETTERS)
        before, here, after = word[:at], word[at : at + 1], word[at + 1 :]
        swapped = before + after[:1] + here + after[1:]
        return self.random.choice([before + after, before + letter + here + after, before + letter + after, swapped])


def environments_of(conf: Path) -> dict[str, Flat]:
    """Words that choose an environment or a reward -> the keys that only it brings, read off its
    file."""
    found = {}
    for file in (*conf.glob("env/*.yaml"), *conf.glob("reward/*.yaml")):
        content = OmegaConf.to_container(OmegaConf.load(file))
        assert isinstance(content, dict)
        keys = flat({str(node): keys for node, keys in content.items() if node != "defaults"})
        if own := {key: value for key, value in keys.items() if key.split(".")[-1] not in ("name", "task")}:
            found[f"{file.parent.name}={file.stem}"] = own
    return dict(sorted(found.items()))
