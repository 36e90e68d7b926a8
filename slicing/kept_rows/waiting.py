"""Rows that the watermark has not passed: as they came, in runs sorted by (time, sequence, arrival).

Nothing is computed from such a row until it is final: a run is the columns of a batch in another order. Runs are merged
geometrically, so that each row moves rarely. Nothing is changed in place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from slicing.columns.order import order_by, order_of_most
from slicing.columns.types import decoded, storable
from slicing.query.plan import Plan
from slicing.reducing.batch import Rows
from slicing.system.arrays import Ints
from slicing.system.replace import but
from slicing.windows.rows.row_table import UNCOUNTED

TINY = 16  # older runs with less than a sixteenth of the rows do not justify moving the rows behind them


def added(runs: Sequence[Rows], rows: Rows) -> tuple[Rows, ...]:
    """Add a batch's rows as a run."""
    older, total = list(runs), len(rows)
    last = [_bare(rows)]
    while older and len(older[-1]) < 2 * total:
        last.insert(0, older.pop())
        total += len(last[0])
    if are_in_order(last) and TINY * (total - len(rows)) < total:
        return (*older, *last)
    return (*older, in_order(joined(last)))


def taken(runs: Sequence[Rows], until: int) -> tuple[list[Rows], tuple[Rows, ...]]:
    """The rows before a time, by run, and the other rows."""
    before, rest = [], []
    for run in runs:
        at = int(np.searchsorted(run.time, until))
        if at:
            before.append(run if at == len(run) else run.part(slice(0, at)))
        if at == 0:
            rest.append(run)
        elif at < len(run):
            left = run.part(slice(at, len(run)))
            rest.append(left.detached() if 2 * len(left) < len(run) else left)
    return before, tuple(rest)


def steps(runs: Sequence[Rows], until: int, older: int, step: int) -> list[int]:
    """Times before ``until`` with about ``step`` rows from each to the next, if there are more rows.

    If windows still need ``older`` rows, an additional first time is near: after it windows need only rows of the batch
    itself, and no older row is moved.
    """
    before = [int(np.searchsorted(run.time, until)) for run in runs]
    rows = sum(before)
    if rows < max(step // 4, 1):
        return []
    most = int(np.argmax(before))
    size, near = before[most], 2 * (older + rows - before[most])
    count = rows // step
    at = [size * k // count for k in range(1, count)]
    if 0 < near < size // 4:
        at.append(near)
    return sorted(set(runs[most].time[at].tolist()))


def are_in_order(runs: Sequence[Rows]) -> bool:
    """Whether the runs, one after the other, are in order."""
    if any(run.plan.spec.sequence is not None for run in runs):
        return False
    ends = all(a.time[-1] <= b.time[0] for a, b in pairwise(runs))
    return ends and all(run.span[2] for run in runs)


def apart(runs: Sequence[Rows]) -> list[Rows]:
    """Join runs in turn where needed, so that no run begins at the time at which the run before it ends."""
    found = [runs[0]]
    for run in runs[1:]:
        latest = found[-1].time[-1]
        alike = int(np.searchsorted(run.time, latest, "right"))
        if alike:
            before = found.pop()
            at = int(np.searchsorted(before.time, latest))
            both = joined([before.part(slice(at, len(before))), run.part(slice(0, alike))])
            found += [before.part(slice(0, at)), both] if at else [both]
        if alike < len(run):
            found.append(run.part(slice(alike, len(run))) if alike else run)
    return found


def joined(runs: Sequence[Rows]) -> Rows:
    """Join runs in the given order."""
    if len(runs) == 1:
        return runs[0]
    first, batch, arrival = runs[0], runs[-1].batch, _in_turn(runs)
    renumbered = any(run.renumbered for run in runs)
    if first.code is None and batch is not None and arrival is not None and isinstance(batch.arrival, int):
        at = arrival - batch.arrival
        if at >= 0 and not renumbered:  # rows of one batch: nothing needs to be moved
            return batch.part(slice(at, at + sum(map(len, runs))))
    return but(
        first,
        columns={name: pa.concat_arrays([run.columns[name] for run in runs]) for name in first.columns},
        time=np.concatenate([run.time for run in runs]),
        code=None if first.code is None else np.concatenate([run.code for run in runs if run.code is not None]),
        codes=max(run.codes for run in runs),
        arrival=_arrivals(runs) if arrival is None else arrival,
        renumbered=renumbered or (arrival is None and not first.plan.knows_rows),
        ranks={name: np.concatenate([run.ranks[name] for run in runs]) for name in first.ranks},
        stamps={number: np.concatenate([run.stamps[number] for run in runs]) for number in first.stamps},
        no_nulls=frozenset.intersection(*(run.no_nulls for run in runs)),
    )


def _in_turn(runs: Sequence[Rows]) -> int | None:
    """The arrival of the first row, if the rows arrived one after the other; otherwise None."""
    arrivals = [run.arrival for run in runs if isinstance(run.arrival, int)]
    lengths = [len(run) for run in runs]
    in_turn = len(arrivals) == len(runs)
    in_turn = in_turn and all(b == a + n for (a, b), n in zip(pairwise(arrivals), lengths, strict=False))
    return arrivals[0] if in_turn else None


def _arrivals(runs: Sequence[Rows]) -> int | Ints:
    """The arrivals of rows that are joined. Where only their order counts, as if they were the last rows so far."""
    if runs[0].plan.knows_rows:
        return np.concatenate([run.arrivals() for run in runs])
    latest = runs[-1].arrival
    after = latest + len(runs[-1]) if isinstance(latest, int) else int(latest.max()) + 1
    return after - sum(map(len, runs))


def in_order(rows: Rows) -> Rows:
    """Sort rows by time, sequence and arrival. The rows are one run or a few runs in order of arrival."""
    if rows.plan.spec.sequence is not None:
        return rows.take(order_by(rows.arrivals(), rows.sequence(), rows.time))
    if rows.span[2]:
        return rows
    order, time = order_of_most(rows.time)
    # where only the order of arrivals counts, rows of one time keep it
    return rows.take(order, time, None if rows.plan.knows_rows else rows.first_arrival())


def _bare(rows: Rows) -> Rows:
    """The rows with only the columns that are needed when they are final."""
    columns = {}
    for name in rows.plan.row_columns:
        column = rows.columns[name]
        columns[name] = column.cast(decoded(column.type)) if pa.types.is_dictionary(column.type) else column
    bare = but(rows, columns=columns, threads=1)
    if "span" in rows.__dict__:
        bare.__dict__["span"] = rows.span
    return bare


def nbytes(runs: Iterable[Rows]) -> int:
    total = 0
    for run in runs:
        total += (
            run.time.nbytes + sum(c.nbytes for c in run.columns.values()) + sum(r.nbytes for r in run.ranks.values())
        )
        total += sum(stamp.nbytes for stamp in run.stamps.values())
        total += 0 if run.code is None else run.code.nbytes
        total += 0 if isinstance(run.arrival, int) else run.arrival.nbytes
    return total


def recoded(runs: Iterable[Rows], code: Ints) -> tuple[Rows, ...]:
    """Renumber codes. Rows whose code becomes -1 are dropped."""
    found = []
    for run in runs:
        if run.code is None:
            found.append(run)
            continue
        new = code[run.code].astype(np.int32)
        kept = but(run, code=new, codes=int(new.max(initial=-1)) + 1)
        kept = kept if (new >= 0).all() else kept.take(np.flatnonzero(new >= 0))
        if len(kept):
            found.append(kept)
    return tuple(found)


def reranked(runs: Iterable[Rows], column: str, rank: Ints) -> tuple[Rows, ...]:
    """Renumber the ranks of a column's values."""
    if not rank.size:  # all are null
        return tuple(runs)
    return tuple(but(run, ranks=dict(run.ranks) | {column: rank[run.ranks[column]]}) for run in runs)


def replanned(runs: Iterable[Rows], plan: Plan, stamps: Sequence[int]) -> tuple[Rows, ...]:
    """Waiting rows for another plan. Columns that the earlier plan did not read are null."""
    found = []
    for run in runs:
        size = len(run)
        nulls = {name: pa.nulls(size, decoded(storable(plan.types[name]))) for name in plan.row_columns}
        columns = {name: run.columns.get(name, nulls[name]) for name in plan.row_columns}
        ranks = {name: run.ranks.get(name, np.zeros(size, np.int64)) for name in plan.ranked}
        known_stamps = {n: run.stamps.get(n, np.full(size, UNCOUNTED)) for n in stamps}
        found.append(but(run, plan=plan, columns=columns, ranks=ranks, stamps=known_stamps, no_nulls=frozenset()))
    return tuple(found)
