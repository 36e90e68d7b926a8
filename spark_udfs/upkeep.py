"""Maintenance of a query's state from outside the query: ``drain``, ``peek``, ``rescale``, ``change``.

All of them read the query's checkpoint: its id says whose state it is, its commit log says which batch is complete.
They run as Spark jobs with one task for each partition; no state is in the driver's memory.
"""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from slicing import FeatureSpec, Spec
from slicing.closing.wide import check_layout
from slicing.exchange import check, operator_of, state_of
from slicing.lifecycle.change import complete_from, given_for, moved, whole_from
from slicing.system.arguments import at_least_one, says_arguments
from slicing.system.filesystems import absolute
from spark_udfs import moves, plans, stages
from spark_udfs.engines import AnySpec, engine
from spark_udfs.features import FEATURED, FeatureJob
from spark_udfs.files import FileRows
from spark_udfs.jobs import Job, Query
from spark_udfs.joins import JOINED, JoinJob, with_schemas
from spark_udfs.placed import by_place
from spark_udfs.state import Place
from spark_udfs.types import check_path, check_session, spark_schema, type_of
from spark_udfs.versions import Files, StateError

Batches = Iterable[pa.RecordBatch]
_ANSWERS = pa.schema([("place", pa.int32()), ("answer", pa.binary())])
_PIECES = pa.schema([("place", pa.int32()), ("part", pa.int32()), ("piece", pa.binary()), ("error", pa.binary())])
_REFUSALS = (StateError, ValueError, TypeError)


@dataclass(frozen=True)
class Stand:
    """The progress of a query, from its checkpoint."""

    query: str
    begun: int
    done: int

    @staticmethod
    def of(spark: SparkSession, checkpoint: str | None, function: str) -> Stand:
        """Read the checkpoint by Spark, which opens any path that its queries can use for checkpoints."""
        check_session(spark)
        if checkpoint is None:
            raise StateError(
                f"{function} needs checkpoint=, that of the query (its checkpointLocation): it says whose state is "
                "meant and which batch is complete"
            )
        check_path(checkpoint, "checkpoint")
        try:
            folder = _no_pattern(checkpoint)
            query = _query_of("".join(row.value for row in spark.read.text(f"{folder}/metadata").collect()))
            begun, done = (_newest(spark, f"{folder}/{log}") for log in ("offsets", "commits"))
        except AnalysisException:
            what = "it has no metadata, offsets/ or commits/"
            raise StateError(f"{checkpoint} is no query's checkpoint: {what}") from None
        if query is None:
            raise StateError(f"{checkpoint} is no query's checkpoint: its file metadata has no id of a query")
        if begun is None or done is None:
            raise StateError(f"the query at {checkpoint} has not completed a batch yet: it has no state")
        return Stand(query, begun, done)


def _query_of(metadata: str) -> str | None:
    """The id of the query that a checkpoint belongs to; None if its metadata are damaged."""
    try:
        known = json.loads(metadata)
    except ValueError:
        return None
    query = known.get("id") if isinstance(known, dict) else None
    return query if isinstance(query, str) else None


def _check(function: str, spec: object, state: object, partitions: object, name: object) -> None:
    """Raise for wrong arguments that :func:`drain`, :func:`peek`, :func:`rescale` and :func:`change` share."""
    if not isinstance(spec, AnySpec):
        raise TypeError(f"{function} takes the query's sl.Spec, sl.JoinSpec or sl.FeatureSpec; got {type_of(spec)}")
    if state is not None:
        check_path(state, "state")
    if partitions is not None:
        at_least_one(partitions, "partitions", ", or None")
    if name is not None:
        plans.check_name(name, "name")


def _no_pattern(path: str) -> str:
    """A path for readers of Spark, which would take signs in it for a pattern that other folders match too."""
    return re.sub(r"([\\*?\[\]{}])", r"\\\1", path)


def _newest(spark: SparkSession, log: str) -> int | None:
    """The last batch in one of the logs of a checkpoint."""
    entries = spark.read.format("binaryFile").option("pathGlobFilter", "[0-9]*").load(log).select("path").collect()
    names = (entry.path.rpartition("/")[2] for entry in entries)
    return max((int(name) for name in names if name.isdigit()), default=None)


@says_arguments
def drain(
    spark: SparkSession,
    spec: AnySpec,
    state: str,
    partitions: int | None = None,
    name: str | None = None,
    checkpoint: str | None = None,
    layout: str = "long",
) -> DataFrame:
    """The open results of a stopped stream, as a batch DataFrame; reading it ends the stream.

    For ``window_aggregate`` these are the open windows, for ``window_join`` rows that are still without a partner. If
    Spark has not completed a batch, an error says so: run the query once more with ``trigger(availableNow=True)``.
    Draining again gives equal rows. The query refuses to continue after it, unless you set it back by two batches or
    more, which undoes the end (a repeat of the last batch alone does not). Write the rows to another folder than the
    stream's output: from a folder of a file sink, Spark reads only files that the sink has listed.

    Parameters
    ----------
    spark : SparkSession
        The session.
    spec : Spec, JoinSpec or FeatureSpec
        The spec of the query.
    state : str
        Where the query keeps its state.
    partitions : int, optional
        The number of parts of the state; needed only after :func:`rescale`.
    name : str, optional
        The ``name`` of the query, if it has one.
    checkpoint : str
        The ``checkpointLocation`` of the query: it says which batch is complete.
    layout : str
        See ``window_aggregate``.

    Returns
    -------
    DataFrame
        The columns of the query.

    Examples
    --------
    The end of the stream in the example of :func:`read_files`:

    >>> rest = drain(spark, spec, folder + "/state", partitions=1, checkpoint=folder + "/checkpoint")
    >>> rest.select("window_end", "k", "s").collect()
    [Row(window_end=20, k='b', s=3)]
    """
    _check("drain", spec, state, partitions, name)
    stand = Stand.of(spark, checkpoint, "drain")
    if stand.begun != stand.done:
        raise StateError(
            f"batch {stand.begun} of the query at {checkpoint} has begun, batch {stand.done} is its last complete one; "
            "run the query once more with trigger(availableNow=True), then drain"
        )
    return _open_windows(spark, spec, _files(spec, state, partitions, name, stand), stand, True, layout)


@says_arguments
def peek(
    spark: SparkSession,
    spec: AnySpec,
    state: str,
    partitions: int | None = None,
    name: str | None = None,
    checkpoint: str | None = None,
    layout: str = "long",
) -> DataFrame:
    """The open results of a query after its last complete batch, as a batch DataFrame.

    These are the rows that :func:`drain` would return. The query may run meanwhile and goes on.

    Parameters
    ----------
    spark : SparkSession
        The session.
    spec : Spec, JoinSpec or FeatureSpec
        The spec of the query.
    state : str
        Where the query keeps its state.
    partitions : int, optional
        The number of parts of the state; needed only after :func:`rescale`.
    name : str, optional
        The ``name`` of the query, if it has one.
    checkpoint : str
        The ``checkpointLocation`` of the query: it says which batch is complete.
    layout : str
        See ``window_aggregate``.

    Returns
    -------
    DataFrame
        The columns of the query.

    Examples
    --------
    For the stream in the example of :func:`read_files`:

    >>> peek(spark, spec, folder + "/state", checkpoint=folder + "/checkpoint").select("k", "s").collect()
    [Row(k='b', s=3)]
    """
    _check("peek", spec, state, partitions, name)
    stand = Stand.of(spark, checkpoint, "peek")
    return _open_windows(spark, spec, _files(spec, state, partitions, name, stand), stand, False, layout)


@says_arguments
def rescale(
    spark: SparkSession,
    spec: AnySpec,
    state: str,
    to: int,
    partitions: int | None = None,
    name: str | None = None,
    checkpoint: str | None = None,
) -> int:
    """Split the state of a stopped query into another number of partitions, exactly. The old state is kept.

    Parameters
    ----------
    spark : SparkSession
        The session.
    spec : Spec, JoinSpec or FeatureSpec
        The spec of the query.
    state : str
        Where the query keeps its state.
    to : int
        The number of ``partitions`` of the query from now on.
    partitions : int, optional
        The number of parts of the state; needed only after :func:`rescale`.
    name : str, optional
        The ``name`` of the query, if it has one.
    checkpoint : str
        The ``checkpointLocation`` of the query: it says which batch is complete.

    Returns
    -------
    int
        The last complete batch of the query.

    Examples
    --------
    For the stream in the example of :func:`read_files`:

    >>> rescale(spark, spec, folder + "/state", to=2, checkpoint=folder + "/checkpoint")
    0
    """
    _check("rescale", spec, state, partitions, name)
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
        return gathered(spec, old, new, stand, batches)

    places = spark.range(0, old.partitions, 1, old.partitions).mapInArrow(taken_apart, spark_schema(_PIECES))
    _answers(by_place(places, to).mapInArrow(put_together, spark_schema(_ANSWERS)))
    return stand.done


@says_arguments
def change(
    spark: SparkSession,
    spec: Spec,
    changed_spec: Spec,
    state: str,
    to: str,
    partitions: int | None = None,
    name: str = "windows",
    checkpoint: str | None = None,
    data: DataFrame | FileRows | None = None,
) -> dict[str, dict[str, Any]]:
    """Add or remove windows and aggregates of a stopped query, which continues from its checkpoint as ``to``.

    What you add begins now: an added window is emitted if it starts at or after the time from which it is complete, and
    is not over yet. An added aggregate is null in windows that start earlier. Only one of the two names goes on: a
    query cannot run under both.

    Parameters
    ----------
    spark : SparkSession
        The session.
    spec : Spec
        The spec of the query.
    changed_spec : Spec
        The spec from now on. Only windows and aggregates may differ.
    state : str
        Where the query keeps its state.
    to : str
        The ``name`` of the query from now on.
    partitions : int, optional
        The number of parts of the state; needed only after :func:`rescale`.
    name : str, optional
        The ``name`` of the query, if it has one.
    checkpoint : str
        The ``checkpointLocation`` of the query: it says which batch is complete.
    data : DataFrame or FileRows, optional
        The data of the query; needed if columns are read that were not read before.

    Returns
    -------
    dict
        ``{"windows": ..., "aggs": ...}``: when each added part is complete; None: from the first row on.

    Examples
    --------
    For the stream in the example of :func:`read_files`:

    >>> more = sl.Spec("t", spec.windows, {**spec.aggs, "m": sl.mean("v")}, by="k")
    >>> change(spark, spec, more, folder + "/state", "more", partitions=1, checkpoint=folder + "/checkpoint")
    {'windows': {}, 'aggs': {'m': None}}
    """
    _check("change", spec, state, partitions, name)
    for one in (spec, changed_spec):
        if not isinstance(one, Spec):
            raise TypeError(
                f"change is for the windows and aggregates of a sl.Spec; got {type(one).__name__}: another join "
                "is another query, with its own checkpoint and state= or name="
            )
    plans.check_name(to, "to")
    schema = None if data is None else plans.schema_of(data, plans.frame_of(data, "data= of change"))
    stand = Stand.of(spark, checkpoint, "change")
    old = _files(spec, state, partitions, name, stand)
    check(changed_spec, old.partitions)
    new = replace(old, name=to, fingerprint=changed_spec.fingerprint(), spec=repr(changed_spec))
    work = Change(spec, changed_spec, old, new, stand, schema)
    return work.done(lambda task: _at_each_place(spark, old.partitions, task))


# --- their tasks ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Change:
    """The three rounds of :func:`change` over all places: latest time, when added parts are complete, new state."""

    spec: Spec
    changed: Spec
    old: Files
    new: Files
    stand: Stand
    columns: pa.Schema | None

    def done(self, ask: Callable[[Callable[[int], Any]], list[Any]]) -> dict[str, dict[str, Any]]:
        """Run all rounds; ``ask`` calls a function for each place and returns all its answers."""
        if self.new.name == self.old.name:
            where = f"{self.old.root}/{self.old.name}"
            raise StateError(f"{where} cannot be changed: its new name must be another one than {self.old.name!r}")
        newest = max((time for time in ask(self.newest) if time is not None), default=None)
        found = ask(lambda place: self.whole_from(place, newest))
        since, agg_since = ({n: max(ticks[i][n] for ticks in found) for n in found[0][i]} for i in (0, 1))
        starts: dict[str, dict[str, Any]] = ask(lambda place: self.write(place, newest, since, agg_since))[0]
        return starts

    def newest(self, place: int) -> int | None:
        """The latest time of the rows that a place has seen."""
        newest: int | None = _going_on(self.old, self.stand, place).header(self.stand.done)["newest"]
        return newest

    def whole_from(self, place: int, newest: int | None) -> tuple[dict[str, int], dict[str, int]]:
        """The starts from which on added parts would be complete, if there were this place alone."""
        _, operator, _ = Place(self.old, self.stand.query, place).restore(self.spec, self.stand.done)
        state = state_of(operator).but(newest=newest)
        return whole_from(state, self.changed, given_for(state, self.changed, self.columns))

    def write(
        self, place: int, newest: int | None, since: dict[str, int], agg_since: dict[str, int]
    ) -> dict[str, dict[str, Any]]:
        """Publish the state of the place for the changed spec."""
        _, operator, _ = Place(self.old, self.stand.query, place).restore(self.spec, self.stand.done)
        state = state_of(operator).but(newest=newest)
        state = moved(state, self.changed, given_for(state, self.changed, self.columns), since, agg_since)
        _begun_anew(self.old, self.new, self.stand, place).write(operator_of(state), self.stand.done)
        return complete_from(self.spec, [state])


def pieces(spec: AnySpec, old: Files, stand: Stand, to: int, numbers: Batches) -> Iterator[pa.RecordBatch]:
    """The state of some places, split into pieces for ``to`` places."""
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


def gathered(spec: AnySpec, old: Files, new: Files, stand: Stand, batches: Batches) -> Iterator[pa.RecordBatch]:
    """Publish the pieces of each place as its state."""
    rows = [row for batch in batches for row in batch.to_pylist()]
    for place in sorted({row["place"] for row in rows}):
        of_place = sorted((row for row in rows if row["place"] == place), key=lambda row: int(row["part"]))
        errors = [row["error"] for row in of_place if row["error"] is not None]
        if not errors:
            some = [engine(spec).restore(spec, row["piece"]) for row in of_place]
            _begun_anew(old, new, stand, place).write(engine(spec).joined(some), stand.done)
        yield _row(_ANSWERS, place, errors[0] if errors else pickle.dumps(None))


def _begun_anew(old: Files, new: Files, stand: Stand, number: int) -> Place:
    """A place to which a query moves. It goes on, so an end that is marked there is one that it went back from."""
    place = Place(new, stand.query, number)
    place.forget_drained(-1)
    if number == 0:
        moves.note(old, new, stand.query)
    return place


def _going_on(files: Files, stand: Stand, number: int) -> Place:
    """A place of a query that goes on; raises if the query was drained."""
    place = Place(files, stand.query, number)
    ended = place.drained(stand.done)
    if ended is not None:
        raise StateError(f"{files.root}/{files.name} was drained after batch {ended}, which ended its stream")
    return place


def _files(spec: AnySpec, state: str | None, partitions: int | None, name: str | None, stand: Stand) -> Files:
    """The state files of a query; after a rescale, those that have its last complete batch."""
    if state is None:
        raise StateError(
            "state= is None: only state files can be looked into, drained, rescaled or changed; a query with "
            "store='spark' has its state in Spark's own store"
        )
    if isinstance(spec, Spec) and not spec.by and partitions is not None:
        partitions = 1  # as when the query was made: without keys, all rows are in one place
    if name is None:
        name = "windows" if isinstance(spec, Spec) else FEATURED if isinstance(spec, FeatureSpec) else JOINED
    files = Files(absolute(state), name, 0, spec.fingerprint(), spec=repr(spec))
    counts = files.counts(stand.query)
    found = [n for n in counts if partitions in (None, n)]
    if len(found) > 1:
        found = [n for n in found if stand.done in Place(replace(files, partitions=n), stand.query, 0).batches()]
    if len(found) != 1:
        there = ", ".join(map(str, counts))
        asked = "say which" if partitions is None else f"there is none for {partitions}"
        held = f"state for partitions= {there}: {asked}" if there else f"no state of query {stand.query}"
        raise StateError(f"{files.root}/{name} holds {held}")
    return replace(files, partitions=found[0])


def _open_windows(spark: SparkSession, spec: AnySpec, files: Files, stand: Stand, ends: bool, layout: str) -> DataFrame:
    wide = isinstance(spec, Spec) and check_layout(layout, spec)

    def given(place: int) -> Any:
        _, operator, _ = Place(files, stand.query, place).restore(spec, stand.done)
        return engine(spec).given(operator)

    (schema,) = _at_each_place(spark, 1, given)
    job: Query
    if isinstance(spec, Spec):
        job = Job(spec, schema, files.partitions, files, wide=wide)
    else:
        kind = FeatureJob if isinstance(spec, FeatureSpec) else JoinJob
        job = kind(with_schemas(spec, schema), files.partitions, files)

    def rest(numbers: Batches) -> Iterator[pa.RecordBatch]:
        return stages.drain(job, numbers, stand.done, stand.query, ends)

    return spark.range(0, files.partitions, 1, files.partitions).mapInArrow(rest, spark_schema(job.rows_schema()))


def _at_each_place(spark: SparkSession, count: int, task: Callable[[int], Any]) -> list[Any]:
    """Call a function with the number of each place, one task each, and return the answers; raises their errors."""

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
