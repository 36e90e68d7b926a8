"""Snapshots whose checksums are right, but whose numbers point outside of their tables: refused before a kernel reads.

Such bytes are not an accident of a disk. Another library, or another version of this one, has written them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import slicing as sl
from slicing.cells.lists import Lists
from slicing.cells.table import Cells
from slicing.kernels.cells import CODE, LEVEL
from slicing.lifecycle import snapshot
from slicing.lifecycle.in_range import OutOfRange, check_state
from slicing.lifecycle.state import State
from slicing.query.watermark import punctuated
from slicing.system.arrays import Ints
from slicing.windows.rows.row_table import RowTable

FAR = 1 << 40

Damage = Callable[[State], State]


def rows(start: int) -> pa.RecordBatch:
    times = 1_700_000_000_000_000_000 + np.arange(start, start + 20) * 10**9
    words = pa.array([f"word {n % 5}" for n in range(20)])
    return pa.record_batch(
        {"t": times, "k": np.arange(20) % 3, "v": np.arange(20), "s": words, "mark": np.zeros(20, np.bool_)}
    )


def operator(**changes: Any) -> sl.Operator:
    given = {"windows": {"w": sl.tumbling(15 * 10**9)}, "aggs": {"n": sl.count()}, "watermark": sl.bounded(8 * 10**9)}
    op = sl.Operator(sl.Spec("t", by=["k"], **(given | changes)))
    for start in (0, 20, 10):  # the last ones are late
        op.push(rows(start))
    return op


def in_store(of_cells: Callable[[Cells], Cells]) -> Damage:
    def damaged(state: State) -> State:
        first, *others = state.store.runs
        return state.but(store=replace(state.store, runs=(of_cells(first), *others)))

    return damaged


def with_cell(cells: Cells, column: int, number: int) -> Cells:
    meta = cells.meta.copy()
    meta[0, column] = number
    return replace(cells, meta=meta)


def in_cells(column: int, number: int) -> Damage:
    return in_store(lambda cells: with_cell(cells, column, number))


def in_block(word: int, number: int) -> Damage:
    def damaged(cells: Cells) -> Cells:
        first, *others = cells.blocks
        assert isinstance(first, np.ndarray)
        block = first.copy()
        block[0, word] = number
        return replace(cells, blocks=(block, *others))

    return in_store(damaged)


def in_lists(at: Callable[[Ints], Ints]) -> Damage:
    def damaged(cells: Cells) -> Cells:
        first, *others = cells.blocks
        assert isinstance(first, Lists)
        return replace(cells, blocks=(replace(first, at=at(first.at)), *others))

    return in_store(damaged)


def in_group(of_group: Damage) -> Damage:
    return lambda state: state.but(groups=(of_group(state.groups[0]), *state.groups[1:]))


def in_marks(state: State) -> State:
    return state.but(marks=replace(state.marks, code=state.marks.code + FAR))


def in_waiting_rows(state: State) -> State:
    run, *others = state.rows.waiting
    assert run.code is not None
    code = run.code.copy()
    code[0] = -1
    return state.but(rows=replace(state.rows, waiting=(replace(run, code=code), *others)))


def in_waiting_values(state: State) -> State:
    run, *others = state.rows.waiting
    return state.but(rows=replace(state.rows, waiting=(replace(run, ranks={"s": run.ranks["s"] + FAR}), *others)))


def in_slices_of_rows(state: State) -> State:
    run, *others = state.rows.final.runs
    assert isinstance(run, RowTable)
    hurt = replace(run, cells=with_cell(run.cells, CODE, FAR))
    return state.but(rows=replace(state.rows, final=replace(state.rows.final, runs=(hurt, *others))))


def in_slices_of_stream(state: State) -> State:
    stream, *others = state.rows.streams
    run, *more = stream.store.runs
    hurt = replace(stream, store=replace(stream.store, runs=(with_cell(run, CODE, FAR), *more)))
    return state.but(rows=replace(state.rows, streams=(hurt, *others)))


def in_passed_cells(state: State) -> State:
    assert state.passed is not None
    return state.but(passed=replace(state.passed, part_cells=with_cell(state.passed.part_cells, CODE, -1)))


def in_revisions(state: State) -> State:
    assert state.revisions.code.size
    return state.but(revisions=replace(state.revisions, code=state.revisions.code - FAR))


def in_passed(name: str, column: int) -> Damage:
    def damaged(state: State) -> State:
        assert state.passed is not None
        facts = getattr(state.passed, name).copy()
        facts[0, column] = FAR
        return state.but(passed=replace(state.passed, **{name: facts}))

    return damaged


def without_facts(state: State) -> State:
    assert state.passed is not None
    return state.but(passed=replace(state.passed, rows=state.passed.rows[:-1]))


def marked() -> sl.Operator:
    op = operator(watermark=punctuated("mark", by="k"))
    op.advance(marks=pa.table({"t": [rows(20)["t"][5].as_py()], "k": [1]}))
    assert op._state is not None and op._state.groups
    return op


SESSIONS = {"windows": {"w": sl.session(2 * 10**9), "v": sl.session(50 * 10**9)}}
RANKS = {"aggs": {"low": sl.min("s")}}
KEPT = {"windows": {"w": sl.rows(7)}}
SLICED = {"windows": {"w": sl.punctuation("mark")}}
STREAM = {"windows": {"w": sl.rows(70, per_key=False)}}
REVISED = {"allowed_lateness": 100 * 10**9, "emit": "updates"}
AT_ROWS = {"trigger": sl.after_count(7), "emit": "updates"}


@pytest.mark.parametrize(
    ("changes", "damage", "told"),
    [
        ({}, in_cells(CODE, FAR), "keys of cells are"),
        ({}, in_cells(CODE, -1), "keys of cells are -1 to"),
        (SESSIONS, in_cells(LEVEL, FAR), "levels of cells are"),
        (RANKS, in_block(1, FAR), "values of column 's' are"),
        (KEPT, in_waiting_rows, "keys of rows are -1 to"),
        (KEPT | RANKS, in_waiting_values, "values of column 's' in rows are"),
        (SLICED, in_slices_of_rows, "keys of cells are"),
        (STREAM, in_slices_of_stream, "keys of cells are"),
        (REVISED, in_revisions, "keys of windows that were revised are"),
        (AT_ROWS, in_passed("windows", 3), "keys of windows that are reported at rows are"),
        (AT_ROWS, in_passed("windows", 0), "windows that are reported at rows are"),
        (AT_ROWS, in_passed("parts", 0), "windows of cells are"),
        (AT_ROWS, in_passed_cells, "keys of cells are -1 to"),
        (AT_ROWS, without_facts, "cells of windows that are reported at rows, and"),
    ],
)
def test_numbers_outside_of_their_tables_are_refused(changes: dict[str, Any], damage: Damage, told: str) -> None:
    refused(operator(**changes), damage, told)


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (in_marks, "keys with marks are"),
        (in_group(in_cells(CODE, FAR)), "keys of cells are"),
    ],
)
def test_those_of_keys_with_marks_are_refused_too(damage: Damage, told: str) -> None:
    refused(marked(), damage, told)


@pytest.mark.parametrize(
    ("at", "told"),
    [
        (lambda at: at + FAR, "lists of values begin or end outside"),
        (lambda at: at - at[0] - 1, "lists of values begin or end outside"),
        (lambda at: at[::-1], "lists of values begin or end outside"),
        (lambda at: at[:-1], "cells, and partials of"),
    ],
)
def test_lists_outside_of_their_items_are_refused(at: Callable[[Ints], Ints], told: str) -> None:
    """Arrow writes no such lists, but reads them."""
    state = operator(aggs={"m": sl.median("v")})._state
    assert state is not None
    check_state(state)
    with pytest.raises(OutOfRange, match=told):
        check_state(in_lists(at)(state))


def refused(op: sl.Operator, damage: Damage, told: str) -> None:
    state = op._state
    assert state is not None
    sound = snapshot.write(op.spec, state, snapshot.NOTHING_YET, False)
    assert sl.Operator.restore(op.spec, sound).snapshot() == sound
    with pytest.raises(sl.SnapshotError, match=f"is not one that this library wrote: .*{told}"):
        sl.Operator.restore(op.spec, snapshot.write(op.spec, damage(state), snapshot.NOTHING_YET, False))
