"""``store="spark"``: a place keeps its state in Spark's own store, by ``transformWithState``.

```
rows ─► mapInArrow: rows of each place ─► groupBy("place").transformWithState: judge, merge, keep, give windows
```

For workers that reach no storage: the JVM writes the state of a place into the checkpoint. Readers then cannot look up
the watermark before a batch, so rows are sent unjudged, and their place judges them. A version has the same bytes as in
files (``Owner.sealed``): one value for the whole state, and a list of what the batches since then have brought.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, GroupedData, Row, SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from slicing import SnapshotError, Spec
from slicing.system.bundles import table_bytes, table_of, unbundled
from slicing.system.sealed import SealError, content_of, header_of
from spark_udfs.engines import engine
from spark_udfs.jobs import Query, Taken, results_schema
from spark_udfs.progress import Step
from spark_udfs.stages import Batches, batches_of, entered, errors_as_rows, settle
from spark_udfs.state import HELD
from spark_udfs.types import spark_schema
from spark_udfs.versions import FORMAT, MAGIC, Files, Owner, StateError

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_SENT = "table binary"

_GO_ON = "give the changed query another checkpoint; store='spark' has no change"


def check(spark: SparkSession, spec: Spec, state: str | None) -> None:
    """Raise for what is not possible with the state in Spark's own store."""
    if state is not None:
        raise ValueError(f"store='spark' keeps the state in the query's checkpoint: leave state out; got {state!r}")
    wrong = cannot(spec)
    if wrong is not None:
        raise ValueError(f"store='spark' cannot have {wrong}; give state= instead")
    if not hasattr(GroupedData, "transformWithState"):
        raise ValueError("store='spark' needs transformWithState, which PySpark has since 4.1; give state= instead")
    given = spark.conf.get(PROVIDER)
    if not str(given).endswith("RocksDBStateStoreProvider"):
        raise ValueError(
            f"store='spark' needs the state store that transformWithState works on: spark.conf.set({PROVIDER!r}, "
            f"{ROCKSDB!r}) before the query starts; it is {given!r}"
        )
    if find_spec("google") is None or find_spec("google.protobuf") is None:
        raise ValueError(
            "store='spark' needs the package protobuf here and on the executors, as PySpark's transformWithState does: "
            "pip install protobuf"
        )


def cannot(spec: Spec) -> str | None:
    """What in a spec needs the watermark where rows are read (only places know it here); None if nothing does."""
    if getattr(spec.watermark, "at_most_ahead", None) is not None:
        return f"watermark={spec.watermark!r}: readers do not know which rows are too far ahead"
    whole = (name for name, window in spec.windows.items() if getattr(window, "full", False))
    reasons = (f"windows[{name!r}] with full=True: readers do not know where the stream begins" for name in whole)
    return next(reasons, None)


def merged(collected: DataFrame, job: Query) -> DataFrame:
    """The second stage, with the state of places in Spark's store."""
    tables = collected.groupBy("place").transformWithState(_Places(job), _SENT, "append", "none")

    def unpacked(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for table in batch.column(0):
                yield from table_of(table.as_buffer()).to_batches()

    return tables.mapInArrow(unpacked, spark_schema(results_schema(job)))


class _Places(StatefulProcessor):
    """All places of a task, one after the other."""

    def __init__(self, job: Query) -> None:
        self._job = job

    def init(self, handle: Any) -> None:
        values = (handle.getValueState(name, kind) for name, kind in (("mark", "mark string"), ("base", "base binary")))
        self._kept = (*values, handle.getListState("changes", "change binary"))

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        for batch in errors_as_rows(partial(self._place, key[0]), self._job)(rows):
            yield Row(table=table_bytes(pa.Table.from_batches([batch])))

    def _place(self, number: int, job: Query, rows: Iterator[Row]) -> Iterator[pa.RecordBatch]:
        settle()
        assert job.files is not None
        received = list(rows)
        errors = [row.error for row in received if row.error is not None]
        if errors:
            raise StateError(errors[0])
        step = replace(Step.current(), partition=number)
        storage = InSpark(Owner(job.files, step.query, number), step.batch, *self._kept)
        blobs = [bytes(row.slices) for row in received if row.slices is not None]
        yield from batches_of(entered(job, storage, blobs, step))

    def close(self) -> None: ...


@dataclass(frozen=True)
class InSpark:
    """A place that keeps its state in Spark's store: the mark of its version, the state, and the changes since then."""

    owner: Owner
    batch: int
    mark: Any
    base: Any
    changes: Any

    def taken(self, job: Query) -> Taken:
        found = self.mark.get()
        if found is None:
            if self.batch > 0:
                raise StateError(
                    f"{self._what} is missing before batch {self.batch}: the query began with another store= or "
                    "partitions=; keep these, or begin anew with another checkpoint"
                )
            return None, job.fresh(), False
        held = HELD.take(self._folder, found[0], job.spec)
        header, operator = held or self._read(job)
        if header["partitions"] != self.owner.files.partitions:
            raise StateError(
                f"{self._what} was written for partitions={header['partitions']}, and this query has "
                f"{self.owner.files.partitions}: keep the number; store='spark' has no rescale"
            )
        if header["name"] != self.owner.files.name:  # Spark tells the queries of a plan apart by their places alone
            raise StateError(
                f"{self._what} was written for name={header['name']!r}, and this query has "
                f"{self.owner.files.name!r}: keep the names, and the order in which a union or a join has its queries"
            )
        self.owner.check(header, self._what, _GO_ON)
        job.check(operator)
        return header, operator, held is not None

    def _read(self, job: Query) -> tuple[dict[str, Any], Any]:
        versions = [self.base.get()[0], *(change for (change,) in self.changes.get())]
        operator: Any = None
        try:
            for version in versions:
                header, body = header_of(MAGIC, FORMAT, memoryview(version), self._what)
                content = content_of(header, body, self._what)
                if operator is None:
                    self.owner.check(header, self._what, _GO_ON)
                    operator = engine(job.spec).loaded(job.spec, content)
                else:
                    engine(job.spec).replay(operator, map(bytes, unbundled(content)), header["prompt"])
        except (SealError, SnapshotError, pa.ArrowException) as error:
            raise StateError(f"{error}") from None
        return header, operator

    def put(self, operator: Any, before: dict[str, Any] | None, blobs: Sequence[bytes], size: int, job: Query) -> int:
        sealed = self.owner.sealed(operator, self.batch, before, blobs, job.prompt, job.policy)
        if sealed.few:
            self.changes.appendValue((bytes(sealed.data),))
        else:
            self.base.update((bytes(sealed.data),))
            self.changes.clear()
        self.mark.update((sealed.mark,))
        if sealed.header["snapshot"] >= job.policy.large:
            header = header_of(MAGIC, FORMAT, memoryview(sealed.data), "")[0]
            HELD.put(self._folder, sealed.mark, header, operator, size, self.owner.files.hold)
        return int(sealed.header["beside"]) + len(sealed.data)

    @property
    def _folder(self) -> str:
        files: Files = self.owner.files
        return f"{self.owner.query}/{files.name}/{files.partitions}/{self.owner.partition}"

    @property
    def _what(self) -> str:
        return f"the state of partition {self.owner.partition} in Spark's store"
