"""Rows of a join or of features between processes: readers read and judge rows, places join them.

``Reader`` is the map side: it judges rows of one side by given watermarks and sorts them by a hash of their keys into
the places that join them. ``admit`` is the reduce side: it pushes the rows of both sides into an operator in a fixed
order, as several reading processes have no common order of arrival. It then evicts rows that the watermarks passed.

With ``spread`` a key has several places, one for each span of that length of the left rows' time. A left row goes to
one place, a right row to every place that may have a partner of it. Every pair is made in exactly one place.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slicing.closing.results import late_rows, none_late
from slicing.columns.arrow_io import empty, size_of, together
from slicing.columns.bits import as_numpy
from slicing.columns.keys import KeyTable
from slicing.columns.order import distinct
from slicing.columns.sources import one_batch
from slicing.columns.taking import taken
from slicing.joins.arrivals import Rows, Timed, encoded, judged, timed
from slicing.joins.features.operator import FeatureOperator
from slicing.joins.features.plan import FeaturePlan
from slicing.joins.features.spec import FeatureSpec
from slicing.joins.operator import JoinOperator
from slicing.joins.plan import JoinPlan, SidePlan, TwoSides
from slicing.joins.progress import Marks
from slicing.joins.spec import RIGHT_ALONE, JoinSpec
from slicing.joins.state import JoinState, clipped
from slicing.joins.step import Task
from slicing.joins.two_sided import Out, TwoSided, no_counts
from slicing.joins.within import LEFT, RIGHT
from slicing.kernels.table import hash_words
from slicing.query.given_watermarks import later
from slicing.query.progress import Progress
from slicing.query.spec import Spec
from slicing.query.watermark import Manual, check_places
from slicing.system.arrays import LEAST, MOST, Ints, Unsigned
from slicing.system.bundles import bundled, table_bytes, table_of, unbundled
from slicing.times.durations import parse_span
from slicing.windows.builtin import whole

UNKNOWN = Marks()
MOST_COPIES = 64  # most places that ``spread`` may send one right row to


JoinOrFeatureSpec = JoinSpec | FeatureSpec


def check(spec: JoinOrFeatureSpec) -> None:
    """Raise if the answers of a spec depend on an order of arrival."""
    for side, policy in zip(spec.sides, spec.watermark, strict=True):
        check_places(policy, f"the watermark={policy!r} of {side}")


def manual_side(spec: JoinOrFeatureSpec) -> str | None:
    """A side whose watermark only ``advance`` would move; None if there is none."""
    return next((side for side, p in zip(spec.sides, spec.watermark, strict=True) if isinstance(p, Manual)), None)


def plan_of(spec: JoinOrFeatureSpec, left: pa.Schema, right: pa.Schema) -> JoinPlan | FeaturePlan:
    """The plan for the columns of both sides."""
    return FeaturePlan.of(spec, left, right) if isinstance(spec, FeatureSpec) else JoinPlan.of(spec, left, right)


def needed(spec: JoinOrFeatureSpec, schemas: Sequence[pa.Schema], side: int) -> pa.Schema:
    """The columns of a side that must be read."""
    side_plan = plan_of(spec, *schemas).sides[side]
    names = {*side_plan.kept, side_plan.time, *side_plan.on, *side_plan.policy.columns()}
    if side == RIGHT and spec.sequence is not None:
        names.add(spec.sequence)
    if side == RIGHT and isinstance(spec, FeatureSpec):  # a feature may be computed from several columns
        names.update(Spec(side_plan.time, {"all": whole()}, dict(spec.aggs)).columns())
    return pa.schema([field for field in side_plan.schema if field.name in names])


def start(spec: JoinOrFeatureSpec) -> Any:
    """A new operator for :func:`admit`; the spec must have ``schemas``."""
    assert spec.schemas is not None
    check(spec)
    return _fresh(spec)


def _fresh(spec: JoinOrFeatureSpec) -> JoinOperator | FeatureOperator:
    return FeatureOperator(spec) if isinstance(spec, FeatureSpec) else JoinOperator(spec)


def state_of(operator: TwoSided[Any]) -> JoinState:
    assert operator._state is not None
    return operator._state


def operator_of(spec: JoinOrFeatureSpec, state: JoinState) -> Any:
    """An operator that continues from a state."""
    operator = _fresh(spec)
    operator._state = state
    return operator


def sent_otherwise(operator: TwoSided[Any], left: pa.Schema, right: pa.Schema) -> None:
    """Let the operator admit rows with these columns from now on: the same as before of those that it needs."""
    operator._state = replace(state_of(operator), plan=operator._plan(left, right))


# --- the map side -----------------------------------------------------------------------------------------------------


class Spread:
    """How rows of one key are spread over places by their time."""

    def __init__(self, spec: JoinOrFeatureSpec, plan: JoinPlan | FeaturePlan, length: object) -> None:
        self.ticks = plan.measure.ticks(parse_span(length, "spread", positive=True), "spread")
        if isinstance(spec, JoinSpec) and spec.how in RIGHT_ALONE:
            raise ValueError(
                f"spread={length!r} sends a right row to several places, and none of them knows that it has no partner "
                f"anywhere, which how={spec.how!r} must know; leave spread out, or swap the sides"
            )
        self._plan = plan
        low, high = self._reached(np.zeros(1, np.int64))
        copies = int(high[0]) - int(low[0]) + 1
        if copies > MOST_COPIES:
            raise ValueError(
                f"spread={length!r} is short beside {_shown_span(spec)}: every row of {spec.sides[RIGHT]} would go to "
                f"about {copies} places (at most {MOST_COPIES}); give a longer span"
            )

    def _reached(self, right: Ints) -> tuple[Ints, Ints]:
        """The first and the last span of left times in which right rows may have partners."""
        if isinstance(self._plan, FeaturePlan):
            reach = self._plan.within.reached(right)
        else:
            reach = self._plan.within.reach(right, RIGHT)
        low, high = (_clipped(reach.low, -reach.back), _clipped(reach.high, reach.forth))
        return low // self.ticks, high // self.ticks

    def places(self, side: int, hashed: Unsigned, time: Ints, count: int) -> tuple[Ints, Ints]:
        """Row numbers and the place of each row. A right row may have several places, each only once."""
        if side == LEFT:
            return np.arange(time.size), _placed(hashed, time // self.ticks, count)
        low, high = self._reached(time)
        copies = np.maximum(high - low + 1, 0)
        rows = np.repeat(np.arange(time.size), copies)
        first = np.cumsum(copies) - copies
        spans = low[rows] + np.arange(rows.size) - first[rows]
        both = distinct(rows * count + _placed(hashed[rows], spans, count))
        return both // count, both % count


def _shown_span(spec: JoinOrFeatureSpec) -> str:
    return f"ranges={dict(spec.ranges)!r}" if isinstance(spec, FeatureSpec) else f"within={spec.within!r}"


def _clipped(times: Ints, by: int) -> Ints:
    """Times moved by ``by`` ticks, clipped to 64 bits."""
    if by >= 0:
        return np.minimum(times, MOST - by) + by
    return np.maximum(times, LEAST - by) + by


def _placed(hashed: Unsigned, more: Ints, count: int) -> Ints:
    mixed = hashed.copy()
    hash_words(np.ascontiguousarray(more).view(np.uint64), mixed)
    return (mixed % np.uint64(count)).astype(np.int64)


class Reader:
    """Reads and judges rows of one side of one batch of a stream, in any process.

    ``marks`` are the watermarks after the previous batch, in ticks of the common time. All rows are judged by them.
    """

    def __init__(
        self, spec: JoinOrFeatureSpec, side: int, count: int, marks: Marks = UNKNOWN, spread: object = None
    ) -> None:
        assert spec.schemas is not None
        check(spec)
        self._plan = plan_of(spec, *spec.schemas)
        self._side = self._plan.sides[side]
        self._marks, self._count = marks, count
        self._spread = None
        if spread is not None:
            self._spread = Spread(spec, self._plan, spread)
        self._progress = Progress()
        self._rows: list[list[pa.RecordBatch]] = [[] for _ in range(count)]
        self._late: list[pa.Table] = []
        self._counts = no_counts(spec)
        self.nbytes = 0

    def push(self, data: object) -> None:
        """Take rows. Push many rows at once: each push costs a few hundred microseconds."""
        side, name = self._side, self._side.title
        arrived = timed(self._plan, side, one_batch(data))
        in_time, late = judged(side, arrived, self._marks[side.side])
        if late.size or arrived.null_time.size:
            self._late.append(late_rows(arrived.given, arrived.null_time, late))
        if arrived.time.size:
            self._progress = side.policy.observe(self._progress, arrived.seen(side.measure))
        self._counts[name] += arrived.given.num_rows
        self._counts[f"late_{name}"] += late.size
        self._counts["null_time"] += arrived.null_time.size
        self._keep(in_time)

    def _keep(self, arrived: Timed) -> None:
        """Store the rows of each place as one slice of the batch."""
        rows, place = self._places(arrived)
        order = np.argsort(place, kind="stable")
        batch = taken(arrived.batch, rows[order])
        ends = np.cumsum(np.bincount(place, minlength=self._count))
        for number, (first, last) in enumerate(zip([0, *ends], ends, strict=False)):
            if last > first:
                self._rows[number].append(batch.slice(first, last - first))
        self.nbytes += size_of(batch)

    def _places(self, arrived: Timed) -> tuple[Ints, Ints]:
        """Row numbers and their places: by key, or by time for rows that can have no partner."""
        side, size = self._side, arrived.time.size
        if self._count == 1:
            return np.arange(size), np.zeros(size, np.int64)
        keys = KeyTable(self._plan.key_types) if self._plan.key_types else None
        known = encoded(self._plan, side, keys, arrived, 0, 1)
        hashed = _hashes(keys, known)
        if self._spread is None:
            rows, place = known.name, (hashed % np.uint64(self._count)).astype(np.int64)
        else:
            at, place = self._spread.places(side.side, hashed, known.time, self._count)
            rows = known.name[at]
        alone = _placed(np.zeros(known.keyless.size, np.uint64), known.keyless_time, self._count)
        return np.concatenate([rows, known.keyless]), np.concatenate([place, alone])

    def sends(self, place: int) -> bool:
        """Whether there are rows for a place."""
        return bool(self._rows[place])

    def packed(self, late: bool = True) -> list[bytes]:
        """For each place the bytes for :func:`admit`. Every place gets the progress; only the first one gets the counts
        and, if ``late``, the late rows."""
        found = []
        for place, batches in enumerate(self._rows):
            header: dict[str, Any] = {"side": self._side.side, "progress": self._progress.to_json()}
            sections = [_bytes(together(batches))] if batches else [b""]
            if place == 0:
                header["counts"] = self._counts
                sections += [table_bytes(pa.concat_tables(self._late))] if self._late and late else []
            found.append(bundled([json.dumps(header).encode(), *sections]))
        return found


def _hashes(keys: KeyTable | None, rows: Rows) -> Unsigned:
    if keys is None:
        return np.zeros(len(rows), np.uint64)
    return keys.hashes(np.arange(len(keys)))[rows.code]


def _bytes(batch: pa.RecordBatch) -> bytes:
    """The batch without its schema, which both sides know: this takes a tenth of the time for few rows."""
    return bytes(batch.serialize())


# --- the reduce side --------------------------------------------------------------------------------------------------


class Arrived(NamedTuple):
    """What one reader sent to one place."""

    side: int
    header: dict[str, Any]
    rows: pa.RecordBatch | None
    late: pa.Table | None


def unpacked(plan: TwoSides, blob: bytes) -> Arrived:
    encoded, rows, *late = unbundled(blob)
    header = json.loads(bytes(encoded))
    schema = plan.sides[header["side"]].schema
    batch = pa.ipc.read_record_batch(pa.py_buffer(rows), schema) if len(rows) else None
    return Arrived(header["side"], header, batch, table_of(late[0]) if late else None)


def admit(operator: TwoSided[Out], blobs: Iterable[bytes], prompt: bool = True) -> Out:
    """Push the rows of one batch into an operator, then evict what the watermarks have passed.

    ``prompt``: evict by the watermarks after this batch, as ``JoinOperator.push`` does. Otherwise evict by the
    watermarks after the *previous* batch, as Spark's own joins do. Blobs may come in any order: the same state and
    the same blobs always give a state of the same bytes.
    """
    state = state_of(operator)
    arrived = [unpacked(state.plan, blob) for blob in sorted(blobs)]
    counts = {name: sum(a.header.get("counts", {}).get(name, 0) for a in arrived) for name in no_counts(operator._spec)}
    tasks, late = [], {}
    for side in state.plan.sides:
        of_side = [a for a in arrived if a.side == side.side]
        batch = _in_one_order(side, [a.rows for a in of_side if a.rows is not None])
        state, rows = operator._stored(state, side.side, timed(state.plan, side, batch))
        state = _moved(state, side, [Progress.from_json(a.header["progress"]) for a in of_side], prompt)
        tasks.append(Task(side.side, rows))
        tables = [a.late for a in of_side if a.late is not None]
        late[side.side] = pa.concat_tables(tables) if tables else none_late(side.schema)
    tasks[-1] = replace(tasks[-1], marks=state.judge())
    return operator._worked(replace(state, tasks=tuple(tasks)), counts, late)


def answer_of(spec: JoinOrFeatureSpec, blobs: list[bytes]) -> pa.Table:
    """The answer for all rows of a place, as :func:`slicing.join` and :func:`slicing.features` give it. ``blobs`` is
    emptied on the way to free memory: the blobs are as large as the rows."""
    operator = start(spec)
    plan = state_of(operator).plan
    rows: tuple[list[pa.RecordBatch], ...] = ([], [])
    blobs.sort(reverse=True)
    while blobs:
        arrived = unpacked(plan, blobs.pop())
        if arrived.rows is not None:
            rows[arrived.side].append(arrived.rows)
        del arrived
    left, right = map(_in_one_order, plan.sides, rows)
    answer: pa.Table = operator.whole(left, right)
    return answer


def _moved(state: JoinState, side: SidePlan, others: list[Progress], prompt: bool) -> JoinState:
    """The state after the progress that the readers of a side have seen."""
    progress, own = list(state.progress), list(state.own)
    before = progress[side.side]
    for other in others:
        progress[side.side] = side.policy.joined(progress[side.side], other, side.measure)
    known = progress[side.side] if prompt else before
    if known != Progress():
        reached = side.policy.reached(known, side.policy.delays(side.measure))
        own[side.side] = clipped(later(own[side.side], reached))
    return replace(state, progress=(progress[LEFT], progress[RIGHT]), own=(own[LEFT], own[RIGHT]))


def _in_one_order(side: SidePlan, batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Rows of one batch by time; rows of equal time are ordered by those of their other columns that Arrow sorts."""
    if not batches:
        return empty(side.schema)
    batch = together(batches)
    batches.clear()  # frees as much memory as the new batch takes
    time = side.measure.words(batch.column(side.time))
    order = np.argsort(time, kind="stable")
    ordered = time[order]
    equal = ordered[1:] == ordered[:-1]
    tied = np.flatnonzero(np.append(equal, False) | np.append(False, equal))
    if tied.size:
        some = taken(batch, order[tied])
        names = [f.name for f in side.schema if f.name != side.time and _sortable(f.type)]
        columns = {name: some.column(name) for name in (side.time, *names)}
        keys: Any = [(name, "ascending") for name in columns]
        order[tied] = order[tied][as_numpy(pc.sort_indices(pa.table(columns), sort_keys=keys))]
    return taken(batch, order)


def _sortable(type: pa.DataType) -> bool:
    return not (pa.types.is_nested(type) or pa.types.is_null(type) or pa.types.is_dictionary(type))
