"""What workers need to know of a query, and the form of the results that they send.

A job is sent to the workers with each function of ``stages``. It has the spec, the columns of the rows, and where the
state is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from pyspark.cloudpickle import dumps, loads

from slicing import Operator, Output, Spec
from slicing.closing.wide import widened
from slicing.columns.arrow_io import no_rows
from slicing.exchange import admit, start, state_of
from spark_udfs.engines import WINDOWS
from spark_udfs.files import Reading
from spark_udfs.policy import DEFAULT, Policy
from spark_udfs.versions import Files, StateError

STATS = "__slicing_stats"
COUNTED = WINDOWS.counted  # summed over all places
LARGEST = ("largest_cells", "restore_ms", "publish_ms", "lag_ms")  # of the place that has the most

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

    def check(self, operator: Any) -> bool:
        """Raise for a state of rows with other columns. True: rows had other columns that only late rows are written
        with; the operator takes those of the query from now on, and its state has to be written as a whole."""

    def whole(self, blobs: list[bytes], place: int) -> pa.Table:
        """The answer of one place to a batch query."""

    def rest(self, operator: Any) -> pa.Table:
        """The results that are still open at the end of the stream."""

    def answered(self, out: Any, operator: Any) -> Answered:
        """The results of a batch, from an operator's output."""


@dataclass(frozen=True)
class Job:
    """What both stages need to know of a ``window_aggregate``."""

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
        return WINDOWS.name if self.files is None else self.files.name

    def __reduce__(self) -> tuple[Any, ...]:
        return sent(self)

    def rows_schema(self) -> pa.Schema:
        return self._laid_out(no_rows(state_of(self.fresh()).plan.result_schema)).schema

    def time_type(self) -> pa.DataType:
        return state_of(self.fresh()).plan.measure.type

    def fresh(self) -> Operator:
        return start(self.spec, self.schema)

    def check(self, operator: Operator) -> bool:
        state_of(operator).plan.columns.check(self.schema)
        return False

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


def check_bytes(job: Query, stats: Mapping[str, Any], partition: int) -> None:
    """Stop the query before it publishes a state that is larger than ``max_bytes``."""
    size = stats["bytes"]
    if job.max_bytes is not None and size > job.max_bytes:
        raise StateError(
            f"partition {partition} would hold {size} bytes after this batch, and max_bytes is {job.max_bytes}; the "
            "state is as it was before the batch, which Spark repeats with the same rows. Start the query with a "
            "larger max_bytes, or with more partitions (rescale)"
        )
