"""Partners of rows in the runs of the other side: counted, listed and tested, or one of them chosen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from slicing.columns.order import distinct, order_by
from slicing.joins.sides import Run
from slicing.joins.within import Band, Windows
from slicing.kernels.band import claim, count_partners, fill_partners, fill_times, nearest, settle
from slicing.system.arrays import NONE, Bytes, Ints, Mask, Unsigned
from slicing.system.threads import parts, side_by_side

SHORT = 64  # up to so many partners of a row are sorted by insertion


@dataclass(frozen=True, eq=False)
class Hit:
    """A run, and where in it the partners of each row are."""

    run: Run
    first: Ints
    count: Ints


@dataclass(frozen=True, eq=False)
class Found:
    """The partners of rows, counted but not listed yet: ``total`` for each row; ``hits`` for each run."""

    hits: tuple[Hit, ...]
    total: Ints
    threads: int

    @property
    def pairs(self) -> int:
        return int(self.total.sum())

    def fill(self, base: int, first: int, last: int, origin: int = 0) -> tuple[Ints, Ints]:
        """The row (numbered from ``origin``) and the place of each partner, for rows ``first`` to ``last``, ordered by
        row, then by (time, name)."""
        total = self.total[first:last]
        ends = np.cumsum(total)
        size = int(ends[-1]) if ends.size else 0
        row, partner = np.empty(size, np.int64), np.empty(size, np.int64)
        at = ends - total
        mixed = not _are_in_order([hit.run for hit in self.hits])
        when = np.empty(size if mixed else 0, np.int64)
        for hit in self.hits:
            run, begin, count = hit.run, hit.first[first:last], hit.count[first:last]

            def fill(part: slice, run: Run = run, begin: Ints = begin, count: Ints = count) -> None:
                share = begin[part], count[part], at[part]
                fill_partners(np.int64(origin + first + part.start), *share, run.name, np.int64(base), row, partner)
                if mixed:
                    fill_times(*share, run.time, when)

            side_by_side(fill, parts(last - first, self.threads))
        if mixed and not settle(ends, when, partner, np.int64(SHORT)):
            order = order_by(partner, when, row)
            partner = partner.take(order)
        return row, partner

    def pieces(self, size: int) -> Iterator[tuple[int, int]]:
        """Ranges of rows with about ``size`` pairs each."""
        ends = np.cumsum(self.total)
        if not ends.size or ends[-1] <= size:
            yield 0, ends.size
            return
        cuts = distinct(np.searchsorted(ends, np.arange(size, int(ends[-1]) + size, size), "left") + 1)
        bounds = [0, *np.minimum(cuts, ends.size).tolist()]
        yield from ((a, b) for a, b in pairwise(sorted(set(bounds))) if a < b)

    def fitting(self, most: int) -> int:
        """How many rows, from the first on, have at most ``most`` pairs together; at least one row."""
        return max(1, int(np.searchsorted(np.cumsum(self.total), most, "right")))

    def claimed(self, base: int, flags: Bytes, taken: int) -> tuple[Ints, Ints]:
        """Each partner without the flag ``taken``, once, with the first row that has it. Sets the flag in ``flags``."""
        rows, partners, times = [], [], []
        for hit in self.hits:
            after = np.arange(len(hit.run) + 1)
            row, partner = np.empty((2, len(hit.run)), np.int64)
            n = claim(hit.first, hit.count, hit.run.name, np.int64(base), flags, taken, after, row, partner)
            rows.append(row[:n])
            partners.append(partner[:n])
            times.append(_times_of(hit.run, partner[:n] + base))
        row, partner, time = (np.concatenate(found) if found else NONE for found in (rows, partners, times))
        order = order_by(partner, time, row)
        return row.take(order), partner.take(order)


def _times_of(run: Run, names: Ints) -> Ints:
    order = np.argsort(run.name)
    return run.time[order[np.searchsorted(run.name, names, sorter=order)]] if names.size else NONE


def find(within: Band | Windows, side: int, rows: Run, place: Ints, runs: Sequence[Run], threads: int = 1) -> Found:
    """The partners of a side's rows, which are sorted like a run. ``place``: the position of each row in its batch."""
    total = np.zeros(len(rows), np.int64)
    hits: list[Hit] = []
    if not len(rows) or not runs:
        return Found((), total, threads)
    low, high, back, forth = within.reach(rows.time, side)
    least, most = int(low.min()) - back, int(high.max()) + forth
    for run in runs:
        if run.high < least or run.low > most:
            continue
        first, count = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)

        def counted(part: slice, run: Run = run, first: Ints = first, count: Ints = count) -> int:
            share = rows.code[part], low[part], high[part], np.int64(back), np.int64(forth), place[part]
            return int(count_partners(*share, run.code, run.time, first, count))

        if sum(side_by_side(counted, parts(len(rows), threads))):
            hits.append(Hit(run, first, count))
    if len(hits) == 1:
        return Found((hits[0],), hits[0].count, threads)
    for hit in hits:
        total += hit.count
    return Found(tuple(hits), total, threads)


def chosen(match: str, time: Ints, found: Found) -> Ints:
    """The name of the partner that ``match`` chooses for each row (last, first or nearest); -1 if there is none."""
    if len(found.hits) == 1:
        place, run = _chosen_in(match, time, found.hits[0]), found.hits[0].run
        return np.where(place >= 0, run.name.take(place, mode="clip"), -1)
    best_name = np.full(time.size, -1)
    best_time, best_sequence = np.zeros(time.size, np.int64), np.zeros(time.size, np.int64)
    for hit in found.hits:
        place = _chosen_in(match, time, hit)
        rows = np.flatnonzero(place >= 0)
        place = place[rows]
        name, when = hit.run.name[place], hit.run.time[place]
        sequence = np.zeros(rows.size, np.int64) if hit.run.sequence is None else hit.run.sequence[place]
        there = best_time[rows], best_sequence[rows], best_name[rows]
        better = (there[2] < 0) | _BETTER[match](time[rows], (when, sequence, name), there)
        rows = rows[better]
        best_name[rows], best_time[rows], best_sequence[rows] = name[better], when[better], sequence[better]
    return best_name


def _chosen_in(match: str, time: Ints, hit: Hit) -> Ints:
    if match == "nearest":
        place = np.empty(time.size, np.int64)
        nearest(time, hit.first, hit.count, hit.run.time, place)
        return place
    at = hit.first if match == "first" else hit.first + hit.count - 1
    return np.where(hit.count > 0, at, -1)


Key = tuple[Ints, Ints, Ints]  # time, sequence, name


def later(one: Key, other: Key) -> Mask:
    """Whether ``one`` is later, by time, then by sequence, then by name."""
    (t, s, n), (t2, s2, n2) = one, other
    return (t > t2) | ((t == t2) & ((s > s2) | ((s == s2) & (n > n2))))


def _nearer(time: Ints, one: Key, other: Key) -> Mask:
    """Whether ``one`` is nearer. If both are equally near, the earlier one wins; at equal times the last one."""
    far, far2 = _distance(time, one[0]), _distance(time, other[0])
    same = one[0] == other[0]
    return (far < far2) | ((far == far2) & ~same & (one[0] < other[0])) | (same & later(one, other))


def _distance(time: Ints, other: Ints) -> Unsigned:
    """The distance of two times as unsigned integers, so that it cannot overflow."""
    low, high = np.minimum(time, other), np.maximum(time, other)
    return high.view(np.uint64) - low.view(np.uint64)


_BETTER: dict[str, Callable[[Ints, Key, Key], Mask]] = {
    "last": lambda time, one, other: later(one, other),
    "first": lambda time, one, other: later(other, one),
    "nearest": _nearer,
}


def best_pairs(match: str, row: Ints, time: Ints, key: Key) -> Ints:
    """The place of the best pair of each row. For each pair: its row, the row's ``time``, its partner's ``key``."""
    when, sequence, name = key
    if match == "last":
        order = np.lexsort((~name, ~sequence, ~when, row))
    elif match == "first":
        order = np.lexsort((name, sequence, when, row))
    else:
        order = np.lexsort((~name, ~sequence, when, _distance(time, when), row))
    first = np.ones(order.size, np.bool_)
    ordered = row[order]
    first[1:] = ordered[1:] != ordered[:-1]
    return order[first]


def _are_in_order(runs: Sequence[Run]) -> bool:
    """Whether the runs, one after the other, are in order of (time, name)."""
    return all(a.high < b.low or (a.high == b.low and a.newest < b.oldest) for a, b in pairwise(runs))
