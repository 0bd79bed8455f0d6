"""Run-length and Huffman coding of text."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping

from compact import DecodeError


def encode_runs(text: str) -> str:
    """``aaab`` becomes ``3ab``; digits and backslashes of the text get a backslash in front."""
    parts = []
    start = 0
    while start < len(text):
        end = start
        while end < len(text) and text[end] == text[start]:
            end += 1
        length = end - start
        char = text[start]
        symbol = "\\" + char if char.isdigit() or char == "\\" else char
        parts.append(symbol if length == 1 else f"{length}{symbol}")
        start = end
    return "".join(parts)


def decode_runs(encoded: str) -> str:
    """Back from ``encode_runs``."""
    text = []
    count = ""
    escaped = False
    for char in encoded:
        if escaped or not (char.isdigit() or char == "\\"):
            text.append(char * int(count or 1))
            count, escaped = "", False
        elif char == "\\":
            escaped = True
        else:
            count += char
    if count or escaped:
        raise DecodeError("the text ends within a run")
    return "".join(text)


def huffman_code(text: str) -> dict[str, str]:
    """A prefix code of zeros and ones that is shortest for this text; of equal weights the smaller letter comes first."""
    counts = Counter(text)
    if len(counts) == 1:
        return dict.fromkeys(counts, "0")
    queue = [(count, char, {char: ""}) for char, count in counts.items()]
    heapq.heapify(queue)
    while len(queue) > 1:
        low_count, low_char, low = heapq.heappop(queue)
        high_count, high_char, high = heapq.heappop(queue)
        merged = {char: "0" + bits for char, bits in low.items()}
        merged.update({char: "1" + bits for char, bits in high.items()})
        heapq.heappush(queue, (low_count + high_count, min(low_char, high_char), merged))
    return queue[0][2] if queue else {}


def encode_bits(text: str, code: Mapping[str, str]) -> str:
    """The text in zeros and ones."""
    return "".join(code[char] for char in text)


def decode_bits(bits: str, code: Mapping[str, str]) -> str:
    """Back from ``encode_bits``."""
    chars = {symbol: char for char, symbol in code.items()}
    text = ""
    symbol = ""
    for bit in bits:
        symbol += bit
        if symbol in chars:
            text += chars[symbol]
            symbol = ""
    if symbol:
        raise DecodeError("the bits end within a symbol")
    return text
