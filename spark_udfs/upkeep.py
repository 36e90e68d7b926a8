"""What is done to the state of a query from beside it: ``drain``, ``peek``, ``rescale``, ``change``.

All of them go by the query's checkpoint: its id says whose state it is, its log of commits which batch is complete.
They run as Spark jobs, a task a partition; no state is in the driver's memory.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from slicing import FeatureSpec, Spec
from slicing.closing.wide import check_layout
from slicing.exchange import check, operator_of, state_of
from slicing.lifecycle.change import complete_from, given_for, moved, whole_from
from slicing.system.arguments import at_least_one
from slicing.system.filesystems import absolute
from spark_udfs import plans, stages
from spark_udfs.engines import Asked, engine
from spark_udfs.features import FEATURED, FeatureJob
from spark_udfs.joins import JOINED, JoinJob, with_schemas
from spark_udfs.placed import by_place
from spark_udfs.stages import Job, Query
from spark_udfs.state import Files, Place, StateError
from spark_udfs.types import arrow_schema, spark_schema

Batches = Iterable[pa.RecordBatch]
_ANSWERS = pa.schema([("place", pa.int32()), ("answer", pa.binary())])
_PIECES = pa.schema([("place", pa.int32()), ("part", pa.int32()), ("piece", pa.binary()), ("error", pa.binary())])
_REFUSALS = (StateError, ValueError, TypeError)


@dataclass(frozen=True)
class Stand:
    """Where a query stands, by its checkpoint."""

    query: str
    begun: int
    done: int

    @staticmethod
    def of(spark: SparkSession, checkpoint: str | None, function: str) -> Stand:
        """Read by Spark, which opens any path that its queries have checkpoints on."""
        if checkpoint is None:
            raise StateError(
                f"{function} needs checkpoint=, that of the query (its checkpointLocation): it says whose state is "
                "meant and which batch is complete"
            )
        try:
            query = json.loads(spark.read.text(f"{checkpoint}/metadata").collect()[0][0])["id"]
            begun, done = (_newest(spark, f"{checkpoint}/{log}") for log in ("offsets", "commits"))
        except AnalysisException:
            what = "it has no metadata, offsets/ or commits/"
            raise StateError(f"{checkpoint} is no query's checkpoint: {what}") from None
        if begun is None or done is None:
            raise StateError(f"the query at {checkpoint} has not completed a batch yet: it has no state")
        return Stand(query, begun, done)


def _check(function: str, spec: object, state: object, name: object) -> None:
    """Refuse wrong arguments that :func:`drain`, :func:`peek`, :func:`rescale` and :func:`change` share."""
    if not isinstance(spec, Asked):
        raise TypeError(
            f"{function} takes the query's sl.Spec, sl.JoinSpec or sl.FeatureSpec; got {plans.type_of(spec)}"
        )
    plans.check_path(state, "state")
    if name is not None:
        plans.check_name(name, "name")


def _newest(spark: SparkSession, log: str) -> int | None:
    """The last batch in one of a checkpoint's logs."""
    entries = spark.read.format("binaryFile").option("pathGlobFilter", "[0-9]*").load(log).select("path").collect()
    names = (entry.path.rpartition("/")[2] for entry in entries)
    return max((int(name) for name in names if name.isdigit()), default=None)


def drain(
    spark: SparkSession,
    spec: Asked,
    state: str,
    partitions: int | None = None,
    name: str | None = None,
    checkpoint: str | None = None,
    layout: str = "long",
) -> DataFrame:
    """What a stopped stream has left open, as a batch DataFrame; the stream has ended when it was read.

    Of ``window_aggregate`` these are the open windows, of ``window_join`` rows that are still without a partner.
    A batch that Spark has not completed is refused: run the query once more, with ``trigger(availableNow=True)``.
    Draining again gives the same rows; the query refuses to go on after it, unless it is taken back to before its last
    batch, which undoes the end. Write the rows beside the stream's own output:
    of a folder that a file sink wrote, Spark reads only what that sink has listed.

    Parameters
    ----------
    spark : SparkSession
        The session.
    spec : Spec, JoinSpec or FeatureSpec
        The query's.
    state : str
        Where it keeps its state.
    partitions : int, optional
        In how many parts its state is; needed where it was rescaled.
    name : str, optional
        The query's ``name``, where it has one.
    checkpoint : str
        Its ``checkpointLocation``: which batch is complete.
    layout : str
        As of ``window_aggregate``.

    Returns
    -------
    DataFrame
        The columns of the query.

    Examples
    --------
    The end of the stream in :func:`read_files`'s example:

    >>> rest = drain(spark, spec, folder + "/state", partitions=1, checkpoint=folder + "/checkpoint")
    >>> rest.select("window_end", "k", "s").collect()
    [Row(window_end=20, k='b', s=3)]
    """
    _check("drain", spec, state, name)
    stand = Stand.of(spark, checkpoint, "drain")
    if stand.begun != stand.done:
        raise StateError(
            f"batch {stand.begun} of the query at {checkpoint} has begun, batch {stand.done} is its last complete one; "
            "run the query once more with trigger(availableNow=True), then drain"
        )
    return _open_windows(spark, spec, _files(spec, state, partitions, name, stand), stand, True, layout)


def peek(
    spark: SparkSession,
    spec: Asked,
    state: str,
    partitions: int | None = None,
    name: str | None = None,
    checkpoint: str | None = None,
    layout: str = "long",
) -> DataFrame:
    """What a query has open after its last complete batch, as a batch DataFrame: what :func:`drain` would give.

    The query goes on: it may run meanwhile.

    Parameters
    ----------
    spark : SparkSession
        The session.
    spec : Spec, JoinSpec or FeatureSpec
        The query's.
    state : str
        Where it keeps its state.
    partitions : int, optional
        In how many parts its state is; needed where it was rescaled.
    name : str, optional
        The query's ``name``, where it has one.
    checkpoint : str
        Its ``checkpointLocation``: which batch is complete.
    layout : str
        As of ``window_aggregate``.

    Returns
    -------
    DataFrame
        The columns of the query.

    Examples
    --------
    Of the stream in :func:`read_files`'s example:

    >>> peek(spark, spec, folder + "/state", checkpoint=folder + "/checkpoint").select("k", "s").collect()
    [Row(k='b', s=3)]
    """
    _check("peek", spec, state, name)
    stand = Stand.of(spark, checkpoint, "peek")
    return _open_windows(spark, spec, _files(spec, state, partitions, name, stand), stand, False, layout)


def rescale(
    spark: SparkSession,
    spec: Asked,
    state: str,
    to: int,
    partitions: int | None = None,
    name: str | None = None,
    checkpoint: str | None = None,
) -> int:
    """Re-partition a stopped query's state, exactly. The old state stays where it is.

    Parameters
    ----------
    spark : SparkSession
        The session.
    spec : Spec, JoinSpec or FeatureSpec
        The query's.
    state : str
        Where it keeps its state.
    to : int
        The ``partitions`` that the query has from now on.
    partitions : int, optional
        In how many parts its state is; needed where it was rescaled.
    name : str, optional
        The query's ``name``, where it has one.
    checkpoint : str
        Its ``checkpointLocation``: which batch is complete.

    Returns
    -------
    int
        The batch that the query stands at.

    Examples
    --------
    Of the stream in :func:`read_files`'s example:

    >>> rescale(spark, spec, folder + "/state", to=2, checkpoint=folder + "/checkpoint")
    0
    """
    _check("rescale", spec, state, name)
    at_least_one(to, "to")
    if not (spec.by if isinstance(spec, Spec) else spec.on) and to != 1:
        raise ValueError(f"a query without keys (by=[], on=[]) has one partition; got to={to}")
    if isinstance(spec, Spec):
        check(spec, to)
    stand = Stand.of(spark, checkpoint, "rescale")
    old = _files(spec, state, partitions, name, stand)
    new = replace(old, partitions=to)

    def taken_apart(numbers: Batches) -> Iterator[pa.RecordBatch]:
        return pieces(spec, old, stand, to, numbers)

    def put_together(batches: Batches) -> Iterator[pa.RecordBatch]:
        return gathered(spec, new, stand, batches)

    places = spark.range(0, old.partitions, 1, old.partitions).mapInArrow(taken_apart, spark_schema(_PIECES))
    _answers(by_place(places, to).mapInArrow(put_together, spark_schema(_ANSWERS)))
    return stand.done


def change(
    spark: SparkSession,
    spec: Spec,
    changed_spec: Spec,
    state: str,
    to: str,
    partitions: int | None = None,
    name: str = "windows",
    checkpoint: str | None = None,
    data: Any = None,
) -> dict[str, dict[str, Any]]:
    """Add or remove windows and aggregates of a stopped query, which goes on from its checkpoint under the name ``to``.

    What is added begins now: an added window comes out if it starts when it is complete or later, an added aggregate is
    null in windows that start before.

    Parameters
    ----------
    spark : SparkSession
        The session.
    spec : Spec
        The query's.
    changed_spec : Spec
        What it is from now on: other windows and aggregates, and nothing else.
    state : str
        Where it keeps its state.
    to : str
        The ``name`` that the query has from now on.
    partitions : int, optional
        In how many parts its state is; needed where it was rescaled.
    name : str, optional
        The query's ``name``, where it has one.
    checkpoint : str
        Its ``checkpointLocation``: which batch is complete.
    data : DataFrame, optional
        What is to be read, needed if it has columns that were not read before.

    Returns
    -------
    dict
        ``{"windows": ..., "aggs": ...}``: from when on each that was added is complete; None: from the first row on.

    Examples
    --------
    Of the stream in :func:`read_files`'s example:

    >>> more = sl.Spec("t", spec.windows, {**spec.aggs, "m": sl.mean("v")}, by="k")
    >>> change(spark, spec, more, folder + "/state", "more", partitions=1, checkpoint=folder + "/checkpoint")
    {'windows': {}, 'aggs': {'m': None}}
    """
    _check("change", spec, state, name)
    for one in (spec, changed_spec):
        if not isinstance(one, Spec):
            raise TypeError(
                f"change is for the windows and aggregates of a sl.Spec; got {type(one).__name__}: another join "
                "is another query, with its own checkpoint and state= or name="
            )
    plans.check_name(to, "to")
    stand = Stand.of(spark, checkpoint, "change")
    old = _files(spec, state, partitions, name, stand)
    check(changed_spec, old.partitions)
    new = replace(old, name=to, fingerprint=changed_spec.fingerprint())
    schema = getattr(data, "schema", None)
    schema = arrow_schema(schema) if isinstance(schema, StructType) else schema
    work = Change(spec, changed_spec, old, new, stand, schema)
    return work.done(lambda task: _asked(spark, old.partitions, task))


# --- their tasks ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Change:
    """The three rounds of :func:`change`, each of any place: its latest time, what is whole from when on, its state."""

    spec: Spec
    changed: Spec
    old: Files
    new: Files
    stand: Stand
    columns: pa.Schema | None

    def done(self, ask: Callable[[Callable[[int], Any]], list[Any]]) -> dict[str, dict[str, Any]]:
        """All rounds; ``ask`` tells what a function of a place answers, of all places."""
        if self.new.name == self.old.name:
            where = f"{self.old.root}/{self.old.name}"
            raise StateError(f"{where} cannot be changed: its new name must be another one than {self.old.name!r}")
        newest = max((time for time in ask(self.newest) if time is not None), default=None)
        found = ask(lambda place: self.whole_from(place, newest))
        since, agg_since = ({n: max(ticks[i][n] for ticks in found) for n in found[0][i]} for i in (0, 1))
        told: dict[str, dict[str, Any]] = ask(lambda place: self.write(place, newest, since, agg_since))[0]
        return told

    def newest(self, place: int) -> int | None:
        """The latest time of the rows that a place has seen."""
        newest: int | None = _going_on(self.old, self.stand, place).header(self.stand.done)["newest"]
        return newest

    def whole_from(self, place: int, newest: int | None) -> tuple[dict[str, int], dict[str, int]]:
        """From which start on what is added would be whole, if there was this place alone."""
        _, operator, _ = self.old.place(self.stand.query, place).restore(self.spec, self.stand.done)
        state = state_of(operator).but(newest=newest)
        return whole_from(state, self.changed, given_for(state, self.changed, self.columns))

    def write(
        self, place: int, newest: int | None, since: dict[str, int], agg_since: dict[str, int]
    ) -> dict[str, dict[str, Any]]:
        """Publish the place's state for the changed spec."""
        _, operator, _ = self.old.place(self.stand.query, place).restore(self.spec, self.stand.done)
        state = state_of(operator).but(newest=newest)
        state = moved(state, self.changed, given_for(state, self.changed, self.columns), since, agg_since)
        self.new.place(self.stand.query, place).write(operator_of(state), self.stand.done)
        return complete_from(self.spec, [state])


def pieces(spec: Asked, old: Files, stand: Stand, to: int, numbers: Batches) -> Iterator[pa.RecordBatch]:
    """The state of some places, taken apart for ``to`` places."""
    for batch in numbers:
        for part in batch.column(0).to_pylist():
            try:
                place = _going_on(old, stand, part)
                header, operator, _ = place.restore(spec, stand.done)
                if "spread" in header:
                    raise StateError(
                        f"{old.root}/{old.name} has spread={header['spread']!r}: a key's rows lie in several places, "
                        "and such a query keeps its number of partitions"
                    )
                for target, some in enumerate(engine(spec).split(operator, to)):
                    yield _row(_PIECES, target, part, some.snapshot(), None)
            except _REFUSALS as error:
                for target in range(to):
                    yield _row(_PIECES, target, part, None, pickle.dumps(error))


def gathered(spec: Asked, new: Files, stand: Stand, batches: Batches) -> Iterator[pa.RecordBatch]:
    """The pieces of one place, published as its state."""
    rows = [row for batch in batches for row in batch.to_pylist()]
    for place in sorted({row["place"] for row in rows}):
        mine = sorted((row for row in rows if row["place"] == place), key=lambda row: int(row["part"]))
        errors = [row["error"] for row in mine if row["error"] is not None]
        if not errors:
            some = [engine(spec).restore(spec, row["piece"]) for row in mine]
            new.place(stand.query, place).write(engine(spec).joined(some), stand.done)
        yield _row(_ANSWERS, place, errors[0] if errors else pickle.dumps(None))


def _going_on(files: Files, stand: Stand, number: int) -> Place:
    """A place of a query that goes on."""
    place = files.place(stand.query, number)
    ended = place.drained(stand.done)
    if ended is not None:
        raise StateError(f"{files.root}/{files.name} was drained after batch {ended}, which ended its stream")
    return place


def _files(spec: Asked, state: str | None, partitions: int | None, name: str | None, stand: Stand) -> Files:
    """The state files of a query; where it was rescaled, of the number that has its last complete batch."""
    if state is None:
        raise StateError(
            "state= is None: only state files can be looked into, drained, rescaled or changed; a query with "
            "store='spark' has its state in Spark's own store"
        )
    if name is None:
        name = "windows" if isinstance(spec, Spec) else FEATURED if isinstance(spec, FeatureSpec) else JOINED
    files = Files(absolute(state), name, 0, spec.fingerprint())
    found = [n for n in files.counts(stand.query) if partitions in (None, n)]
    if len(found) > 1:
        found = [n for n in found if stand.done in replace(files, partitions=n).place(stand.query, 0).batches()]
    if len(found) != 1:
        there = ", ".join(map(str, files.counts(stand.query)))
        held = f"state for partitions= {there}: say which" if there else f"no state of query {stand.query}"
        raise StateError(f"{files.root}/{name} holds {held}" + (f"; got {partitions}" if partitions else ""))
    return replace(files, partitions=found[0])


def _open_windows(spark: SparkSession, spec: Asked, files: Files, stand: Stand, ends: bool, layout: str) -> DataFrame:
    wide = isinstance(spec, Spec) and check_layout(layout, spec)

    def given(place: int) -> Any:
        _, operator, _ = files.place(stand.query, place).restore(spec, stand.done)
        return engine(spec).given(operator)

    (schema,) = _asked(spark, 1, given)
    job: Query
    if isinstance(spec, Spec):
        job = Job(spec, schema, files.partitions, files, wide=wide)
    else:
        kind = FeatureJob if isinstance(spec, FeatureSpec) else JoinJob
        job = kind(with_schemas(spec, schema), files.partitions, files)

    def rest(numbers: Batches) -> Iterator[pa.RecordBatch]:
        return stages.drain(job, numbers, stand.done, stand.query, ends)

    return spark.range(0, files.partitions, 1, files.partitions).mapInArrow(rest, spark_schema(job.rows_schema()))


def _asked(spark: SparkSession, count: int, task: Callable[[int], Any]) -> list[Any]:
    """What a function of the number of a place answers, in a task for each; refusals are raised here."""

    def run(numbers: Batches) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for place in batch.column(0).to_pylist():
                try:
                    answer = task(place)
                except _REFUSALS as error:
                    answer = error
                yield _row(_ANSWERS, place, pickle.dumps(answer))

    return _answers(spark.range(0, count, 1, count).mapInArrow(run, spark_schema(_ANSWERS)))


def _answers(frame: DataFrame) -> list[Any]:
    answers = [pickle.loads(row.answer) for row in sorted(frame.collect(), key=lambda row: int(row.place))]
    for answer in answers:
        if isinstance(answer, Exception):
            raise answer
    return answers


def _row(schema: pa.Schema, *values: Any) -> pa.RecordBatch:
    columns = [pa.array([value], field.type) for value, field in zip(values, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
