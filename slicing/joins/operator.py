"""The join operator: push rows of either side, advance time, flush, snapshot."""

from __future__ import annotations

from functools import partial

import pyarrow as pa

from slicing.columns.sources import one_batch
from slicing.columns.wanted import Wanted
from slicing.joins.arrivals import timed
from slicing.joins.output import JoinOutput
from slicing.joins.plan import JoinPlan
from slicing.joins.progress import Marks, reached
from slicing.joins.spec import JoinSpec
from slicing.joins.state import JoinState, settled
from slicing.joins.step import Step, Task
from slicing.joins.two_sided import Counts, Late, TwoSided, no_counts
from slicing.joins.within import LEFT, RIGHT
from slicing.output import Stats
from slicing.query.policy import DEFAULT, Policy
from slicing.system.arguments import at_least_one, says_arguments
from slicing.system.turns import in_turn


class JoinOperator(TwoSided[JoinOutput]):
    """A join of two streams, in one process.

    ``push_left``, ``push_right`` and ``push`` take anything with the Arrow C interface. The first push of a side fixes
    the types of its columns. Each push, ``advance`` and ``flush`` returns a :class:`JoinOutput`. A call that fails
    leaves the operator as it was.

    Parameters
    ----------
    spec : JoinSpec
        The join.
    max_rows_per_push : int, optional
        About how many pairs a push may return. Rows with more pairs wait (``stats.pending``) for later pushes or for
        ``advance()``. The pairs of one row are never split. ``flush`` returns everything.
    threads : int
        Threads that share the rows of large pushes.
    policy
        For tests: thresholds at which the engine changes its method (``slicing.query.policy``).

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

    @says_arguments
    def __init__(
        self, spec: JoinSpec, *, max_rows_per_push: int | None = None, threads: int = 1, policy: Policy = DEFAULT
    ) -> None:
        if not isinstance(spec, JoinSpec):
            raise TypeError(f"JoinOperator takes a sl.JoinSpec; got {type(spec).__name__}")
        self.spec = spec
        self._most = None
        if max_rows_per_push is not None:
            self._most = at_least_one(max_rows_per_push, "max_rows_per_push", ", or None")
        super().__init__(spec, policy, threads)

    # --- the flow ---------------------------------------------------------------------------------------------------

    @in_turn
    def push_left(self, data: object) -> JoinOutput:
        """Take rows of the left side; return the results that they complete.

        Parameters
        ----------
        data : table
            Anything with the Arrow C interface. Rows may be kept without a copy: do not write into that memory.

        Returns
        -------
        JoinOutput
            The pairs of these rows with rows that came before, and rows that are now known to have no partner.
        """
        return self._push({LEFT: one_batch(data, Wanted(argument="left"))})

    @in_turn
    def push_right(self, data: object) -> JoinOutput:
        """Take rows of the right side; return the results that they complete (see :meth:`push_left`)."""
        return self._push({RIGHT: one_batch(data, Wanted(argument="right"))})

    @in_turn
    def push(self, left: object, right: object) -> JoinOutput:
        """Take rows of both sides, judged by the watermarks before this push; return the results they complete."""
        first, second = one_batch(left, Wanted(argument="left")), one_batch(right, Wanted(argument="right"))
        return self._push({LEFT: first, RIGHT: second})

    @in_turn
    def advance(
        self, left: object = None, right: object = None, *, left_marks: object = None, right_marks: object = None
    ) -> JoinOutput:
        """Promise that no row of a side before its watermark will come. Watermarks never go back.

        Without arguments, rows that wait (see ``max_rows_per_push``) are joined.

        Parameters
        ----------
        left, right
            The watermark of a side. It counts from now on, even before the first rows of the side. Two kinds wait for
            these rows (or give ``JoinSpec(schemas=)``): a plain integer for timestamps, and an instant that is finer
            than the unit of the other side's time column.
        left_marks, right_marks : table
            Watermarks of single keys of a side, as a table of the key columns and the time column. A null time means
            that no more rows of the key will come. The watermark of a key is the larger one of its mark and the
            side's watermark: it decides which rows of the key are late and when rows of the other side are evicted. The
            mark of a null key counts with ``nulls_equal=True`` alone.
        """
        return self._advance(left, right, {LEFT: left_marks, RIGHT: right_marks})

    def flush(self) -> JoinOutput:
        """End both streams; return all remaining results."""
        return super().flush()

    def whole(self, left: pa.RecordBatch, right: pa.RecordBatch, plan: JoinPlan | None = None) -> pa.Table:
        """Join all rows of two tables, in the row order of :func:`join`. ``plan``: that for both schemas, if known."""
        self._ended = True
        plan = JoinPlan.of(self.spec, left.schema, right.schema) if plan is None else plan
        state = JoinState.fresh(plan, whole=True)
        found = {}
        for side, batch in ((RIGHT, right), (LEFT, left)):
            state, found[side] = self._stored(state, side, timed(plan, plan.sides[side], batch))
        step = Step(plan, state.sides, Marks(), state.codes, None, self._policy, whole=True)
        plain = self.spec.matches and self.spec.where is None and self.spec.sequence is None
        if plain and all(rows.ascending for rows in found.values()):
            step.match_in_order(found[LEFT], found[RIGHT])
        else:
            step.work([Task(RIGHT, found[RIGHT]), Task(LEFT, found[LEFT], Marks(), (False, True))])
            step.flush()
        return step.rows()

    def _plan(self, left: pa.Schema | None, right: pa.Schema | None) -> JoinPlan:
        return JoinPlan.of(self.spec, left, right)

    def _worked(self, state: JoinState, counts: Counts, late: Late, flush: bool = False) -> JoinOutput:
        """Do the tasks of the state and commit the new state."""
        plan, most = state.plan, None if flush else self._most
        assert isinstance(plan, JoinPlan)
        step = Step(plan, state.sides, state.marks, state.codes, most, self._policy, by_key=state.by_key)
        step.show(state.waiting)
        tasks = step.work(state.tasks)
        if flush:
            step.flush()
        rows = step.rows()
        state = settled(state, step.sides, step.marks, step.waiting, tasks)
        held = {"held": state.held, "pending": state.pending, "bytes": state.nbytes}
        stats = Stats(counts | {"joined": step.joined} | held)
        mark = None if step.holds_back else reached(plan, state.marks)
        out = JoinOutput(rows, *self._late(plan, late), stats, None if mark is None else plan.measure.value(mark))
        self._state = state  # last: an interrupt before this line leaves the operator as it was
        return out

    def _nothing(self) -> JoinOutput:
        empty = pa.table({})
        return JoinOutput(
            empty, empty, empty, Stats(no_counts(self.spec) | {"joined": 0, "held": 0, "pending": 0, "bytes": 0}), None
        )

    # --- snapshots --------------------------------------------------------------------------------------------------

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle and copy by snapshot: the copy and the original continue independently."""
        restore = partial(
            JoinOperator.restore, max_rows_per_push=self._most, threads=self._policy.threads, policy=self._policy
        )
        return restore, (self.spec, self.snapshot())

    @staticmethod
    def restore(
        spec: JoinSpec,
        blob: bytes,
        *,
        max_rows_per_push: int | None = None,
        threads: int = 1,
        policy: Policy = DEFAULT,
    ) -> JoinOperator:
        """Restore the operator from a snapshot. Raises if the spec or format differs, or if it is damaged."""
        operator = JoinOperator(spec, max_rows_per_push=max_rows_per_push, threads=threads, policy=policy)
        operator._read(blob)
        return operator
