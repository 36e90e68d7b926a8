"""What a window asks for: the decision trees of general stream slicing (Scotty, TODS 2021, figures 4 to 6).

Each tree is a function of a workload: whether the stream is declared in order, what the aggregates are, and what the
window is. ``explain`` tells the answers for a spec. Some things differ here, and never in the answers. Nothing is ever
removed from a slice: ranks are given once the watermark has passed a row. Rows it has passed are cut into slices
wherever they alone tell the edges of all windows (``RowPlan.as_slices``), whatever the order of the stream, and so are
those of windows that rows of all keys end, on an axis of their own (``RowPlan.on_axes``). And they are kept where
the trees need not know of it: beside a window that needs rows, for windows that begin or end at nearly every row, that
were added to a running stream, that a late row may revise, or that count rows as they come where that may be another
order than that of time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Context = Literal["free", "forward free", "forward aware", "session"]
Removal = Literal["none", "subtract", "recompute"]


@dataclass(frozen=True)
class Workload:
    """One window of a spec with its aggregates."""

    ordered: bool  # the stream is declared to be in order
    commutative: bool  # all aggregates are
    invertible: bool  # all aggregates are
    context: Context  # what must be known to tell the window's edges: nothing, rows before, rows after
    counts: bool = False  # its measure is a count of rows


@dataclass(frozen=True)
class Decision:
    """Whether rows are stored beside partial aggregates, whether slices are split, how a row is removed from one."""

    rows: bool
    splits: bool
    removal: Removal
    why: str


def decide(workload: Workload) -> Decision:
    rows, why = stores_rows(workload)
    return Decision(rows, splits(workload), removal(workload), why)


def stores_rows(workload: Workload) -> tuple[bool, str]:
    """Figure 4, and the reason."""
    if workload.ordered:
        if workload.context == "forward aware":
            return True, "later rows tell its edges, so any span of time may have to be aggregated from rows"
        return False, "the stream is in order and its edges are known when a row comes"
    if not workload.commutative:
        return True, "an aggregate depends on the order of rows, and a row that comes late changes it"
    if workload.context == "session":
        return False, "a late row extends or joins sessions, whose aggregates merge"
    if workload.context != "free":
        return True, "a row that comes late can move its edges" + (", as it counts rows" if workload.counts else "")
    if workload.counts:
        return True, "a row that comes late shifts the count of all rows after it"
    return False, "its edges are known without data, and late rows are added to their slice"


def splits(workload: Workload) -> bool:
    """Figure 5."""
    if workload.context in ("free", "session"):
        return False
    return not workload.ordered or workload.context == "forward aware"


def removal(workload: Workload) -> Removal:
    """Figure 6."""
    if workload.ordered or not workload.counts:
        return "none"
    return "subtract" if workload.invertible else "recompute"
