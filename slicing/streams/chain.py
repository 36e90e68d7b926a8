"""Operators in sequence: windows of windows, top rows of each window, aggregates over joins and features."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import pyarrow as pa

from slicing.columns.dictionaries import widely_indexed
from slicing.joins.features.operator import FeatureOperator
from slicing.joins.features.output import FeatureOutput
from slicing.joins.features.spec import FeatureSpec
from slicing.joins.operator import JoinOperator
from slicing.joins.output import JoinOutput
from slicing.joins.snapshot import read_parts, write_parts
from slicing.joins.spec import JoinSpec
from slicing.operator import Operator
from slicing.output import Output, Stats
from slicing.query.spec import Spec
from slicing.query.watermark import Manual
from slicing.streams.distinct import Distinct, DistinctOutput, DistinctSpec
from slicing.system.turns import TakesTurns, in_turn
from slicing.times.measure import Measure

Link = Operator | JoinOperator | FeatureOperator | Distinct
Given = Output | JoinOutput | FeatureOutput | DistinctOutput
Then = Callable[[Link, Given, bool], list[Given]]
TWO_SIDED = (JoinOperator, FeatureOperator)  # operators that take two streams
SIDES = ("push_left", "push_right", "push_labels", "push_events")


class Chain(TakesTurns):
    """Operators in sequence, made by :func:`chain`.

    ``push``, ``advance`` and ``flush`` are called on the first operator and return the output of the last one. If the
    first operator joins, use ``push_left`` and ``push_right``; if it computes features, ``push_labels`` and
    ``push_events``. A call that fails in any of the operators leaves all of them as they were.

    Attributes
    ----------
    outputs : tuple
        What each operator returned in the last call, in their order; the last one is what the call returned. So
        ``outputs[0].late`` has the rows that were late for the first operator, and ``outputs[0].stats`` counts them.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import slicing as sl
    >>> minutes = sl.Operator(sl.Spec("t", {"m": sl.tumbling(60)}, {"n": sl.count()}))
    >>> hours = sl.Spec("window_start", {"h": sl.tumbling(3600)}, {"most": sl.max("n")}, watermark=sl.manual())
    >>> op = sl.chain(minutes, sl.Operator(hours))
    >>> blob = op.snapshot()
    >>> op = sl.Chain.restore([minutes.spec, hours], blob)
    >>> op.push(pa.table({"t": [1, 2, 65]})).windows.num_rows
    0
    >>> op.flush().windows["most"].to_pylist()
    [2]
    """

    def __init__(self, links: Sequence[Link]) -> None:
        self._links = list(links)
        self.outputs: tuple[Any, ...] = ()

    @in_turn
    def push(self, *data: object) -> Any:
        """Push rows into the first operator."""
        return self._passed(lambda: self._links[0].push(*data))

    @in_turn
    def push_left(self, data: object) -> Any:
        """Push rows into the left side of the first operator, which joins."""
        return self._passed(partial(self._first("push_left"), data))

    @in_turn
    def push_right(self, data: object) -> Any:
        """Push rows into the right side of the first operator, which joins."""
        return self._passed(partial(self._first("push_right"), data))

    @in_turn
    def push_labels(self, data: object) -> Any:
        """Push labels into the first operator, which computes features."""
        return self._passed(partial(self._first("push_labels"), data))

    @in_turn
    def push_events(self, data: object) -> Any:
        """Push events into the first operator, which computes features."""
        return self._passed(partial(self._first("push_events"), data))

    @in_turn
    def advance(self, /, *watermark: object, **watermarks: object) -> Any:
        """Advance the watermark of the first operator."""
        return self._passed(lambda: self._links[0].advance(*watermark, **watermarks))

    @in_turn
    def flush(self) -> Any:
        """End the streams: every operator returns its remaining results."""
        return self._passed(lambda: self._links[0].flush(), _flushed)

    @in_turn
    def snapshot(self) -> bytes:
        """The state of all operators as bytes."""
        specs = [link.spec for link in self._links]
        return write_parts("chain", specs, (bytes(link.snapshot()) for link in self._links))

    @staticmethod
    def restore(
        specs: Sequence[Spec | JoinSpec | FeatureSpec | DistinctSpec],
        blob: bytes,
        *,
        options: Sequence[Mapping[str, Any]] | None = None,
    ) -> Chain:
        """Restore a chain from a snapshot. Raises if the specs or the format differ, or if the snapshot is damaged.

        ``options``: for each operator the keyword arguments of its ``restore``, such as ``{"threads": 2}``.
        """
        kinds = {Spec: Operator, JoinSpec: JoinOperator, FeatureSpec: FeatureOperator, DistinctSpec: Distinct}
        if not isinstance(specs, list | tuple) or not all(isinstance(spec, tuple(kinds)) for spec in specs):
            raise TypeError(f"specs must be a list of the specs of the chain's operators; got {specs!r}")
        given = [{}] * len(specs) if options is None else options
        if not isinstance(given, list | tuple) or not all(isinstance(one, Mapping) for one in given):
            raise TypeError(f"options must be a list of dicts; got {options!r}")
        if len(given) != len(specs):
            raise ValueError(f"options must have a dict for each of the {len(specs)} specs; got {len(given)}")
        parts = read_parts("chain", specs, blob)
        restored = zip(specs, parts, given, strict=True)
        return chain(*(kinds[type(spec)].restore(spec, part, **told) for spec, part, told in restored))  # type: ignore[attr-defined]

    def _passed(self, first: Callable[[], Given], then: Then | None = None) -> Given:
        """The output of the last operator. If an operator raises, all operators get back the state they had before."""
        changed, begin, outputs = [], self._links[0], list[Given]()
        try:
            changed.append(begin._restorer(one_call=True) if isinstance(begin, Operator) else begin._restorer())
            outputs.append(first())
            for before, link in pairwise(self._links):
                changed.append(link._restorer())
                tells_types = before._knows_columns and not link._knows_columns
                feed = then or partial(_fed, before)
                outputs.append(_together(feed(link, outputs[-1], tells_types)))
        except BaseException:
            for put_back in changed:
                put_back()
            raise
        if isinstance(begin, Operator):
            begin._kept()
        self.outputs = tuple(outputs)
        return outputs[-1]

    def _first(self, method: str) -> Any:
        """A method of the first operator; raises if the operator does not have it."""
        first = self._links[0]
        if hasattr(first, method):
            return getattr(first, method)
        has = " and ".join(name for name in SIDES if hasattr(first, name)) or "push"
        raise TypeError(f"the first operator is {type(first).__name__}, which has no {method}; use {has}")


def chain(*operators: Link) -> Chain:
    """Feed the results of each operator into the next one, together with its progress.

    No row is late inside a chain. Rows that are late for the first operator are in ``outputs`` of the chain. The next
    operator reads the columns of the results. Its spec names the event time (``window_start`` or ``window_end`` for
    windows) and has ``watermark=sl.manual()``. Every ``Operator`` before the last has ``emit="final"``; or
    ``emit="changes"`` if the next spec has ``op="op"``, so that retractions reach it; or ``emit="parts"`` if the next
    spec is a :func:`rollup_spec`, which adds them up.

    Windows that end at a row, such as ``punctuation``, may come long after it, and empty windows (``fill=True``) come
    with the next row of their key. So a key that falls silent holds the next operator, unless ``idle`` of the first
    spec ends it.

    Parameters
    ----------
    operators
        ``Operator`` and ``Distinct``. The first one may also be a ``JoinOperator`` or ``FeatureOperator``.

    Returns
    -------
    Chain
        It has the methods of the first operator and returns the output of the last one.

    Examples
    --------
    The busiest minute of each hour, as a stream of minutes:

    >>> import pyarrow as pa
    >>> import slicing as sl
    >>> minutes = sl.Operator(sl.Spec("t", {"m": sl.tumbling(60)}, {"n": sl.count()}))
    >>> busiest = sl.Spec("window_start", {"h": sl.tumbling(3600)}, {"most": sl.max("n")}, watermark=sl.manual())
    >>> op = sl.chain(minutes, sl.Operator(busiest))
    >>> op.push(pa.table({"t": [1, 2, 65, 3700, 7300]})).windows["most"].to_pylist()
    [2, 1]
    """
    if len(operators) < 2:
        raise ValueError(f"chain takes at least two operators; got {len(operators)}")
    for place, link in enumerate(operators):
        if not isinstance(link, Link):
            raise TypeError(
                "chain takes sl.Operator, sl.JoinOperator, sl.FeatureOperator and sl.Distinct; got "
                f"{type(link).__name__}"
            )
        if place and isinstance(link, TWO_SIDED):
            raise TypeError(
                f"operator {place + 1} of the chain is a {type(link).__name__}, which takes two streams: it can only "
                "be the first operator of a chain"
            )
        if place and not isinstance(link.spec.watermark, Manual):
            raise ValueError(
                f"operator {place + 1} of the chain is told by the one before how far its rows have come: its spec "
                f"needs watermark=sl.manual(); it has {link.spec.watermark!r}"
            )
        if isinstance(link, Operator) and place < len(operators) - 1:
            _check_emit(link.spec, operators[place + 1], place + 1)
    return Chain(operators)


def _check_emit(spec: Spec, following: Link, place: int) -> None:
    """Raise unless a window that is emitted again is retracted first: the next operator would count it twice."""
    takes_back = isinstance(following, Operator) and following.spec.op == "op"
    if spec.emit == "final" and takes_back:
        raise ValueError(
            f"operator {place + 1} of the chain has op='op', and the results of operator {place} have no such column: "
            "use emit='changes' there, or leave out op here"
        )
    if spec.emit == "changes" and not takes_back:
        raise ValueError(
            f"operator {place} of the chain has emit='changes', and the next one would count what is taken back: use "
            "op='op' in its spec, or emit='final' here"
        )
    if spec.emit == "parts" and not (isinstance(following, Operator) and following.spec.sequence == "revision"):
        raise ValueError(
            f"operator {place} of the chain has emit='parts', and the next one would take each part for a window: use "
            "sl.rollup_spec for its spec, which adds them up, or emit='final' here"
        )
    if spec.emit == "updates":
        raise ValueError(
            f"operator {place} of the chain has emit={spec.emit!r}, and the next one would count a window again for "
            "each revision; use emit='final', or emit='changes' here and op='op' in the next spec"
        )


def _fed(before: Link, link: Link, given: Given, tells_types: bool) -> list[Given]:
    """The outputs of an operator for the results and the progress of the operator before it.

    ``tells_types``: these results are the first with known columns, so they are pushed even if they have no rows. An
    operator that cannot take these columns then raises now, not when the first window comes.
    """
    assert not isinstance(link, TWO_SIDED)
    rows = _to_push(given)
    reached = given.watermark
    if isinstance(before, Operator) and isinstance(given, Output):
        reached = before._reached(str(link.spec.time), given)
    elif reached is not None:
        reached = _in_unit_of(rows.schema, str(link.spec.time), reached)
    outs: list[Given] = [link.push(rows)] if rows.num_rows or tells_types else []
    if reached is not None or not outs:
        outs.append(link.advance(reached) if reached is not None else link._unmoved())
    return outs


def _in_unit_of(schema: pa.Schema, time: str, watermark: object) -> object | None:
    """A watermark of results in the unit of their time column. A join has it in the finer unit of both sides. None: the
    column is not known yet."""
    if time not in schema.names:
        return None
    return Measure.of(schema.field(time).type, time).at_or_after(watermark)


def _flushed(link: Link, given: Given, tells_types: bool) -> list[Given]:
    """The outputs of an operator for the last results of the operator before it."""
    rows = _to_push(given)
    outs: list[Given] = [link.push(rows)] if rows.num_rows or tells_types else []  # type: ignore[call-arg]
    return [*outs, link.flush()]


def _rows(given: Given) -> pa.Table:
    return given.windows if isinstance(given, Output) else given.rows


def _to_push(given: Given) -> pa.Table:
    """The results, with room in dictionaries for as many values as there are: a push takes one dictionary a column."""
    rows = _rows(given)
    for at, field in enumerate(rows.schema):
        if pa.types.is_dictionary(field.type):
            chunks = rows.column(at).chunks or [pa.nulls(0, field.type)]
            rows = rows.set_column(at, field.name, pa.chunked_array(list(map(widely_indexed, chunks))))
    return rows


ADDED = ("rows", "windowed", "late", "outside", "null_time", "ahead", "full", "windows")


def _together(outs: Sequence[Given]) -> Given:
    """Several outputs of one operator, in order, as one output."""
    last = outs[-1]
    if len(outs) == 1 or isinstance(last, JoinOutput | FeatureOutput):
        return last
    stats = Stats(last.stats)
    for name in ADDED:
        if any(name in out.stats for out in outs):
            stats[name] = sum(out.stats.get(name, 0) for out in outs)
    late = _concatenated([out.late for out in outs if not isinstance(out, JoinOutput | FeatureOutput)])
    rows = _concatenated([_rows(out) for out in outs])
    if isinstance(last, Output):
        return Output(rows, late, stats, last.watermark, last.progress)
    return DistinctOutput(rows, late, stats, last.watermark)


def _concatenated(tables: Sequence[pa.Table]) -> pa.Table:
    """Tables of one schema as one table; tables without rows are skipped, as their columns may be unknown."""
    known = [table for table in tables if table.num_rows]
    return pa.concat_tables(known) if known else tables[-1]
