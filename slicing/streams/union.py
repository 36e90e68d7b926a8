"""Several streams as one (Li's Meld): rows pass through at once, the watermark is the least one of the sources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from slicing.columns.arrow_io import no_rows
from slicing.columns.arrow_out import texts
from slicing.columns.bits import present
from slicing.columns.sources import one_batch
from slicing.columns.typed import column_type, in_result_types
from slicing.columns.types import compared
from slicing.query.given_watermarks import fitting, waiting
from slicing.query.progress import Progress, Seen
from slicing.query.watermark import Bounded, Punctuated, Watermark
from slicing.system.arguments import column_name, says_arguments
from slicing.system.turns import TakesTurns, in_turn
from slicing.times.durations import parse_span
from slicing.times.measure import Measure, plain_moment
from slicing.windows.bounds import LIMIT


@dataclass(frozen=True, repr=False)
class UnionOutput:
    """The output of a push of a :class:`Union`.

    Attributes
    ----------
    rows : pyarrow.Table
        The rows that were pushed, with a column that names their source.
    watermark : object
        No later row of any source has a time before it, except late rows; None until every source has a watermark.
    """

    rows: pa.Table
    watermark: Any

    def __repr__(self) -> str:
        return f"<sl.UnionOutput: {self.rows.num_rows} rows, watermark {self.watermark}>"


class Union(TakesTurns):
    """Merge several streams into one; each source has its own watermark.

    Rows pass through at once. The watermark is the least one of the sources and never goes back.

    Parameters
    ----------
    sources : dict of str to Watermark
        The watermark policy of each source: ``{"a": sl.bounded("1s"), "b": sl.manual()}``.
    time : str
        The time column.
    source : str
        The name of the column that names a row's source.
    idle : span, optional
        A source this far behind the newest time of all sources does not hold back the watermark. A source without
        any rows or watermark yet always holds it back.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import slicing as sl
    >>> union = sl.Union({"a": sl.bounded(0), "b": sl.bounded(5)}, time="t")
    >>> print(union.push("a", pa.table({"t": [10, 20]})).watermark)
    None
    >>> out = union.push("b", pa.table({"t": [18]}))
    >>> out.rows.to_pylist(), out.watermark
    ([{'t': 18, 'source': 'b'}], 13)
    """

    @says_arguments
    def __init__(
        self, sources: Mapping[str, Watermark], time: str, source: str = "source", idle: object = None
    ) -> None:
        if not isinstance(sources, Mapping) or not sources:
            raise TypeError(f"sources must be a dict of at least one watermark by name; got {sources!r}")
        for name, policy in sources.items():
            if not isinstance(name, str) or not isinstance(policy, Watermark):
                raise TypeError(f"sources[{name!r}] must be a watermark, such as sl.bounded('1s'); got {policy!r}")
            if isinstance(policy, Punctuated) and policy.by:
                raise ValueError(
                    f"sources[{name!r}] takes no by=: a union has one watermark, not one of each key; got {policy!r}"
                )
            if isinstance(policy, Bounded) and policy.at_most_ahead is not None:
                raise ValueError(
                    f"sources[{name!r}] takes no at_most_ahead; leave rows with wrong clocks out before; got {policy!r}"
                )
        column_name(time, "time")
        column_name(source, "source")
        if source == time:
            raise ValueError(f"source={source!r} is the time column; give the column of sources another name")
        self.sources, self.time, self.source = dict(sources), time, source
        self._idle = None if idle is None else parse_span(idle, "idle", positive=True)
        self._schema: pa.Schema | None = None
        self._measure: Measure | None = None
        self._progress = {name: Progress() for name in sources}
        self._advanced: dict[str, tuple[object, ...]] = {}  # watermarks given before the first rows of any source
        self._marks: dict[str, int] = {}
        self._newest: dict[str, int] = {}  # of sources whose progress has no times of rows, but of marks
        self._reached: int | None = None

    def __repr__(self) -> str:
        return f"<sl.Union of {', '.join(f'{name!r}: {policy!r}' for name, policy in self.sources.items())}>"

    @in_turn
    def push(self, source: str, data: object) -> UnionOutput:
        """Take rows of one source and return them.

        Raises
        ------
        ValueError
            If the source is unknown, the columns differ from the first rows' columns, or a time is null.
        """
        self._check_source(source)
        batch = in_result_types(one_batch(data))
        schema, measure = self._known(batch)
        batch = _alike(batch, schema)
        column = batch.column(self.time)
        if column.null_count:
            first = int(np.argmin(present(column)))
            raise ValueError(
                f"time column {self.time!r} of source {source!r} is null in row {first} of the batch; drop or fill it"
            )
        policy, progress = self.sources[source], self._progress[source]
        measure.check(column, f"time column {self.time!r} of source {source!r}")
        times = measure.words(column)
        if times.size:
            columns = dict(zip(schema.names, batch.columns, strict=True))
            progress = policy.observe(progress, Seen.of(times, columns, measure, times[:0]))
        reached = policy.reached(progress, policy.delays(measure))
        given = {name: max(fitting(marks, partial(_ticks, measure, name))) for name, marks in self._advanced.items()}
        self._schema, self._measure, self._progress[source] = schema, measure, progress
        self._marks, self._advanced = self._marks | given, {}
        if times.size and isinstance(policy, Punctuated):
            self._newest[source] = max(int(times.max()), self._newest.get(source, -LIMIT))
        if reached is not None:
            self._marks[source] = max(reached, self._marks.get(source, reached))
        named = texts([source]).take(pa.array([0] * batch.num_rows, pa.int32()))
        rows = pa.Table.from_batches([batch]).append_column(self.source, named)
        return UnionOutput(rows, self._least())

    @in_turn
    def advance(self, source: str, watermark: object) -> UnionOutput:
        """Promise that no row of a source before ``watermark`` will come, even before the first rows of any source:
        then ``rows`` of the output has no columns, and its ``watermark`` is None."""
        self._check_source(source)
        if self._measure is None or self._schema is None:
            self._advanced[source] = waiting(self._advanced.get(source, ()), plain_moment(watermark))
            return UnionOutput(pa.table({}), None)
        mark = _ticks(self._measure, source, watermark)
        self._marks[source] = max(mark, self._marks.get(source, mark))
        empty = no_rows(self._schema)
        return UnionOutput(empty.append_column(self.source, pa.array([], pa.string())), self._least())

    def _check_source(self, source: object) -> None:
        if not isinstance(source, str) or source not in self.sources:
            raise ValueError(f"source {source!r} is none of the union's: {', '.join(map(repr, self.sources))}")

    def _known(self, batch: pa.RecordBatch) -> tuple[pa.Schema, Measure]:
        """The columns of all rows (in any order) and the measure of their time. Raises if they differ."""
        names = batch.schema.names
        if self._schema is not None and self._measure is not None:
            if _unlike(batch.schema, self._schema):
                raise ValueError(
                    "the sources of a union must have the same columns; these rows differ from the first ones in "
                    f"{_differences(batch.schema, self._schema)}"
                )
            return self._schema, self._measure
        measure = Measure.of(column_type(batch.schema, self.time), self.time)
        if self.source in names:
            raise ValueError(f"the data has a column {self.source!r} already; name the column of sources by source=")
        for policy in self.sources.values():
            policy.check({name: column_type(batch.schema, name) for name in policy.columns()}, measure)
            policy.delays(measure)
        return batch.schema, measure

    def _least(self) -> Any:
        """The least watermark of the sources that are not silent; it never goes back."""
        if self._measure is None:
            return None
        marks = [self._marks.get(name) for name in self._speaking()]
        if marks and None not in marks:
            least = min(mark for mark in marks if mark is not None)
            self._reached = least if self._reached is None else max(least, self._reached)
        return None if self._reached is None else self._measure.value(self._reached)

    def _speaking(self) -> Iterable[str]:
        """The sources that are not silent."""
        if self._idle is None or self._measure is None:
            return self.sources
        heard = {name: self._heard(name) for name in self.sources}
        newest = max((time for time in heard.values() if time is not None), default=LIMIT)
        since = newest - self._measure.ticks(self._idle, "idle")
        return [name for name, time in heard.items() if time is None or time > since]

    def _heard(self, source: str) -> int | None:
        """The newest time that a source has reached, by a row or by its watermark."""
        known = self._progress[source].largest, self._marks.get(source), self._newest.get(source)
        return max([time for time in known if time is not None], default=None)


def _ticks(measure: Measure, source: str, watermark: object) -> int:
    """The watermark of a source in ticks of the time column."""
    return max(-LIMIT, min(LIMIT, measure.watermark(watermark, f"watermark of source {source!r}")))


def union(tables: Iterable[object]) -> pa.Table:
    """Concatenate tables of the same columns.

    Parameters
    ----------
    tables : iterable of tables
        Anything with the Arrow C interface. Columns may be in any order and text of any width, so that pandas and
        Polars frames can be combined.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import slicing as sl
    >>> sl.union([pa.table({"t": [1], "v": [2]}), pa.table({"v": [4], "t": [3]})]).to_pylist()
    [{'t': 1, 'v': 2}, {'t': 3, 'v': 4}]
    """
    if isinstance(tables, str | Mapping) or not isinstance(tables, Iterable) or hasattr(tables, "__arrow_c_stream__"):
        raise TypeError(f"tables must be a list of tables; got {type(tables).__name__}")
    batches = [in_result_types(one_batch(data)) for data in tables]
    if not batches:
        raise ValueError("union takes at least one table; got none")
    first = batches[0].schema
    for position, batch in enumerate(batches):
        if _unlike(batch.schema, first):
            raise ValueError(
                f"the tables of a union must have the same columns; table {position} differs from the first one in "
                f"{_differences(batch.schema, first)}"
            )
    return pa.Table.from_batches([_alike(batch, first) for batch in batches])


def _differences(schema: pa.Schema, first: pa.Schema) -> str:
    """What is unlike the first schema, column by column."""
    has, had = ({field.name: str(field.type) for field in some} for some in (schema, first))
    unlike = [(name, has.get(name, "missing"), had.get(name, "missing")) for name in _unlike(schema, first)]
    return ", ".join(f"{name!r} ({here} instead of {there})" for name, here, there in unlike)


def _unlike(schema: pa.Schema, first: pa.Schema) -> list[str]:
    """The columns that only one schema has, or whose types differ. Text of any width counts as one type."""

    def types(some: pa.Schema) -> set[tuple[str, pa.DataType]]:
        alike = pa.string(), pa.binary()
        found = ((field.name, field.type, compared(field.type)) for field in some)
        return {(n, c if c in alike and not pa.types.is_dictionary(t) else t) for n, t, c in found}

    return sorted({name for name, _ in types(schema) ^ types(first)})


def _alike(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch with the columns of a schema. Only those of another type are cast: Arrow cannot cast each type."""
    pairs = [(batch.column(field.name), field.type) for field in schema]
    columns = [column if column.type == type else column.cast(type) for column, type in pairs]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
