"""The stages of a push, from top to bottom.

==========  ==========================================================================================================
read        read the columns as arrays: times in ticks, keys as codes; observe how far the stream has come
collect     judge rows by the watermark before the batch, and reduce them to cells (Spark: where rows are)
admit       merge cells into the store, keep rows; find emitted windows that late rows change (Spark: where keys are)
close       move the watermark: answer complete windows, drop what no open window needs
commit      replace the operator's state by the draft state (``Operator``)
==========  ==========================================================================================================

Each stage but the last works on a draft of the state, which nobody else has. A push that closes nothing may skip
collect, admit and close: the head of the store prepares to take the rows, and takes them in place at the commit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slicing.cells.table import Cells, merged
from slicing.closing import results
from slicing.closing.answer import all_windows
from slicing.closing.answers import Answers
from slicing.closing.fill import Filled
from slicing.closing.fits import check_fits, check_full
from slicing.closing.output import Output, Stats
from slicing.closing.panes import Panes
from slicing.closing.postpone import Postponed, emitted, emitted_rows, held_beside
from slicing.closing.reach import Reach
from slicing.closing.revise import revise
from slicing.closing.too_many import MOST, check_due
from slicing.closing.ways import Closing
from slicing.columns.bits import present
from slicing.columns.values import NOWHERE, plain, ranks, taken
from slicing.kept_rows.by_key import KeyRows
from slicing.kept_rows.close import changed, closed, kept
from slicing.lifecycle import early, fired
from slicing.lifecycle.in_place import in_place
from slicing.lifecycle.numbered import numbered, rows_of
from slicing.lifecycle.state import State, forget, reached_by
from slicing.lifecycle.straight import straight
from slicing.query.plan import Plan
from slicing.query.processing_time import ProcessingTime, microseconds
from slicing.query.watermark import Seen
from slicing.reducing.batch import Rows
from slicing.reducing.reduce import reduce_rows, reduce_suspects
from slicing.storage.session_store import SessionStore, store_for
from slicing.storage.store import Store
from slicing.system.arrays import Ints, Mask
from slicing.windows.bounds import APART, BEGIN, END, FOREVER, LIMIT


class Batch(NamedTuple):
    """A batch that has been read."""

    given: pa.RecordBatch  # in the types of the first batch
    rows: Rows  # the rows that are not set aside
    null_time: Ints  # the positions of rows without a time
    ahead: Ints = NOWHERE  # the positions of rows too far ahead of the watermark
    columns: Mapping[str, pa.Array] = {}  # of the rows that are not set aside

    @property
    def aside(self) -> Ints:
        """The positions of rows that are set aside: rows without a time, and rows too far ahead."""
        return np.append(self.null_time, self.ahead) if self.ahead.size else self.null_time

    def account(self, late: Ints = NOWHERE, outside: int = 0) -> Account:
        """The account of this batch's rows. ``late`` are positions among ``rows``."""
        if not self.rows.plan.policy.accounts:
            return NO_ACCOUNT
        missing, ahead, table = self.null_time.size, self.ahead.size, None
        if late.size or missing or ahead:
            table = results.late_rows(self.given, self.null_time, late, self.ahead)
        windowed = self.rows.time.size - late.size - outside
        counts = {"rows": self.given.num_rows, "windowed": windowed, "late": late.size, "outside": outside}
        return Account(table, counts | {"null_time": missing, "ahead": ahead})


class Arrivals(NamedTuple):
    """The result of ``collect``: cells and late rows, judged by the watermark before the batch."""

    cells: Cells
    changing: Cells  # of rows behind the watermark, which may change emitted windows
    late: Ints  # positions of rows that are late for all their windows
    outside: int  # the number of rows that are in no window by definition
    in_time: Rows | None  # rows that are not before the horizon
    tardy: Rows | None = None  # rows before the horizon that some window takes


class Changed(NamedTuple):
    """Emitted windows that late rows have changed."""

    revised: tuple[Answers, Ints] | None = None  # the changed windows of slices, with their marks
    older: KeyRows | None = None  # the rows kept before the push, if windows of kept rows may have changed
    panes: Sequence[Panes] = ()  # in plans with triggers: windows that are reported early, on time and late
    numbered: bool = False  # whether the panes have their revisions and include all answers


class Pushed(NamedTuple):
    """The result of a push. Nothing has changed yet."""

    state: State
    out: Output
    commit: Callable[[], int] | None = None  # adds rows to the head of the store; returns how many cells are new
    rows: Rows | None = None  # the rows that have a time and are not too far ahead


NO_ROWS = {"rows": 0, "windowed": 0, "late": 0, "outside": 0, "null_time": 0, "ahead": 0}


class Account(NamedTuple):
    """The late rows of a push, and how many of its rows went where."""

    late: pa.Table | None = None  # the rows that no window took, with their reasons
    counts: dict[str, int] = NO_ROWS


UNCHANGED, NO_ACCOUNT = Changed(), Account()


def all_windowed(rows: Rows) -> Account:
    """The account of rows that are all in windows."""
    return Account(None, NO_ROWS | {"rows": len(rows), "windowed": len(rows)})


def push(before: State, data: pa.RecordBatch, upto: int | None = None) -> Pushed:
    """Run a batch through all stages. ``upto``: a time before which no later row comes, if the caller knows one."""
    state, plan = before.draft(), before.plan
    taken = straight(state, data, upto) if plan.goes_straight else None
    if taken is not None:
        closed_windows, rows = taken
        return Pushed(state, output(state, closed_windows, account=all_windowed(rows)), None, rows)
    batch = read(state, data)
    rows, reached = batch.rows, reached_by(state, upto)
    state.arrived += batch.given.num_rows
    state.given = batch.given.schema
    if plan.has_head and rows.time.size and not _closes(before, reached):
        addition = state.store.prepare(rows, state.horizon)
        if addition is not None:
            state.store, state.watermark = addition.store, reached
            out = output(state, in_full(state, give_waiting(state)), account=batch.account(), coming=addition.slots)
            return Pushed(state, out, addition.commit, rows)
    arrivals = collect(state, rows)
    if plan.reports_head and len(arrivals.cells) and not len(arrivals.changing):
        reported = in_place(state, rows, arrivals.cells, reached)
        if reported is not None:
            addition, panes = reported
            change = UNCHANGED._replace(panes=[panes], numbered=plan.spec.emit != "changes")
            state.store, state.watermark = addition.store, reached
            out = output(state, [], change, batch.account(arrivals.late, arrivals.outside), coming=addition.slots)
            return Pushed(state, out, addition.commit, rows)
    if state.store.head is not None:
        state.store, state.revisions = state.headless()
    answers, change = close(state, reached, admit(state, arrivals))
    if plan.early.fires:
        change = fire(state, change, at_push=True)
    if len(state.store.runs) > 1:
        state.store = state.store.settled()
    packs = rows.codes > plan.policy.packed_keys and plan.packs
    account = batch.account(arrivals.late, arrivals.outside)
    out = output(state, answers, change, account, arrived=(len(arrivals.cells), rows.time.size) if packs else None)
    return Pushed(state, out, None, rows)


# --- read -------------------------------------------------------------------------------------------------------------


def read(state: State, data: pa.RecordBatch) -> Batch:
    """Read a batch: columns as arrays. The state learns its keys and values, and how far the stream has come."""
    given, columns, times, null_time = _timed(state, data)
    ahead = NOWHERE
    if state.plan.sets_aside:
        policy, delays = state.plan.spec.watermark, state.plan.delays
        ahead = policy.ahead(times, state.watermark, delays, part=not state.plan.arrival)
    if ahead.size:
        ahead = _timed_positions(given.num_rows, null_time)[ahead]
        columns, times = _without(state, given, np.append(null_time, ahead))
    rows = encoded(state, columns, times)
    if times.size:
        low, high, ascending = rows.span
        seen = Seen(times, low, high, ascending, columns, state.plan.measure, null_time)
        state.progress = state.plan.spec.watermark.observe(state.progress, seen)
        state.newest = high if state.newest is None else max(high, state.newest)
        if state.oldest is None or low < state.oldest:
            _began(state, times, low)
        if state.plan.full and state.oldest is not None:
            check_full(state.plan, state.oldest, state.newest)
    return Batch(given, rows, null_time, ahead, columns)


def _began(state: State, times: Ints, low: int) -> None:
    """Update the time at which the stream begins. Rows behind the watermark do not count."""
    if state.watermark is not None and low < state.watermark:
        low = int(times[times >= state.watermark].min(initial=END))
    state.oldest = low if state.oldest is None else min(low, state.oldest)


def _timed_positions(rows: int, null_time: Ints) -> Ints:
    return np.delete(np.arange(rows), null_time)


def _without(state: State, given: pa.RecordBatch, aside: Ints) -> tuple[dict[str, pa.Array], Ints]:
    """The columns and times of a batch without the rows ``aside``."""
    _, columns = state.plan.columns.of(taken(given, _timed_positions(given.num_rows, aside)))
    return columns, state.plan.measure.words(columns[str(state.plan.spec.time)])


def encoded(state: State, columns: dict[str, pa.Array], times: Ints) -> Rows:
    """Encode rows that have a time: keys as codes, values without a word of their own as ranks."""
    plan, keys = state.plan, state.keys
    code, codes, policy = None, 1, plan.policy
    threads = policy.threads if times.size >= 2 * policy.share.rows else 1
    if keys is not None:
        code = keys.encode(list(map(columns.__getitem__, plan.spec.by)), threads, policy.share)
        codes = len(keys)
    columns = dict(zip(plan.row_columns, map(columns.__getitem__, plan.row_columns), strict=True))
    for name in plan.unlike & columns.keys():
        columns[name] = plain(columns[name])
    if plan.spec.op is not None:
        columns = plan.with_signs(columns)
    ranked = {name: _ranks(state, name, columns[name]) for name in plan.ranked} if plan.ranked else {}
    sharing = threads if plan.keeps_slices else 1  # plans that only keep rows have little work to share
    rows = Rows(plan, columns, times, code, codes, state.arrived, ranked, sharing)
    if times.size:
        low, high, _ = rows.look()
        newest = high if state.newest is None else state.newest
        if low < -LIMIT or high > LIMIT:
            raise ValueError(too_far(plan, low if low < -LIMIT else high))
        if low < plan.fitting[0] or high > plan.fitting[1]:
            check_fits(plan, low, high, state.horizon)
        for days in plan.days:
            days.check(low, high)
        if max(high, newest) - min(low, newest) > APART:
            raise ValueError(_too_far_apart(plan, min(low, newest), max(high, newest)))
    return rows


def _timed(state: State, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, dict[str, pa.Array], Ints, Ints]:
    """The batch in the plan's types, the columns of rows that have a time, their times in ticks, and the positions of
    rows without a time."""
    plan, spec = state.plan, state.plan.spec
    batch, columns = plan.columns.of(batch)
    if isinstance(spec.time, ProcessingTime):
        now = microseconds(spec.time.clock)
        if state.progress.largest is not None:
            now = max(now, state.progress.largest)
        return batch, columns, np.full(batch.num_rows, now, np.int64), NOWHERE
    column, missing = columns[spec.time], NOWHERE
    if column.null_count:
        valid = present(column)
        missing = np.flatnonzero(~valid)
        if spec.on_null_time == "error":
            raise ValueError(
                f"time column {spec.time!r} is null in row {missing[0]} of the batch; fill or "
                "drop nulls, or use on_null_time='late' to have such rows among the late ones"
            )
        _, columns = plan.columns.of(taken(batch, np.flatnonzero(valid)))
        column = columns[spec.time]
    if plan.measure.is_uint64 and len(column) and pc.max(column).as_py() > LIMIT:
        raise ValueError(too_far(plan, pc.max(column).as_py()))
    return batch, columns, plan.measure.words(column), missing


def _ranks(state: State, name: str, column: pa.Array) -> Ints:
    """The ranks of a column's values among all known values. New values shift the ranks of values that sort after
    them."""
    (ranked,), pool, moved = ranks([column], state.pools[name], state.ranks_kept(name))
    if not np.array_equal(moved, np.arange(moved.size)):
        state.__dict__.update(state.reranked(name, moved).__dict__)
    state.pools = state.pools | {name: pool}
    return ranked


def too_far(plan: Plan, time: int) -> str:
    found, first, last = (plan.measure.value(word) for word in (time, -LIMIT, LIMIT))
    unit = " units" if plan.measure.is_integer else f" in a column of type {plan.measure.type}"
    return f"time column {plan.spec.time!r} holds {found}; times must lie between {first} and {last}{unit}"


def _behind(times: Ints, h: int) -> Ints:
    """How far times are behind the horizon, at most ``APART``: the difference of two times may not fit int64."""
    return h - np.maximum(times, max(h - APART, BEGIN))


def _too_far_apart(plan: Plan, first: int, last: int) -> str:
    since, until = plan.measure.value(first), plan.measure.value(last)
    unit = "units" if plan.measure.is_integer else f"ticks of {plan.measure.type}"
    return (
        f"time column {plan.spec.time!r} holds {since} and {until}; the times of a batch and the latest one before it "
        f"must lie within {APART} {unit}"
    )


# --- collect ----------------------------------------------------------------------------------------------------------


def collect(state: State, rows: Rows) -> Arrivals:
    """Judge each row by the watermark before the batch, and reduce rows in time to cells."""
    plan, h = state.plan, BEGIN if state.watermark is None else state.watermark - state.plan.lateness
    if not rows.time.size:
        return Arrivals(plan.no_cells, plan.no_cells, NOWHERE, 0, rows)
    suspects, late, outside, current, tardy = plan.no_cells, NOWHERE, 0, rows, None
    if rows.span[0] < h:
        suspect = np.flatnonzero(rows.time < h)
        suspects, all_late, outside, tardy = _judge(plan, rows.take(suspect), h)
        late = suspect[all_late]
        current = rows.take(np.flatnonzero(rows.time >= h))
    in_time, changing, reached = current, plan.no_cells, state.watermark
    if not plan.keeps_slices:
        return Arrivals(plan.no_cells, plan.no_cells, late, 0, in_time)
    if plan.revises or plan.early.cut:
        changing, suspects = suspects, plan.no_cells
        if reached is not None and len(current) and current.span[0] < reached:
            behind = current.time < reached
            cells, beyond = _inside(plan, reduce_rows(current.take(np.flatnonzero(behind))))
            outside += beyond
            changing = merged(changing, cells, plan.lanes, plan.gaps)
            current = current.take(np.flatnonzero(~behind))
    cells = reduce_rows(current)
    if not plan.gapless:
        cells, beyond = _inside(plan, cells)
        outside += beyond
    if len(suspects.meta):
        cells = merged(suspects, cells, plan.lanes, plan.gaps)
    return Arrivals(cells, changing, late, outside, in_time, tardy)


def _inside(plan: Plan, cells: Cells) -> tuple[Cells, int]:
    """Drop the cells of slices that are in no window by definition. Also returns how many rows are in no window."""
    if plan.gapless:
        return cells, 0
    held = np.repeat(plan.edges.covers(cells.slice_ends), np.diff(cells.slices(), append=len(cells)))
    return cells.take(held), 0 if plan.keeps_rows else int(cells.rows[~held].sum())


def _judge(plan: Plan, rows: Rows, h: int) -> tuple[Cells, Mask, int, Rows]:
    """Judge rows before the horizon. Returns the cells of rows that some window takes, which rows are late for all
    windows, how many rows are outside of all windows, and the rows that some window takes.

    All these rows are too late for windows of kept rows.
    """
    own_end = plan.edges.next_live(rows.time, BEGIN)
    level = np.searchsorted(np.array(plan.session_gaps, np.int64), _behind(rows.time, h), "right").astype(np.int64)
    takes = plan.in_session(level)
    if plan.bounds:
        takes |= plan.edges.holds(own_end, h)
    if plan.idle is not None:
        takes &= level < len(plan.session_gaps)
    belongs = _in_slices(plan, own_end)
    takes &= belongs
    if plan.keeps_rows:
        belongs[:] = True
    if plan.wholes:
        level += plan.levels
    chosen = np.flatnonzero(takes)
    some = rows.take(chosen)
    cells = reduce_suspects(some, plan.edges.next_live(some.time, h), level[chosen])
    return cells, belongs & ~takes, int((~belongs).sum()), some


def _in_slices(plan: Plan, own_end: Ints) -> Mask:
    """Which rows are in a window of slices by definition. ``own_end``: the end of each row's slice."""
    return np.ones(own_end.size, np.bool_) if plan.gapless else plan.edges.covers(own_end)


def belong(plan: Plan, rows: Rows) -> Mask:
    """Which rows are in a window by definition. With windows of kept rows, all rows are."""
    if plan.keeps_rows:
        return np.ones(len(rows), np.bool_)
    return _in_slices(plan, plan.edges.next_live(rows.time, BEGIN))


# --- admit ------------------------------------------------------------------------------------------------------------


def admit(state: State, new: Arrivals) -> Changed:
    """Merge cells into the store and keep rows. Returns the emitted windows that late rows change."""
    revised = older = None
    if state.plan.early.paned:
        rows = [rows for rows in (new.in_time, new.tardy) if rows is not None]
        panes = early.admit(state, new.cells, new.changing, rows)
        if state.plan.keeps_rows and new.in_time is not None:
            state.rows, older = kept(state.rows, new.in_time, new.tardy, state.watermark)
        return Changed(older=older, panes=panes)
    if len(new.changing.meta):
        waited = give_waiting(state, all_of_them=True)  # windows that a late row may change are emitted first
        if state.watermark is not None:
            found = revise(state.store, state.keys, state.revisions, new.changing, state.horizon, state.watermark)
            state.store, state.revisions, again, mark = found
            first = np.full(sum(map(len, waited)), -1 if state.plan.spec.emit == "changes" else 0)
            revised = Answers.together([*waited, again]), np.append(first, mark)
    state.store = state.store.going_on(new.cells)  # cells of windows that close now need no merging
    if state.plan.keeps_rows and new.in_time is not None:
        state.rows, older = kept(state.rows, new.in_time, new.tardy, state.watermark)
    return Changed(revised, older) if revised or older is not None else UNCHANGED


# --- close ------------------------------------------------------------------------------------------------------------


def close(
    state: State, reached: int | None, change: Changed = UNCHANGED, flush: bool = False, quiet: bool = False
) -> tuple[list[Answers], Changed]:
    """Move the watermark. Returns the windows that it completes, and the emitted windows that late rows have changed.
    ``quiet``: the caller drops the answers, so cheaper steps that lead to the same state may be taken."""
    if reached is None:
        return [], change
    plan = state.plan
    after = BEGIN if state.watermark is None else state.watermark - plan.patience
    until = FOREVER if flush else reached - plan.patience
    parts: list[Answers] = []
    if state.plan.keeps_rows:
        if change.older is None:
            state.rows, parts = closed(state.rows, state.keys, after, until)
        else:
            state.rows, parts, gone = changed(state.rows, change.older, after, until)
            again, mark = change.revised or (Answers.none(state.plan), NOWHERE)
            again, mark = Answers.all_of(state.plan, [again, gone]), np.append(mark, np.zeros(len(gone), np.int64))
            change = change._replace(revised=(again, mark))
    if plan.early.paned:
        panes = [*change.panes, *early.at_rows(state, reached, flush)]
        if _may_close(state, after, until, flush):
            panes += early.close(state, reached, after, until, flush)
        change = change._replace(panes=panes)
    else:
        others = None
        if plan.session_gaps and not (flush or plan.fill or state.watermark is None):
            assert isinstance(state.store, SessionStore)
            state.store, others = state.store.ending(after, until)  # cells of other keys are not read
        if state.store.runs and _may_close(state, after, until, flush):
            parts = [*_answer(state, reached, after, until, flush, quiet), *parts]
        elif state.postponed:
            parts = [*give_waiting(state, flush), *parts]
        if others is not None:
            state.store = others.with_older_runs(state.store)
    if not flush:
        state.watermark = reached
    return in_full(state, parts) if plan.full else parts, change


def in_full(state: State, answers: list[Answers]) -> list[Answers]:
    """Drop windows with ``full=True`` that the data does not cover."""
    if not state.plan.full or state.newest is None:
        return answers
    begun, until = END if state.oldest is None else state.oldest, state.newest + state.plan.measure.least
    until = until if state.watermark is None else max(until, state.watermark)
    cut = [((a.start < begun) | (a.end > until)) & np.isin(a.window, state.plan.full) for a in answers]
    return [some.take(~gone) if gone.any() else some for some, gone in zip(answers, cut, strict=True)]


def fire(state: State, change: Changed, at_push: bool = False) -> Changed:
    """Add the panes of triggers that fire now. Triggers of pushes fire last."""
    windows = fired.due(state, at_push)
    return change._replace(panes=[*change.panes, *fired.fire(state, windows)]) if windows.any() else change


def _answer(state: State, reached: int, after: int, until: int, flush: bool, quiet: bool) -> list[Answers]:
    """Answer the windows that are due, or postpone them: behind windows that wait already, or because they exceed a
    push's share. Then drop cells that no open window needs; with sessions that takes all cells in one table."""
    plan, most = state.plan, None if flush else state.plan.policy.max_windows_per_push
    if plan.most_windows[0] > 1 and len(state.store) * plan.most_windows[0] > MOST:
        check_due(plan, state.store.runs, after, until)
    closing = Closing(plan, state.store, state.keys, after, until)
    wait = bool(state.postponed) or not (most is None or (plan.adds_up and closing.most <= most))
    if not wait:
        answers, state.filled = all_windows(closing, state.filled, quiet)
    else:
        if not plan.adds_up:
            closing.table()
        state.postponed = (*state.postponed, Postponed(closing.store, after, until))
    horizon = END - 1 if flush else reached - plan.lateness
    state.store = store_for(plan) if flush else closing.store.without(horizon)
    if plan.revises:
        state.revisions = state.revisions.without(horizon)
    return give_waiting(state, flush) if wait else [answers]


def _may_close(state: State, after: int, until: int, flush: bool) -> bool:
    """Whether any window can be due or any cell be dropped. Most small pushes close nothing and should cost nothing."""
    plan = state.plan
    if flush or plan.fill or state.watermark is None or plan.edges.any_between(after, until):
        return True
    lasts = [run.earliest_last for store in state.stores for run in store.runs] if plan.session_gaps else []
    if lasts and min(lasts) + plan.session_gaps[0] < until:
        return True
    return plan.revises and plan.edges.any_between(after - plan.lateness, until - plan.lateness)


def _closes(state: State, reached: int | None) -> bool:
    """Whether the watermark passes an edge at which a window between edges may close."""
    if reached is None:
        return False
    patience = state.plan.patience
    return state.watermark is None or state.plan.edges.any_between(state.watermark - patience, reached - patience)


def give_waiting(state: State, all_of_them: bool = False) -> list[Answers]:
    """The oldest postponed windows: as many as a push may emit, or all of them."""
    if not state.postponed:
        return []

    def answering(store: Store, after: int, until: int, filled: Filled) -> tuple[Answers, Filled]:
        return all_windows(Closing(state.plan, store, state.keys, after, until), filled)

    most = None if all_of_them else state.plan.policy.max_windows_per_push
    found = emitted(state.plan, state.postponed, state.keys, state.filled, most, answering)
    answers, state.postponed, state.filled = found
    return [answers]


def advance(before: State, reached: int) -> Pushed:
    """Move the watermark without rows. It never goes back."""
    state = before.draft()
    reached = max(reached, BEGIN if state.watermark is None else state.watermark)
    if state.store.head is not None:
        if not _closes(state, reached):  # the head stays as it is
            state.store.head.check()
            state.watermark = reached
            return Pushed(state, output(state, in_full(state, give_waiting(state))))
        state.store, state.revisions = state.headless()
        state.store = state.store.settled()
    answers, change = close(state, reached)
    if state.plan.early.fires:
        change = fire(state, change)
    return Pushed(state, output(state, answers, change))


def fire_by_hand(before: State, names: Sequence[str]) -> Pushed:
    """Report the open windows of these names that have news."""
    state = before.draft()
    state.store, state.revisions = state.headless()
    panes = fired.fire(state, np.isin(np.array(state.plan.names), names))
    return Pushed(state, output(state, [], UNCHANGED._replace(panes=panes)))


def flush(before: State) -> Pushed:
    """Close everything that is still open."""
    state = before.draft()
    state.store, state.revisions = state.headless()
    answers, change = close(state, END, flush=True)
    return Pushed(state, output(state, answers, change, all_of_them=True))


# --- output -----------------------------------------------------------------------------------------------------------


def output(
    state: State,
    answers: Sequence[Answers],
    change: Changed = UNCHANGED,
    account: Account = NO_ACCOUNT,
    coming: Mask | None = None,
    arrived: tuple[int, int] | None = None,
    all_of_them: bool = False,
) -> Output:
    """The answers in Arrow, the account of rows, and the size of the state after cells were dropped. ``arrived``: how
    many cells of how many rows the push has brought, if runs may be packed now. ``all_of_them``: no result waits for a
    later push."""
    plan, keys = state.plan, state.keys
    windows = _windows(state, answers, change, all_of_them)
    has_output = plan.policy.accounts or any(map(len, answers))
    if has_output and keys is not None and state.store.head is None and len(keys) >= state.crowded:
        # after answers have read the keys; keys of a table that is wholly in memory will probably come again
        keys = forget(state, keys, () if plan.policy.accounts else answers)
    if arrived is not None:
        state.store = state.store.at_rest(*arrived)
    if not plan.policy.accounts:
        return Output(windows, plan.no_windows, Stats(), None)
    late, kept = account.late, 0
    if late is None:
        assert state.given is not None
        known: tuple[pa.Schema, pa.Table] | None = plan.memo.get("no late rows")
        if known is None or not known[0].equals(state.given, check_metadata=True):
            plan.memo["no late rows"] = known = state.given, results.none_late(state.given)
        late = known[1]
    given, size = (0, 0) if keys is None else (len(keys), keys.nbytes)
    slices, cells, held_by_store = state.store.held(coming)
    size += held_by_store
    for pool in state.pools.values():
        size += pool.nbytes
    if plan.keeps_rows or plan.early.paned or state.postponed or state.marks.code.size or state.groups:
        more = _held_beside(state)
        slices, cells, kept, size = slices + more[0], cells + more[1], kept + more[2], size + more[3]
    held = {"slices": slices, "cells": cells, "kept": kept, "keys": given, "bytes": size, "windows": windows.num_rows}
    reached = state.reached if state.postponed or state.held is not None else state.watermark
    if reached is None:
        return Output(windows, late, Stats(account.counts | held), None)
    watermark = reached if plan.measure.is_integer else plan.measure.value(reached)
    reach = Reach(plan, reached, _open_runs(state) if plan.session_gaps else ())
    return Output(windows, late, Stats(account.counts | held), watermark, reach)


def _windows(state: State, answers: Sequence[Answers], change: Changed, all_of_them: bool) -> pa.Table:
    """The table ``out.windows``."""
    plan = state.plan
    if not plan.early.paned:
        if not answers and change.revised is None:
            return plan.no_windows
        return results.windows(plan, state.keys, state.pools, answers, change.revised)
    panes = change.panes
    if not change.numbered:
        panes = [numbered(state, answers, change.revised, panes)]
    most = None if all_of_them else plan.policy.max_windows_per_push
    windows, state.held = emitted_rows(state.held, rows_of(state, panes), most)
    state.shown = state.watermark if state.held is None else state.shown
    return windows


def _open_runs(state: State) -> list[Cells]:
    """The cells of sessions that are open or postponed."""
    waiting = [waits.store for waits in state.postponed]
    stores = [*waiting, *state.stores, *(store for group in state.groups for store in group.stores)]
    return [run for store in stores for run in store.runs]


def _held_beside(state: State) -> tuple[int, int, int, int]:
    """What is held besides the stream's slices, keys and values: numbers of slices, cells and rows, and bytes."""
    plan, slices, cells, kept, size = state.plan, 0, 0, 0, state.marks.nbytes
    if state.postponed:
        size += held_beside(state.store, state.postponed)
    seen = list(state.store.runs)
    for store in [*(known.store for known in state.apart), *(group.store for group in state.groups)]:
        more = store.held()
        cells, size = cells + more[1], size + more[2]
        for run in store.runs:  # a slice may have cells in several stores
            slices += run.slices_beside(tuple(seen))
            seen.append(run)
    for store in state.reported.values():  # their slices are counted already
        more = store.held()
        cells, size = cells + more[1], size + more[2]
    if plan.early.panes_of_rows:
        cells, size = cells + state.row_panes.size, size + state.row_panes.nbytes
    size += 0 if state.held is None else state.held.nbytes
    for rows in [state.rows, *(group.rows for group in state.groups)] if plan.keeps_rows else []:
        kept, size = kept + len(rows), size + rows.nbytes
    return slices, cells, kept, size
