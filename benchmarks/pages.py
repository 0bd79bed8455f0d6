"""Write what docs/methods.md, docs/papers.md and docs/verl.md show of the code:

    python -m benchmarks.pages

The tables of methods come from the heads of their YAML files and from what their classes declare,
the table of names also from docs/papers.yaml, the changes in verl from ``verl_plugin`` and its
docstrings, and verl's bugs from their reproductions.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence
from itertools import takewhile
from pathlib import Path
from pkgutil import resolve_name
from textwrap import dedent
from typing import Any

import yaml

from benchmarks import capabilities
from benchmarks.private_names import PRIVATE_NAMES, SHOWN
from benchmarks.verl_overrides import IN_PROCESS, ON_CPUS, overrides, reason, until
from turngrid.algorithms.chosen import method_class
from turngrid.algorithms.registry import ALGO, ALGORITHMS, ESTIMATORS, FORM, ROLES, SLOTS, VERLS_LOSSES, words
from turngrid.config.base import CONF, ROOT
from turngrid.rewards.declared import CONTEXTS, GAMES_AGAIN, GROUPS, SYNCHRONOUS, WHOLE_STEP
from turngrid.rollouts.prompt_forms.registry import PROMPTS, prompt_class
from turngrid.verl_plugin.changes import REPLACED, WRAPPED, Table

METHODS, PAPERS, VERL = (ROOT / "docs" / f"{page}.md" for page in ("methods", "papers", "verl"))
NAMES = ROOT / "docs" / "papers.yaml"
BUGS = ROOT / "tests" / "verl_plugin" / "test_verl_bugs.py"
BEGIN, END = "<!-- from `python -m benchmarks.pages` -->", "<!-- end of its tables -->"
TITLES = {
    FORM: "Rollout forms",
    "library": "Libraries",
    "shaping": "Rewards of turns",
    "filter": "Filters",
    "credit": "Credit",
    "loss": "Losses",
    "terms": "Terms",
    "buffer": "Buffers",
}
FIELDS = ("from", "published", "needs", "ours")  # of a head, after what the option does
NEEDS = {
    GROUPS: "groups",
    WHOLE_STEP: "the whole step",
    SYNCHRONOUS: "a synchronous trainer",
    GAMES_AGAIN: "games that come again (fewer `budget.units` or `budget.games` than prompts)",
    CONTEXTS: "[contexts](#contexts)",
    "entropy": "entropy",
    "log_probs": "the pass for old log-probs",
    "values": "a critic",
    "teacher": "`algo.teacher`",
}
CHANGES = """# What is changed in verl

verl is a dependency, never a copy.
`python -m benchmarks.pages` writes this page from [`changes.py`](../verl_plugin/changes.py), \
our classes and their docstrings.
If a new version of verl breaks an entry, `tests/verl_plugin/test_verl_changes.py` names it.
verl's extension points (registries, abstract methods, hooks named `on_...`, class names in its config) \
are not changes and are not listed.
The last list also has other projects' private names, from \
[`private_names.py`](../benchmarks/private_names.py).

"""
OF_BUGS = """## Bugs of verl 0.9.1

Each script shows one bug and imports nothing of turngrid, so it can be sent to verl as it is.
`tests/verl_plugin/test_verl_bugs.py` runs the scripts.
If a test fails, verl has fixed the bug, and our replacement can be removed.

"""


# ---- docs/methods.md


def with_tables(page: str) -> str:
    """Return docs/methods.md with its tables renewed."""
    before, _, rest = page.partition(BEGIN)
    tables = [of_methods(title, slot, SLOTS[slot]) for slot, title in TITLES.items()]
    tables += [of_files("Losses of verl", "loss", VERLS_LOSSES), of_files("Roles", ROLES, SLOTS[ROLES])]
    tables += [of_methods("Estimators over turns", ALGO, ESTIMATORS), of_words()]
    tables.append(table("Trainer modes and rollout servers", capabilities.HEAD, capabilities.rows()))
    return "\n\n".join([before + BEGIN, *tables, END + rest.partition(END)[2]])


def table(title: str, head: str, rows: Iterable[Iterable[str]]) -> str:
    columns = head.split(", ")
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join([f"### {title}", "", f"| {' | '.join(columns)} |", "|" + "---|" * len(columns), *lines])


def of_methods(title: str, slot: str, names: Iterable[str]) -> str:
    rows = [of_method(slot, name) for name in names]
    return table(title, "option, what it does, from, published, needs, ours", rows)


def of_method(slot: str, name: str) -> list[str]:
    head = head_of(file_of(slot, name))
    needed = needs(method_class(slot, name, {}), head["needs"])
    return [f"`{slot}={name}`", head[""], head["from"] or "ours", head["published"], needed, head["ours"]]


def needs(kind: Any, further: str) -> str:
    """Return what a method's class declares that it needs, and what else the head says."""
    requires = getattr(kind, "requires", ())
    declared = {*getattr(kind, "needs", ()), *(requires if isinstance(requires, frozenset) else ())}
    labels, heads = getattr(kind, "labels", ()), getattr(kind, "heads", 1)
    parts = [text for word, text in NEEDS.items() if word in declared]
    parts = [f"{part} of {heads} heads" if part == NEEDS["values"] and heads > 1 else part for part in parts]
    parts += [f"`prompt={form}`" for form in PROMPTS if labels and prompt_class(form).labels == labels]
    parts += ["`rollout=transformers`"] * (getattr(kind, "entropies", False) is True)
    return "; ".join(filter(None, [*parts, further]))


def of_files(title: str, slot: str, names: Iterable[str]) -> str:
    """Return a table of options that their files describe."""
    rows = [(f"`{slot}={name}`", comment(file_of(slot, name))) for name in names]
    return table(title, "option, what it is", rows)


def of_words() -> str:
    rows = [of_word(word, file_of(ALGO, word)) for word in words() if word not in ALGORITHMS]
    return table("Words of `algo=`", "option, over, chooses, what it is", rows)


def of_word(word: str, text: str) -> list[str]:
    defaults = yaml.safe_load(text).get("defaults", ())
    over = "".join(f"`{entry}`" for entry in defaults if isinstance(entry, str))
    chosen = [item for entry in defaults if isinstance(entry, dict) for item in entry.items()]
    names = [(group, name if isinstance(name, str) else f"[{','.join(name)}]") for group, name in chosen]
    typed = [f"`{group.removeprefix('override /')}={name}`" for group, name in names]
    return [f"`{ALGO}={word}`", over, " ".join(typed), comment(text)]


def file_of(group: str, name: str) -> str:
    return (CONF / group / f"{name}.yaml").read_text(encoding="utf-8")


def comment(text: str) -> str:
    """Return what an option does, by the comment at the head of its file."""
    return head_of(text)[""]


def head_of(text: str) -> dict[str, str]:
    """Return the fields of that comment by name; what the option does is the field ""."""
    parts: dict[str, list[str]] = {name: [] for name in ("", *FIELDS)}
    field = ""
    for line in takewhile(lambda line: line.startswith("#"), text.splitlines()[1:]):
        words = line.removeprefix("# ")
        name, _, rest = words.partition(": ")
        if name in FIELDS:
            field, words = name, rest
        parts[field].append(words)
    return {name: " ".join(lines) for name, lines in parts.items()}


# ---- docs/papers.md


def with_names(page: str) -> str:
    """Return docs/papers.md with its table renewed."""
    before, _, rest = page.partition(BEGIN)
    rows = [
        (name, entry.get("paper") or "", verdict, f"`{typed}`" if (typed := entry.get("type")) else "", entry["why"])
        for verdict, names in of_papers().items()
        for name, entry in names.items()
    ]
    head = "name, arXiv, built, type, what it does; why it is not built"
    return "\n\n".join([before + BEGIN, table("Names", head, sorted(rows, key=by_name)), END + rest.partition(END)[2]])


def by_name(row: Sequence[str]) -> str:
    return row[0].casefold()


def of_papers() -> dict[str, dict[str, dict[str, str]]]:
    """Return the entries of docs/papers.yaml by verdict and name, each with a reason."""
    groups = yaml.safe_load(NAMES.read_text(encoding="utf-8"))
    built = {name: of_option(entry["type"]) | entry for name, entry in groups["built"].items()}
    return {"yes": built, "in part": groups["options"], "no": groups["refused"]}


def of_option(typed: str) -> dict[str, str]:
    """Return the arXiv numbers of the first option that is typed, and what it does."""
    slot, _, name = typed.split(" ")[0].replace("[", "").replace("]", "").partition("=")
    text = comment(file_of(slot, name))
    return {"paper": ", ".join(re.findall(r"\d{4}\.\d{5}", text)), "why": text}


# ---- docs/verl.md


def of_verl() -> str:
    """Return docs/verl.md."""
    found: dict[str, list[tuple[str, str]]] = {}
    for one in overrides():
        entry = (f"`{one.theirs.rpartition('.')[2]}.{one.method}`", sentence(one.why, one.end))
        found.setdefault(one.ours.removeprefix("turngrid.verl_plugin."), []).append(entry)
    sections = [
        section("Replaced in every process, right after verl imports the module", entries_of(WRAPPED, REPLACED)),
        section("Replaced by our own code, in the process that needs it", entries_of(IN_PROCESS)),
        section("Replaced on CPUs, until verl runs on them", entries_of(ON_CPUS)),
        section("Overridden in a class of ours", found),
        section("Private names, and what we set, of verl and of other projects", of_names()),
    ]
    return (CHANGES + "".join(sections) + OF_BUGS + "".join(bugs())).rstrip() + "\n"


def entries_of(*tables: Table) -> dict[str, list[tuple[str, str]]]:
    """Return by verl's module the names that are replaced, each with why and until when."""
    entries: dict[str, list[tuple[str, str]]] = {}
    for module, names in (item for one in tables for item in one.items()):
        entries.setdefault(module, []).extend((f"`{name}`", why(by)) for name, by in names.items())
    return entries


def why(by: str) -> str:
    return sentence(reason(resolve_name(by)), until(resolve_name(by)))


def sentence(*parts: str) -> str:
    return ". ".join(filter(None, parts)).replace(". Until ", ". *Until* ")


def of_names() -> dict[str, list[tuple[str, str]]]:
    """Return by our file the private names that it uses, without those of the sections before."""
    entries = {
        file: [(f"`{name}`", sentence(text)) for name, text in names.items() if text != SHOWN]
        for file, names in PRIVATE_NAMES.items()
    }
    return {file: own for file, own in entries.items() if own}


def section(title: str, entries: dict[str, list[tuple[str, str]]]) -> str:
    """Return a list for each module or class; names with one reason share a line."""
    lines = [f"## {title}", ""]
    for place, own in entries.items():
        names: dict[str, list[str]] = {}
        for name, text in own:
            names.setdefault(text, []).append(name)
        lines += [f"`{place}`:", "", *(f"- {', '.join(shared)}: {text}" for text, shared in names.items()), ""]
    return "\n".join([*lines, ""])


def bugs() -> Iterable[str]:
    """Yield each reproduction: its docstring as text, then its lines."""
    source = BUGS.read_text(encoding="utf-8")
    functions = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    for function in (one for one in functions if one.name.startswith("bug_")):
        code = dedent("\n".join(source.splitlines()[function.body[1].lineno - 1 : function.end_lineno]))
        yield f"{' '.join((ast.get_docstring(function) or '').split())}\n\n```python\n{code}\n```\n\n"


def pages() -> dict[Path, str]:
    """Return what each page must be."""
    written = {METHODS: with_tables, PAPERS: with_names}
    return {page: renewed(page.read_text(encoding="utf-8")) for page, renewed in written.items()} | {VERL: of_verl()}


if __name__ == "__main__":
    for file, text in pages().items():
        file.write_text(text, encoding="utf-8")
