"""Postponed windows: a large flush spread over the following pushes (``Operator(spec, max_windows_per_push=n)``).

Windows that are due but not yet emitted are kept with the runs of cells at the time when they closed, which nothing
changes any more. Late rows cannot change a postponed window, and the store may drop its cells at once.
Each push emits its share: windows with the earliest ends first and, if windows with one end exceed a share, the next
codes of these. Only the cells of the share are read, so all shares cost what one flush costs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from slicing.cells.table import Cells
from slicing.closing.answers import Answers
from slicing.closing.fill import Filled
from slicing.columns.keys import KeyTable
from slicing.columns.order import distinct, ranges
from slicing.kernels.cells import code_ranges
from slicing.query.plan import Plan
from slicing.storage.store import Store
from slicing.system.arrays import Ints
from slicing.system.lazy import lazy
from slicing.windows.bounds import BEGIN

Answering = Callable[[Store, int, int, Filled], tuple[Answers, Filled]]

LEFT = 8  # a push stops looking for windows when less than this fraction (1/8) of its share is left


class _Due(NamedTuple):
    """Windows by their ends: the start of each, how many names share it, and at most how many cells its rows are in."""

    end: Ints
    start: Ints
    names: Ints
    cells: Ints

    def between(self, first: int, last: int) -> _Due:
        return _Due(*(column[first:last] for column in self))


@dataclass(frozen=True)
class Postponed:
    """The windows with ``after < end <= until`` of a store's cells, for codes from ``code`` on."""

    store: Store
    after: int
    until: int
    code: int = 0

    @lazy
    def due(self) -> _Due:
        plan, runs = self.store.plan, self.store.runs
        ends = np.concatenate([run.slice_ends for run in runs]) if runs else np.empty(0, np.int64)
        due = plan.edges.due(distinct(ends), self.after, self.until)
        cells = np.zeros(due.end.size, np.int64)
        for run in runs:
            cells += np.searchsorted(run.end, due.end, "right") - np.searchsorted(run.end, due.start, "right")
        return _Due(due.end, due.start, plan.shares[due.type], cells)

    @lazy
    def codes(self) -> Ints:
        """The codes that have cells."""
        held = np.zeros(1 + max((int(run.code.max()) for _, run in self._needed()), default=0), np.bool_)
        for _, run in self._needed():
            held[run.code] = True
        held[: self.code] = False
        return held.nonzero()[0]

    def rest(self) -> Postponed:
        """These postponed windows without cells that none of them needs."""
        return replace(self, store=self.part(None), code=0)

    def part(self, stop: int | None) -> Store:
        """The cells of codes before ``stop`` that its windows need."""
        runs = [run if stop is None and not self.code else self._of_codes(*at, stop) for at, run in self._needed()]
        return replace(self.store, runs=tuple(run for run in runs if len(run)))

    def recoded(self, code: Ints) -> Postponed:
        return replace(self, store=self.store.recoded(code))

    def _needed(self) -> Iterable[tuple[tuple[Cells, int, int], Cells]]:
        """For each run the first and last slice that its windows need, and the cells of these slices."""
        plan = self.store.plan
        whole = plan.fill or not plan.cells.a_cell_a_key  # then all cells are needed to find the windows
        low = BEGIN - 1 if whole else int(self.due.start.min(initial=self.until))
        for run in self.store.runs:
            ends, starts = run.slice_ends, run.slice_bounds()
            first = int(np.searchsorted(ends, low, "right"))
            last = ends.size if whole else int(np.searchsorted(ends, self.until, "right"))
            if first < last:
                yield (run, first, last), run.take(slice(int(starts[first]), int(starts[last])))

    def _of_codes(self, run: Cells, first: int, last: int, stop: int | None) -> Cells:
        starts = run.slice_bounds()[first : last + 1]
        lower, upper = np.empty((2, last - first), np.int64)
        beyond = np.iinfo(np.int64).max if stop is None else stop
        code_ranges(run.code, starts, np.int64(self.code), np.int64(beyond), lower, upper)
        count = upper - lower
        return run.take(ranges(lower, count))


def emitted(
    plan: Plan,
    waiting: tuple[Postponed, ...],
    keys: KeyTable | None,
    filled: Filled,
    most: int | None,
    answering: Answering,
) -> tuple[Answers, tuple[Postponed, ...], Filled]:
    """The oldest postponed windows, about ``most`` of them or all, and the windows that stay postponed.

    Windows of one key that end together are never split.
    """
    parts: list[Answers] = []
    room = most
    while waiting and (room is None or most is None or LEFT * room > most):
        of, store, rest = _share(plan, waiting[0], 1 if keys is None else len(keys), room)
        waiting = (*rest, *waiting[1:])
        if not len(store):
            continue
        answers, filled = answering(store, of.after, of.until, filled)
        parts.append(answers)
        room = None if room is None else room - len(answers)
    return Answers.all_of(plan, parts), waiting, filled


def _share(plan: Plan, whole: Postponed, keys: int, room: int | None) -> tuple[Postponed, Store, tuple[Postponed, ...]]:
    """About ``room`` windows with their cells, and the rest."""
    if room is None:
        return whole, whole.part(None) if whole.code else whole.store, ()
    rest: tuple[Postponed, ...] = ()
    some = whole.due.between(0, room + 1)  # each window is at least one row
    rows = np.cumsum(some.names * np.minimum(some.cells, keys))
    fits = not rows.size or rows[-1] <= room
    if not fits and plan.idle is None:  # all windows of a key that was idle are emitted at once
        at = int(np.searchsorted(some.end, some.end[np.searchsorted(rows, room, "right")]))
        fits = at > 0
        at = at or int(np.searchsorted(whole.due.end, some.end[0], "right"))  # all windows of the first end
        if at < whole.due.end.size:
            until = int(whole.due.end[at - 1])
            rest = (_knowing(replace(whole, after=until), due=whole.due.between(at, whole.due.end.size)),)
            whole = _knowing(replace(whole, until=until), due=whole.due.between(0, at))
    runs = len(plan.sessions) + len(plan.wholes)
    each = max(room // max(int(whole.due.names.sum()) + runs, 1), 1)  # keys a share; sessions may add some windows
    if (fits and not runs) or keys <= each or whole.codes.size <= each:
        return whole, whole.part(None), rest
    stop = int(whole.codes[each])
    left = _knowing(replace(whole, code=stop), due=whole.due, codes=whole.codes[each:])
    return whole, whole.part(stop), (left, *rest)


def _knowing(postponed: Postponed, **known: object) -> Postponed:
    """Set attributes that are known from the whole, so that they are not computed again."""
    postponed.__dict__.update(known)
    return postponed


def emitted_rows(waiting: pa.Table | None, more: pa.Table, most: int | None) -> tuple[pa.Table, pa.Table | None]:
    """For windows that may be reported several times: about ``most`` of the oldest rows or all, and the rows that wait.
    A retracted row and the row right behind it stay together."""
    rows = more if waiting is None else pa.concat_tables([waiting, more]) if more.num_rows else waiting
    if most is None or rows.num_rows <= most:
        return rows, None
    if "op" in rows.column_names and rows["op"][most - 1].as_py() == "-" and rows["op"][most].as_py() == "+":
        most += 1
    return rows.slice(0, most), rows.slice(most) if most < rows.num_rows else None


def held_beside(store: Store, waiting: Iterable[Postponed]) -> int:
    """How many bytes the cells of postponed windows take in addition to the store's: many cells are shared."""
    size: dict[int, int] = {}
    for run in (run for of in waiting for run in of.store.runs):
        size[run.owner] = max(size.get(run.owner, 0), run.nbytes)
    for run in store.runs:
        size[run.owner] = max(size.get(run.owner, 0) - run.nbytes, 0)
    return sum(size.values())
