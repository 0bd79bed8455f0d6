"""Tags around the parts of an answer."""

import re


def pair(name: str) -> tuple[str, str]:
    return f"<{name}>", f"</{name}>"


def between(name: str) -> re.Pattern[str]:
    """Return a pattern of a pair of tags; its group is the text between them.

    Case is ignored, since some tokenizers have upper or lower case only.
    """
    begin, end = map(re.escape, pair(name))
    return re.compile(f"{begin}(.*?){end}", re.IGNORECASE | re.DOTALL)


def tagged(name: str, text: str) -> str:
    begin, end = pair(name)
    return f"{begin}{text}{end}"
