"""Maintenance of a query's state from outside the query: ``drain``, ``peek``, ``rescale``, ``change``.

All of them read the query's checkpoint: its id says whose state it is, its commit log says which batch is complete.
They run as Spark jobs with one task for each partition; no state is in the driver's memory.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from slicing import FeatureSpec, Spec
from slicing.closing.wide import check_layout
from slicing.exchange import check
from slicing.system.arguments import at_least_one, says_arguments
from slicing.system.filesystems import absolute
from spark_udfs import plans, stages
from spark_udfs.checkpoint import Checkpoint
from spark_udfs.engines import AnySpec, engine
from spark_udfs.features import FeatureJob
from spark_udfs.files import FileRows
from spark_udfs.jobs import Job, Query
from spark_udfs.joins import JoinJob, with_schemas
from spark_udfs.moving import ANSWERS, PIECES, REFUSALS, Change, pieces, put_together, row_of
from spark_udfs.placed import by_place
from spark_udfs.stages import Batches
from spark_udfs.state import Place
from spark_udfs.types import check_path, spark_schema, type_of
from spark_udfs.versions import Files, StateError


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
    known = Checkpoint.of(spark, checkpoint, "drain")
    if known.begun != known.done:
        raise StateError(
            f"batch {known.begun} of the query at {checkpoint} has begun, batch {known.done} is its last complete one; "
            "run the query once more with trigger(availableNow=True), then drain"
        )
    return _open_results(spark, spec, _files(spec, state, partitions, name, known), known, True, layout)


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
    known = Checkpoint.of(spark, checkpoint, "peek")
    return _open_results(spark, spec, _files(spec, state, partitions, name, known), known, False, layout)


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
    known = Checkpoint.of(spark, checkpoint, "rescale")
    old = _files(spec, state, partitions, name, known)
    new = replace(old, partitions=to)

    def taken_apart(numbers: Batches) -> Iterator[pa.RecordBatch]:
        return pieces(spec, old, known, to, numbers)

    def published(batches: Batches) -> Iterator[pa.RecordBatch]:
        return put_together(spec, old, new, known, batches)

    places = spark.range(0, old.partitions, 1, old.partitions).mapInArrow(taken_apart, spark_schema(PIECES))
    _answers(by_place(places, to).mapInArrow(published, spark_schema(ANSWERS)))
    return known.done


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
    known = Checkpoint.of(spark, checkpoint, "change")
    old = _files(spec, state, partitions, name, known)
    check(changed_spec, old.partitions)
    new = replace(old, name=to, fingerprint=changed_spec.fingerprint(), spec=repr(changed_spec))
    work = Change(spec, changed_spec, old, new, known, schema)
    return work.done(lambda task: _at_each_place(spark, old.partitions, task))


# --- what they share --------------------------------------------------------------------------------------------------


def _files(spec: AnySpec, state: str | None, partitions: int | None, name: str | None, checkpoint: Checkpoint) -> Files:
    """The state files of a query; after a rescale, those that have its last complete batch."""
    if state is None:
        raise StateError(
            "state= is None: only state files can be looked into, drained, rescaled or changed; a query with "
            "store='spark' has its state in Spark's own store"
        )
    if isinstance(spec, Spec) and not spec.by and partitions is not None:
        partitions = 1  # as when the query was made: without keys, all rows are in one place
    if name is None:
        name = engine(spec).name
    files = Files(absolute(state), name, 0, spec.fingerprint(), spec=repr(spec))
    counts = files.counts(checkpoint.query)
    found = [n for n in counts if partitions in (None, n)]
    if len(found) > 1:
        found = [
            n for n in found if checkpoint.done in Place(replace(files, partitions=n), checkpoint.query, 0).batches()
        ]
    if len(found) != 1:
        there = ", ".join(map(str, counts))
        asked = "say which" if partitions is None else f"there is none for {partitions}"
        held = f"state for partitions= {there}: {asked}" if there else f"no state of query {checkpoint.query}"
        raise StateError(f"{files.root}/{name} holds {held}")
    return replace(files, partitions=found[0])


def _open_results(
    spark: SparkSession, spec: AnySpec, files: Files, checkpoint: Checkpoint, ends: bool, layout: str
) -> DataFrame:
    """The open results of a query: what :func:`drain` (``ends``) and :func:`peek` return."""
    wide = isinstance(spec, Spec) and check_layout(layout, spec)

    def given(place: int) -> Any:
        _, operator, _ = Place(files, checkpoint.query, place).restore(spec, checkpoint.done)
        return engine(spec).given(operator)

    (schema,) = _at_each_place(spark, 1, given)
    job: Query
    if isinstance(spec, Spec):
        job = Job(spec, schema, files.partitions, files, wide=wide)
    else:
        kind = FeatureJob if isinstance(spec, FeatureSpec) else JoinJob
        job = kind(with_schemas(spec, schema), files.partitions, files)

    def rest(numbers: Batches) -> Iterator[pa.RecordBatch]:
        return stages.drain(job, numbers, checkpoint.done, checkpoint.query, ends)

    return spark.range(0, files.partitions, 1, files.partitions).mapInArrow(rest, spark_schema(job.rows_schema()))


def _at_each_place(spark: SparkSession, count: int, task: Callable[[int], Any]) -> list[Any]:
    """Call a function with the number of each place, one task each, and return the answers; raises their errors."""

    def run(numbers: Batches) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for place in batch.column(0).to_pylist():
                try:
                    answer = task(place)
                except REFUSALS as error:
                    answer = error
                yield row_of(ANSWERS, place, pickle.dumps(answer))

    return _answers(spark.range(0, count, 1, count).mapInArrow(run, spark_schema(ANSWERS)))


def _answers(frame: DataFrame) -> list[Any]:
    answers = [pickle.loads(row.answer) for row in sorted(frame.collect(), key=lambda row: int(row.place))]
    for answer in answers:
        if isinstance(answer, Exception):
            raise answer
    return answers
