"""A row of a wrong clock moves the watermark ahead, and the rows after it are late. The operator warns once."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow.compute as pc

from slicing.lifecycle.state import State
from slicing.output import Output
from slicing.query.spec import Spec
from slicing.query.watermark import Bounded, Ordered
from slicing.reducing.batch import Rows
from slicing.system.warn import warn
from slicing.windows.bounds import BEGIN

FEWEST_ROWS = 10  # fewer rows say nothing, such as a single late row in its push


class Moved(NamedTuple):
    """A push that moved the watermark: its latest times, and the watermark before it."""

    newest: int
    other: int | None  # the latest time before the newest one
    before: int | None

    def without_newest(self, delay: int) -> int | None:
        """The watermark without the latest time."""
        reached = [] if self.other is None else [self.other - delay]
        return max([*reached, *([] if self.before is None else [self.before])], default=None)


class Watch(NamedTuple):
    """The push that moved the watermark last, and what has come since."""

    moved: Moved | None = None  # None: the watermark was given
    rows: int = 0
    late: int = 0  # rows that are late only because of the latest time of that push

    @staticmethod
    def of(spec: Spec) -> Watch | None:
        """None if no single row moves the watermark."""
        return Watch() if isinstance(spec.watermark, Bounded | Ordered) and isinstance(spec.time, str) else None

    def after(self, before: State, now: State, pushed: Rows | None, out: Output) -> Watch | None:
        """The watch after a push. Warns, and is None from then on, if the latest row of an earlier push has made most
        rows since then late."""
        stats, late = out.stats, self.late
        rows = self.rows + stats["rows"]
        if 2 * stats["late"] > stats["rows"] and self.moved is not None and now.progress.largest is not None:
            late += self._late_without(self.moved, now, out)
            if 2 * late > rows >= FEWEST_ROWS:
                value = now.plan.measure.value
                reached = None if before.watermark is None else value(before.watermark)
                ahead = "1000" if now.plan.measure.is_integer else "'1d'"
                warn(
                    f"one row of time {value(self.moved.newest)} moved the watermark to "
                    f"{reached}, and {late} of the {rows} rows pushed since are late for it (out.late has them). "
                    "If the clock of that row was wrong, have such rows set aside with watermark="
                    f"sl.bounded(delay, at_most_ahead={ahead}). A watermark never goes back: begin anew, or go on from "
                    "a snapshot"
                )
                return None
        if now.watermark != before.watermark and pushed is not None and pushed.time.size:
            return Watch(Moved(*pushed.latest(), before.watermark))
        return Watch(self.moved, rows, late)

    @staticmethod
    def _late_without(moved: Moved, now: State, out: Output) -> int:
        """How many late rows of a push would not be late without the latest time of the push that moved."""
        measure, time = now.plan.measure, now.plan.spec.time
        without = moved.without_newest(now.plan.delays.get("bounded's delay", 0))
        reason = out.late.column(out.late.num_columns - 1)
        times = out.late.column(time).filter(pc.equal(reason, "late"))  # Arrow cannot filter views
        return sum(int((measure.words(c) >= (BEGIN if without is None else without)).sum()) for c in times.chunks)
