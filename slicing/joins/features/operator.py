"""The operator of features: push labels and events, advance the watermarks, flush, take snapshots."""

from __future__ import annotations

from functools import partial

import pyarrow as pa

from slicing.columns.sources import one_batch
from slicing.columns.wanted import Wanted
from slicing.joins.arrivals import timed
from slicing.joins.features.output import FeatureOutput
from slicing.joins.features.plan import FeaturePlan
from slicing.joins.features.spec import FeatureSpec
from slicing.joins.features.step import FeatureStep
from slicing.joins.progress import Marks
from slicing.joins.state import JoinState, clipped, settled
from slicing.joins.step import NOBODY, Task
from slicing.joins.two_sided import Counts, Late, TwoSided, no_counts
from slicing.joins.within import LEFT, RIGHT
from slicing.output import Stats
from slicing.query.policy import DEFAULT, Policy
from slicing.system.arguments import says_arguments
from slicing.system.turns import in_turn


class FeatureOperator(TwoSided[FeatureOutput]):
    """Aggregates of a stream of events as of each row of a stream of labels, in one process.

    ``push_labels``, ``push_events`` and ``push`` take anything with the Arrow C interface. The first push of a side
    fixes the types of its columns. Each push, ``advance`` and ``flush`` returns a :class:`FeatureOutput`. A call that
    fails leaves the operator unchanged.

    Parameters
    ----------
    spec : FeatureSpec
        The query.
    threads : int
        The number of threads for the rows of large pushes and for answering labels.
    policy
        For tests: thresholds at which the engine changes its method (``slicing.query.policy``).

    Examples
    --------
    >>> import pyarrow as pa
    >>> import slicing as sl
    >>> spec = sl.FeatureSpec("user", "t", {"10": 10, "ever": None}, {"n": sl.count(), "spent": sl.sum("paid")})
    >>> op = sl.FeatureOperator(spec)
    >>> out = op.push_labels(pa.table({"user": ["ann"], "t": [100]}))
    >>> out = op.push_events(pa.table({"user": ["ann"] * 3, "t": [80, 95, 100], "paid": [1, 2, 4]}))
    >>> out.rows.to_pylist()
    [{'user': 'ann', 't': 100, 'n_10': 1, 'spent_10': 2, 'n_ever': 2, 'spent_ever': 3}]
    """

    @says_arguments
    def __init__(self, spec: FeatureSpec, *, threads: int = 1, policy: Policy = DEFAULT) -> None:
        if not isinstance(spec, FeatureSpec):
            raise TypeError(f"FeatureOperator takes a sl.FeatureSpec; got {type(spec).__name__}")
        self.spec = spec
        super().__init__(spec, policy, threads)

    # --- the flow ---------------------------------------------------------------------------------------------------

    @in_turn
    def push_labels(self, data: object) -> FeatureOutput:
        """Take labels; return the labels that are complete.

        Parameters
        ----------
        data : table
            Anything with the Arrow C interface. Rows may be kept without a copy: do not write into that memory.

        Returns
        -------
        FeatureOutput
            Labels with their aggregates.
        """
        return self._push({LEFT: one_batch(data, Wanted(argument="labels"))})

    @in_turn
    def push_events(self, data: object) -> FeatureOutput:
        """Take events; return the labels that they complete (as :meth:`push_labels`)."""
        return self._push({RIGHT: one_batch(data, Wanted(argument="events"))})

    @in_turn
    def push(self, labels: object, events: object) -> FeatureOutput:
        """Take labels and events, judged by the watermarks before the push; return the labels that are complete."""
        left, right = one_batch(labels, Wanted(argument="labels")), one_batch(events, Wanted(argument="events"))
        return self._push({LEFT: left, RIGHT: right})

    @in_turn
    def advance(
        self, labels: object = None, events: object = None, labels_marks: object = None, events_marks: object = None
    ) -> FeatureOutput:
        """Advance watermarks: no label, or no event, before its watermark will come. Watermarks never go back.

        Parameters
        ----------
        labels, events
            The watermark of a stream. It holds from now on, also before the stream's first rows. A whole number for a
            timestamp column, or an instant finer than the other stream's unit, waits for the first rows (or pass
            ``FeatureSpec(schemas=)``).
        labels_marks, events_marks : table
            Watermarks of single keys: the key columns and the time column. A null time: no more rows of the key come.
            A key's watermark is the larger of its stream's watermark and its own mark; its rows are judged late by it.
            Marks of events complete the labels of their keys. Marks of labels let events be evicted.
        """
        return self._advance(labels, events, {LEFT: labels_marks, RIGHT: events_marks})

    def flush(self) -> FeatureOutput:
        """End both streams: answer all labels that wait."""
        return super().flush()

    def whole(self, labels: pa.RecordBatch, events: pa.RecordBatch, views: bool = False) -> pa.Table:
        """All labels of a table with their aggregates, in the order that :func:`features` returns. ``views``: views of
        text stay views."""
        self._ended = True
        plan = FeaturePlan.of(self.spec, labels.schema, events.schema, self._policy, views)
        state = JoinState.fresh(plan, whole=True)
        tasks = []
        for side, batch in ((RIGHT, events), (LEFT, labels)):
            state, rows = self._stored(state, side, timed(plan, plan.sides[side], batch))
            tasks.append(Task(side, rows))
        step = FeatureStep(plan, state.sides, Marks(), state.codes, NOBODY, whole=True)
        step.work(tasks, ended=True)
        return step.rows()

    def _plan(self, left: pa.Schema | None, right: pa.Schema | None) -> FeaturePlan:
        return FeaturePlan.of(self.spec, left, right, self._policy)

    def _worked(self, state: JoinState, counts: Counts, late: Late, flush: bool = False) -> FeatureOutput:
        """Keep the new rows, compute the results, and commit the new state."""
        plan = state.plan
        assert isinstance(plan, FeaturePlan)
        step = FeatureStep(plan, state.sides, state.marks, state.codes, state.waiting[LEFT], by_key=state.by_key)
        step.work(state.tasks, flush)
        rows = step.rows()
        step.let_go(flush)
        state = settled(state, (step.labels, step.events), step.marks, (step.keyless, NOBODY))
        left, right = state.sides
        held = {"waiting": left.held + len(state.waiting[LEFT]), "kept": right.held}
        held |= {"slices": sum(map(len, right.slices)), "bytes": state.nbytes}
        stats = Stats(counts | {"answered": step.answered} | held)
        mark = _reached(plan, state.marks)
        out = FeatureOutput(rows, *self._late(plan, late), stats, None if mark is None else plan.measure.value(mark))
        self._state = state  # last: an interrupt before it leaves the operator as it was
        return out

    def _nothing(self) -> FeatureOutput:
        empty = pa.table({})
        held = {"answered": 0, "waiting": 0, "kept": 0, "slices": 0, "bytes": 0}
        return FeatureOutput(empty, empty, empty, Stats(no_counts(self.spec) | held), None)

    # --- snapshots --------------------------------------------------------------------------------------------------

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle and copy the operator as a snapshot. The copy is independent of the original."""
        restore = partial(FeatureOperator.restore, threads=self._policy.threads, policy=self._policy)
        return restore, (self.spec, self.snapshot())

    @staticmethod
    def restore(spec: FeatureSpec, blob: bytes, *, threads: int = 1, policy: Policy = DEFAULT) -> FeatureOperator:
        """The operator that wrote the snapshot. Raises for a snapshot of another spec or format, or a damaged one."""
        operator = FeatureOperator(spec, threads=threads, policy=policy)
        operator._read(blob)
        return operator


def _reached(plan: FeaturePlan, marks: Marks) -> int | None:
    """The output watermark: no label that is answered later has a time before it. None until both sides are known."""
    if marks.left is None:
        return None
    if not plan.spec.wait:
        return marks.left
    if marks.right is None or not plan.known[RIGHT]:
        return None
    return clipped(min(marks.left, marks.right + plan.within.behind))
