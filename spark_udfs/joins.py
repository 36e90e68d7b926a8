"""``window_join``: a join of two batch or two streaming DataFrames."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from slicing import FeatureSpec, JoinSpec, manual
from slicing.joins.exchange import (
    Reader,
    Spread,
    answer_of,
    check,
    manual_side,
    needed,
    plan_of,
    sent_otherwise,
    start,
    state_of,
)
from slicing.joins.features.plan import over_events
from slicing.joins.progress import Marks
from slicing.joins.within import LEFT, RIGHT
from slicing.system.arguments import at_least_one, says_arguments
from slicing.system.filesystems import absolute
from spark_udfs import plans
from spark_udfs.engines import JOINS, engine
from spark_udfs.files import FileRows, Reading, read
from spark_udfs.held import HOLD_BYTES
from spark_udfs.jobs import Answered, sent
from spark_udfs.placed import by_place
from spark_udfs.policy import DEFAULT, Policy
from spark_udfs.progress import Step, judged_by, watch
from spark_udfs.stages import PACKED, batches_of, errors_as_rows, gathered, settle, to_places
from spark_udfs.types import check_types, spark_schema, type_of
from spark_udfs.versions import Files

PIECES = pa.schema([pa.field("place", pa.int32()), pa.field("piece", pa.int32()), pa.field("slices", pa.binary())])


@says_arguments
def window_join(
    left: DataFrame | FileRows,
    right: DataFrame | FileRows,
    spec: JoinSpec,
    state: str | None = None,
    partitions: int | None = None,
    name: str = "joined",
    late_path: str | None = None,
    keep_versions: int = 100,
    progress: str = "prompt",
    spread: str | int | None = None,
    pieces: int = 16,
    hold_bytes: int = HOLD_BYTES,
) -> DataFrame:
    """Join two DataFrames by keys and time; the result has the columns of :class:`slicing.JoinOutput`'s ``rows``.

    Two batch DataFrames are read as a whole: no row is late, and ``state`` is ignored. For two streaming DataFrames a
    micro-batch works like a ``push(left, right)`` of :class:`slicing.JoinOperator`. The output mode is append.

    Parameters
    ----------
    left, right : DataFrame or FileRows
        Both batch, or both streaming; or results of :func:`read_files`.
    spec : JoinSpec
        The join. Rows of equal time have no order of arrival here: for ``match``, name a ``sequence`` column. Otherwise
        rows of one batch are ordered by their columns.
    state : str, optional
        Where a stream keeps its rows: a path or URI that pyarrow or fsspec can open, reachable for all executors.
    partitions : int, optional
        The number of parts into which keys are split; ``spark.sql.shuffle.partitions`` if left out. It must not change
        while the query lives (see :func:`rescale`).
    name : str
        The name of the folder under ``state`` and of the metrics.
    late_path : str, optional
        A folder for Parquet files of late rows, in its folders ``left`` and ``right``; each row is written once.
    keep_versions : int
        The number of batches that a query can be set back.
    progress : str
        ``"prompt"``: a batch evicts the rows that its own rows complete. ``"native"``: it evicts what the earlier
        batches complete, as Spark's own joins do (these also have ``JoinSpec(progress="least")``).
    spread : span, optional
        Give a key one place for each span of this length of the left rows' time, for keys with more rows than one task
        can join. A right row goes to all places that may have a partner for it, about ``1 + (before + after) /
        spread``. Not for ``how="right"`` and ``"full"``, and such a query cannot be rescaled.
    pieces : int
        For batch DataFrames: each part is answered in so many pieces of its keys, one after the other. A worker holds
        the rows of only one piece at a time.
    hold_bytes : int
        The bytes of state that a Python worker keeps in memory between batches (1 GiB): the places of its tasks that
        were written last.

    Returns
    -------
    DataFrame
        The progress of the query has the accounting of each batch in ``observedMetrics[name].stats``, a dict.

    Examples
    --------
    >>> import slicing as sl
    >>> shown = spark.createDataFrame([("x", 1), ("y", 2)], "ad string, shown_at long")
    >>> clicks = spark.createDataFrame([("x", 5)], "ad string, clicked_at long")
    >>> asked = sl.JoinSpec(on=["ad"], time=("shown_at", "clicked_at"), within=(0, 10), how="left")
    >>> window_join(shown, clicks, asked, partitions=1).select("ad", "clicked_at").orderBy("ad").collect()
    [Row(ad='x', clicked_at=5), Row(ad='y', clicked_at=None)]
    """
    if not isinstance(spec, JoinSpec):
        raise TypeError(f"window_join takes two DataFrames and a sl.JoinSpec; got {type_of(spec)}")
    arguments = StreamArguments(state, name, late_path, keep_versions, progress, hold_bytes)
    return two_frames("window_join", JoinJob, (left, right), spec, arguments, partitions, pieces, spread)


@dataclass(frozen=True)
class StreamArguments:
    """The arguments of a stream other than its spec."""

    state: str | None
    name: str
    late_path: str | None
    keep_versions: int
    progress: str
    hold_bytes: int


def two_frames(
    function: str,
    kind: type[JoinJob],
    sides: tuple[DataFrame | FileRows, DataFrame | FileRows],
    spec: Any,
    arguments: StreamArguments,
    partitions: int | None,
    pieces: int,
    spread: str | int | None = None,
) -> DataFrame:
    """The plan of a query on two DataFrames: a first stage for each of them, and one second stage."""
    frames = plans.frame_of(sides[LEFT], function), plans.frame_of(sides[RIGHT], function)
    spark, streams = frames[LEFT].sparkSession, frames[LEFT].isStreaming
    _check_both(function, spec.sides, frames)
    check(spec)
    plans.check_state_arguments(
        arguments.state, arguments.name, arguments.late_path, arguments.keep_versions, arguments.hold_bytes
    )
    plans.check_progress(arguments.progress)
    at_least_one(pieces, "pieces")
    silent = manual_side(spec)
    if streams and silent is not None:
        raise ValueError(
            f"the watermark=sl.manual() of {silent} would let nothing go: a streaming query has no advance(time); "
            "use sl.bounded(delay)"
        )
    count = plans.places(spark, partitions, bool(spec.on) or spread is not None)
    schemas = _schemas(spec, sides, frames, arguments.late_path is not None and streams)
    spec = with_schemas(spec, schemas)
    if not streams:
        spec = replace(spec, watermark=(manual(), manual()), idle=None)
    if spread is not None:
        Spread(spec, plan_of(spec, *schemas), spread)
    readings = tuple(data.reading if isinstance(data, FileRows) else None for data in sides)
    files = None
    if streams:
        watch(spark)
        spans = None if spread is None else str(spread)
        kept_as = spec, arguments.keep_versions, spans, arguments.hold_bytes
        files = plans.files_of(arguments.state, arguments.name, count, *kept_as)
    late_path = None if arguments.late_path is None or not streams else absolute(arguments.late_path)
    job = kind(spec, count, files, late_path, readings, arguments.progress == "prompt", spread, pieces)
    sent_as, collected = (PACKED if streams else PIECES), []
    for side, (frame, stage) in enumerate(zip(frames, (collect_left, collect_right), strict=True)):
        frame = frame if readings[side] else plans.numbered(frame, schemas[side].names)
        collected.append(frame.mapInArrow(errors_as_rows(stage, job, reads=True), spark_schema(sent_as)))
    both = collected[LEFT].unionByName(collected[RIGHT])
    if streams:
        return plans.answered(both, job)
    result = job.rows_schema()
    plans.check_names(result.names, spark.conf.get("spark.sql.caseSensitive") == "true")
    by_piece = by_place(both, count).sortWithinPartitions("piece")
    return by_piece.mapInArrow(errors_as_rows(answer, job), spark_schema(result))


@dataclass(frozen=True)
class JoinJob:
    """What the worker functions of a query on two DataFrames need to know; the spec has the columns of both sides."""

    spec: Any
    partitions: int
    files: Files | None = None
    late_path: str | None = None
    readings: tuple[Reading | None, ...] = (None, None)
    prompt: bool = True
    spread: str | int | None = None
    pieces: int = 1
    policy: Policy = DEFAULT

    counted = JOINS.counted
    largest = ("largest_kept", "restore_ms", "publish_ms", "lag_ms")
    max_bytes = None  # only window_aggregate has a limit

    @property
    def marks(self) -> tuple[str, ...]:
        return ("watermark", *(f"watermark_{side}" for side in self.spec.sides))

    @property
    def name(self) -> str:
        return engine(self.spec).name if self.files is None else self.files.name

    def __reduce__(self) -> tuple[Any, ...]:
        return sent(self)

    def rows_schema(self) -> pa.Schema:
        return plan_of(self.spec, *self.spec.schemas).output

    def time_type(self) -> pa.DataType:
        return state_of(self.fresh()).plan.measure.type

    def fresh(self) -> Any:
        return start(self.spec)

    def check(self, operator: Any) -> bool:
        before = [side.schema for side in state_of(operator).plan.sides]
        if before == list(self.spec.schemas):
            return False
        for side, name in enumerate(self.spec.sides):  # late_path= sends columns that the state does not keep
            old, new = (needed(self.spec, schemas, side) for schemas in (before, self.spec.schemas))
            if old != new:
                was, now = (", ".join(f"{f.name} {f.type}" for f in s) for s in (old, new))
                raise TypeError(
                    f"{name} had the columns {was} when the query began, and has {now} now: they stay as they "
                    "are as long as the query lives; select and cast them"
                )
        sent_otherwise(operator, *self.spec.schemas)
        return True

    def whole(self, blobs: list[bytes], place: int) -> pa.Table:
        return answer_of(self.spec, blobs)

    def rest(self, operator: Any) -> pa.Table:
        rows: pa.Table = operator.flush().rows
        return rows

    def answered(self, out: Any, operator: Any) -> Answered:
        state = state_of(operator)
        measure = state.plan.measure
        marks = [None if out.watermark is None else measure.instant(out.watermark, "watermark"), *state.judge()]
        reached = [measure.array(np.array([mark or 0]), np.array([mark is None])) for mark in marks]
        counts = self.figures(out.stats)
        late = {side: getattr(out, f"late_{side}") for side in self.spec.sides}
        return Answered(out.rows, late, counts | {"largest_kept": counts["kept"]}, reached)

    def figures(self, stats: Mapping[str, Any]) -> dict[str, Any]:
        """The accounting of a push."""
        return {**stats, "kept": stats["held"]}


def collect_left(job: JoinJob, batches: Iterable[pa.RecordBatch], step: Step | None = None) -> Iterator[pa.RecordBatch]:
    """The first stage for the left side: rows to the bytes that each place admits."""
    yield from _collected(job, LEFT, batches, step)


def collect_right(
    job: JoinJob, batches: Iterable[pa.RecordBatch], step: Step | None = None
) -> Iterator[pa.RecordBatch]:
    """The first stage for the right side: rows to the bytes that each place admits."""
    yield from _collected(job, RIGHT, batches, step)


def _collected(
    job: JoinJob, side: int, batches: Iterable[pa.RecordBatch], step: Step | None
) -> Iterator[pa.RecordBatch]:
    settle()
    marks = Marks()
    if job.files is not None:
        known = judged_by(job.files, step or Step.current())
        marks = Marks(*known) if isinstance(known, tuple) else marks
    schema, reading = job.spec.schemas[side], job.readings[side]
    rows = batches if reading is None else read(batches, schema, reading)
    streams = job.files is not None
    count = job.partitions if streams else job.partitions * job.pieces

    def begun() -> Reader:
        return Reader(job.spec, side, count, marks, job.spread)

    def given(reader: Reader) -> Iterator[pa.RecordBatch]:
        return to_places(reader.packed(job.late_path is not None), job.policy) if streams else _to_pieces(job, reader)

    reader = begun()
    for some in gathered(rows, schema, job.policy):
        reader.push(some)
        if reader.nbytes > job.policy.bytes_at_once:
            yield from given(reader)
            reader = begun()
    yield from given(reader)


def _to_pieces(job: JoinJob, reader: Reader) -> Iterator[pa.RecordBatch]:
    """The bytes of each piece of each place as rows; pieces without rows are left out."""
    for at, blob in enumerate(reader.packed()):
        if reader.sends(at):
            place, piece = divmod(at, job.pieces)
            columns = [pa.array([place], pa.int32()), pa.array([piece], pa.int32()), pa.array([blob], pa.binary())]
            yield pa.RecordBatch.from_arrays(columns, schema=PIECES)


def answer(job: JoinJob, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The results of the pieces of a place, which arrive one after the other."""
    settle()
    held: list[bytes] = []
    current = None
    for batch in batches:
        for piece, blob in zip(batch.column(1).to_pylist(), batch.column(2), strict=True):
            if held and piece != current:
                yield from batches_of(answer_of(job.spec, held))
                held = []
            current = piece
            held.append(blob.as_py())
    if held:
        yield from batches_of(answer_of(job.spec, held))


def _check_both(function: str, sides: tuple[str, str], frames: tuple[DataFrame, DataFrame]) -> None:
    kinds = ["streaming" if frame.isStreaming else "batch" for frame in frames]
    if kinds[LEFT] != kinds[RIGHT]:
        raise ValueError(
            f"{sides[LEFT]} is {kinds[LEFT]} and {sides[RIGHT]} is {kinds[RIGHT]}: {function} takes two of a kind. A "
            "table that does not change joins a stream by Spark's own left.join(right, on)"
        )


def _schemas(
    spec: Any,
    sides: tuple[DataFrame | FileRows, DataFrame | FileRows],
    frames: tuple[DataFrame, DataFrame],
    all_of_them: bool,
) -> tuple[pa.Schema, pa.Schema]:
    """The columns of both sides that are read; all columns if late rows are written."""
    left, right = (plans.schema_of(data, frame) for data, frame in zip(sides, frames, strict=True))
    for side, schema in enumerate((left, right)):
        data = sides[side]
        if isinstance(data, FileRows):
            data.check_types(_computed_with(spec, side))
        else:
            check_types(frames[side].schema, _computed_with(spec, side))
            if side == LEFT or (isinstance(spec, JoinSpec) and not spec.left_only):
                _check_all_travel(frames[side], schema, spec.sides[side])
    found = []
    for side, schema in enumerate((left, right)):
        found.append(schema if all_of_them else needed(spec, (left, right), side))
    return found[LEFT], found[RIGHT]


def _computed_with(spec: JoinSpec | FeatureSpec, side: int) -> list[str]:
    """The columns of a side that the query compares or aggregates, not those that it passes on."""
    names = [spec.time[side], *(pair[side] for pair in spec.on)]
    if isinstance(spec, FeatureSpec):
        return names if side == LEFT else [*names, *over_events(spec).columns()]
    names += [] if spec.where is None else spec.where.fields  # the other side may have a column of this name as well
    return names if side == LEFT or spec.sequence is None else [*names, spec.sequence]


def _check_all_travel(frame: DataFrame, schema: pa.Schema, side: str) -> None:
    """Raise for columns that workers cannot receive: all columns of this side are in the result."""
    for field in frame.schema.fields:
        if field.name not in schema.names:
            raise TypeError(
                f"column {field.name!r} of {side} has type {field.dataType.simpleString()}, which cannot be "
                "sent to Python's workers; drop or cast it"
            )


def with_schemas(spec: Any, schemas: tuple[pa.Schema, pa.Schema]) -> Any:
    """The spec with the columns of both sides."""
    return replace(spec, schemas=schemas)
