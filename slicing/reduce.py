"""Rows to cells: the slicer and the pre-aggregation of one batch.

Each row finds its slot (an edge interval of the batch's span), then its cell (slot and key), and one kernel a lane
reduces rows into cells. Rows in time order without keys are segments, reduced with SIMD; otherwise cells are a dense
grid while that is not much larger than the batch, and numbered by sorting when it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slicing.aggs import Feed, Lane
from slicing.blocks import Block, Lifting
from slicing.bounds import BEGIN
from slicing.cells import Cells, fused, sorted_cells
from slicing.kernels import combine as kinds
from slicing.kernels import reduce as k
from slicing.kernels.cells import CODE, END, FIRST, LAST, LEVEL, ROWS
from slicing.kernels.slice import fill_cells, scan, search_slots, uniform_slots
from slicing.plan import Plan
from slicing.values import SIGN_BIT, TOP, float_words

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

BLOCK = 4096
ALL_VALID: Bytes = np.empty(0, np.uint8)


@dataclass(frozen=True)
class Rows:
    """Rows of one batch, ready for kernels: times, key codes and columns as arrays."""

    plan: Plan
    columns: Mapping[str, pa.Array]
    time: Ints
    code: Ints | None  # None: one global group
    codes: int  # codes are below this
    arrival: int | Ints
    ranks: Mapping[str, Ints]

    def __len__(self) -> int:
        return self.time.size

    @cached_property
    def span(self) -> tuple[int, int, bool]:
        """Smallest and largest time, and whether times ascend."""
        low, high, ordered = scan(self.time, BLOCK)
        return int(low), int(high), ordered == len(self)

    def take(self, index: Ints) -> Rows:
        chosen = pa.array(index)
        return replace(
            self,
            columns={name: column.take(chosen) for name, column in self.columns.items()},
            time=self.time[index],
            code=None if self.code is None else self.code[index],
            arrival=self.arrivals()[index],
            ranks={name: ranks[index] for name, ranks in self.ranks.items()},
        )

    def arrivals(self) -> Ints:
        if isinstance(self.arrival, int):
            return np.arange(self.arrival, self.arrival + len(self))
        return self.arrival

    def sequence(self) -> Ints:
        """The tie-breaking column, null first; all alike where the spec has none."""
        name = self.plan.spec.sequence
        if name is None:
            return np.zeros(len(self), np.int64)
        column = self.columns[name]
        if column.type == pa.uint64():
            words = column.fill_null(0).to_numpy(zero_copy_only=False).view(np.int64) ^ SIGN_BIT
        else:
            storage = pa.int64() if column.type.bit_width == 64 else pa.int32()
            integer = column if pa.types.is_integer(column.type) else column.view(storage)
            words = integer.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        if column.null_count:
            words = np.where(column.is_null().to_numpy(zero_copy_only=False), SIGN_BIT, words)
        return words

    def valid(self, column: str | None, flag: str | None) -> Bytes:
        """A byte a row: whether the value is there and the flag lets it in. Empty: all do."""
        masks = [self.columns[column].is_valid()] if column is not None and self.columns[column].null_count else []
        if column is not None and pa.types.is_dictionary(self.columns[column].type):
            masks = [self.columns[column].cast(self.columns[column].type.value_type).is_valid()]
        if flag is not None:
            masks.append(self.columns[flag].fill_null(False))
        if not masks:
            return ALL_VALID
        arrays = [m.to_numpy(zero_copy_only=False) for m in masks]
        return np.logical_and.reduce(arrays).view(np.uint8)

    def feed(self, feed: Feed) -> npt.NDArray[np.generic]:
        """A column in the form a kernel wants."""
        value = self.plan.value_types[feed.column]
        column = self.columns[feed.column]
        if feed.column in self.ranks and feed.form in ("word", "low", "high"):
            ranks = self.ranks[feed.column]
            return ~ranks if feed.form == "high" else ranks
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if feed.form == "float":
            return value.floats(column)
        if feed.form == "log":
            with np.errstate(divide="ignore", invalid="ignore"):
                return np.log(value.floats(column))
        if feed.form in ("limb0", "limb1"):
            return value.limbs(column)[int(feed.form[-1])]
        if feed.form == "unsigned":
            words = value.words(column)
            return words ^ SIGN_BIT if value.type == pa.uint64() else words
        if feed.form in ("low", "high") and value.family == "float":
            words = float_words(value.floats(column) + 0.0)  # -0.0 and 0.0 tie
            return words if feed.form == "low" else np.where(words == TOP, TOP, ~words)
        words = value.words(column)
        return ~words if feed.form == "high" else words


def reduce_rows(rows: Rows) -> Cells:
    """All rows as level-0 cells; every row must be at or after the horizon, where all edges live."""
    plan = rows.plan
    if not len(rows):
        return Cells.empty(plan.lanes, plan.fragments)
    low, high, in_order = rows.span
    edges = plan.edges.between(low, high, rows.time, plan.grid, limit=max(1024, 2 * len(rows)))
    ends = plan.edges.next_live(edges - 1, BEGIN) if plan.grid else edges
    if rows.code is None and in_order:
        bounds = np.concatenate([[0], np.searchsorted(rows.time, edges, "left")])
        held = np.flatnonzero(bounds[1:] > bounds[:-1])
        first, last = bounds[held], bounds[held + 1]
        return _assemble(rows, ends[held], np.zeros(held.size, np.int64), _Segments(first, last))
    slot = _grid_slots(rows, edges) if not in_order else None
    keys = max(rows.codes, 1)
    if edges.size * keys <= max(4 * len(rows), 1024):
        cell = _dense_cells(rows, edges, slot, keys)
        used = np.bincount(cell, minlength=edges.size * keys)
        held = np.flatnonzero(used)
        if held.size * 2 < used.size:  # few of the grid's cells are used: number those
            number = np.zeros(used.size, np.int64)
            number[held] = np.arange(held.size)
            return _assemble(rows, ends[held // keys], held % keys, _Scattered(number[cell], used[held]))
        every_code = np.tile(np.arange(keys), edges.size)
        return _assemble(rows, np.repeat(ends, keys), every_code, _Scattered(cell, used), held)
    if slot is None:
        slot = _grid_slots(rows, edges)
    packed = slot * keys + (0 if rows.code is None else rows.code)
    found, cell, used = np.unique(packed, return_inverse=True, return_counts=True)
    return _assemble(rows, ends[found // keys], found % keys, _Scattered(cell, used))


def reduce_suspects(rows: Rows, ends: Ints, level: Ints) -> Cells:
    """Few rows that may be late for something, each with its slice and level of its own."""
    plan = rows.plan
    code = np.zeros(len(rows), np.int64) if rows.code is None else rows.code
    cell = np.arange(len(rows))
    cells = _lift(rows, ends, code, _Scattered(cell, np.ones(len(rows), np.int64)))
    if plan.fragments:
        cells = cells.with_meta(LEVEL, level)
    return fused(sorted_cells(cells), plan.lanes, plan.gaps)


@dataclass(frozen=True)
class _Segments:
    """Rows sorted by cell."""

    first: Ints
    last: Ints

    def counts(self) -> Ints:
        return self.last - self.first

    def cell(self) -> Ints:
        return np.repeat(np.arange(self.first.size), self.counts())


@dataclass(frozen=True)
class _Scattered:
    """A cell for each row, in any order."""

    of_row: Ints
    rows: Ints

    def counts(self) -> Ints:
        return self.rows

    def cell(self) -> Ints:
        return self.of_row


def _grid_slots(rows: Rows, edges: Ints) -> Ints:
    slot = np.empty(len(rows), np.int64)
    regular = rows.plan.edges.regular_width(rows.plan.grid)
    if regular is not None and edges.size > 1 and edges[-1] - edges[0] == (edges.size - 1) * regular[0]:
        uniform_slots(rows.time, edges[0] - regular[0], np.int64(regular[0]), slot)
    else:
        search_slots(rows.time, edges, slot)
    return slot


def _dense_cells(rows: Rows, edges: Ints, slot: Ints | None, keys: int) -> Ints:
    if slot is not None:
        if rows.code is not None:
            slot *= keys
            slot += rows.code
        return slot
    assert rows.code is not None
    bounds = np.concatenate([[0], np.searchsorted(rows.time, edges, "left")])
    cell = np.empty(len(rows), np.int64)
    fill_cells(bounds, rows.code, np.int64(keys), cell)
    return cell


def _assemble(rows: Rows, ends: Ints, code: Ints, place: _Segments | _Scattered, held: Ints | None = None) -> Cells:
    """Reduce, drop the cells that stayed empty (all but ``held``), put slots that share a slice together."""
    plan = rows.plan
    cells = _lift(rows, ends, code, place)
    if held is not None and held.size < ends.size:
        cells = cells.take(held)
    if plan.grid and len(cells) > 1:
        return fused(sorted_cells(cells), plan.lanes, plan.gaps)
    return cells


def _lift(rows: Rows, ends: Ints, code: Ints, place: _Segments | _Scattered) -> Cells:
    plan = rows.plan
    meta = np.empty((ends.size, 6 if plan.fragments else 3), np.int64)
    meta[:, END], meta[:, CODE], meta[:, ROWS] = ends, code, place.counts()
    if plan.fragments:
        meta[:, LEVEL] = 0
        if isinstance(place, _Segments):
            meta[:, FIRST], meta[:, LAST] = rows.time[place.first], rows.time[place.last - 1]
        else:
            first, last = np.full(ends.size, TOP), np.full(ends.size, ~TOP)
            k.scatter_span(place.of_row, rows.time, first, last)
            meta[:, FIRST], meta[:, LAST] = first, last
    order = _Order(rows)
    return Cells(meta, tuple(_block(rows, lane, place, ends.size, order) for lane in plan.lanes))


class _Order:
    """The columns that order rows, made once where a lane asks for them."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._made: tuple[Ints, Ints, Ints] | None = None

    def __call__(self) -> tuple[Ints, Ints, Ints]:
        if self._made is None:
            self._made = self._rows.time, self._rows.sequence(), self._rows.arrivals()
        return self._made


def _block(rows: Rows, lane: Lane, place: _Segments | _Scattered, size: int, order: _Order) -> Block:
    """The partials of one lane."""
    if not isinstance(lane.kind, int):
        return lane.kind.lifted(lane, _lifting(rows, lane, place, size, order))
    block = kinds.identity(lane.kind, size)
    floats = block.view(np.float64)
    valid = rows.valid(lane.feeds[0].column if lane.feeds else None, lane.flag)
    feeds = [rows.feed(f) for f in lane.feeds if f.form != "valid"]
    if lane.kind == kinds.COUNT:
        if valid is ALL_VALID:
            block[:, 0] = place.counts()
        else:
            k.scatter_count(place.cell(), valid, block)
        return block
    if isinstance(place, _Segments) and valid is ALL_VALID and lane.kind in _SEGMENTED:
        x = feeds[0]
        if lane.kind == kinds.BASIC_F:
            k.segment_basic_f(place.first, place.last, x, x.view(np.int64), block, floats)
        elif lane.kind == kinds.MOMENTS:
            k.segment_moments(place.first, place.last, x, block, floats)
        elif lane.kind == kinds.BASIC_I:
            k.segment_basic_i(place.first, place.last, x, block)
        else:
            k.segment_extremes(place.first, place.last, x, block)
        return block
    cell, x = place.cell(), feeds[0]
    if lane.kind == kinds.BASIC_F:
        k.scatter_basic_f(cell, valid, x, x.view(np.int64), block, floats)
    elif lane.kind == kinds.BASIC_I:
        k.scatter_basic_i(cell, valid, x, block)
    elif lane.kind == kinds.EXTREMES:
        k.scatter_extremes(cell, valid, x, block)
    elif lane.kind == kinds.MOMENTS:
        k.scatter_moments(cell, valid, x, block, floats)
    elif lane.kind == kinds.PRODUCT_F:
        k.scatter_product_f(cell, valid, x, block, floats)
    elif lane.kind == kinds.PRODUCT_I:
        k.scatter_product_i(cell, valid, x, feeds[1], block, floats)
    elif lane.kind in (kinds.FIRST, kinds.LAST):
        time, sequence, arrival = order()
        if not rows.plan.arrival:
            arrival = x.view(np.int64) if lane.kind == kinds.FIRST else ~x.view(np.int64)
        k.scatter_edge(lane.kind == kinds.LAST, cell, valid, time, sequence, arrival, x, block)
    elif lane.kind == kinds.ARG:
        time, sequence, arrival = order()
        x_valid = rows.valid(lane.feeds[1].column, None)
        if not rows.plan.arrival:
            arrival = feeds[1].view(np.int64)
            if x_valid is not ALL_VALID:
                arrival = np.where(x_valid.view(np.bool_), arrival, SIGN_BIT)
        k.scatter_arg(cell, valid, x, time, sequence, arrival, feeds[1], x_valid, block)
    elif lane.kind == kinds.EXTREME_COUNT:
        k.scatter_extreme_count(cell, valid, x, block)
    else:
        raise AssertionError(f"no kernel reduces rows to partials of kind {lane.kind}")
    return block


def _lifting(rows: Rows, lane: Lane, place: _Segments | _Scattered, size: int, order: _Order) -> Lifting:
    """A batch as kinds that are not numbers take it: a row counts where none of its values is null."""
    masks = [m for m in (rows.valid(f.column, lane.flag) for f in lane.feeds) if m is not ALL_VALID]
    valid = np.logical_and.reduce(masks).view(np.uint8) if masks else ALL_VALID
    feeds = [rows.feed(f) for f in lane.feeds]

    def in_order() -> tuple[Ints, Ints, Ints]:
        time, sequence, arrival = order()
        return time, sequence, arrival if rows.plan.arrival else np.zeros_like(arrival)

    return Lifting(place.cell, size, isinstance(place, _Segments), valid, feeds, in_order)


_SEGMENTED = (kinds.BASIC_F, kinds.BASIC_I, kinds.EXTREMES, kinds.MOMENTS)
