"""Tables of overrides with the messages that answer them."""


def refusals(table: str) -> list[tuple[str, list[str]]]:
    """Return (overrides, each ``KEY; use FIX``) for a line and the indented ones below it."""
    found: list[tuple[str, list[str]]] = []
    for line in table.strip().splitlines():
        if line.startswith(" "):
            found[-1][1].append(line.strip())
        else:
            found.append((line, []))
    return found


def names(message: str, expected: str) -> bool:
    """Whether the message begins with the key, and says what to use."""
    key, _, fix = expected.partition("; use")
    return message.startswith(key) and fix.strip() in message and "\n" not in message


def assert_names(message: str, expected: str) -> None:
    assert names(message, expected), message
