"""What the property tests are drawn from: small integers, so that edges, ties and gaps meet all the time.

A clock then makes real times of them: so many ticks of an hour after a morning of 2024, in nanoseconds, or what lies
near the ends of int64. A case prints small, with its clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import count
from math import inf, isqrt, nan
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

Values = dict[str, Any]

INTEGERS = {f"{sign}int{bits}": (sign, bits) for sign in ("", "u") for bits in (8, 16, 32, 64)}
TIME_TYPES = ["timestamp[s]", "timestamp[ms]", "timestamp[us]", "timestamp[ns]"]
TIME_TYPES += ["timestamp[ms, Europe/Berlin]", "timestamp[ns, UTC]", "date32", "date64"]
DECIMALS = ["decimal(5, 2)", "decimal(18, 0)", "decimal(38, 6)", "decimal(30, 10)"]
KEY_TYPES = ["int64", "int32", "string", "dictionary", "binary", "bool", "float64", "decimal(9, 2)"]
KEY_TYPES += ["date32", "timestamp[us]"]
NESTED = ["struct", "list"]
VALUE_TYPES = [*INTEGERS, "float32", "float64", "bool", *DECIMALS, "timestamp[us]", "date32", "string"]
VALUE_TYPES += ["duration[ns]", "duration[s]", *NESTED]
OF_ROWS = ["rows", "punctuation", "frame", "per_row", "last_rows", "visit", "delta"]
CONTEXT_FREE = ["tumbling", "sliding", "cumulate", "landmark", "fixed", "listed", "squares"]


@dataclass(frozen=True)
class Clock:
    """Small times are counted in ticks from an origin; row n is early or late by one of the jitters in turn."""

    origin: int = 0
    tick: int = 1
    jitter: tuple[int, ...] = (0,)

    def time(self, small: int | None, row: int = 0) -> int | None:
        early = self.jitter[row % len(self.jitter)]
        return None if small is None else self.origin + small * self.tick + early

    def window(self, window: Values) -> Values:
        found = dict(window)
        spans = ("size", "offset", "gap", "longest", "range", "delay", "before", "after")
        spans += () if window["kind"] in ("rows", "per_row") else ("every",)
        found |= {name: found[name] * self.tick for name in spans if found.get(name) is not None}
        found |= {name: self.time(found[name]) for name in ("start", "end") if name in found}
        if "extents" in found:
            found["extents"] = [(self.time(start), self.time(end)) for start, end in found["extents"]]
        if window["kind"] == "squares":
            found |= {"unit": self.tick, "from": self.origin}
        return found

    def query(self, query: Values) -> Values:
        found = {**query, "windows": {name: self.window(window) for name, window in query["windows"].items()}}
        spans = {name: query[name] * self.tick for name in ("lateness", "idle") if query.get(name) is not None}
        watermark = query["watermark"]
        delays = {name: watermark[name] * self.tick for name in ("delay", "idle") if watermark.get(name) is not None}
        return {**found, **spans, "watermark": {**watermark, **delays}}


SMALL = Clock()


@dataclass(frozen=True)
class Case:
    """A query, its columns and what happens to it; its repr is the code that builds it.

    Steps are ("push", rows), ("advance", watermark) and ("restart",); rows are tuples in column order. A
    flush follows the last step.
    """

    columns: dict[str, str]
    query: Values
    steps: list[tuple]
    clock: Clock = SMALL
    told: Case | None = field(default=None, repr=False)  # with small numbers

    def __repr__(self) -> str:
        if self.told is not None:
            return f"{self.told!r}.real()"
        return f"Case({self.columns!r}, {self.query!r}, {self.steps!r}, {self.clock!r})"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """As hypothesis prints it."""
        printer.text(repr(self))

    def rows(self) -> list[tuple]:
        return [row for step in self.steps if step[0] == "push" for row in step[1]]

    def named(self, rows: Iterable[tuple]) -> list[Values]:
        return [dict(zip(self.columns, row, strict=True)) for row in rows]

    def asking(self, **query: Any) -> Case:
        return replace(self, query={**self.query, **query})

    def real(self) -> Case:
        """The case in the times of its clock."""
        clock, number, steps = self.clock, count(), []
        for step in self.steps:
            match step:
                case ("push", rows):
                    steps.append(("push", [self._real_row(row, next(number)) for row in rows]))
                case ("advance", watermark):
                    steps.append(("advance", clock.time(watermark)))
                case _:
                    steps.append(step)
        return Case(self.columns, clock.query(self.query), steps, told=self)

    def _real_row(self, row: tuple, number: int) -> tuple:
        """With its time, and the watermark that it carries."""
        early = {"t": number, "mark": 0}
        named = zip(self.columns, row, strict=True)
        return tuple(self.clock.time(v, early[name]) if name in early else v for name, v in named)


@dataclass(frozen=True)
class Kit:
    """What a property may draw."""

    kinds: tuple[str, ...] = (*CONTEXT_FREE, "session", "whole", *OF_ROWS)
    watermarks: tuple[str, ...] = ("bounded", "ordered", "manual", "per_source", "punctuated")
    emits: tuple[str, ...] = ("final", "updates", "changes")
    time_types: tuple[str, ...] = ("int64", "int64", "int32", "uint64", *TIME_TYPES)
    keys: tuple[int, ...] = (0, 1, 1, 1, 2, 3)  # how many key columns
    idle: bool = True
    sliced: bool = False  # rows only of windows that let final rows be slices
    of_stream: bool = False  # more windows of the whole stream
    full: bool = False  # windows only where the data covers them; no late row may change them
    within_bound: bool = False  # rows arrive in order of time plus a jitter that the watermark allows for
    rich_values: bool = True
    nested: bool = True  # structs and lists, which need an order of arrival
    compiled: bool = True  # users' functions too, which a process compiles for itself: most of the time of a few cases
    counts: tuple[int, ...] = (1, 1, 2, 3, 4)  # how many windows
    long: bool = False  # ticks as long as the type has room for
    each: bool = False  # one window of each kind, and aggregates of each sort, in every case


# --- values -------------------------------------------------------------------------------------------------


def floats(width: int) -> SearchStrategy[float]:
    odd = [nan, inf, -inf, -0.0, 0.0, 1.5] + ([1e300, -1e300, 5e-324] if width == 64 else [2.0**100])
    small = st.integers(-40, 40).map(lambda n: n / 4)
    wide = st.floats(-1e9, 1e9, width=width).map(lambda x: x if width == 64 else float(x))
    return small | small | wide | st.sampled_from(odd)


def values(type_name: str) -> SearchStrategy:
    """Values of a column without its nulls; some near the ends of the type."""
    if type_name in INTEGERS:
        sign, bits = INTEGERS[type_name]
        low, high = (0, 2**bits - 1) if sign else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        small = st.integers(max(low, -9), 9)
        return small | small | small | st.integers(low, high) | st.sampled_from([low, high])
    if type_name.startswith("float"):
        return floats(int(type_name[5:]))
    if type_name.startswith("decimal"):
        precision, scale = (int(part) for part in type_name[8:-1].split(","))
        bound = 10 ** min(precision, 32) - 1
        return (st.integers(-200, 200) | st.integers(-bound, bound)).map(lambda n: unscaled(n, scale))
    if type_name.startswith("timestamp"):
        ends = st.sampled_from([-(2**63), 2**63 - 1])
        return st.integers(-5, 5) | st.integers(-(2**52), 2**52) | st.integers(17 * 10**17, 18 * 10**17) | ends
    if type_name.startswith("duration"):
        return st.integers(-5, 5) | st.integers(-(2**63), 2**63 - 1) | st.sampled_from([-(2**63), 2**63 - 1])
    if type_name == "struct":
        return st.builds(lambda a, b: {"a": a, "b": b}, st.none() | values("int64"), st.none() | values("string"))
    if type_name == "list":
        return st.lists(st.none() | values("float64"), max_size=3)
    if type_name.startswith("date"):
        return st.integers(-3, 3) | st.integers(-20_000, 20_000) | st.sampled_from([-(2**31), 2**31 - 1])
    if type_name == "bool":
        return st.booleans()
    if type_name == "binary":
        return st.sampled_from([b"", b"a", b"a\x00", b"\xff", b"longer than eight bytes"])
    return st.sampled_from(["", "a", "b", "aa", "é", "z" * 9, "long enough to tie z", "long enough to tie a"])


def unscaled(number: int, scale: int) -> Decimal:
    sign, digits = int(number < 0), tuple(map(int, str(abs(number))))
    return Decimal((sign, digits, -scale))


def keys(type_name: str) -> SearchStrategy:
    """Few, so that groups have rows; the awkward ones among them."""
    few = {
        "float64": [0.0, -0.0, nan, 1.5, -inf],
        "int64": [0, 1, -(2**63), 2**63 - 1],
        "int32": [0, 1, -7],
        "string": ["", "a", "b", "long enough not to be inlined"],
        "dictionary": ["x", "y", ""],
        "decimal(9, 2)": [Decimal("0.00"), Decimal("1.50"), Decimal("-3.25")],
        "date32": [0, -1, 20_000],
        "timestamp[us]": [0, -1, 10**15],
        "binary": [b"", b"a", b"a\x00"],
        "bool": [True, False],
    }[type_name]
    return st.sampled_from(few)


def pools(type_name: str) -> SearchStrategy[SearchStrategy]:
    """The keys of one stream: one to four of them, null among them or not."""
    return st.lists(st.none() | keys(type_name), min_size=1, max_size=4).map(st.sampled_from)


def nullable(strategy: SearchStrategy, share: int) -> SearchStrategy:
    """One in `share` is null, roughly."""
    return st.one_of(*([strategy] * (share - 1)), st.none())


# --- the query ----------------------------------------------------------------------------------------------


@st.composite
def windows(draw: DrawFn, kit: Kit, time_type: str) -> Values:
    kind, plain_order = draw(st.sampled_from(kit.kinds)), kit.within_bound or kit.sliced
    per_key = st.sampled_from([True, False, False, False]) if kit.of_stream else st.booleans()
    size = draw(st.integers(1, 12))
    every = draw(st.integers(1, 8))
    signed = not time_type.startswith(("timestamp", "date"))
    offset = draw(st.sampled_from([0, 0, 1, 3, -2 if signed else 2]))
    full = {"full": True} if kit.full and draw(st.integers(0, 1)) else {}
    match kind:
        case "tumbling":
            return {"kind": kind, "size": size, "offset": offset, **full}
        case "sliding":
            return {"kind": kind, "size": size, "every": every, "offset": offset, **full}
        case "cumulate":
            return {"kind": kind, "size": every * draw(st.integers(1, 5)), "every": every, "offset": offset}
        case "landmark":
            return {"kind": kind, "every": size, "start": draw(st.none() | st.integers(-10, 20))}
        case "fixed":
            start = draw(st.integers(-10, 25))
            return {"kind": kind, "start": start, "end": start + size}
        case "listed":
            extents = st.tuples(st.integers(-10, 30), st.integers(1, 15)).map(lambda e: (e[0], e[0] + e[1]))
            return {
                "kind": kind,
                "extents": sorted(draw(st.lists(extents, min_size=1, max_size=4, unique=True))),
            }
        case "rows":
            order = draw(st.sampled_from(["time", "time", "arrival"])) if not plain_order else "time"
            flags = {"per_key": kit.sliced or draw(per_key), "partial": draw(st.booleans())}
            by = draw(st.sampled_from([1, 1, 2, 3]))  # windows of several rows at least, and a common divisor
            return {"kind": kind, "n": by * draw(st.integers(1, 6)), "every": by * every, "order": order, **flags}
        case "punctuation":
            return {"kind": kind, "column": "enter", "per_key": kit.sliced or draw(per_key)}
        case "frame":
            return {"kind": kind, "enter": "enter", "leave": "leave", "partial": draw(st.booleans())}
        case "per_row":
            order = draw(st.sampled_from(["time", "time", "arrival"])) if not plain_order else "time"
            window = {"kind": kind, "every": draw(st.sampled_from([1, 1, 2, 3])), "order": order}
            match draw(st.sampled_from(["range", "range", "delay", "around"])):
                case "range":
                    return {**window, "range": size}
                case "delay":
                    closed = draw(st.sampled_from(["right", "left", "both"]))
                    return {**window, "range": size, "delay": draw(st.integers(0, 6)), "closed": closed}
            closed = draw(st.sampled_from(["right", "left", "both", "none"]))
            before, after = draw(st.integers(0, 6)), draw(st.integers(0 if closed == "both" else 2, 8))
            return {**window, "before": before, "after": after, "closed": closed}
        case "visit":
            return {"kind": kind, "gap": draw(st.integers(1, 8)), "longest": size, "compiled": draw(st.booleans())}
        case "delta":
            return {"kind": kind, "column": "level", "by": draw(st.integers(1, 4)), "compiled": draw(st.booleans())}
        case "last_rows":
            return {"kind": kind, "n": draw(st.integers(1, 6)), "every": size}
        case "session":
            return {"kind": kind, "gap": draw(st.integers(1, 8))}
    return {"kind": kind}


def functions(type_name: str) -> list[str]:
    """The aggregates that a column of this type can have."""
    common = ["count_distinct", "approx_count_distinct", "mode", "collect", "top_k", "bottom_k", "heavy_hitters"]
    common += ["count", "min", "max", "first", "last", "argmin", "argmax", "min_count", "max_count"]
    if type_name == "bool":
        return [*common, "sum", "any", "all", "median", "quantile", "approx_quantile"]
    if type_name.startswith("decimal"):
        return [*common, "m4", "sum", "mean", "var", "std", "median", "quantile", "approx_quantile"]
    if type_name in NESTED:
        return ["count", "first", "last", "collect"]
    if type_name.startswith("duration"):
        return [*common, "m4", "sum", "mean"]
    if type_name.startswith(("timestamp", "date")):
        return [*common, "m4"]
    if type_name == "string":
        return common
    averages = ["mean", "geometric_mean", "var", "std", "median", "quantile", "approx_quantile"]
    return [*common, "m4", "sum", "product", *averages]


@st.composite
def aggregates(draw: DrawFn, kit: Kit, value_columns: dict[str, str]) -> Values:
    column = draw(st.sampled_from(sorted(value_columns)))
    if kit.compiled and draw(st.integers(0, 5)) == 0:
        signed = [name for name, type_name in sorted(value_columns.items()) if type_name in ("int8", "int32", "int64")]
        which = draw(st.sampled_from(["polynomial", "rise", "weighted", "remainder", "any odd"]))
        agg: Values = {"fn": "udaf", "which": which, "col": draw(st.sampled_from(["row", *signed]))}
        return {**agg, "where": "flag"} if draw(st.integers(0, 4)) == 0 else agg
    fn = draw(st.sampled_from(functions(value_columns[column])))
    agg = {"fn": fn, "col": column}
    if fn in ("argmin", "argmax"):
        columns = [*sorted(value_columns), "row"]
        agg["return"] = draw(st.sampled_from(columns))
        if kit.nested and draw(st.integers(0, 2)) == 0:
            agg["return"] = draw(st.lists(st.sampled_from(columns), min_size=1, max_size=3, unique=True))
    if fn in ("top_k", "bottom_k") and kit.nested and draw(st.booleans()):
        columns = st.sampled_from([*sorted(value_columns), "row"])
        agg["return"] = draw(columns | st.lists(columns, min_size=1, max_size=3, unique=True))
    if fn in ("var", "std") and draw(st.booleans()):
        agg["ddof"] = draw(st.sampled_from([0, 1, 2]))
    drawn = {
        "quantile": ("q", st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.9, 0.99, 1.0])),
        **dict.fromkeys(("top_k", "bottom_k"), ("k", st.sampled_from([1, 2, 3, 10]))),
        "heavy_hitters": ("share", st.sampled_from([0.01, 0.2, 0.25, 1 / 3, 0.5, 0.6, 1.0])),
    }
    if fn == "approx_quantile":
        agg |= {"q": draw(st.sampled_from([0.0, 0.3, 0.5, 1.0])), "error": draw(st.sampled_from([0.001, 0.01, 0.2]))}
    if fn == "collect" and draw(st.integers(0, 2)) == 0:
        agg |= {"at_most": draw(st.sampled_from([1, 2, 5])), "keep": draw(st.sampled_from(["first", "last"]))}
    if fn in drawn:
        name, strategy = drawn[fn]
        agg[name] = draw(strategy)
    if fn == "quantile" and draw(st.booleans()):
        agg["interpolation"] = draw(st.sampled_from(["lower", "higher", "nearest", "midpoint", "inverted_cdf"]))
    if draw(st.integers(0, 4)) == 0:
        agg["where"] = "flag"
    return agg


@st.composite
def watermarks(draw: DrawFn, kit: Kit) -> Values:
    kind = draw(st.sampled_from(kit.watermarks))
    delay = draw(st.sampled_from([0, 0, 0, 1, 2, 5, 9]))
    match kind:
        case "bounded":
            return {"kind": kind, "delay": delay}
        case "ordered":
            return {"kind": kind, "on_disorder": draw(st.sampled_from(["late", "error"]))}
        case "per_source":
            idle = draw(st.sampled_from([None, None, 3, 10]))
            return {"kind": kind, "column": "source", "delay": delay, "idle": idle}
        case "punctuated":
            return {"kind": kind, "column": "mark"}
    return {"kind": kind}


# --- cases --------------------------------------------------------------------------------------------------


@st.composite
def cases(draw: DrawFn, kit: Kit = Kit()) -> Case:
    time_type = draw(st.sampled_from(kit.time_types))
    by = {f"k{n}": draw(st.sampled_from(KEY_TYPES)) for n in range(draw(st.sampled_from(kit.keys)))}
    rich = [name for name in VALUE_TYPES if kit.nested or name not in NESTED]
    types = rich if kit.rich_values else ["int64", "float64"]
    number = draw(st.integers(1, 3)) if kit.rich_values else 1
    value_columns = {f"v{n}": draw(st.sampled_from(types)) for n in range(number)}
    watermark = draw(watermarks(kit))
    sequence = "seq" if kit.within_bound or draw(st.integers(0, 2)) == 0 else None
    emit = draw(st.sampled_from(kit.emits))
    named = {f"w{n}": draw(windows(kit, time_type)) for n in range(draw(st.sampled_from(kit.counts)))}
    if kit.each:
        named = {f"w{n}": draw(windows(replace(kit, kinds=(kind,)), time_type)) for n, kind in enumerate(kit.kinds)}
    lateness = draw(st.sampled_from([0, 0, 1, 3, 8] if emit == "final" else [0, 1, 3, 8, 8, 20]))
    if emit == "updates" and any(window["kind"] in ("session", *OF_ROWS) for window in named.values()):
        lateness = 0
    idle = draw(st.integers(1, 12)) if kit.idle and not kit.full and draw(st.integers(0, 4)) == 0 else None
    if idle is not None and emit != "final":
        lateness = 0
    if idle is not None:
        for window in named.values():
            if window["kind"] in OF_ROWS:
                window |= {name: value for name, value in (("order", "time"), ("per_key", True)) if name in window}
    if emit == "final":
        for window in named.values():
            if window["kind"] in ("tumbling", "sliding") and draw(st.integers(0, 3)) == 0:
                window["fill"] = True
    aggs: Values = {"n": {"fn": "count"}}
    if draw(st.integers(0, 5)) == 0:
        aggs["flagged"] = {"fn": "count", "where": "flag"}
    for number in range(draw(st.integers(1, 5))):
        aggs[f"a{number}"] = draw(aggregates(kit, value_columns))
    aggs["tail"] = {"fn": "last", "col": "row"}  # order in every case
    if kit.each:
        aggs |= {"total": {"fn": "sum", "col": "v0"}, "middle": {"fn": "median", "col": "v0"}}
        aggs |= {"turn": {"fn": "udaf", "which": "polynomial", "col": "row"}, "seen": {"fn": "collect", "col": "row"}}
    query: Values = {
        "time": "t",
        "by": list(by),
        "windows": named,
        "aggs": aggs,
        "watermark": watermark,
        "lateness": lateness,
        "emit": emit,
        "sequence": sequence,
        "idle": idle,
        "on_null_time": "late" if kit.within_bound else draw(st.sampled_from(["late"] * 6 + ["error"])),
        "on_overflow": draw(st.sampled_from(["error", "null", "wrap"])),
    }
    columns = {"t": time_type, **by, **value_columns, "row": "int64", "flag": "bool"}
    if any(window["kind"] == "delta" for window in named.values()):
        columns["level"] = draw(st.sampled_from(["int64", "float64"]))
    if any(window["kind"] in ("frame", "punctuation") for window in named.values()):
        columns |= {"enter": "bool", "leave": "bool"}
    if sequence is not None:
        columns["seq"] = "int64"
    if watermark["kind"] == "per_source":
        columns["source"] = draw(st.sampled_from(["int64", "string"]))
    if watermark["kind"] == "punctuated":
        columns["mark"] = time_type
    small = Case(columns, query, draw(steps(kit, columns, query)))
    return replace(small, clock=draw(clocks(kit, small))).real()


# --- times of real size -------------------------------------------------------------------------------------

DAY = 86_400
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
LATEST = 2**62 + 2**61  # times lie between this and its negative
SPANS = 2**59  # and spans, of at most 20 ticks, below this


def clocks(kit: Kit, small: Case) -> SearchStrategy[Clock]:
    """Clocks that fit the case's times, and all edges of its windows, into its type: a third of them small."""
    time_type = small.columns["t"]
    times = [t for step in small.steps if step[0] == "advance" for t in step[1:]]
    times += [row[name] for row in small.named(small.rows()) for name in ("t", "mark") if row.get(name) is not None]
    far = max(map(abs, times), default=0)
    far += 2 * isqrt(far) + 128  # as far as an edge may be from the origin, in ticks
    unit = PER_SECOND.get(time_type[10:12].rstrip("],"), 1)
    most = 2**31 - 1 if time_type in ("int32", "date32") else 2**31 * DAY if time_type == "date64" else LATEST
    if time_type.startswith("date"):
        ticks, origins = [1, 7, 30, 365], [0, 19_700, -40_000]
    elif time_type.startswith("timestamp"):
        seconds = [1, 60, 900, 3600, DAY, 7 * DAY, 365 * DAY]
        ticks = [1, 1000, *(unit * second for second in seconds)]
        origins = [0, 1_704_067_200 * unit, 1_700_000_001 * unit + unit // 3, -(10**9) * unit]
    else:
        ticks = [1, 3, 1000, 10**9, 3600 * 10**9, DAY * 10**9, 2**40, 2**52 + 1]
        origins = [0, 10**6, 10**9 + 7, 1_704_067_200 * 10**9, 1_704_067_200 * 10**9 + 1]
    if most < LATEST:
        ticks, origins = [t for t in ticks if t <= 10**6], [o for o in origins if abs(o) < most // 2]
    if time_type == "date64":
        most = LATEST // (DAY * 1000)
    ticks = ticks[-2:] if kit.long else ticks
    low = 0 if time_type.startswith("uint") else -most
    late = 0 if kit.within_bound or small.query["watermark"].get("on_disorder") == "error" else 1

    @st.composite
    def clock(draw: DrawFn) -> Clock:
        tick = min(draw(st.sampled_from(ticks)), SPANS // 64, (most - low) // (2 * far))
        first, last = low + far * tick, most - far * tick
        origin = min(max(draw(st.sampled_from([*origins, *origins, first, last])), first), last)
        jitters = [(0,), (0,), (0, 0, 1), (0, -1, 0, 1), (tick // 2, 0, 0), (0, tick - 1, 1, tick // 3)]
        return Clock(origin, tick, draw(st.sampled_from(jitters)) if late and tick > 3 else (0,))

    none = [] if low == 0 or kit.long else [st.just(SMALL)]
    return st.one_of(*none, clock(), clock())


@st.composite
def steps(draw: DrawFn, kit: Kit, columns: dict[str, str], query: Values) -> list[tuple]:
    """Batches of a stream, with punctuation and restarts between them."""
    rows = draw(streams(kit, columns, query))
    kind = query["watermark"]["kind"]
    cuts = sorted(draw(st.lists(st.integers(0, len(rows)), max_size=12)))
    found: list[tuple] = []
    for begin, end in zip([0, *cuts], [*cuts, len(rows)], strict=True):
        found.append(("push", rows[begin:end]))
        if kind != "ordered" and not kit.within_bound and draw(st.integers(0, 1 if kind == "manual" else 6)) == 0:
            latest = max((row[0] for row in rows[:end] if row[0] is not None), default=0)
            found.append(("advance", latest + draw(st.sampled_from([-12, -3, -1, 0, 0, 1, 2, 6]))))
        if draw(st.integers(0, 5)) == 0:
            found.append(("restart",))
    return found


@st.composite
def streams(draw: DrawFn, kit: Kit, columns: dict[str, str], query: Values) -> list[tuple]:
    """Rows as they arrive: each lags behind a clock, by no more than the watermark's delay if it must."""
    watermark = query["watermark"]
    sorted_times = watermark.get("on_disorder") == "error" and draw(st.integers(0, 7)) > 0
    slack = 0 if watermark["kind"] == "ordered" else watermark.get("delay", 4)
    forward = st.sampled_from([0] * 5 + [1] * 5 + [2, 2, 2, 3, 7, 40] + ([] if kit.within_bound else [-5]))
    lag = st.integers(0, slack) if kit.within_bound else st.sampled_from([0, 0, 0, 1, 2, 3, 5, 9, 14, 30])
    number = draw(st.sampled_from([1, 2, 4, 8, 12, 16, 24, 32, 40]))
    row = st.tuples(forward, lag, draw(cells(columns)))
    drawn = draw(st.lists(row, min_size=number, max_size=number))
    leap = 0
    if not any(window.get("fill") for window in query["windows"].values()) and draw(st.integers(0, 9)) == 0:
        leap = 10**12 if columns["t"] == "int64" else 10**6
    clock, rows = draw(st.integers(-20, 5)), []
    for at, (ahead, behind, row) in enumerate(drawn):
        clock += ahead + (leap if at == len(drawn) // 2 else 0)
        row.update(t=clock - behind, row=at)
        if not kit.within_bound and row["flag"] is None and behind == 9:
            row["t"] = None
        if "mark" in columns:
            row["mark"] = None if behind % 2 else clock - (slack if kit.within_bound else behind)
        rows.append(row)
    if sorted_times:
        times = sorted(row["t"] for row in rows if row["t"] is not None)
        rows = [row for row in rows if row["t"] is not None]
        for row, time in zip(rows, times, strict=True):
            row["t"] = time
    if kit.within_bound and "seq" in columns:  # all ties broken, so that the order of arrival decides nothing
        for row, place in zip(rows, draw(st.permutations(range(len(rows)))), strict=True):
            row["seq"] = place
    return [tuple(row[name] for name in columns) for row in rows]


@st.composite
def cells(draw: DrawFn, columns: dict[str, str]) -> SearchStrategy[Values]:
    """A row but for its time."""
    found: dict[str, SearchStrategy] = {"flag": nullable(st.booleans(), 5)}
    for name, type_name in columns.items():
        if name.startswith("k"):
            found[name] = draw(pools(type_name))
        elif name.startswith("v"):
            found[name] = nullable(values(type_name), 6)
        elif name == "level":
            found[name] = nullable(
                st.integers(-3, 3) if type_name == "int64" else st.sampled_from([0.0, 1.5, -2.25, 3.0]), 6
            )
        elif name in ("enter", "leave"):
            found[name] = st.sampled_from([False, False, True, None])
        elif name == "seq":
            found[name] = st.integers(-3, 3)
        elif name == "source":
            found[name] = nullable(st.sampled_from([0, 1, 2] if type_name == "int64" else ["a", "b"]), 8)
    return st.fixed_dictionaries(found)


UNITS: list[Values] = [{"unit": unit} for unit in ("1d", "1w", "1mo", "1q", "1y")]
UNITS += [
    {"unit": unit, "every": every, "steps": steps, "cumulate": False}
    for unit, every, steps in (("3d", "1d", 3), ("7d", "1d", 7), ("2w", "1w", 2), ("1q", "1mo", 3), ("2y", "1y", 2))
]
UNITS += [
    {"unit": unit, "every": every, "cumulate": True}
    for unit, every in (("1w", "1d"), ("1mo", "1d"), ("1q", "1mo"), ("1y", "1mo"), ("1y", "1q"))
]


def calendar_cases() -> SearchStrategy[Case]:
    """Local days, weeks, months, quarters and years around changes of the clocks, by the hour."""
    zones = [
        "Europe/Berlin",
        "America/New_York",
        "Asia/Kathmandu",
        "Australia/Lord_Howe",
        "America/Havana",
        "UTC",
    ]
    years = (0, 450_000, 453_000, 472_500, 474_800, -3, -300_000, 1_000_000)
    hours = st.one_of(*(st.integers(near - 60, near + 60) for near in years))
    times = st.lists(hours, min_size=1, max_size=25)
    return st.builds(
        calendar_case,
        st.sampled_from(["timestamp[s, UTC]", "timestamp[ms, Europe/Berlin]", "timestamp[ns, UTC]"]),
        st.lists(
            st.tuples(st.sampled_from(UNITS), st.sampled_from(zones)),
            min_size=1,
            max_size=2,
        ),
        times,
        st.integers(0, 48),
        st.integers(1, 9),
    )


def calendar_case(time_type: str, units: list[tuple[Values, str]], hours: list[int], delay: int, size: int) -> Case:
    hour = 3600 * {"s": 1, "m": 10**3, "n": 10**9}[time_type[10]]
    rows = [(h * hour, at) for at, h in enumerate(hours)]
    query = {
        "time": "t",
        "windows": {f"w{n}": {"kind": "calendar", **unit, "tz": tz} for n, (unit, tz) in enumerate(units)},
        "aggs": {"n": {"fn": "count"}, "total": {"fn": "sum", "col": "v"}},
        "watermark": {"kind": "bounded", "delay": delay * hour},
    }
    batches = [("push", rows[at : at + size]) for at in range(0, len(rows), size)]
    return Case({"t": time_type, "v": "int64"}, query, batches)
