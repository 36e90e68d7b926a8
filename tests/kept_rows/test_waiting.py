"""Rows that wait for the watermark, in runs of several batches, out of order: windows between marks, by hand."""

from __future__ import annotations

import os
import random

import pyarrow as pa
import pytest

import slicing as sl

CASES = max(int(os.environ.get("SLICING_CASES", "300")), 300)
BEGUN = 1_700_000_000_000_000_000
BESIDE = {"each": sl.per_row(15), "last": sl.last_rows(3, every=7), "none": None}
Row = tuple[int, bool]


def between_marks(rows: list[Row]) -> list[list[int]]:
    """The numbers of the rows from the time of each mark to the next one, by time."""
    found = dict[int, list[int]]()
    for number, (time, _) in sorted(enumerate(rows), key=lambda row: row[1][0]):
        found.setdefault(sum(at <= time for at in {at for at, mark in rows if mark}), []).append(number)
    return list(found.values())


def collected(batches: list[list[Row]], delay: int, beside: str) -> list[list[int]]:
    windows = {"marks": sl.punctuation("mark"), "beside": BESIDE[beside]}
    spec = sl.Spec(
        "t",
        {name: window for name, window in windows.items() if window is not None},
        {"held": sl.collect("number")},
        watermark=sl.bounded(delay),
    )
    op, found, number = sl.Operator(spec), list[pa.Table](), 0
    for batch in batches:
        rows = [{"t": BEGUN + t, "mark": mark, "number": number + at} for at, (t, mark) in enumerate(batch)]
        number += len(batch)
        out = op.push(pa.Table.from_pylist(rows))
        assert not out.stats.late
        found.append(out.windows)
    found.append(op.flush().windows)
    rows = pa.concat_tables(found).to_pylist()
    return [row["held"] for row in sorted(rows, key=lambda row: row["window_end"]) if row["window"] == "marks"]


@pytest.mark.parametrize("beside", BESIDE)
def test_rows_of_two_batches_that_seem_to_be_adjacent(beside: str) -> None:
    """Waiting rows are numbered again as they are joined: those of two batches may have numbers in turn."""
    batches = [
        [(15, True)],
        [(15, False), (0, False), (0, False)],
        [(17, True)],
        [(23, True), (24, False), (44, True)],
        [(34, False)],
        [(84, False)],
    ]
    assert collected(batches, 30, beside) == [[2, 3], [0, 1], [4], [5, 6, 8], [7, 9]]


@pytest.mark.parametrize("beside", BESIDE)
def test_rows_between_marks_whatever_the_batches(beside: str) -> None:
    for case in range(CASES):
        chance = random.Random(case)
        newest, rows = 0, list[Row]()
        for _ in range(chance.randint(5, 16)):
            newest += chance.choice([0, 1, 7, 20])
            rows.append((max(newest - chance.choice([0, 0, 1, 15, 30]), 0), chance.random() < 0.4))
        batches, at = list[list[Row]](), 0
        while at < len(rows):
            size = chance.choice([1, 1, 2, 3])
            batches.append(rows[at : at + size])
            at += size
        assert collected(batches, 60, beside) == between_marks(rows), (case, batches)
