"""Holistic aggregates: answers that need every value of a window, from values that each slice keeps sorted.

A slice keeps, for each column with such an aggregate, its values sorted and counted (``list_kinds.COUNTED``). ``mode``
also keeps the earliest row of each value (``list_kinds.EARLIEST``); ``collect`` keeps rows in order. A window is a
range of slices, and its answer is computed from their lists (``kernels.holistic``): quantiles by counting rows in
buckets, distinct and frequent values by counting them as slices enter and leave. Overlapping windows share sorting and
counting.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from numbers import Real

import numpy as np
import pyarrow as pa

from slicing.aggregates.aggregate import Aggregate, BoundAggregate, Pools, Types, column_named, columns_of, define
from slicing.aggregates.arithmetic import Lowered
from slicing.aggregates.over_lists import Selecting, Windows, check_room, list_array
from slicing.cells.blocks import Block
from slicing.cells.lanes import Feed, Lane
from slicing.cells.list_kinds import (
    COUNTED,
    EARLIEST,
    Bounded,
    Chosen,
    ListKind,
    best,
    bounded_rows_of,
    in_order,
    rows_of,
    sampled,
    some_in_order,
)
from slicing.cells.lists import Lists, Picked, interleaved, owned
from slicing.columns import values as v
from slicing.columns.arrow_out import array_of
from slicing.columns.order import order_by
from slicing.columns.pools import comparable
from slicing.columns.values import DURATION, FLOAT, NESTED, NUMERIC, RANKED, TIME, ValueType
from slicing.kernels import holistic as k
from slicing.kernels.lists import copied
from slicing.system.arguments import at_least_one, choice, says_arguments
from slicing.system.arrays import Floats, Ints

LINEAR = "linear"
INTERPOLATIONS = (LINEAR, "lower", "higher", "nearest", "midpoint", "inverted_cdf")  # as numpy's methods
_ROUNDED = {"lower": np.floor, "higher": np.ceil, "nearest": np.rint}

# --- definitions -----------------------------------------------------------------------------------------------------


def _lane(agg: Aggregate, kind: ListKind, form: str = "low") -> Lane:
    return Lane(kind, (Feed(agg.value_column, form),), agg.flag)


def quantiles(
    windows: Windows | Selecting,
    q: float | None,
    floats: Callable[[Ints], Floats],
    has_nan: bool,
    interpolation: str = LINEAR,
) -> Lowered:
    """The quantile ``q`` of each window (None: the median); ``floats`` converts words, one a window, to numbers."""
    last = windows.count - 1
    if q is None:
        share, low, high = None, last >> 1, (last + 1) >> 1
    else:
        low, share = _placed(q, last, interpolation)
        high = low + (share > 0)
    below, above = (floats(np.ascontiguousarray(w)) for w in windows.ranked(low, high).T)
    numbers = windows.spread(_between(below, above, share))
    if has_nan and windows.value.max(initial=0) == v.TOP:  # NaN is the largest word
        numbers[windows.place[windows.ranked(last, last)[:, 0] == v.TOP]] = np.nan
    return Lowered(array_of(numbers, ~windows.filled), None)


def _quantile(agg: Aggregate, value: ValueType, types: Types) -> BoundAggregate:
    def lower(b: list[Block], pools: Pools) -> Lowered:
        pool, windows = pools.get(agg.value_column), Picked.shared(b[0], Windows.of)
        options = dict(agg.options)

        def read(words: Ints) -> Floats:
            return value.floats(value.array(words, None, pool))

        between = options.get("interpolation", LINEAR)
        return quantiles(windows, options.get("q"), read, value.family == FLOAT, between)

    return BoundAggregate((_lane(agg, COUNTED),), pa.float64(), lower)


def _placed(q: float, last: Ints, interpolation: str) -> tuple[Ints, Floats]:
    """The value below the quantile ``q`` of each window, by its place, and the share of the way to the next value.
    ``last``: the place of the largest value."""
    if interpolation == "inverted_cdf":
        at = np.ceil(q * (last + 1)) - 1
        return np.maximum(at, 0).astype(np.int64), np.zeros(at.size)
    at = q * last
    if interpolation in _ROUNDED:
        at = _ROUNDED[interpolation](at)
    low = np.floor(at).astype(np.int64)
    share: Floats = at - low
    return low, np.where(share > 0, 0.5, 0.0) if interpolation == "midpoint" else share


def _between(a: Floats, b: Floats, share: Floats | None) -> Floats:
    """Interpolate from a to b as numpy does (no share: the mean). A neighbour with share 0 has no influence."""
    with np.errstate(invalid="ignore", over="ignore"):
        if share is None:
            numbers = (a + b) / 2
            large = np.isinf(numbers)
            if np.count_nonzero(large):
                numbers[large] = a[large] / 2 + b[large] / 2
            return numbers
        step = b - a
        numbers = np.where(share < 0.5, a + step * share, b - step * (1 - share))
        numbers = np.where(np.isinf(step), a * (1 - share) + b * share, numbers)
    return np.where((share == 0) | (a == b), a, numbers)


def _count_distinct(agg: Aggregate, value: ValueType, types: Types) -> BoundAggregate:
    def lower(b: list[Block], pools: Pools) -> Lowered:
        windows = Picked.shared(b[0], Windows.of)
        return Lowered(array_of(windows.spread(windows.distinct())), None)

    return BoundAggregate((_lane(agg, COUNTED),), pa.int64(), lower)


def _mode(agg: Aggregate, value: ValueType, types: Types) -> BoundAggregate:
    def lower(b: list[Block], pools: Pools) -> Lowered:
        windows = Picked.shared(b[0], Windows)
        number, n = windows.number()
        items = windows.from_cells.whole().items
        begins = np.full(windows.at.size - 1, v.TOP)
        held = np.flatnonzero(np.diff(windows.at))
        if held.size:
            begins[held] = np.minimum.reduceat(items[:, 2], windows.at[held])
        having = np.zeros(2 * int(windows.count.max(initial=0)) + 1, np.int64)  # in between, two windows are counted
        out = np.empty(windows.first.size, np.int64)
        lists = windows.at, number, items, begins, np.empty_like(begins)
        k.modes(windows.first, windows.last, *lists, np.zeros(n, np.int64), having, out)
        words = windows.spread(windows.value[out])
        return Lowered(value.picked(words, ~windows.filled, pools.get(agg.value_column)), None)

    return BoundAggregate((_lane(agg, EARLIEST),), value.type, lower)


def _heavy_hitters(agg: Aggregate, value: ValueType, types: Types) -> BoundAggregate:
    share = float(dict(agg.options)["share"])

    def lower(b: list[Block], pools: Pools) -> Lowered:
        windows = Picked.shared(b[0], Windows)
        number, n = windows.number()
        items = windows.at[windows.last] - windows.at[windows.first]
        at = np.empty(items.size + 1, np.int64)
        out, count = np.empty((2, int(np.minimum(items, 1 / share + 1).sum())), np.int64)
        lists = windows.at, number, windows.before
        values = np.zeros(n, np.int64), np.full(n, -1), np.empty(n, np.int64)
        k.heavy(windows.first, windows.last, *lists, share, *values, at, out, count)
        words, count = windows.value[out[: at[-1]]], count[: at[-1]]
        pool = pools.get(agg.value_column)
        order = order_by(comparable(words, pool), -count, np.repeat(np.arange(at.size - 1), np.diff(at)))
        return Lowered(windows.lists(at, words[order], value, pool), None)

    return BoundAggregate((_lane(agg, COUNTED),), pa.list_(value.type), lower)


def _top_k(agg: Aggregate, value: ValueType, types: Types) -> BoundAggregate:
    """The largest values (``top_k``), or the least (``bottom_k``)."""
    wanted, least = int(dict(agg.options)["k"]), agg.function == "bottom_k"
    if agg.return_ is not None:
        return _top_rows(agg, wanted, "low" if least else "high", types)

    def lower(b: list[Block], pools: Pools) -> Lowered:
        windows = Picked.shared(b[0], Windows.of)
        if least:
            at, out = windows.flipped().largest(wanted, False)  # NaN, the largest word, comes last
            out = ~out
        else:
            at, out = windows.largest(wanted, value.family == FLOAT)
        return Lowered(windows.lists(at, out, value, pools.get(agg.value_column)), None)

    return BoundAggregate((_lane(agg, COUNTED),), pa.list_(value.type), lower)


def _top_rows(agg: Aggregate, wanted: int, form: str, types: Types) -> BoundAggregate:
    """Other columns of the rows with the largest values, or the least: those whose words of this form are least."""
    assert agg.return_ is not None
    names = (agg.return_,) if isinstance(agg.return_, str) else agg.return_
    found = [ValueType.of(types[name], name) for name in names]
    kind = best(wanted, len(names))
    feeds = [Feed(name, form) for name in names for form in ("word", "null")]
    type = found[0].type
    if not isinstance(agg.return_, str):
        type = pa.struct([(name, value.type) for name, value in zip(names, found, strict=True)])

    def lower(b: list[Block], pools: Pools) -> Lowered:
        rows = bounded_rows_of(b[0], kind)
        arrays = []
        for at, (name, value) in enumerate(zip(names, found, strict=True)):
            words, null = rows.word(4 + 2 * at), rows.word(5 + 2 * at)
            arrays.append(value.array(words, null != 0, pools.get(name)))
        values = arrays[0] if isinstance(agg.return_, str) else pa.StructArray.from_arrays(arrays, fields=list(type))
        return Lowered(list_array(rows.at, values, rows.at[1:] == rows.at[:-1]), None)

    return BoundAggregate((Lane(kind, (Feed(agg.value_column, form), *feeds), agg.flag),), pa.list_(type), lower)


def _sample(agg: Aggregate, value: ValueType, types: Types) -> BoundAggregate:
    kind = sampled(int(dict(agg.options)["k"]))

    def lower(b: list[Block], pools: Pools) -> Lowered:
        rows = bounded_rows_of(b[0], kind)
        values = value.array(rows.word(kind.words - 1), None, pools.get(agg.value_column))
        return Lowered(list_array(rows.at, values, rows.at[1:] == rows.at[:-1]), None)

    feeds = Feed(agg.value_column, "mix:"), Feed(agg.value_column, "word")
    return BoundAggregate((Lane(kind, feeds, agg.flag),), pa.list_(value.type), lower)


def _collect(agg: Aggregate, value: ValueType, types: Types) -> BoundAggregate:
    options, is_float = dict(agg.options), value.type == pa.float64()
    most = options.get("at_most")
    kind = in_order(1) if most is None else some_in_order(most, options.get("keep") == "last")

    def given(rows: Lists | Chosen) -> Ints:
        """The values as words. Floats are converted here, once for each row, however many windows have it."""
        words = rows.word(3)
        words = v.word_floats(words).view(np.int64) if is_float else words.view()
        words.setflags(write=False)  # as Arrow's memory: a kernel is compiled for one type
        return words

    def lower(b: list[Block], pools: Pools) -> Lowered:
        picked = Picked.of(b[0])
        lists = picked.lists.whole()
        first, last = kind.within(lists.at[picked.first], lists.at[picked.last])
        starts = np.append(0, np.cumsum(last - first))
        check_room(starts)
        tangled, all_rows = interleaved(picked), given(lists)
        if 2 * starts[-1] > all_rows.size and (first[1:] == last[:-1]).all() and not tangled.any():
            words = all_rows[first[0] : last[-1]]
            words = owned(words)  # results do not lie in memory that was given
        else:
            words = np.empty(starts[-1], np.int64)
            copied(all_rows, first[~tangled], last[~tangled], starts[:-1][~tangled], words)
            if tangled.any():
                some = picked[tangled]
                rows = bounded_rows_of(some, kind) if isinstance(kind, Bounded) else rows_of(some, kind)
                copied(given(rows), rows.at[:-1], rows.at[1:], starts[:-1][tangled], words)
        pool = pools.get(agg.value_column)
        values = array_of(words.view(np.float64)) if is_float else value.array(words, None, pool)
        return Lowered(list_array(starts, values, starts[1:] == starts[:-1]), None)

    return BoundAggregate((_lane(agg, kind, "word"),), pa.list_(value.type), lower)


_ANY = (*NUMERIC, TIME, DURATION, RANKED)
define("median", NUMERIC, _quantile)
define("quantile", NUMERIC, _quantile)
define("count_distinct", _ANY, _count_distinct)
define("mode", _ANY, _mode)
define("collect", (*_ANY, NESTED), _collect)
define("top_k", _ANY, _top_k)
define("bottom_k", _ANY, _top_k)
define("heavy_hitters", _ANY, _heavy_hitters)
define("sample", _ANY, _sample)


# --- the public constructors ------------------------------------------------------------------------------------------


@says_arguments
def median(column: str) -> Aggregate:
    """The middle value, or the mean of the two middle values: exact, float64. NaN if any value is NaN.

    Parameters
    ----------
    column
        The column, or an expression; nulls are left out.

    Examples
    --------
    >>> rows = pa.table({"t": [1, 2, 12], "v": [2.5, 4.0, 3.0]})
    >>> sl.aggregate(rows, sl.Spec("t", {"ten": sl.tumbling(10)}, {"x": sl.median("v")}))["x"].to_pylist()
    [3.25, 3.0]
    """
    return Aggregate("median", column_named(column, "median's column"))


@says_arguments
def quantile(column: str, q: float, *, interpolation: str = "linear") -> Aggregate:
    """The value below which a share ``q`` of the rows lies: exact, float64, interpolated as numpy does by default.

    Infinities differ from numpy: between a number and inf lies inf (numpy: NaN). Between -inf and inf lies NaN. NaN if
    any value is NaN.

    Parameters
    ----------
    column
        The column, or an expression; nulls are left out.
    q
        A number from 0 (the smallest value) to 1 (the largest).
    interpolation
        Which value it is if the quantile lies between two: ``"linear"`` (in proportion), ``"lower"``, ``"higher"``,
        ``"nearest"`` (in the middle, the one with an even place, counted from 0), ``"midpoint"`` (the mean of both).
        These are those of numpy and pandas; Polars takes ``"nearest"`` by default. ``"inverted_cdf"``: the least value
        up to which at least a share ``q`` of the rows lies, as SQL's ``percentile_disc``.

    Examples
    --------
    >>> rows = pa.table({"t": [1, 2, 12], "v": [2.5, 4.0, 3.0]})
    >>> sl.aggregate(rows, sl.Spec("t", {"ten": sl.tumbling(10)}, {"x": sl.quantile("v", 0.25)}))["x"].to_pylist()
    [2.875, 3.0]
    """
    options: tuple[tuple[str, object], ...] = (("q", share_of(q, "quantile's q")),)
    if choice(interpolation, "quantile's interpolation", INTERPOLATIONS) != LINEAR:
        options = (*options, ("interpolation", interpolation))
    return Aggregate("quantile", column_named(column, "quantile's column"), options=options)


@says_arguments
def count_distinct(column: str) -> Aggregate:
    """The exact number of different values without nulls. NaN is one value, and -0.0 equals 0.0.

    Parameters
    ----------
    column
        The column, or an expression; nulls are left out.

    Examples
    --------
    >>> rows = pa.table({"t": [1, 2, 12], "v": ["a", "a", "b"]})
    >>> sl.aggregate(rows, sl.Spec("t", {"ten": sl.tumbling(10)}, {"x": sl.count_distinct("v")}))["x"].to_pylist()
    [1, 1]
    """
    return Aggregate("count_distinct", column_named(column, "count_distinct's column"))


@says_arguments
def mode(column: str) -> Aggregate:
    """The most frequent value; if several are, the one that came first by (time, sequence, arrival). On Spark, where
    rows have no order of arrival, a tie of equal times goes to the smaller value.

    Parameters
    ----------
    column
        The column, or an expression; nulls are left out.

    Examples
    --------
    >>> rows = pa.table({"t": [1, 2, 12], "v": ["a", "a", "b"]})
    >>> sl.aggregate(rows, sl.Spec("t", {"ten": sl.tumbling(10)}, {"x": sl.mode("v")}))["x"].to_pylist()
    ['a', 'b']
    """
    return Aggregate("mode", column_named(column, "mode's column"))


@says_arguments
def collect(column: str, at_most: int | None = None, keep: str = "first") -> Aggregate:
    """The values as a list, by (time, sequence, arrival), without nulls; null if there are none.

    Parameters
    ----------
    column
        The column, or an expression; nulls are left out.
    at_most
        Keep only so many values of each window (and of each slice), which limits the state.
    keep
        Which values to keep: the ``"first"`` or the ``"last"``. Both are listed in order.

    Examples
    --------
    >>> rows = pa.table({"t": [1, 2, 12], "v": [2, 4, 3]})
    >>> sl.aggregate(rows, sl.Spec("t", {"ten": sl.tumbling(10)}, {"x": sl.collect("v")}))["x"].to_pylist()
    [[2, 4], [3]]
    >>> last = {"x": sl.collect("v", at_most=2, keep="last")}
    >>> sl.aggregate(rows, sl.Spec("t", {"all": sl.whole()}, last))["x"].to_pylist()
    [[4, 3]]
    """
    if keep not in ("first", "last"):
        raise ValueError(f"collect's keep must be 'first' or 'last'; got {keep!r}")
    options: tuple[tuple[str, object], ...] = ()
    if at_most is not None:
        options = (("at_most", _positive(at_most, "collect's at_most")),)
    if keep == "last":
        if at_most is None:
            raise ValueError("collect's keep='last' needs at_most=, the number of values; without it all are kept")
        options = (*options, ("keep", keep))
    return Aggregate("collect", column_named(column, "collect's column"), options=options)


@says_arguments
def sample(column: str, k: int) -> Aggregate:
    """A random sample of ``k`` values as a list: the values with the least hash of (time, sequence, value).

    Only the hash decides, so the sample is equal in every run, for any split of the stream, and on Spark. The list is
    ordered by hash: its first ``j`` values are ``sample(column, j)``. Rows of equal time, sequence and value have one
    hash, so they are in the sample together. The list is null if there are no values.

    Parameters
    ----------
    column
        The column, or an expression; nulls are left out.
    k
        The number of values to keep, in each slice and in each window.

    Examples
    --------
    >>> import pyarrow as pa, slicing as sl
    >>> rows = pa.table({"t": range(1000), "v": range(1000)})
    >>> spec = sl.Spec("t", {"w": sl.tumbling(500)}, {"some": sl.sample("v", 3)})
    >>> sl.aggregate(rows, spec)["some"].to_pylist()
    [[232, 181, 366], [659, 632, 594]]
    """
    return Aggregate("sample", column_named(column, "sample's column"), options=(("k", _positive(k, "sample's k")),))


@says_arguments
def top_k(column: str, k: int, return_: str | Sequence[str] | None = None) -> Aggregate:
    """The ``k`` largest values as a list, in descending order; all values if there are fewer.

    A value that occurs several times is listed several times. NaN comes last: as in ``max``, it counts only if there
    are too few other values. With ``return_`` the list has that column of these rows instead, or structs of several
    columns; of rows with equal values the earliest comes first.

    Parameters
    ----------
    column
        The column, or an expression; nulls are left out.
    k
        The most values in a list.
    return_
        A column to return instead of the values, or a list of columns: they are returned as structs.

    Examples
    --------
    >>> rows = pa.table({"t": [1, 2, 12], "v": [2, 4, 3]})
    >>> sl.aggregate(rows, sl.Spec("t", {"ten": sl.tumbling(10)}, {"x": sl.top_k("v", 2)}))["x"].to_pylist()
    [[4, 2], [3]]
    """
    return _of_rank("top_k", column, k, return_)


@says_arguments
def bottom_k(column: str, k: int, return_: str | Sequence[str] | None = None) -> Aggregate:
    """The ``k`` least values as a list, in ascending order; all values if there are fewer.

    A value that occurs several times is listed several times. NaN comes last: as in ``min``, it counts only if there
    are too few other values. With ``return_`` the list has that column of these rows instead, or structs of several
    columns; of rows with equal values the earliest comes first.

    Parameters
    ----------
    column
        The column, or an expression; nulls are left out.
    k
        The most values in a list.
    return_
        A column to return instead of the values, or a list of columns: they are returned as structs.

    Examples
    --------
    >>> rows = pa.table({"t": [1, 2, 12], "v": [4, 2, 3]})
    >>> sl.aggregate(rows, sl.Spec("t", {"ten": sl.tumbling(10)}, {"x": sl.bottom_k("v", 2)}))["x"].to_pylist()
    [[2, 4], [3]]
    """
    return _of_rank("bottom_k", column, k, return_)


def _of_rank(function: str, column: str, k: int, return_: str | Sequence[str] | None) -> Aggregate:
    k = _positive(k, f"{function}'s k")
    returned = None if return_ is None else columns_of(return_, f"{function}'s return_")
    return Aggregate(function, column_named(column, f"{function}'s column"), returned, options=(("k", k),))


@says_arguments
def heavy_hitters(column: str, share: float) -> Aggregate:
    """The values that make up at least ``share`` of the rows, as a list, the most frequent value first.

    Null values do not count. Equally frequent values are in ascending order. The list is empty if no value is frequent
    enough, and null if all values are null.

    Parameters
    ----------
    column
        The column, or an expression; nulls are left out.
    share
        A number above 0 and at most 1.

    Examples
    --------
    >>> rows = pa.table({"t": [1, 2, 12], "v": ["a", "a", "b"]})
    >>> sl.aggregate(rows, sl.Spec("t", {"ten": sl.tumbling(10)}, {"x": sl.heavy_hitters("v", 0.5)}))["x"].to_pylist()
    [['a'], ['b']]
    """
    checked = share_of(share, "heavy_hitters's share")
    if checked == 0:
        raise ValueError("heavy_hitters's share must be above 0; got 0")
    return Aggregate("heavy_hitters", column_named(column, "heavy_hitters's column"), options=(("share", checked),))


def _positive(number: object, argument: str) -> int:
    number = at_least_one(number, argument)
    if number >= 1 << 62:
        raise ValueError(f"{argument} must be a whole number below 2**62; got {number!r}")
    return number


def share_of(number: object, argument: str) -> float:
    is_number = isinstance(number, Real | Decimal) and not isinstance(number, bool | np.timedelta64)
    if not is_number or not 0 <= float(number) <= 1:  # type: ignore[arg-type]
        hint = ""
        if isinstance(number, int | float) and 2 <= number <= 100:
            hint = f", which is {number / 100:g} if it is percent"
        elif isinstance(number, list | tuple):
            hint = "; give each its own aggregate"
        raise ValueError(f"{argument} must be a number from 0 to 1; got {number!r}{hint}")
    return float(number)  # type: ignore[arg-type]
