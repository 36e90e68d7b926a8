"""docs/everyday.md: what Polars or pandas and slicing answer to each question is the same, in no more lines."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import polars as pl
import polars.testing
import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "everyday.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SETUP, *_ = BLOCK.findall(PAGE)
QUESTIONS = {part.partition("\n")[0]: BLOCK.findall(part) for part in PAGE.split("\n### ")[1:]}
NUMBERED = {"15b", *(f"{number:02}" for number in range(1, 46))}
WIDTH = 120
FEWEST = 40
HELPER = re.compile(r"\.(with_columns|with_row_index|assign|append_column|set_column)\(")


def number(question: str) -> str:
    return question.split()[0]


def parts(code: str) -> tuple[list[str], list[str]]:
    """Lines of Polars or pandas, and ours. Paragraphs in front of ``theirs`` prepare the data of both."""
    theirs, ours = [], []
    for paragraph in code.split("\n\n"):
        lines = [line for line in paragraph.splitlines() if line.strip()]
        at = max((n + 1 for n, line in enumerate(lines) if line.startswith("theirs =")), default=0)
        theirs += lines[:at]
        if any(line.startswith("ours =") for line in lines):
            ours += lines[at:]
        else:
            assert at in (0, len(lines)) and not (theirs and not at), f"what is this for?\n{paragraph}"
    return theirs, ours


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    found: dict[str, Any] = {}
    exec(SETUP, found)
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
        else pl.col(c).cast(pl.String)
        if isinstance(types[c], pl.Categorical | pl.Enum)
        else pl.col(c)
        for c in columns
    )
    return frame.sort([c for c in columns if not frame.schema[c].is_float()], nulls_last=True, maintain_order=True)


@pytest.mark.parametrize("question", QUESTIONS)
def test_both_answer_the_same(question: str, names: dict[str, Any]) -> None:
    (code,) = QUESTIONS[question]
    found = dict(names)
    exec(code, found)
    theirs, ours = found["theirs"], found["ours"]
    assert theirs.height > 0 and set(theirs.columns) <= set(ours.columns)
    frames = [in_order(frame, sorted(theirs.columns)) for frame in (theirs, ours)]
    pl.testing.assert_frame_equal(*frames, check_row_order=True, check_exact=False)


def test_decay_is_that_of_any_year(names: dict[str, Any]) -> None:
    """Its weights are of a day, so that no span of the data makes them 0 or infinite."""
    years = names["readings"].with_columns(pl.col("ts") + pl.duration(days=365 * (pl.int_range(3000) // 300)))
    test_both_answer_the_same(next(q for q in QUESTIONS if number(q) == "26"), names | {"readings": years})


def test_the_page_has_its_questions() -> None:
    numbers = [number(question) for question in QUESTIONS if number(question)[0].isdigit()]
    assert len(numbers) == 46 and set(numbers) == NUMBERED


def test_questions_take_no_more_lines() -> None:
    """The page says how many, and which take more."""
    assert not [line for code in BLOCK.findall(PAGE) for line in code.splitlines() if len(line) > WIDTH]
    longer = []
    for question, (code,) in QUESTIONS.items():
        theirs, ours = parts(code)
        if len(ours) > len(theirs):
            longer.append(number(question))
    assert set(longer) <= NUMBERED
    no_longer = len(NUMBERED) - len(longer)
    said = f"Of the 46 numbered questions, slicing needs no more lines in {no_longer}: all but {', '.join(longer)}"
    assert said in " ".join(PAGE.split())
    assert no_longer >= FEWEST


def test_no_question_takes_a_helper_column() -> None:
    ours = {question: "\n".join(parts(code)[1]) for question, (code,) in QUESTIONS.items()}
    assert not [question for question, lines in ours.items() if HELPER.search(lines)]
