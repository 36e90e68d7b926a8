"""Kept rows: what is remembered of them between pushes. A push looks only at keys whose rows became final.

Rows wait as they came (``slicing.kept_rows.waiting``) until the watermark has passed them. Then they are sorted by key
and put behind their keys' earlier rows (``slicing.kept_rows.final``). Only such rows are shown to windows
(``slicing.kept_rows.look``). So a push costs its own rows and the rows that become final, not all kept rows. If answers
may be revised, windows are emitted earlier: their rows are shown while they still wait. Windows of the whole stream are
answered from slices of their own (``slicing.kept_rows.of_stream``). If they need single rows, they are shown the rows
of all keys.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from slicing.cells.ranked import ranks_used, reranked
from slicing.kept_rows import of_stream, remembered, waiting
from slicing.kept_rows.final import FinalRows, Run
from slicing.kept_rows.of_stream import Stream
from slicing.kept_rows.plain import PlainRows
from slicing.kept_rows.remembered import Arrived, Contexts, Notes, Quiet
from slicing.query.plan import Plan
from slicing.reducing.batch import Rows
from slicing.system.arrays import NONE, Ints, Mask
from slicing.system.replace import but
from slicing.windows.bounds import BEGIN, FOREVER
from slicing.windows.rows.row_table import OF_ALL, OF_KEY, RANK, SINCE, RowTable

_NO_ROWS, _NONE_ARRIVED, _NONE_QUIET = FinalRows(), Arrived(), Quiet()


@dataclass(frozen=True)
class KeyRows:
    """The kept rows of an operator, and what outlives them. Never changed in place: a failed push leaves nothing to
    undo."""

    plan: Plan
    waiting: tuple[Rows, ...] = ()
    final: FinalRows = _NO_ROWS
    arrived: Arrived = _NONE_ARRIVED
    quiet: Quiet = _NONE_QUIET  # only in plans with ``idle``
    placed: int = 0  # how many rows of the whole stream are final
    settled: int = BEGIN  # rows before this time are final
    contexts: Contexts = field(default_factory=dict)  # what users' windows remember
    notes: Notes = field(default_factory=dict)  # what other windows remember
    bases: Notes = field(default_factory=dict)  # of windows by arrival: how many rows had come when they were added
    streams: tuple[Stream, ...] = ()  # slices of the whole stream, by axis; none before its first final row

    def __len__(self) -> int:
        return sum(map(len, self.waiting)) + len(self.final) + sum(len(s.store) for s in self.streams)

    @property
    def nbytes(self) -> int:
        counts = self.arrived.of_key.nbytes + self.quiet.last.nbytes + self.quiet.began.nbytes
        streams = sum(stream.nbytes for stream in self.streams)
        return self.final.nbytes + waiting.nbytes(self.waiting) + counts + streams

    @property
    def values(self) -> int:
        """About the largest number of a column's values that can occur."""
        cells = sum(run.weight for run in self.final.runs) + sum(stream.store.values for stream in self.streams)
        return cells + sum(map(len, self.waiting))

    def add(self, rows: Rows, late: bool = False) -> KeyRows:
        """Add a batch's rows as a run. Of ``late`` rows only the times are used: their keys are not quiet."""
        if not len(rows):
            return self
        if late:
            return but(self, quiet=self.quiet.known(rows.codes).heard(rows.each_code().astype(np.int64), rows.time))
        arrived, stamps = self.arrived, dict[int, Ints]()
        if OF_ALL in self.plan.rows.stamps:
            stamps[OF_ALL] = arrived.rows + np.arange(len(rows))
        if OF_KEY in self.plan.rows.stamps:
            arrived, stamps[OF_KEY] = arrived.counted(rows.code, len(rows), rows.codes)
        arrived = but(arrived, rows=arrived.rows + len(rows))
        if stamps:
            rows = but(rows, stamps=stamps)
        return but(self, waiting=waiting.added(self.waiting, rows), arrived=arrived)

    def earliest(self) -> int:
        """No window that is still open ends before this; FOREVER if no final row is kept."""
        since = [int(run.fact(SINCE).min()) for run in self.final.of(None)]
        return min([*since, *(stream.latest for stream in self.streams if len(stream.store))], default=FOREVER)

    def steps(self, until: int) -> list[int]:
        """Times at which to look on the way, so that not too many rows are sorted by key and shown at once."""
        plan = self.plan
        if plan.rows.as_slices or plan.idle is not None or not (plan.rows.by_key and plan.rows.windows):
            return []
        return waiting.steps(self.waiting, until, len(self.final), plan.policy.step_rows)

    def uses(self, codes: int) -> Mask:
        """Which codes of keys are still needed."""
        used = np.zeros(codes, np.bool_)
        for run in self.waiting:
            if run.code is not None:
                used[run.code] = True
        for living in self.final.of(None):
            used[living.codes] = True
        for cells in (run for stream in self.streams for run in stream.store.runs):
            used[cells.code] = True
        if RANK in self.plan.rows.ranked_by:
            ranked = self.final.ranked[:codes]
            used[: ranked.size] |= ranked != remembered.grown(self.quiet.began, ranked.size)[: ranked.size]
        for marked in (self.quiet.last[:codes] > BEGIN, self.arrived.of_key[:codes] > 0):
            used[: marked.size] |= marked
        for contexts in self.contexts.values():
            used[list(contexts)] = True
        for window in self.plan.rows.windows:
            if window.notes and window.by_key:
                known = self.notes.get(window.number, NONE)[:codes]
                used[: known.size] |= known != 0
        return used

    def recoded(self, code: Ints) -> KeyRows:
        """Renumber codes: ``code[old]`` is the new code, -1 for a code that is dropped."""
        return but(
            self,
            waiting=waiting.recoded(self.waiting, code),
            final=self.final.recoded(code),
            arrived=self.arrived.recoded(code),
            quiet=self.quiet.recoded(code),
            contexts=remembered.recoded(self.contexts, code),
            notes=remembered.notes_recoded(self.notes, code, self.plan),
            bases=remembered.notes_recoded(self.bases, code, self.plan),
            streams=tuple(stream.recoded(code) for stream in self.streams),
        )

    def beside(self, other: KeyRows) -> KeyRows:
        """Add the rows of other keys, which have the same codes and ranks."""
        runs = self.waiting
        for rows in other.waiting:
            runs = waiting.added(runs, rows)
        return but(
            self,
            waiting=runs,
            final=self.final.beside(other.final),
            arrived=self.arrived.beside(other.arrived),
            quiet=self.quiet.beside(other.quiet),
            placed=max(self.placed, other.placed),
            settled=max(self.settled, other.settled),
            contexts=remembered.beside(self.contexts, other.contexts),
            notes=remembered.highest_of(self.notes, other.notes),
            bases=remembered.highest_of(self.bases, other.bases),
            streams=of_stream.beside(self.streams, other.streams),
        )

    def reranked(self, column: str, rank: Ints) -> KeyRows:
        """Renumber the ranks of a column's values, as in the slice store."""
        runs = (
            run.reranked(column, rank)
            if isinstance(run, PlainRows)
            else but(run, cells=reranked(self.plan.lanes, run.cells, column, rank, self.plan.arrival))
            for run in self.final.runs
        )
        final = but(self.final, runs=tuple(runs))
        streams = tuple(but(s, store=s.store.reranked(column, rank)) for s in self.streams)
        return but(self, waiting=waiting.reranked(self.waiting, column, rank), final=final, streams=streams)

    def replanned(self, plan: Plan, runs: tuple[Run, ...], contexts: Contexts, notes: Notes, bases: Notes) -> KeyRows:
        """The rows for a plan with one window more or less. ``runs``: the final rows for that plan."""
        final = self.final
        wakes = np.where(final.gone < final.ranked, BEGIN, FOREVER)  # a new window looks at all keys with rows
        arrived = self.arrived if OF_KEY in plan.rows.stamps else but(self.arrived, of_key=NONE)
        return but(
            self,
            plan=plan,
            waiting=waiting.replanned(self.waiting, plan, plan.rows.stamps),
            final=but(final, runs=runs, wakes=wakes),
            arrived=arrived,
            contexts=contexts,
            notes=notes,
            bases=bases,
        )

    def ranks_used(self, column: str, size: int) -> Ints:
        """The ranks of a column's values that any row holds."""
        used = np.zeros(size, np.bool_)
        cells = [run.cells for run in self.final.runs if isinstance(run, RowTable)]
        cells += [run for stream in self.streams for run in stream.store.runs]
        used[ranks_used(self.plan.lanes, cells, column, size)] = True
        for run in (*self.waiting, *(run.rows for run in self.final.runs if isinstance(run, PlainRows))):
            used[run.ranks[column] if size else slice(0)] = True
        return np.flatnonzero(used)
