"""The state of one side: index runs by (code, time, name), and the payload columns of its rows in order of arrival.

A *name* is a row's number in the stream of its side. Each run lies in one slice of time, so that rows which are done
leave as whole runs. Within a slice, runs are merged geometrically; the payload does not move when runs merge. Objects
are values: nothing that a failed push would have to undo is changed in place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from slicing.columns import arrow_io
from slicing.columns.dictionaries import unified
from slicing.columns.order import order_by, order_of_most, stable_order
from slicing.columns.taking import taken
from slicing.joins.slices import Coded, Slices
from slicing.kernels.band import keep_rows, merge_runs, order_codes
from slicing.system.arrays import NONE, Bytes, Codes, Ints, Mask
from slicing.system.lazy import lazy
from slicing.system.replace import but

MET, GONE, UNFIT = 1, 2, 4  # flags of a row: had a partner; has left early; fails `where` with any row
NO_KEY = -1  # the code of a row with a null key, which has no partner
MOST_RUNS = 64  # with more runs, slices become twice as long
MOST_SLICES, FEW_SLICES = 16, 4  # most slices that a large batch, and a small one, may lie in
SLICED = 256  # rows for each slice of a batch between these; smaller slices cost more calls than they save
SMALL, TINY = 16, 1 << 16  # a chunk below TINY rows and below a sixteenth of the kept rows is merged into the last one
FEW_ROWS = 1 << 12  # rows that are looked through in each step
SPARE = 1 << 12  # rows of the payload that may be dead, in addition to as many as are alive


@dataclass(frozen=True, eq=False)
class Run(Coded):
    """Rows of one side by (code, time, name), or by (code, time, sequence, name)."""

    name: Ints
    sequence: Ints | None = None
    slot: int = 0  # the slice of time of all rows

    @lazy
    def oldest(self) -> int:
        return int(self.name.min())

    @lazy
    def newest(self) -> int:
        return int(self.name.max())

    @property
    def nbytes(self) -> int:
        size = self.code.nbytes + self.time.nbytes + self.name.nbytes
        return size + (0 if self.sequence is None else self.sequence.nbytes)

    def take(self, rows: Ints, slot: int | None = None) -> Run:
        sequence = None if self.sequence is None else self.sequence.take(rows)
        slot = self.slot if slot is None else slot
        return Run(self.code.take(rows), self.time.take(rows), self.name.take(rows), sequence, slot)

    @staticmethod
    def of(runs: Sequence[Run]) -> Run:
        """The rows of several runs, one after the other, in the slot of the last run."""
        if not runs:
            empty = np.empty(0, np.int64)
            return Run(np.empty(0, np.int32), empty, empty)
        code, time, name = (np.concatenate([getattr(run, word) for run in runs]) for word in ("code", "time", "name"))
        ordered = [run.sequence for run in runs if run.sequence is not None]
        return Run(code, time, name, np.concatenate(ordered) if ordered else None, runs[-1].slot)


@dataclass(frozen=True, eq=False)
class Done:
    """For some codes: rows up to a time are done."""

    until: Ints
    some: Mask

    def rows(self, run: Run | Slices) -> Mask:
        done: Mask = self.some[run.code] & (run.time <= self.until[run.code])
        return done


def not_done(run: Run | Slices, until: int | None, done: Done | None) -> Mask | None:
    """Which rows are after ``until`` and not done by the mark of their code; None means all rows."""
    if done is None and (until is None or run.low > until):
        return None
    keep: Mask = np.ones(len(run), np.bool_) if until is None else run.time > until
    return keep if done is None else keep & ~done.rows(run)


@dataclass(frozen=True, eq=False)
class Side:
    """The rows of one side that may still find partners, and the payload they need."""

    runs: tuple[Run, ...] = ()  # by slot, then by arrival
    chunks: tuple[pa.RecordBatch, ...] = ()
    sizes: tuple[int, ...] = ()  # bytes of each chunk, which Arrow takes 60 us to compute
    base: int = 0  # the name of the first row of the payload
    next: int = 0  # the name of the next row
    flags: Bytes = None  # type: ignore[assignment]  # of each row of the payload
    gone: int = 0  # rows in the runs that have left early
    least: int = 0  # ticks of the shortest slice; 0: only one slice
    step: int = 0  # ticks of a slice at present
    slices: tuple[Slices, ...] = ()  # partial aggregates in place of rows; in order of arrival
    seen: int = 0  # rows that were left by the last look through all of them
    since: int = 0  # steps since then

    @staticmethod
    def fresh(step: int) -> Side:
        return Side(flags=np.empty(0, np.uint8), least=step, step=step)

    @property
    def held(self) -> int:
        return sum(map(len, self.runs)) - self.gone

    @property
    def nbytes(self) -> int:
        index = sum(run.nbytes for run in self.runs) + sum(part.nbytes for part in self.slices)
        return index + sum(self.sizes) + self.flags.nbytes

    @property
    def is_due(self) -> bool:
        """Whether a look through all rows is due: they became an eighth more, or each step since the last look pays for
        ``FEW_ROWS`` of them."""
        return self.held <= FEW_ROWS or 8 * (self.held - self.seen) + FEW_ROWS * self.since >= self.held

    def looked_through(self, were: bool) -> Side:
        """This side after a step, in which all rows were looked through or not."""
        return but(self, seen=self.held, since=0) if were else but(self, since=self.since + 1)

    def sliced(self, tables: Iterable[Slices]) -> Side:
        """This side with ``tables`` as its slices."""
        return but(self, slices=tuple([table for table in tables if len(table)]))

    def stored(self, chunks: tuple[pa.RecordBatch, ...]) -> Side:
        """This side with ``chunks`` as its payload."""
        return but(self, chunks=chunks, sizes=tuple(map(arrow_io.size_of, chunks)))

    # --- rows come --------------------------------------------------------------------------------------------------

    def appended(self, payload: pa.RecordBatch, count: int) -> Side:
        """This side with the payload of ``count`` more rows."""
        flags = np.zeros(self.flags.size + count, np.uint8)
        flags[: self.flags.size] = self.flags
        if not count or not payload.num_columns:
            return but(self, next=self.next + count, flags=flags)
        chunks, sizes = list(self.chunks), list(self.sizes)
        while chunks and SMALL * (chunks[-1].num_rows + payload.num_rows) < self.held and payload.num_rows < TINY:
            try:
                payload = arrow_io.together([chunks[-1], payload])  # taking rows from many small chunks is slow
            except arrow_io.TooManyValues:
                break
            chunks.pop()
            sizes.pop()
        chunks.append(payload)
        sizes.append(arrow_io.size_of(payload))
        return but(self, chunks=tuple(chunks), sizes=tuple(sizes), next=self.next + count, flags=flags)

    def added(self, run: Run) -> Side:
        """This side with one more run, cut into slices of time."""
        if not len(run):
            return self
        side = self if self.runs or not self.least else but(self, step=self.least)
        if side.step:
            most = max(FEW_SLICES, min(MOST_SLICES, len(run) // SLICED))  # with 2, a step might pass 64 bits
            while run.high // side.step - run.low // side.step >= most:
                side = side._coarser()
        runs = list(side.runs)
        for piece in _sliced(run, side.step):
            side._put(runs, piece)
        side = but(side, runs=tuple(_settled(runs)))
        while side.step and len(side.runs) > MOST_RUNS:
            side = side._coarser()
        return side

    def _put(self, runs: list[Run], run: Run) -> None:
        """Insert a run, merged with the runs of its slice that are less than twice as long."""
        at = len(runs)
        while at and runs[at - 1].slot > run.slot:
            at -= 1
        while at and runs[at - 1].slot == run.slot and len(runs[at - 1]) < 2 * len(run):
            run = merged(runs.pop(at - 1), run)
            at -= 1
        runs.insert(at, run)

    def _coarser(self) -> Side:
        step = 2 * self.step
        runs: list[Run] = []
        for run in self.runs:
            run = but(run, slot=run.low // step)
            while runs and runs[-1].slot == run.slot:
                run = merged(runs.pop(), run)  # runs of one slice are in order of arrival
            runs.append(run)
        return but(self, runs=tuple(runs), step=step)

    # --- rows go ----------------------------------------------------------------------------------------------------

    def purged(self, until: int | None) -> tuple[Side, list[Run]]:
        """This side without the rows up to a time, and these rows."""
        if until is None or not self.runs:
            return self, []
        kept, left, gone = [], [], self.gone
        for run in self.runs:
            if run.low > until:
                kept.append(run)
                continue
            rest, lost = self.split(run, until)
            gone -= len(run) - len(rest) - lost.name.size
            if len(rest):
                kept.append(rest)
            left.append(lost)
        return but(self, runs=tuple(kept), gone=gone), left

    def purged_by(self, over: Done) -> tuple[Side, list[Run]]:
        """This side without the rows that are done by the mark of their code, and these rows."""
        kept, left, lost = [], [], 0
        for run in self.runs:
            done = over.rows(run)
            if not done.any():
                kept.append(run)
                continue
            out = run.take(np.flatnonzero(done))
            rest = run.take(np.flatnonzero(~done))
            here = (self.flags[out.name - self.base] & GONE) == 0
            lost += len(out) - int(np.count_nonzero(here))
            out = out.take(np.flatnonzero(here))
            if len(rest):
                kept.append(rest)
            left.append(out)
        return but(self, runs=tuple(kept), gone=self.gone - lost), left

    def split(self, run: Run, until: int) -> tuple[Run, Run]:
        """The rows of a run after ``until``, and the other rows; both without rows that had left early."""
        if run.high <= until and not self.gone:
            return run.take(NONE), run
        gone = GONE if self.gone else 0
        if run.sequence is not None:
            alive = (self.flags[run.name - self.base] & gone) == 0
            late = run.time > until
            return run.take(np.flatnonzero(alive & late)), run.take(np.flatnonzero(alive & ~late))
        size = len(run)
        kept, lost = _room(size), _room(size)
        words = run.code, run.time, run.name
        n, m = keep_rows(*words, np.int64(until), self.flags, np.int64(self.base), gone, *kept, *lost)
        (code, time, name), (lost_code, lost_time, lost_name) = kept, lost
        rest = Run(code[:n], time[:n], name[:n], None, run.slot)
        if 2 * n < size:  # a copy frees the memory of the rows that have left
            rest = Run(code[:n].copy(), time[:n].copy(), name[:n].copy(), None, run.slot)
        return rest, Run(lost_code[:m], lost_time[:m], lost_name[:m])

    def without(self, keep: Sequence[Mask | None]) -> Side:
        """This side with only the rows of each run that its mask keeps; None keeps all rows."""
        pairs = zip(self.runs, keep, strict=True)
        runs = [run if mask is None or mask.all() else run.take(np.flatnonzero(mask)) for run, mask in pairs]
        return but(self, runs=tuple(run for run in runs if len(run)))

    def swept(self) -> Side:
        """This side without the rows that have left early, if these are a quarter or more."""
        if not self.gone or 4 * self.gone < sum(map(len, self.runs)):
            return self
        keep = [(self.flags[run.name - self.base] & GONE) == 0 for run in self.runs]
        return but(self.without(keep), gone=0)

    def freed(self, waiting: Sequence[Ints]) -> tuple[Side, list[Ints]]:
        """This side without the payload of rows that have left; ``waiting``: names of rows outside of runs to keep.

        Chunks at the front are dropped. If more than half of the remaining rows have left, rows are renumbered.
        """
        oldest = min(
            [run.oldest for run in self.runs] + [int(names.min()) for names in waiting if names.size] + [self.next]
        )
        side = self._let_go(oldest)
        needed = side.held + side.gone + sum(names.size for names in waiting)
        if side.next - side.base <= 2 * needed + SPARE:
            return side, list(waiting)
        alive = np.zeros(side.next - side.base, np.bool_)
        for names in [*(run.name for run in side.runs), *waiting]:
            alive[names - side.base] = True
        rank = np.cumsum(alive) - 1
        places = np.flatnonzero(alive)
        chunks = rows_at(side.chunks, places)
        runs = tuple(but(run, name=rank[run.name - side.base]) for run in side.runs)
        renamed = [rank[names - side.base] for names in waiting]
        side = but(side, runs=runs, base=0, next=places.size, flags=side.flags[places])
        return side.stored(chunks), renamed

    def _let_go(self, oldest: int) -> Side:
        if oldest == self.next:
            return but(self, chunks=(), sizes=(), base=self.next, flags=self.flags[:0])
        chunks, base = list(self.chunks), self.base
        if not chunks:  # there are only flags
            return but(self, base=oldest, flags=self.flags[oldest - base :])
        while chunks and base + chunks[0].num_rows <= oldest:
            base += chunks.pop(0).num_rows
        if base == self.base:
            return self
        sizes = self.sizes[len(self.sizes) - len(chunks) :]
        return but(self, chunks=tuple(chunks), sizes=sizes, base=base, flags=self.flags[base - self.base :])

    def flagged(self, places: Ints, flag: int) -> Side:
        """This side with a flag set at these places of the payload."""
        if not places.size:
            return self
        flags = self.flags.copy()
        flags[places] |= np.uint8(flag)
        return but(self, flags=flags)

    # --- columns ----------------------------------------------------------------------------------------------------

    @lazy
    def table(self) -> pa.Table:
        """The payload as one table."""
        return unified(pa.Table.from_batches(self.chunks))


def rows_at(chunks: Sequence[pa.RecordBatch], places: Ints) -> tuple[pa.RecordBatch, ...]:
    """Some rows of a payload, by ascending places: in one chunk, unless dictionaries of its chunks do not make one."""
    found, first = [], 0
    for chunk in chunks:
        begin, end = places.searchsorted([first, first + chunk.num_rows])
        if end > begin:
            found.append(taken(chunk, places[begin:end] - first))
        first += chunk.num_rows
    try:
        return (arrow_io.together(found),) if found else ()
    except arrow_io.TooManyValues:
        return tuple(found)


def run_of(code: Codes, time: Ints, name: Ints, sequence: Ints | None, codes: int, ascending: bool) -> tuple[Run, Ints]:
    """Rows in order of arrival as a run, and the original position of each row of the run."""
    if sequence is not None:
        order = order_by(sequence, time, code.astype(np.int64))
        return Run(code.take(order), time.take(order), name.take(order), sequence.take(order)), order
    by_time = None if ascending else order_of_most(time)[0]
    if codes == 1:
        order = np.arange(code.size) if by_time is None else by_time
        return Run(code, time if by_time is None else time.take(order), name.take(order)), order
    ordered = code if by_time is None else code.take(by_time)
    if codes > 4 * code.size + 1024:
        order = stable_order(ordered)
        ordered = ordered.take(order)
    else:
        counts = np.bincount(ordered, minlength=codes)
        order = np.empty(code.size, np.int64)
        order_codes(ordered, np.cumsum(counts) - counts, order)
        ordered = np.repeat(np.arange(codes, dtype=np.int32), counts)
    order = order if by_time is None else by_time.take(order)
    first = int(name[0]) if name.size else 0
    consecutive = name.size and int(name[-1]) - first == name.size - 1
    return Run(ordered, time.take(order), order + first if consecutive else name.take(order)), order


def _room(size: int) -> tuple[Codes, Ints, Ints]:
    return np.empty(size, np.int32), np.empty(size, np.int64), np.empty(size, np.int64)


def merged(one: Run, other: Run) -> Run:
    """Two runs as one. Of rows with equal key and time, rows of the first run come first."""
    if one.sequence is not None:
        return together([one, other])
    code, time, name = _room(len(one) + len(other))
    merge_runs(one.code, one.time, one.name, other.code, other.time, other.name, code, time, name)
    return Run(code, time, name, None, other.slot)


def together(runs: Sequence[Run]) -> Run:
    """Several runs as one, in any order of arrival."""
    if len(runs) == 1:
        return runs[0]
    run = Run.of(runs)
    sequence = [] if run.sequence is None else [run.sequence]
    return run.take(order_by(run.name, *sequence, run.time, run.code.astype(np.int64)))


def _sliced(run: Run, step: int) -> Iterable[Run]:
    """The rows of each slice of time."""
    if not step:
        return [run]
    first, last = run.low // step, run.high // step
    if first == last:
        return [but(run, slot=first)]
    slots = run.time // step - first
    pieces = ((slot, np.flatnonzero(slots == slot)) for slot in range(last - first + 1))
    return [run.take(rows, first + slot) for slot, rows in pieces if rows.size]


def _settled(runs: list[Run]) -> list[Run]:
    """Merge the runs of one slice that gets few new rows; a push does this for one slice only, to stay short."""
    for at in range(len(runs) - 2, 0, -1):
        one, other = runs[at - 1], runs[at]
        if one.slot == other.slot < runs[-1].slot and 8 * len(other) >= len(one):
            return [*runs[: at - 1], merged(one, other), *runs[at + 1 :]]
    return runs
