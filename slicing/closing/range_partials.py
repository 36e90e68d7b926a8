"""Partials of ranges of dense columns, made when they are read, some at a time: never all of them are in memory.

Ranges may be of rows or of slices; the columns know which.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa

from slicing.cells.blocks import Block, together
from slicing.closing.numbers import Filled, Numbers
from slicing.closing.range_columns import Column, RangeBounds
from slicing.closing.spans import Spans, Steady
from slicing.columns.arrow_out import room
from slicing.system.arrays import Ints, Mask
from slicing.system.lazy import lazy

FLOAT64 = pa.float64()


@dataclass(frozen=True)
class RangePartials:
    """Partials that are made when they are read, some windows at a time: never all of them are in memory."""

    columns: Sequence[Column]
    spans: Spans
    piece: int  # windows at a time

    def __len__(self) -> int:
        return len(self.spans)

    def pieces(self) -> Iterator[tuple[slice, tuple[Block, ...]]]:
        for piece, ranges in self._pieces():
            yield piece, tuple(column.partials(ranges) for column in self.columns)

    def numbers(self, wanted: Numbers) -> list[Filled] | None:
        """Words of columns as result columns, each written once in its final place (floats as numbers, not as keys).
        None if a sum may not fit."""
        found = [room(len(self), number.type) for number in wanted.each]
        nulls: list[Mask | None] = [None] * len(found)
        sure = all(self.columns[number.lane].all_fit(number.word) for number in wanted.each)
        for piece, ranges in self._pieces():
            if not sure and not all(self.columns[number.lane].fits(number.word, ranges) for number in wanted.each):
                return None
            for place, ((at, word, type, least, _), out) in enumerate(zip(wanted.each, found, strict=True)):
                as_float = wanted.types[place] == FLOAT64
                into = out[piece] if type.itemsize == 8 else np.empty(ranges.size, np.int64)
                self.columns[at].number(word, least, as_float, ranges, into)
                if type.itemsize < 8:
                    out[piece] = into
                fewer = self.columns[at].fewer(least, ranges)
                if fewer is not None:
                    null = nulls[place]
                    null = nulls[place] = np.zeros(len(self), np.bool_) if null is None else null
                    null[piece] = fewer
        return list(map(Filled, found, nulls))

    def _pieces(self) -> Iterator[tuple[slice, RangeBounds]]:
        at, count = 0, len(self)
        size = count if self._copies and self.spans.step(0, count) == 1 else self.piece
        if count and isinstance(self.spans, Steady) and self.spans.grows:
            yield slice(0, count), self._growing(self.spans)  # each row is then added once
            return
        while at < count:
            end = min(at + size, count)
            ranges = self._ranges(at, end)
            yield slice(at, end), ranges
            if end < count:
                size = max(self.piece, int(ranges.last[-1] - ranges.first[-1]))  # not many fewer than overlap
            at = end

    @lazy
    def _copies(self) -> bool:
        return all([column.copies for column in self.columns])

    def _growing(self, spans: Steady) -> RangeBounds:
        rows = spans.first + spans.rows
        top = min(rows + (spans.size - 1) * spans.each, spans.limit)
        return RangeBounds(0, top, lambda: spans.of(0, spans.size), spans.size, grows=(rows, spans.each))

    def _ranges(self, at: int, end: int) -> RangeBounds:
        spans = self.spans
        step, size = spans.step(at, end), end - at
        if step:
            begin, stop = (int(bounds[0]) for bounds in spans.of(at, at + 1))
            rows, top = stop - begin, stop + (size - 1) * step

            def find() -> tuple[Ints, Ints]:
                if size > self.piece:
                    return evenly(size, step, rows)
                first, last = _shared(self.piece, step, rows)  # they lie as those of any other piece
                return first[:size], last[:size]

            return RangeBounds(begin, top, find, size, spans.in_order, step, rows)
        first, last = spans.of(at, end)
        bottom, top = map(int, (first[0], last[-1]) if spans.in_order else (first.min(), last.max()))
        if bottom:
            first, last = (np.subtract(bound, bottom, out=bound if spans.made else None) for bound in (first, last))
        return RangeBounds(bottom, top, lambda: (first, last), size, spans.in_order)

    def whole(self) -> tuple[Block, ...]:
        return tuple(together(blocks) for blocks in zip(*(blocks for _, blocks in self.pieces()), strict=True))


def evenly(size: int, step: int, rows: int) -> tuple[Ints, Ints]:
    """Where ranges of ``rows`` rows begin and end that are a ``step`` apart."""
    first = np.arange(0, size * step, step)
    return first, first + rows


_shared = lru_cache(8)(evenly)  # nobody writes into these
