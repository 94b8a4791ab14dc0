"""Tables that are kept in pages written by hand: Markdown tables, and the text between two markers of a page."""

from collections.abc import Sequence
from pathlib import Path

from neurogame._common.writing import write_text


def pipes(head: Sequence[str], cells: Sequence[Sequence[str]], left: int = 1) -> str:
    """A Markdown table.

        pipes(["model", "accuracy"], [["default", "54.0"]])

    Args:
        head: titles of the columns.
        cells: rows.
        left: how many columns, from the first, are text; numbers stand to the right.

    Returns:
        The table, without a line break at its end.
    """
    rule = ["---" if k < left else "---:" for k in range(len(head))]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in (head, rule, *cells)
    )


def markers(name: str) -> tuple[str, str]:
    """The lines between which the text of a results file stands in a page."""
    return f"<!-- {name}: begin -->", f"<!-- {name}: end -->"


def insert(page: str, text: str, name: str) -> str:
    """The page with `text` between the markers of `name`; the rest stays as it is.

    Args:
        page: Markdown.
        text: what is to stand between the markers.
        name: of the markers, such as "results/grounding.json".

    Returns:
        The new page.

    Raises:
        SystemExit: if the page lacks a marker.
    """
    begin, end = markers(name)
    before, first, rest = page.partition(begin)
    _, last, after = rest.partition(end)
    if not first or not last:
        raise SystemExit(f"the page has no {begin} and {end}, between which the tables go")
    return f"{before}{begin}\n{text}\n{end}{after}"


def update(page: Path, text: str, name: str) -> None:
    """`insert` in a file, whole or not at all.

    Raises:
        SystemExit: if there is no such page, or it lacks a marker.
    """
    if not page.exists():
        raise SystemExit(f"no {page}; it must have {' and '.join(markers(name))}, between which the tables go")
    write_text(page, insert(page.read_text(encoding="utf-8"), text, name))
