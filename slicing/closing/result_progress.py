"""How far results have come along their own times: no later result has an earlier time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slicing.cells.table import Cells
from slicing.closing import open_runs, run_marks
from slicing.closing.open_runs import Reports
from slicing.query.plan import Plan
from slicing.storage.row_panes import RowPanes
from slicing.windows.bounds import BEGIN, END
from slicing.windows.builtin import Cumulate, Fixed, Landmark, Session, Sliding, Tumbling
from slicing.windows.calendar import CalendarWindow
from slicing.windows.context_free import ContextFreeWindow
from slicing.windows.rows.last_rows import LastRows

# windows whose starts are known in advance
KNOWN_STARTS = (Tumbling, Sliding, Cumulate, Landmark, Fixed, CalendarWindow, Session)


def knows_ends(plan: Plan) -> bool:
    """Whether each window is emitted once the watermark passes its end. Others end at a row, and are emitted once a
    later row, or the end of the stream or of a quiet key, tells so."""
    return all(
        isinstance(window, ContextFreeWindow | Session | LastRows)
        or (name in plan.bound_rows and plan.bound_rows[name].closes_at_end)
        for name, window in plan.spec.windows.items()
    )


@dataclass(eq=False, repr=False)
class ResultProgress(Mapping[str, Any]):
    """No later result has an earlier ``window_start`` or ``window_end`` than these; None if that is unknown. The values
    are computed on request."""

    plan: Plan
    reached: int
    runs: Sequence[Cells]  # of sessions; they are never changed
    shown: Sequence[tuple[Reports, RowPanes]]  # reports of open sessions, which are taken back later
    filled: int = END  # up to here all keys have their empty windows, if any are asked for

    def __getitem__(self, column: str) -> Any:
        if column == "window_end":
            ends = [self.reached - self.plan.lateness, self.filled]
            for reports, at_marks in self.shown:
                ends += [open_runs.first_end(self.plan, reports), run_marks.first_end(self.plan, at_marks)]
            end = min(ends)
            return self.plan.measure.value(end) if knows_ends(self.plan) else None
        if column == "window_start":
            found = self._first_start()
            return None if found is None else self.plan.measure.value(found)
        raise KeyError(column)

    def __iter__(self) -> Iterator[str]:
        return iter(("window_start", "window_end"))

    def __len__(self) -> int:
        return 2

    def __repr__(self) -> str:
        return repr(dict(self))

    def __reduce__(self) -> tuple[type[dict[str, Any]], tuple[dict[str, Any]]]:
        return dict, (dict(self),)  # an output may go to another process, or to a file

    def _first_start(self) -> int | None:
        plan, h = self.plan, self.reached - self.plan.lateness
        if not all(isinstance(window, KNOWN_STARTS) for window in plan.spec.windows.values()):
            return None
        first = plan.edges.first_start(h)
        if self.filled != END:
            first = min(first, self.filled - max(plan.bounds[k].longest for k in plan.fill))
        if plan.session_gaps:  # open sessions, and sessions of rows to come
            open_since = [int(run.first.min()) for run in self.runs if len(run)]
            first = min([first, h - max(plan.session_gaps), *open_since])
        return None if first in (BEGIN, END) else first
