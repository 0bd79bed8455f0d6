"""Tables of overrides with the message that answers them."""


def pairs(table: str) -> list[tuple[str, str]]:
    """Return (overrides, ``KEY; use FIX``) for two lines each."""
    lines = table.strip().splitlines()
    return list(zip(lines[::2], map(str.strip, lines[1::2]), strict=True))


def assert_names(message: str, expected: str) -> None:
    """The message begins with the key, and says what to use."""
    key, _, fix = expected.partition("; use")
    assert message.startswith(key) and fix.strip() in message and "\n" not in message, message
