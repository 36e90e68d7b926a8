"""Partials: what the windows of a query are put together from, and which columns they read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial

import pyarrow as pa

from slicing.aggregates import changelog, sketches
from slicing.aggregates.aggregate import BoundAggregate
from slicing.aggregates.changelog import SIGN
from slicing.aggregates.steady import steady
from slicing.cells.blocks import width
from slicing.cells.lanes import Feed, Lane
from slicing.cells.list_kinds import Best
from slicing.cells.ranked import RANK_FORMS
from slicing.columns.bits import as_numpy
from slicing.columns.pools import Placed, Pool
from slicing.columns.types import has_offsets
from slicing.columns.values import FLOAT, INTEGER, UNSIGNED, ValueType
from slicing.kernels import combine as kinds
from slicing.kernels.combine import REMOVABLE
from slicing.query.policy import ADDED
from slicing.query.spec import Spec
from slicing.query.type_checks import check_ties, warn_of_categories
from slicing.system.arrays import Array
from slicing.system.lazy import lazy

PICK = ("argmax", "argmin", "bottom_k", "collect", "count", "first", "last", "sample", "top_k")
TELL_APART = ("collect", "count", "count_distinct", "first", "heavy_hitters", "last", "mode", "sample")
# kinds whose kernels take runs of rows
_PLAIN = (*kinds.FLOATS, *kinds.INTEGERS, kinds.EXTREMES, kinds.MOMENTS)


class Partials:
    """The aggregates of a query, bound to the types of columns: each is read from the partials of one lane or several,
    and aggregates share lanes. A lane is reduced from the columns that feed it."""

    def __init__(self, spec: Spec, types: dict[str, pa.DataType], arrival: bool, of_streams: bool) -> None:
        """``arrival``: whether rows have an order of arrival. ``of_streams``: whether windows are whole streams."""
        signed = spec.op is not None
        through = changelog.taken_back if signed else steady if spec.emit == "changes" else None
        through = None if through is None else partial(through, types=types)
        warn_of_categories(spec, types)
        self._spec = spec
        self.aggs = _narrowed({n: a.bind(types, through) for n, a in spec.aggs.items()})
        if not arrival:
            check_ties(spec, self.aggs)
        lanes = [lane for a in self.aggs.values() for lane in a.lanes]
        if signed:
            lanes += [changelog.ROWS, *([changelog.times_of(str(spec.time))] if of_streams else [])]
        self.lanes: list[Lane] = list(dict.fromkeys(lanes))
        self.lanes_of = {n: [self.lanes.index(lane) for lane in a.lanes] for n, a in self.aggs.items()}
        feeds = [feed for lane in self.lanes for feed in lane.feeds]
        read = [f for f in feeds if f.form != "valid" and f != SIGN]
        self.value_types = {f.column: ValueType.of(types[f.column], f.column) for f in read}
        self.readers = {f: _reader(self.value_types[f.column], types, f) for f in read}
        if signed:
            self.readers[SIGN] = as_numpy
        by_rank = {f.column for f in feeds if f.form in RANK_FORMS}
        self.ranked = [name for name, value in self.value_types.items() if value.ranked and name in by_rank]
        self._unordered = frozenset[str]() if through is not None or not arrival else self._not_compared()
        self.placed = frozenset(n for n in self._unordered if has_offsets(self.value_types[n].type))

    def pool(self, name: str, values: pa.Array) -> Pool:
        """The pool of a column, with values that all differ in the order of their ranks."""
        return Placed.of(values) if name in self.placed else values

    def _not_compared(self) -> frozenset[str]:
        """The ranked columns whose values aggregates at most tell apart: which one is larger does not matter."""
        feeds = [feed for lane in self._lanes_beside(TELL_APART) for feed in _compared(lane)]
        return frozenset(self.ranked) - {feed.column for feed in feeds if feed.form in RANK_FORMS}

    def _lanes_beside(self, functions: Collection[str]) -> list[Lane]:
        """The lanes of all aggregates that compute anything but these functions."""
        return [
            lane
            for name, agg in self.aggs.items()
            if any(part.function not in functions for part in self._spec.aggs[name].parts())
            for lane in agg.lanes
        ]

    @lazy
    def only_picked(self) -> frozenset[str]:
        """The ranked columns whose values aggregates only pick from rows, so that equal ones need not be known."""
        return self._unordered - {feed.column for lane in self._lanes_beside(PICK) for feed in lane.feeds}

    @lazy
    def extreme_texts(self) -> Mapping[str, tuple[bool, bool]]:
        """The columns of text of which only the least and the largest of a slice are read, and which of the two."""
        found = {}
        for name in self.ranked:
            feeds = [(lane, feed) for lane in self.lanes for feed in lane.feeds if feed.column == name]
            (lane, _), *others = [(lane, feed) for lane, feed in feeds if feed.form != "valid"]
            alone = not others and lane.kind == kinds.EXTREMES and lane.flag is None
            if alone and has_offsets(self.value_types[name].type):
                found[name] = 1 in self.words_read[lane], 2 in self.words_read[lane]
        return found

    @lazy
    def only_floats(self) -> bool:
        """Whether all partials are sums and extremes of floats, beside numbers of rows."""
        valued = [lane for lane in self.lanes if not lane.counts_all]
        return bool(valued) and all(lane.kind in kinds.FLOATS for lane in valued)

    @lazy
    def cell_words(self) -> int:
        """How many words the partials of a cell have."""
        return sum(width(lane.kind) for lane in self.lanes)

    @lazy
    def removable(self) -> frozenset[Lane]:
        """The lanes whose partials can be subtracted exactly, for everything that their aggregates read."""
        reads_more = set(self._lanes_beside(ADDED))
        exact = (lane for lane in self.lanes if isinstance(lane.kind, int) and lane.kind in REMOVABLE)
        by_user = (lane for lane in self.lanes if getattr(lane.kind, "removable", False))
        safe = (lane for lane in exact if lane not in reads_more or len(REMOVABLE[lane.kind]) == 0)
        return frozenset((*safe, *by_user))

    @lazy
    def subtracted(self) -> frozenset[Lane]:
        """The lanes that are subtracted. Counts are not, if other lanes need lists of combinations anyway."""
        if len(self.removable) == len(self.lanes):
            return self.removable
        return frozenset(lane for lane in self.removable if lane.kind != kinds.COUNT)

    @lazy
    def widened(self) -> frozenset[Lane]:
        """The lanes of plain numbers that kernels read as 64 bits although their columns are narrower."""
        plain = [(lane, self.value_types[lane.feeds[0].column]) for lane in self.lanes if lane.kind in _PLAIN]
        narrow = [(lane, v) for lane, v in plain if v.family in (INTEGER, UNSIGNED, FLOAT) and v.type.bit_width < 64]
        return frozenset(lane for lane, _ in narrow if lane.feeds[0].column not in self.ranked)

    @lazy
    def words_read(self) -> dict[Lane, frozenset[int]]:
        """The words of each lane's partials that an aggregate reads."""
        return dict.fromkeys(self.lanes, frozenset[int]()) | _words_read(self.aggs)


def _compared(lane: Lane) -> Sequence[Feed]:
    """The feeds by which rows are chosen or ordered, without those that are returned of the chosen rows."""
    returns = lane.kind == kinds.ARG or isinstance(lane.kind, Best)
    return lane.feeds[:1] if returns else lane.feeds


def _reader(value: ValueType, types: Mapping[str, pa.DataType], feed: Feed) -> Callable[[pa.Array], Array]:
    """A function that reads a column as kernels need it."""
    read = partial(sketches.words, value, feed.form) if ":" in feed.form else value.reader(feed.form)
    if pa.types.is_dictionary(types[feed.column]):
        return lambda column: read(column.cast(value.type))
    return read


def _words_read(aggs: Mapping[str, BoundAggregate]) -> dict[Lane, frozenset[int]]:
    read: dict[Lane, frozenset[int]] = {}
    for agg in aggs.values():
        for lane in agg.lanes:
            words = frozenset(range(width(lane.kind))) if agg.words is None else agg.words
            read[lane] = read.get(lane, words) | words
    return read


def _narrowed(aggs: dict[str, BoundAggregate]) -> dict[str, BoundAggregate]:
    """Lanes of which only counts and sums are read keep no minimum and maximum: 40 -> 24 bytes a cell."""
    read = _words_read(aggs)
    lanes = {lane: lane.sums if max(words, default=0) < kinds.SUM_WORDS else lane for lane, words in read.items()}
    return {n: replace(agg, lanes=tuple([lanes[lane] for lane in agg.lanes])) for n, agg in aggs.items()}
