"""Refuses more windows than can be emitted, before any of them is made and before anything has changed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slicing.cells.table import Cells
from slicing.columns.order import distinct
from slicing.query.plan import Plan

MOST_ROWS = (1 << 31) - 1  # rows of a result: the column of window names needs at least as many bytes, its maximum
MOST_EMPTY = 1 << 28  # empty windows at once: some 10 GB


def check_due(plan: Plan, runs: Sequence[Cells], after: int, until: int) -> None:
    """Refuse to close more windows with ``after < end <= until`` than a result can have rows."""
    overlap, per_tick, longest = plan.most_windows
    if sum(map(len, runs)) * overlap <= MOST_ROWS:
        return
    runs = [run for run in runs if len(run)]
    low, high = min(int(run.slice_ends[0]) for run in runs), max(int(run.slice_ends[-1]) for run in runs)
    if (min(until, high + longest) - max(after, low)) * per_tick <= MOST_ROWS:
        return
    ends = distinct(np.concatenate([run.slice_ends for run in runs]))
    counts = [bound.count_due(ends, after, until) for bound in plan.edges.bounds]
    if sum(counts) <= MOST_ROWS:
        return
    type = int(np.argmax(counts))
    name = plan.names[plan.timed[plan.types_of.tolist().index(type)]]
    raise ValueError(
        f"windows[{name!r}], {plan.spec.windows[name]!r}: {counts[type]:,} of its windows are complete and have rows, "
        f"as a row is in {plan.edges.bounds[type].overlap:,} of them; a push can emit at most {MOST_ROWS:,}. A "
        "larger every makes fewer; so do smaller steps of the watermark"
    )


def out_of_memory(error: MemoryError) -> MemoryError:
    """The error for windows that exceed the memory, which is found when they are listed."""
    return MemoryError(
        f"the windows that close now need more memory than there is ({error}): a larger every makes fewer of them, and "
        "smaller steps of the watermark, or sl.Operator(max_windows_per_push=), spread them over several calls before "
        "the flush, which closes all that are left"
    )


def check_filled(name: str, windows: int) -> None:
    """Refuse to fill too many empty windows."""
    if windows > MOST_EMPTY:
        raise ValueError(
            f"windows[{name!r}] has fill=True, and there are {windows:,} windows between the times of these rows and "
            f"of those before; at most {MOST_EMPTY:,} can be filled at once: leave out rows whose times are wrong"
        )
