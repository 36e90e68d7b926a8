"""Approximate aggregates: a slice keeps a bounded state for any number of rows, and the error is bounded.

``approx_quantile`` is the exact quantile of rounded values (DDSketch): a slice counts its values in buckets whose ends
are a factor (1 + error) / (1 - error) apart, so that a bucket's middle is within ``error`` of all values in it. A
decade of values has 2.3 / (2 * error) buckets: 116 for 1 %. Values smaller than 10**-16 of the largest count as 0, so
there are never more than 16 decades of each sign: 3700 buckets of 16 bytes for 1 %. The largest value of all decides
which buckets these are, so that merging in any order gives equal buckets, and answers do not depend on slicing.

``approx_count_distinct`` keeps the HyperLogLog registers that are not empty: at most 4096 of 16 bytes. The standard
error is 1.6 %, and less for few values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real

import numpy as np
import pyarrow as pa

from slicing.aggregates import holistic
from slicing.aggregates.aggregate import Aggregate, BoundAggregate, Pools, column_named, define
from slicing.aggregates.arithmetic import Lowered
from slicing.aggregates.over_lists import Windows
from slicing.cells.blocks import Block
from slicing.cells.lanes import Feed, Lane
from slicing.cells.list_kinds import REGISTERS, Lifting, ListKind
from slicing.cells.lists import Lists, Picked
from slicing.columns import values as v
from slicing.columns.arrow_out import array_of
from slicing.columns.bits import as_numpy
from slicing.columns.pools import encoded
from slicing.columns.values import DECIMAL, DURATION, FLOAT, NUMERIC, RANKED, TIME, ValueType
from slicing.kernels import sketch as k
from slicing.kernels.lists import ADD
from slicing.kernels.table import hash_bytes, hash_words
from slicing.system.arguments import says_arguments
from slicing.system.arrays import Floats, Ints, Unsigned

SMALLEST, LARGEST = 5e-324, 1.7976931348623157e308
INFINITE = 1 << 40  # the bucket of infinity
REACH = 1e16  # a value so many times smaller than the largest one counts as 0


@dataclass(frozen=True)
class Buckets(ListKind):
    """Counted buckets; buckets that are too far below the largest one are merged into bucket 0."""

    reach: int = 0

    @staticmethod
    def of(error: float) -> Buckets:
        rank_words = ((0, 0),)
        reach = math.ceil(math.log(REACH) / _log_gamma(error))
        return Buckets("buckets, counted", 2, 1, ADD, rank_words, reach=reach)

    def lifted(self, lane: Lane, rows: Lifting) -> Lists:
        return self._narrowed(super().lifted(lane, rows._replace(loose=False)))

    def merged(self, lane: Lane, into: Ints, size: int, older: Lists, newer: Lists) -> Lists:
        return self._narrowed(super().merged(lane, into, size, older, newer))

    def _narrowed(self, lists: Lists) -> Lists:
        lists, least = lists.whole(), np.empty(len(lists), np.int64)
        if not k.too_small(lists.at, lists.items, self.reach, INFINITE, least):
            return lists
        at, items = np.empty_like(lists.at), np.empty_like(lists.items)
        n = k.narrowed(lists.at, lists.items, least, at, items)
        return Lists(at, items[:n].copy())

    def read(self, numbers: Ints, windows: Windows) -> Ints:
        """Buckets of windows; those too far below the largest of their window become bucket 0."""
        found = windows.of_largest(INFINITE)
        return np.where(np.abs(numbers) < found - self.reach, 0, numbers)


def words(value: ValueType, form: str, column: pa.Array) -> Ints:
    """A column as buckets ('bucket:error'), registers ('hash:') or hashes ('mix:'); undefined for nulls."""
    name, parameter = form.split(":")
    if name == "bucket":
        return buckets(value.floats(column), float(parameter))
    if name == "mix":
        return _hashed(value, column).view(np.int64)
    out = np.empty(len(column), np.int64)
    k.register_words(_hashed(value, column), out)
    return out


def _log_gamma(error: float) -> float:
    return math.log((1 + error) / (1 - error))


def buckets(x: Floats, error: float) -> Ints:
    """Numbers of buckets, in the order of values: 0 for 0, negative for negative values, the largest word for NaN."""
    step, magnitude = _log_gamma(error), np.abs(x)
    least = math.floor(math.log(SMALLEST) / step) - 1
    with np.errstate(divide="ignore", invalid="ignore"):
        number = np.ceil(np.log(magnitude) / step) - least
        number = np.where(np.isinf(x), INFINITE, np.where(magnitude == 0, 0, number))
    nan = np.isnan(x)
    found = np.copysign(np.where(nan, 0, number), x).astype(np.int64)
    found[nan] = v.TOP
    return found


def middles(numbers: Ints, error: float) -> Floats:
    """For each bucket, a value within ``error`` of all values in it."""
    step = _log_gamma(error)
    least = math.floor(math.log(SMALLEST) / step) - 1
    magnitude = np.abs(numbers)
    with np.errstate(over="ignore", under="ignore"):
        found = np.exp((magnitude + least) * step + math.log1p(-error))  # 2 gamma ** n / (gamma + 1)
    found = np.where(magnitude == 0, 0.0, np.clip(found, SMALLEST, LARGEST))
    return np.copysign(np.where(magnitude == INFINITE, np.inf, found), numbers)


def _hashed(value: ValueType, column: pa.Array) -> Unsigned:
    """A hash of each value, equal in every process; -0.0 equals 0.0, and NaN is one value."""
    hashed = np.zeros(len(column), np.uint64)
    if value.family == RANKED:
        coded = encoded(column)
        texts = coded.dictionary.cast(pa.large_binary())
        at = np.frombuffer(texts.buffers()[1], np.int64, len(texts) + 1, texts.offset * 8) if len(texts) else _NONE
        data = texts.buffers()[2] if len(texts) else None
        pool = np.append(np.frombuffer(data or b"", np.uint8), np.zeros(16, np.uint8))
        each = np.empty(len(texts), np.uint64)
        hash_bytes(pool, at, each)
        mixed = np.zeros_like(each)
        hash_words(each, mixed)  # the first bits of a text's hash alone differ too little
        codes = as_numpy(coded.indices.fill_null(0))
        return mixed[codes] if each.size else hashed
    parts: tuple[Ints, ...]
    if value.family == DECIMAL and value.ranked:
        parts = value.limbs(column)
    elif value.family == FLOAT:
        parts = (v.float_words(value.floats(column) + 0.0),)
    else:
        parts = (value.words(column),)
    for part in parts:
        hash_words(np.ascontiguousarray(part).view(np.uint64), hashed)
    return hashed


_NONE = np.zeros(1, np.int64)


def _approx_quantile(agg: Aggregate, value: ValueType, types: Mapping[str, pa.DataType]) -> BoundAggregate:
    q, error = (float(x) for _, x in agg.options)

    def lower(b: list[Block], pools: Pools) -> Lowered:
        windows = Picked.shared(b[0], Windows)

        def read(numbers: Ints) -> Floats:
            return middles(kind.read(numbers, windows), error)

        return holistic.quantiles(windows, q, read, value.family == FLOAT)

    kind = Buckets.of(error)
    lane = Lane(kind, (Feed(agg.value_column, f"bucket:{error!r}"),), agg.flag)
    return BoundAggregate((lane,), pa.float64(), lower)


def _approx_count_distinct(agg: Aggregate, value: ValueType, types: Mapping[str, pa.DataType]) -> BoundAggregate:
    def lower(b: list[Block], pools: Pools) -> Lowered:
        windows = Picked.shared(b[0], Windows)
        items, out = windows.from_cells.whole().items, np.empty(windows.first.size, np.float64)
        k.estimates(windows.first, windows.last, windows.at, items, out)
        return Lowered(array_of(windows.spread(np.rint(out).astype(np.int64))), None)

    return BoundAggregate((Lane(REGISTERS, (Feed(agg.value_column, "hash:"),), agg.flag),), pa.int64(), lower)


define("approx_quantile", NUMERIC, _approx_quantile)
define("approx_count_distinct", (*NUMERIC, TIME, DURATION, RANKED), _approx_count_distinct)


@says_arguments
def approx_quantile(column: str, q: float, error: float = 0.01) -> Aggregate:
    """An approximate ``quantile``: each of the two values it lies between is off by at most the share ``error``.

    NaN if any value is NaN. Values smaller than 10**-16 of the largest one of the window count as 0. So a slice has at
    most 37 / ln((1 + error) / (1 - error)) counters for each sign, of 16 bytes (1 %: 59 KB in all), mostly far fewer.

    Parameters
    ----------
    column
        The column, or an expression; nulls are left out.
    q
        A number from 0 (the smallest value) to 1 (the largest).
    error
        From 0.000001 to below 1: the largest relative error of a value.

    Examples
    --------
    >>> rows = pa.table({"t": range(100), "v": range(100)})
    >>> found = sl.aggregate(rows, sl.Spec("t", {"w": sl.whole()}, {"x": sl.approx_quantile("v", 0.9)}))
    >>> 88 < found["x"][0].as_py() < 91
    True
    """
    if isinstance(error, bool) or not isinstance(error, Real) or not 1e-6 <= float(error) < 1:
        raise ValueError(f"approx_quantile's error must be a number from 0.000001 to below 1; got {error!r}")
    options = (("q", holistic.share_of(q, "approx_quantile's q")), ("error", float(error)))
    return Aggregate("approx_quantile", column_named(column, "approx_quantile's column"), options=options)


@says_arguments
def approx_count_distinct(column: str) -> Aggregate:
    """The number of different values without nulls, with a standard error of 1.6 % in at most 64 KiB a slice.

    Parameters
    ----------
    column
        The column, or an expression; nulls are left out.

    Examples
    --------
    >>> rows = pa.table({"t": [1, 2, 12], "v": ["a", "a", "b"]})
    >>> spec = sl.Spec("t", {"ten": sl.tumbling(10)}, {"x": sl.approx_count_distinct("v")})
    >>> sl.aggregate(rows, spec)["x"].to_pylist()
    [1, 1]
    """
    return Aggregate("approx_count_distinct", column_named(column, "approx_count_distinct's column"))
