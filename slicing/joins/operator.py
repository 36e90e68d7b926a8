"""The join operator: push rows of either side, advance time, flush, snapshot.

A push judges its rows by the watermarks before it, encodes them, joins them with what is kept of the other side, moves
the watermarks and lets go what these have passed. All state is one value that a push replaces at its end: a push that
fails leaves the operator as it was.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slicing.closing.output import Stats
from slicing.columns.sources import one_batch
from slicing.joins import snapshot
from slicing.joins.arrivals import Rows, Timed, encoded, judged, late_rows, none_late, payload, timed, unfit
from slicing.joins.output import JoinOutput
from slicing.joins.plan import JoinPlan, SidePlan
from slicing.joins.progress import Marks, later, reached
from slicing.joins.sides import UNFIT
from slicing.joins.spec import JoinSpec
from slicing.joins.state import JoinState, Marked, clipped, forgotten, freed, replanned
from slicing.joins.step import Step, Task
from slicing.joins.within import LEFT, RIGHT
from slicing.query.watermark import Seen
from slicing.system.heap import keep_freed_memory
from slicing.times.measure import plain_moment

Ints = npt.NDArray[np.int64]
Own = tuple[int | None, int | None]

FORGET = 1 << 12  # keys that are kept although they have no rows, beside three times as many as have some

keep_freed_memory()


class JoinOperator:
    """A join of two streams, in one process.

    ``push_left``, ``push_right`` and ``push`` take anything with the Arrow C interface; the first push of a side fixes
    the types of its columns. Each push, ``advance`` and ``flush`` gives a :class:`JoinOutput`; one that fails leaves
    the operator as it was.

    Parameters
    ----------
    spec : JoinSpec
        The join.
    max_rows_per_push : int, optional
        How many pairs a push may give, about: rows with more wait (``stats.pending``), and come with later pushes or
        with ``advance()``. The pairs of one row are never split. ``flush`` gives everything.
    threads : int
        Threads that share the rows of large pushes.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import slicing as sl
    >>> spec = sl.JoinSpec(on=["user"], time="t", within=(0, 10))
    >>> op = sl.JoinOperator(spec)
    >>> out = op.push_left(pa.table({"user": ["ann"], "t": [100], "ad": ["shoes"]}))
    >>> op.push_right(pa.table({"user": ["ann", "ann"], "t": [103, 111], "click": [1, 2]})).rows.to_pylist()
    [{'user': 'ann', 't': 100, 'ad': 'shoes', 't_right': 103, 'click': 1}]
    """

    def __init__(self, spec: JoinSpec, *, max_rows_per_push: int | None = None, threads: int = 1) -> None:
        if not isinstance(spec, JoinSpec):
            raise TypeError(f"JoinOperator takes a sl.JoinSpec; got {type(spec).__name__}")
        self.spec = spec
        self._most = None
        if max_rows_per_push is not None:
            self._most = _at_least_one(max_rows_per_push, "max_rows_per_push", ", or None")
        self._threads = _at_least_one(threads, "threads")
        self._advanced: Marked = ((), ())  # before the side's first rows
        self._ended = False
        self._state: JoinState | None = None
        if spec.schemas is not None:
            self._state = JoinState.fresh(JoinPlan.of(spec, *spec.schemas))

    def __repr__(self) -> str:
        return f"<sl.JoinOperator of {self.spec!r}>"

    # --- the flow ---------------------------------------------------------------------------------------------------

    def push_left(self, data: object) -> JoinOutput:
        """Take rows of the left side; give what they complete.

        Parameters
        ----------
        data : table
            Anything with the Arrow C interface. Rows may be kept where they lie: write nothing into that memory.

        Returns
        -------
        JoinOutput
            The pairs that these rows make with rows that came before, and rows without a partner that are known to
            have none.
        """
        return self._push({LEFT: one_batch(data)})

    def push_right(self, data: object) -> JoinOutput:
        """Take rows of the right side; give what they complete (as :meth:`push_left`)."""
        return self._push({RIGHT: one_batch(data)})

    def push(self, left: object, right: object) -> JoinOutput:
        """Take rows of both sides, all judged by the watermarks before the push; give what they complete."""
        return self._push({LEFT: one_batch(left), RIGHT: one_batch(right)})

    def advance(self, left: object = None, right: object = None) -> JoinOutput:
        """Say that no row of a side before its watermark will come; watermarks never go back.

        Without arguments rows that wait (see ``max_rows_per_push``) are joined.
        """
        self._check_open()
        given = {side: mark for side, mark in ((LEFT, left), (RIGHT, right)) if mark is not None}
        state = self._state
        for side, mark in given.items():
            if state is None or not state.plan.known[side]:
                given[side] = plain_moment(mark)
        if state is None:
            self._advanced = _with_marks(self._advanced, given)
            return self._nothing()
        own = list(state.own)
        pending: dict[int, object] = {}
        for side, mark in given.items():
            if state.plan.known[side]:
                own[side] = later(own[side], _advanced(state.plan.sides[side], mark))
            else:
                pending[side] = mark
        state = replace(state, own=(own[LEFT], own[RIGHT]))
        advanced = _with_marks(self._advanced, pending)
        out = self._worked(replace(state, tasks=(*state.tasks, Task(LEFT, None, state.judge()))), _NO_ROWS, {})
        self._advanced = advanced
        return out

    def flush(self) -> JoinOutput:
        """End of both streams: give everything that is still to come."""
        self._check_open()
        if self._state is None:
            self._ended = True
            return self._nothing()
        out = self._worked(self._state, _NO_ROWS, {}, flush=True)
        self._ended = True
        return out

    def whole(self, left: pa.RecordBatch, right: pa.RecordBatch) -> pa.Table:
        """All rows of two tables, in the order of :func:`join`."""
        self._ended = True
        state = JoinState.fresh(JoinPlan.of(self.spec, left.schema, right.schema), whole=True)
        found = {}
        for side, batch in ((RIGHT, right), (LEFT, left)):
            state, found[side] = self._stored(state, side, timed(state.plan, state.plan.sides[side], batch))
        step = Step(state.plan, state.sides, Marks(), state.codes, None, self._threads, whole=True)
        plain = self.spec.match == "last" and self.spec.where is None and self.spec.sequence is None
        if plain and all(rows.ascending for rows in found.values()):
            step.match_in_order(found[LEFT], found[RIGHT])
        else:
            step.work([Task(RIGHT, found[RIGHT]), Task(LEFT, found[LEFT], Marks(), (False, True))])
            step.flush()
        return step.rows()

    def _stored(self, state: JoinState, side: int, arrived: Timed) -> tuple[JoinState, Rows]:
        """With the columns of rows in time, and these encoded."""
        plan, sides = state.plan, list(state.sides)
        first = sides[side].next
        rows = encoded(plan, plan.sides[side], state.keys, arrived, first, self._threads)
        new = sides[side].appended(payload(plan.sides[side], arrived.batch), arrived.time.size)
        sides[side] = new.flagged(unfit(plan, side, first, arrived.batch) - new.base, UNFIT)
        return replace(state, sides=(sides[LEFT], sides[RIGHT])), rows

    def _push(self, given: dict[int, pa.RecordBatch]) -> JoinOutput:
        self._check_open()
        before = self._state
        planned = self._planned(before, {side: batch.schema for side, batch in given.items()})
        keys = planned.keys
        known = 0 if keys is None else len(keys)
        try:
            return self._pushed(planned, given)
        except BaseException as error:
            # keys change in place: an interrupt may have come between their slots and their number
            refused = isinstance(error, ValueError | TypeError | OverflowError)
            if keys is not None and before is not None and before.keys is keys and (len(keys) > known or not refused):
                self._state = replace(before, keys=keys.compact(np.arange(known)))
            raise

    def _pushed(self, state: JoinState, given: dict[int, pa.RecordBatch]) -> JoinOutput:
        plan, marks = state.plan, state.judge()
        arrived = {side: timed(plan, plan.sides[side], batch) for side, batch in given.items()}
        counts, late = dict(_NO_ROWS), {}
        progress, own, tasks = list(state.progress), list(state.own), list(state.tasks)
        for side, batch in arrived.items():
            side_plan = plan.sides[side]
            in_time, positions = judged(side_plan, batch, marks[side])
            late[side] = late_rows(batch, positions)
            state, rows = self._stored(state, side, in_time)
            tasks.append(Task(side, rows))
            if batch.time.size:
                progress[side] = side_plan.policy.observe(progress[side], _seen(side_plan, batch))
                reached_now = side_plan.policy.reached(progress[side], side_plan.policy.delays(side_plan.measure))
                own[side] = clipped(later(own[side], reached_now))
            counts[_NAMES[side]] = batch.given.num_rows
            counts[f"late_{_NAMES[side]}"] = positions.size
            counts["null_time"] += batch.null_time.size
        state = replace(state, progress=(progress[LEFT], progress[RIGHT]), own=(own[LEFT], own[RIGHT]))
        tasks[-1] = replace(tasks[-1], marks=state.judge())
        return self._worked(replace(state, tasks=tuple(tasks)), counts, late)

    def _worked(
        self, state: JoinState, counts: dict[str, int], late: dict[int, pa.Table], flush: bool = False
    ) -> JoinOutput:
        """Do the tasks, and commit what comes of them."""
        most = None if flush else self._most
        step = Step(state.plan, state.sides, state.marks, state.codes, most, self._threads)
        step.show(state.waiting)
        tasks = step.work(state.tasks)
        if flush:
            step.flush()
        rows = step.rows()
        left, right, tasks = freed(step.sides, tasks, step.waiting)
        waiting = step.waiting[LEFT], step.waiting[RIGHT]
        state = replace(state, sides=(left, right), marks=step.marks, tasks=tasks, waiting=waiting)
        state = forgotten(state)
        held = {"held": state.held, "pending": state.pending, "bytes": state.nbytes}
        stats = Stats(counts | {"joined": step.joined} | held)
        late_left, late_right = (late.get(side.side, none_late(_schema(side))) for side in state.plan.sides)
        mark = reached(state.plan, state.marks)
        out = JoinOutput(rows, late_left, late_right, stats, None if mark is None else state.plan.measure.value(mark))
        self._state = state  # last: an interrupt before it leaves the operator as it was
        return out

    # --- snapshots --------------------------------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """The whole state, versioned and checksummed: ``restore`` goes on where it stands."""
        return snapshot.write(self.spec, self._state, self._advanced, self._ended)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickled and copied as a snapshot: both go on from here, each by itself."""
        restore = partial(JoinOperator.restore, max_rows_per_push=self._most, threads=self._threads)
        return restore, (self.spec, self.snapshot())

    @staticmethod
    def restore(spec: JoinSpec, blob: bytes, *, max_rows_per_push: int | None = None, threads: int = 1) -> JoinOperator:
        """The operator that wrote the snapshot; refuses one of another spec, another format, or a damaged one."""
        operator = JoinOperator(spec, max_rows_per_push=max_rows_per_push, threads=threads)
        state, operator._advanced, operator._ended = snapshot.read(spec, blob)
        if state is not None:
            operator._state = state
        return operator

    # --- its parts --------------------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._ended:
            raise RuntimeError("the operator was flushed, which ends its streams; build a new JoinOperator to go on")

    def _nothing(self) -> JoinOutput:
        empty = pa.table({})
        return JoinOutput(
            empty, empty, empty, Stats(_NO_ROWS | {"joined": 0, "held": 0, "pending": 0, "bytes": 0}), None
        )

    def _planned(self, state: JoinState | None, schemas: dict[int, pa.Schema]) -> JoinState:
        """The state with the columns of these sides known."""
        new = [side for side in schemas if state is None or not state.plan.known[side]]
        if not new:
            assert state is not None
            return state
        found: list[pa.Schema | None] = [schemas.get(LEFT), schemas.get(RIGHT)]
        if state is not None:
            found = [side.schema if side.known else found[side.side] for side in state.plan.sides]
        plan = JoinPlan.of(self.spec, found[LEFT], found[RIGHT])
        state = JoinState.fresh(plan) if state is None else replanned(state, plan)
        own = list(state.own)
        for side in new:
            for mark in self._advanced[side]:
                own[side] = later(own[side], _advanced(plan.sides[side], mark))
        return replace(state, own=(own[LEFT], own[RIGHT]))


_NAMES = ("left", "right")
_NO_ROWS = {"left": 0, "right": 0, "late_left": 0, "late_right": 0, "null_time": 0}


def _seen(side: SidePlan, arrived: Any) -> Seen:
    time = arrived.time
    ascending = bool((time[1:] >= time[:-1]).all())
    return Seen(time, int(time.min()), int(time.max()), ascending, arrived.columns(), side.measure, arrived.null_time)


def _schema(side: SidePlan) -> pa.Schema:
    return side.schema if side.known else pa.schema([])


def _with_marks(known: Marked, new: dict[int, object]) -> Marked:
    left, right = ((*marks, new[side]) if side in new else marks for side, marks in enumerate(known))
    return left, right


def _at_least_one(value: object, argument: str, other: str = "") -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{argument} must be a whole number of at least 1{other}; got {value!r}")
    return value


def _advanced(side: SidePlan, watermark: object) -> int:
    return side.measure.instant(watermark, f"{_NAMES[side.side]} watermark")
