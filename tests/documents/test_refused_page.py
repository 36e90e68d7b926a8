"""docs/refused.md: each row's code is refused with the sentence beside it, and what it says to do instead runs."""

from __future__ import annotations

import re
import warnings
from typing import Any

import pytest
from test_readme import BLOCK, DOCS

PAGE = (DOCS / "refused.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| `([^`]+)` \| (.+?) \| `([^`]+)` \|$", PAGE, re.MULTILINE)


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    known: dict[str, Any] = {}
    for language, source in BLOCK.findall(PAGE):
        if language == "python":
            exec(source, known)
    return known


def test_every_row_of_the_tables_is_read() -> None:
    lines = [line for line in PAGE.splitlines() if line.startswith("|") and not line.startswith(("| refused", "| ---"))]
    assert len(lines) == len(ROWS) >= 28


@pytest.mark.parametrize(("refused", "because", "instead"), ROWS, ids=[row[0] for row in ROWS])
def test_a_row_says_what_happens(refused: str, because: str, instead: str, names: dict[str, Any]) -> None:
    with pytest.raises(Exception) as caught:
        eval(refused, names)
    said = " ".join(str(caught.value).split())
    assert re.search(".*".join(map(re.escape, because.split(" ... "))), said), said
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        eval(instead, names)
