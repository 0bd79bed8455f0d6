"""Compact encodings of numbers and of runs."""

from __future__ import annotations

from collections.abc import Iterable

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_CONFUSED = {"I": "1", "L": "1", "O": "0"}


class DecodeError(ValueError):
    """Data that no encoder wrote."""


def zigzag(number: int) -> int:
    """Signed to unsigned, small ones staying small: 0, -1, 1, -2 become 0, 1, 2, 3."""
    return number * 2 if number >= 0 else -number * 2 - 1


def unzigzag(number: int) -> int:
    """Back from ``zigzag``."""
    return number // 2 if number % 2 == 0 else -(number + 1) // 2


def encode_varint(number: int) -> bytes:
    """Seven bits a byte, lowest first; the top bit of a byte says that more follow."""
    if number < 0:
        raise ValueError("only numbers from 0 on")
    encoded = bytearray()
    while number > 127:
        encoded.append(number % 128 + 128)
        number //= 128
    encoded.append(number)
    return bytes(encoded)


def decode_varint(data: bytes, start: int = 0) -> tuple[int, int]:
    """The number that begins at ``start``, and the position behind it."""
    number = 0
    factor = 1
    for position in range(start, len(data)):
        byte = data[position]
        number += byte % 128 * factor
        if byte < 128:
            return number, position + 1
        factor *= 128
    raise DecodeError("the data ends within a number")


def pack(numbers: Iterable[int]) -> bytes:
    """Signed numbers as their count, then each one's difference to the one before."""
    listed = list(numbers)
    packed = encode_varint(len(listed))
    previous = 0
    for number in listed:
        packed += encode_varint(zigzag(number - previous))
        previous = number
    return packed


def unpack(data: bytes) -> list[int]:
    """Back from ``pack``; nothing may follow the last number."""
    count, position = decode_varint(data)
    numbers: list[int] = []
    previous = 0
    for _ in range(count):
        difference, position = decode_varint(data, position)
        previous += unzigzag(difference)
        numbers.append(previous)
    if position != len(data):
        raise DecodeError(f"{len(data) - position} bytes too many")
    return numbers


def encode_base32(number: int, group: int = 0) -> str:
    """Crockford's base 32 with a check symbol at the end; ``group`` puts a dash after so many symbols."""
    if number < 0:
        raise ValueError("only numbers from 0 on")
    symbols = ""
    left = number
    while True:
        left, digit = divmod(left, 32)
        symbols = ALPHABET[digit] + symbols
        if left == 0:
            break
    symbols += ALPHABET[number % 31]
    if group > 0:
        symbols = "-".join(symbols[index : index + group] for index in range(0, len(symbols), group))
    return symbols


def decode_base32(text: str) -> int:
    """Back from ``encode_base32``; dashes, case and letters that look like digits do not matter."""
    symbols = [_CONFUSED.get(char, char) for char in text.upper() if char != "-"]
    if len(symbols) < 2:
        raise DecodeError("too short")
    number = 0
    for symbol in symbols[:-1]:
        if symbol not in ALPHABET:
            raise DecodeError(f"unknown symbol {symbol!r}")
        number = number * 32 + ALPHABET.index(symbol)
    if ALPHABET[number % 31] != symbols[-1]:
        raise DecodeError("the check symbol is wrong")
    return number
