"""Breaking text into lines of a limited width."""

from __future__ import annotations


def wrap(text: str, width: int, indent: str = "") -> list[str]:
    """Lines of at most ``width`` characters, broken between words; lines after the first start with ``indent``.

    Words that are longer than a line are cut. A text without words gives no line.
    """
    if width <= len(indent):
        raise ValueError(f"no room for words in {width} columns")
    lines: list[str] = []
    line = ""
    for word in text.split():
        while True:
            start = indent if lines else ""
            candidate = f"{line} {word}" if line else start + word
            if len(candidate) <= width:
                line = candidate
                break
            if line:
                lines.append(line)
                line = ""
                continue
            room = width - len(start)
            lines.append(start + word[:room])
            word = word[room:]
    if line:
        lines.append(line)
    return lines


def shorten(text: str, width: int, mark: str = "...") -> str:
    """The text in one line of at most ``width`` characters; whole words go, and ``mark`` says so."""
    words = text.split()
    whole = " ".join(words)
    if len(whole) <= width:
        return whole
    while words:
        words.pop()
        candidate = " ".join([*words, mark])
        if len(candidate) <= width:
            return candidate
    return mark[:width]


def justify(words: list[str], width: int) -> str:
    """The words in one line of exactly ``width`` characters; gaps on the left get the odd spaces."""
    if len(words) == 1:
        return words[0].ljust(width)
    gaps = len(words) - 1
    spaces = width - sum(len(word) for word in words)
    if spaces < gaps:
        raise ValueError("the words do not fit")
    each, odd = divmod(spaces, gaps)
    line = words[0]
    for number, word in enumerate(words[1:]):
        line += " " * (each + (1 if number < odd else 0)) + word
    return line


def dedent(text: str) -> str:
    """Take away the indentation that all lines with words share; blank lines become empty."""
    lines = text.split("\n")
    depths = [len(line) - len(line.lstrip(" ")) for line in lines if line.strip()]
    depth = min(depths, default=0)
    return "\n".join(line[depth:] if line.strip() else "" for line in lines)
