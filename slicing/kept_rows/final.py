"""Final rows that open windows still need, by key.

A row becomes final once the watermark (and the lateness) has passed it. Rows that become final after it are later. So
each batch of final rows is a run behind the other runs, and a row's rank among its key's rows never changes. How many
rows of a key were dropped tells which rows of the runs are still alive: dropping moves nothing. Dead rows are removed
when runs are merged, before there are more of them than living rows. Nothing is changed in place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from slicing.columns.order import none, ranges
from slicing.kept_rows.plain import PlainRows, joined
from slicing.kept_rows.remembered import grown, moved
from slicing.system.arrays import Ints
from slicing.system.replace import but
from slicing.windows.bounds import FOREVER
from slicing.windows.rows.row_table import RANK, RowTable

FEW_DEAD = 256  # this few dead rows do not justify a merge

Run = RowTable | PlainRows


@dataclass(frozen=True)
class FinalRows:
    """The runs of final rows. For each code, ``gone`` counts the rows that were dropped, and ``ranked`` the rows that
    became final. ``wakes`` is the time at which to look at the key even if it has no new row."""

    runs: tuple[Run, ...] = ()
    alive: int = 0
    gone: Ints = field(default_factory=none)
    ranked: Ints = field(default_factory=none)
    wakes: Ints = field(default_factory=none)

    def __len__(self) -> int:
        return self.alive

    @property
    def nbytes(self) -> int:
        return sum(run.nbytes for run in self.runs) + self.gone.nbytes + self.ranked.nbytes + self.wakes.nbytes

    def known(self, codes: int) -> FinalRows:
        """These rows, with room for ``codes`` codes."""
        if self.gone.size >= codes:
            return self
        room = max(codes, 2 * self.gone.size)
        gone, ranked = (grown(count, room) for count in (self.gone, self.ranked))
        return but(self, gone=gone, ranked=ranked, wakes=grown(self.wakes, room, FOREVER))

    def of(self, codes: Ints | None) -> list[Run]:
        """The living rows of some keys, run by run. ``codes`` ascend; None: all keys."""
        found: list[Run] = []
        for run in self.runs:
            if codes is None or run.of_one_key:
                found.append(run.alive(self.gone))
                continue
            if 4 * codes.size > len(run):
                wanted = np.zeros(self.gone.size, np.bool_)
                wanted[codes] = True
                chosen = np.flatnonzero(wanted[run.code])
            else:
                first, last = (np.searchsorted(run.codes, codes, side) for side in ("left", "right"))
                chosen = ranges(first, last - first)
            found.append(run.take(chosen[run.fact(RANK)[chosen] >= self.gone[run.code[chosen]]]))
        return [run for run in found if len(run)]

    def after(self, rows: Run, alive: int, fuse: Callable[[Run], Run] | None = None) -> FinalRows:
        """Add a run of living rows that come behind the other rows of their keys. ``alive``: how many rows are then
        alive. ``fuse`` makes fewer rows of them."""

        def fused(run: Run) -> Run:
            nonlocal alive
            if fuse is None:
                return run
            fewer = fuse(run)
            alive -= len(run) - len(fewer)
            return fewer

        runs, newest, living = list(self.runs), [rows] if len(rows) else [], len(rows)
        while runs and len(runs[-1]) < 2 * living:  # its dead rows count, too
            newest.insert(0, runs.pop().alive(self.gone))
            living += len(newest[0])
        if newest:
            runs.append(fused(by_code([run for run in newest if len(run)], rows)))
        if sum(map(len, runs)) > 2 * alive + FEW_DEAD:
            runs = [fused(by_code(but(self, runs=tuple(runs)).of(None), rows))]
        return but(self, runs=tuple([run for run in runs if len(run)]), alive=alive)

    def recoded(self, code: Ints) -> FinalRows:
        """Renumber codes: ``code[old]`` is the new code, -1 for a code that is dropped."""
        runs = [run.recoded(code) for run in self.of(None)]
        counts = moved(self.gone, code, 0), moved(self.ranked, code, 0), moved(self.wakes, code, FOREVER)
        runs = [run for run in runs if len(run)]
        return FinalRows(tuple(runs), sum(map(len, runs)), *counts)

    def beside(self, other: FinalRows) -> FinalRows:
        """Add the rows of other keys."""
        size = max(self.gone.size, other.gone.size)
        mine, theirs = self.known(size), other.known(size)
        gone, ranked = mine.gone[:size] + theirs.gone[:size], mine.ranked[:size] + theirs.ranked[:size]
        whole = but(mine, gone=gone, ranked=ranked, wakes=np.minimum(mine.wakes[:size], theirs.wakes[:size]))
        for run in other.of(None):
            whole = whole.after(run, whole.alive + other.alive)
        return but(whole, alive=self.alive + other.alive)


def by_code(runs: Sequence[Run], like: Run) -> Run:
    """Join runs, each of which is behind the runs before it, to one table sorted by code. It has cells if any run has
    cells."""
    if not runs:
        return like.take(slice(0, 0))
    if len(runs) == 1:
        return runs[0]
    plain = [run for run in runs if isinstance(run, PlainRows)]
    if len(plain) == len(runs):
        return joined(plain)
    return RowTable.of([run.as_cells() if isinstance(run, PlainRows) else run for run in runs])
