"""The two functions that run in Python workers: rows to partial aggregates, partial aggregates to state and windows.

Both are plain functions of record batches, so that tests run them without Spark: they only need a ``Step``.
"""

from __future__ import annotations

import gc
import os
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache, partial
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.cloudpickle import dumps, loads

from slicing import Operator, Output, Spec
from slicing.closing.wide import widened
from slicing.columns.arrow_io import no_rows, together
from slicing.columns.arrow_out import array_of, binaries
from slicing.exchange import Collector, admit, packed, start, state_of
from spark_udfs.engines import WINDOWS, engine
from spark_udfs.files import Reading, read
from spark_udfs.late import check_late, write_late
from spark_udfs.moves import going_on
from spark_udfs.policy import DEFAULT, Policy
from spark_udfs.progress import Step, judged_by
from spark_udfs.state import Files, Place, StateError
from spark_udfs.types import conformed

LIVELY = 10_000  # garbage collection visits so many Python objects in about a millisecond
STATS = "__slicing_stats"
COUNTED = WINDOWS.counted  # summed over all places
LARGEST = ("largest_cells", "restore_ms", "publish_ms", "lag_ms")  # of the place that has the most

PACKED = pa.schema([pa.field("place", pa.int32()), pa.field("slices", pa.binary()), pa.field("error", pa.string())])
Batches = Iterable[pa.RecordBatch]
Taken = tuple[dict[str, Any] | None, Any, bool]  # a version's header, its operator, whether this worker held it


class Storage(Protocol):
    """Where one place keeps its state. A batch takes the state once and puts it back once."""

    def taken(self, job: Query) -> Taken:
        """The state after the previous batch. The batch may change the operator."""

    def put(self, operator: Any, before: dict[str, Any] | None, blobs: Sequence[bytes], size: int, job: Query) -> int:
        """Store the operator (``size`` bytes) as the state after this batch, which admitted the blobs. Returns how many
        bytes the state takes."""


class Answered(NamedTuple):
    """The results of a batch in one place."""

    rows: pa.Table
    late: Mapping[str, pa.Table]  # by the folder under ``late_path`` to which they are written
    counts: Mapping[str, Any]
    reached: list[pa.Array]  # the watermarks to report, one value each


class Query(Protocol):
    """What the second stage needs to know of a query; sent to the workers with each function."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def spec(self) -> Any: ...
    @property
    def partitions(self) -> int: ...
    @property
    def files(self) -> Files | None:
        """None for a batch query, which keeps no state."""

    @property
    def late_path(self) -> str | None: ...
    @property
    def prompt(self) -> bool:
        """Whether a batch closes what its own rows complete."""

    @property
    def max_bytes(self) -> int | None:
        """The most bytes that a partition may hold."""

    @property
    def policy(self) -> Policy: ...

    @property
    def name(self) -> str: ...
    @property
    def counted(self) -> tuple[str, ...]:
        """The counts that are summed over all places."""

    @property
    def largest(self) -> tuple[str, ...]:
        """The figures of which the largest place is reported."""

    @property
    def marks(self) -> tuple[str, ...]:
        """The watermarks that are reported."""

    def rows_schema(self) -> pa.Schema:
        """The columns of the result."""

    def time_type(self) -> pa.DataType:
        """The type of watermarks."""

    def fresh(self) -> Any:
        """An operator before the first batch."""

    def check(self, operator: Any) -> None:
        """Raise for a state of rows with other columns."""

    def whole(self, blobs: list[bytes], place: int) -> pa.Table:
        """The answer of one place to a batch query."""

    def rest(self, operator: Any) -> pa.Table:
        """The results that are still open at the end of the stream."""

    def answered(self, out: Any, operator: Any) -> Answered:
        """The results of a batch, from an operator's output."""


@dataclass(frozen=True)
class Job:
    """What both functions need to know of a ``window_aggregate``."""

    spec: Spec
    schema: pa.Schema
    partitions: int
    files: Files | None = None
    late_path: str | None = None
    reading: Reading | None = None  # of files that workers read themselves
    prompt: bool = True
    wide: bool = False  # one row for each key and window end
    max_bytes: int | None = None  # the most bytes that a partition may hold
    policy: Policy = DEFAULT

    counted = COUNTED
    largest = LARGEST
    marks = ("watermark",)

    @property
    def name(self) -> str:
        return "windows" if self.files is None else self.files.name

    def __reduce__(self) -> tuple[Any, ...]:
        return sent(self)

    def rows_schema(self) -> pa.Schema:
        return self._laid_out(no_rows(state_of(self.fresh()).plan.result_schema)).schema

    def time_type(self) -> pa.DataType:
        return state_of(self.fresh()).plan.measure.type

    def fresh(self) -> Operator:
        return start(self.spec, self.schema)

    def check(self, operator: Operator) -> None:
        state_of(operator).plan.columns.check(self.schema)

    def whole(self, blobs: list[bytes], place: int) -> pa.Table:
        operator = self.fresh()
        check_bytes(self, admit(operator, blobs).stats, place)
        return self.rest(operator)

    def rest(self, operator: Operator) -> pa.Table:
        return self._laid_out(operator.flush().windows)

    def answered(self, out: Output, operator: Operator) -> Answered:
        plan, watermark = state_of(operator).plan, state_of(operator).watermark
        reached = plan.measure.array(np.array([watermark or 0]), np.array([watermark is None]))
        counts = {**out.stats, "largest_cells": out.stats["cells"]}
        return Answered(self._laid_out(out.windows), {"": out.late}, counts, [reached])

    def _laid_out(self, windows: pa.Table) -> pa.Table:
        """Windows in the layout of the query; all windows of a key are in one place."""
        return widened(windows, self.spec) if self.wide else windows


def sent(job: Any) -> tuple[Any, ...]:
    """How a job is pickled."""
    values = tuple(getattr(job, field.name) for field in fields(job))
    return _job, (type(job), dumps(values))  # type: ignore[no-untyped-call]


@lru_cache(8)
def _job(kind: type[Any], pickled: bytes) -> Any:
    """The job, shared by all tasks of a worker: its spec is checked and users' functions are compiled only once."""
    return kind(*loads(pickled))


def results_schema(job: Query) -> pa.Schema:
    """The columns of the result; for a stream, with the accounting of each partition as a last row."""
    schema = job.rows_schema()
    return schema if job.files is None else schema.append(pa.field(STATS, stats_type(job)))


def stats_type(job: Query) -> pa.DataType:
    numbers = ((name, pa.int64()) for name in (*job.counted, *job.largest))
    time = job.time_type()
    return pa.struct([*numbers, *((mark, time) for mark in job.marks), ("error", pa.string())])


def settle() -> None:
    """Exclude what a worker has imported and compiled from garbage collection, which Spark runs after every task.

    Kernels are loaded at first use, so this is repeated when objects have become many: it saves 14 of 17 ms a task.
    """
    if TaskContext.get() is not None and len(gc.get_objects()) > LIVELY:
        gc.collect()
        gc.freeze()


# --- errors -----------------------------------------------------------------------------------------------------------


def errors_as_rows(
    stage: Callable[..., Iterator[pa.RecordBatch]], job: Query, reads: bool = False
) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """A stage for Spark's tasks that returns errors as rows. Spark's plan raises them, so that a user sees the message
    first; the worker's traceback goes to its log. ``reads``: it is the first stage."""
    refused = _to_all_places if reads else _in_the_accounting

    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        try:
            yield from stage(job, batches)
        except (StateError, ValueError, TypeError, OverflowError) as error:
            if job.files is None or isinstance(error, pa.ArrowException):
                raise
            traceback.print_exc()
            yield from refused(job, f"{error}")

    return run


def _to_all_places(job: Query, error: str) -> Iterator[pa.RecordBatch]:
    """An error of a reader, sent to all places: none may publish a state without the reader's rows."""
    places = pa.array(range(job.partitions), pa.int32())
    columns = [places, pa.nulls(job.partitions, pa.binary()), pa.array([error] * job.partitions)]
    yield pa.RecordBatch.from_arrays(columns, schema=PACKED)


def _in_the_accounting(job: Query, error: str) -> Iterator[pa.RecordBatch]:
    """An error of a place, in the row of its accounting."""
    schema = results_schema(job)
    kind = schema.field(STATS).type
    row = {field.name: error if field.name == "error" else None for field in kind}
    columns = [pa.nulls(1, field.type) for field in list(schema)[:-1]]
    yield pa.RecordBatch.from_arrays([*columns, pa.array([row], kind)], schema=schema)


# --- the map side -----------------------------------------------------------------------------------------------------


def collect(job: Job, batches: Iterable[pa.RecordBatch], step: Step | None = None) -> Iterator[pa.RecordBatch]:
    """The first stage: rows (or paths of files with rows) to the bytes that each place admits."""
    settle()
    watermark, judged = None, job.files is None or not job.files.in_spark
    if job.files is not None and judged:
        known = judged_by(job.files, step or Step.current())
        watermark = known if isinstance(known, int) else None
    rows = batches if job.reading is None else read(batches, job.schema, job.reading)
    fresh = partial(Collector, job.spec, job.schema, watermark, judged, keeps_late=job.late_path is not None)
    collector = fresh()
    for some in gathered(rows, job.schema, job.policy):
        collector.push(some)
        if collector.nbytes > job.policy.bytes_at_once:
            yield from _sent(job, collector)
            collector = fresh()
    yield from _sent(job, collector)


def gathered(batches: Iterable[pa.RecordBatch], schema: pa.Schema, policy: Policy) -> Iterator[pa.RecordBatch]:
    """Combine small batches."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if batch.num_rows:
            held.append(conformed(batch, schema))
            size += batch.num_rows
        if size >= policy.rows_at_once:
            yield held[0] if len(held) == 1 else together(held)
            held, size = [], 0
    if held:
        yield held[0] if len(held) == 1 else together(held)


def _sent(job: Job, collector: Collector) -> Iterator[pa.RecordBatch]:
    yield from to_places(packed(collector.parts(), job.partitions), job.policy)


def to_places(blobs: list[bytes], policy: Policy) -> Iterator[pa.RecordBatch]:
    """The bytes of each place as rows."""
    first = size = 0
    for last, blob in enumerate([*blobs, None]):
        if last > first and (blob is None or size + len(blob) > policy.bytes_at_once):
            some = blobs[first:last]
            places = array_of(np.arange(first, last, dtype=np.int32))
            columns = [places, binaries(some), pa.nulls(len(some), pa.string())]
            yield pa.RecordBatch.from_arrays(columns, schema=PACKED)
            first, size = last, 0
        size += 0 if blob is None else len(blob)


# --- the reduce side --------------------------------------------------------------------------------------------------


def merge(job: Query, batches: Iterable[pa.RecordBatch], step: Step | None = None) -> Iterator[pa.RecordBatch]:
    """The second stage: what one place received to its results. In a stream, it also advances the place's state.

    The state is published before the first result is emitted.
    """
    settle()
    if job.files is None:
        received = list(_received(batches))
        place_of_batch = min((place for place, _ in received), default=0)
        yield from _batches(job.whole([blob for _, blob in received if blob is not None], place_of_batch))
        return
    received = list(_received(batches))
    step = _placed(job, step or Step.current(), {place for place, _ in received})
    blobs = [blob for _, blob in received if blob is not None]
    yield from _batches(entered(job, InFiles(job.files.place(step.query, step.partition), step), blobs, step))


def entered(job: Query, storage: Storage, blobs: list[bytes], step: Step) -> pa.Table:
    """One batch of one place: its results, with the accounting as a last row."""
    begun = time.perf_counter()
    if job.late_path is not None:
        check_late(job.late_path, os.getpid())
    before, operator, held = storage.taken(job)
    restored = time.perf_counter()
    out = job.answered(engine(job.spec).admit(operator, blobs, job.prompt), operator)
    check_bytes(job, out.counts, step.partition)
    if job.late_path is not None:
        write_late(job.late_path, out.late, job.name, step)
    merged = time.perf_counter()
    size = storage.put(operator, before, blobs, out.counts["bytes"], job)
    figures = {
        "state_bytes": size,
        "held": int(held),
        "cold": int(before is not None and not held),
        "restore_ms": round((restored - begun) * 1e3),
        "publish_ms": round((time.perf_counter() - merged) * 1e3),
    }
    return _with_stats(job, out, figures)


def check_bytes(job: Query, stats: Mapping[str, Any], partition: int) -> None:
    """Stop the query before it publishes a state that is larger than ``max_bytes``."""
    size = stats["bytes"]
    if job.max_bytes is not None and size > job.max_bytes:
        raise StateError(
            f"partition {partition} would hold {size} bytes after this batch, and max_bytes is {job.max_bytes}; the "
            "state is as it was before the batch, which Spark repeats with the same rows. Start the query with a "
            "larger max_bytes, or with more partitions (rescale)"
        )


def _placed(job: Query, step: Step, places: set[int]) -> Step:
    """The step of the place that this task is for. After a union or a coalesce, Spark's task numbers differ.

    The plan sends a row to every place, and so does every reader. On Spark Connect the plan does not: if a place has
    received nothing, there was no reader, and the number of the task is used.
    """
    if len(places) > 1:
        raise StateError(
            f"one task received what partitions {', '.join(map(str, sorted(places)))} keep: the plan was "
            f"re-partitioned between the two stages of the query, which needs its {job.partitions} "
            "partitions as they are"
        )
    return replace(step, partition=places.pop() if places else step.partition % job.partitions)


def _received(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, bytes | None]]:
    for batch in batches:
        places, blobs, errors = (column.to_pylist() for column in batch.columns)
        refused = [error for error in errors if error is not None]
        if refused:
            raise StateError(refused[0])
        yield from zip(places, blobs, strict=True)


@dataclass(frozen=True)
class InFiles:
    """A place that keeps its state in files."""

    place: Place
    step: Step

    def taken(self, job: Query) -> Taken:
        place, batch = self.place, self.step.batch
        ended = place.drained(batch - 1)
        if ended is not None:
            raise StateError(
                f"the query was drained after batch {ended}, which ended its stream; start anew with another "
                "checkpoint and another state= or name="
            )
        place.forget_drained(batch)
        if batch == 0:
            place.files.begin(self.step.partition)
            return None, job.fresh(), False
        before, operator, held = place.restore(job.spec, batch - 1, own=True)
        if before.get("spread") != place.files.spread:
            raise StateError(
                f"the query began with spread={before.get('spread')!r} and has {place.files.spread!r} now, so that its "
                "rows lie in other places: keep it, or begin anew with another checkpoint and another state= or name="
            )
        job.check(operator)
        return before, operator, held

    def put(self, operator: Any, before: dict[str, Any] | None, blobs: Sequence[bytes], size: int, job: Query) -> int:
        going_on(self.place, self.step.batch)
        return self.place.write(operator, self.step.batch, before, blobs, job.prompt, size, job.policy)


def _with_stats(job: Query, out: Answered, figures: dict[str, int]) -> pa.Table:
    """The results, and a last row that has only the accounting."""
    kind = stats_type(job)
    counts = {**out.counts, **figures, "lag_ms": _lag(out.reached[0])}
    columns = [_one(counts[name]) for name in (*job.counted, *job.largest)]
    columns += [*out.reached, pa.nulls(1, pa.string())]
    counted = pa.StructArray.from_arrays(columns, fields=list(kind))
    rows = out.rows.append_column(pa.field(STATS, kind), pa.nulls(out.rows.num_rows, kind))
    row = pa.Table.from_arrays([*(pa.nulls(1, f.type) for f in out.rows.schema), counted], schema=rows.schema)
    return pa.concat_tables([rows, row])


def _one(number: int | None) -> pa.Array:
    return pa.nulls(1, pa.int64()) if number is None else array_of(np.array([number], np.int64))


def _lag(watermark: pa.Array) -> int | None:
    """Milliseconds that a watermark is behind this machine's clock; None for times without a zone."""
    if watermark.null_count or not (pa.types.is_timestamp(watermark.type) and watermark.type.tz):
        return None
    at: int = watermark.cast(pa.timestamp("ms", watermark.type.tz), safe=False).cast(pa.int64())[0].as_py()
    return round(time.time() * 1e3) - at


def _batches(table: pa.Table) -> Iterator[pa.RecordBatch]:
    yield from table.to_batches(max_chunksize=1 << 16)


def drain(
    job: Query, partitions: Iterable[pa.RecordBatch], batch: int, query: str, ends: bool = True
) -> Iterator[pa.RecordBatch]:
    """All results that are still open in the state of some partitions; ``ends``: the stream ends with them."""
    settle()
    assert job.files is not None
    for numbers in partitions:
        for partition in numbers.column(0).to_pylist():
            place = job.files.place(query, partition)
            _, operator, _ = place.restore(job.spec, batch)
            if ends:
                place.mark_drained(batch)
            yield from _batches(job.rest(operator))
