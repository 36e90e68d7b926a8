"""Operators one behind the other: windows of windows, top rows of each window, aggregates over joins and features."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import pyarrow as pa

from slicing.closing.output import Output, Stats
from slicing.joins.distinct import Distinct, DistinctOutput, DistinctSpec
from slicing.joins.features.operator import FeatureOperator
from slicing.joins.features.output import FeatureOutput
from slicing.joins.features.spec import FeatureSpec
from slicing.joins.operator import JoinOperator
from slicing.joins.output import JoinOutput
from slicing.joins.snapshot import read_parts, write_parts
from slicing.joins.spec import JoinSpec
from slicing.operator import Operator
from slicing.query.spec import Spec
from slicing.query.watermark import Manual
from slicing.system.turns import TakesTurns, in_turn

Link = Operator | JoinOperator | FeatureOperator | Distinct
Given = Output | JoinOutput | FeatureOutput | DistinctOutput
Then = Callable[[Link, Given, bool], list[Given]]
TWO_SIDED = (JoinOperator, FeatureOperator)  # they take two streams
SIDES = ("push_left", "push_right", "push_labels", "push_events")


class Chain(TakesTurns):
    """Operators one behind the other; made by :func:`chain`.

    ``push`` (``push_left`` and ``push_right`` if the first one joins, ``push_labels`` and ``push_events`` if it is of
    features), ``advance`` and ``flush`` are those of the first operator, and return the output of the last one. A call
    that fails in any of the operators leaves all of them as they were.

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

    @in_turn
    def push(self, *data: object) -> Any:
        """Rows for the first operator."""
        return self._passed(lambda: self._links[0].push(*data))

    @in_turn
    def push_left(self, data: object) -> Any:
        """Rows for the left side of the first operator, which joins."""
        return self._passed(partial(self._first("push_left"), data))

    @in_turn
    def push_right(self, data: object) -> Any:
        """Rows for the right side of the first operator, which joins."""
        return self._passed(partial(self._first("push_right"), data))

    @in_turn
    def push_labels(self, data: object) -> Any:
        """Labels for the first operator, which is of features."""
        return self._passed(partial(self._first("push_labels"), data))

    @in_turn
    def push_events(self, data: object) -> Any:
        """Events for the first operator, which is of features."""
        return self._passed(partial(self._first("push_events"), data))

    @in_turn
    def advance(self, /, *watermark: object, **watermarks: object) -> Any:
        """The watermark of the first operator."""
        return self._passed(lambda: self._links[0].advance(*watermark, **watermarks))

    @in_turn
    def flush(self) -> Any:
        """End of the streams: every operator gives what it has left."""
        return self._passed(lambda: self._links[0].flush(), _flushed)

    @in_turn
    def snapshot(self) -> bytes:
        """The state of all operators as bytes."""
        specs = [link.spec for link in self._links]
        return write_parts("chain", specs, (bytes(link.snapshot()) for link in self._links))

    @staticmethod
    def restore(specs: Sequence[Spec | JoinSpec | FeatureSpec | DistinctSpec], blob: bytes) -> Chain:
        """Go on from a snapshot of operators of these specs; refuses others, another format, or a damaged one."""
        parts = read_parts("chain", specs, blob)
        kinds = {Spec: Operator, JoinSpec: JoinOperator, FeatureSpec: FeatureOperator, DistinctSpec: Distinct}
        return chain(*(kinds[type(spec)].restore(spec, part) for spec, part in zip(specs, parts, strict=True)))  # type: ignore[attr-defined]

    def _passed(self, first: Callable[[], Given], then: Then | None = None) -> Given:
        """What comes out behind; where an operator refuses, those before it did not take anything either."""
        changed, begin = [], self._links[0]
        try:
            changed.append(begin._held(one_call=True) if isinstance(begin, Operator) else begin._held())
            given = first()
            for before, link in pairwise(self._links):
                changed.append(link._held())
                tells_types = before._knows_columns and not link._knows_columns
                given = _together((then or _told)(link, given, tells_types))
        except BaseException:
            for put_back in changed:
                put_back()
            raise
        if isinstance(begin, Operator):
            begin._kept()
        return given

    def _first(self, method: str) -> Any:
        """A method of the first operator, if it has it."""
        first = self._links[0]
        if hasattr(first, method):
            return getattr(first, method)
        has = " and ".join(name for name in SIDES if hasattr(first, name)) or "push"
        raise TypeError(f"the first operator is {type(first).__name__}, which has no {method}; use {has}")


def chain(*operators: Link) -> Chain:
    """Feed each operator's results into the next one, and its progress.

    Nothing is late inside a chain. The next operator reads the results' columns. Its spec names the event time
    (``window_start`` or ``window_end`` for windows), and has ``watermark=sl.manual()``. An ``Operator`` before the
    last has ``emit="final"``, or ``"changes"`` if the next spec has ``op="op"``: corrections then reach its results.

    Parameters
    ----------
    operators
        ``Operator`` and ``Distinct``; the first one may also be a ``JoinOperator`` or ``FeatureOperator``.

    Returns
    -------
    Chain
        With the methods of the first operator and the output of the last one.

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
    """A window that comes again is taken back first, or the next operator would count it twice."""
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
    if spec.emit == "updates":
        raise ValueError(
            f"operator {place} of the chain has emit={spec.emit!r}, and the next one would count a window again for "
            "each revision; use emit='final', or emit='changes' here and op='op' in the next spec"
        )


def _told(link: Link, given: Given, tells_types: bool) -> list[Given]:
    """What an operator makes of the results of the one before, and of how far they reach along its time column.

    ``tells_types``: they are the first of which the columns are known, so that they are pushed even without rows. What
    the operator refuses it refuses now, and not with the first window.
    """
    assert not isinstance(link, TWO_SIDED)
    rows = _rows(given)
    reached = given.progress.get(str(link.spec.time)) if isinstance(given, Output) else given.watermark
    outs: list[Given] = [link.push(rows)] if rows.num_rows or tells_types else []
    if reached is not None or not outs:
        outs.append(link.advance(reached) if reached is not None else link._unmoved())
    return outs


def _flushed(link: Link, given: Given, tells_types: bool) -> list[Given]:
    """What an operator makes of the last results of the one before."""
    rows = _rows(given)
    outs: list[Given] = [link.push(rows)] if rows.num_rows or tells_types else []  # type: ignore[call-arg]
    return [*outs, link.flush()]


def _rows(given: Given) -> pa.Table:
    return given.windows if isinstance(given, Output) else given.rows


ADDED = ("rows", "windowed", "late", "outside", "null_time", "ahead", "full", "windows")


def _together(outs: Sequence[Given]) -> Given:
    """Several outputs of one operator, in order, as one."""
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
    """Tables of one schema, which those before the first rows do not know."""
    known = [table for table in tables if table.num_rows]
    return pa.concat_tables(known) if known else tables[-1]
