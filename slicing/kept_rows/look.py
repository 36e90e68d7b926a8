"""A look at kept rows when the watermark has moved: the rows that windows are shown, and which rows stay.

Windows are shown the rows of keys that have new final rows: first a key's earlier rows, then the new ones. They are
also shown the rows of keys for which a window has set a time to wake.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from slicing.closing.answers import Answers
from slicing.columns.keys import KeyTable
from slicing.columns.order import distinct, ranges, stable_order
from slicing.kept_rows import of_stream, remembered, waiting
from slicing.kept_rows.by_key import KeyRows
from slicing.kept_rows.final import FinalRows, Run, by_code
from slicing.kept_rows.final_slices import fused, slices_of
from slicing.kept_rows.plain import PlainRows
from slicing.kept_rows.remembered import Quiet, Seen
from slicing.reducing.batch import Rows
from slicing.system.arrays import NONE, Ints
from slicing.system.lazy import lazy
from slicing.system.replace import but
from slicing.windows.bounds import BEGIN, FOREVER
from slicing.windows.rows.bound_rows import BoundRows
from slicing.windows.rows.row_table import PLACE, RANK, SINCE
from slicing.windows.rows.row_view import View
from slicing.windows.rows.users import BoundContextAware

Windows = Sequence[tuple[BoundRows, Seen]]


def look_at(store: KeyRows, until: int, flush: bool, also: View | None = None) -> KeyLook | None:
    """The rows that windows which close before ``until`` may hold, for keys that have any and for the keys of ``also``.
    None if there are none."""
    plan, final = store.plan, store.final
    runs, rest = (list(store.waiting), ()) if plan.rows.at_once else waiting.taken(store.waiting, until)
    if runs and not waiting.are_in_order(runs):
        runs = [waiting.in_order(waiting.joined(runs))]
    waits = flush or any(stream.closed < stream.reached for stream in store.streams)
    if not plan.rows.windows:
        return KeyLook(store, None, None, until, runs, rest, NONE, NONE) if runs or waits else None
    final = final.known(max((run.codes for run in runs), default=0))
    fresh = _lifted(store, runs, final.ranked) if runs else []
    awake = np.flatnonzero(final.wakes < until) if any([w.wakes for w in plan.rows.windows]) else NONE
    over = NONE if plan.idle is None else store.quiet.over(plan.idle, until)
    if also is None and not (awake.size or over.size or fresh or waits):
        return None
    codes = distinct(np.concatenate((awake, over, NONE if also is None else also.code)))
    final = final.known(int(codes[-1]) + 1 if codes.size else 0)
    calm: View | None = None
    few = len(final) > plan.policy.alone_rows * sum(map(len, fresh))
    if fresh and few and not (flush or plan.rows.as_slices or plan.spec.revises):
        fresh, calm = _divided(store, final, fresh, codes, until)
    older = _older(store, final, fresh, codes, flush)
    view = _view(store, final, [*older, *fresh], until, flush) if older or fresh else None
    quiet = store.quiet if plan.idle is None else store.quiet.known(final.gone.size)
    return KeyLook(but(store, final=final, quiet=quiet), view, calm, until, runs, rest, awake, over)


def _older(store: KeyRows, final: FinalRows, fresh: list[Run], codes: Ints, flush: bool) -> list[Run]:
    """Earlier rows that windows are shown: of the keys of fresh rows, and of ``codes``."""
    plan = store.plan
    if not len(final) or not (flush or fresh or codes.size):
        return []
    if flush or not plan.spec.by or not plan.rows.by_key:
        return final.of(None)
    if fresh:
        new = fresh[0].codes[fresh[0].groups()[:-1]].astype(np.int64)
        codes = np.union1d(codes, new) if codes.size else new
    return final.of(codes)


def _divided(
    store: KeyRows, final: FinalRows, fresh: list[Run], codes: Ints, until: int
) -> tuple[list[Run], View | None]:
    """Split rows that became final: rows of keys whose older rows are needed too (as for all ``codes``), and rows of
    other keys."""
    plan, table, alone = store.plan, by_code(fresh, fresh[0]), but(final, gone=final.ranked)
    view = _view(store, alone, [table], until, False)
    stirred = view.over | ~view.goes_on
    for window in plan.rows.windows:
        seen = Seen.by(window, view, store.notes, store.bases)
        if len(seen.view.rows):
            stirred[slice(None) if seen.group is None else seen.group] |= window.stirs(seen.view, until)
    if not codes.size and not stirred.any():
        return [], view
    needs_look = np.full(final.gone.size, not plan.rows.by_key)
    needs_look[codes] = needs_look[view.code[stirred]] = True
    chosen = needs_look[table.codes]
    if chosen.all():
        return fresh, None
    if not chosen.any():
        return [], view
    return [table.take(chosen)], _view(store, alone, [table.take(~chosen)], until, False)


def _view(store: KeyRows, final: FinalRows, parts: list[Run], until: int, flush: bool) -> View:
    """Rows by group. A group is a key or, with ``idle``, a key's rows between two times of quiet."""
    table, idle = by_code(parts, parts[0]), store.plan.idle
    bounds = table.groups()
    code = table.codes[bounds[:-1]].astype(np.int64)
    base, over = final.gone[code], np.full(code.size, flush)
    goes_on = np.ones(code.size, np.bool_)
    if idle is not None:
        quiet, of = store.quiet.known(final.gone.size), table.codes.astype(np.int64)
        anew = quiet.anew(idle, of, table.fact(RANK), table.fact(SINCE), table.time, final.ranked)
        begins = anew.copy()
        begins[bounds[:-1]] = True
        bounds = np.append(np.flatnonzero(begins), len(table))
        goes_on, code = ~anew[bounds[:-1]], of[bounds[:-1]]
        base = np.where(goes_on, final.gone[code] - quiet.began[code], 0)
        last = np.maximum(table.time[bounds[1:] - 1], np.where(goes_on, quiet.last[code], BEGIN))
        over = (last + idle < until) | flush
    of_key = remembered.grown(store.arrived.of_key, final.gone.size)[code]
    counts = of_key, store.arrived.rows, store.placed, store.settled
    return View(table, bounds, base, goes_on, over, *counts, store.contexts)


def _lifted(store: KeyRows, runs: list[Rows], ranked: Ints) -> list[Run]:
    """Rows by key, as slices if the plan cuts them."""
    plan = store.plan
    if plan.rows.by_place:
        rows = waiting.joined(runs)
        runs = [but(rows, stamps={**rows.stamps, PLACE: store.placed + np.arange(len(rows))})]
    if runs[0].code is not None:
        rows = waiting.joined(runs)
        code = rows.code
        assert code is not None
        rows = rows.take(stable_order(code), arrival=None if plan.knows_rows else rows.first_arrival())
        return [slices_of(plan, store.quiet, rows, ranked) if plan.rows.as_slices else PlainRows.of(rows, ranked)]
    if plan.rows.as_slices:
        runs = waiting.apart(runs) if plan.idle is None else [waiting.joined(runs)]
    found, known = list[Run](), int(ranked[0])
    for rows in runs:  # one by one, in place
        sliced = slices_of(plan, store.quiet, rows, np.array([known])) if plan.rows.as_slices else None
        found.append(PlainRows(rows, known) if sliced is None else sliced)
        known += len(rows)
    return found


@dataclass(frozen=True)
class KeyLook:
    """The rows that windows are shown, and what is to be kept."""

    store: KeyRows
    view: View | None  # None: no window can be complete
    calm: View | None  # rows that became final, of keys whose older rows need no look
    until: int
    runs: list[Rows]  # rows that became final, in their order
    rest: tuple[Rows, ...]
    awake: Ints  # keys that are due to be looked at
    over: Ints  # keys that have ended, unless new rows go on

    @lazy
    def seen(self) -> dict[int, Seen]:
        """What each window is shown, by its number. A window that is to see no row is left out."""
        return {} if self.view is None else _shown(self.store, self.view)

    def of_stream(self, keys: KeyTable | None, flush: bool) -> tuple[KeyLook, list[Answers]]:
        """The windows of the whole stream that are answered from slices, and the store with what is kept for them."""
        plan, streams, found = self.store.plan, self.store.streams, list[Answers]()
        if not plan.rows.on_axes:
            return self, []
        apart = plan.rows.counts_stream and not plan.spec.by  # take each run by itself, in order of arrival
        runs: Sequence[Rows | None] = self.runs or [None]
        if self.runs and not apart:
            runs = [waiting.joined(self.runs)]
        for rows in runs:
            ends = flush and rows is runs[-1]
            streams, some = of_stream.going_on(plan, streams, rows, keys, self.until, ends)
            found += some
        return but(self, store=but(self.store, streams=streams)), found

    def let_go(self, h: int) -> KeyRows:
        """The store without rows that windows which close at ``h`` or later do not need."""
        store = self.store
        rest = self.rest if self.until <= h else waiting.taken(store.waiting, h)[1]
        store = but(store, waiting=rest, settled=max(store.settled, h))
        if self.awake.size:
            wakes = store.final.wakes.copy()
            wakes[self.awake] = FOREVER
            store = but(store, final=but(store.final, wakes=wakes))
        if self.over.size:
            last, began = store.quiet.last.copy(), store.quiet.began.copy()
            last[self.over], began[self.over] = BEGIN, store.final.ranked[self.over]
            over = self.over if self.view is None else np.setdiff1d(self.over, self.view.code)
            store = but(store, quiet=Quiet(last, began), contexts=remembered.without(store.contexts, over))
        if self.view is not None:
            store = self._shortened(store, self.view, self.seen, h)
        if self.calm is None:
            return store
        calm = but(self.calm, contexts=store.contexts)
        return self._shortened(store, calm, _shown(store, calm), h, calm=True)

    def _shortened(self, store: KeyRows, view: View, shown: dict[int, Seen], h: int, calm: bool = False) -> KeyRows:
        """The store without rows of a view that are not needed. ``calm``: all of them are needed, and older rows
        too."""
        plan, table, final, code = store.plan, view.rows, store.final, view.code
        windows = [(window, shown[window.number]) for window in plan.rows.windows if window.number in shown]
        fresh = table.ranked(view.bounds, final.ranked[code])  # the first row of each group that has been waiting
        settled = view.last if self.until <= h else view.before(h)
        cut = view.first if calm else settled
        for window, seen in () if calm else windows:
            cut = seen.lower(cut, window.needs(seen.view, h))
        cut = np.where(view.over, view.last, cut)
        origin = view.rank - table.counted(view.first)
        gone, ranked = final.gone.copy(), final.ranked.copy()
        ranked[code] = table.counted(settled) + origin  # if a key has several groups, the last group's
        if not calm:
            gone[code] = table.counted(cut) + origin
        left = np.maximum(cut, fresh)
        added = np.maximum(settled - left, 0)
        alive = final.alive - int(np.minimum(cut, fresh).sum() - view.first.sum()) + int(added.sum())
        if added.size == 1:
            chosen: Ints | slice = slice(int(left[0]), int(left[0] + added[0]))
        else:
            chosen = ranges(left, added)
        new = table.take(chosen)
        if plan.rows.as_slices and len(new):
            begins = np.logical_or.reduce([window.begins(seen.view) for window, seen in windows])
            new = new.beginning(begins[chosen])
        final = but(final, gone=gone, ranked=ranked, wakes=self._wakes(windows, view, final.wakes, h))
        final = final.after(new, alive, partial(fused, plan) if plan.rows.as_slices else None)
        placed = store.placed + (int(np.maximum(settled - fresh, 0).sum()) if plan.rows.by_place else 0)
        quiet = store.quiet if plan.idle is None else self._quiet(store.quiet, view, ranked)
        store = but(store, final=final, quiet=quiet, placed=placed)
        return self._remembering(windows, store, view, cut, h)

    def _wakes(self, windows: Windows, view: View, wakes: Ints, h: int) -> Ints:
        if any(window.wakes for window, _ in windows):
            due = np.full(view.first.size, FOREVER)
            for window, seen in windows:
                if window.wakes:
                    group = slice(None) if seen.group is None else seen.group
                    due[group] = np.minimum(due[group], window.wake(seen.view, self.until, h))
            wakes = wakes.copy()
            wakes[view.code] = np.where(view.over, FOREVER, due)
        return wakes

    def _quiet(self, quiet: Quiet, view: View, ranked: Ints) -> Quiet:
        code, began, last = view.code, quiet.began.copy(), quiet.last.copy()
        known = np.where(view.goes_on, self.store.quiet.last[code], BEGIN)
        last[code] = np.where(view.over, BEGIN, np.maximum(known, view.time[view.last - 1]))
        anew = np.where(view.goes_on, self.store.quiet.began[code], view.rank)
        began[code] = np.where(view.over, ranked[code], anew)
        return Quiet(last, began)

    def _remembering(self, windows: Windows, store: KeyRows, view: View, cut: Ints, h: int) -> KeyRows:
        if not any(window.notes or isinstance(window, BoundContextAware) for window, _ in windows):
            return store
        contexts, notes = dict(store.contexts), dict(store.notes)
        for window, seen in windows:
            shown = seen.view
            if isinstance(window, BoundContextAware):  # a view still has those of keys that have ended
                contexts[window.number] = window.contexts(but(shown, contexts=store.contexts), h)
            elif window.notes:
                at = np.arange(len(shown.rows)) if seen.rows is None else seen.rows
                gone = at < cut[view.group[at]]
                left = np.bincount(shown.group, shown.rows.sizes * gone, shown.first.size).astype(np.int64)
                known = notes.get(window.number, NONE)
                notes[window.number] = remembered.noted(window, shown, known, window.note(shown, h, left))
        return but(store, contexts=contexts, notes=notes)


def _shown(store: KeyRows, view: View) -> dict[int, Seen]:
    found = {window.number: Seen.by(window, view, store.notes, store.bases) for window in store.plan.rows.windows}
    return {number: seen for number, seen in found.items() if len(seen.view.rows)}
