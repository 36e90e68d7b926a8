"""Aggregates of changelogs: what is kept so that rows can be retracted, and retractions without a row to retract.

====================================  =================================================================================
counts                                a number: rows added less rows retracted (``NET``)
sums and means, exact                 three words: that number, and the sum added less the sum retracted (``NET_SUM``)
functions of your own                 rows added and rows retracted, each apart; ``invert`` when a window is answered
all others                            the values, each with its count (``list_kinds.NETTED``). When a window is
                                      answered, partials are made from them, as if from rows
====================================  =================================================================================

Retractions have no order, so aggregates that depend on the order of rows are refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, NamedTuple

import numpy as np
import pyarrow as pa

from slicing.aggregates.aggregate import Aggregate, BoundAggregate, Pools
from slicing.aggregates.algebraic import COUNT_AND_SUM, scaled
from slicing.aggregates.arithmetic import Lowered
from slicing.aggregates.udaf import UserWords
from slicing.cells.blocks import Block
from slicing.cells.lanes import Feed, Lane
from slicing.cells.list_kinds import COUNTED, EARLIEST, NETTED, ListKind, rows_of
from slicing.cells.lists import Lists, Picked
from slicing.columns.values import TOP, ValueType
from slicing.kernels import combine as kinds
from slicing.kernels.net import net_moments, net_products, net_sums
from slicing.system.arrays import Floats, Ints, Mask

SIGNS = "\0signs"  # the column of 1 and -1 into which the op column is converted
SIGN = Feed(SIGNS, "sign")
ROWS = Lane(kinds.NET, (SIGN,), None)


def times_of(time: str) -> Lane:
    """The times of rows, counted: the first and the last row of a whole stream may be retracted."""
    return Lane(NETTED, (Feed(time, "low"), SIGN), None)


_BY_ORDER = ("first", "last", "m4", "argmin", "argmax", "collect")
_SKETCHES = ("approx_quantile", "approx_count_distinct", "sample")


class Side(str):
    """The name of a flag for rows that are added (or retracted) and for which another flag is true."""

    __slots__ = ("flag", "sign")
    flag: str | None
    sign: int

    def __new__(cls, sign: int, flag: str | None) -> Side:
        self = super().__new__(cls, f"\0{sign} {flag or ''}")
        self.sign, self.flag = sign, flag
        return self


def refusal(agg: Aggregate) -> str | None:
    """Why an aggregate cannot retract rows; None if it can."""
    if agg.function in _BY_ORDER or (agg.function in ("top_k", "bottom_k") and agg.return_ is not None):
        return "it depends on the order of rows, and rows that are taken back have none"
    if agg.function in _SKETCHES:
        return "what it keeps is bounded, and nothing can be taken back from that"
    if agg.user is not None and not agg.user.commutative:
        return "it depends on the order of rows (commutative=False), and rows that are taken back have none"
    if agg.user is not None and agg.user.invert is None:
        return "it needs invert=, which takes rows back"
    return None


class _Part(NamedTuple):
    """The lanes that replace one lane of an aggregate, and the function that makes its block from their blocks."""

    lanes: tuple[Lane, ...]
    made: Callable[[list[Block], Pools], Block]


def taken_back(agg: Aggregate, bound: BoundAggregate, types: dict[str, pa.DataType]) -> BoundAggregate:
    """An aggregate whose lanes allow that rows are retracted."""
    parts = [_part(lane, bound, types) for lane in bound.lanes]
    at = np.cumsum([0, *(len(part.lanes) for part in parts)]).tolist()

    def lower(b: list[Block], pools: Pools) -> Lowered:
        return bound.lower(
            [part.made(b[i : i + len(part.lanes)], pools) for part, i in zip(parts, at, strict=False)], pools
        )

    lanes = tuple(lane for part in parts for lane in part.lanes)
    return BoundAggregate(lanes, bound.type, lower, coded=bound.coded)


def _part(lane: Lane, bound: BoundAggregate, types: dict[str, pa.DataType]) -> _Part:
    if lane.kind == kinds.COUNT:
        return _Part((Lane(kinds.NET, (*lane.feeds, SIGN), lane.flag),), _as_it_is)
    if lane.kind == kinds.BASIC_I and bound.words == COUNT_AND_SUM:
        return _Part((Lane(kinds.NET_SUM, (*lane.feeds, SIGN), lane.flag),), _as_it_is)
    if isinstance(lane.kind, UserWords):
        sides = tuple(lane._replace(flag=Side(sign, lane.flag)) for sign in (1, -1))
        return _Part(sides, lambda b, pools: _undone(lane.kind, b))
    feed = lane.feeds[0]
    value = ValueType.of(types[feed.column], feed.column)

    def made(b: list[Block], pools: Pools) -> Block:
        return Picked.shared(b[0], Net).partials(lane, value, pools.get(feed.column))

    return _Part((Lane(NETTED, (Feed(feed.column, "low"), SIGN), lane.flag),), made)


def _as_it_is(b: list[Block], pools: Pools) -> Block:
    return b[0]


def _undone(kind: UserWords, b: list[Ints]) -> Ints:
    added, taken = np.array(b[0], order="C"), np.ascontiguousarray(b[1])
    kind.functions.run("undone", kind.forms, added, added.view(np.float64), taken, taken.view(np.float64))
    return added


class Net:
    """The values of each window, with the number of rows that have each value."""

    kind: ClassVar[ListKind] = NETTED

    def __init__(self, picked: Picked) -> None:
        self.merged = rows_of(picked, self.kind)
        at, items = self.merged.at, self.merged.items
        self.below = np.zeros(len(picked), np.bool_)
        there = items[:, 1] > 0
        if not there.all():  # more was retracted than added: no right answer exists, but a block must be made
            of = np.repeat(np.arange(len(picked)), np.diff(at))
            self.below[of[~there]] = True
            at, items = np.append(0, np.cumsum(np.bincount(of[there], minlength=len(picked)))), items[there]
        self.lists = Lists(at, items)
        self._known: dict[object, Block] = {}

    def partials(self, lane: Lane, value: ValueType, pool: pa.Array | None) -> Block:
        key = lane.kind, lane.feeds[0]
        if key not in self._known:
            self._known[key] = self._made(lane, value, pool)
        return self._known[key]

    def _made(self, lane: Lane, value: ValueType, pool: pa.Array | None) -> Block:
        if lane.kind == COUNTED:
            return Picked.of(self.lists)
        if lane.kind == EARLIEST:  # rows have no order here: ties go to the smaller value
            items = np.zeros((len(self.lists.items), EARLIEST.words), np.int64)
            items[:, :2] = self.lists.items
            return Picked.of(Lists(self.lists.at, items))
        block = np.array(kinds.identity(lane.kind, len(self.lists)))
        _WORDS[lane.kind](self, block, lane.feeds[0].form, value, pool)
        return block

    @property
    def count(self) -> Ints:
        """The number of rows of each window."""
        rows = np.append(0, np.cumsum(self.lists.items[:, 1]))
        return rows[self.lists.at[1:]] - rows[self.lists.at[:-1]]

    @property
    def values(self) -> tuple[Ints, Ints]:
        value, count = np.ascontiguousarray(self.lists.items.T)
        return value, count

    def extremes(self) -> tuple[Ints, Ints, Ints]:
        """The windows that have values, and the places of their least and their largest value."""
        at = self.lists.at
        held = np.flatnonzero(at[1:] > at[:-1])
        return held, at[held], at[held + 1] - 1

    def floats(self, form: str, value: ValueType, pool: pa.Array | None) -> Floats:
        numbers = value.floats(value.array(self.values[0], None, pool))
        if form == "log":
            with np.errstate(divide="ignore", invalid="ignore"):
                return np.log(numbers)
        return numbers


def _extremes(net: Net, block: Ints, form: str, value: ValueType, pool: pa.Array | None) -> None:
    held, low, high = net.extremes()
    block[:, 0] = net.count
    block[held, -2], block[held, -1] = net.lists.items[low, 0], net.lists.items[high, 0]


def _basic_f(net: Net, block: Ints, form: str, value: ValueType, pool: pa.Array | None) -> None:
    held, low, high = net.extremes()
    words, count = net.values
    high = np.where((words[high] == TOP) & (high > low), high - 1, high)  # NaN is the largest word
    some = words[high] != TOP
    block[:, 0] = net.count
    block[held[some], 3], block[held[some], 4] = words[low[some]], words[high[some]]
    found = np.empty((len(block), 2))
    net_sums(net.lists.at, net.floats(form, value, pool), count, found)
    block[:, 1:3] = found.view(np.int64)


def _extreme_count(net: Net, block: Ints, form: str, value: ValueType, pool: pa.Array | None) -> None:
    held, low, high = net.extremes()
    words, count = net.values
    if form == "high":
        low = np.where((words[high] == TOP) & (high > low) & (value.family == "float"), high - 1, high)
    block[:, 0] = net.count
    block[held, 1], block[held, 2] = words[low], count[low]


def _moments(net: Net, block: Ints, form: str, value: ValueType, pool: pa.Array | None) -> None:
    found = np.empty((len(block), 2))
    net_moments(net.lists.at, net.floats(form, value, pool), net.values[1], found)
    block[:, 0], block[:, 1:3] = net.count, found.view(np.int64)


def _product(net: Net, block: Ints, form: str, value: ValueType, pool: pa.Array | None) -> None:
    words, count = net.values
    if value.type == pa.uint64():
        words = words ^ kinds.BOTTOM
    part, power, wrapped = np.empty(len(block)), *np.empty((2, len(block)), np.int64)
    net_products(net.lists.at, net.floats("float", value, pool), words, count, part, power, wrapped)
    block[:, 0] = net.count
    if form == "float":
        block[:, 1], block[:, 2] = part.view(np.int64), power
    else:
        block[:, 1], block[:, 2] = wrapped, scaled(part, power).view(np.int64)


_WORDS = {
    kinds.BASIC_F: _basic_f,
    kinds.BASIC_I: _extremes,
    kinds.EXTREMES: _extremes,
    kinds.MOMENTS: _moments,
    kinds.PRODUCT_F: _product,
    kinds.PRODUCT_I: _product,
    kinds.EXTREME_COUNT: _extreme_count,
}


# --- retractions without a row ---------------------------------------------------------------------------------------


def first_and_last(block: Block) -> tuple[Ints, Ints, Ints]:
    """The windows that have values left, and the words of their least and their largest value."""
    net = Picked.shared(block, Net)
    held, low, high = net.extremes()
    return held, net.lists.items[low, 0], net.lists.items[high, 0]


class Unmatched(NamedTuple):
    """Where more was retracted than added to a lane (``below``), and where the lane is not empty (``left``)."""

    below: Mask
    left: Mask


def unmatched(lane: Lane, block: Block, other: Block | None) -> Unmatched:
    """What is unmatched in a lane. ``other``: the block of retracted rows, if ``block`` is that of added rows."""
    if lane.kind == NETTED:
        net = Picked.shared(block, Net)
        return Unmatched(net.below, np.diff(net.merged.at) > 0)
    count = block[:, 0] if other is None else block[:, 0] - other[:, 0]
    left = count != 0
    if lane.kind == kinds.NET_SUM:
        left = left | (block[:, 1] & kinds.LOW != 0) | (block[:, 2] + (block[:, 1] >> kinds.SHIFT) != 0)
    return Unmatched((count < 0) | ((count == 0) & left), left)
