"""The obvious answer: what a window query means, read off the rows.

Nothing here is shared with the library. The oracle keeps every accepted row and recomputes every window from
rows on each step; the only things it remembers besides are the watermark, which sessions have left the store
(nothing joins those any more) and what it has already shown. It takes plain data:

    columns  {"t": "int64", "v": "float64", ...}            types as strings, see `harness.arrow_type`
    query    {"time": "t", "by": [...], "windows": {name: {"kind": "tumbling", "size": 5}, ...},
              "aggs": {name: {"fn": "sum", "col": "v"}, ...}, "watermark": {"kind": "bounded", "delay": 3},
              "lateness": 0, "emit": "final", "sequence": None, "idle": None, "on_null_time": "error", ...}
    rows     [{"t": 4, "v": 1.5}, ...]                      times, dates and timestamps as integers

Floats that depend on the order of additions come back as `Near`, everything else exactly.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from functools import partial
from itertools import zip_longest
from math import inf, isinf, isnan, nan
from typing import Any
from zoneinfo import ZoneInfo

Values = dict[str, Any]
Extent = tuple[int | None, int]


class Refused(Exception):
    """The step is an error and must leave everything as it was before it."""


@dataclass(frozen=True)
class Near:
    """A float the library may round differently; an infinite slack accepts any float."""

    value: float
    slack: float

    def agrees(self, other: Any) -> bool:
        if not isinstance(other, float | int):
            return False
        if self.slack == inf or other == self.value or (isnan(other) and isnan(self.value)):
            return True
        return abs(other - self.value) <= self.slack  # false where either is NaN or only one is infinite


@dataclass(frozen=True)
class Row:
    values: Values
    key: tuple
    time: int
    arrival: int
    order: tuple
    judged: float  # the watermark before the row's push: all that its lateness depends on


@dataclass(frozen=True)
class Out:
    windows: list[Values]
    late: list[Values]
    stats: dict[str, int]
    watermark: float | None
    members: frozenset[int]  # arrivals of the rows in these windows
    held: int  # rows in them, counted in each


def rank(value: Any) -> tuple:
    """Identity and order of a key value: null first, NaN (one key) last, -0.0 is 0.0."""
    if value is None:
        return (0,)
    return (2,) if isinstance(value, float) and isnan(value) else (1, value)


# --- windows ------------------------------------------------------------------------------------------------


def ticks_per_second(time_type: str) -> int:
    return {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[time_type.split("[")[1].split(",")[0].rstrip("]")]


def local_midnight(day: datetime, zone: ZoneInfo) -> int:
    return int(day.replace(tzinfo=zone).astimezone(UTC).timestamp())


def calendar_window(unit: str, tz: str, time: int, ticks: int) -> Extent:
    """The local day, week (from Monday), month, quarter or year around an instant."""
    zone = ZoneInfo(tz)
    local = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=time // ticks)
    midnight = local.astimezone(zone).replace(tzinfo=None, hour=0, minute=0, second=0, microsecond=0)
    if unit in ("1d", "1w"):
        start = midnight - timedelta(days=midnight.weekday() if unit == "1w" else 0)
        end = start + timedelta(days=7 if unit == "1w" else 1)
    else:
        months = {"1mo": 1, "1q": 3, "1y": 12}[unit]
        start = midnight.replace(day=1, month=(midnight.month - 1) // months * months + 1)
        following = start.month - 1 + months
        end = start.replace(year=start.year + following // 12, month=following % 12 + 1)
    return local_midnight(start, zone) * ticks, local_midnight(end, zone) * ticks


def calendar_windows(window: Values, time: int, ticks: int) -> list[Extent]:
    """The units around an instant, or those that begin or grow by steps and hold it."""

    def step(at: int) -> Extent:
        return calendar_window(window["every"], window["tz"], at, ticks)

    if "every" not in window:
        return [calendar_window(window["unit"], window["tz"], time, ticks)]
    if window["cumulate"]:
        start, last = calendar_window(window["unit"], window["tz"], time, ticks)
        ends = [step(time)[1]]
        while ends[-1] < last:
            ends.append(step(ends[-1])[1])
        return [(start, end) for end in ends]
    starts, end = [step(time)[0]], step(time)[1]
    found = []
    while len(starts) < window["steps"]:
        starts.append(step(starts[-1] - 1)[0])
    for start in reversed(starts):  # the first one ends with the step of the instant
        found.append((start, end))
        end = step(end)[1]
    return found


def extents(window: Values, time: int, time_type: str) -> list[Extent]:
    """The windows with fixed edges that a time is in (Li's wids())."""
    match window["kind"]:
        case "tumbling" | "sliding":
            every, offset = window.get("every", window["size"]), window.get("offset", 0)
            start, found = (time - offset) // every * every + offset, []
            while start + window["size"] > time:
                found.append((start, start + window["size"]))
                start -= every
            return found
        case "cumulate":
            size, every, offset = window["size"], window["every"], window.get("offset", 0)
            start = (time - offset) // size * size + offset
            return [(start, start + width) for width in range(every, size + 1, every) if start + width > time]
        case "fixed":
            return [(window["start"], window["end"])] if window["start"] <= time < window["end"] else []
        case "listed":
            return [(start, end) for start, end in window["extents"] if start <= time < end]
        case "squares":
            unit, since = window.get("unit", 1), window.get("from", 0)
            root = math.isqrt(max(time - since, 0) // unit)
            return [(since + root**2 * unit, since + (root + 1) ** 2 * unit)] if time >= since else []
        case "calendar":
            return calendar_windows(window, time, ticks_per_second(time_type))
    raise ValueError(window["kind"])


def chains(rows: Iterable[Row], gap: float) -> list[list[Row]]:
    """Maximal runs of rows whose neighbours are at most `gap` apart."""
    runs: list[list[Row]] = []
    for row in sorted(rows, key=lambda row: row.order):
        if runs and row.time - runs[-1][-1].time <= gap:
            runs[-1].append(row)
        else:
            runs.append([row])
    return runs


# Windows that rows decide, of rows in order: (start, end, rows, the time that completes it (None: it is open),
# ranks, what tells it from one that looks alike)


def count_windows(window: Values, rows: list[Row]) -> Iterable[tuple]:
    if window.get("order") == "arrival":
        rows = sorted(rows, key=lambda row: row.arrival)
    for start in range(0, len(rows), window["every"]):
        members = rows[start : start + window["n"]]
        times = [row.time for row in members]
        if len(members) == window["n"] or window.get("partial"):
            closed = max(times) if len(members) == window["n"] else None
            yield min(times), max(times), members, closed, (start, start + window["n"]), None


def marked_windows(window: Values, rows: list[Row]) -> Iterable[tuple]:
    if not rows:
        return
    begins = set() if "added" in window else {rows[0].time}  # added, it does not know whether a row is a key's first
    marks = sorted({row.time for row in rows if row.values[window["column"]]} | begins)
    for start, end in zip_longest(marks, marks[1:]):
        members = [row for row in rows if start <= row.time and (end is None or row.time < end)]
        yield start, rows[-1].time if end is None else end, members, end, None, None


def frames(window: Values, rows: list[Row]) -> Iterable[tuple]:
    members: list[Row] = []
    known = "origin" not in window  # whether a frame is open that began before the window was added
    for row in rows:
        if not known:
            known = bool(row.values[window["leave"]])
            continue
        if members or row.values[window["enter"]]:
            members.append(row)
        if members and row.values[window["leave"]]:
            yield members[0].time, row.time, members, row.time, None, None
            members = []
    if members and window.get("partial"):
        yield members[0].time, members[-1].time, members, None, None, None


def windows_of_rows(window: Values, rows: list[Row]) -> Iterable[tuple]:
    ranked = sorted(rows, key=lambda row: row.arrival) if window.get("order") == "arrival" else rows
    back, ahead = reach(window)
    for made_by in ranked[window["every"] - 1 :: window["every"]]:
        members = [row for row in rows if made_by.time - back <= row.time <= made_by.time + ahead]
        if members:
            start = min(members[0].time, made_by.time)
            yield start, made_by.time, members, made_by.time + max(ahead, 0), None, made_by.arrival


def reach(window: Values) -> tuple[int, int]:
    """How far a per_row window reaches to both sides of a row's time, both ends included."""
    back, ahead = window.get("before", 0), window.get("after", 0)
    if "range" in window:
        back, ahead = window["range"] + window.get("delay", 0), -window.get("delay", 0)
    closed = window.get("closed", "right")
    return back - (closed in ("right", "none")), ahead - (closed in ("left", "none"))


def last_rows(window: Values, rows: list[Row]) -> Iterable[tuple]:
    for edge in sorted({(row.time // window["every"] + 1) * window["every"] for row in rows}):
        members = [row for row in rows if row.time < edge][-window["n"] :]
        yield members[0].time, edge, members, edge - 1, None, None


def visits(window: Values, rows: list[Row]) -> Iterable[tuple]:
    """Sessions that end `longest` after they began at the latest."""
    gap, longest, members = window["gap"], window["longest"], []
    for row in [*rows, None]:
        if members:
            end = min(members[-1].time + gap, members[0].time + longest)
            last_to_join = min(members[-1].time + gap, members[0].time + longest - 1)
            if row is None or row.time > last_to_join:
                yield members[0].time, end, members, last_to_join, None, None
                members = []
        members = [*members, row]


def deltas(window: Values, rows: list[Row]) -> Iterable[tuple]:
    """Rows whose value is less than `by` away from the first one's; null goes with the others."""
    members: list[Row] = []
    for row in rows:
        value = row.values[window["column"]]
        if members and value is not None and abs(value - members[0].values[window["column"]]) >= window["by"]:
            yield members[0].time, members[-1].time, members, row.time, None, None
            members = []
        if members or value is not None:
            members = [*members, row]
    if members:
        yield members[0].time, members[-1].time, members, None, None, None


OF_ROWS: dict[str, Callable[[Values, list[Row]], Iterable[tuple]]] = {
    "rows": count_windows,
    "punctuation": marked_windows,
    "frame": frames,
    "per_row": windows_of_rows,
    "last_rows": last_rows,
    "visit": visits,
    "delta": deltas,
}


# --- aggregates ---------------------------------------------------------------------------------------------


def integral(total: int, column_type: str, on_overflow: str) -> int | None:
    """An exact integer brought into int64 (uint64 for unsigned columns)."""
    low, high = (0, 2**64 - 1) if column_type.startswith("uint") else (-(2**63), 2**63 - 1)
    if low <= total <= high:
        return total
    if on_overflow == "error":
        raise Refused("overflow")
    return None if on_overflow == "null" else (total - low) % 2**64 + low


def fits(value: float) -> float:
    return (inf if value > 0 else -inf) if abs(value) > 1.7976931348623157e308 else float(value)


def float_sum(values: list[float]) -> Near:
    if not all(math.isfinite(value) for value in values):
        return Near(sum(values, 0.0), 0.0)  # NaN, or inf, or inf - inf
    exact = sum(map(Fraction, values), Fraction(0))
    return Near(fits(exact), 1e-12 * min(fits(sum(map(abs, map(Fraction, values)))), 1e308))


def float_product(values: list[float]) -> Near:
    if not all(math.isfinite(value) for value in values):
        signs = [value if value == 0 or not math.isfinite(value) else math.copysign(1.0, value) for value in values]
        return Near(math.prod(signs), 0.0)  # NaN, or inf, or inf * 0
    exact = fits(math.prod(map(Fraction, values), start=Fraction(1)))
    return Near(exact, 1e-12 * abs(exact) + 5e-324 if math.isfinite(exact) else 0.0)


def decimal(exact: Fraction) -> Decimal:
    return Context(prec=200).divide(Decimal(exact.numerator), Decimal(exact.denominator))


def mean(values: list, column_type: str) -> Any:
    if column_type.startswith("float"):
        total = float_sum(values)
        return Near(total.value / len(values), total.slack / len(values) + 1e-15 * abs(total.value))
    exact = sum(map(Fraction, values), Fraction(0)) / len(values)
    if column_type.startswith("duration"):  # whole units, halves away from zero
        return int(math.copysign(1, exact)) * math.floor(abs(exact) + Fraction(1, 2))
    if not column_type.startswith("decimal"):
        return Near(float(exact), 1e-15 * abs(float(exact)))
    digits = min(int(column_type.rstrip(")").split(",")[1]) + 4, 38)
    return decimal(exact).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP, context=Context(prec=200))


def geometric_mean(values: list) -> Near:
    if any(isnan(value) or value < 0 for value in values):
        return Near(nan, 0.0)
    if any(value == 0 for value in values):
        return Near(nan if any(isinf(value) for value in values) else 0.0, 0.0)
    if any(isinf(value) for value in values):
        return Near(inf, 0.0)
    exact = math.exp(math.fsum(math.log(value) for value in values) / len(values))
    return Near(exact, 1e-9 * exact)


def variance(values: list, ddof: int, root: bool) -> Near | None:
    if len(values) <= ddof:
        return None
    if not all(math.isfinite(value) for value in values):
        return Near(nan, 0.0)
    if any(abs(value) > 1e150 for value in values):  # squares overflow
        return Near(nan, inf)
    exact = list(map(Fraction, values))
    middle, square = sum(exact) / len(exact), sum(x * x for x in exact) / len(exact)
    var, square = float(sum((x - middle) ** 2 for x in exact) / (len(exact) - ddof)), float(square)
    slack = 1e-9 * var + 1e-12 * math.sqrt(var * square) + 1e-26 * square + 1e-300
    if root:
        return Near(math.sqrt(var), math.sqrt(var + slack) - math.sqrt(max(var - slack, 0.0)))
    return Near(var, slack)


def extreme(values: list, pick: Callable) -> Any:
    """min or max; NaN only where there is nothing else."""
    return pick([value for value in values if not (isinstance(value, float) and isnan(value))], default=nan)


def quantile(values: list, q: float, error: float = 0.0, interpolation: str = "linear") -> Near:
    """Between the two values around the place q of the way from the first to the last, each known up to `error`."""
    if any(isinstance(value, float) and isnan(value) for value in values):
        return Near(nan, 0.0)
    numbers, at = sorted(map(float, values)), q * (len(values) - 1)
    match interpolation:
        case "lower":
            at = float(math.floor(at))
        case "higher":
            at = float(math.ceil(at))
        case "nearest":
            at = float(round(at))  # half to even
        case "midpoint":
            at = (math.floor(at) + math.ceil(at)) / 2
        case "inverted_cdf":  # the first value with at least q of the values up to it
            at = float(next(n for n in range(len(values)) if n + 1 >= q * len(values)))
    least = 1e-16 * max((abs(n) for n in numbers if not isinf(n)), default=0.0) if error else 0.0
    below, share = numbers[math.floor(at)], at - math.floor(at)
    if not share:
        slack = 1e-15 if isinstance(values[0], Decimal) else 0.0
        return Near(below, (slack + 1.000001 * error) * abs(below) + max(least, 5e-324 if error else 0.0))
    above = numbers[math.floor(at) + 1]
    if isinf(below) or isinf(above):
        return Near(below + above, 0.0)  # NaN between the two infinities
    exact = fits(Fraction(below) + (Fraction(above) - Fraction(below)) * Fraction(share))
    return Near(exact, (1e-12 + 1.000001 * error) * max(abs(below), abs(above)) + max(least, 5e-324))


def tally(values: list) -> list[tuple[Any, int]]:
    """Different values in the order they came, and how often."""
    found: dict[tuple, list] = {}
    for value in values:
        found.setdefault(rank(value), [value, 0])[1] += 1
    return [(value, count) for value, count in found.values()]


def user_defined(which: str, values: list, rows: list[Row]) -> Any:
    """What the harness defines with lift, combine and lower, read off the rows."""
    if not values:
        return None
    if which == "polynomial":  # every row's place shows
        total = 0
        for value in values:
            total = (total * 1_000_003 + value % 2_147_483_647) % 2_147_483_647
        return total
    if which == "remainder":  # negative where an odd number of values are divisible by 7
        total = sum(values) % 2_147_483_647
        return -total if sum(value % 7 == 0 for value in values) % 2 else total
    if which == "weighted":  # by 1 where the flag is false, by 2 where it is true
        pairs = [(value, 1 + row.values["flag"]) for value, row in zip(values, rows, strict=True)]
        return Near(
            float(Fraction(sum(v * w for v, w in pairs), sum(w for _, w in pairs))), 1e-9 * max(map(abs, values))
        )
    if which == "rise":
        return float(values[-1]) - float(values[0])
    if which == "any odd":
        return any(value % 2 for value in values)
    raise ValueError(which)


def same(a: Any, b: Any) -> bool:
    return a == b or (isinstance(a, float) and isinstance(b, float) and isnan(a) and isnan(b))


def edge(rows: list[Row], column: str, last: bool, arrival: bool) -> Row:
    """The first or last of some rows; without an order of arrival a tie goes to the smaller value."""
    if arrival:
        return rows[-1 if last else 0]
    found = rows[-1 if last else 0].order[:2]
    return min((row for row in rows if row.order[:2] == found), key=lambda row: rank(row.values[column]))


def aggregate(agg: Values, rows: list[Row], columns: dict[str, str], on_overflow: str, arrival: bool = True) -> Any:
    """One aggregate of a window's rows."""
    rows = sorted(rows, key=lambda row: row.order)
    if agg.get("where") is not None:
        rows = [row for row in rows if row.values[agg["where"]] is True]
    fn, column = agg["fn"], agg.get("col")
    if column is None:
        return len(rows)
    rows = [row for row in rows if row.values[column] is not None]
    if not arrival:
        rows = sorted(rows, key=lambda row: (row.order[:2], rank(row.values[column])))
    values, column_type = [row.values[column] for row in rows], columns[column]
    if fn == "count":
        return len(values)
    pick = max if fn in ("max", "argmax", "max_count") else min
    if fn in ("min_count", "max_count"):
        return sum(same(value, extreme(values, pick)) for value in values)
    if fn == "udaf":
        if agg["which"] == "weighted":
            rows = [row for row in rows if row.values["flag"] is not None]
            values = [row.values[column] for row in rows]
        return user_defined(agg["which"], values, rows)
    if fn == "count_distinct":
        return len(tally(values))
    if fn == "approx_count_distinct":
        return Near(len(tally(values)), 1 + len(values) // 20)
    if not values:
        return None
    if fn == "mode":
        return max(tally(values), key=lambda found: found[1])[0]  # the first of several
    if fn == "heavy_hitters":
        heavy = [found for found in tally(values) if found[1] / len(values) >= agg["share"]]
        return [value for value, count in sorted(heavy, key=lambda found: (-found[1], rank(found[0])))]
    if fn in ("top_k", "bottom_k") and agg.get("return") is not None:
        numbers = sorted((row for row in rows if not same(row.values[column], nan)), key=lambda row: row.order)
        numbers = sorted(numbers, key=lambda row: row.values[column], reverse=fn == "top_k")
        best = [*numbers, *(row for row in rows if same(row.values[column], nan))][: agg["k"]]
        if isinstance(agg["return"], str):
            return [row.values[agg["return"]] for row in best]
        return [{name: row.values[name] for name in agg["return"]} for row in best]
    if fn in ("top_k", "bottom_k"):
        numbers = [value for value in values if not same(value, nan)]
        return [*sorted(numbers, reverse=fn == "top_k"), *(value for value in values if same(value, nan))][: agg["k"]]
    if fn in ("argmin", "argmax"):
        best = extreme(values, pick)
        rows = [row for row in rows if same(row.values[column], best)]
        if isinstance(agg["return"], str):
            return edge(rows, agg["return"], False, arrival).values[agg["return"]]
        return {name: rows[0].values[name] for name in agg["return"]}
    first, last = (edge(rows, column, last, arrival).values[column] for last in (False, True))
    if fn == "m4":
        ends = {"first": first, "last": last}
        return {"min": extreme(values, min), "max": extreme(values, max), **ends}
    if fn == "sum" and column_type.startswith("float"):
        return float_sum(values)
    if fn == "sum" and column_type.startswith("decimal"):
        return decimal(sum(map(Fraction, values), Fraction(0)))
    if fn == "product" and column_type.startswith("float"):
        return float_product(values)
    simple: dict[str, Callable[[], Any]] = {
        "sum": lambda: integral(sum(values), column_type, on_overflow),
        "product": lambda: integral(math.prod(values), column_type, on_overflow),
        "min": lambda: extreme(values, min),
        "max": lambda: extreme(values, max),
        "mean": lambda: mean(values, column_type),
        "geometric_mean": lambda: geometric_mean(values),
        "var": lambda: variance(values, agg.get("ddof", 1), root=False),
        "std": lambda: variance(values, agg.get("ddof", 1), root=True),
        "first": lambda: first,
        "last": lambda: last,
        "median": lambda: quantile(values, 0.5),
        "quantile": lambda: quantile(values, agg["q"], interpolation=agg.get("interpolation", "linear")),
        "approx_quantile": lambda: quantile(values, agg["q"], agg["error"]),
        "collect": lambda: values[-agg["at_most"] :] if agg.get("keep") == "last" else values[: agg.get("at_most")],
        "any": lambda: any(values),
        "all": lambda: all(values),
    }
    return simple[fn]()


# --- the query ----------------------------------------------------------------------------------------------


class Oracle:
    """Feed it like the operator: push, advance, flush. Each step says which windows it emits."""

    def __init__(self, columns: dict[str, str], query: Values) -> None:
        self.columns, self.query = columns, query
        self.lateness: int = query.get("lateness", 0)
        self.emit: str = query.get("emit", "final")
        self.wait = self.lateness if self.emit == "final" else 0  # from complete to emitted
        self.idle: int | None = query.get("idle")
        if self.idle is not None and self.emit != "final" and self.lateness:
            raise ValueError("idle with lateness needs emit='final'")
        self.watermark: float = -inf
        self.pushed = 0
        self.oldest: float = inf  # of the rows that were not behind the watermark
        self.cut: float = inf  # of this push: later rows are too far ahead
        self.latest: float = -inf
        self.punctuation: float = -inf
        self.sources: dict[tuple, int] = {}
        self.rows: list[Row] = []
        self.sealed: set[tuple] = set()  # (session window, arrival) of what left; (None, arrival): instances
        self.shown: dict[tuple, Values] = {}  # emitted and not left: identity -> the row as it was emitted
        self.filled: dict[tuple, frozenset] = {}

    def push(self, rows: list[Values]) -> Out:
        return self._step(rows)

    def advance(self, watermark: int) -> Out:
        return self._step([], watermark)

    def flush(self) -> Out:
        return self._step([], inf)

    def _step(self, batch: list[Values], explicit: float = -inf) -> Out:
        saved = {name: copy.copy(state) for name, state in vars(self).items()}
        try:
            before = self.watermark
            late, stats = self._admit(batch)
            self._observe(batch)
            self.watermark = max(before, self._progress(), explicit)
            self.closed = before  # what a flush finds
            windows, contents = self._emit(before)
        except Refused:
            vars(self).update(saved)
            raise
        reached = None if self.watermark == -inf else self.watermark
        members = frozenset(arrival for content in contents for arrival in content)
        return Out(windows, late, stats, reached, members, sum(map(len, contents)))

    # rows in

    def _admit(self, batch: list[Values]) -> tuple[list[Values], dict[str, int]]:
        """Judge rows by the watermark before the push: stored, late, outside all windows, without time."""
        late: list[Values] = []
        stats = {"rows": len(batch), "windowed": 0, "late": 0, "outside": 0, "null_time": 0}
        self.cut = self._too_far(batch)
        if "ahead" in self.query["watermark"]:
            stats["ahead"] = 0
        for values in batch:
            time, arrival = values[self.query["time"]], self.pushed
            self.pushed += 1
            if time is None:
                if self.query.get("on_null_time", "error") == "error":
                    raise Refused("null time")
                stats["null_time"] += 1
                late.append({**values, "reason": "null_time"})
                continue
            if time >= self.cut:
                stats["ahead"] += 1
                late.append({**values, "reason": "ahead"})
                continue
            windows = self.query["windows"].values()
            verdicts = [late_here for window in windows for late_here in self._verdicts(window, time)]
            ended = self.watermark == inf  # there should be no more rows
            if self.idle is not None:
                ended = ended or time + self.idle + self.lateness <= self.watermark
            if not verdicts:
                stats["outside"] += 1
            elif ended or all(verdicts):
                stats["late"] += 1
                late.append({**values, "reason": "late"})
            else:
                stats["windowed"] += 1
                key = tuple(rank(values[name]) for name in self.query.get("by", []))
                sequence = self.query.get("sequence")
                order = (time, 0 if sequence is None else values[sequence], arrival)
                self.rows.append(Row(values, key, time, arrival, order, self.watermark))
        return late, stats

    def _too_far(self, batch: list[Values]) -> float:
        """The time from which on rows are too far ahead of the watermark that the rows before them give."""
        watermark, times = (
            self.query["watermark"],
            sorted(row[self.query["time"]] for row in batch if row[self.query["time"]] is not None),
        )
        if watermark.get("ahead") is None or not times:
            return inf
        reached = self.watermark
        if reached == -inf:
            reached = times[(len(times) - 1) // 2] - watermark["delay"]
        for time in times:
            if time - reached > watermark["ahead"]:
                return time
            reached = max(reached, time - watermark["delay"])
        return inf

    def _verdicts(self, window: Values, time: int) -> list[bool]:
        """For each of the windows a row belongs to: is it late there?"""
        match window["kind"]:
            case "session":
                return [time + window["gap"] + self.lateness <= self.watermark]
            case "whole":
                return [time + self.lateness < self.watermark]
            case kind if kind in OF_ROWS:
                return [time + self.lateness < self.watermark]
            case "landmark":  # in every window that ends later than the row: some of them never close
                return [] if window.get("start") is not None and time < window["start"] else [False]
        found = extents(window, time, self.columns[self.query["time"]])
        return [end + self.lateness <= self.watermark for _, end in found]

    def _observe(self, batch: list[Values]) -> None:
        watermark = self.query["watermark"]
        strict = watermark["kind"] == "ordered" and watermark.get("on_disorder", "error") == "error"
        for values in batch:
            time = values[self.query["time"]]
            if watermark["kind"] == "punctuated" and values[watermark["column"]] is not None:
                self.punctuation = max(self.punctuation, values[watermark["column"]])
            if time is None or time >= self.cut:
                continue
            if strict and time < self.latest:
                raise Refused("out of order")
            self.latest = max(self.latest, time)
            if time >= self.watermark:  # as it was before the push
                self.oldest = min(self.oldest, time)
            if watermark["kind"] == "per_source":
                source = rank(values[watermark["column"]])
                self.sources[source] = max(self.sources.get(source, time), time)

    def _progress(self) -> float:
        watermark = self.query["watermark"]
        match watermark["kind"]:
            case "bounded":
                return self.latest - watermark["delay"]
            case "ordered":
                return self.latest
            case "punctuated":
                return self.punctuation
            case "per_source":
                silent = inf if watermark.get("idle") is None else watermark["idle"]
                heard = [last for last in self.sources.values() if self.latest - last < silent]
                return min(heard, default=-inf) - watermark["delay"]
        return -inf

    # windows out

    def _emit(self, before: float) -> tuple[list[Values], list[frozenset[int]]]:
        """What is complete now and was not shown yet; for "changes" also what was shown and is no more. And each one's
        rows, by their arrival."""
        after, current, leaving, news, contents = self.watermark, {}, set(), [], []
        alive: dict[tuple, list[Row]] = {}
        for row in self.rows:
            if (None, row.arrival) not in self.sealed:
                alive.setdefault(row.key, []).append(row)
        for name, window in self.query["windows"].items():
            if self._spans_keys(window) and alive:
                everyone = [row for rows in alive.values() for row in rows]
                for start, end, members, due, left, ranks, anchor in self._of_rows(
                    window, everyone, before, after == inf
                ):
                    for key in {row.key for row in members} if due else ():
                        mine = [row for row in members if row.key == key]
                        identity = (name, key, start, end, frozenset(row.arrival for row in mine), ranks, anchor)
                        current[identity] = partial(self._result, name, start, end, mine[0], mine, ranks)
                        if left:
                            leaving.add(identity)
        for key, rows in alive.items():
            for instance in chains(rows, inf if self.idle is None else self.idle):
                quiet = instance[-1].time + (inf if self.idle is None else self.idle)
                over = after == inf or quiet + self.wait < after
                for name, window in self.query["windows"].items():
                    if self._spans_keys(window):
                        continue
                    found = self._contents(name, window, instance, before, over)
                    for start, end, members, due, left, *more in found:
                        if due:
                            ranks, anchor = more or (None, None)
                            identity = (name, key, start, end, frozenset(row.arrival for row in members), ranks, anchor)
                            current[identity] = partial(self._result, name, start, end, instance[0], members, ranks)
                            if left:
                                leaving.add(identity)
                if over and (after == inf or quiet + self.lateness < after):
                    self.sealed |= {(None, row.arrival) for row in instance}
        if self.emit == "changes":
            gone = {identity: row for identity, row in self.shown.items() if identity not in current}
            news += [{**row, "op": "-"} for row in gone.values()]
            contents += [identity[4] for identity in gone]
        for identity, result in current.items():
            if identity in self.shown:
                current[identity] = self.shown[identity]
                continue
            row = current[identity] = result()
            if self.emit == "updates":
                earlier = [old["revision"] for known, old in self.shown.items() if known[:4] == identity[:4]]
                row["revision"] = max(earlier, default=-1) + 1
            news.append({**row, "op": "+"} if self.emit == "changes" else row)
            contents.append(identity[4])
        self.shown = {identity: row for identity, row in current.items() if identity not in leaving}
        found = [(row, rows) for row, rows in zip(news, contents, strict=True) if self._covered(row)]
        found.sort(key=lambda pair: self.place(pair[0]))
        return [row for row, _ in found], [rows for _, rows in found]

    def _covered(self, row: Values) -> bool:
        """Of a window that was asked for in full: it begins with the stream's first row or later, and does not end
        after its last one or the watermark."""
        if not self.query["windows"][row["window"]].get("full"):
            return True
        known = max(self.latest + 1, -inf if self.watermark == inf else self.watermark, self.closed)
        return self.oldest <= row["window_start"] and row["window_end"] <= known

    def _contents(self, name: str, window: Values, instance: list[Row], before: float, over: bool) -> list:
        """(start, end, rows, due?, leaves the store now?) of each window that had not left before."""
        after, lateness, wait = self.watermark, self.lateness, self.wait
        if window["kind"] == "whole":
            rows = [row for row in instance if row.time + lateness >= row.judged]
            return [(rows[0].time, rows[-1].time, rows, over, over)] if rows else []
        if window["kind"] == "session":
            rows = [row for row in instance if row.time + window["gap"] + lateness > row.judged]
            found = []
            for run in chains((row for row in rows if (name, row.arrival) not in self.sealed), window["gap"]):
                end = run[-1].time + window["gap"]
                left = over or end + lateness < after
                found.append((run[0].time, end, run, over or end + wait < after, left))
                if left:
                    self.sealed |= {(name, row.arrival) for row in run}
            return found
        if window["kind"] in OF_ROWS:
            return self._of_rows(window, instance, before, over)
        content: dict[Extent, list[Row]] = {}
        if window["kind"] == "landmark":
            start, every = window.get("start"), window["every"]
            since = [row for row in instance if start is None or row.time >= start]
            for row in since:  # an edge gives a row only if there was one since the edge before
                end = (row.time // every + 1) * every
                if end + lateness > row.judged:
                    content[start, end] = [r for r in since if r.time < end and end + lateness > r.judged]
        else:
            for row in instance:
                if row.time < window.get("origin", -inf):
                    continue
                for start, end in extents(window, row.time, self.columns[self.query["time"]]):
                    if end + lateness > row.judged:
                        content.setdefault((start, end), []).append(row)
        if window.get("fill") and content:
            return self._filled(name, window, instance, content, over)
        return [
            (start, end, rows, over or end + wait <= after, over or end + lateness <= after)
            for (start, end), rows in content.items()
            if end + lateness > before
        ]

    def _spans_keys(self, window: Values) -> bool:
        """Made of the whole stream's rows, then split by key."""
        return not window.get("per_key", True) and bool(self.query.get("by"))

    def _of_rows(self, window: Values, rows: list[Row], before: float, over: bool) -> list:
        """Windows that rows decide: as `_contents`, then the ranks, and what tells apart windows that look alike."""
        in_time = sorted((row for row in rows if row.time + self.lateness >= row.judged), key=lambda row: row.order)
        # of a window added while the stream ran
        in_time = [r for r in in_time if r.time >= window.get("origin", -inf) and r.arrival >= window.get("arrived", 0)]
        if not in_time:
            return []
        added = window.get("origin", window.get("added", inf))
        if self.idle is not None and in_time[0].time - added >= self.idle:  # this key began after it
            window = {name: value for name, value in window.items() if name not in ("origin", "added")}
        found = []
        for start, end, members, closed, ranks, anchor in OF_ROWS[window["kind"]](window, in_time):
            if closed is not None and closed + self.lateness < before:
                continue  # it had left
            due = over or (closed is not None and closed + self.wait < self.watermark)
            left = over or (closed is not None and closed + self.lateness < self.watermark)
            found.append((start, end, members, due, left, ranks, anchor))
        return found

    def _filled(self, name: str, window: Values, instance: list[Row], content: dict, over: bool) -> list:
        """Every window from the key's first to its last, shown once its end and a later row are known."""
        arrivals, found = frozenset(row.arrival for row in instance), []
        first, last = min(start for start, _ in content), max(start for start, _ in content)
        for start in range(first, last + 1, window.get("every", window["size"])):
            end, known = start + window["size"], (name, instance[0].key, start)
            if over or end + self.lateness <= self.watermark:
                if not arrivals & self.filled.get(known, frozenset()):
                    found.append((start, end, content.get((start, end), []), True, True))
                self.filled[known] = self.filled.get(known, frozenset()) | arrivals
        return found

    def _result(
        self, name: str, start: int | None, end: int, example: Row, rows: list[Row], ranks: Extent | None
    ) -> Values:
        keys = {column: example.values[column] for column in self.query.get("by", [])}
        if any(window["kind"] == "rows" for window in self.query["windows"].values()):
            keys |= dict(zip(("rank_start", "rank_end"), ranks or (None, None), strict=True))
        overflow, aggs = self.query.get("on_overflow", "error"), self.query["aggs"]
        arrival = self.query.get("arrival", True)
        answers = {called: aggregate(agg, rows, self.columns, overflow, arrival) for called, agg in aggs.items()}
        return {"window": name, "window_start": start, "window_end": end, **keys, **answers}

    def place(self, row: Values) -> tuple:
        keys = tuple(rank(row[column]) for column in self.query.get("by", []))
        return (
            row["window_end"],
            row["window"],
            rank(row["window_start"]),
            keys,
            rank(row.get("rank_start")),
            row.get("op") == "+",
        )
