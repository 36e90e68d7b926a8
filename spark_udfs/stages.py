"""The functions that run in Python workers.

| function | what it does |
| --- | --- |
| ``collect`` | the first stage: rows to partial aggregates, by place |
| ``merge`` | the second stage: partial aggregates to state and windows |
| ``drain`` | the results that are still open in a state |

They are plain functions of record batches: tests run them without Spark. A stage of a stream needs only its ``Step``.
"""

from __future__ import annotations

import gc
import os
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from slicing.columns.arrow_io import together
from slicing.columns.arrow_out import array_of, binaries
from slicing.exchange import Collector, packed
from spark_udfs.engines import engine
from spark_udfs.files import read
from spark_udfs.jobs import STATS, Answered, Job, Query, Storage, Taken, check_bytes, results_schema, stats_type
from spark_udfs.late import check_late, write_late
from spark_udfs.moves import going_on
from spark_udfs.policy import Policy
from spark_udfs.progress import Step, judged_by
from spark_udfs.state import Place
from spark_udfs.types import conformed
from spark_udfs.versions import StateError

LIVELY = 10_000  # garbage collection visits so many Python objects in about a millisecond

PACKED = pa.schema([pa.field("place", pa.int32()), pa.field("slices", pa.binary()), pa.field("error", pa.string())])
Batches = Iterable[pa.RecordBatch]


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
        yield from batches_of(job.whole([blob for _, blob in received if blob is not None], place_of_batch))
        return
    received = list(_received(batches))
    step = _placed(job, step or Step.current(), {place for place, _ in received})
    blobs = [blob for _, blob in received if blob is not None]
    yield from batches_of(entered(job, InFiles(Place(job.files, step.query, step.partition), step), blobs, step))


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
        anew = job.check(operator)
        return None if anew else before, operator, held

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


def batches_of(table: pa.Table) -> Iterator[pa.RecordBatch]:
    """The results of a stage, as batches of at most 65,536 rows."""
    yield from table.to_batches(max_chunksize=1 << 16)


def drain(
    job: Query, partitions: Iterable[pa.RecordBatch], batch: int, query: str, ends: bool = True
) -> Iterator[pa.RecordBatch]:
    """All results that are still open in the state of some partitions; ``ends``: the stream ends with them."""
    settle()
    assert job.files is not None
    for numbers in partitions:
        for partition in numbers.column(0).to_pylist():
            place = Place(job.files, query, partition)
            _, operator, _ = place.restore(job.spec, batch)
            if ends:
                place.mark_drained(batch)
            yield from batches_of(job.rest(operator))
