"""Result columns, gathered from the payload by the places of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from slicing.columns.arrow_out import array_of
from slicing.joins.arrivals import passed
from slicing.joins.places import Places
from slicing.joins.plan import WINDOW, JoinPlan, SidePlan, Source
from slicing.joins.sides import Side
from slicing.joins.within import LEFT, RIGHT, Windows
from slicing.system.arrays import Ints, Mask
from slicing.system.threads import side_by_side

FEW_ROWS = 1 << 15  # up to so many rows are gathered by one thread


@dataclass(frozen=True, eq=False)
class Block:
    """Results of one kind: places of left and of right rows. None: no result has a row of that side. -1: this result
    has none."""

    left: Ints | None
    right: Ints | None

    def __len__(self) -> int:
        found = self.right if self.left is None else self.left
        assert found is not None
        return found.size


class Gather:
    """Gathers columns of rows by their places in the payload of both sides."""

    def __init__(self, plan: JoinPlan, sides: Sequence[Side], block: Block) -> None:
        self._plan, self._sides, self._block = plan, sides, block
        places = zip((block.left, block.right), sides, strict=True)
        self._index = [None if rows is None or not side.chunks else Places(rows) for rows, side in places]

    def column(self, side: int, name: str) -> Any:
        index = self._index[side]
        assert index is not None
        return index.take(self._sides[side].table.column(name))

    def source(self, source: Source) -> Any:
        """A column of results."""
        if source.left is not None and self._index[LEFT] is not None:
            found = self.column(LEFT, source.left)
        elif source.right is not None and self._index[RIGHT] is not None:
            found = self.column(RIGHT, source.right)
        else:
            return pa.nulls(len(self._block), source.type)
        return found if found.type == source.type else found.cast(source.type)

    def times(self, side: int) -> tuple[Ints, Mask]:
        """Times in common ticks, and which results have a row of that side."""
        places = self._block.left if side == LEFT else self._block.right
        count = len(self._block)
        if places is None or self._index[side] is None:
            return np.zeros(count, np.int64), np.zeros(count, np.bool_)
        return times_at(self._plan.sides[side], self._sides[side], places), places >= 0

    def first_time(self) -> Ints:
        """The left time, or the right time if there is no left row: both are in the same window."""
        left, there = self.times(LEFT)
        if there.all():
            return left
        return np.where(there, left, self.times(RIGHT)[0])


def times_at(plan: SidePlan, side: Side, places: Ints) -> Ints:
    """Times of rows of the payload, in common ticks; undefined where a place is -1."""
    if not places.size:
        return places
    column = side.table.column(plan.time).take(array_of(np.maximum(places, 0)))
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    column = column.chunk(0) if isinstance(column, pa.ChunkedArray) else column
    return plan.measure.words(column) * plan.factor


def table_of(plan: JoinPlan, sides: Sequence[Side], blocks: Sequence[Block], threads: int) -> pa.Table:
    """The results of several blocks, one after the other."""
    found = [_table(plan, sides, block, threads) for block in blocks if len(block)]
    if not found:
        return plan.empty()
    return found[0] if len(found) == 1 else pa.concat_tables(found)


def _table(plan: JoinPlan, sides: Sequence[Side], block: Block, threads: int) -> pa.Table:
    gather = Gather(plan, sides, block)
    shown = plan.shown
    sources = [source for source in plan.sources if source.name in shown.names]
    if threads > 1 and len(block) > FEW_ROWS:
        groups = [sources[at::threads] for at in range(min(threads, len(sources)))]
        made = side_by_side(lambda group: [(s.name, gather.source(s)) for s in group], groups)
        columns = dict(pair for group in made for pair in group)
    else:
        columns = {source.name: gather.source(source) for source in sources}
    columns |= _made(plan, gather, shown.names)
    return pa.Table.from_arrays([columns[name] for name in shown.names], schema=shown)


def _made(plan: JoinPlan, gather: Gather, names: Sequence[str]) -> dict[str, pa.Array]:
    """The requested columns that neither side has: the bounds of windows, the event time of a pair."""
    made = {}
    if isinstance(plan.within, Windows) and not plan.spec.left_only and not set(WINDOW).isdisjoint(names):
        bounds = plan.within.bounds(gather.first_time())
        made = {name: plan.measure.array(words) for name, words in zip(WINDOW, bounds, strict=True)}
    if plan.spec.event_time in ("max", "min") and "event_time" in names:
        made["event_time"] = plan.measure.array(_event_time(plan, gather))
    return made


def _event_time(plan: JoinPlan, gather: Gather) -> Ints:
    (left, has_left), (right, has_right) = gather.times(LEFT), gather.times(RIGHT)
    both = np.maximum(left, right) if plan.spec.event_time == "max" else np.minimum(left, right)
    return np.where(has_left & has_right, both, np.where(has_left, left, right))


def tested(plan: JoinPlan, sides: Sequence[Side], block: Block) -> Ints:
    """Positions of the pairs for which ``where`` is true."""
    where = plan.spec.where
    assert where is not None
    gather = Gather(plan, sides, block)
    columns = {source.name: gather.source(source) for source in plan.where_sources}
    columns |= _made(plan, gather, plan.where_made)
    return passed(columns, where, len(block))
