"""Revisions: emitted windows that a late row, within the allowed lateness, has changed.

Only keys with such rows are read. A changed window is emitted again with its current result; for ``emit="changes"``
after the row that it replaces.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from typing import NamedTuple

import numpy as np

from slicing.cells.sessions import runs
from slicing.cells.table import Cells, merged
from slicing.closing import emit
from slicing.closing.answers import Answers
from slicing.closing.results import among
from slicing.closing.settle import news
from slicing.closing.too_many import check_due
from slicing.columns.keys import KeyTable
from slicing.columns.order import alike, all_alike, changes, distinct, none, order_by
from slicing.kernels.again import number_again
from slicing.query.plan import Plan
from slicing.storage.store import Store
from slicing.system.arrays import Codes, Ints, Mask, read_only
from slicing.system.lazy import lazy
from slicing.system.replace import but
from slicing.windows.bounds import FOREVER

PLACES, FEWEST_PLACES = 8, 1024  # bounds of the table of places: places per count, and counts that are always allowed
MOST_SOUGHT = 64  # up to this many windows are searched one by one


@dataclass(frozen=True)
class Revisions:
    """How often windows were emitted again: (window, start, end, code) -> count, for windows with a count."""

    window: Ints = field(default_factory=none)
    start: Ints = field(default_factory=none)
    end: Ints = field(default_factory=none)
    code: Ints = field(default_factory=none)
    count: Ints = field(default_factory=none)

    def without(self, horizon: int) -> Revisions:
        """Drop windows that have expired: they are not revised any more. A session that ends at the horizon may still
        be replaced, by one that ends later."""
        kept = self.end >= horizon
        return self if kept.all() else self.take(kept)

    @staticmethod
    def of(parts: Iterable[Revisions]) -> Revisions:
        """Join revisions of different keys."""
        known = list(parts)
        return Revisions(*(np.concatenate([getattr(one, f.name) for one in known]) for f in fields(Revisions)))

    def recoded(self, code: Ints) -> Revisions:
        return replace(self, code=code[self.code])

    def bumped(self, answers: Answers, again: Mask) -> tuple[Revisions, Ints]:
        """Count these windows once more. Also returns their revision numbers (0: emitted for the first time)."""
        columns = [
            np.concatenate([getattr(self, name), getattr(answers, name)]) for name in ("code", "start", "end", "window")
        ]
        order = order_by(*columns)  # known windows come first
        same = np.append(False, np.logical_and.reduce([c[order][1:] == c[order][:-1] for c in columns]))
        count = np.append(self.count, again.astype(np.int64))[order]
        follows = np.flatnonzero(same)
        count[follows] += count[follows - 1]
        kept = np.append(~same[1:], True)[: order.size]
        number = np.empty(order.size, np.int64)
        number[order] = count
        code, start, end, window = (c[order][kept] for c in columns)
        return Revisions(window, start, end, code, count[kept]), number[self.count.size :]

    def numbered(self, answers: Answers, order: Ints, horizon: int) -> tuple[Revisions, Ints]:
        """Count windows that are reported several times, in ``order``. Also returns each report's number, from 0.

        Windows that end before ``horizon`` are then dropped.
        """
        once = self._by_table(answers, order)
        if once is not None:
            counted, number, earliest = once
            return counted if earliest >= horizon else counted.without(horizon), number
        size = self.count.size
        names = ("code", "start", "window", "end")
        columns = [np.concatenate([getattr(self, name), getattr(answers, name)]) for name in names]
        by = order_by(np.append(np.full(size, -1), order), *columns)
        columns = [column[by] for column in columns]
        new = changes(*columns)
        first = np.flatnonzero(new)
        known = by[first] < size  # the first entry of each window has the earlier count
        before = np.append(self.count, np.zeros(len(answers), np.int64))[by[first]]
        each = np.diff(np.append(first, by.size))
        number = np.empty(by.size, np.int64)
        number[by] = np.arange(by.size) + np.repeat(before - first - known, each)
        code, start, window, end = (column[first] for column in columns)
        found = Revisions(window, start, end, code, before + each - known)
        return found.without(horizon), number[size:]

    def _by_table(self, answers: Answers, order: Ints) -> tuple[Revisions, Ints, int] | None:
        """As :meth:`numbered`, for few windows that come in their order: nothing is sorted. None if they do not. No
        window is dropped; the third result is the end of the earliest one."""
        found = None if self._places is None else self._places.numbered(self.count, answers, order)
        if found is None:
            return None
        places, count, number, fresh = found
        if fresh.size:
            known, more = ((of.window, of.start, of.end, of.code) for of in (self, answers))
            pairs = zip(known, more, strict=True)
            window, start, end, code = (np.concatenate([one, other.take(fresh)]) for one, other in pairs)
            counted = Revisions(window, start, end, code, count)
        else:
            counted = but(self, count=count)
        counted.__dict__["_places"] = places
        return counted, number, min(places.heads[2, : places.windows].tolist(), default=FOREVER)

    @lazy
    def _places(self) -> _Places | None:
        """Where each window of a key is counted. None if there are too many windows."""
        found = _NOWHERE.numbered(none(), self, alike(0, self.count.size))
        return None if found is None else found[0]

    def but_for(self, which: Ints) -> Revisions:
        """All but these windows."""
        kept = np.ones(self.count.size, np.bool_)
        kept[which] = False
        return self if kept.all() else self.take(kept)

    def take(self, index: Mask | Ints) -> Revisions:
        return Revisions(self.window[index], self.start[index], self.end[index], self.code[index], self.count[index])


class _Places(NamedTuple):
    """Where windows are counted, if there are few: a row for each window, with a place in the counts for each key."""

    heads: Ints  # window, start and end of each row
    windows: int
    where: Codes  # places from 1; 0: none

    def numbered(
        self, count: Ints, answers: Answers | Revisions, order: Ints
    ) -> tuple[_Places, Ints, Ints, Ints] | None:
        """Count these windows once more. Returns the new places, all counts, how often each window was counted before,
        and which windows are new. None if there are too many windows, or if they do not come in their order."""
        size, rows, each = answers.code.size, self.windows, (answers.window, answers.start, answers.end)
        alone = size > 0 and all_alike(order) and all([all_alike(column) for column in each])
        new = np.array([column[:1] for column in each]) if alone else np.stack(each)
        runs = 1 if alone else int(np.count_nonzero(changes(*new)))
        codes = max(int(answers.code.max(initial=-1)) + 1, self.where.shape[1])
        codes += codes // 4 if codes > self.where.shape[1] else 0  # room for some new keys
        most = PLACES * (count.size + size + FEWEST_PLACES) // max(codes, 1)
        most = min(most, rows + runs, MOST_SOUGHT)
        if most < rows:
            return None
        heads, where = self.heads.copy(), np.zeros((most, codes), np.int32)
        where[:rows, : self.where.shape[1]] = self.where
        latest, (number, fresh, more) = np.full(count.size + size, -1), np.empty((3, size), np.int64)
        count = count.copy()
        code, order = read_only(answers.code), read_only(order[:1] if alone else order)
        found, windows = number_again(heads, rows, where, new, code, order, count, latest, number, fresh, more)
        if found < 0:
            return None
        if found:
            count = np.concatenate([count, more[:found]])
        return _Places(heads, int(windows), where[:windows]), count, number, fresh[:found]


_NOWHERE = _Places(np.empty((3, MOST_SOUGHT), np.int64), 0, np.empty((0, 0), np.int32))


def revise(
    store: Store, keys: KeyTable | None, revisions: Revisions, changing: Cells, horizon: int, until: int
) -> tuple[Store, Revisions, Answers, Ints]:
    """Add the cells of rows behind the watermark ``until``. Returns the windows that they change, with their marks.

    The mark is the revision for "updates" and 0 ('-') or 1 ('+') for "changes".
    """
    plan = store.plan
    before, current, _ = windows_changed(store, keys, changing, horizon, until)
    store = store.add(changing)
    if plan.spec.emit == "changes":
        mark = np.append(np.zeros(len(before), np.int64), np.ones(len(current), np.int64))
        return store, revisions, Answers.together([before, current]), mark
    revisions, number = revisions.bumped(current, among(current, before))
    return store, revisions, current, number


def windows_changed(
    store: Store, keys: KeyTable | None, changing: Cells, horizon: int, until: int
) -> tuple[Answers, Answers, Answers]:
    """The windows with ``horizon < end <= until`` that the cells ``changing`` change: as they were, as they are now,
    and what is new.

    Only windows between edges have a new part: the part of these cells, or the whole window if it did not exist before.
    (A landmark's window did not exist if no row came between its end and the edge before.)
    """
    plan = store.plan
    check_due(plan, (*store.runs, changing), horizon, until)
    old = store.of_codes(distinct(changing.code)).consolidated().table()
    new = merged(old, changing, plan.lanes, plan.gaps)
    was = [emit.time_answers(plan, old, keys, horizon, until)]
    now = [emit.time_answers(plan, new, keys, horizon, until)]
    hit = emit.time_answers(plan, news(plan, changing), keys, horizon, until, windows_of=new)
    was[0] = was[0].take(among(was[0], hit))
    now[0] = now[0].take(among(now[0], hit))
    new_part = Answers.together([hit.take(among(hit, was[0])), now[0].take(~among(now[0], was[0]))])
    for answers_was, answers_now in _sessions(plan, keys, old, new, changing, until):
        was.append(answers_was)
        now.append(answers_now)
    return Answers.together(was), Answers.together(now), new_part


def _sessions(
    plan: Plan, keys: KeyTable | None, old: Cells, new: Cells, changing: Cells, until: int
) -> list[tuple[Answers, Answers]]:
    """For each session window: the complete sessions that changed, and the complete sessions that they became."""
    found = []
    for session in plan.sessions:
        gap = plan.session_gaps[session.level]
        was, now, by = (runs(cells, keys, plan.chains_of(session, cells)) for cells in (old, new, changing))
        # a run of late rows lies within one new run, and so does every old run
        changed = np.zeros(now.first.size, np.bool_)
        changed[now.holding(by)] = True
        of_old = now.holding(was)
        gone = changed[of_old] & (was.end() + gap < until)
        back = changed & (now.end() + gap < until)
        found.append(
            (
                emit.session_answers(plan, was.chosen(gone), session.window, session.gap),
                emit.session_answers(plan, now.chosen(back), session.window, session.gap),
            )
        )
    return found
