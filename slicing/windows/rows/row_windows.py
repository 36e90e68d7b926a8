"""What data-driven window types share: a description (``RowWindow``) that is bound to a query as a ``BoundRows``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slicing.columns.expressions import column_or_derived
from slicing.system.arrays import NONE, Ints
from slicing.times.measure import Measure
from slicing.windows.bounds import FOREVER
from slicing.windows.decide import Context
from slicing.windows.edges import ranges_of
from slicing.windows.rows.bound_rows import BoundRows
from slicing.windows.rows.row_view import Found, View


class Binding(NamedTuple):
    """What a window type is bound to: its number, the time column, the places of its columns, and whether there are
    keys."""

    number: int
    measure: Measure
    flags: Mapping[tuple[str, str], int]  # by argument and column
    values: Mapping[str, int]
    types: Mapping[str, pa.DataType]
    keyed: bool
    since: int | None  # if added while the stream ran: the time from which its windows are complete
    revises: bool  # late rows may change windows that were emitted
    arrives_in_order: bool = False  # rows arrive in the order of (time, sequence, arrival)
    idle: int | None = None
    ranks: bool = True  # results show the ranks of windows
    slice_rows: int = 2  # slices replace rows if edges of counting windows are on average this many rows apart

    @property
    def added(self) -> bool:
        return self.since is not None

    @property
    def anew(self) -> int:
        """A key's rows at or after this time begin anew: rows from before the window was added are more than
        ``idle`` away."""
        return FOREVER if self.since is None or self.idle is None else self.since + self.idle


class RowWindow:
    """A data-driven window type; a spec with one keeps rows."""

    context: ClassVar[Context] = "forward aware"
    ranked: ClassVar[bool] = False  # its results have rank_start and rank_end
    spans: ClassVar[tuple[str, ...]] = ()
    flags: ClassVar[tuple[str, ...]] = ()  # its arguments that name boolean columns

    def flag_columns(self) -> tuple[str, ...]:
        """The boolean columns that it reads."""
        return tuple(getattr(self, name) for name in self.flags)

    def columns(self) -> tuple[str, ...]:
        """The columns whose values it sees."""
        return ()

    def bind_rows(self, binding: Binding) -> BoundRows:
        raise NotImplementedError

    @property
    def by_arrival(self) -> bool:
        return getattr(self, "order", "time") == "arrival"

    @property
    def breaks_ties(self) -> bool:
        """Whether its results depend on the order of rows of equal time."""
        return True

    @property
    def whole_stream(self) -> bool:
        """Whether windows are made of the rows of all keys and then split by key."""
        return not getattr(self, "per_key", True)


def by_group(view: View, value: Ints, low: Ints, high: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """Which windows have rows of which groups with ``low <= value < high``, and where; rows ascend by group and
    value."""
    windows = np.stack([low, low, np.arange(low.size)], axis=1)
    (which, first, last, _), _ = ranges_of(np.array([0, low.size]), windows, high, True, view.bounds, value)
    return which, view.group[first], first, last


def nothing() -> Found:
    return Found(None, NONE, NONE, NONE, NONE, NONE, NONE)


def whole_number(value: object, argument: str) -> int:
    if isinstance(value, bool | np.timedelta64) or not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"{argument} must be a whole number of rows, at least 1; got {value!r}")
    if value >= 1 << 62:  # ranks and their sums are int64
        raise ValueError(f"{argument} must be a whole number of rows, below 2**62; got {value!r}")
    return int(value)


ORDERS = ("time", "arrival")


def flag_column(name: object, argument: str) -> str:
    """A boolean column, or the column that an expression computes."""
    if isinstance(name, pc.Expression):
        return column_or_derived(name, argument)
    if not isinstance(name, str) or not name:
        raise TypeError(f"{argument} must be the name of a boolean column, or an expression; got {name!r}")
    return name
