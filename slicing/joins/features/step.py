"""The work of one push: keep rows, answer complete labels, evict events that no label reaches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from slicing.columns.dictionaries import coded
from slicing.columns.key_marks import KeyMarks
from slicing.columns.order import order_by
from slicing.joins.arrivals import Rows
from slicing.joins.features.answer import answered, is_reached
from slicing.joins.features.fused import fused
from slicing.joins.features.plan import FeaturePlan
from slicing.joins.keep import done_by_key
from slicing.joins.places import Places
from slicing.joins.progress import Marks
from slicing.joins.sides import NO_KEY, Done, Run, Side, not_done, run_of
from slicing.joins.slices import Slices
from slicing.joins.step import NO_MARKS, NOBODY, Task
from slicing.joins.within import LEFT, RIGHT
from slicing.system.arrays import MOST, Mask
from slicing.system.replace import but


class FeatureStep:
    """Does the tasks of a push; holds both new sides and the labels that are answered."""

    def __init__(
        self,
        plan: FeaturePlan,
        sides: Sequence[Side],
        marks: Marks,
        codes: int,
        waiting: Run,
        whole: bool = False,
        by_key: tuple[KeyMarks, KeyMarks] | None = None,
    ) -> None:
        self.plan, self.marks, self.codes = plan, marks, codes
        self._by_key = NO_MARKS if by_key is None else by_key
        self.labels, self.events = sides
        # labels with a null key, by (time, arrival); they wait until the events' columns are known
        self.keyless = but(waiting, code=np.full(waiting.name.size, -1, np.int32))
        self.answered = 0
        self._whole = whole
        self._leaving: list[Run] = []

    def work(self, tasks: Sequence[Task], ended: bool) -> None:
        """Keep the rows of all tasks, and answer the labels that are complete at the watermarks after the tasks."""
        for task in tasks:
            self.marks = self.marks if task.marks is None else task.marks
        until = self._complete(ended)
        for task in tasks:
            if task.rows is not None and task.side == RIGHT:
                self.events = self.events.added(self._run(task.rows))
            elif task.rows is not None:
                self._take(task.rows, until)
        self.labels, gone = self.labels.purged(until)
        self._leaving += gone
        if len(self._by_key[RIGHT]) and self.plan.known[RIGHT]:
            self.labels, gone = self.labels.purged_by(done_by_key(self.plan, LEFT, self._by_key[RIGHT], self.codes))
            self._leaving += gone
        if (until is not None or self.plan.known[RIGHT]) and self.keyless.name.size:
            self._leaving.append(self.keyless)
            self.keyless = NOBODY

    def let_go(self, ended: bool) -> None:
        """Evict events that no label reaches, neither a waiting one nor a later one; fuse old events into slices."""
        if ended:
            self.events = self.events.purged(MOST)[0].sliced(())
            return
        until = self.plan.within.done(RIGHT, self.marks.left)
        of_labels, done = self._by_key[LEFT], None
        if len(of_labels):
            done = done_by_key(self.plan, RIGHT, of_labels, self.codes)
        if until is not None or done is not None:
            slices = [part.where(self._still_reached(part, until, done)) for part in self.events.slices]
            rows = [self._still_reached(run, until, done) for run in self.events.runs]
            self.events = self.events.without(rows).sliced(slices)
        first = self._first()
        if self.plan.sliced and first is not None:
            self.events = fused(self.plan, self.events, first)

    def _first(self) -> int | None:
        """The smallest time of a label that waits or may still come; None: any time."""
        mark = self.marks.left
        return None if mark is None else min([mark, *(run.low for run in self.labels.runs)])

    def rows(self) -> pa.Table:
        """The answered labels, with their aggregates."""
        leaving = [gone for gone in self._leaving if gone.name.size]
        if not leaving:
            return self.plan.empty()
        gone = leaving[0]
        if len(leaving) > 1:
            gone = Run.of(leaving)
            gone = gone.take(order_by(gone.name, gone.time, gone.code.astype(np.int64)))
        self.answered = gone.name.size
        order = order_by(gone.name) if self._whole else order_by(gone.name, gone.time)
        found = answered(self.plan, gone, self.events, order)
        places = Places(gone.name.take(order) - self.labels.base)
        columns = [places.take(self.labels.table.column(name)) for name in self.plan.sides[LEFT].kept]
        for column, type in zip(found, self.plan.output.types[len(columns) :], strict=True):
            columns.append(coded(column, type) if pa.types.is_dictionary(type) else column)
        return pa.Table.from_arrays(columns, schema=self.plan.output)

    def _run(self, rows: Rows) -> Run:
        return run_of(rows.code, rows.time, rows.name, None, self.codes, rows.ascending)[0]

    def _complete(self, ended: bool) -> int | None:
        """Labels up to this time are answered now; None: no label is."""
        if ended or not self.plan.spec.wait:
            return MOST
        if not self.plan.known[RIGHT]:
            return None
        return self.plan.within.done(LEFT, self.marks.right)

    def _take(self, rows: Rows, until: int | None) -> None:
        """Keep labels, except those that are already complete: these are answered at once."""
        run = self._run(rows)
        if until is not None and len(run) and run.low <= until:
            run, gone = but(self.labels, gone=0).split(run, until)
            self._leaving.append(gone)
        self.labels = self.labels.added(run)
        if rows.keyless.size:
            code = np.full(rows.keyless.size, NO_KEY, np.int32)
            both = Run.of([self.keyless, Run(code, rows.keyless_time, rows.keyless)])
            self.keyless = both.take(order_by(both.name, both.time))

    def _still_reached(self, run: Run | Slices, until: int | None, done: Done | None) -> Mask | None:
        """Which events to keep: a waiting label reaches them, or a later label may. None: all.

        A later label may reach events after ``until`` that are not done by the mark of their key."""
        keep = not_done(run, until, done)
        if keep is None:
            return None
        passed = np.flatnonzero(~keep)
        earlier = run.take(passed)
        for labels in self.labels.runs:
            keep[passed[is_reached(self.plan, labels, earlier)]] = True
        return keep
