"""What is kept for each window of a query, and why. Decided once, in planning; ``explain`` prints these objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

import pyarrow as pa

from slicing.aggregates.aggregate import BoundAggregate
from slicing.cells.lanes import Lane
from slicing.cells.list_kinds import ListKind
from slicing.query.spec import Spec
from slicing.query.watermark import Ordered
from slicing.windows.bounds import BEGIN
from slicing.windows.builtin import Session
from slicing.windows.decide import Context, Decision, Workload, decide
from slicing.windows.rows.bound_rows import BoundRows, OnAxis
from slicing.windows.rows.row_table import MOST_FLAGS
from slicing.windows.rows.row_windows import RowWindow


class Form(Enum):
    """The form in which rows are kept for a window."""

    PARTIALS = "as partials of the slices between edges"
    AXIS = "as slices of the whole stream, on an axis of their own, once they are final"
    SLICES = "as slices cut where windows of rows begin and end, once they are final"
    ROWS = "one by one, until no window needs them"


@dataclass(frozen=True)
class Kept:
    """What is kept for a window, and why."""

    decision: Decision  # the answer of the decision trees
    form: Form = Form.PARTIALS
    axis: OnAxis | None = None
    why: str = ""  # why rows are kept although the trees do not ask for them

    def __str__(self) -> str:
        if self.form in (Form.AXIS, Form.SLICES):
            return f"{self.decision.why}; once rows are final, only slices between where windows begin and end are kept"
        if self.form == Form.ROWS and not self.decision.rows:
            return f"{self.decision.why}; all the same its rows are kept until its windows close, {self.why}"
        return self.decision.why


def kept_for(
    spec: Spec,
    aggs: Mapping[str, BoundAggregate],
    lanes: Sequence[Lane],
    row_windows: Mapping[str, BoundRows],
    added: Mapping[str, int],
    flags: int,
) -> dict[str, Kept]:
    """What is kept for each window, by name. ``row_windows`` are the data-driven windows, which read ``flags`` flags of
    each row; ``added``: windows that were added to a running stream."""
    commutative = not any(isinstance(lane.kind, ListKind) and not lane.kind.fuse for lane in lanes)
    ordered, invertible = isinstance(spec.watermark, Ordered), _invertible(spec, aggs)
    found = {}
    for name, window in spec.windows.items():
        context: Context = "session" if isinstance(window, Session) else "free"
        if isinstance(window, RowWindow):
            context = window.context
        counts = isinstance(window, RowWindow) and window.ranked
        found[name] = Kept(decide(Workload(ordered, commutative, invertible, context, counts)))
    for name, bound in row_windows.items():
        free = bound.needs_rows is None and not (spec.revises or bound.notes or name in added)
        axis = bound.on_axis() if free and spec.idle is None else None
        if axis is not None:
            found[name] = replace(found[name], form=Form.AXIS, axis=axis)
    others = {name: bound for name, bound in row_windows.items() if found[name].axis is None}
    why = _why_rows(spec, others, flags)
    form = Form.SLICES if why is None else Form.ROWS
    return found | {name: replace(found[name], form=form, why=why or "") for name in others}


def _why_rows(spec: Spec, windows: Mapping[str, BoundRows], flags: int) -> str | None:
    """Why final rows are kept one by one; None if slices suffice (no revisions; final rows show all edges)."""
    if spec.revises:
        return "for a late row may revise them"
    other = next((name for name, bound in windows.items() if bound.needs_rows is not None), None)
    if other is not None:
        return f"for a window {other!r} {windows[other].needs_rows}"
    if flags > MOST_FLAGS:
        return f"for windows ask {flags} flags of a row, and a slice has room for {MOST_FLAGS}"
    alike = all(bound.by_key and bound.origin == BEGIN and not bound.notes for bound in windows.values())
    return None if alike else "for windows were added"


def _invertible(spec: Spec, aggs: Mapping[str, BoundAggregate]) -> bool:
    """Whether all aggregates allow that rows leaving a window are subtracted."""
    return all(
        part.user.evicts if part.user is not None else part.function in ("count", "sum") and _exact(aggs[name].type)
        for name, formula in spec.aggs.items()
        for part in formula.parts()
    )


def _exact(type: pa.DataType) -> bool:
    return type == pa.int64() or type == pa.uint64() or pa.types.is_decimal(type)
