"""What operators of two streams share: judge and encode rows, move watermarks, keep and write the state.

A push judges its rows by the watermarks before it, encodes them, does the operator's work, moves the watermarks, and
evicts what they have passed. The whole state is one value that is replaced at the end of a push: a push that fails
leaves the operator as it was.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from functools import partial
from typing import Generic, TypeVar

import pyarrow as pa

from slicing.closing.results import late_rows, none_late
from slicing.columns.arrow_io import empty
from slicing.joins import snapshot
from slicing.joins.arrivals import Rows, Timed, encoded, judged, parted, timed, unfit
from slicing.joins.by_key import late_by_key, marks_in, marks_of
from slicing.joins.plan import SidePlan, TwoSidedSpec, TwoSides
from slicing.joins.sides import UNFIT
from slicing.joins.state import JoinState, Marked, clipped, replanned
from slicing.joins.step import Task
from slicing.joins.within import LEFT, RIGHT
from slicing.lifecycle.errors import SnapshotError
from slicing.query.given_watermarks import fitting, later, waiting
from slicing.query.policy import Policy
from slicing.system.heap import keep_freed_memory
from slicing.system.replace import but
from slicing.system.threads import thread_count
from slicing.system.turns import TakesTurns, in_turn
from slicing.times.measure import plain_moment

Out = TypeVar("Out")  # the operator's output
Late = dict[int, pa.Table]
Counts = dict[str, int]

keep_freed_memory()


class TwoSided(TakesTurns, Generic[Out]):
    """An operator of two streams. Subclasses make the outputs in ``_worked`` and ``_nothing``."""

    def __init__(self, spec: TwoSidedSpec, policy: Policy, threads: int) -> None:
        if not isinstance(policy, Policy):
            raise TypeError(f"policy must be a slicing.query.policy.Policy; got {policy!r}")
        self._spec, self._policy = spec, policy.with_arguments(threads=thread_count(threads))
        self._advanced: Marked = ((), ())  # watermarks given before the side's first rows
        self._ended = False
        self._state: JoinState | None = None
        if spec.schemas is not None:
            self._state = JoinState.fresh(self._plan(*spec.schemas))

    def __repr__(self) -> str:
        return f"<sl.{type(self).__name__} of {self._spec!r}>"

    # --- what an operator is for ------------------------------------------------------------------------------------

    def _plan(self, left: pa.Schema | None, right: pa.Schema | None) -> TwoSides:
        """The plan for the known schemas; at least one side must be known."""
        raise NotImplementedError

    def _worked(self, state: JoinState, counts: Counts, late: Late, flush: bool = False) -> Out:
        """Do the tasks of the state and commit the new state."""
        raise NotImplementedError

    def _nothing(self) -> Out:
        """The output while no columns are known."""
        raise NotImplementedError

    # --- the flow ---------------------------------------------------------------------------------------------------

    @in_turn
    def flush(self) -> Out:
        """End both streams; return all remaining results. Another ``flush`` has nothing to return."""
        if self._state is None:
            self._ended = True
            return self._nothing()
        out = self._worked(self._state, no_counts(self._spec), {}, flush=True)
        self._ended = True
        return out

    def _advance(self, left: object, right: object, marks: dict[int, object]) -> Out:
        """Move the given watermarks, of sides and of keys."""
        self._check_open()
        return self._or_undone(lambda: self._advanced_by(left, right, marks))

    def _advanced_by(self, left: object, right: object, marks: dict[int, object]) -> Out:
        given_marks = {side: table for side, table in marks.items() if table is not None}
        given = {side: mark for side, mark in ((LEFT, left), (RIGHT, right)) if mark is not None}
        state = self._state
        for side, mark in given.items():
            if state is None or not state.plan.known[side]:
                given[side] = plain_moment(mark)
        if state is None:
            if given_marks:
                raise ValueError("marks of keys need the columns of the rows; push some first, or give schemas=")
            self._advanced = _with_marks(self._advanced, given)
            return self._nothing()
        own = list(state.own)
        pending: dict[int, object] = {}
        for side, mark in given.items():
            own[side] = later(own[side], _advanced(state.plan.sides[side], mark))
            if not state.plan.known[side]:
                pending[side] = mark
        for side, table in given_marks.items():
            argument = f"{self._spec.sides[side]}_marks"
            found = marks_of(state.plan, state.plan.sides[side], state.keys, table, argument)
            state = state.with_marks(side, *found)
        state = but(state, own=(own[LEFT], own[RIGHT]))
        advanced = _with_marks(self._advanced, pending)
        state = but(state, tasks=(*state.tasks, Task(LEFT, None, state.judge())))
        out = self._worked(state, no_counts(self._spec), {})
        self._advanced = advanced
        return out

    def _or_undone(self, work: Callable[[], Out]) -> Out:
        """Do the work. If it raises, the keys that it added to the table are removed."""
        before = self._state
        keys = None if before is None else before.keys
        known = 0 if keys is None else len(keys)
        try:
            return work()
        except BaseException as error:
            refused = isinstance(error, ValueError | TypeError | OverflowError)
            if before is not None and keys is not None and self._state is before:
                self._state = but(before, keys=keys.as_it_was(known, rebuild=not refused))
            raise

    def _stored(self, state: JoinState, side: int, arrived: Timed) -> tuple[JoinState, Rows]:
        """The state with the columns of rows in time, and these rows encoded."""
        plan, sides = state.plan, list(state.sides)
        first = sides[side].next
        rows = encoded(plan, plan.sides[side], state.keys, arrived, first, self._policy.threads)
        new = sides[side].appended(plan.sides[side].payload(arrived.batch), arrived.time.size)
        sides[side] = new.flagged(unfit(plan, side, first, arrived.batch) - new.base, UNFIT)
        return but(state, sides=(sides[LEFT], sides[RIGHT])), rows

    def _push(self, given: dict[int, pa.RecordBatch]) -> Out:
        self._check_open()
        planned = self._planned(self._state, {side: batch.schema for side, batch in given.items()})
        return self._or_undone(lambda: self._pushed(planned, given))

    def _pushed(self, state: JoinState, given: dict[int, pa.RecordBatch]) -> Out:
        plan, marks = state.plan, state.judge()
        arrived = {side: timed(plan, plan.sides[side], batch) for side, batch in given.items()}
        counts, late = no_counts(self._spec), {}
        progress, own, tasks = list(state.progress), list(state.own), list(state.tasks)
        for side, batch in arrived.items():
            side_plan = plan.sides[side]
            in_time, positions = judged(side_plan, batch, marks[side])
            if state.keys is not None and len(state.by_key[side]):
                by_key = late_by_key(plan, side_plan, state.keys, state.by_key[side], batch)
                in_time, positions = parted(batch, by_key, positions)
            late[side] = late_rows(batch.given, batch.null_time, positions)
            state, rows = self._stored(state, side, in_time)
            tasks.append(Task(side, rows))
            if batch.time.size:
                progress[side] = side_plan.policy.observe(progress[side], batch.seen(side_plan.measure))
                reached_now = side_plan.policy.reached(progress[side], side_plan.policy.delays(side_plan.measure))
                own[side] = clipped(later(own[side], reached_now))
            counts[plan.common_spec.sides[side]] = batch.given.num_rows
            counts[f"late_{plan.common_spec.sides[side]}"] = positions.size
            counts["null_time"] += batch.null_time.size
        for side, batch in arrived.items():
            found = marks_in(plan, plan.sides[side], state.keys, batch)
            state = state if found is None else state.with_marks(side, *found)
        state = but(state, progress=(progress[LEFT], progress[RIGHT]), own=(own[LEFT], own[RIGHT]))
        tasks[-1] = but(tasks[-1], marks=state.judge())
        return self._worked(but(state, tasks=tuple(tasks)), counts, late)

    @property
    def _knows_columns(self) -> bool:
        """Whether the types of the result columns are known: both sides must be known."""
        return self._state is not None and all(self._state.plan.known)

    def _restorer(self) -> Callable[[], None]:
        """Return a function that restores the current state. A chain calls it if a later operator raises."""
        state = self._state
        keys = None if state is None else state.keys
        known, as_it_is = 0 if keys is None else len(keys), self.__dict__.copy()

        def put_back() -> None:
            self.__dict__.update(as_it_is)
            if state is not None and keys is not None:
                self._state = but(state, keys=keys.as_it_was(known, rebuild=True))

        return put_back

    # --- snapshots --------------------------------------------------------------------------------------------------

    @in_turn
    def snapshot(self) -> bytes:
        """The whole state as bytes, versioned and checksummed; ``restore`` continues from it."""
        return snapshot.write(self._spec, self._state, self._advanced, self._ended)

    def _read(self, blob: bytes) -> None:
        """Load the state of a snapshot."""
        state, self._advanced, self._ended = snapshot.read(self._spec, self._plan, blob)
        if state is not None:
            for side, schema in zip(state.plan.sides, self._spec.schemas or (), strict=False):
                if side.known:
                    _check_told(side, schema)
            self._state = state

    # --- its parts --------------------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._ended:
            raise RuntimeError(
                f"the operator was flushed, which ends its streams; build a new {type(self).__name__} to go on"
            )

    def _late(self, plan: TwoSides, late: Late) -> tuple[pa.Table, pa.Table]:
        """The late rows of both sides."""
        left, right = (late.get(side.side, none_late(_schema(side))) for side in plan.sides)
        return left, right

    def _planned(self, state: JoinState | None, schemas: dict[int, pa.Schema]) -> JoinState:
        """The state once the columns of these sides are known."""
        known = (False, False) if state is None else state.plan.known
        if all(known[side] for side in schemas):
            assert state is not None
            return state
        found: list[pa.Schema | None] = [schemas.get(LEFT), schemas.get(RIGHT)]
        if state is not None:
            found = [side.schema if side.known else found[side.side] for side in state.plan.sides]
        plan = self._plan(found[LEFT], found[RIGHT])
        state = JoinState.fresh(plan) if state is None else replanned(state, plan)
        own = list(state.own)
        for side in (LEFT, RIGHT):
            if not known[side]:
                given = self._advanced[side]
                own[side] = functools.reduce(later, fitting(given, partial(_advanced, plan.sides[side])), None)
        return but(state, own=(own[LEFT], own[RIGHT]))


def no_counts(spec: TwoSidedSpec) -> Counts:
    """The counts of a push without rows."""
    return dict.fromkeys((*spec.sides, *(f"late_{side}" for side in spec.sides), "null_time"), 0)


def _schema(side: SidePlan) -> pa.Schema:
    return side.schema if side.known else pa.schema([])


def _check_told(side: SidePlan, schema: pa.Schema) -> None:
    """Refuse ``schemas=`` that no rows of a restored side could have."""
    try:
        side.columns.of(empty(schema))
    except (TypeError, ValueError) as error:
        raise SnapshotError(
            f"schemas= does not fit the {side.called} of the snapshot, whose columns stay as they are: {error}"
        ) from None


def _with_marks(known: Marked, new: dict[int, object]) -> Marked:
    left, right = (waiting(marks, new[side]) if side in new else marks for side, marks in enumerate(known))
    return left, right


def _advanced(side: SidePlan, watermark: object) -> int | None:
    """A watermark in ticks of its side; None if it needs the type of a time column that is still unknown."""
    if not side.known and not side.measure.is_integer and isinstance(watermark, int):
        return None
    try:
        return clipped(side.measure.watermark(watermark, f"{side.title} watermark"))
    except (TypeError, ValueError):
        if side.known:
            raise
        return None
