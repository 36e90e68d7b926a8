"""What a window needs: the decision trees of general stream slicing (Scotty, TODS 2021, figures 4 to 6).

Each tree is a function of a workload: whether the stream is declared in order, the kind of aggregates, and the kind of
window. ``explain`` prints the answers for a spec. This engine stores less or more than the trees say in these cases
(answers are the same):

* Nothing is removed from a slice: ranks are given to rows once the watermark has passed them.
* Rows that the watermark has passed are cut into slices if they alone decide the edges of all windows
  (``RowPlan.as_slices``), in any stream. Windows that rows of all keys end have their own axis (``RowPlan.on_axes``).
* Rows are kept although the trees do not ask for them: next to a window that needs rows; for windows that begin or end
  at nearly every row, that were added to a running stream, or that a late row may revise; for windows that count rows
  in order of arrival where that may differ from the order of time.
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
    commutative: bool  # all aggregates are commutative
    invertible: bool  # all aggregates are invertible
    context: Context  # what must be known to find the window's edges: nothing, rows before, rows after
    counts: bool = False  # the window is measured in rows


@dataclass(frozen=True)
class Decision:
    """Whether rows are stored beside partials, whether slices are split, and how a row is removed from a slice."""

    rows: bool
    splits: bool
    removal: Removal
    why: str


def decide(workload: Workload) -> Decision:
    rows, why = stores_rows(workload)
    return Decision(rows, splits(workload), removal(workload), why)


def stores_rows(workload: Workload) -> tuple[bool, str]:
    """Whether rows are stored, and the reason (figure 4)."""
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
    """Whether slices are split (figure 5)."""
    if workload.context in ("free", "session"):
        return False
    return not workload.ordered or workload.context == "forward aware"


def removal(workload: Workload) -> Removal:
    """How a row is removed from a slice (figure 6)."""
    if workload.ordered or not workload.counts:
        return "none"
    return "subtract" if workload.invertible else "recompute"
