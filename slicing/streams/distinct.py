"""One row for each key and window, or for each key and span: a window query whose aggregate is a whole row.

A row is packed into a struct of its columns, so that ``first`` or ``last`` of the structs is the row to keep. With a
span, a row is kept if it is the first row of the range of time that ends at it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from slicing.aggregates.builtin import count, first, last, min
from slicing.columns.arrow_io import no_rows, one_piece
from slicing.columns.arrow_out import array_of
from slicing.columns.bits import as_numpy
from slicing.columns.dictionaries import coded, unordered
from slicing.columns.names import free, with_reason
from slicing.columns.sources import one_batch
from slicing.columns.typed import Columns, in_result_types, not_once
from slicing.joins.snapshot import read_parts, write_parts
from slicing.operator import Operator
from slicing.output import Output, Stats
from slicing.query.spec import Spec
from slicing.query.watermark import Bounded, Watermark
from slicing.streams.first_rows import FirstRows, key_types
from slicing.system.arguments import choice, column_name, column_or_none, says_arguments
from slicing.system.arrays import Ints
from slicing.system.turns import TakesTurns, in_turn
from slicing.times.durations import Duration, parse_span, shown
from slicing.windows.builtin import Tumbling, Whole, Window
from slicing.windows.calendar import Calendar
from slicing.windows.context_free import ContextFreeWindow
from slicing.windows.rows.per_row import per_row
from slicing.windows.rows.row_windows import RowWindow

WINDOWS = Tumbling | Calendar | Whole  # all other values of ``within`` are spans


@dataclass(frozen=True, init=False, repr=False)
class DistinctSpec:
    """Which rows are kept as the only row of their key and window.

    Parameters
    ----------
    on : list of str or str
        Key columns. Null is a key.
    time : str
        The time column.
    within : window or span
        ``sl.tumbling(...)`` or ``sl.calendar(...)``: one row for each key and window. ``sl.whole()``: one row for each
        key; no key is ever forgotten. Or a span: a row is dropped if its key has an earlier row less than the span
        before it, whether that one is kept or not.
    keep : str
        ``"first"`` or ``"last"``: the first or last row of a window by (time, ``sequence``, arrival), emitted when the
        window is complete. ``"any"``: the first row to arrive, emitted at once. A span only takes ``"first"``.
    sequence : str, optional
        A column that orders rows of equal time.
    watermark : Watermark, optional
        How the watermark of the stream moves; ``sl.bounded(0)`` if left out.

    Examples
    --------
    >>> import slicing as sl
    >>> sl.DistinctSpec(on=["id"], time="ts", within=sl.tumbling("1h"))
    sl.DistinctSpec(on=['id'], time='ts', within=sl.tumbling('1h'))
    """

    on: tuple[str, ...]
    time: str
    within: Tumbling | Calendar | Whole | Duration | int
    keep: str
    sequence: str | None
    watermark: Watermark

    @says_arguments
    def __init__(
        self,
        on: list[str] | tuple[str, ...] | str,
        time: str,
        within: object,
        keep: str = "first",
        sequence: str | None = None,
        watermark: Watermark | None = None,
    ) -> None:
        if not isinstance(within, WINDOWS):
            if isinstance(within, ContextFreeWindow | RowWindow | Window):
                allowed = "within must be sl.tumbling(...), sl.calendar(...), sl.whole() or a span such as '1m'"
                raise TypeError(f"{allowed}; got {within!r}")
            within = parse_span(within, "within", positive=True)
        elif getattr(within, "fill", False):
            raise ValueError(f"within={within!r}: fill=True has no meaning here; leave it out")
        choice(keep, "keep", ("first", "last", "any"))
        if keep != "first" and not isinstance(within, WINDOWS):
            raise ValueError(
                f"keep={keep!r} needs a window, such as sl.tumbling({shown(within)}); within={shown(within)} keeps "
                "rows that have no earlier one"
            )
        watermark = Bounded(0) if watermark is None else watermark
        if not isinstance(watermark, Watermark):
            raise TypeError(f"watermark must be a watermark, such as sl.bounded('1s'); got {watermark!r}")
        column_or_none(sequence, "sequence")
        column_name(time, "time")
        given = (on,) if isinstance(on, str) else on
        if not isinstance(given, list | tuple):
            raise TypeError(f"on must be a list of column names; got {on!r}")
        given = tuple(column_name(name, "on") for name in given)
        twice = [name for name in given if given.count(name) > 1]
        if twice:
            raise ValueError(f"on names column {twice[0]!r} twice; each key column is named once")
        for name in given:
            if name in ("window", "window_start", "window_end"):
                raise ValueError(f"on: column {name!r} has the name of a column that windows have; rename it")
        values = {"on": given, "time": time, "within": within, "keep": keep, "sequence": sequence}
        for name, value in {**values, "watermark": watermark}.items():
            object.__setattr__(self, name, value)
        self.query()

    def query(self) -> Spec:
        """The window query whose aggregate is a row."""
        row_name, least = self.added
        row = last(row_name) if self.keep == "last" else first(row_name)
        given: dict[str, Any] = {"by": self.on, "sequence": self.sequence, "watermark": self.watermark}
        if self.keep == "any":  # it says which rows are late and what the results have reached
            return Spec(self.time, {"w": self.within}, {least: count()}, **given)  # type: ignore[dict-item]
        if isinstance(self.within, WINDOWS):
            return Spec(self.time, {"w": self.within}, {row_name: row}, **given)
        return Spec(self.time, {"w": per_row(self.within)}, {row_name: row, least: min(self.time)}, **given)

    @property
    def read(self) -> tuple[str, ...]:
        """The columns that the query reads."""
        sequence = () if self.sequence is None else (self.sequence,)
        return tuple(dict.fromkeys((self.time, *self.on, *sequence, *self.watermark.columns())))

    @property
    def added(self) -> tuple[str, str]:
        """The names of the query's own columns: whole rows, and the least time of the rows before a row."""
        return free("__row", self.read), free("__least", self.read)

    def fingerprint(self) -> str:
        """A short hash of the spec, stable between processes."""
        return hashlib.sha256(f"{self.keep} {self.query().fingerprint()}".encode()).hexdigest()[:32]

    def __repr__(self) -> str:
        parts = [f"on={list(self.on)!r}", f"time={self.time!r}", f"within={shown(self.within)}"]
        defaults = {"keep": "first", "sequence": None, "watermark": Bounded(0)}
        parts += [f"{n}={getattr(self, n)!r}" for n, value in defaults.items() if getattr(self, n) != value]
        return f"sl.DistinctSpec({', '.join(parts)})"


@dataclass(frozen=True, repr=False)
class DistinctOutput:
    """The output of a push of :class:`Distinct`.

    Attributes
    ----------
    rows : pyarrow.Table
        Rows that are final, with all their columns.
    late : pyarrow.Table
        Late rows: the columns that were pushed, and ``reason``.
    stats : Stats
        The accounting, as in :attr:`Output.stats`.
    watermark : object
        No later output has a row before this time. With windows it is the start of the earliest window that is still
        open; with ``whole()`` None.
    """

    rows: pa.Table
    late: pa.Table
    stats: Stats
    watermark: Any

    def __repr__(self) -> str:
        return f"<sl.DistinctOutput: {self.rows.num_rows} rows, {self.late.num_rows} late, watermark {self.watermark}>"


class Distinct(TakesTurns):
    """Duplicate elimination in a stream (Li's DupElim).

    Parameters
    ----------
    spec
        A :class:`DistinctSpec`: which rows are equal, and for how long.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import slicing as sl
    >>> op = sl.Distinct(sl.DistinctSpec(on=["id"], time="t", within=sl.tumbling(10)))
    >>> op.push(pa.table({"t": [1, 2, 12], "id": ["a", "a", "a"], "v": [5, 6, 7]})).rows.to_pylist()
    [{'t': 1, 'id': 'a', 'v': 5}]


    """

    def __init__(self, spec: DistinctSpec) -> None:
        if not isinstance(spec, DistinctSpec):
            raise TypeError(f"Distinct takes a sl.DistinctSpec; got {type(spec).__name__}")
        self.spec = spec
        self._operator = Operator(spec.query())
        self._arrived = 0
        self._seen: FirstRows | None = None  # with keep="any"
        self._columns: pa.Schema | None = None  # of the rows that were pushed

    def __repr__(self) -> str:
        return f"<sl.Distinct of {self.spec!r}>"

    @in_turn
    def push(self, data: object) -> DistinctOutput:
        """Take rows; return the rows that are now known to be final."""
        given = self._of_the_same_columns(in_result_types(one_batch(data)))
        return self._or_undone(lambda: self._pushed(given))

    def _pushed(self, given: pa.RecordBatch) -> DistinctOutput:
        pushed = self._operator.push(_packed(self.spec, given, self._arrived))
        self._columns = self._columns or given.schema
        out = self._output(pushed)
        if self.spec.keep == "any":
            out = replace(out, rows=self._first(given, pushed))
        self._arrived += given.num_rows
        return out

    @in_turn
    def advance(self, watermark: object) -> DistinctOutput:
        """Promise that no row before ``watermark`` will come; return the rows that are now known to be final."""
        return self._or_undone(lambda: self._advanced(watermark))

    def _advanced(self, watermark: object) -> DistinctOutput:
        advanced = self._operator.advance(watermark)
        if self._seen is not None:
            self._let_go(self._seen)
        return self._output(advanced)

    @in_turn
    def flush(self) -> DistinctOutput:
        """End the stream; return all remaining rows."""
        return self._or_undone(lambda: self._output(self._operator.flush()))

    def _or_undone(self, work: Callable[[], DistinctOutput]) -> DistinctOutput:
        """Do the work. If it raises, the operator inside and the keys get back the state they had before."""
        put_back = self._restorer(one_call=True)
        try:
            out = work()
        except BaseException:
            put_back()
            raise
        self._operator._kept()
        return out

    def _restorer(self, one_call: bool = False) -> Callable[[], None]:
        """A function that restores the present state. A chain calls it if a later operator raises."""
        as_it_is, put_rows_back = self.__dict__.copy(), self._operator._restorer(one_call)
        put_keys_back = None if self._seen is None else self._seen.restorer()

        def put_back() -> None:
            self.__dict__.update(as_it_is)
            put_rows_back()
            if put_keys_back is not None:
                put_keys_back()

        return put_back

    @property
    def _knows_columns(self) -> bool:
        """Whether the types of the result columns are known."""
        return self._columns is not None

    def _unmoved(self) -> DistinctOutput:
        """The output of a call that changes nothing."""
        return self._output(self._operator._unmoved())

    @in_turn
    def snapshot(self) -> bytes:
        """The state as bytes, for :meth:`restore`."""
        parts = [self._arrived.to_bytes(8, "little"), bytes(self._operator.snapshot())]
        if self._columns is not None:
            parts.append(bytes(self._columns.serialize()))
        if self._seen is not None:
            parts.append(self._seen.to_bytes())
        return write_parts("Distinct", [self.spec], parts)

    @staticmethod
    def restore(spec: DistinctSpec, blob: bytes) -> Distinct:
        """Restore an operator from a snapshot. Raises if the spec or format differs, or if the snapshot is damaged."""
        found = Distinct(spec)
        arrived, operator, *more = read_parts("Distinct", [spec], blob)
        found._operator = Operator.restore(spec.query(), bytes(operator))
        found._arrived = int.from_bytes(arrived, "little")
        if more:
            found._columns = schema = pa.ipc.read_schema(pa.py_buffer(more[0]))
            for content in more[1:]:
                found._know(schema).read(content)
        return found

    def _first(self, given: pa.RecordBatch, out: Output) -> pa.Table:
        """The rows in time that are the first to arrive of their key and window."""
        seen = self._know(given.schema) if self._seen is None else self._seen
        late = _places(out.late[self.spec.added[0]]) if out.late.num_rows else np.empty(0, np.int64)
        in_time = np.delete(np.arange(given.num_rows), late - self._arrived)
        rows = pa.Table.from_batches([given]).take(array_of(in_time)).combine_chunks()
        time, *keys = (one_piece(rows[name]) for name in (self.spec.time, *self.spec.on))
        rows = rows.take(array_of(seen.first(time, keys)))
        self._let_go(seen)
        return rows

    def _let_go(self, seen: FirstRows) -> None:
        """Forget windows that the watermark has passed. As a value of the time column it may not fit its type."""
        state = self._operator._now
        if state is not None and state.watermark is not None:
            seen.let_go(state.watermark)

    def _of_the_same_columns(self, given: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with its columns in the order of the first batch. Raises if types differ."""
        if self._columns is None or given.schema.equals(self._columns):
            return given
        _, columns = Columns({field.name: field.type for field in self._columns}).of(given)
        return pa.RecordBatch.from_arrays(list(columns.values()), schema=self._columns)

    def _know(self, schema: pa.Schema) -> FirstRows:
        """Create the table of first rows for these columns."""
        self._seen = FirstRows(self.spec.within, schema.field(self.spec.time), key_types(schema, self.spec.on))
        return self._seen

    def _output(self, out: Output) -> DistinctOutput:
        rows = self._typed(_columns(chosen_rows(self.spec, out.windows)))
        if rows.num_columns == 0 and self._columns is not None:
            rows = no_rows(self._columns)
        late, packed = out.late, self.spec.added[0]
        if packed in late.column_names:
            whole = self._typed(_columns(late[packed]))
            late = whole.append_column(with_reason(whole.schema)[-1], late[late.num_columns - 1])
        spans = not isinstance(self.spec.within, WINDOWS)
        reached = out.watermark if spans else out.progress.get("window_start")  # windows emit rows in any order
        return DistinctOutput(rows, late, out.stats, reached)

    def _typed(self, rows: pa.Table) -> pa.Table:
        """Rows with their dictionary columns restored: structs inside the operator hold plain values."""
        return rows if self._columns is None else as_coded(rows, self._columns)


def as_coded(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows with the columns as dictionaries that are dictionaries in the schema."""
    for at, name in enumerate(rows.column_names):
        type = schema.field(name).type
        if pa.types.is_dictionary(type):
            rows = rows.set_column(at, name, coded(rows[name], unordered(type)))
    return rows


def _packed(spec: DistinctSpec, given: pa.RecordBatch, arrived: int) -> pa.RecordBatch:
    """The columns that the query reads, and each whole row as a struct together with its number."""
    names, place = given.schema.names, array_of(np.arange(arrived, arrived + given.num_rows))
    whole = pa.StructArray.from_arrays([*given.columns, place], names=[*names, free("__place", names)])
    return with_rows(spec, given, whole)


def with_rows(spec: DistinctSpec, given: pa.RecordBatch, rows: pa.Array) -> pa.RecordBatch:
    """The columns that the query reads, and the rows, packed or as numbers."""
    names = given.schema.names
    missing = [name for name in spec.read if name not in names]
    if missing:
        raise ValueError(not_once(missing[0], names))
    return pa.RecordBatch.from_arrays([*(given.column(name) for name in spec.read), rows], [*spec.read, spec.added[0]])


def chosen_rows(spec: DistinctSpec, windows: pa.Table) -> pa.ChunkedArray | None:
    """The rows that are kept, in the form that the engine was given."""
    packed, least = spec.added
    if packed not in windows.column_names or pa.types.is_null(windows[packed].type):
        return None  # with keep="any" windows have no rows; before the first push their columns are unknown
    rows = windows[packed]
    if least in windows.column_names:  # keep rows without an earlier row within the span
        alone = pa.compute.equal(one_piece(windows[least]), one_piece(windows["window_end"]))
        # one piece, because Arrow crashes on zero pieces of structs that hold an extension type of structs
        rows = pa.chunked_array([one_piece(rows).filter(alone)])
        rows = rows.take(array_of(np.sort(np.unique(_places(rows), return_index=True)[1])))
    return rows


def _columns(rows: pa.ChunkedArray | None) -> pa.Table:
    """The fields of packed rows as columns, without the last one, which is their number."""
    if rows is None:
        return pa.table({})
    whole = one_piece(rows)
    return pa.table({field.name: whole.field(at) for at, field in enumerate([*rows.type][:-1])})


def _places(rows: pa.ChunkedArray) -> Ints:
    """The numbers of rows."""
    whole = one_piece(rows)
    places: Ints = as_numpy(whole.field(rows.type.num_fields - 1) if pa.types.is_struct(rows.type) else whole)
    return places
