"""Reduces rows of one batch to partials, one lane at a time: by whole runs if that is faster, or scattered over
cells."""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter

import numpy as np

from slicing.cells.lanes import Feed, Lane
from slicing.columns.arrow_out import table_room
from slicing.columns.values import SIGN_BIT
from slicing.kernels import combine as kinds
from slicing.kernels.combine import LOW
from slicing.kernels.scatter import (
    resume,
    resume_sums,
    scatter_arg,
    scatter_basic_f,
    scatter_basic_i,
    scatter_count,
    scatter_edge,
    scatter_exact_f,
    scatter_extreme_count,
    scatter_extremes,
    scatter_moments,
    scatter_net,
    scatter_net_sum,
    scatter_product_f,
    scatter_product_i,
    scatter_sums_f,
    scatter_sums_i,
    settle,
    settle_sums,
)
from slicing.kernels.segments import (
    masked_basic_f,
    masked_basic_i,
    masked_count,
    masked_extremes,
    segment_basic_f,
    segment_basic_i,
    segment_basic_narrow,
    segment_extremes,
    segment_moments,
)
from slicing.query.plan import Plan
from slicing.reducing.batch import ALL_VALID, Rows
from slicing.reducing.places import Pieces, Place, Segments, fixed
from slicing.system.arrays import Array, Codes, Ints, read_only
from slicing.system.threads import side_by_side

LINE = 64  # bytes of a cache line
TOGETHER = 1 << 17  # this many rows of a column are widened at a time
PIECE = 256  # this many cells are made at a time: 100 k cells 0.36 -> 0.1 ms


class Sums:
    """Sums in the making, as ``scatter_sums_f`` and ``scatter_sums_i`` have them: three words, the first of which
    counts the rows and the values.

    Sums of floats carry what each addition loses. So they do not depend on the order of rows, but for rounding of the
    result.
    """

    def __init__(self, size: int) -> None:
        self.words = np.zeros((size, 3), np.int64)

    @property
    def nbytes(self) -> int:
        return self.words.nbytes

    def rows(self) -> Ints:
        rows: Ints = self.words[:, 0] & LOW
        return rows

    def partials(self, which: Ints) -> Ints:
        block = np.empty((which.size, 3), np.int64)
        settle_sums(which, self.words, block)
        return block

    def begin(self, which: Ints, rows: Ints, partials: Ints) -> None:
        """Cells without rows go on from these partials of so many rows."""
        resume_sums(which, read_only(rows), read_only(partials), self.words)


class Quads:
    """Partials of floats in the making, in the layout of ``scatter_basic_f``: two cells per cache line."""

    def __init__(self, size: int, kind: int) -> None:
        self.width = len(kinds.IDENTITY[kind])
        room = np.empty(4 * (size + PIECE) + LINE // 8, np.int64)
        first = -room.ctypes.data % LINE // 8
        pieces = -(-size // PIECE)
        if pieces == 1:
            room[first : first + 4 * size] = _NO_ROWS[: 4 * size]
        else:
            room[first : first + 4 * pieces * PIECE].reshape(pieces, 4 * PIECE)[:] = _NO_ROWS
        self.words = room[first : first + 4 * size].reshape(size, 4)
        self.spilt = np.zeros((size, 2))  # costs nothing while nothing is written to it

    @property
    def nbytes(self) -> int:
        return self.words.nbytes + self.spilt.nbytes

    def partials(self, which: Ints) -> Ints:
        block = table_room(which.size, self.width)
        settle(which, self.words, self.spilt, block)
        return block

    def begin(self, which: Ints, partials: Ints) -> None:
        """Cells without rows go on from these partials, which have extremes."""
        resume(which, read_only(partials), self.words, self.spilt)


_NO_ROWS = np.tile(np.array([0, 0, SIGN_BIT, SIGN_BIT], np.int64), PIECE)


class Lifted:
    """The partials of one lane in the making."""

    block: Ints
    quads: Quads  # basic partials of floats, if rows are scattered to them
    sums: Sums  # sums, if rows are added to those of a head

    def __init__(self, rows: Rows, lane: Lane, size: int, block: Ints | Quads | Sums | None = None) -> None:
        """``block``: partials to add to, with one cell more than ``size``."""
        self._rows, self._lane, self._size = rows, lane, size
        self._valid = rows.valid(lane.feeds[0].column if lane.feeds else None, lane.flag)
        self._all_valid = self._valid is ALL_VALID
        self._exact = rows.plan.exact and lane.kind in kinds.FLOATS
        self._room = size if self._all_valid else size + 1  # one extra cell takes the rows that do not count
        # columns to be widened are read piece by piece if rows are in runs
        self._piecewise = block is None and self._all_valid and lane in rows.plan.partials.widened
        self._feeds: list[Array] = []
        for feed in () if self._piecewise else lane.feeds:
            if feed.form != "valid":
                self._feeds.append(rows.feed(feed))
        self._returned = rows.valid(lane.feeds[1].column, None) if lane.kind == kinds.ARG else ALL_VALID
        if isinstance(block, Quads):
            self.quads = block
        elif isinstance(block, Sums):
            self.sums = block
        elif block is not None:
            self.block = block

    def _whole(self) -> None:
        """Read the columns if they are not read yet."""
        if self._piecewise:
            self._piecewise = False
            self._feeds = [self._rows.feed(feed) for feed in self._lane.feeds]

    def counted(self) -> Ints:
        """The words of each cell. The first word is the cell's number of rows."""
        return self.quads.words if "quads" in self.__dict__ else self.block

    def goes_on(self, counter: Quads | Sums) -> bool:
        """Whether rows are added to these partials."""
        return any(self.__dict__.get(name) is counter for name in ("quads", "sums"))

    @property
    def counts_rows(self) -> bool:
        """Whether the lane's kernel counts all rows of each cell."""
        if "sums" in self.__dict__:
            return True
        return self._all_valid and self._lane.kind != kinds.COUNT and self._lane.kind not in kinds.SIGNED

    def by_runs(self, place: Place) -> bool:
        """Reduce all rows if that is possible without a cell per row; whether it was done."""
        kind = self._lane.kind
        if self._exact:
            return False
        if kind == kinds.COUNT and self._all_valid:
            return True
        if isinstance(place, Segments) and self._all_valid:
            if kind not in SEGMENTED:
                return self._by_edges(place)
            if self._piecewise and not place.ascend:
                self._whole()
            self.block = table_room(self._size, len(kinds.IDENTITY[kind]))
            if place.threads == 1:
                self._segments(place.first, place.last, self.block)
            else:
                some = [(place.first[s], place.last[s], self.block[s]) for s in place.shares]
                side_by_side(lambda share: self._segments(*share), some)
            return True
        if kind not in MASKED or not isinstance(place, Segments | Pieces):
            return isinstance(place, Segments) and place.threads == 1 and self._of_valid(place)
        self._whole()
        runs, shares = place.runs(), place.shares
        self.block = kinds.identity(kind, self._room)
        apart = [self.block, *(kinds.identity(kind, self._room) for _ in shares[1:])]
        blocks = [self.block] * len(shares) if isinstance(place, Segments) else apart

        side_by_side(lambda share: self._masked(runs[share[0]], share[1]), list(zip(shares, blocks, strict=True)))
        every = np.arange(self._room)
        for block in blocks[1:] if isinstance(place, Pieces) else ():
            kinds.combine(kind, every, every, self.block, block)
        return True

    def _masked(self, runs: Ints, block: Ints) -> None:
        kind, masked = self._lane.kind, (runs, self._rows.time, self._valid)
        if kind == kinds.COUNT:
            masked_count(*masked, block)
            return
        x = self._feeds[0]
        if kind in kinds.FLOATS:
            masked_basic_f(*masked, x, x.view(np.int64), block, block.view(np.float64))
        elif kind in kinds.INTEGERS:
            masked_basic_i(*masked, x, block)
        else:
            masked_extremes(*masked, x, block)

    def _of_valid(self, place: Segments) -> bool:
        """Partials of only the rows that count: 30,000 rows by 5 lanes 1.6 -> 0.5 ms. Whether it was done."""
        kind = self._lane.kind
        if not (kind == kinds.MOMENTS or self._tells_edges()):
            return False
        counting = self._valid.view(np.bool_).nonzero()[0]
        first, last = counting.searchsorted((place.first, place.last))
        held = np.flatnonzero(last > first)
        self.ready()
        first, last, block = first[held], last[held], self.block
        if kind == kinds.MOMENTS:
            some = kinds.room(kind, held.size)
            x = self._feeds[0].take(counting)
            x.setflags(write=False)
            segment_moments(first, last, x, some, some.view(np.float64))
            block[held] = some
        else:
            block[held] = self._edges(counting[first if kind == kinds.FIRST else last - 1], last - first)
        return True

    def _by_edges(self, place: Segments) -> bool:
        """Take the first or last row of each run, if rows are in order of arrival; whether it was done."""
        if not self._tells_edges():
            return False
        self.block = self._edges(place.first if self._lane.kind == kinds.FIRST else place.last - 1, place.counts())
        return True

    def _tells_edges(self) -> bool:
        """Whether the partial of a run is the partial of its first or last row."""
        return tells_edges(self._rows.plan, self._lane)

    def _edges(self, row: Ints, counts: Ints) -> Ints:
        rows, block = self._rows, kinds.room(self._lane.kind, row.size)
        arrival = row + rows.arrival if isinstance(rows.arrival, int) else rows.arrival[row]
        block[:, 0], block[:, 1], block[:, 2] = counts, rows.when[row], 0
        block[:, 3], block[:, 4] = arrival, self._feeds[0][row]
        return block

    def _segments(self, first: Ints, last: Ints, block: Ints, x: Array | None = None) -> None:
        """Reduce runs of adjacent rows of ``x``, or of all rows. Columns to be widened are read in pieces that stay in
        the cache. 10 M int32 in runs of 1024 rows: 30 -> 15 ms, and less if a kernel reads them unchanged."""
        if x is None and self._piecewise and self._lane.kind in kinds.INTEGERS:
            x = self._rows.narrow(self._lane.feeds[0])
        if x is None and self._piecewise:
            at = 0
            while at < first.size:
                low = int(first[at])
                stop = max(int(last.searchsorted(low + TOGETHER, "right")), at + 1)
                piece = self._rows.feed(self._lane.feeds[0], slice(low, int(last[stop - 1])))
                self._segments(first[at:stop] - low, last[at:stop] - low, block[at:stop], piece)
                at = stop
            return
        reduce_runs(self._lane.kind, first, last, self._feeds[0] if x is None else x, block)

    def ready(self) -> None:
        """Make empty partials, over which rows are scattered."""
        self._whole()
        if self._lane.kind in kinds.FLOATS and not self._exact:
            self.quads = Quads(self._room, self._lane.kind)
        else:
            self.block = kinds.identity(self._lane.kind, self._room)

    def scatter(self, chunk: slice, cell: Codes, base: int) -> int:
        """Reduce some rows into their cells, which are counted from ``base``. For :class:`Sums` and :class:`Quads`,
        returns how many of these cells were empty."""
        kind, feeds = self._lane.kind, list(map(itemgetter(chunk), self._feeds))
        if "sums" in self.__dict__:
            scatter = scatter_sums_f if kind in kinds.FLOATS else scatter_sums_i
            return int(scatter(cell, self._valid[chunk], feeds[0], self.sums.words[base:]))
        if not self._all_valid:  # arithmetic, as np.where mispredicts: 4.1 -> 0.6 ns a row if half of the rows count
            none = np.int32(self._size - base)
            cell = fixed((cell - none) * self._valid[chunk] + none)
        if kind in kinds.FLOATS and not self._exact:
            quads = self.quads
            return int(scatter_basic_f(cell, feeds[0].view(np.int64), quads.words[base:], quads.spilt[base:]))
        block = self.block[base:]
        floats = block.view(np.float64)
        if kind == kinds.COUNT:
            scatter_count(cell, block)
        elif self._exact:
            scatter_exact_f(cell, feeds[0], feeds[0].view(np.int64), block, floats)
        elif kind in kinds.INTEGERS:
            scatter_basic_i(cell, feeds[0], block)
        elif kind == kinds.EXTREMES:
            scatter_extremes(cell, feeds[0], block)
        elif kind == kinds.MOMENTS:
            scatter_moments(cell, feeds[0], block, floats)
        elif kind == kinds.PRODUCT_F:
            scatter_product_f(cell, feeds[0], block, floats)
        elif kind == kinds.PRODUCT_I:
            scatter_product_i(cell, *feeds, block, floats)
        elif kind in (kinds.FIRST, kinds.LAST):
            time, sequence, arrival = self._rows.order_of(chunk)
            if not self._rows.plan.arrival:
                arrival = feeds[0].view(np.int64) if kind == kinds.FIRST else ~feeds[0].view(np.int64)
            scatter_edge(kind == kinds.LAST, cell, time, sequence, arrival, feeds[0], block)
        elif kind == kinds.ARG:
            time, sequence, arrival = self._rows.order_of(chunk)
            if not self._rows.plan.arrival:
                arrival = feeds[1].view(np.int64)
                if self._returned is not ALL_VALID:
                    arrival = np.where(self._returned[chunk].view(np.bool_), arrival, SIGN_BIT)
            scatter_arg(cell, feeds[0], time, sequence, arrival, feeds[1], self._returned[chunk], block)
        elif kind == kinds.NET:
            scatter_net(cell, feeds[0], block)
        elif kind == kinds.NET_SUM:
            scatter_net_sum(cell, *feeds, block)
        elif kind == kinds.EXTREME_COUNT:
            scatter_extreme_count(cell, feeds[0], block)
        else:
            raise AssertionError(f"no kernel reduces rows to partials of kind {kind}")
        return 0

    def partials(self, counts: Ints, held: Ints | None) -> Ints:
        """The partials of all cells, or of the cells ``held``, once all rows are in. ``counts``: rows of each cell."""
        if self._lane.kind == kinds.COUNT and self._all_valid:
            own = counts.copy() if held is None else counts[held]  # several lanes may use the same counts
            return own.reshape(-1, 1)
        if "quads" in self.__dict__:
            return self.quads.partials(np.arange(self._size) if held is None else held)
        return self.block[: self._size] if held is None else self.block.take(held, axis=0)


SEGMENTED = (*kinds.FLOATS, *kinds.INTEGERS, kinds.EXTREMES, kinds.MOMENTS)
MASKED = (kinds.COUNT, *kinds.FLOATS, *kinds.INTEGERS, kinds.EXTREMES)


def takes_any_ranges(plan: Plan, lanes: Iterable[Lane]) -> bool:
    """Whether the kernels of all lanes reduce ranges of rows that overlap, or that leave rows out."""
    return not plan.exact and all(lane.kind in MASKED for lane in lanes)


def tells_edges(plan: Plan, lane: Lane) -> bool:
    """Whether the partial of a run is the partial of its first or last row."""
    return lane.kind in (kinds.FIRST, kinds.LAST) and plan.arrival and plan.spec.sequence is None


def tells_first(plan: Plan, lane: Lane) -> bool:
    """Whether the partial of a run is that of its first row because it is the row with the least time
    (``sl.argmin(time, column)``)."""
    if lane.kind != kinds.ARG or lane.flag is not None or lane.feeds[0] != Feed(str(plan.spec.time), "low"):
        return False
    return plan.arrival and plan.spec.sequence is None


def reduce_runs(kind: int, first: Ints, last: Ints, x: Array, block: Ints) -> None:
    """Reduce runs of adjacent values, none of which is null, to partials of one of the ``SEGMENTED`` kinds."""
    if kind in kinds.FLOATS:
        segment_basic_f(first, last, x, x.view(np.int64), block, block.view(np.float64))
    elif kind in kinds.INTEGERS:
        (segment_basic_narrow if x.dtype == np.int32 else segment_basic_i)(first, last, x, block)
    elif kind == kinds.EXTREMES:
        segment_extremes(first, last, x, block)
    else:
        segment_moments(first, last, x, block, block.view(np.float64))
