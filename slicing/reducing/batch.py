"""Rows of one batch, ready for kernels: times, key codes and columns as arrays, in the form that each kernel reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slicing.cells.lanes import Feed
from slicing.cells.ranked import RANK_FORMS
from slicing.columns.bits import VALID, VALUES, bits, buffer, true
from slicing.columns.order import alike
from slicing.columns.row_values import Values, values_of
from slicing.columns.taking import gathered, rows_of
from slicing.columns.values import ordering
from slicing.kernels.slice import cut, scan
from slicing.query.plan import Plan
from slicing.query.policy import Policy
from slicing.system.arrays import Bytes, Codes, Ints, Mask
from slicing.system.lazy import lazy
from slicing.system.replace import but
from slicing.system.threads import parts, side_by_side
from slicing.windows.bounds import LIMIT

ALL_VALID: Bytes = np.empty(0, np.uint8)
_NONE: Ints = np.empty(0, np.int64)


class Taken(Mapping[str, pa.Array]):
    """Some rows of columns. Each column is taken when it is first read: of text often only the ranks are read."""

    def __init__(self, columns: Mapping[str, pa.Array], index: Ints) -> None:
        self._found: dict[str, tuple[pa.Array, Ints | None]] = {n: (column, index) for n, column in columns.items()}

    def __getitem__(self, name: str) -> pa.Array:
        column, index = self._found[name]
        if index is not None:
            column = rows_of(column, index)
            self._found[name] = column, None
        return column

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)


@dataclass(eq=False)
class Rows:
    """Rows of one batch, ready for kernels: times, key codes and columns as arrays."""

    plan: Plan
    columns: Mapping[str, pa.Array]
    time: Ints
    code: Codes | None  # None: one global group
    codes: int  # all codes are below this
    arrival: int | Ints
    ranks: Mapping[str, Ints]
    threads: int = 1
    stamps: Mapping[int, Ints] = field(default_factory=dict)  # counts at arrival, for windows of kept rows
    instant: Ints | None = None  # the times of the rows, if ``time`` is their place in the stream
    renumbered: bool = False  # whether arrivals were numbered again, so that they only order rows
    no_nulls: frozenset[str] = frozenset()  # columns that are known to have none, without a look at them

    def __len__(self) -> int:
        return self.time.size

    @property
    def when(self) -> Ints:
        return self.time if self.instant is None else self.instant

    @lazy
    def span(self) -> tuple[int, int, bool]:
        """The smallest and largest time, and whether times ascend."""
        return self.look()

    def look(self) -> tuple[int, int, bool]:
        """Find the smallest and the largest time, and whether times ascend. ``span`` keeps the result.

        If searching for edges is the fastest way to learn whether rows are in order, also find where edges cut the
        rows.
        """
        time, plan = self.time, self.plan
        low, high = time[[0, -1]].tolist()
        edges = None
        if plan.keeps_slices and -LIMIT <= low <= high <= LIMIT:
            edges = plan.edges.listed(low, high, plan.grid, time.size)
        bounds = self.cut(_NONE if edges is None else edges)  # this also tells whether times ascend
        if bounds is None:
            lows, highs = self.extremes
            low, high = int(lows.min()), int(highs.max())
        elif edges is not None:
            self.__dict__["edges"], self.__dict__["cuts"] = edges, (edges, bounds)
        self.__dict__["span"] = low, high, bounds is not None
        return low, high, bounds is not None

    def latest(self) -> tuple[int, int | None]:
        """The latest time, and the latest time before it."""
        low, high, ordered = self.span
        if low == high:
            return high, None
        if ordered:
            return high, int(self.time[int(self.time.searchsorted(high)) - 1])
        tops, block = self.extremes[1], self.plan.policy.block
        rows = (np.flatnonzero(tops == high)[:, None] * block + np.arange(block)).ravel()
        times = np.append(self.time[rows[rows < len(self)]], tops)  # rows of blocks with the latest time; all tops
        return high, int(times[times < high].max(initial=low))

    @lazy
    def edges(self) -> Ints:
        """Ascending edges from the first after the earliest row to the first after the latest."""
        low, high, _ = self.span
        return self.plan.edges.between(low, high, self.time, self.plan.grid, len(self))

    @lazy
    def extremes(self) -> tuple[Ints, Ints]:
        """The earliest and the latest time of each block."""
        time, block = self.time, self.plan.policy.block
        size = -(-len(self) // block)
        lows, highs = np.empty(size, np.int64), np.empty(size, np.int64)

        def scanned(blocks: slice) -> None:
            rows = slice(blocks.start * block, blocks.stop * block)
            scan(time[rows], block, lows[blocks], highs[blocks])

        side_by_side(scanned, parts(size, self.threads, self.plan.policy.share, block))
        return lows, highs

    @lazy
    def cuts(self) -> tuple[Ints, Ints]:
        """For rows in order: the edges, and the row at which each slot begins (from 0 to the number of rows)."""
        bounds = self.cut(self.edges)
        if bounds is None:
            raise AssertionError("rows in order are not")
        return self.edges, bounds

    def cut(self, edges: Ints) -> Ints | None:
        """The rows at which edges cut: edges after the first row up to the last. None if rows are not in order."""
        time, policy = self.time, self.plan.policy
        if self.threads == 1 or time.size <= policy.numpy_cuts or not self.shared:
            return cut_in_order(time, edges, policy)
        pieces, bounds = self._pieces, np.zeros(edges.size + 1, np.int64)
        starts = [piece.start for piece in pieces[1:]]
        if not self._ascend(starts):
            return None
        firsts = [int(np.searchsorted(edges, time[start - 1], "right")) for start in starts]
        shares = list(zip(pieces, pairwise([0, *firsts, edges.size]), strict=True))

        block = policy.ordered_rows

        def ordered(share: tuple[slice, tuple[int, int]]) -> bool:
            rows, (first, last) = share
            return cut(time[rows], edges[first:last], block, bounds[first + 1 : last + 1]) == rows.stop - rows.start

        if not all(side_by_side(ordered, shares)):
            return None
        for rows, (first, last) in shares[1:]:
            bounds[first + 1 : last + 1] += rows.start
        return bounds

    def _ascend(self, rows: list[int]) -> bool:
        """Whether none of these rows is earlier than the row before it."""
        return all(self.time[row - 1] <= self.time[row] for row in rows)

    @property
    def shared(self) -> bool:
        """Whether there are enough rows for several threads."""
        return self.threads > 1 and len(self._pieces) > 1

    @lazy
    def _pieces(self) -> list[slice]:
        return parts(len(self), self.threads, self.plan.policy.share)

    @property
    def parts(self) -> list[Rows]:
        """The rows in order, one part per thread."""
        parts = [self._part(piece) for piece in self._pieces]
        for part in parts if not self.span[2] else ():
            part.__dict__["span"] = self.span  # wide enough, so that no part looks again
        return parts

    def part(self, piece: slice) -> Rows:
        part = self._part(piece)
        part.__dict__["batch"] = self.batch or self
        return part

    def _part(self, piece: slice) -> Rows:
        size = piece.stop - piece.start
        part = but(
            self,
            columns={name: column.slice(piece.start, size) for name, column in self.columns.items()},
            time=self.time[piece],
            code=None if self.code is None else self.code[piece],
            arrival=self.arrival + piece.start if isinstance(self.arrival, int) else self.arrival[piece],
            ranks={name: ranks[piece] for name, ranks in self.ranks.items()},
            threads=1,
            stamps={number: stamp[piece] for number, stamp in self.stamps.items()},
            instant=None if self.instant is None else self.instant[piece],
        )
        if size and "span" in self.__dict__ and self.span[2]:
            part.__dict__["span"] = int(part.time[0]), int(part.time[-1]), True
            if "cuts" in self.__dict__:
                part.__dict__["cuts"] = self.cuts[0], np.clip(self.cuts[1] - piece.start, 0, size)
        return part

    @lazy
    def batch(self) -> Rows | None:
        """The batch of which these rows are a contiguous part."""
        return None

    def take(self, index: Ints, time: Ints | None = None, arrival: int | None = None) -> Rows:
        """Some of the rows. ``time``: their times, if known. ``arrival``: of the first one, if all shall have arrived
        one after the other."""
        return but(
            self,
            columns=Taken(self.columns, index),
            no_nulls=frozenset(name for name in self.ranks if self.valid(name, None) is ALL_VALID),
            time=gathered(self.time, index) if time is None else time,
            code=None if self.code is None else self.code.take(index),
            arrival=self._arrivals(index) if arrival is None else arrival,
            renumbered=self.renumbered or arrival is not None,
            ranks={name: ranks.take(index) for name, ranks in self.ranks.items()},
            stamps={number: stamp.take(index) for number, stamp in self.stamps.items()},
            instant=None if self.instant is None else self.instant.take(index),
        )

    def _arrivals(self, index: Ints) -> Ints:
        return index + self.arrival if isinstance(self.arrival, int) else gathered(self.arrival, index)

    def first_arrival(self) -> int:
        return self.arrival if isinstance(self.arrival, int) else int(self.arrival.min())

    def detached(self) -> Rows:
        """A copy of these rows in memory of its own: a part of a batch would keep the whole batch in memory."""
        return but(
            self,
            columns={name: pa.concat_arrays([column]) for name, column in self.columns.items()},
            time=self.time.copy(),
            code=None if self.code is None else self.code.copy(),
            arrival=self.arrival if isinstance(self.arrival, int) else self.arrival.copy(),
            ranks={name: ranks.copy() for name, ranks in self.ranks.items()},
            stamps={number: stamp.copy() for number, stamp in self.stamps.items()},
            instant=None if self.instant is None else self.instant.copy(),
        )

    def each_code(self) -> Codes | Ints:
        """The code of each row's key; all equal if there are no keys."""
        return alike(0, len(self)) if self.code is None else self.code

    def arrivals(self) -> Ints:
        if isinstance(self.arrival, int):
            return np.arange(self.arrival, self.arrival + len(self))
        return self.arrival

    def sequence(self) -> Ints:
        """The tie-breaking column, null first; all equal if the spec has none."""
        name = self.plan.spec.sequence
        return np.zeros(len(self), np.int64) if name is None else ordering(self.columns[name], name).copy()

    @lazy
    def order(self) -> tuple[Ints, Ints, Ints]:
        """The columns that order rows: times, sequence, arrival."""
        return self.when, self.sequence(), self.arrivals()

    def order_of(self, chunk: slice) -> tuple[Ints, Ints, Ints]:
        """The order columns of some rows. Columns that only number rows are made on request, and stay in the cache."""
        if "order" in self.__dict__ or self.plan.spec.sequence is not None or not isinstance(self.arrival, int):
            time, sequence, arrival = self.order
            return time[chunk], sequence[chunk], arrival[chunk]
        time, first = self.when[chunk], self.arrival + chunk.start
        return time, np.zeros(time.size, np.int64), np.arange(first, first + time.size)

    def valid(self, column: str | None, flag: str | None) -> Bytes:
        """A byte per row: whether the value is not null and the flag is set. Empty: all rows count."""
        if flag is None:
            values = None if column is None or column in self.no_nulls else self.columns[column]
            if values is None or not (values.null_count or isinstance(values, pa.DictionaryArray)):
                return ALL_VALID
        known = self._valid.get((column, flag))
        if known is None:
            masks = [] if column is None else _not_null(self.columns[column])
            masks += [] if flag is None else [*_not_null(self.columns[flag]), bits(self.columns[flag], VALUES)]
            known = reduce(np.bitwise_and, masks) if masks else ALL_VALID
            self._valid[column, flag] = known
        return known

    @lazy
    def _valid(self) -> dict[tuple[str | None, str | None], Bytes]:
        return {}

    def seen(self, name: str) -> Values:
        """A column's values as users' windows see them."""
        return values_of(self.columns[name], self.plan.rows.values[name])

    def flag(self, name: str) -> Mask:
        """A boolean column as a mask. Null is false."""
        return true(self.columns[name])

    def feed(self, feed: Feed, some: slice = slice(None)) -> npt.NDArray[np.generic]:
        """A column in the form that a kernel reads. It is read-only, as Arrow's buffers are: a kernel is compiled for
        one type."""
        if feed.column in self.ranks and feed.form in RANK_FORMS:
            ranks = self.ranks[feed.column][some]
            values = ~ranks if feed.form == "high" else ranks
        else:
            column = self.columns[feed.column]
            values = self.plan.partials.readers[feed](column if some == slice(None) else column[some])
        values.setflags(write=False)
        return values

    def narrow(self, feed: Feed) -> Codes | None:
        """A column of the most common narrow type, unchanged, for kernels that widen it themselves. None for other
        types: one more type of columns is one more kernel to compile."""
        column = self.columns[feed.column]
        if feed.form != "int" or column.type != pa.int32():
            return None
        values = buffer(column, np.dtype(np.int32))
        values.setflags(write=False)
        return values


def _not_null(column: pa.Array) -> list[Bytes]:
    """A byte per value: whether it is not null. An empty list if no value is null."""
    if isinstance(column, pa.DictionaryArray):
        values = column.dictionary
        column = values.take(column.indices) if values.null_count else column.indices
    return [bits(column, VALID)] if column.null_count else []


def cut_in_order(time: Ints, edges: Ints, policy: Policy) -> Ints | None:
    """0, and the number of rows before each edge. None if rows are not in order."""
    bounds = np.zeros(edges.size + 1, np.int64)
    if time.size <= policy.numpy_cuts:
        bounds[1:] = time.searchsorted(edges)
        return bounds if np.count_nonzero(time[1:] < time[:-1]) == 0 else None
    return bounds if cut(time, edges, policy.ordered_rows, bounds[1:]) == time.size else None
