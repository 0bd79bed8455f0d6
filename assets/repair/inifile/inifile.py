"""Reading and writing settings in sections, with continuation lines and references between values."""

from __future__ import annotations

import re

_SECTION = re.compile(r"\[\s*([^\]]+?)\s*\]")
_REFERENCE = re.compile(r"\$\{(?:([^}:]+):)?([^}]+)\}")
_TRUE = ("yes", "true", "on", "1")
_FALSE = ("no", "false", "off", "0")
DEFAULT = "default"


class SettingsError(ValueError):
    """Settings that cannot be read; ``line`` counts from 1, and is 0 where no line is to blame."""

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(f"line {line}: {message}" if line else message)
        self.line = line


class Settings:
    """Sections of keys with text values. Keys do not depend on case; section [default] stands behind all others."""

    def __init__(self) -> None:
        self._sections: dict[str, dict[str, str]] = {}

    @classmethod
    def parse(cls, text: str) -> Settings:
        """Read ``[section]`` headers and ``key = value`` (or ``key: value``) lines.

        ``#`` and ``;`` start comments. A line that is indented goes on with the value above it.
        """
        settings = cls()
        section = DEFAULT
        key = ""
        for number, line in enumerate(text.splitlines(), start=1):
            content = _without_comment(line)
            if not content.strip():
                continue
            if content[0].isspace():
                if not key:
                    raise SettingsError("nothing to go on with", number)
                settings._append(section, key, content.strip())
                continue
            header = _SECTION.fullmatch(content.strip())
            if header:
                section, key = header.group(1), ""
                settings._sections.setdefault(section, {})
                continue
            key, value = _key_and_value(content, number)
            if key in settings._sections.get(section, {}):
                raise SettingsError(f"{key!r} is set twice", number)
            settings.set(section, key, value)
        return settings

    def sections(self) -> list[str]:
        """The names of the sections in their order, without [default]."""
        return [name for name in self._sections if name != DEFAULT]

    def keys(self, section: str) -> list[str]:
        """The keys that have a value in a section, those of [default] last."""
        own = self._sections.get(section, {})
        shared = self._sections.get(DEFAULT, {})
        return [*own, *(key for key in shared if key not in own)]

    def set(self, section: str, key: str, value: str) -> None:
        self._sections.setdefault(section, {})[key.strip().lower()] = value

    def get(self, section: str, key: str, fallback: str | None = None) -> str:
        """The value with its references filled in; ``${key}`` is one of the same section, ``${section:key}`` another's."""
        value = self._raw(section, key.lower())
        if value is None:
            if fallback is None:
                raise SettingsError(f"no {key!r} in [{section}]")
            return fallback
        return self._expand(value, section, ((section, key.lower()),))

    def number(self, section: str, key: str) -> int:
        """A whole number, perhaps with k, m or g for thousands, millions, thousand millions."""
        text = self.get(section, key).lower().replace("_", "")
        factor = {"k": 10**3, "m": 10**6, "g": 10**9}.get(text[-1:], 1)
        digits = text[:-1] if factor > 1 else text
        if not re.fullmatch(r"[+-]?\d+", digits):
            raise SettingsError(f"{key} = {text} is not a whole number")
        return int(digits) * factor

    def flag(self, section: str, key: str) -> bool:
        """True or false by any of their usual names."""
        text = self.get(section, key).lower()
        if text not in _TRUE + _FALSE:
            raise SettingsError(f"{key} = {text} is neither true nor false")
        return text in _TRUE

    def list(self, section: str, key: str) -> list[str]:
        """The items between commas or line ends, empty ones left out."""
        items = re.split(r"[,\n]", self.get(section, key))
        return [item.strip() for item in items if item.strip()]

    def render(self) -> str:
        """The text that ``parse`` reads, one blank line between sections."""
        blocks = []
        for name, values in self._sections.items():
            lines = [f"[{name}]"]
            for key, value in values.items():
                lines.append(f"{key} = " + value.replace("\n", "\n  "))
            blocks.append("\n".join(lines) + "\n")
        return "\n".join(blocks)

    def _append(self, section: str, key: str, more: str) -> None:
        before = self._sections[section][key]
        self._sections[section][key] = f"{before}\n{more}" if before else more

    def _raw(self, section: str, key: str) -> str | None:
        own = self._sections.get(section, {})
        return own.get(key, self._sections.get(DEFAULT, {}).get(key))

    def _expand(self, value: str, section: str, seen: tuple[tuple[str, str], ...]) -> str:
        """Fill in the references of a value; ``seen`` are the values that are being filled in around it."""

        def fill(match: re.Match[str]) -> str:
            place = (match.group(1) or section, match.group(2).lower())
            if place in seen:
                raise SettingsError(f"{place[1]!r} in [{place[0]}] refers to itself")
            found = self._raw(*place)
            if found is None:
                raise SettingsError(f"no {place[1]!r} in [{place[0]}]")
            return self._expand(found, place[0], (*seen, place))

        return _REFERENCE.sub(fill, value)


def _without_comment(line: str) -> str:
    """A comment starts a line or follows a space, so that colours such as red#2 can be values."""
    for index, char in enumerate(line):
        if char in "#;" and (index == 0 or line[index - 1].isspace()):
            return line[:index].rstrip()
    return line.rstrip()


def _key_and_value(content: str, number: int) -> tuple[str, str]:
    """Parted by the first equals sign or colon."""
    match = re.match(r"([^=:]+)[=:](.*)", content)
    if match is None:
        raise SettingsError("neither a section nor a key with a value", number)
    return match.group(1).strip().lower(), match.group(2).strip()
