"""Checks what a snapshot says: numbers that kernels use as positions in an array, and the shapes of tables.

They are checked when they come from outside. A kernel does not check, and would read or write past the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from slicing.cells.blocks import Block, identity
from slicing.cells.lanes import Lane
from slicing.cells.lists import Lists
from slicing.cells.ranked import CellOf, map_ranks
from slicing.cells.table import Cells
from slicing.cells.unread import Unread
from slicing.columns.keys import KeyTable
from slicing.kernels.cells import FIRST, LEVEL
from slicing.lifecycle.state import State
from slicing.query.plan import Plan
from slicing.storage.row_panes import KEY, OF, WINDOW, RowPanes
from slicing.system.arrays import Ints
from slicing.windows.rows.row_table import RowTable


class OutOfRange(ValueError):
    """A number that is not a position in the table it points into."""


def check_state(state: State) -> None:
    """Refuse a state with numbers that point outside of its own tables."""
    _check_within(state.marks.code, _codes(state.keys), "keys with marks")
    for group in state.groups:
        check_state(group)
    plan, rows = state.plan, state.rows
    codes = _codes(state.keys)
    stores = (*state.stores, *(waiting.store for waiting in state.postponed))
    runs = [run for store in stores for run in store.runs]
    for cells in runs:
        _check_cells(cells, plan.lanes, codes)
        if cells.meta.shape[1] != plan.cells.words:
            raise OutOfRange(f"cells have {cells.meta.shape[1]} numbers each, and the spec's windows need other ones")
        _check_within(cells.meta[:, LEVEL:FIRST], plan.gaps.size, "levels of cells")  # of sessions
    of_rows = [run.cells for run in rows.final.runs if isinstance(run, RowTable)]
    for cells in of_rows:
        _check_cells(cells, plan.lanes, codes)
    for stream in rows.streams:
        for cells in stream.store.runs:
            _check_cells(cells, stream.store.plan.lanes, codes)
    tables = [] if state.passed is None else [*state.passed.tables]
    if state.passed is not None:
        _check_passed(state.passed, codes)
    _check_within(state.revisions.code, codes, "keys of windows that were revised")
    for waiting in (*rows.waiting, *(run.rows for run in rows.final.runs if not isinstance(run, RowTable))):
        if waiting.code is not None:
            _check_within(np.asarray(waiting.code), codes, "keys of rows")
        for name, rank in waiting.ranks.items():
            size = max(len(state.pools[name]), 1)  # nulls have rank 0, even if there are no values
            _check_within(rank, size, f"values of column {name!r} in rows")
    _check_ranks(plan, state, [*runs, *of_rows, *tables])


def _check_passed(known: RowPanes, codes: int) -> None:
    """Check the rows and windows of panes at rows."""
    for facts, width, cells in ((known.rows, 4, known.row_cells), (known.parts, 3, known.part_cells)):
        if facts.shape != (len(cells), width):
            raise OutOfRange(
                f"there are {len(cells)} cells of windows that are reported at rows, and {len(facts)} facts"
            )
        _check_cells(cells, known.plan.lanes, codes)
    _check_within(known.windows[:, KEY], codes, "keys of windows that are reported at rows")
    _check_within(known.windows[:, WINDOW], len(known.plan.names), "windows that are reported at rows")
    _check_within(known.parts[:, OF], len(known.windows), "windows of cells")


def _codes(keys: KeyTable | None) -> int:
    return 1 if keys is None else len(keys)


def _check_ranks(plan: Plan, state: State, tables: Iterable[Cells]) -> None:
    for name in plan.ranked:
        size = max(len(state.pools[name]), 1)  # nulls have rank 0, even if there are no values at all

        def check(words: Ints, complemented: bool, cell: CellOf, name: str = name, size: int = size) -> Ints:
            _check_within(~words if complemented else words, size, f"values of column {name!r}")
            return words

        for cells in tables:
            map_ranks(plan.lanes, cells, name, check)


def _check_cells(cells: Cells, lanes: Sequence[Lane], codes: int) -> None:
    _check_within(cells.code, codes, "keys of cells")
    if isinstance(cells, Unread):  # its partials have the spec's widths, and are no positions
        return
    for lane, block in zip(lanes, cells.blocks, strict=True):
        _check_block(lane, block, len(cells))


def _check_block(lane: Lane, block: Block, cells: int) -> None:
    empty = identity(lane, 0)
    items, wanted = (b.items if isinstance(b, Lists) else b for b in (block, empty))
    if isinstance(block, Lists) != isinstance(empty, Lists) or items.shape[1] != wanted.shape[1]:
        raise OutOfRange("the partials of a lane have another width than the spec's")
    if isinstance(block, Lists):
        _check_lists(block)
    if len(block) != cells:
        raise OutOfRange(f"there are {cells} cells, and partials of {len(block)}")


def _check_lists(lists: Lists) -> None:
    at = lists.at
    if not at.size or at[0] < 0 or at[-1] > len(lists.items) or (np.diff(at) < 0).any():
        raise OutOfRange("lists of values begin or end outside of their items")


def _check_within(numbers: Ints, size: int, what: str) -> None:
    if numbers.size and not (numbers.min() >= 0 and numbers.max() < size):
        raise OutOfRange(f"{what} are {numbers.min()} to {numbers.max()}, and there are {size}")
