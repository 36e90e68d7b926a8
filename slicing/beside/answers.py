"""Rows and their windows: finds for each row the answers of the window that it belongs to or makes.

``aggregate`` makes the windows, with a column of codes in place of the keys. A row finds its window among the windows
of its code. Windows of a key do not overlap, so it is the last window that begins at the row or before. Windows of a
number of rows follow each other in steps, so a row's rank tells its window. Nothing is joined by keys and times, which
several rows may share.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slicing.aggregates import builtin
from slicing.aggregates.aggregate import Formula
from slicing.api import aggregate, all_windows
from slicing.beside.numbered import numbered, picked_by
from slicing.columns.arrow_io import one_piece
from slicing.columns.arrow_out import array_of
from slicing.columns.bits import as_numpy, present
from slicing.columns.keys import KeyTable
from slicing.columns.names import free
from slicing.columns.order import order_by, sorting, stable_order
from slicing.columns.taking import taken
from slicing.columns.values import ordering
from slicing.kernels.attach import ascends, at_ranks, lag_of, last_begun
from slicing.kernels.counting import count_before, count_codes
from slicing.query.plan import Plan
from slicing.query.policy import Policy
from slicing.query.spec import Spec
from slicing.query.spec_checks import AnyWindow
from slicing.query.watermark import manual
from slicing.system.arrays import NONE, Array, Codes, Ints, read_only
from slicing.system.lazy import lazy
from slicing.times.measure import Measure
from slicing.windows.builtin import ContextFreeWindow, Window, tumbling
from slicing.windows.rows.marked import Frame
from slicing.windows.rows.per_row import PerRow
from slicing.windows.rows.row_count import RowCount

ALL = 1 << 62
SEARCHED = 1 << 15  # more windows are not searched for each row: 1 M of 1 M rows in no order 230 -> 30 ms
_AS_FOUND = Policy(ordered=False, push_rows=ALL, step_rows=ALL)  # results are then sorted by key, as needed here
_ONE_KEY: Codes = np.empty(0, np.int32)
INSTEAD = "use sl.aggregate, which gives all windows, and join what you need of them"


@dataclass(frozen=True)
class Question:
    """The query for the given rows, and names for the columns that are added to them."""

    spec: Spec  # the given spec, without what only a stream needs
    coded: Spec  # ``spec`` with a column of codes in place of the keys, and with the places of a frame's rows
    code: str
    place: str
    first: str
    last: str

    @staticmethod
    def of(spec: Spec) -> Question:
        if all(isinstance(window, Window) for window in spec.windows.values()):  # a user's window may have state
            try:
                return _known(spec)
            except TypeError:  # an argument of an aggregate has no hash
                pass
        return Question.new(spec)

    @staticmethod
    def new(spec: Spec) -> Question:
        known = {*spec.columns(), *spec.aggs}
        code, place, first, last = (free(name, known) for name in ("code", "place", "first", "last"))
        aggs: dict[str, Formula] = dict(spec.aggs)
        if any(isinstance(window, Frame) for window in spec.windows.values()):
            aggs |= {first: builtin.min(place), last: builtin.max(place)}
        coded = all_at_once(spec, by=[code] if spec.by else [], aggs=aggs)
        return Question(all_at_once(spec), coded, code, place, first, last)

    @property
    def places(self) -> bool:
        """Whether the query asks for the places of rows."""
        return self.first in self.coded.aggs


@lru_cache(maxsize=256)
def _known(spec: Spec) -> Question:
    return Question.new(spec)


class Rows:
    """The rows that have a time: the columns that the query reads, their times and codes, and their ranks."""

    def __init__(self, spec: Spec, plan: Plan, timed: list[pa.RecordBatch], count: int, at: Ints | None) -> None:
        """``at``: which of the ``count`` given rows these are. None: all of them."""
        self.spec, self.count, self.at, self.measure = spec, count, at, plan.measure
        self.columns, self.texts = numbered(timed, spec)
        read = [plan.columns.of(batch)[1] for batch in timed]
        self.time = read_only(_joined([plan.measure.words(columns[str(spec.time)]) for columns in read]))
        self.code = _ONE_KEY
        self.codes, self.keyed = 1, bool(spec.by)
        if self.keyed:
            keys = KeyTable(plan.key_types)
            self.code = _joined([keys.encode([columns[name] for name in spec.by]) for columns in read])
            self.codes = len(keys)
        self._sequence: list[Ints] = []
        if spec.sequence is not None:
            self._sequence = [_joined([ordering(columns[spec.sequence], spec.sequence) for columns in read])]

    @staticmethod
    def of(question: Question, given: list[pa.RecordBatch]) -> Rows:
        spec = question.spec
        plan = Plan.of(spec, given[0].schema)
        timed, at, count, whole = [], [], 0, True
        for batch in given:
            some = batch.select(spec.columns())
            valid = _with_time(spec, some, count)
            timed.append(some if valid is None else taken(some, valid))
            at.append(slice(count, count + len(batch)) if valid is None else valid + count)
            count, whole = count + len(batch), whole and valid is None
        return Rows(spec, plan, timed, count, None if whole else np.r_[tuple(at)])

    def answered(self, question: Question, threads: int) -> Results:
        """All windows of these rows, by their codes."""
        data = pa.Table.from_batches(self.columns)
        if self.keyed:
            data = data.append_column(question.code, array_of(self.code))
        if question.places:
            data = data.append_column(question.place, array_of(self.place()))
        if all(makes(w) and isinstance(w, RowCount) and w.fewest > len(data) for w in question.spec.windows.values()):
            data = data.slice(0, 0)  # no row makes a window
        windows = question.spec.windows.values()
        policy = _AS_FOUND.with_arguments(ranks=any(map(self.by_rank, windows)), starts=not all(map(makes, windows)))
        table = all_windows(data, question.coded, threads, policy=policy)
        several, code = len(question.spec.windows) > 1, question.code if self.keyed else None
        return Results(table, self.measure, several, self.codes, code, question.first, question.last)

    def as_texts(self, agg: Formula, answers: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
        """The answers of an aggregate; the texts, where the rows have numbers instead."""
        texts = self.texts.get(picked_by(agg) or "")
        return answers if texts is None else texts.of(answers)

    def place(self) -> Ints:
        """Each row's place among all rows, sorted by key, then by (time, sequence, arrival)."""
        sizes = _counted(self.code, self.codes)
        return self._before(True, True, np.cumsum(sizes) - sizes)

    def rank(self, by_time: bool) -> Ints:
        """How many rows of all keys come before each row, by (time, sequence, arrival) or by arrival."""
        return self._before(False, by_time, np.zeros(1, np.int64))

    @lazy
    def _by_time(self) -> Ints | None:
        if not self._sequence and ascends(_ONE_KEY, self.time):
            return None
        return sorting(*self._sequence, self.time)

    def by_rank(self, window: AnyWindow) -> bool:
        """Whether rows find their windows by the windows' ranks. Those that each key's rows make, in order of time, are
        found by number."""
        if not isinstance(window, RowCount) or self.before_first is not None:
            return False
        return not makes(window) or window.by_arrival or (self.keyed and not window.per_key)

    @lazy
    def before_first(self) -> int | None:
        """How many rows come before the first one that makes a window, if every row from that one on makes one, in
        order. None: positions are to be found."""
        if len(self.spec.windows) > 1 or self.keyed or self.at is not None:
            return None
        (window,) = self.spec.windows.values()
        if not (isinstance(window, RowCount) and makes(window)):
            return None
        return min(window.fewest - 1, self.count) if window.by_arrival or self._by_time is None else None

    def _before(self, per_key: bool, by_time: bool, count: Ints) -> Ints:
        order = self._by_time if by_time else None
        out = np.empty(self.time.size, np.int64)
        count_before(self.code if per_key else _ONE_KEY, NONE if order is None else order, count, out)
        return read_only(out)

    def last_begun(self, place: Ints, windows: Windows, end: Ints, more: int = 0, grouped: bool = True) -> Ints:
        """For each row the last window of its key that begins at its place or before. -1: there is none, or it ends
        there, at ``end + more``. No ``end``: it has none."""
        out, order = np.empty(place.size, np.int64), None
        code, bounds = (self.code, windows.bounds) if grouped else (_ONE_KEY, windows.bounds[[0, -1]])
        if windows.begin.size > SEARCHED and not ascends(_ONE_KEY, place):
            order = self._by_time if place is self.time and not self._sequence else sorting(place)
        visited = NONE if order is None else order
        last_begun(code, place, visited, bounds, windows.begin, end, np.int64(more), bounds[:-1].copy(), out)
        return out

    def at_ranks(self, windows: Windows, window: RowCount) -> Ints:
        """For each row its window of a number of its key's rows. -1: there is none."""
        out = np.empty(self.time.size, np.int64)
        less, rows = (window.fewest - 1, 1) if makes(window) else (0, window.n)
        order = None if window.by_arrival else self._by_time
        shape, ranked = (np.int64(window.every), np.int64(rows)), np.full(self.codes, -less)
        at_ranks(self.code, NONE if order is None else order, windows.bounds, *shape, ranked, out)
        return out

    def spread(self, found: Ints) -> Ints | int:
        """Spread what was found for these rows over all given rows. -1 where nothing was found. A number: the rows
        after the first so many have one window each, in order."""
        if self.at is not None:
            every = np.full(self.count, -1)
            every[self.at] = found
            found = every
        lag = int(lag_of(found))
        return found if lag < 0 else lag


@dataclass(frozen=True)
class Windows:
    """The windows of one type, sorted by code and begin, and their positions among all results."""

    results: Results
    at: Ints | None  # None: all results, as they are
    begin: Ints  # where each window begins or, if rows make windows, where the row is
    bounds: Ints  # the first window of each code

    def words(self, column: str) -> Ints:
        words = self.results.words(column)
        return words if self.at is None else read_only(words.take(self.at))

    def among_all(self, found: Ints) -> Ints:
        """Positions of windows of this type as positions among all results. -1: none."""
        if self.at is None or not self.at.size:
            return found
        return np.where(found < 0, -1, self.at.take(found))


@dataclass(frozen=True)
class Results:
    """The results of ``aggregate``, and the names of its added columns."""

    table: pa.Table
    measure: Measure
    several: bool  # whether there are several types of windows
    codes: int
    code: str | None
    first: str
    last: str

    def words(self, column: str) -> Ints:
        """A column of times or of whole numbers."""
        array = one_piece(self.table[column])
        if column in ("window_start", "window_end"):
            return read_only(self.measure.words(array))
        array = array.fill_null(-1) if array.null_count else array
        return read_only(as_numpy(array).astype(np.int64, copy=False))

    def of(self, window: str, begin: str) -> Windows:
        """The windows of one name, by code and then by the column ``begin``."""
        at: Ints | None = None
        if self.several:
            at = np.flatnonzero(as_numpy(pc.equal(self.table["window"], window)))
        begins, code = self.words(begin), _ONE_KEY if self.code is None else self._codes(self.code)
        if at is not None:
            begins, code = begins.take(at), code.take(at) if code.size else code
        if not ascends(code, read_only(begins)):
            order = _by_code(begins, code) if code.size else order_by(begins)
            at, begins = order if at is None else at.take(order), begins.take(order)
        sizes = np.array([begins.size]) if self.code is None else _counted(code, self.codes)
        return Windows(self, at, read_only(begins), np.append(0, np.cumsum(sizes)))

    def _codes(self, column: str) -> Codes:
        return as_numpy(one_piece(self.table[column])).copy()


def _by_code(begin: Ints, code: Codes) -> Ints:
    """The order by code, then by ``begin``. Usually each code's windows come in order."""
    order = stable_order(code)
    return order if ascends(code.take(order), read_only(begin.take(order))) else order_by(begin, code.astype(np.int64))


def makes(window: AnyWindow) -> bool:
    """Whether a row gets the window that it makes, not the window that it belongs to."""
    return isinstance(window, PerRow) or (isinstance(window, RowCount) and window.every == 1 and window.n > 1)


def _begin(window: AnyWindow, results: Results, by_rank: bool) -> str:
    """The column that says where windows begin or, if rows make windows, where the row is."""
    if by_rank:
        return "rank_end" if makes(window) else "rank_start"
    if isinstance(window, Frame):
        return results.first
    return "window_end" if makes(window) else "window_start"


def answer_of_each(rows: Rows, results: Results, name: str, window: AnyWindow) -> tuple[Ints | int, pa.Table]:
    """For each given row the position of its answer, and the answers. A number: the rows after the first so many have
    an answer each, in order."""
    spec = rows.spec
    answers = results.table.select(list(spec.aggs))
    if rows.before_first is not None:
        return rows.before_first, answers
    found = _window_of_each(rows, results.of(name, _begin(window, results, rows.by_rank(window))), window)
    if isinstance(window, PerRow) and (found < 0).any():  # ranges without rows
        found[found < 0] = len(answers)
        answers = pa.concat_tables([answers, _of_no_rows(spec, rows.columns[0].schema)])
    return rows.spread(found), answers


def _window_of_each(rows: Rows, windows: Windows, window: AnyWindow) -> Ints:
    """For each row the position of its window among all results. -1: it has none."""
    begin = windows.begin
    if isinstance(window, RowCount) and (window.per_key or not rows.keyed):
        found = rows.at_ranks(windows, window)
    elif isinstance(window, RowCount):
        rank = rows.rank(not window.by_arrival)
        if makes(window):
            found = rows.last_begun(read_only(rank + 1), windows, begin, 1)
        else:
            found = rows.last_begun(rank, windows, windows.words("rank_end"))
    elif isinstance(window, PerRow):
        found = rows.last_begun(rows.time, windows, begin, 1)
    elif isinstance(window, Frame):
        found = rows.last_begun(rows.place(), windows, windows.words(windows.results.last), 1, grouped=False)
    elif isinstance(window, ContextFreeWindow):
        end = windows.words("window_end")
        _check_apart(windows, begin, end, window)
        found = rows.last_begun(rows.time, windows, end)
    else:  # no row is left out, and windows may end at their last row's time
        found = rows.last_begun(rows.time, windows, read_only(np.empty(0, np.int64)))
    return windows.among_all(found)


def _counted(code: Codes, codes: int) -> Ints:
    """How often each code comes."""
    counts = np.zeros(codes, np.int64)
    count_codes(code, counts)
    return counts


def _joined(parts: list[Array]) -> Array:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _check_apart(windows: Windows, begin: Ints, end: Ints, window: AnyWindow) -> None:
    """Refuse windows that overlap, as a user's own windows may."""
    again = begin[1:] < end[:-1]
    again[windows.bounds[1:-1][(windows.bounds[1:-1] > 0) & (windows.bounds[1:-1] <= again.size)] - 1] = False
    if again.any():
        raise ValueError(f"attach gives each row one window, and those of {window!r} overlap; {INSTEAD}")


def _of_no_rows(spec: Spec, schema: pa.Schema) -> pa.Table:
    """The aggregates of a window without rows, taken from the second of three windows, which is empty."""
    names = spec.columns()
    time = free("time", {*names, *spec.aggs})
    data = pa.table([pa.nulls(2, schema.field(name).type) for name in names], names=list(names))
    data = data.append_column(time, array_of(np.array([0, 2])))
    windows = {"each": tumbling(1, fill=True)}
    return aggregate(data, Spec(time, windows, dict(spec.aggs), watermark=manual())).select(list(spec.aggs)).slice(1, 1)


def all_at_once(spec: Spec, **others: Any) -> Spec:
    """The query for all rows at once: with other arguments, and without what only a stream needs."""
    windows = {
        name: replace(window, fill=False) if getattr(window, "fill", False) else window  # type: ignore[type-var]
        for name, window in spec.windows.items()
    }
    of_a_table: dict[str, Any] = {
        "windows": windows,
        "watermark": manual(),
        "allowed_lateness": 0,
        "emit": "final",
        "trigger": None,
    }
    return replace(spec, **(of_a_table | others))


def _with_time(spec: Spec, batch: pa.RecordBatch, before: int) -> Ints | None:
    """The positions of rows that have a time; None: all. ``before``: how many rows earlier batches have."""
    time = batch.column(str(spec.time))
    if not time.null_count:
        return None
    valid = present(time)
    if spec.on_null_time == "error":
        raise ValueError(
            f"time column {spec.time!r} is null in row {before + int(np.argmin(valid))} of the data; fill or drop "
            "nulls, or use on_null_time='late' to leave such rows without a window"
        )
    return np.flatnonzero(valid)
