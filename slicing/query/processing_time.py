"""Rows without a time column: each row gets the time of the clock at its push."""

from __future__ import annotations

import operator
import time
from collections.abc import Callable
from dataclasses import dataclass

from slicing.system.arguments import says_arguments
from slicing.windows.bounds import LIMIT


@dataclass(frozen=True, repr=False)
class ProcessingTime:
    """The time of a row is the clock (microseconds, UTC) at its push."""

    clock: Callable[[], int] | None = None

    def __repr__(self) -> str:
        return "sl.processing_time()"


@says_arguments
def processing_time(clock: Callable[[], int] | None = None) -> ProcessingTime:
    """As ``time=``: give each row the time of the clock at its push. The watermark is this clock, whatever the spec's
    ``watermark`` is. It moves with each push, also of a batch without rows. If the clock is set back, rows get its
    latest time until it has caught up.

    Parameters
    ----------
    clock
        A function that returns microseconds since 1970 (for tests); None: the clock of the system.

    Examples
    --------
    >>> spec = sl.Spec(sl.processing_time(lambda: 1_000_000), {"s": sl.tumbling("10s")}, {"n": sl.count()})
    >>> sl.Operator(spec).push(pa.table({"v": [1, 2]})).watermark.isoformat()
    '1970-01-01T00:00:01+00:00'
    """
    if clock is not None and not callable(clock):
        raise TypeError(f"clock must be a function that gives microseconds since 1970; got {clock!r}")
    return ProcessingTime(clock)


def microseconds(clock: Callable[[], int] | None) -> int:
    """The time in microseconds, by a user's clock or the clock of the system."""
    if clock is None:
        return time.time_ns() // 1000
    now = clock()
    rule = "clock must give whole microseconds since 1970, such as time.time_ns() // 1000"
    try:
        found = operator.index(now)
    except TypeError:
        raise TypeError(f"{rule}; it gave {now!r}") from None
    if not -LIMIT <= found <= LIMIT:
        raise ValueError(f"{rule}, between {-LIMIT} and {LIMIT}; it gave {now!r}")
    return found
