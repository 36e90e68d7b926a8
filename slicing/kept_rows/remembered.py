"""What outlives the kept rows: counts of arrived rows, contexts of users' windows, the last time of each key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from slicing.columns.order import begins, none
from slicing.kernels.counting import count_before
from slicing.query.plan import Plan
from slicing.system.arrays import Codes, Ints, Mask
from slicing.system.replace import but
from slicing.windows.bounds import BEGIN
from slicing.windows.rows.bound_rows import BoundRows
from slicing.windows.rows.row_view import Context, View

_ONE_KEY: Codes = np.empty(0, np.int32)
Contexts = Mapping[int, Mapping[int, Context]]
Notes = Mapping[int, Ints]  # window -> what it has noted of each code, or of the whole stream


# --- counts of rows as they arrive ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Arrived:
    """How many rows have come in time, and how many of each key (if a window needs it)."""

    rows: int = 0
    of_key: Ints = field(default_factory=none)

    def counted(self, code: Codes | None, rows: int, codes: int) -> tuple[Arrived, Ints]:
        """Count so many rows of these keys (None: one key). Also returns for each row how many rows of its key came
        before."""
        of_key, before = grown(self.of_key, codes).copy(), np.empty(rows, np.int64)
        count_before(_ONE_KEY if code is None else code, none(), of_key, before)
        return but(self, of_key=of_key), before

    def recoded(self, code: Ints) -> Arrived:
        return but(self, of_key=moved(self.of_key, code, 0))

    def beside(self, other: Arrived) -> Arrived:
        size = max(self.of_key.size, other.of_key.size)
        return Arrived(max(self.rows, other.rows), grown(self.of_key, size) + grown(other.of_key, size))


# --- keys that go quiet -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Quiet:
    """What is known of keys that end after ``idle`` without rows. ``last``: the time of each key's last row, even if it
    was too late for these windows (BEGIN: the key has ended). ``began``: how many rows it had when it began anew."""

    last: Ints = field(default_factory=none)
    began: Ints = field(default_factory=none)

    def known(self, codes: int) -> Quiet:
        return self if self.last.size >= codes else Quiet(grown(self.last, codes, BEGIN), grown(self.began, codes))

    def heard(self, code: Ints, time: Ints) -> Quiet:
        last = self.last.copy()
        np.maximum.at(last, code, time)
        return but(self, last=last)

    def over(self, idle: int, until: int) -> Ints:
        """The keys that end before ``until``."""
        return np.flatnonzero((self.last > BEGIN) & (self.last < until - idle))

    def anew(self, idle: int, code: Ints, rank: Ints, since: Ints, time: Ints, ranked: Ints) -> Mask:
        """Which new rows (or slices, from a first to a last time) begin anew after a time of quiet. A row is new if at
        least ``ranked`` rows of its key came before it."""
        quiet, before = self.known(ranked.size), np.append(BEGIN, time[:-1])
        first = rank == ranked[code]
        before[first] = quiet.last[code[first]]
        return (since > before + idle) & (rank >= ranked[code])

    def recoded(self, code: Ints) -> Quiet:
        return Quiet(moved(self.last, code, BEGIN), moved(self.began, code, 0))

    def beside(self, other: Quiet) -> Quiet:
        size = max(self.last.size, other.last.size)
        mine, theirs = self.known(size), other.known(size)
        return Quiet(np.maximum(mine.last, theirs.last), mine.began + theirs.began)


def grown(count: Ints, size: int, value: int = 0) -> Ints:
    """Extend an array by code to at least ``size`` codes. New codes get ``value``."""
    return count if count.size >= size else np.append(count, np.full(size - count.size, value))


def moved(count: Ints, code: Ints, none: int) -> Ints:
    """Renumber by codes: ``code[old]`` is the new code, -1 for a code that is dropped."""
    new = code[: count.size]
    out = np.full(int(new.max(initial=-1)) + 1, none, np.int64)
    out[new[new >= 0]] = count[: new.size][new >= 0]
    return out


# --- windows that see rows from some time on --------------------------------------------------------------------------


class Seen(NamedTuple):
    """What a window is shown of a view, and where these rows and groups are in it (None: it is the view itself)."""

    view: View
    rows: Ints | None
    group: Ints | None

    @staticmethod
    def by(window: BoundRows, view: View, notes: Notes, bases: Notes) -> Seen:
        """What a window is shown. A window that was added while the stream ran sees the rows since then, with its notes
        of rows that were dropped."""
        if window.origin == BEGIN:
            return Seen(_with_notes(window, view, notes, bases), None, None)
        rows = np.flatnonzero(view.time >= window.origin)
        group = view.group[rows]
        first = begins(group)
        groups = group[first]
        shown = but(
            view,
            rows=view.rows.take(rows),
            bounds=np.append(first, rows.size),
            base=view.base[groups],
            goes_on=view.goes_on[groups],
            over=view.over[groups],
            of_key=view.of_key[groups],
            memo={},
        )
        return Seen(_with_notes(window, shown, notes, bases), rows, groups)

    def lower(self, cut: Ints, positions: Ints) -> Ints:
        """For each group the lower of ``cut`` and the position from which this window needs rows. ``positions`` are in
        what the window is shown."""
        if self.rows is None or self.group is None:
            return np.minimum(cut, positions)
        inside = positions < self.view.last
        cut = cut.copy()
        cut[self.group[inside]] = np.minimum(cut[self.group[inside]], self.rows[positions[inside]])
        return cut


def _with_notes(window: BoundRows, view: View, notes: Notes, bases: Notes) -> View:
    def of_groups(notes: Notes) -> Ints:
        known = grown(notes.get(window.number, none()), int(view.code.max(initial=0)) + 1 if window.by_key else 1)
        return np.where(view.goes_on, known[view.code], 0) if window.by_key else np.repeat(known, view.first.size)

    if not window.notes and not window.by_arrival:
        return view
    noted = of_groups(notes)
    return but(view, base=of_groups(bases) if window.by_arrival else noted, noted=noted, memo={})


def noted(window: BoundRows, view: View, known: Ints, note: Ints) -> Ints:
    """Update what a window has noted of each group. If a key has several groups, the last one counts."""
    if not window.by_key:
        return note[:1]
    known = np.array(grown(known, int(view.code.max(initial=0)) + 1))
    known[view.code] = np.where(view.over, 0, note)
    return known


def notes_recoded(notes: Notes, code: Ints, plan: Plan) -> Notes:
    """Renumber by codes: ``code[old]`` is the new code, -1 for a code that is dropped."""
    by_key = {window.number for window in plan.rows.windows if window.by_key}
    return {n: moved(known, code, 0) if n in by_key else known for n, known in notes.items()}


def highest_of(one: Notes, other: Notes, value: int = 0) -> dict[int, Ints]:
    """Join what is known of different keys, by code. ``value`` means that nothing is known of a code."""
    found = {}
    for n in sorted(one.keys() | other.keys()):
        a, b = (known.get(n, none()) for known in (one, other))
        size = max(a.size, b.size)
        found[n] = np.maximum(grown(a, size, value), grown(b, size, value))
    return found


def recoded(contexts: Contexts, code: Ints) -> Contexts:
    """Renumber by codes: ``code[old]`` is the new code, -1 for a code that is dropped."""
    return {n: {int(code[c]): known for c, known in of.items() if code[c] >= 0} for n, of in contexts.items()}


def beside(one: Contexts, other: Contexts) -> Contexts:
    """Join the contexts of different keys."""
    return {n: {**one.get(n, {}), **other.get(n, {})} for n in sorted(one.keys() | other.keys())}


def without(contexts: Contexts, codes: Ints) -> Contexts:
    """Drop the contexts of some keys."""
    if not codes.size or not any(contexts.values()):
        return contexts
    gone = set(codes.tolist())
    return {n: {c: known for c, known in of.items() if c not in gone} for n, of in contexts.items()}
