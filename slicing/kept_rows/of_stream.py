"""Windows of the whole stream, answered from slices: final rows come in order, and a row's place serves as its time.

With the place as time, ``rows(per_key=False)`` are sliding windows. With the number of marks so far as time,
``punctuation(per_key=False)`` are tumbling windows. Each of the two is an axis with its own plan (``RowPlan.on_axes``).
It uses the same code as windows between edges for slices, answers, and dropping cells. A push costs its rows and the
windows it closes, however many keys live. This module only counts, and finds the time of a place.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from slicing.closing.answer import answer
from slicing.closing.answers import Answers
from slicing.closing.ways import Closing
from slicing.columns.arrow_out import room
from slicing.columns.keys import KeyTable
from slicing.columns.names import free
from slicing.columns.order import alike, distinct, none
from slicing.query.plan import Plan
from slicing.query.spec import Spec
from slicing.query.watermark import manual
from slicing.reducing.batch import Rows
from slicing.reducing.reduce import reduce_rows
from slicing.storage.store import Store
from slicing.system.arrays import Ints, Mask
from slicing.system.lazy import lazy
from slicing.system.replace import but
from slicing.windows.bounds import FOREVER
from slicing.windows.builtin import sliding
from slicing.windows.rows.bound_rows import OnAxis

_NONE: Ints = none()


@dataclass(frozen=True)
class Axis:
    """What is counted in the stream, rows or marks in a column, and the windows over that count."""

    marks: str | None
    plan: Plan  # a plan that uses the count as the time
    number: Ints  # the spec's number of each window, by its number in this plan
    partial: Mask  # whether a window that is short of rows is emitted at the end of the stream
    steps: tuple[int, ...]  # between the starts of windows

    @staticmethod
    def of(plan: Plan, marks: str | None, windows: dict[int, OnAxis]) -> Axis:
        partial = np.array([windows[number].partial for number in sorted(windows)])
        steps = tuple({w.every for w in windows.values()})
        return Axis(marks, _lying(plan, windows), np.array(sorted(windows), np.int64), partial, steps)

    def another(self, plan: Plan) -> Axis:
        """A copy of this axis for an operator of its own."""
        return but(self, plan=self.plan.another(self.plan.spec, plan.policy))

    @lazy
    def shortest(self) -> int:
        """No window ends before this, except windows that began before the stream."""
        sizes = (bound.periodic[0] for bound in self.plan.edges.bounds if bound.periodic is not None)
        return min(sizes) if self.marks is None else 0

    @property
    def alone(self) -> bool:
        """Whether the axis has windows of rows of a single type, and there are no keys."""
        return self.marks is None and self.number.size == 1 and not self.plan.spec.by


def _lying(plan: Plan, windows: dict[int, OnAxis]) -> Plan:
    """The query along an axis."""
    time, spec = free("place", plan.types), plan.spec
    lying = {plan.names[number]: sliding(w.size, w.every) for number, w in windows.items()}
    aggs, emit = dict(spec.aggs), spec.emit  # these decide which partials are kept
    axis_spec = Spec(time, lying, aggs, by=spec.by, sequence=spec.sequence, watermark=manual(), emit=emit)
    return Plan.of(axis_spec, pa.schema([*plan.types.items(), (time, pa.int64())]), plan.arrival)


def axes(plan: Plan) -> tuple[Axis, ...]:
    """The axes of the windows of the whole stream."""
    found: tuple[Axis, ...] = plan.once("axes", lambda: _another(plan))
    for axis in found:
        axis.plan.policy = plan.policy
    return found


def _another(plan: Plan) -> tuple[Axis, ...]:
    return tuple(axis.another(plan) for axis in plan.alike("axes", lambda: _axes(plan)))


def _axes(plan: Plan) -> tuple[Axis, ...]:
    by_marks: dict[str | None, dict[int, OnAxis]] = {}
    for number, lies in plan.rows.on_axes.items():
        by_marks.setdefault(lies.marks, {})[number] = lies
    return tuple(Axis.of(plan, marks, windows) for marks, windows in by_marks.items())


@dataclass(frozen=True)
class Stream:
    """What is kept of the stream along an axis: slices, and when the open windows began."""

    store: Store
    reached: int = 0  # how many rows or marks were counted
    closed: int = 0  # windows that end by this count are closed
    at: Ints = field(default_factory=none)  # places at which windows begin
    since: Ints = field(default_factory=none)  # the times of the rows there
    latest: int = 0  # the time of the last row

    @property
    def nbytes(self) -> int:
        return self.store.nbytes + self.at.nbytes + self.since.nbytes

    def after(
        self, axis: Axis, rows: Rows | None, keys: KeyTable | None, time: int, flush: bool
    ) -> tuple[Stream, Answers]:
        """Add the rows that came or became final next. Also returns the windows whose rows are all before ``time``."""
        plan, now = axis.plan, self if rows is None else self._with(axis, rows)
        closed = self._before(time, now, rows)
        now = but(now, closed=closed)
        store, until = now.store, FOREVER if flush and axis.partial.any() else closed
        if not len(store) or not plan.edges.any_between(self.closed, until):
            return but(now, store=store.settled(), since=now.since.copy()), Answers.none(plan)
        closing = Closing(plan, store, keys, max(self.closed, axis.shortest - 1), until)
        answers = answer(closing)
        if len(answers):
            answers = self._in_time(axis, now, answers, np.array([self.latest]) if rows is None else rows.time)
        first = int(np.searchsorted(now.at, plan.edges.held_from(closed)))
        store = closing.store.without(closed).settled()
        return but(now, store=store, at=now.at[first:].copy(), since=now.since[first:].copy()), answers

    def _before(self, time: int, now: Stream, rows: Rows | None) -> int:
        """The count of rows or marks before a time. Of all rows that have come, only rows of the latest time can be at
        or after it."""
        if time > now.latest:
            return now.reached
        count = 0 if rows is None else int(np.searchsorted(rows.time, time))
        return self.reached + count if count or time > self.latest else self.closed

    def recoded(self, code: Ints) -> Stream:
        """Renumber codes: ``code[old]`` is the new code, -1 for a code that is dropped."""
        kept = tuple(run.take(code[run.code] >= 0) for run in self.store.runs)
        return but(self, store=but(self.store, runs=kept).recoded(code))

    def beside(self, other: Stream) -> Stream:
        """Add the cells of other keys of the same stream."""
        store = self.store
        store = store.with_runs(other.store.runs)
        return but(self, store=store)

    def _with(self, axis: Axis, rows: Rows) -> Stream:
        """Add the cells of rows."""
        if axis.marks is None:
            at, since, reached = self._counted(axis, rows)
            placed = self._cut(axis.plan, rows) if rows.code is None else None
            place = np.arange(self.reached if placed is None else reached, reached)
        else:
            placed, (place, at, since, reached) = None, self._marked(axis, rows)
        if placed is None:
            place.setflags(write=False)  # times are read-only too: a kernel is compiled for one type only
            placed = but(rows, plan=axis.plan, time=place, instant=rows.time)
            placed.__dict__["span"] = int(place[0]), int(place[-1]), True
        cells = reduce_rows(placed)
        if not axis.plan.gapless:
            cells = cells.take(axis.plan.edges.covers(cells.end))
        if self.at.size:
            at, since = np.append(self.at, at), np.append(self.since, since)
        return Stream(self.store.going_on(cells), reached, self.closed, at, since, int(rows.time[-1]))

    def _cut(self, plan: Plan, rows: Rows) -> Rows:
        """Place rows without keys. Their number alone tells where they are cut, so no place is looked at."""
        first, size = self.reached, len(rows)
        edges = plan.edges.between(first, first + size - 1, rows.time, plan.grid, size)
        placed = but(rows, plan=plan)
        placed.__dict__["span"] = first, first + size - 1, True
        cuts = np.zeros(edges.size + 1, np.int64)
        np.subtract(edges, first, cuts[1:])
        placed.__dict__["cuts"] = edges, np.minimum(cuts, size, out=cuts)
        return placed

    def _counted(self, axis: Axis, rows: Rows) -> tuple[Ints, Ints, int]:
        """Where windows begin and when, and how many rows there are now."""
        first, reached = self.reached, self.reached + len(rows)
        starts = [np.arange(-(-first // step) * step, reached, step) for step in axis.steps]
        if len(starts) == 1:
            at = starts[0]
            return at, rows.time[at[0] - first :: axis.steps[0]] if at.size else _NONE, reached
        at = distinct(np.concatenate(starts))
        return at, rows.time[at - first], reached

    def _marked(self, axis: Axis, rows: Rows) -> tuple[Ints, Ints, Ints, int]:
        """If marks are counted: the place of each row, where windows begin and when, and how many marks there are now.

        Marks of one time count as one mark, and all rows of that time come after it.
        """
        assert axis.marks is not None
        marks = distinct(rows.time[rows.flag(axis.marks)])
        reached = self.reached + marks.size
        bounds = np.concatenate([[0], np.searchsorted(rows.time, marks), [len(rows)]])
        place = np.repeat(np.arange(self.reached, reached + 1), np.diff(bounds))
        if not self.at.size and bounds[1]:  # rows before any mark
            return place, np.arange(reached + 1), np.append(rows.time[0], marks), reached
        return place, np.arange(self.reached + 1, reached + 1), marks, reached

    def _in_time(self, axis: Axis, now: Stream, answers: Answers, time: Ints) -> Answers:
        """Turn windows between places into windows of the spec. Windows that began before the stream are left out, and
        so are short windows that are not asked for."""
        end, window, start = columns = answers.end, answers.window, answers.start
        if axis.alone and answers.ordered and start[0] >= 0 and end[-1] <= self.reached + time.size:
            return self._in_steps(axis, now, answers, time)
        each: Ints | None = None
        if axis.plan.spec.by:  # a window has a row for each key
            others = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
            first = np.append(0, np.flatnonzero(others) + 1)
            each = np.diff(np.append(first, len(answers)))
            end, window, start = (column[first] for column in columns)
        if axis.marks is None:
            at = np.minimum(end - 1 - self.reached, time.size - 1)  # negative for earlier rows, all of the latest time
            ended = np.where(at < 0, self.latest, time[np.maximum(at, 0)])
        else:
            ended = np.append(now.since, now.latest)[np.searchsorted(now.at, end)]
        since, number = now.since[np.searchsorted(now.at, start)], axis.number[window]
        ordered = answers.ordered and _ascending(ended, number, since)
        due = (start >= 0) & ((end <= now.reached) | axis.partial[window])
        ranks = np.stack([answers.start, answers.end], axis=1) if axis.marks is None else None
        if each is not None:
            number, since, ended, due = (np.repeat(column, each) for column in (number, since, ended, due))
        found = but(answers, window=number, start=since, end=ended, ranks=ranks, ordered=ordered)
        return found if due.all() else found.take(due)

    def _in_steps(self, axis: Axis, now: Stream, answers: Answers, time: Ints) -> Answers:
        """As ``_in_time``, for whole windows of one type without keys, none of them empty. Each window begins a step
        after the one before it, so answers are taken from the columns with that step."""
        step, size = axis.steps[0], len(answers)
        first, at = int(answers.start[0] - now.at[0]) // step, int(answers.end[0]) - 1 - self.reached
        older = min(max(-(at // step), 0), size)  # these windows ended with earlier rows, all of the latest time
        ended, ranks = room(size), room(2 * size).reshape(2, size)
        ended[:older], ended[older:] = self.latest, time[at + older * step :: step][: size - older]
        ranks[0], ranks[1] = answers.start, answers.end
        number = alike(int(axis.number[0]), size)
        return but(answers, window=number, start=now.since[first : first + size], end=ended, ranks=ranks.T)


def going_on(
    plan: Plan, streams: tuple[Stream, ...], rows: Rows | None, keys: KeyTable | None, time: int, flush: bool
) -> tuple[tuple[Stream, ...], list[Answers]]:
    """Add the rows that came or became final next to each axis. Also returns the windows of rows before ``time``."""
    lying = axes(plan)
    streams = streams or tuple(Stream(Store(axis.plan)) for axis in lying)
    found = [stream.after(axis, rows, keys, time, flush) for axis, stream in zip(lying, streams, strict=True)]
    return tuple(stream for stream, _ in found), [answers for _, answers in found if len(answers)]


def beside(some: tuple[Stream, ...], others: tuple[Stream, ...]) -> tuple[Stream, ...]:
    """Join streams of different keys of the same stream."""
    if not (some and others):
        return some or others
    return tuple(one.beside(other) for one, other in zip(some, others, strict=True))


def _ascending(*columns: Ints) -> bool:
    """Whether each row of the columns comes after the row before it."""
    after = np.zeros(columns[0].size - 1, np.bool_)
    for column in reversed(columns):
        after = (column[1:] > column[:-1]) | ((column[1:] == column[:-1]) & after)
    return bool(after.all())
