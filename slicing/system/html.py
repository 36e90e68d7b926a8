"""Small tables for notebooks."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

_LEFT = "text-align:left;vertical-align:top"


def text(value: object) -> str:
    return html.escape(str(value)).replace("\n", "<br>")


def code(value: object) -> str:
    return f"<code>{text(value)}</code>"


def table(caption: str, rows: Iterable[Sequence[str]]) -> str:
    """A table with a caption; the first entry of each row is text, the others are HTML."""
    lines = []
    for name, *cells in rows:
        found = "".join(f"<td style='{_LEFT}'>{cell}</td>" for cell in cells)
        lines.append(f"<tr><th style='{_LEFT}'>{text(name)}</th>{found}</tr>")
    return f"<table><caption style='{_LEFT}'>{caption}</caption>{''.join(lines)}</table>"


def listed(names: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table with column names."""
    head = "".join(f"<th>{text(name)}</th>" for name in names)
    body = "".join("<tr>" + "".join(f"<td>{text(value)}</td>" for value in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
