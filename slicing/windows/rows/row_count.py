"""``rows``: windows of a number of rows, as a query asks for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from slicing.system.arguments import choice, says_arguments, yes_or_no
from slicing.windows.builtin import Window
from slicing.windows.decide import Context
from slicing.windows.rows.bound_row_count import BoundRowCount, KeyArrivals, KeyRanks, StreamArrivals, StreamRanks
from slicing.windows.rows.row_windows import ORDERS, Binding, RowWindow, whole_number


@dataclass(frozen=True, repr=False)
class RowCount(RowWindow, Window):
    _constructor: ClassVar[str] = "rows"
    context: ClassVar[Context] = "forward free"
    ranked: ClassVar[bool] = True
    n: int
    every: int
    order: str = "time"
    per_key: bool = True
    partial: bool = False

    def bind_rows(self, binding: Binding) -> BoundRowCount:
        """Bound as the window ranks rows. If rows arrive in order of time, it ranks by time."""
        by_arrival = self.by_arrival and (binding.added or not binding.arrives_in_order)
        if self.per_key or not binding.keyed:
            return (KeyArrivals if by_arrival else KeyRanks)(self, binding)
        return (StreamArrivals if by_arrival else StreamRanks)(self, binding)

    @property
    def fewest(self) -> int:
        """The fewest rows that make a window."""
        return self.n


@says_arguments
def rows(
    n: int, every: int | None = None, *, order: str = "time", per_key: bool = True, partial: bool = False
) -> RowCount:
    """Windows of ``n`` rows, one every ``every`` rows (default ``n``): the ranks ``[k*every, k*every + n)``.

    Rows are ranked by (time, sequence, arrival) or, with ``order="arrival"``, by arrival. Each key's rows are ranked
    alone. With ``per_key=False``, the rows of the whole stream are ranked together and each window is split by key.
    With ``partial=True``, windows that lack rows when the stream (or the key, with ``idle``) ends are also emitted.
    ``window_start`` and ``window_end`` are the earliest and the latest time of the window's rows.

    Parameters
    ----------
    n
        The number of rows in a window.
    every
        The number of rows between the starts of windows; None: ``n``.
    order
        How rows are ranked: ``"time"`` or ``"arrival"``.
    per_key
        False: rows of all keys are ranked together.
    partial
        Also emit windows that lack rows at the end.

    Examples
    --------
    >>> rows = pa.table({"t": [1, 2, 12, 15], "v": [1, 2, 3, 4]})
    >>> sl.aggregate(rows, sl.Spec("t", {"two": sl.rows(2)}, {"s": sl.sum("v")}))["s"].to_pylist()
    [3, 7]
    """
    n = whole_number(n, "rows' n")
    return RowCount(
        n,
        n if every is None else whole_number(every, "rows' every"),
        choice(order, "the order of rows", ORDERS),
        yes_or_no(per_key, "per_key"),
        yes_or_no(partial, "partial"),
    )
