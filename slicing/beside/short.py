"""Rows that make a window of fewer than ``n`` rows, as no more come before them: ``sl.attach(min_rows=)``.

Their ranks serve as their times, so that the window of a row is that of the last ``n`` ranks, however few there are.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate, chain

import numpy as np
import pyarrow as pa

from slicing.beside.answers import Question, Rows, all_at_once, answer_of_each, makes
from slicing.columns.arrow_out import array_of
from slicing.columns.bits import as_numpy
from slicing.columns.dictionaries import some_of
from slicing.columns.names import free
from slicing.columns.values import taken
from slicing.query.spec import Spec
from slicing.query.spec_checks import AnyWindow
from slicing.system.arguments import at_least_one
from slicing.system.arrays import Ints
from slicing.windows.rows.per_row import per_row
from slicing.windows.rows.row_count import RowCount


def check(least: object, windows: Mapping[str, AnyWindow]) -> None:
    """Raise if no row makes a window of a number of rows, or if a window never has so many."""
    number = at_least_one(least, "min_rows", ", or None")
    made = {name: w for name, w in windows.items() if isinstance(w, RowCount) and (makes(w) or w.n == 1)}
    if not made:
        raise ValueError(
            f"min_rows is for windows of a number of rows at each row, sl.rows(n, every=1); got {number} and windows "
            f"{', '.join(map(repr, windows.values()))}"
        )
    for name, window in made.items():
        if window.by_arrival:
            raise ValueError(f"min_rows is for rows in order of time; got windows[{name!r}] = {window!r}")
        if number > window.n:
            raise ValueError(f"min_rows={number} is more than windows[{name!r}] has: {window!r}")


class Short:
    """The rows with at least ``least`` rows, but fewer than ``n``, up to them, and their answers."""

    def __init__(self, rows: Rows, name: str, window: RowCount, least: int, given: pa.Schema, threads: int) -> None:
        rank = rows.rank(window.per_key, by_time=True)
        near = np.flatnonzero(rank < window.n - 1)
        enough = np.flatnonzero(rank[near] >= least - 1)
        self._at = near[enough] if rows.at is None else rows.at[near[enough]]
        place = free("place", {*rows.spec.columns(), *rows.spec.aggs})
        question = Question.of(_by_place(rows.spec, name, min(window.n, max(near.size, 1)), place))
        if window.per_key and near.size == rank.size <= window.n:  # a range holds all rows before: these are in order
            rank = rows.rank(per_key=False, by_time=True)
        short = Rows.of(question, _chosen(rows, near, place, rank))
        try:
            results = short.answered(question, threads)
        except OverflowError as error:
            said = str(error).partition(" in window ")[0]
            raise OverflowError(
                f"{said} in window {name!r} of a row with fewer than {window.n} rows; use on_overflow='null' or 'wrap'"
            ) from None
        self._found, self._answers = answer_of_each(short, results, name, question.spec.windows[name], given)
        self._enough, self._count = enough, short.count

    def put(self, column: pa.Array | pa.ChunkedArray, agg: str) -> pa.ChunkedArray:
        """The answers of all rows, with those of these rows in their places."""
        answers, found, size = self._answers[agg], self._found, self._at.size
        if isinstance(found, int) and _follow(self._enough):
            answers = answers.slice(int(self._enough[0]) - found, size)
        else:
            position = np.arange(self._count) - found if isinstance(found, int) else as_numpy(found)
            answers = some_of(answers, array_of(position.take(self._enough)))
        if _follow(self._at):
            first = int(self._at[0])
            return _together(column.slice(0, first), answers, column.slice(first + size))
        number = np.arange(len(column))
        number[self._at] = len(column) + np.arange(size)
        return some_of(_together(column, answers), array_of(number))


def _follow(ascending: Ints) -> bool:
    """Whether these are rows that follow each other."""
    return ascending.size > 0 and bool(ascending[-1] - ascending[0] + 1 == ascending.size)


def _together(*parts: pa.Array | pa.ChunkedArray) -> pa.ChunkedArray:
    chunks = [part.chunks if isinstance(part, pa.ChunkedArray) else [part] for part in parts]
    return pa.chunked_array([*chain(*chunks)], parts[0].type)


def _by_place(spec: Spec, name: str, rows: int, place: str) -> Spec:
    """The query of these rows, whose ranks are their times."""
    return all_at_once(spec, time=place, windows={name: per_row(rows)}, sequence=None)


def _chosen(rows: Rows, near: Ints, place: str, rank: Ints) -> list[pa.RecordBatch]:
    """These rows, with their ranks."""
    found = []
    for batch, begin in zip(rows.columns, accumulate(map(len, rows.columns), initial=0), strict=False):
        own = near[slice(*near.searchsorted((begin, begin + len(batch))).tolist())]
        some = batch.slice(int(own[0]) - begin, own.size) if _follow(own) else taken(batch, own - begin)
        found.append(pa.RecordBatch.from_arrays([*some.columns, array_of(rank.take(own))], [*some.schema.names, place]))
    return found
