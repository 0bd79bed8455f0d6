"""docs/methods.md: its tables are those of the cards and of the ``algo=`` words' files."""

from turngrid.config.method_cards import PAGE, with_tables


def test_the_tables_are_the_cards() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert with_tables(page) == page, "run: python -m config.method_cards"
    assert (
        "| `credit=gigpo` |" in page and "| `algo=spear` | `grpo` | `credit=[gigpo]` `buffer=[self_imitation]`" in page
    )
