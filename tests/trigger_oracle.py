"""Early results row by row, in plain Python: what every push of a query with triggers gives. Written from the contract.

Shares no code with the library. A row is kept with the place it has among the cuts of its windows: its time, or the
watermark that it came behind.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

FIRST, LAST = -(1 << 70), 1 << 70
Extent = tuple[int, int]
Result = tuple[Any, ...]


@dataclass
class Row:
    time: int
    key: Any
    value: Any
    number: int  # of arrival
    place: int = 0
    sequence: int = 0

    @property
    def mark(self) -> bool:
        return is_mark(self.value)


def is_mark(value: Any) -> bool | None:
    """A row's mark, of its value."""
    return None if value is None else value % 4 == 0


@dataclass
class Early:
    """When a window is reported before it is complete."""

    spans: Sequence[tuple[int, int]] = ()  # every(d, offset)
    shares: Sequence[Fraction] = ()
    counts: Sequence[tuple[int, int | None]] = ()  # after_count(n, times)
    arrivals: Sequence[tuple[int, int | None]] = ()  # the same, order="arrival"
    marks: bool = False
    each_push: bool = False
    by_hand: bool = False
    clock: int | None = None

    def cuts(self, extent: Extent, after: int, until: int) -> list[int]:
        """Those inside the window, and its end; in order."""
        start, end = extent
        found = {end}
        for span, offset in self.spans:
            low = max(start, after)
            cut = low - (low - offset) % span
            while cut <= min(end, until):
                found.add(cut)
                cut += span
        for share in self.shares:
            found.add(start + (end - start) * share.numerator // share.denominator)
        return sorted(cut for cut in found if start < cut <= end and after < cut <= until)


@dataclass
class Instance:
    """A window of a key."""

    name: str
    extent: Extent
    key: Any
    rows: list[Row] = field(default_factory=list)
    reported: set[int] = field(default_factory=set)  # numbers of rows that a pane has reported
    panes: int = 0
    passed: list[Row] = field(default_factory=list)  # by the watermark, in their order
    came: int = 0
    last: tuple[Any, str] | None = None  # what was reported last, and its timing


@dataclass
class Oracle:
    windows: dict[str, Callable[[int], list[Extent]]]
    triggers: dict[str, Early]
    answer: Callable[[list[Row]], Any]
    emit: str
    delay: int | None  # of a bounded watermark; None: manual
    lateness: int = 0
    sequenced: bool = False  # by value, null first
    native: bool = False  # a push closes what the rows before it complete
    watermark: int = FIRST
    newest: int = FIRST
    arrived: int = 0
    open: dict[tuple[str, Extent, Any], Instance] = field(default_factory=dict)
    fired_at: dict[str, int] = field(default_factory=dict)

    def push(self, rows: Sequence[tuple[int, Any, Any]], now: int = 0) -> list[Result]:
        changed: dict[int, tuple[Instance, list[Row]]] = {}
        at_once: list[Result] = []
        before = self.newest
        for time, key, value in rows:
            order = FIRST if value is None else value
            row = Row(time, key, value, self.arrived, max(time, self.watermark), order if self.sequenced else 0)
            self.arrived += 1
            self.newest = max(self.newest, time)
            for name, containing in self.windows.items():
                for extent in containing(time):
                    if extent[1] + self.lateness <= self.watermark:
                        continue
                    instance = self.open.setdefault((name, extent, key), Instance(name, extent, key))
                    if extent[1] <= self.watermark:
                        changed.setdefault(id(instance), (instance, []))[1].append(row)
                    else:
                        instance.rows.append(row)
                        instance.came += 1
                        if _counted(instance.came, self.triggers.get(name, Early()).arrivals):
                            at_once += self._pane(instance, instance.rows, "early")
        out = at_once
        for instance, more in changed.values():
            instance.rows += more
            out += self._pane(instance, instance.rows, "late")
        newest = before if self.native else self.newest
        out += self._moved(self.watermark if self.delay is None else newest - self.delay)
        out += self._pushed(True, now)
        return self._in_order(out)

    def advance(self, watermark: int, now: int = 0) -> list[Result]:
        return self._in_order([*self._moved(watermark), *self._pushed(False, now)])

    def flush(self) -> list[Result]:
        return self._in_order(self._moved(LAST))

    def fire(self, names: Sequence[str]) -> list[Result]:
        return self._in_order([r for i in self.open.values() if i.name in names for r in self._early(i)])

    def _moved(self, watermark: int) -> list[Result]:
        before, self.watermark = self.watermark, max(self.watermark, watermark)
        out: list[Result] = []
        for instance in list(self.open.values()):
            end = instance.extent[1]
            early = self.triggers.get(instance.name, Early())
            out += self._at_rows(instance, early, before)
            for cut in early.cuts(instance.extent, before, self.watermark):
                rows = [row for row in instance.rows if row.place < cut or cut == end]
                if cut == end:
                    out += self._pane(instance, rows, "on_time")
                elif any(row.number not in instance.reported for row in rows):
                    out += self._pane(instance, rows, "early")
            if end + self.lateness <= self.watermark:
                del self.open[instance.name, instance.extent, instance.key]
        return out

    def _at_rows(self, instance: Instance, early: Early, before: int) -> list[Result]:
        """The panes of a window some of whose cuts rows decide, and of its other cuts: row by row."""
        if not (early.counts or early.marks) or instance.extent[1] <= before:
            return []
        out: list[Result] = []
        known = {row.number for row in instance.passed}
        rows = [row for row in instance.rows if row.number not in known and row.place < self.watermark]
        rows.sort(key=lambda row: (row.place, row.time, row.sequence, row.number))
        cuts = [cut for cut in early.cuts(instance.extent, before, self.watermark) if cut < instance.extent[1]]
        for row, after in zip(rows, [*rows[1:], None], strict=False):
            while cuts and cuts[0] <= row.place:
                out += self._if_new(instance)
                cuts.pop(0)
            instance.passed.append(row)
            if _counted(len(instance.passed), early.counts):
                out += self._if_new(instance)
            last = after is None or after.place != row.place
            if early.marks and last and any(other.mark for other in rows if other.place == row.place):
                out += self._if_new(instance)
        for _ in cuts:
            out += self._if_new(instance)
        return out

    def _if_new(self, instance: Instance) -> list[Result]:
        new = any(row.number not in instance.reported for row in instance.passed)
        return self._pane(instance, instance.passed, "early") if new else []

    def _pushed(self, rows: bool, now: int) -> list[Result]:
        out: list[Result] = []
        for name, early in self.triggers.items():
            due = early.each_push and rows
            if early.clock is not None:
                since = self.fired_at.setdefault(name, now)
                if now - since >= early.clock:
                    self.fired_at[name], due = now, True
            if due:
                out += [r for i in self.open.values() if i.name == name for r in self._early(i)]
        return out

    def _early(self, instance: Instance) -> list[Result]:
        if instance.extent[1] <= self.watermark or all(row.number in instance.reported for row in instance.rows):
            return []
        return self._pane(instance, instance.rows, "early")

    def _pane(self, instance: Instance, rows: list[Row], timing: str) -> list[Result]:
        rows = list(rows)
        shown = [row for row in rows if row.number not in instance.reported] if self.emit == "parts" else rows
        instance.reported |= {row.number for row in rows}
        if not shown:
            return []
        ordered = sorted(shown, key=lambda row: (row.time, row.sequence, row.number))
        answer, before = self.answer(ordered), instance.last
        named = (instance.extent[1], instance.name, instance.extent[0], instance.key)
        instance.panes, instance.last = instance.panes + 1, (answer, timing)
        if self.emit != "changes":
            return [(*named, answer, timing, instance.panes - 1)]
        return [*([] if before is None else [(*named, *before, "-")]), (*named, answer, timing, "+")]

    @staticmethod
    def _in_order(out: list[Result]) -> list[Result]:
        return sorted(out, key=lambda r: (r[0], r[1], r[2], r[3] is not None, r[3]))


def _counted(rows: int, counts: Sequence[tuple[int, int | None]]) -> bool:
    return any(rows % n == 0 and (times is None or rows <= n * times) for n, times in counts)


@dataclass
class SessionOracle:
    """Sessions of one gap (None: whole streams) reported early, as changes; nothing is kept open."""

    gap: int | None
    answer: Callable[[list[Row]], Any]
    delay: int
    early: Early = field(default_factory=lambda: Early(each_push=True))
    open: dict[Any, list[list[Row]]] = field(default_factory=dict)  # of each key, as they were reported
    fresh: dict[Any, list[Row]] = field(default_factory=dict)  # of each key, not reported
    watermark: int = FIRST
    newest: int = FIRST
    arrived: int = 0
    fired_at: int | None = None

    def push(self, rows: Sequence[tuple[int, Any, Any]], now: int = 0) -> list[Result]:
        for time, key, value in rows:
            self.newest = max(self.newest, time)
            if time + (self.gap or 0) > self.watermark if self.gap is not None else time >= self.watermark:
                row = Row(time, key, value, self.arrived, max(time, self.watermark))
                self.fresh.setdefault(key, []).append(row)
            self.arrived += 1
        return [*self._moved(self.newest - self.delay), *self._reported(self.early.each_push or self._by_clock(now))]

    def fire(self) -> list[Result]:
        return self._reported(True)

    def flush(self) -> list[Result]:
        return [*self._moved(LAST), *self._reported(False)]

    def _moved(self, watermark: int) -> list[Result]:
        """What is reported at each cut on the way of the watermark, which sees the rows before the cut."""
        after, until = self.watermark, max(self.watermark, watermark)
        out: list[Result] = []
        times = [row.time for rows in self.fresh.values() for row in rows]
        if times:
            low, high = (
                max(after, min(times)),
                min(until, max(times) + max((d for d, _ in self.early.spans), default=0)),
            )
            cuts = {cut for d, o in self.early.spans for cut in range(low - (low - o) % d + d, high + 1, d)}
            rows = [row for some in self.fresh.values() for row in some if self.early.marks and row.mark]
            marks: dict[int, set[int]] = {}
            for row in rows:
                if row.place < until:
                    marks.setdefault(row.place + 1, set()).add(row.number)
            for self.watermark in sorted(cuts | marks.keys()):
                at = self.watermark
                out += self._reported(at in cuts, at, marks.get(at, set()))
        self.watermark = until
        return out

    def _by_clock(self, now: int) -> bool:
        if self.early.clock is None:
            return False
        if self.fired_at is None or now - self.fired_at >= self.early.clock:
            first, self.fired_at = self.fired_at is None, now
            return not first
        return False

    def _reported(self, fires: bool, cut: int = LAST, marks: Collection[int] = ()) -> list[Result]:
        """``marks``: the rows that report their own runs."""
        out: list[Result] = []
        for key in {*self.open, *self.fresh}:
            before, come = self.open.pop(key, []), self.fresh.pop(key, [])
            fresh = [row for row in come if row.time < cut]
            if len(fresh) < len(come):
                self.fresh[key] = [row for row in come if row.time >= cut]
            new = {row.number for row in fresh}
            for run in self._runs([row for old in before for row in old] + fresh):
                olds = [old for old in before if {row.number for row in old} & {row.number for row in run}]
                end = max(row.time for row in run) + (self.gap or 0)
                complete = self.watermark == LAST or (self.gap is not None and end < self.watermark)
                marked = any(row.number in marks for row in run)  # at the place before the cut
                due = (fires or marked) if cut == LAST or self.gap is None else end > cut - marked and (fires or marked)
                reports = complete or (due and any(row.number in new for row in run))
                if reports:
                    out += [(*self._named(old, key), "early", "-") for old in olds]
                    out.append((*self._named(run, key), "on_time" if complete else "early", "+"))
                if not complete:
                    self.open.setdefault(key, []).extend([run] if reports else olds)
                    if not reports:
                        self.fresh.setdefault(key, []).extend(row for row in run if row.number in new)
        return out

    def _runs(self, rows: list[Row]) -> list[list[Row]]:
        found: list[list[Row]] = []
        for row in sorted(rows, key=lambda row: (row.time, row.number)):
            if found and (self.gap is None or row.time - found[-1][-1].time <= self.gap):
                found[-1].append(row)
            else:
                found.append([row])
        return found

    def _named(self, run: list[Row], key: Any) -> Result:
        return run[-1].time + (self.gap or 0), "s", run[0].time, key, self.answer(run)
