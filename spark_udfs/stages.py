"""The two functions that run in Python workers: rows to partial slices, partial slices to state and windows.

Both are plain functions of record batches, so that tests drive them without Spark (``Step`` is all they ask of it).
"""

from __future__ import annotations

import gc
import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.cloudpickle import dumps, loads

from slicing import Operator, Output, Spec
from slicing.partials import COUNTS, Collector, admit, packed, start, state_of
from slicing.system.filesystems import filesystem, publish
from spark_udfs.files import read
from spark_udfs.progress import Step, judged_by
from spark_udfs.state import Files, StateError
from spark_udfs.types import conformed

ROWS_AT_ONCE = 1 << 18
BYTES_AT_ONCE = 64 << 20
LIVELY = 10_000  # Python objects that garbage collection goes over in about a millisecond
STATS = "__slicing_stats"
COUNTED = (*COUNTS, "windows", "slices", "cells", "kept", "keys", "state_bytes")

PACKED = pa.schema([pa.field("place", pa.int32()), pa.field("slices", pa.binary())])


@dataclass(frozen=True)
class Job:
    """What both functions need to know of a ``window_aggregate``."""

    spec: Spec
    schema: pa.Schema
    partitions: int
    files: Files | None = None  # None: a batch query, which keeps no state
    late_path: str | None = None
    format: str | None = None  # of files that workers read themselves
    prompt: bool = True  # a batch closes the windows that its own rows complete

    @property
    def name(self) -> str:
        return "windows" if self.files is None else self.files.name

    def __reduce__(self) -> tuple[Any, ...]:
        values = tuple(getattr(self, field.name) for field in fields(self))
        return _job, (dumps(values),)  # type: ignore[no-untyped-call]


@lru_cache(8)
def _job(pickled: bytes) -> Job:
    """The same in every task of a worker: its spec is checked, and a user's functions are compiled, only once."""
    return Job(*loads(pickled))


def results_schema(job: Job) -> pa.Schema:
    """The columns of the result, for a stream with the accounting of each partition as a last row."""
    plan = state_of(start(job.spec, job.schema)).plan
    schema = plan.result_schema
    return schema if job.files is None else schema.append(pa.field(STATS, stats_type(plan.measure.type)))


def stats_type(time: pa.DataType) -> pa.DataType:
    return pa.struct([*((name, pa.int64()) for name in COUNTED), ("watermark", time)])


def settle() -> None:
    """Spark collects garbage after every task: what a worker has imported and compiled need not be looked at each time.

    Kernels are loaded when they are first needed, so it is asked again: 14 of 17 ms a task.
    """
    if TaskContext.get() is not None and len(gc.get_objects()) > LIVELY:
        gc.collect()
        gc.freeze()


# --- the map side -----------------------------------------------------------------------------------------------------


def collect(job: Job, batches: Iterable[pa.RecordBatch], step: Step | None = None) -> Iterator[pa.RecordBatch]:
    """Rows (or paths of files with rows) to what each place has to admit."""
    settle()
    watermark = None
    if job.files is not None:
        step = step or Step.current()
        watermark = judged_by(job.files, step)
    rows = batches if job.format is None else read(batches, job.schema, job.format)
    collector = Collector(job.spec, job.schema, watermark)
    for some in _gathered(rows, job.schema):
        collector.push(some)
        if collector.nbytes > BYTES_AT_ONCE:
            yield from _sent(job, collector)
            collector = Collector(job.spec, job.schema, watermark)
    yield from _sent(job, collector)


def _gathered(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Small batches put together: each push costs the same few milliseconds."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if batch.num_rows:
            held.append(conformed(batch, schema))
            size += batch.num_rows
        if size >= ROWS_AT_ONCE:
            yield pa.concat_batches(held)
            held, size = [], 0
    if held:
        yield pa.concat_batches(held) if len(held) > 1 else held[0]


def _sent(job: Job, collector: Collector) -> Iterator[pa.RecordBatch]:
    parts = collector.parts()
    if job.late_path is None:  # they are counted, and nobody wants them
        parts = replace(parts, late=parts.late.slice(0, 0))
    for place, blob in enumerate(packed(parts, job.partitions)):
        yield pa.RecordBatch.from_arrays([pa.array([place], pa.int32()), pa.array([blob])], schema=PACKED)


# --- the reduce side --------------------------------------------------------------------------------------------------


def merge(job: Job, batches: Iterable[pa.RecordBatch], step: Step | None = None) -> Iterator[pa.RecordBatch]:
    """One place's partial slices to its windows; in a stream, from the state of the batch before to that of this one.

    The state is published before the first window is given out.
    """
    settle()
    if job.files is None:
        operator = start(job.spec, job.schema)
        admit(operator, [blob for _, blob in _received(batches)])
        yield from _batches(operator.flush().windows)
        return
    received = list(_received(batches))
    step = _placed(job, step or Step.current(), {place for place, _ in received})
    before, operator = _state_before(job, job.files, step)
    blobs = [blob for _, blob in received]
    out = admit(operator, blobs, job.prompt)
    if job.late_path is not None and out.late.num_rows:
        _write_late(job, out.late, step)
    size = job.files.write(operator, step.partition, step.batch, step.query, before, blobs, job.prompt)
    yield from _batches(_with_stats(out, operator, size))


def _placed(job: Job, step: Step, places: set[int]) -> Step:
    """The step of the place this task is for. Behind a union or a coalesce Spark numbers tasks otherwise.

    Every reader sends something to every place. Where nothing has come there was no reader, and any numbering of the
    tasks will do.
    """
    if len(places) > 1:
        raise StateError(
            f"one task received what partitions {', '.join(map(str, sorted(places)))} keep: the plan was "
            f"re-partitioned between the two stages of window_aggregate, which needs its {job.partitions} "
            "partitions as they are"
        )
    return replace(step, partition=places.pop() if places else step.partition % job.partitions)


def _received(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, bytes]]:
    for batch in batches:
        yield from zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True)


def _state_before(job: Job, files: Files, step: Step) -> tuple[dict[str, Any] | None, Operator]:
    ended = files.drained()
    if ended is not None and step.batch > ended:
        raise StateError(
            f"the query was drained after batch {ended}, which ended its stream; start anew with another checkpoint "
            "and another state= or name="
        )
    if step.batch > 0:
        before, operator = files.restore(job.spec, step.partition, step.batch - 1, step.query)
        state_of(operator).plan.columns.check(job.schema)
        return before, operator
    files.begin(step.partition, step.query)
    return None, start(job.spec, job.schema)


def _write_late(job: Job, late: pa.Table, step: Step) -> None:
    """One file a batch and partition, the same for every attempt."""
    assert job.late_path is not None
    system, root = filesystem(job.late_path)
    sink = io.BytesIO()
    order = [(name, "ascending") for name, f in zip(late.column_names, late.schema, strict=True) if _sortable(f.type)]
    pq.write_table(late.sort_by(order), sink)
    publish(system, f"{root}/{job.name}-{step.query[:8]}-{step.batch:012}-{step.partition:05}.parquet", sink.getvalue())


def _sortable(type: pa.DataType) -> bool:
    return not (pa.types.is_nested(type) or pa.types.is_null(type))


def _with_stats(out: Output, operator: Operator, size: int) -> pa.Table:
    """The windows, and a row that holds nothing but the accounting."""
    plan, watermark = state_of(operator).plan, state_of(operator).watermark
    kind = stats_type(plan.measure.type)
    counts = {**out.stats, "state_bytes": size}
    columns = [pa.array([counts[field.name]], pa.int64()) for field in kind if field.name != "watermark"]
    columns.append(plan.measure.array(np.array([watermark or 0]), np.array([watermark is None])))
    counted = pa.StructArray.from_arrays(columns, fields=list(kind))
    windows = out.windows.append_column(pa.field(STATS, kind), pa.nulls(out.windows.num_rows, kind))
    row = pa.Table.from_arrays([*(pa.nulls(1, f.type) for f in out.windows.schema), counted], schema=windows.schema)
    return pa.concat_tables([windows, row])


def _batches(table: pa.Table) -> Iterator[pa.RecordBatch]:
    yield from table.to_batches(max_chunksize=1 << 16)


def drain(job: Job, partitions: Iterable[pa.RecordBatch], batch: int) -> Iterator[pa.RecordBatch]:
    """All windows that the state of some partitions still holds open."""
    settle()
    assert job.files is not None
    for numbers in partitions:
        for partition in numbers.column(0).to_pylist():
            _, operator = job.files.restore(job.spec, partition, batch)
            yield from _batches(operator.flush().windows)
