"""Partial slices between processes: rows are reduced in one process, and merged into a store in another.

``Collector`` is the map side: it reduces rows, judged by a given watermark, to partial slices. ``packed`` divides them
by a hash of their keys into bytes for each place. ``admit`` is the reduce side: it merges them into an operator, which
then closes what its watermark has reached.

Rows of a spec that keeps rows are sent unchanged, and judged where they are admitted. The same is done for every spec
if the watermark is not known where rows are read.

Nothing here depends on the order in which rows or parts arrive: where several processes read a stream, there is no such
order. So ties go to the smaller value, and parts are sorted by their bytes before they are merged.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slicing.closing.fits import check_full
from slicing.closing.results import late_rows, none_late
from slicing.columns.arrow_io import no_rows, size_of
from slicing.columns.arrow_out import array_of
from slicing.columns.bits import as_numpy
from slicing.columns.keys import KeyTable
from slicing.columns.sources import one_batch
from slicing.columns.taking import taken
from slicing.columns.values import NOWHERE
from slicing.lifecycle import snapshot, wire
from slicing.lifecycle.repartition import earliest, latest, merged_into
from slicing.lifecycle.state import State, reached_by
from slicing.operator import Operator
from slicing.output import Output
from slicing.push import Pushed
from slicing.query.processing_time import ProcessingTime
from slicing.query.progress import Progress
from slicing.query.spec import Spec
from slicing.query.triggers import ARRIVAL, ByHand, EveryProcessingTime
from slicing.query.watermark import check_places
from slicing.stages.close import admit as admitted
from slicing.stages.close import close_and_fire
from slicing.stages.collect import Arrivals, collect
from slicing.stages.output import NO_ROWS, Account, output
from slicing.stages.read import encoded, read, too_far_apart
from slicing.storage.session_store import store_for
from slicing.system.bundles import bundled, table_bytes, table_of, unbundled
from slicing.windows.bounds import APART
from slicing.windows.rows.row_windows import RowWindow

_NO_PROGRESS = Progress()
COUNTS = tuple(NO_ROWS)


def check(spec: Spec, places: int = 1) -> None:
    """Refuse a spec whose answers need an order of arrival, which several processes reading one stream do not have."""
    if isinstance(spec.time, ProcessingTime):
        raise ValueError(
            "time=sl.processing_time() stamps rows as they are pushed, and a repeated batch would get other stamps; "
            "name a time column"
        )
    for trigger in spec.triggers().values():
        for part in trigger.parts():
            if isinstance(part, ByHand | EveryProcessingTime):
                raise ValueError(
                    f"{part!r} fires in the process that holds an sl.Operator, and here are several; use "
                    "sl.each_push(), which fires with each batch, or sl.every(span)"
                )
        if trigger.kind == ARRIVAL:
            raise ValueError(
                f"{trigger!r} counts rows as they arrive, and rows that come from several places have no such order; "
                "use sl.after_count(n), which goes by time"
            )
    for name, window in spec.windows.items():
        if not isinstance(window, RowWindow):
            continue
        if window.by_arrival:
            raise ValueError(f"windows[{name!r}] goes by arrival, and rows that come from several places have none")
        if spec.sequence is None and window.breaks_ties:
            raise ValueError(
                f"windows[{name!r}] depends on the order of rows of equal time, and rows that come from several places "
                "have none; name a column that has it: sequence="
            )
        if window.whole_stream and places > 1:
            raise ValueError(f"windows[{name!r}] needs the rows of all keys in one place: partitions=1; got {places}")
    check_places(spec.watermark, f"watermark={spec.watermark!r}")


def start(spec: Spec, schema: pa.Schema, watermark: int | None = None) -> Operator:
    """An operator for :func:`admit`, for rows of this schema."""
    check(spec)
    state = State.fresh(spec, schema, arrival=False)
    operator = Operator(spec)
    operator._state = replace(state, given=schema, watermark=watermark)
    return operator


def state_of(operator: Operator) -> State:
    """The state of an operator that came from :func:`start` or a snapshot of it."""
    assert operator._state is not None
    return operator._state


def operator_of(state: State) -> Operator:
    """An operator that continues from a state."""
    operator = Operator(state.plan.spec)
    operator._state = state
    return operator


def saved(operator: Operator) -> tuple[list[bytes | memoryview], int]:
    """The operator's state in pieces of bytes, packed and without a checksum, for a file that has its own; and its size
    unpacked. Operators of equal state give equal bytes."""
    return snapshot.pack(operator.spec, state_of(operator))


def loaded(spec: Spec, blob: bytes | memoryview) -> Operator:
    """The operator that :func:`saved` wrote, from its pieces joined. Partials are unpacked when they are first
    needed."""
    operator = Operator(spec)
    operator._state = snapshot.unpack(spec, blob)
    return operator


# --- the map side -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Parts:
    """What rows were reduced to: partial slices, slices that may change emitted windows, late rows, and the
    accounting."""

    state: State
    changing: State
    late: pa.Table
    counts: dict[str, int]
    progress: Progress
    rows: list[pa.RecordBatch]  # if the spec keeps rows: all rows that have a time
    newest: int | None = None  # the latest time of all rows
    oldest: int | None = None  # the earliest time of all rows that were not behind the watermark


class Collector:
    """Reduces rows of one batch of a stream to partial slices, wherever they are read.

    All rows are judged by ``watermark`` (in ticks, None while nothing is known). Rows in time and rows late for some
    window are never in one partial. ``judged=False``: the watermark is not known here, so rows are sent unchanged and
    judged where they are admitted.
    """

    def __init__(
        self,
        spec: Spec,
        schema: pa.Schema,
        watermark: int | None = None,
        judged: bool = True,
        keeps_late: bool = True,
    ) -> None:
        """``keeps_late``: late rows are kept, not only counted."""
        self._schema, self._keeps_late = schema, keeps_late
        self._fresh = state_of(start(spec, schema, watermark))
        self._as_rows = self._fresh.plan.asks_rows or not judged
        self._progress = Progress()
        self._newest: int | None = None
        self._oldest: int | None = None
        self._parts: list[State] = []
        self._changing: list[State] = []
        self._late: list[pa.Table] = []
        self._rows: list[pa.RecordBatch] = []
        self._counts = dict.fromkeys(COUNTS, 0)

    @property
    def nbytes(self) -> int:
        size = sum(map(size_of, self._rows)) + sum(map(size_of, self._late))
        for part in (*self._parts, *self._changing):
            size += part.store.nbytes + (0 if part.keys is None else part.keys.nbytes)
            size += sum(pool.nbytes for pool in part.pools.values())
        return size

    def push(self, data: object) -> None:
        """Take rows. Each push has a fixed cost of a few milliseconds, so push many rows at once."""
        state = self._fresh.draft()
        state.keys = None if state.keys is None else KeyTable(state.plan.key_types)
        state.progress = self._progress
        batch = read(state, one_batch(data))
        given, rows = batch.given, batch.rows
        self._progress = state.progress
        self._newest = latest([self._newest, state.newest])
        self._oldest = earliest([self._oldest, state.oldest])
        if self._as_rows:
            timed = np.delete(np.arange(given.num_rows), batch.aside)
            self._rows.append(taken(given, timed) if batch.aside.size else given)
            rows = rows.take(np.empty(0, np.int64))
        arrivals = collect(state, rows)
        for cells, parts in ((arrivals.cells, self._parts), (arrivals.changing, self._changing)):
            if len(cells):
                parts.append(state.but(store=store_for(state.plan, (cells,))))
        if self._keeps_late and (arrivals.late.size or batch.aside.size):
            self._late.append(late_rows(given, batch.null_time, arrivals.late, batch.ahead))
        of_rows = (arrivals.late.size, arrivals.outside, batch.null_time.size, batch.ahead.size)
        counted = (given.num_rows, 0, *of_rows)
        for name, count in zip(COUNTS, counted, strict=True):
            self._counts[name] += int(count)

    def parts(self) -> Parts:
        """What all rows pushed so far were reduced to."""
        fresh = self._fresh
        counts = dict(self._counts)
        if not self._as_rows:  # otherwise it is counted where the rows are admitted
            counts["windowed"] = 2 * counts["rows"] - sum(counts.values())
        late = pa.concat_tables(self._late) if self._late else none_late(self._schema)
        parts, changing = _one(fresh, self._parts), _one(fresh, self._changing)
        return Parts(parts, changing, late, counts, self._progress, self._rows, self._newest, self._oldest)


def _one(fresh: State, parts: list[State]) -> State:
    """Merge the parts to one table of cells. Each push has numbered keys and values by itself."""
    if len(parts) == 1:
        return parts[0]
    state = replace(fresh, keys=None if fresh.keys is None else KeyTable(fresh.plan.key_types))
    state, (cells,) = merged_into(state, parts)
    return replace(state, store=state.store.add(cells))


# --- on the way -------------------------------------------------------------------------------------------------------


def packed(parts: Parts, count: int) -> list[bytes]:
    """For each of ``count`` places the bytes that it has to admit: partial slices and late rows of its keys, and the
    progress.

    Every place gets the progress, even without keys. Only the first place gets the accounting.
    """
    given = parts.state.given
    assert given is not None
    sections = {
        "cells": wire.cut(parts.state, count),
        "changing": wire.cut(parts.changing, count) if len(parts.changing.store) else [],
        "late": _rows_by_key(parts.state, parts.late, count),
        "rows": _rows_by_key(parts.state, pa.Table.from_batches(parts.rows, given), count),
    }
    headers: dict[tuple[str, ...], bytes] = {}
    out: list[bytes] = []
    for p in range(count):
        names = tuple(name for name, found in sections.items() if found and found[p])
        if p == 0:
            header = _header(parts, names, parts.counts)
        else:
            header = headers[names] = headers.get(names) or _header(parts, names)
        out.append(bundled([header, *(sections[name][p] for name in names)]))
    return out


_SECTIONS = ("cells", "changing", "late", "rows")
_SOME = [tuple(name for at, name in enumerate(_SECTIONS) if which & 1 << at) for which in range(1 << len(_SECTIONS))]
# A zero byte, as JSON never begins with it; which sections; which times are known; mark of the column types; the times.
_PLAIN = struct.Struct("<BBBIqqq")


def _header(parts: Parts, names: tuple[str, ...], counts: dict[str, int] | None = None) -> bytes:
    """What one reader sends to a place about itself: JSON, or 31 bytes if it is only times."""
    times = parts.progress.largest, parts.newest, parts.oldest
    columns = parts.state.plan.columns
    if counts is None and not parts.progress.sources:
        which = sum(1 << _SECTIONS.index(name) for name in names)
        known = sum(1 << at for at, time in enumerate(times) if time is not None)
        return _PLAIN.pack(0, which, known, columns.mark, *(time or 0 for time in times))
    header: dict[str, Any] = {"progress": parts.progress.to_json(), "newest": times[1], "oldest": times[2]}
    header |= {"sections": names, "types": columns.type_names, "mark": columns.mark}
    return json.dumps(header | ({} if counts is None else {"counts": counts})).encode()


class _Header(NamedTuple):
    """The content of a reader's header."""

    sections: Sequence[str]
    progress: Progress
    newest: int | None
    oldest: int | None
    mark: int
    types: Mapping[str, str] | None = None
    counts: Mapping[str, int] | None = None


def _read_header(header: memoryview) -> _Header:
    """Read what ``_header`` has written."""
    if header[0]:
        fields = json.loads(bytes(header))
        return _Header(progress=Progress.from_json(fields.pop("progress")), **fields)
    _, which, known, mark, largest, newest, oldest = _PLAIN.unpack(header)
    progress = Progress(largest) if known & 1 else _NO_PROGRESS
    return _Header(_SOME[which], progress, newest if known & 2 else None, oldest if known & 4 else None, mark)


def _rows_by_key(state: State, rows: pa.Table, count: int) -> list[bytes]:
    """The rows of each place; an empty list if there are no rows."""
    if not rows.num_rows:
        return []
    return [table_bytes(some) if some.num_rows else b"" for some in _by_key(state, rows, count)]


def _by_key(state: State, rows: pa.Table, count: int) -> list[pa.Table]:
    """Divide rows by key into places, as ``repartition.split`` does."""
    if state.keys is None or count == 1:
        return [rows, *[rows.slice(0, 0)] * (count - 1)]
    keys = KeyTable(state.plan.key_types)
    codes = keys.encode([one_batch(rows).column(name) for name in state.plan.spec.by])
    target = (keys.hashes(np.arange(len(keys))) % np.uint64(count))[codes]
    return [rows.filter(array_of(target == p)) for p in range(count)]


@dataclass(frozen=True)
class _Arrived:
    """The unpacked partial slices of one process."""

    header: _Header
    sections: dict[str, Any]


def _unpacked(state: State, blob: bytes) -> _Arrived:
    found = unbundled(blob)
    header = _read_header(found[0])
    sections: dict[str, Any] = {}
    for name, section in zip(header.sections, found[1:], strict=True):
        if name in ("late", "rows"):
            rows = sections[name] = table_of(section)
            state.plan.columns.check(rows.schema)
        else:
            state.plan.columns.check_type_names(header.types, header.mark)
            sections[name] = section
    return _Arrived(header, sections)


# --- the reduce side --------------------------------------------------------------------------------------------------


def admit(operator: Operator, blobs: Iterable[bytes], prompt: bool = True, quiet: bool = False) -> Output:
    """Merge the partial slices of one batch, then close the windows that the watermark has reached.

    ``prompt``: use the watermark of all rows including this batch, as ``Operator.push`` does. Otherwise use the
    watermark of the batches *before* it, as Spark's own windows do. Rows must have been judged by the operator's
    watermark. Blobs may come in any order: equal states and equal blobs always give equal bytes. ``quiet``: the batch
    has been answered before, so costly parts of the output may be missing.
    """
    before = state_of(operator)
    known = 0 if before.keys is None else len(before.keys)
    try:
        return operator._commit(_admitted(before.draft(), blobs, prompt, quiet))
    except BaseException as error:
        operator._undo(before, known, error)
        raise


def _admitted(state: State, blobs: Iterable[bytes], prompt: bool, quiet: bool) -> Pushed:
    """What :func:`admit` makes of a draft of the state."""
    plan, arrived = state.plan, [_unpacked(state, blob) for blob in sorted(blobs)]
    reached = reached_by(state)
    headers = [a.header for a in arrived]
    for progress in _joined(headers):
        state.progress = plan.spec.watermark.joined(state.progress, progress, plan.measure)
    if prompt:
        reached = reached_by(state)
    state, new, late = _merged(state, arrived)
    counted = [one.counts for one in headers if one.counts is not None]
    counts = {name: sum(counts[name] for counts in counted) for name in COUNTS}
    tables = [a.sections["rows"] for a in arrived if "rows" in a.sections]
    if tables or plan.asks_rows:
        given = _in_one_order(state, tables) if plan.asks_rows else one_batch(pa.concat_tables(tables))
        if len(new.cells):
            raise ValueError(
                "a batch has rows that their reader has judged and rows that it has not; use one way for all"
            )
        _, columns = plan.columns.of(given)
        rows = encoded(state, columns, plan.measure.words(columns[str(plan.spec.time)]))
        new = collect(state, rows)
        state.arrived += len(rows)
        late.append(late_rows(given, NOWHERE, new.late))
        counts["late"] += new.late.size
        counts["outside"] += new.outside
        counts["windowed"] += len(rows) - new.late.size - new.outside
    low, high = earliest([one.oldest for one in headers]), latest([one.newest for one in headers])
    if low is not None and high is not None:
        newest = high if state.newest is None else state.newest
        first, last = min(low, newest), max(high, newest)
        if last - first > APART:
            raise ValueError(too_far_apart(plan, first, last))
    state.newest, state.oldest = latest([state.newest, high]), earliest([state.oldest, low])
    if plan.full and state.oldest is not None and state.newest is not None:
        check_full(plan, state.oldest, state.newest)
    answers, change = close_and_fire(state, reached, admitted(state, new), quiet=quiet)
    state.store = state.store.settled()
    out = output(state, answers, change, Account(pa.concat_tables(late) if late else None, counts))
    return Pushed(state, out)


def _joined(headers: Sequence[_Header]) -> list[Progress]:
    """The progress of all readers. Readers without sources are joined to one."""
    by_source = [one.progress for one in headers if one.progress.sources]
    return [*by_source, Progress(latest([one.progress.largest for one in headers]))]


def _merged(state: State, arrived: list[_Arrived]) -> tuple[State, Arrivals, list[pa.Table]]:
    """What several processes collected, in the codes and ranks of the state; and their late rows."""

    def sections(name: str) -> list[Any]:
        return [a.sections[name] for a in arrived if name in a.sections]

    state, (cells, changing) = wire.joined(state, sections("cells"), sections("changing"))
    return state, Arrivals(cells, changing, NOWHERE, 0, None), sections("late")


def _in_one_order(state: State, tables: list[pa.Table]) -> pa.RecordBatch:
    """Sort the rows of one batch by time, sequence, and then by all columns that are read."""
    assert state.given is not None
    rows = pa.concat_tables(tables) if tables else no_rows(state.given)
    batch = one_batch(rows)
    spec = state.plan.spec
    first = (spec.time, spec.sequence)
    names = tuple(dict.fromkeys(name for name in (*first, *spec.columns()) if isinstance(name, str)))
    plain = [c.dictionary_decode() if pa.types.is_dictionary(c.type) else c for c in map(batch.column, names)]
    order = pc.sort_indices(pa.table(plain, names=list(names)), sort_keys=[(name, "ascending") for name in names])
    return taken(batch, as_numpy(order))
