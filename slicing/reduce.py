"""Rows to cells: the slicer and the pre-aggregation of one batch.

Each row finds its slot (an edge interval of the batch's span), then its cell (slot and key), and one kernel a lane
reduces rows into cells. Rows in time order without keys are runs, reduced with SIMD; so are, by masks, rows out of
order while a few thousand neighbours touch few slots. All other rows are scattered, some thousand at a time so that
their cells stay in the cache: over a dense grid of slots and keys while that is no larger than the batch, and over the
cells that occur when it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
import numpy.typing as npt

from slicing.batch import ALL_VALID, BLOCK, Rows
from slicing.columns.key_tables import Codes, numbered
from slicing.columns.lazy import lazy
from slicing.columns.order import order_by
from slicing.columns.values import NOWHERE, SIGN_BIT, TOP
from slicing.kernels import combine as kinds
from slicing.kernels import reduce as k
from slicing.kernels.cells import CODE, END, FIRST, LAST, LEVEL, ROWS
from slicing.kernels.slice import grid_cells, pieces
from slicing.slices.blocks import Lifting
from slicing.slices.cells import Cells, fused, merged, sorted_cells
from slicing.slices.lanes import Lane
from slicing.system.threads import side_by_side
from slicing.windows.bounds import BEGIN

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

CHUNK = 1 << 15  # rows scattered at a time
LONG = 4096  # rows of a slot that are worth a turn of their own
MOST_PIECES = 12  # slots a block of rows may touch before scattering is cheaper than a masked pass for each


def _numbered(cell: Ints, size: int) -> tuple[_Scattered, Ints]:
    """Cells of a grid that few rows fill: numbered as they occur, in order; and the ones that do."""
    if size >= 1 << 32:  # too many to sort by counting
        number, found = numbered(cell)
        order = np.argsort(found)
        place = np.empty_like(order)
        place[order] = np.arange(order.size)
        return _Scattered(place[number], None), found[order]
    order = order_by(cell)
    ordered = cell[order]
    first = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    rows = np.diff(np.append(first, cell.size))
    cell[order] = np.repeat(np.arange(first.size), rows)
    return _Scattered(cell, rows), ordered[first]


def reduce_rows(rows: Rows) -> Cells:
    """All rows as level-0 cells; every row must be at or after the horizon, where all edges live."""
    plan = rows.plan
    if not len(rows):
        return Cells.empty(plan.lanes, plan.fragments)
    if len(rows.parts) > 1 and rows.span:
        tables = side_by_side(reduce_rows, rows.parts)
        return reduce(lambda older, newer: merged(older, newer, plan.lanes, plan.gaps), tables)
    edges, bounds = rows.cuts if rows.code is None and rows.span[2] else (rows.edges, NOWHERE)
    ends = plan.edges.next_live(edges - 1, BEGIN) if plan.grid else edges
    if bounds.size:
        runs = _Segments(bounds[:-1], bounds[1:])
        held = runs.last > runs.first
        if not held.all():
            ends, runs = ends[held], _Segments(runs.first[held], runs.last[held])
        return _assemble(rows, ends, np.zeros(ends.size, np.int64), runs)
    keys = max(rows.codes, 1)
    grid = Grid(rows, edges, keys)
    if edges.size * keys > max(len(rows), 1024):
        if ends[0] == ends[-1] and rows.code is not None:  # one slice: its cells lie by key, then by time
            cell = grid.slots()
            cell += rows.code * np.int64(edges.size)
            some, found = _numbered(cell, edges.size * keys)
            return _assemble(rows, ends[found % edges.size], found // edges.size, some)
        some, found = _numbered(grid.cell(), edges.size * keys)
        return _assemble(rows, ends[found // keys], found % keys, some)
    place = grid if rows.code is not None else (_Pieces.of(grid) or grid)
    if keys == 1:
        return _assemble(rows, ends, np.zeros(ends.size, np.int64), place)
    return _assemble(rows, ends[:, None], np.arange(keys), place)


def reduce_suspects(rows: Rows, ends: Ints, level: Ints) -> Cells:
    """Few rows that may be late for something, each with its slice and level of its own."""
    plan = rows.plan
    code = np.zeros(len(rows), np.int64) if rows.code is None else rows.code
    cell = np.arange(len(rows))
    cells = _lift(rows, ends, code, _Scattered(cell, np.ones(len(rows), np.int64)))
    if plan.fragments:
        cells = cells.with_meta(LEVEL, level)
    return fused(sorted_cells(cells), plan.lanes, plan.gaps)


def lift_rows(rows: Rows) -> Cells:
    """Each row as a cell of its own (END: its time), in the order they came."""
    code = np.zeros(len(rows), np.int64) if rows.code is None else rows.code
    cells = _lift(rows, rows.time, code, _Scattered(np.arange(len(rows)), np.ones(len(rows), np.int64)))
    return replace(cells, meta=np.ascontiguousarray(cells.meta[:, : ROWS + 1]))


@dataclass(frozen=True)
class _Scattered:
    """A cell for each row, in any order; how many rows each has, where that is known."""

    of_row: Ints
    rows: Ints | None

    def counts(self) -> Ints | None:
        return self.rows

    def cell(self) -> Ints:
        return self.of_row

    def chunks(self) -> Iterator[Chunk]:
        for first in range(0, self.of_row.size, CHUNK):
            chunk = slice(first, first + CHUNK)
            yield chunk, self.of_row[chunk].astype(np.int32), 0


def lift_ranges(rows: Rows, first: Ints, last: Ints, lanes: Sequence[Lane] | None = None) -> Cells:
    """Rows in order, each range of a key alone, as cells side by side (END: the last time), of some lanes or all."""
    code = np.zeros(first.size, np.int64) if rows.code is None else rows.code[first]
    cells = _lift(rows, rows.time[last - 1], code, _Segments(first, last), lanes)
    return replace(cells, meta=np.ascontiguousarray(cells.meta[:, : ROWS + 1]))


@dataclass(frozen=True)
class _Segments:
    """Rows sorted by cell."""

    first: Ints
    last: Ints

    def counts(self) -> Ints:
        return self.last - self.first

    def cell(self) -> Ints:
        return np.repeat(np.arange(self.first.size), self.counts())

    def chunks(self) -> Iterator[Chunk]:
        return _Scattered(self.cell(), None).chunks()

    def runs(self) -> Ints:
        """As pieces."""
        runs = np.empty((self.first.size, 5), np.int64)
        runs[:, 0], runs[:, 1], runs[:, 2] = self.first, self.last, np.arange(self.first.size)
        runs[:, 3], runs[:, 4] = ~TOP, TOP
        return runs


@dataclass(frozen=True)
class Grid:
    """Cells slot * keys + code, made as they are asked for."""

    of: Rows
    edges: Ints
    keys: int

    def counts(self) -> None:
        return None

    def cell(self) -> Ints:
        cell = np.empty(len(self.of), np.int64)
        self._fill(slice(None), cell)
        return cell

    def slots(self) -> Ints:
        """Of each row."""
        slot = np.empty(len(self.of), np.int64)
        grid_cells(self.of.time, self.edges, self._width, NO_CODES, np.int64(1), slot)
        return slot

    def chunks(self) -> Iterator[Chunk]:
        rows, code = len(self.of), self.of.code
        if code is not None and self.edges.size == 1:
            for first in range(0, rows, CHUNK):
                yield slice(first, first + CHUNK), code[first : first + CHUNK], 0
            return
        if code is not None and self.of.span[2] and self.edges.size * LONG <= rows:
            bounds = np.append(0, np.searchsorted(self.of.time, self.edges)).tolist()
            for slot in range(self.edges.size):  # the codes are cells of the slot
                for first in range(bounds[slot], bounds[slot + 1], CHUNK):
                    chunk = slice(first, min(first + CHUNK, bounds[slot + 1]))
                    yield chunk, code[chunk], slot * self.keys
            return
        buffer = np.empty(min(CHUNK, rows), np.int64)
        for first in range(0, rows, CHUNK):
            chunk = slice(first, first + CHUNK)
            cell = buffer[: rows - first]
            self._fill(chunk, cell)
            yield chunk, cell.astype(np.int32), 0

    def _fill(self, chunk: slice, out: Ints) -> None:
        code = NO_CODES if self.of.code is None else self.of.code[chunk]
        grid_cells(self.of.time[chunk], self.edges, self._width, code, np.int64(self.keys), out)

    @lazy
    def _width(self) -> np.int64:
        """Between neighbouring edges, 0 where that varies."""
        regular, edges = self.of.plan.edges.regular_width(self.of.plan.grid), self.edges
        if regular is None or edges[-1] - edges[0] != (edges.size - 1) * regular[0]:
            return np.int64(0)
        return np.int64(regular[0])


@dataclass(frozen=True)
class _Pieces:
    """Rows of a grid without keys that touch few slots at a time: runs of rows, each of which holds some of a cell."""

    grid: Grid
    found: Ints

    @staticmethod
    def of(grid: Grid) -> _Pieces | None:
        """None where they touch many."""
        lows, highs = grid.of.extremes
        found = np.empty((MOST_PIECES * lows.size, 5), np.int64)
        n = pieces(len(grid.of), BLOCK, lows, highs, grid.edges, found)
        return None if n < 0 else _Pieces(grid, found[:n])

    def counts(self) -> None:
        return None

    def cell(self) -> Ints:
        return self.grid.cell()

    def chunks(self) -> Iterator[Chunk]:
        return self.grid.chunks()

    def runs(self) -> Ints:
        return self.found


_Place = _Segments | _Pieces | Grid | _Scattered
Chunk = tuple[slice, Codes, int]  # some rows, their cells, and what to add to these
NO_CODES: Codes = np.empty(0, np.int32)


def _assemble(rows: Rows, ends: Ints, code: Ints, place: _Place) -> Cells:
    """Reduce, drop the cells that stayed empty, put slots that share a slice together."""
    plan = rows.plan
    cells = _lift(rows, ends, code, place)
    if isinstance(place, Grid | _Pieces):
        held = np.flatnonzero(cells.rows)
        if held.size < len(cells):
            cells = cells.take(held)
    if plan.grid and len(cells) > 1:
        return fused(sorted_cells(cells), plan.lanes, plan.gaps)
    return cells


def _lift(rows: Rows, ends: Ints, code: Ints | Codes, place: _Place, chosen: Sequence[Lane] | None = None) -> Cells:
    """Ends and codes of the cells may be given as the sides of a grid."""
    plan = rows.plan
    shape = ends.shape if ends.shape == code.shape else np.broadcast_shapes(ends.shape, code.shape)
    size, width = math.prod(shape), 6 if plan.fragments else 3
    meta = np.empty((size, width), np.int64)
    cells = meta.reshape(*shape, width)
    cells[..., END], cells[..., CODE] = ends, code
    order = Order(rows)
    made = [
        Lifted(rows, lane, size, order)
        if isinstance(lane.kind, int)
        else lane.kind.lifted(lane, _lifting(rows, lane, place, size, order))
        for lane in (plan.lanes if chosen is None else chosen)
    ]
    lanes = [lane for lane in made if isinstance(lane, Lifted)]
    waiting = [lane for lane in lanes if not lane.by_runs(place)]
    counts = place.counts()
    counter = None if counts is not None else next((lane.block for lane in lanes if lane.counts_rows), None)
    counted = None
    if counts is None and counter is None:
        counter = np.zeros((size, 1), np.int64)
        if isinstance(place, _Pieces):
            k.masked_count(place.found, rows.time, ALL_VALID, counter)
        else:
            counted = counter
    spans = None
    if plan.fragments:
        meta[:, LEVEL] = 0
        if isinstance(place, _Segments):
            meta[:, FIRST], meta[:, LAST] = rows.time[place.first], rows.time[place.last - 1]
        elif isinstance(place, _Pieces):
            first, last = np.full(size, TOP), np.full(size, ~TOP)
            k.masked_span(place.found, rows.time, first, last)
            meta[:, FIRST], meta[:, LAST] = first, last
        else:
            spans = np.empty((size, 2), np.int64)
            spans[:, 0], spans[:, 1] = TOP, ~TOP
    if waiting or counted is not None or spans is not None:
        for chunk, cell, base in place.chunks():
            for lane in waiting:
                lane.scatter(chunk, cell, base)
            if counted is not None:
                k.scatter_count(cell, counted[base:])
            if spans is not None:
                k.scatter_span(cell, rows.time[chunk], spans[base:])
    if spans is not None:
        meta[:, FIRST : LAST + 1] = spans
    if counts is None:
        assert counter is not None
        counts = counter[:, 0]
    meta[:, ROWS] = counts
    return Cells(meta, tuple(lane.partials(counts) if isinstance(lane, Lifted) else lane for lane in made))


class Order:
    """The columns that order rows, made once where a lane asks for them."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._made: tuple[Ints, Ints, Ints] | None = None

    def __call__(self) -> tuple[Ints, Ints, Ints]:
        if self._made is None:
            self._made = self._rows.time, self._rows.sequence(), self._rows.arrivals()
        return self._made


def _lifting(rows: Rows, lane: Lane, place: _Place, size: int, order: Order) -> Lifting:
    """A batch as kinds that are not numbers take it: a row counts where none of its values is null."""
    masks = [m for m in (rows.valid(f.column, lane.flag) for f in lane.feeds) if m is not ALL_VALID]
    valid = np.logical_and.reduce(masks).view(np.uint8) if masks else ALL_VALID
    feeds = [rows.feed(f) for f in lane.feeds]

    def in_order() -> tuple[Ints, Ints, Ints]:
        time, sequence, arrival = order()
        return time, sequence, arrival if rows.plan.arrival else np.zeros_like(arrival)

    return Lifting(place.cell, size, isinstance(place, _Segments), valid, feeds, in_order)


class Lifted:
    """The partials of one lane in the making."""

    def __init__(self, rows: Rows, lane: Lane, size: int, order: Order, block: Ints | None = None) -> None:
        """``block``: partials to go on with, of one cell more."""
        self._rows, self._lane, self._size, self._order = rows, lane, size, order
        self._valid = rows.valid(lane.feeds[0].column if lane.feeds else None, lane.flag)
        self._feeds = [rows.feed(f) for f in lane.feeds if f.form != "valid"]
        self._all_valid = self._valid is ALL_VALID
        self._returned = rows.valid(lane.feeds[1].column, None) if lane.kind == kinds.ARG else ALL_VALID
        self._settles = False
        if block is not None:
            self.block = block

    @lazy
    def block(self) -> Ints:
        """Empty partials at first; one cell more takes the rows that do not count."""
        block: Ints = kinds.identity(self._lane.kind, self._size if self._all_valid else self._size + 1)
        return block

    @property
    def counts_rows(self) -> bool:
        """Whether its kernel counts all rows of each cell."""
        return self._all_valid and self._lane.kind != kinds.COUNT

    def by_runs(self, place: _Place) -> bool:
        """Reduce all rows if that needs no cell for each."""
        kind = self._lane.kind
        if kind == kinds.COUNT and self._all_valid:
            return True
        if isinstance(place, _Segments) and self._all_valid:
            return self._by_segments(place)
        if kind not in _MASKED or not isinstance(place, _Segments | _Pieces):
            return False
        block, masked = self.block, (place.runs(), self._rows.time, self._valid)
        if kind == kinds.COUNT:
            k.masked_count(*masked, block)
            return True
        x = self._feeds[0]
        if kind == kinds.BASIC_F:
            k.masked_basic_f(*masked, x, x.view(np.int64), block, block.view(np.float64))
        elif kind == kinds.BASIC_I:
            k.masked_basic_i(*masked, x, block)
        else:
            k.masked_extremes(*masked, x, block)
        return True

    def _by_segments(self, place: _Segments) -> bool:
        kind, rows = self._lane.kind, self._rows
        runs, x = (place.first, place.last), self._feeds[0]
        if kind in _SEGMENTED:
            self.block = block = kinds.room(kind, self._size)
        if kind == kinds.BASIC_F:
            k.segment_basic_f(*runs, x, x.view(np.int64), block, block.view(np.float64))
        elif kind == kinds.BASIC_I:
            k.segment_basic_i(*runs, x, block)
        elif kind == kinds.EXTREMES:
            k.segment_extremes(*runs, x, block)
        elif kind == kinds.MOMENTS:
            k.segment_moments(*runs, x, block, block.view(np.float64))
        elif kind in (kinds.FIRST, kinds.LAST) and rows.plan.arrival and rows.plan.spec.sequence is None:
            row = place.first if kind == kinds.FIRST else place.last - 1  # of rows in order, as they came
            arrival = row + rows.arrival if isinstance(rows.arrival, int) else rows.arrival[row]
            self.block = block = kinds.room(kind, self._size)
            block[:, 0], block[:, 1], block[:, 2] = place.counts(), rows.time[row], 0
            block[:, 3], block[:, 4] = arrival, x[row]
        else:
            return False
        return True

    def scatter(self, chunk: slice, cell: Codes, base: int) -> None:
        """Reduce some rows, whose cells, counted from ``base``, these are."""
        kind, block = self._lane.kind, self.block[base:]
        floats = block.view(np.float64)
        feeds = [feed[chunk] for feed in self._feeds]
        if not self._all_valid:
            cell = np.where(self._valid[chunk].view(np.bool_), cell, self._size - base)
        if kind == kinds.COUNT:
            k.scatter_count(cell, block)
        elif kind == kinds.BASIC_F:
            self._settles = True
            k.scatter_basic_f(cell, feeds[0], feeds[0].view(np.int64), block, floats)
        elif kind == kinds.BASIC_I:
            k.scatter_basic_i(cell, feeds[0], block)
        elif kind == kinds.EXTREMES:
            k.scatter_extremes(cell, feeds[0], block)
        elif kind == kinds.MOMENTS:
            k.scatter_moments(cell, feeds[0], block, floats)
        elif kind == kinds.PRODUCT_F:
            k.scatter_product_f(cell, feeds[0], block, floats)
        elif kind == kinds.PRODUCT_I:
            k.scatter_product_i(cell, *feeds, block, floats)
        elif kind in (kinds.FIRST, kinds.LAST):
            time, sequence, arrival = self._ordered(chunk)
            if not self._rows.plan.arrival:
                arrival = feeds[0].view(np.int64) if kind == kinds.FIRST else ~feeds[0].view(np.int64)
            k.scatter_edge(kind == kinds.LAST, cell, time, sequence, arrival, feeds[0], block)
        elif kind == kinds.ARG:
            time, sequence, arrival = self._ordered(chunk)
            if not self._rows.plan.arrival:
                arrival = feeds[1].view(np.int64)
                if self._returned is not ALL_VALID:
                    arrival = np.where(self._returned[chunk].view(np.bool_), arrival, SIGN_BIT)
            k.scatter_arg(cell, feeds[0], time, sequence, arrival, feeds[1], self._returned[chunk], block)
        elif kind == kinds.EXTREME_COUNT:
            k.scatter_extreme_count(cell, feeds[0], block)
        else:
            raise AssertionError(f"no kernel reduces rows to partials of kind {kind}")

    def _ordered(self, chunk: slice) -> tuple[Ints, Ints, Ints]:
        times, sequence, arrivals = self._order()
        return times[chunk], sequence[chunk], arrivals[chunk]

    def partials(self, counts: Ints) -> Ints:
        """When all rows are in: one partial a cell, of so many rows."""
        if self._lane.kind == kinds.COUNT and self._all_valid:
            return np.ascontiguousarray(counts).reshape(-1, 1)
        block = self.block[: self._size]
        if self._settles:
            k.settle(block.view(np.float64))
        return block


_SEGMENTED = (kinds.BASIC_F, kinds.BASIC_I, kinds.EXTREMES, kinds.MOMENTS)
_MASKED = (kinds.COUNT, kinds.BASIC_F, kinds.BASIC_I, kinds.EXTREMES)
