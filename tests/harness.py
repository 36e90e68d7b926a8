"""Holds the library against the oracle: one plain description, both sides, compared step by step."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import HealthCheck, Phase, seed, settings
from oracle import Near, Oracle, Out, Refused, Values, rank, same
from strategies import Case

import slicing as sl
from slicing.kernels.strategies import STRATEGIES
from slicing.query.policy import Policy

INT64_MAX = 2**63 - 1
DAY = 86_400_000  # date64 holds milliseconds; here dates are days
CHANGE_COLUMNS = {"final": {}, "updates": {"revision": pa.int64()}, "changes": {"op": pa.string()}}


# --- from plain data to the library -------------------------------------------------------------------------


def arrow_type(name: str) -> pa.DataType:
    match name.replace(")", "").replace("]", "").replace("(", " ").replace("[", " ").replace(",", " ").split():
        case ["decimal", precision, scale]:
            return pa.decimal128(int(precision), int(scale))
        case ["timestamp", unit]:
            return pa.timestamp(unit)
        case ["timestamp", unit, zone]:
            return pa.timestamp(unit, zone)
        case ["dictionary"]:
            return pa.dictionary(pa.int32(), pa.string())
        case ["duration", unit]:
            return pa.duration(unit)
        case ["struct"]:
            return pa.struct({"a": pa.int64(), "b": pa.string()})
        case ["list"]:
            return pa.list_(pa.float64())
    return pa.type_for_alias(name)


def arrow_array(values: list, type_name: str) -> pa.Array:
    kind = arrow_type(type_name)
    if pa.types.is_dictionary(kind):
        return pa.array(values, pa.string()).dictionary_encode().cast(kind)
    if pa.types.is_date64(kind):
        return pa.array([None if day is None else day * DAY for day in values], pa.int64()).cast(kind)
    if pa.types.is_date32(kind):
        return pa.array(values, pa.int32()).cast(kind)
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        return pa.array(values, pa.int64()).cast(kind)
    return pa.array(values, kind)


def batch(case: Case, rows: list[tuple]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True) if rows else [() for _ in case.columns]
    arrays = [arrow_array(list(c), kind) for c, kind in zip(columns, case.columns.values(), strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=list(case.columns))


@dataclass(frozen=True)
class Listed(sl.ContextFreeWindow):
    """A user's windows: any finite list of them, overlapping or with holes."""

    extents: tuple[tuple[int, int], ...]

    def next_edge(self, times: np.ndarray) -> np.ndarray:
        edges = np.array(sorted({edge for extent in self.extents for edge in extent} | {INT64_MAX}), np.int64)
        return edges[np.searchsorted(edges, times, side="right")]

    def containing(self, time: int) -> list[tuple[int, int]]:
        return [(start, end) for start, end in self.extents if start <= time < end]


@dataclass(frozen=True)
class Squares(sl.ContextFreeWindow):
    """A user's windows between perfect squares of units after a time: ever longer, none before it."""

    unit: int = 1
    since: int = 0

    def next_edge(self, times: np.ndarray) -> np.ndarray:
        units = [(time - self.since) // self.unit for time in times.tolist()]
        roots = [0 if unit < 0 else math.isqrt(unit) + 1 for unit in units]
        return np.array([self.since + root**2 * self.unit for root in roots], np.int64)

    def containing(self, time: int) -> list[tuple[int, int]]:
        root = math.isqrt(max(time - self.since, 0) // self.unit)
        edges = [self.since + side**2 * self.unit for side in (root, root + 1)]
        return [] if time < self.since else [(edges[0], edges[1])]


PRIME = 2_147_483_647


def user_defined(which: str, column: str) -> sl.Aggregate:
    """User-defined aggregates: two that see the order of rows, one of two columns, one of a flag."""
    match which:
        case "polynomial":
            return sl.udaf(
                which,
                lift=lambda x: (x % PRIME, 1_000_003),
                combine=lambda a, b: ((a[0] * b[1] + b[0]) % PRIME, a[1] * b[1] % PRIME),
                lower=lambda state: state[0],
                identity=(0, 1),
                state=["int64", "int64"],
                inputs=[column],
            )
        case "remainder":
            return sl.udaf(
                which,
                lift=lambda x: (x % PRIME, x % 7 == 0),
                combine=lambda a, b: ((a[0] + b[0]) % PRIME, a[1] != b[1]),
                lower=lambda state: -state[0] if state[1] else state[0],
                identity=(0, False),
                invert=lambda a, b: ((a[0] - b[0]) % PRIME, a[1] != b[1]),
                state=["int64", "bool"],
                inputs=[column],
                commutative=True,
            )
        case "rise":
            return sl.udaf(
                which,
                lift=lambda x: (x, x, True),
                combine=lambda a, b: (a[0], b[1], True) if a[2] and b[2] else (a if a[2] else b),
                lower=lambda state: state[1] - state[0],
                identity=(0.0, 0.0, False),
                state=["float64", "float64", "bool"],
                inputs=[column],
            )
        case "weighted":
            return sl.udaf(
                which,
                lift=lambda x, flag: (float(x) * (1 + flag), 1 + flag),
                combine=lambda a, b: (a[0] + b[0], a[1] + b[1]),
                lower=lambda state: state[0] / state[1],
                identity=(0.0, 0.0),
                state=["float64", "float64"],
                inputs=[column, "flag"],
                commutative=True,
            )
    return sl.udaf(
        which,
        lift=lambda x: int(x) % 2 == 1,
        combine=lambda a, b: a or b,
        lower=lambda state: state,
        identity=False,
        state=["bool"],
        inputs=[column],
        commutative=True,
    )


@dataclass(frozen=True)
class Visit(sl.ContextAwareWindow):
    """A user's sessions that end ``longest`` after they began, at the latest."""

    gap: int
    longest: int

    def see(self, context: Any, time: int) -> Any:
        if context is None:
            return (time, time), [self.opens()]
        first, _ = context
        return (first, time), []

    def deadline(self, context: Any) -> int | None:
        return None if context is None else min(context[1] + self.gap, context[0] + self.longest - 1)

    def expired(self, context: Any) -> Any:
        first, last = context
        return None, [self.closes(at=min(last + self.gap, first + self.longest))]


@dataclass(frozen=True)
class Delta(sl.ContextAwareWindow):
    """A user's windows that end before the row whose value has moved by ``by``."""

    column: str
    by: float

    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    def see(self, first: float | None, time: int, value: float | None) -> Any:
        if value is None:
            return first, []
        if first is None:
            return value, [self.opens()]
        if abs(value - first) < self.by:
            return first, []
        return value, [self.closes(before=True), self.opens()]


@dataclass(frozen=True)
class FastVisit(sl.ContextAwareWindow):
    """The same sessions, written so that they compile."""

    gap: int
    longest: int

    def start(self) -> Any:
        return False, 0, 0

    def see(self, context: Any, time: int) -> Any:
        is_open, first, _ = context
        return ((True, first, time), 0) if is_open else ((True, time, time), self.OPEN)

    def deadline(self, context: Any) -> int | None:
        is_open, first, last = context
        return min(last + self.gap, first + self.longest - 1) if is_open else None

    def expired(self, context: Any) -> Any:
        _, first, last = context
        return (False, 0, 0), self.CLOSE, min(last + self.gap, first + self.longest)


@dataclass(frozen=True)
class FastDelta(sl.ContextAwareWindow):
    """The same windows, written so that they compile."""

    column: str
    by: float

    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    def start(self) -> Any:
        return False, 0.0

    def see(self, context: Any, time: int, value: float | None) -> Any:
        is_open, first = context
        if value is None:
            return context, 0
        if not is_open:
            return (True, value), self.OPEN
        if abs(value - first) < self.by:
            return context, 0
        return (True, value), self.CLOSE_BEFORE + self.OPEN


def spec(case: Case) -> sl.Spec:
    query, time_type = case.query, case.columns[case.query["time"]]
    unit = DAY if time_type == "date64" else 1  # a user's windows are in the words of the column

    def span(ticks: int | None) -> Any:
        if ticks is None or not time_type.startswith(("timestamp", "date")):
            return ticks
        return f"{ticks}d" if time_type.startswith("date") else f"{ticks}{time_unit(time_type)}"

    def point(tick: int | None) -> Any:
        return None if tick is None else moment(tick, time_type)

    def window(w: Values) -> Any:
        extra: Values = {"fill": True} if w.get("fill") else {}
        if w.get("full"):
            extra["full"] = True
        if w.get("offset"):
            extra["offset"] = span(w["offset"])
        match w["kind"]:
            case "tumbling":
                return sl.tumbling(span(w["size"]), **extra)
            case "sliding":
                return sl.sliding(span(w["size"]), every=span(w["every"]), **extra)
            case "cumulate":
                return sl.cumulate(span(w["size"]), span(w["every"]), **extra)
            case "landmark":
                return sl.landmark(span(w["every"]), start=point(w.get("start")))
            case "fixed":
                return sl.fixed(point(w["start"]), point(w["end"]))
            case "session":
                return sl.session(span(w["gap"]))
            case "whole":
                return sl.whole()
            case "rows":
                options = {name: w[name] for name in ("order", "per_key", "partial") if name in w}
                return sl.rows(w["n"], w["every"], **options)
            case "punctuation":
                return sl.punctuation(w["column"], per_key=w["per_key"])
            case "frame":
                return sl.frame(w["enter"], w["leave"], partial=w["partial"])
            case "per_row":
                spans = {name: span(w[name]) for name in ("range", "delay", "before", "after") if name in w}
                return sl.per_row(every=w["every"], order=w["order"], **spans, closed=w.get("closed", "right"))
            case "visit":
                return (FastVisit if w["compiled"] else Visit)(w["gap"] * unit, w["longest"] * unit)
            case "delta":
                return (FastDelta if w["compiled"] else Delta)(w["column"], w["by"])
            case "last_rows":
                return sl.last_rows(w["n"], span(w["every"]))
            case "calendar":
                steps = {name: w[name] for name in ("every", "cumulate") if name in w}
                return sl.calendar(w["unit"], tz=w["tz"], **steps)
            case "listed":
                return Listed(tuple((start * unit, end * unit) for start, end in w["extents"]))
            case "squares":
                return Squares(unit * w.get("unit", 1), unit * w.get("from", 0))
        raise ValueError(w["kind"])

    def agg(a: Values) -> Any:
        if a["fn"] == "udaf":
            made = user_defined(a["which"], a["col"])
            return made if a.get("where") is None else made.where(a["where"])
        build = getattr(sl, a["fn"])
        args = [
            a[name]
            for name in ("col", "q", "k", "return", "share", "error", "at_most", "keep")
            if a.get(name) is not None
        ]
        made = build(*args, **{name: a[name] for name in ("ddof", "interpolation") if name in a})
        return made if a.get("where") is None else made.where(a["where"])

    def watermark(w: Values) -> Any:
        match w["kind"]:
            case "bounded":
                return sl.bounded(span(w["delay"]), at_most_ahead=span(w.get("ahead")))
            case "ordered":
                return sl.ordered(on_disorder=w.get("on_disorder", "error"))
            case "manual":
                return sl.manual()
            case "per_source":
                return sl.per_source(w["column"], span(w["delay"]), idle=span(w.get("idle")))
            case "punctuated":
                return sl.punctuated(w["column"])
        raise ValueError(w["kind"])

    return sl.Spec(
        time=query["time"],
        by=query.get("by", []),
        windows={name: window(w) for name, w in query["windows"].items()},
        aggs={name: agg(a) for name, a in query["aggs"].items()},
        watermark=watermark(query["watermark"]),
        allowed_lateness=span(query.get("lateness", 0)),
        emit=query.get("emit", "final"),
        sequence=query.get("sequence"),
        on_null_time=query.get("on_null_time", "error"),
        on_overflow=query.get("on_overflow", "error"),
        **({"idle": span(query["idle"])} if query.get("idle") is not None else {}),
    )


def time_unit(time_type: str) -> str:
    return time_type.split("[")[1].split(",")[0].rstrip("]")


def moment(tick: int, time_type: str) -> Any:
    """A point in time as the library takes it: a number for integers, numpy's instant otherwise."""
    if time_type.startswith("timestamp"):
        return np.datetime64(tick, time_unit(time_type))
    return np.datetime64(tick, "D") if time_type.startswith("date") else tick


# --- from the library to plain data -------------------------------------------------------------------------


def plain(array: pa.ChunkedArray | pa.Array) -> list:
    """Values as the oracle has them: times and dates as integers."""
    kind = array.type
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if isinstance(array, pa.ChunkedArray):  # some versions keep chunks
        return [value for chunk in array.chunks for value in plain(chunk)]
    if pa.types.is_dictionary(kind):
        return plain(array.dictionary_decode())
    if pa.types.is_list(kind):
        flat, ends = iter(plain(array.flatten())), array.value_lengths().to_pylist()
        return [None if size is None else [next(flat) for _ in range(size)] for size in ends]
    if pa.types.is_struct(kind):
        fields = {kind.field(i).name: plain(array.field(i)) for i in range(kind.num_fields)}
        valid = array.is_valid().to_pylist()
        return [
            {name: column[at] for name, column in fields.items()} if valid[at] else None for at in range(len(array))
        ]
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        return array.cast(pa.int64()).to_pylist()
    if pa.types.is_date32(kind):
        return array.cast(pa.int32()).to_pylist()
    if pa.types.is_date64(kind):
        return [None if ms is None else ms // DAY for ms in array.cast(pa.int64()).to_pylist()]
    return array.to_pylist()


def plain_rows(table: pa.Table) -> list[Values]:
    columns = {name: plain(table.column(name)) for name in table.column_names}
    return [{name: column[at] for name, column in columns.items()} for at in range(table.num_rows)]


def plain_time(value: Any, time_type: str) -> int | None:
    """A watermark as an integer, whatever the library shows it as."""
    value = value.as_py() if isinstance(value, pa.Scalar) else value
    if value is None or isinstance(value, int | np.integer):
        return None if value is None else int(value)
    if isinstance(value, np.datetime64):
        unit = "D" if time_type.startswith("date") else time_unit(time_type)
        return int(value.astype(f"datetime64[{unit}]").astype(np.int64))
    return plain(pa.array([value]).cast(arrow_type(time_type)))[0]


def answer_type(agg: Values, columns: dict[str, str]) -> pa.DataType:
    """The type an aggregate's column must have."""
    fn, column_type = agg["fn"], columns.get(agg.get("col"), "")
    kind = arrow_type(column_type) if column_type else None
    if fn in ("count", "count_distinct", "approx_count_distinct", "min_count", "max_count"):
        return pa.int64()
    if fn in ("any", "all"):
        return pa.bool_()
    if fn in ("argmin", "argmax"):
        if isinstance(agg["return"], str):
            return arrow_type(columns[agg["return"]])
        return pa.struct([(name, arrow_type(columns[name])) for name in agg["return"]])
    if fn == "udaf":
        return {"polynomial": pa.int64(), "remainder": pa.int64(), "any odd": pa.bool_()}.get(
            agg["which"], pa.float64()
        )
    if fn in ("top_k", "bottom_k") and agg.get("return") is not None:
        return pa.list_(answer_type({**agg, "fn": "argmax"}, columns))
    if fn in ("collect", "top_k", "bottom_k", "heavy_hitters"):
        return pa.list_(kind)
    if fn in ("var", "std", "geometric_mean", "median", "quantile", "approx_quantile"):
        return pa.float64()
    if fn == "m4":
        return pa.struct([(name, kind) for name in ("min", "max", "first", "last")])
    if fn in ("sum", "product", "mean"):
        if pa.types.is_decimal(kind):
            wider, finer = (10, 0) if fn == "sum" else (4, 4)
            return pa.decimal128(min(kind.precision + wider, 38), min(kind.scale + finer, 38))
        if pa.types.is_duration(kind):
            return kind
        if fn == "mean" or pa.types.is_floating(kind):
            return pa.float64()
        return pa.uint64() if column_type.startswith("uint") else pa.int64()
    return kind


# --- comparing ----------------------------------------------------------------------------------------------


def agree(expected: Any, actual: Any) -> bool:
    if isinstance(expected, Near):
        return expected.agrees(actual)
    if isinstance(expected, dict):
        return (
            isinstance(actual, dict)
            and list(expected) == list(actual)
            and all(agree(value, actual[name]) for name, value in expected.items())
        )
    if isinstance(expected, list):
        return isinstance(actual, list) and len(expected) == len(actual) and all(map(agree, expected, actual))
    if expected is None or actual is None:
        return expected is None and actual is None
    if isinstance(expected, Decimal) != isinstance(actual, Decimal):
        return False
    return same(expected, actual) and isinstance(expected, bool) == isinstance(actual, bool)


def compare_windows(case: Case, expected: list[Values], actual: list[Values], where: str) -> None:
    for at, (wanted, found) in enumerate(zip(expected, actual, strict=False)):
        assert list(wanted) == list(found), f"{where}: columns {list(found)}, expected {list(wanted)}"
        wrong = [name for name in wanted if not agree(wanted[name], found[name])]
        assert not wrong, f"{where}: row {at} differs in {wrong}\n{shown(expected, actual)}\n{case!r}"
    assert len(expected) == len(actual), f"{where}: other rows\n{shown(expected, actual)}\n{case!r}"


def shown(expected: list[Values], actual: list[Values]) -> str:
    return "\n".join(["expected", *(f"  {row}" for row in expected), "found", *(f"  {row}" for row in actual)])


def compare_types(case: Case, table: pa.Table, where: str) -> None:
    time_type = arrow_type(case.columns[case.query["time"]])
    ranked = any(window["kind"] == "rows" for window in case.query["windows"].values())
    expected = {
        "window_start": time_type,
        "window_end": time_type,
        **{name: arrow_type(case.columns[name]) for name in case.query.get("by", [])},
        **(dict.fromkeys(("rank_start", "rank_end"), pa.int64()) if ranked else {}),
        **{name: answer_type(agg, case.columns) for name, agg in case.query["aggs"].items()},
        **CHANGE_COLUMNS[case.query.get("emit", "final")],
    }
    assert table.column_names == ["window", *expected], f"{where}: columns {table.column_names}"
    for name, kind in expected.items():
        found = table.schema.field(name).type
        assert found == kind, f"{where}: column {name!r} is {found}, expected {kind}\n{case!r}"


def compare_late(case: Case, expected: list[Values], table: pa.Table, where: str) -> None:
    assert table.column_names == [*case.columns, "reason"], f"{where}: late columns {table.column_names}"
    for name, kind in case.columns.items():
        assert table.schema.field(name).type == arrow_type(kind), f"{where}: late column {name!r} changed type"

    def order(row: Values) -> tuple:
        values = [row[name] for name in case.columns]
        return tuple((1, repr(value)) if isinstance(value, dict | list) else rank(value) for value in values)

    actual = sorted(plain_rows(table), key=order)
    expected = sorted(expected, key=order)
    assert all(row["reason"] for row in actual), f"{where}: a late row without a reason"
    bare = [{name: row[name] for name in case.columns} for row in actual]
    wanted = [{name: row[name] for name in case.columns} for row in expected]
    assert len(bare) == len(wanted) and all(map(agree, wanted, bare)), f"{where}: late\n{shown(wanted, bare)}\n{case!r}"
    for said, true in zip(actual, expected, strict=True):
        for why in ("null", "ahead"):
            agreed = (why in said["reason"]) == (why in true["reason"])
            assert agreed, f"{where}: reason {said['reason']!r}\n{case!r}"


def compare(case: Case, expected: Out, actual: Any, where: str, typed: bool) -> None:
    """`typed`: a push went through, so that the library knows the types of the columns."""
    if typed:
        compare_types(case, actual.windows, where)
    compare_windows(case, expected.windows, plain_rows(actual.windows), where)
    if where.startswith("push"):
        compare_late(case, expected.late, actual.late, where)
        stats = {name: actual.stats[name] for name in expected.stats}
        assert stats == expected.stats, f"{where}: stats {stats}, expected {expected.stats}\n{case!r}"
        assert stats["rows"] == sum(stats.values()) - stats["rows"]
    if typed and where != "flush":
        reached = plain_time(actual.watermark, case.columns[case.query["time"]])
        assert reached == expected.watermark, f"{where}: watermark {reached}, not {expected.watermark}\n{case!r}"


class Accounts:
    """Rows in = rows in windows + late + outside + without time, held against the windows that came out.

    The operator's counters say how many rows are in windows; the windows say which. Each row that was counted must be
    in one of them once the stream has ended, where each row's windows do come out: a count short of rows, an open frame
    and a window that the data does not cover (``full``) do not. A row may be late for its session and not for these.
    """

    WHOLE = ("tumbling", "sliding", "cumulate", "fixed", "listed", "squares", "calendar", "session", "whole")

    def __init__(self, case: Case) -> None:
        self.case, self.windowed = case, 0
        self.came: set[int] = set()
        kinds = {window["kind"] for window in case.query["windows"].values()}
        full = any(window.get("full") for window in case.query["windows"].values())
        self.all_come = kinds <= set(self.WHOLE) and not full

    def step(self, expected: Out, actual: Any, where: str) -> None:
        """After each step: as many rows in the windows as the oracle has put there, none of which was not counted."""
        self.windowed += actual.stats["windowed"]
        self.came |= expected.members
        rows = [row["n"] for row in plain_rows(actual.windows)]
        assert sum(rows) == expected.held, f"{where}: {sum(rows)} rows in windows, not {expected.held}\n{self.case!r}"
        assert len(self.came) <= self.windowed, f"{where}: {self.windowed} rows counted\n{self.case!r}"
        if where == "flush" and self.all_come:
            text = f"{where}: {self.windowed} rows counted in windows, {len(self.came)} are\n{self.case!r}"
            assert len(self.came) == self.windowed, text


# --- how many cases --------------------------------------------------------------------------------

CASES = int(os.environ.get("SLICING_CASES", "110"))
SEED = os.environ.get("SLICING_SEED")


def share(percent: int) -> Callable:
    """This property's part of all cases; the same ones each time unless a seed is given."""

    def decorate(test: Callable) -> Callable:
        chosen = settings(
            max_examples=max(CASES * percent // 100, 1),
            deadline=None,
            database=None,
            derandomize=SEED is None,
            print_blob=False,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate, Phase.shrink],
        )(test)
        return chosen if SEED is None else seed(int(SEED))(chosen)

    return decorate


def seeds(percent: int, total: int) -> range:
    """Numbers of the cases of a test: its part of all those of its file, and others when a seed is given."""
    first = int(SEED or 0)
    return range(first, first + max(total * percent // 100, 1))


# --- the properties -----------------------------------------------------------------------------------------


def policy_for(case: Case, **told: object) -> Policy:
    """Windows of streams this small would always be recomputed: each strategy answers its share of the cases.

    One that removes answers the lanes that allow it, and the plain one the others.
    """
    size = len(repr(case))
    name = sorted(STRATEGIES)[size % len(STRATEGIES)]
    tree = {"tree_fanout": 2, "tree_slices": 2, "tree_largest": 8}  # trees over a few slices, in runs of a few cells
    # as where many sessions are open: of each push only the keys are looked at of which some may end
    apart = {"apart_cells": 1, "apart_share": 0} if size // 4 % 3 else {}
    # runs of any size are packed, with their partials or without
    pushes = (0.0, 0.0) if size // 3 % 3 else Policy.packed_pushes
    packed = {
        "packed_keys": 0,
        "packed_cells": 0,
        "packed_slice": 0,
        "packed_words": 100 * (size % 2),
        "packed_pushes": pushes,
    }
    return Policy(
        strategies=(name, "recompute" if STRATEGIES[name].removes else name) if size % 3 else None,
        stepped=1,  # ranges of cells or rows in dense columns, unless a strategy is named
        stepped_cells=100,
        stepped_types=100,
        stepped_several=1,
        stepped_rows=1,
        recomputed=40 * (size % 5),  # without asking
        way=("as they lie", "stacks", "buckets", "one table", "ranges")[size % 5],
        tree_slides=1 if size % 2 == 0 else 10**6,
        head_filled=0.01 if size // 2 % 2 else Policy.head_filled,  # the head begins with the first rows
        head_most=8 if size % 7 == 0 else Policy.head_most,
        fused_cells=size % 3,  # slices fuse as they do where there are many
        straight=size % 4 > 0,  # as they come, or through the ordinary stages
        selected=size % 2 * 256,  # medians select from values as they came, or from sorted ones
        numpy_cuts=8 * (size % 3),  # rows are cut by numpy or by a kernel
        slices_together=4 * (size % 5),  # of runs, or run by run
        **tree | apart | packed | told,
    )


def check(case: Case, **told: object) -> None:
    """Every step's windows, late rows, stats, watermark and errors are the oracle's."""
    wanted, built = Oracle(case.columns, case.query), spec(case)
    policy = policy_for(case, **told)
    op, typed, accounts = sl.Operator(built, policy=policy), False, Accounts(case)
    for at, step in enumerate([*case.steps, ("flush",)]):
        where, failed, expected = f"{step[0]} (step {at})" if step[0] != "flush" else "flush", None, None
        try:
            match step:
                case ("push", rows):
                    expected = wanted.push(case.named(rows))
                case ("advance", watermark):
                    expected = wanted.advance(watermark)
                case ("flush",):
                    expected = wanted.flush()
        except Refused as refused:
            failed = refused
        try:
            match step:
                case ("push", rows):
                    actual = op.push(batch(case, rows))
                case ("advance", watermark):
                    actual = op.advance(moment(watermark, case.columns[case.query["time"]]))
                case ("flush",):
                    actual = op.flush()
                case ("restart",):
                    op = sl.Operator.restore(built, bytes(op.snapshot()), policy=policy)
                    continue
        except (ValueError, OverflowError) as error:
            if failed is None:
                raise AssertionError(f"{where} failed: {error}\n{case!r}") from error
            continue
        assert failed is None, f"{where}: should have failed with {failed}\n{case!r}"
        typed = typed or step[0] == "push"
        compare(case, expected, actual, where, typed)
        accounts.step(expected, actual, where)


def check_postponed(case: Case, most: int) -> None:
    """A flush spread over later pushes: the same windows in the end, and lateness as if they had come at once."""
    wanted, built = Oracle(case.columns, case.query), spec(case)
    policy = policy_for(case, max_windows_per_push=most)
    op, due, given = sl.Operator(built, policy=policy), [], []
    for at, step in enumerate([*case.steps, ("flush",)]):
        if step[0] == "restart":
            op = sl.Operator.restore(built, bytes(op.snapshot()), policy=policy)
            continue
        try:
            match step:
                case ("push", rows):
                    expected = wanted.push(case.named(rows))
                    actual = op.push(batch(case, rows))
                    compare_late(case, expected.late, actual.late, f"push (step {at})")
                case ("advance", watermark):
                    expected = wanted.advance(watermark)
                    actual = op.advance(moment(watermark, case.columns[case.query["time"]]))
                case ("flush",):
                    expected, actual = wanted.flush(), op.flush()
        except Refused:
            return  # which push says so depends on when a window is answered
        except (ValueError, OverflowError) as error:
            raise AssertionError(f"{step[0]} (step {at}) failed: {error}\n{case!r}") from error
        due += expected.windows
        given += plain_rows(actual.windows)

    def place(row: Values) -> tuple:
        return wanted.place(row), row.get("revision", 0)

    compare_windows(case, sorted(due, key=place), sorted(given, key=place), f"at most {most} a push")


def expected_final(case: Case) -> Out:
    """What the query answers about all its rows at once: nothing is late."""
    oracle = Oracle(case.columns, {**case.query, "watermark": {"kind": "manual"}})
    pushed = oracle.push(case.named(case.rows()))
    return replace(oracle.flush(), stats=pushed.stats)


def check_aggregate(case: Case) -> None:
    """`aggregate` answers from all rows, however they are chunked, or refuses them."""
    expected, failed = None, None
    try:
        expected = expected_final(case)
    except Refused as refused:
        failed = refused
    data = pa.Table.from_batches([batch(case, step[1]) for step in case.steps if step[0] == "push"])
    try:
        table = sl.aggregate(data, spec(case))
    except (ValueError, OverflowError) as error:
        if failed is None:
            raise AssertionError(f"aggregate failed: {error}\n{case!r}") from error
        return
    assert expected is not None, f"aggregate should have failed with {failed}\n{case!r}"
    compare_types(case, table, "aggregate")
    compare_windows(case, expected.windows, plain_rows(table), "aggregate")
    Accounts(case).step(expected, SimpleNamespace(windows=table, stats=expected.stats), "flush")


def check_resplit(case: Case, sizes: list[int], jitter: list[int]) -> None:
    """Any split, and any order within the watermark's delay, gives the same final windows."""
    try:
        expected = expected_final(case)
    except Refused:
        return
    rows = [row for _, row in sorted(enumerate(case.rows()), key=lambda at: at[1][0] + jitter[at[0] % len(jitter)])]
    op, found, at, windowed = sl.Operator(spec(case), policy=policy_for(case)), [], 0, 0
    for turn in range(len(rows)):
        some = rows[at : at + sizes[turn % len(sizes)]]
        at += len(some)
        out = op.push(batch(case, some))
        assert out.late.num_rows == 0, f"late rows after {at} rows\n{case!r}"
        found += plain_rows(out.windows)
        windowed += out.stats["windowed"]
    assert windowed == expected.stats["windowed"], f"{windowed} rows counted in windows\n{case!r}"
    found += plain_rows(op.flush().windows)
    place = Oracle(case.columns, case.query).place
    found.sort(key=place)
    compare_windows(case, sorted(expected.windows, key=place), found, f"batches of {sizes}, jitter {jitter}")
