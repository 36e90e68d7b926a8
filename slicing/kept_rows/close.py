"""Windows of kept rows: which of them the watermark completes or late rows change, and their answers."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from slicing.closing.answers import Answers
from slicing.closing.emit import combined
from slicing.closing.over_rows import over_rows
from slicing.closing.spans import Known, LastOfGroups, Recent, Steady
from slicing.columns.arrow_out import room
from slicing.columns.keys import KeyTable
from slicing.columns.order import alike
from slicing.kept_rows.by_key import KeyRows
from slicing.kept_rows.look import look_at
from slicing.kept_rows.plain import PlainRows
from slicing.kernels.rows import last_rows_times
from slicing.kernels.write import count_on
from slicing.query.plan import Plan
from slicing.reducing.batch import Rows
from slicing.reducing.reduce import lift_rows
from slicing.system.arrays import Ints, Mask, read_only
from slicing.windows.bounds import FOREVER
from slicing.windows.rows.bound_row_count import BoundRowCount, InSteps
from slicing.windows.rows.bound_rows import BoundRows
from slicing.windows.rows.per_row import BoundPerRow
from slicing.windows.rows.row_table import ARRIVAL
from slicing.windows.rows.row_view import Found, View


@dataclass(frozen=True)
class Due:
    """Windows of one type that are due."""

    window: int
    view: View
    found: Found

    @staticmethod
    def of(window: BoundRows, view: View, after: int, until: int) -> Due:
        found = window.find(view, until)
        whole, closes = Due(window.number, view, found), found.closes
        if found.in_order and view.first.size == 1:
            first, last = np.searchsorted(closes, [after, until])
            last = closes.size if view.over[0] else last
            return whole if last - first == closes.size else whole.take(slice(first, last))
        over = True if view.over.all() else (closes < until) | view.over.take(found.group)
        due = (closes >= after) & over
        return whole if due.all() else whole.take(due)

    def take(self, index: Mask | slice) -> Due:
        return replace(self, found=self.found.take(index))

    def code(self) -> Ints:
        code = self.view.code
        return alike(code[0], self.found.first.size) if code.size == 1 else code.take(self.found.group)

    def identity(self) -> Ints:
        """What distinguishes one window from another, including its content: rows are only ever added between
        others."""
        f, none = self.found, np.full(self.found.first.size, -1, np.int64)
        arrival = self.view.fact(ARRIVAL) if f.order is None else self.view.fact(ARRIVAL)[f.order]
        made_by = none if f.made_by is None else self.view.fact(ARRIVAL)[f.made_by]
        ranks = (none if f.rank_start is None else f.rank_start, none if f.rank_end is None else f.rank_end)
        ends = (arrival[f.first], arrival[f.last - 1], f.last - f.first)
        return np.stack([self.code(), f.start, f.end, made_by, *ranks, *ends], axis=1)

    def answers(self, plan: Plan) -> Answers:
        f = self.found
        rows, order = self.view.rows, f.order
        if order is None and isinstance(rows, PlainRows):
            blocks = over_rows(plan, rows.rows, Known(f.first, f.last, f.in_order))
        elif order is None:
            blocks = combined(plan, rows.cells, f.first, f.last)
        else:
            low = int(f.first.min())
            chosen = rows.take(order[low : int(f.last.max())])
            cells = lift_rows(chosen.rows) if isinstance(chosen, PlainRows) else chosen.cells
            blocks = combined(plan, cells, f.first - low, f.last - low)
        window = alike(self.window, f.first.size)
        ranks = None if f.rank_start is None or f.rank_end is None else np.stack([f.rank_start, f.rank_end]).T
        in_order = self.view.first.size == 1 and f.in_order
        return Answers(window, f.start, f.end, self.code(), blocks, in_order, ranks)


def closing_windows(plan: Plan, window: BoundRows, view: View, after: int, until: int) -> list[Answers]:
    """The windows of a type that close at ``after`` or later and before ``until``."""
    if len(plan.names) == 1 and isinstance(window, BoundPerRow) and window.at_all_rows and view.first.size == 1:
        return _at_all_rows(plan, window, view, after, until)
    if len(plan.names) == 1 and isinstance(window, BoundRowCount):
        steady = window.steady(view)
        if steady is not None:
            return _at_steady_rows(plan, window, view, steady, after, until)
        # only attach asks for windows without ranks and in any order; then all rows come at once
        begins = None if plan.policy.ranks or plan.policy.ordered else window.at_each(view)
        if begins is not None and view.over.all() and view.time.min() >= after:
            return _at_each_row(plan, window, view, begins)
    due = Due.of(window, view, after, until)
    return [due.answers(plan)] if due.found.first.size else []


def _at_steady_rows(
    plan: Plan, window: BoundRowCount, view: View, steady: InSteps, after: int, until: int
) -> list[Answers]:
    """Windows at every n-th row of one group that close at ``after`` or later and before ``until``.

    The spec has no other windows. Each range follows from the one before, and the times are the rows' own: windows of
    1024 rows at each of 10 M rows 40 -> 14 ns a row.
    """
    first, low, start, end = steady
    begin, last = np.searchsorted(end, [after, until]).tolist()
    some = slice(begin, end.size if view.over[0] else last)
    start, end, skipped = start[some], end[some], begin * window.every
    first, low = first + skipped, low + skipped
    if not end.size:
        return []
    ranks = None
    if plan.policy.ranks:
        ranks = room(2 * end.size).reshape(2, -1).T
        for rank, begins in zip(ranks.T, (low, low + window.n), strict=True):
            count_on(np.int64(begins), np.int64(window.every), rank)
        if low < 0:
            np.maximum(ranks[:, 0], 0, out=ranks[:, 0])
    number, code = (alike(n, end.size) for n in (window.number, view.code[0]))
    rows: PlainRows = view.rows
    spans = Steady(first, window.n, window.every, end.size, len(rows))
    return [Answers(number, start, end, code, over_rows(plan, rows.rows, spans), True, ranks)]


def _at_each_row(plan: Plan, window: BoundRowCount, view: View, begins: Ints) -> list[Answers]:
    """Windows at each row of groups that no further row can join, from a group's row number ``fewest`` on.

    The spec has no other windows. Their rows are found piece by piece, when the answers are read.
    """
    size = int(begins[-1])
    if not size:
        return []
    rows: PlainRows = view.rows
    start, end = room(size), room(size)
    shape = np.int64(window.n), np.int64(window.fewest)
    last_rows_times(view.bounds, begins, read_only(view.time), *shape, start, end)
    spans = LastOfGroups(view.bounds, begins, window.n, window.fewest)
    code = np.repeat(view.code, np.diff(begins))
    return [Answers(alike(window.number, size), start, end, code, over_rows(plan, rows.rows, spans))]


def _at_all_rows(plan: Plan, window: BoundPerRow, view: View, after: int, until: int) -> list[Answers]:
    """Windows at all rows of one group that close at ``after`` or later and before ``until``.

    The spec has no other windows. The rows of each window are found piece by piece, when the answers are read.
    """
    begin, end = np.searchsorted(view.time, [after, until]).tolist()
    time = view.time[begin : len(view.rows) if view.over[0] else end]
    if not time.size:
        return []
    spans = Recent(view.time, window.back + 1, begin, room(time.size))
    number, code = (alike(n, time.size) for n in (window.number, view.code[0]))
    return [Answers(number, spans.start, time, code, over_rows(plan, view.rows.rows, spans), True)]


def kept(before: KeyRows, in_time: Rows, tardy: Rows | None, reached: int | None) -> tuple[KeyRows, KeyRows | None]:
    """Add rows for windows that need single rows. Also returns the rows before, if emitted windows may have changed."""
    plan, rows = before.plan, before.add(in_time)
    if plan.idle is not None and tardy is not None:
        rows = rows.add(tardy, late=True)
    changed = plan.spec.revises and reached is not None and len(in_time) > 0 and in_time.span[0] < reached
    return rows, before if changed else None


def closed(rows: KeyRows, keys: KeyTable | None, after: int, until: int) -> tuple[KeyRows, list[Answers]]:
    """Close windows at ``after`` or later and before ``until`` (``FOREVER``: a flush). Returns the rows that are still
    needed, and the windows."""
    if not len(rows) and rows.plan.idle is None:
        return rows, []
    flush, found = until == FOREVER, list[Answers]()
    stays = rows.plan.lateness if rows.plan.spec.revises else 0  # how long emitted windows may be revised
    steps = (step for step in rows.steps(until) if step > after)  # rows that only late rows may need are shown already
    for step in [*steps, until]:
        look = look_at(rows, step, flush and step == until)
        if look is not None:
            for window in rows.plan.rows.windows:
                if window.number in look.seen:
                    found += closing_windows(rows.plan, window, look.seen[window.number].view, after, step)
            look, of_stream = look.of_stream(keys, flush and step == until)
            found += of_stream
            rows = KeyRows(rows.plan) if step == FOREVER else look.let_go(step - stays)
        after = step
    return rows, found


def changed(rows: KeyRows, older: KeyRows, after: int, until: int) -> tuple[KeyRows, list[Answers], Answers]:
    """If late rows may have changed results: the rows still needed, windows that close or changed, and windows to
    retract.

    An emitted window that has changed is retracted as it was with the ``older`` rows.
    """
    plan, found, gone = rows.plan, list[Answers](), list[Answers]()
    look = look_at(rows, until, False)
    if look is None:
        return rows, found, Answers.none(plan)
    was = look_at(older, after, False, look.view)
    for window in plan.rows.windows:
        if window.number not in look.seen:
            continue
        due = Due.of(window, look.seen[window.number].view, after - plan.lateness, until)
        if was is not None and window.number in was.seen:
            before = Due.of(window, was.seen[window.number].view, after - plan.lateness, after)
            same, still = _common(before.identity(), due.identity())
            before, due = before.take(~same), due.take(~still)
            if before.found.first.size:
                gone.append(before.answers(plan))
        if due.found.first.size:
            found.append(due.answers(plan))
    return look.let_go(until - plan.lateness), found, Answers.all_of(plan, gone)


def _common(a: Ints, b: Ints) -> tuple[Mask, Mask]:
    """Which rows of each table are also in the other table."""
    _, number = np.unique(np.concatenate([a, b]), axis=0, return_inverse=True)
    number = number.reshape(-1)
    of_a, of_b = number[: len(a)], number[len(a) :]
    return np.isin(of_a, of_b), np.isin(of_b, of_a)
