"""docs/everyday.md: what Polars or pandas and slicing answer to each question is the same, in no more lines."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import polars as pl
import polars.testing
import pytest

PAGE = Path(__file__).parents[2] / "docs" / "everyday.md"
BLOCKS = re.findall(r"^([^\n]+):\n\n```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
SETUP = re.search(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
QUESTIONS = [pytest.param(code, id=question) for question, code in BLOCKS]
FEWEST = 46


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    assert SETUP is not None
    found: dict[str, Any] = {}
    exec(SETUP[1], found)
    return found


def in_order(frame: pl.DataFrame, columns: list[str]) -> pl.DataFrame:
    """The columns in one type each and their rows in one order: floats last, which may differ in their last bits."""
    types = frame.schema
    frame = frame.select(
        pl.col(c).cast(pl.Datetime("us"))
        if isinstance(types[c], pl.Datetime)
        else pl.col(c).cast(pl.Int64)
        if types[c].is_integer()
        else pl.col(c).cast(pl.Decimal(38, 4))
        if types[c].is_decimal()
        else pl.col(c)
        for c in columns
    )
    return frame.sort([c for c in columns if not frame.schema[c].is_float()], nulls_last=True, maintain_order=True)


@pytest.mark.parametrize("code", QUESTIONS)
def test_both_answer_the_same(code: str, names: dict[str, Any]) -> None:
    found = dict(names)
    exec(code, found)
    theirs, ours = found["theirs"], found["ours"]
    assert theirs.height > 0 and set(theirs.columns) <= set(ours.columns)
    frames = [in_order(frame, sorted(theirs.columns)) for frame in (theirs, ours)]
    pl.testing.assert_frame_equal(*frames, check_row_order=True, check_exact=False)


def test_the_page_has_its_questions() -> None:
    assert len(BLOCKS) >= FEWEST


def test_no_question_takes_more_lines() -> None:
    """Lines that only prepare the data for both, apart from them by an empty line, count for neither."""
    longer = []
    for question, code in BLOCKS:
        lines = [line for line in code.splitlines() if line.strip()]
        at = {name: [i for i, line in enumerate(lines) if line.startswith(f"{name} =")] for name in ("theirs", "ours")}
        ours = len(lines) - at["theirs"][-1] - 1
        theirs = len([line for line in lines[: at["theirs"][-1] + 1]])
        if ours > theirs:
            longer.append(question)
    assert not longer
