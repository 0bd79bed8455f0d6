"""The viewer as HTML: ``fragment`` inside another page, ``page`` as a separate page.

Both contain styles, program and compressed episodes. Text of models and environments reaches the page as data and is
written as text, never as HTML.
"""

from __future__ import annotations

import html
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from itertools import islice

from experiments.viewer.pack import Packer
from experiments.viewer.sources import Shown

LIMIT = 5000  # episodes
SCRIPTS = ("store", "colour", "filters", "list", "tokens", "strip", "graph", "episode", "viewer")


def fragment(episodes: Iterable[Shown], *, limit: int = LIMIT, note: str = "") -> str:
    """Return the viewer of the first ``limit`` episodes for the body of an HTML page, which may hold several.

    Its styles and those of the page do not affect each other; it follows the page's ``color-scheme``. Its height is
    85 % of the window's, or ``--viewer-height``. ``#<Shown.address>`` in the page's address opens that episode.

    Args:
        episodes: in the order of the list.
        limit: maximum number of episodes.
        note: text above the list.
    """
    packer = Packer(islice(episodes, limit))
    blocks = "\n".join(f'<script type="application/gzip" class="block">{block}</script>' for block in packer.blocks)
    program = "\n".join(asset(f"{name}.js") for name in SCRIPTS)
    return f"""<div class="turngrid-viewer" data-note="{html.escape(note)}">
<noscript>The trajectory viewer needs JavaScript.</noscript>
<script type="application/gzip" class="index">{packer.index()}</script>
{blocks}
<template class="styles"><style>
{asset("viewer.css")}</style></template>
</div>
<script>
(() => {{
"use strict";
{program}
}})();
</script>
"""


def page(episodes: Iterable[Shown], title: str, *, limit: int = LIMIT, note: str = "") -> str:
    """Return a whole page, as high as the window."""
    return (
        asset("page.html")
        .replace("{{title}}", html.escape(title))
        .replace("{{viewer}}", fragment(episodes, limit=limit, note=note))
    )


@cache
def asset(name: str) -> str:
    return (files("experiments.viewer") / "assets" / name).read_text(encoding="utf-8")
