"""Snapshots: an operator's state as checksummed bytes, and back.

    magic, format version, checksum | header (JSON) | Arrow IPC streams: schema, keys, pools, fills, revisions, runs,
    kept rows

Runs are written as they are, not merged, so that a restored operator goes on bit for bit like the one that was
written. Key values are written raw: codes mean something in one process only.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slicing.cells.blocks import Block, identity, width
from slicing.cells.lanes import Lane
from slicing.cells.lists import Lists
from slicing.cells.packed import MARK, Written, written
from slicing.cells.table import Cells
from slicing.cells.unread import Unread
from slicing.closing.postpone import Postponed
from slicing.closing.revise import Revisions
from slicing.columns.arrow_io import one_piece, size_of
from slicing.columns.key_marks import KeyMarks
from slicing.columns.keys import KeyTable
from slicing.columns.row_values import as_arrow, values_of
from slicing.kept_rows.by_key import KeyRows
from slicing.kept_rows.final import FinalRows, Run
from slicing.kept_rows.of_stream import Stream, axes
from slicing.kept_rows.plain import PlainRows
from slicing.kept_rows.remembered import Arrived, Quiet
from slicing.lifecycle.in_range import OutOfRange, check_state
from slicing.lifecycle.state import State
from slicing.query.plan import Plan
from slicing.query.policy import DEFAULT, Policy
from slicing.query.spec import Spec
from slicing.query.watermark import Progress
from slicing.reducing.batch import Rows
from slicing.storage.apart import Apart
from slicing.storage.row_panes import RowPanes
from slicing.storage.store import Store
from slicing.system.bundles import schema_of, side_by_side, table_bytes, table_of, unbundled
from slicing.windows.bounds import BEGIN, FOREVER
from slicing.windows.rows.row_view import Context, Opened, RowTable
from slicing.windows.rows.users import context_json, context_value

Ints = npt.NDArray[np.int64]

MAGIC = b"SLICESNP"
FORMAT = 12
_HEAD = struct.Struct("<8sI16s")  # magic, format, checksum of all that follows


class SnapshotError(ValueError):
    """A snapshot that cannot be read: of another spec, a newer format, or damaged.

    Examples
    --------
    >>> spec = sl.Spec("t", {"ten": sl.tumbling(10)}, {"n": sl.count()})
    >>> try:
    ...     sl.Operator.restore(spec, b"damaged")
    ... except sl.SnapshotError as error:
    ...     print(error)
    the bytes are not a snapshot of this library (they do not begin as one)
    """


def write(spec: Spec, state: State | None, advanced: tuple[object, ...], ended: bool) -> bytes:
    sections, _ = _written(spec, state, advanced, ended, False)
    body = b"".join(sections)
    return _HEAD.pack(MAGIC, FORMAT, _checksum(body)) + body


def pack(spec: Spec, state: State) -> tuple[list[bytes | memoryview], int]:
    """A snapshot without a checksum, its tables packed, for files that have one, in pieces; and how many bytes it is
    unpacked.

    Equal states give equal bytes: cells that were read from such bytes and not touched since are there as they were.
    """
    return _written(spec, state, (), False, True)


def _written(
    spec: Spec, state: State | None, advanced: tuple[object, ...], ended: bool, packed: bool
) -> tuple[list[bytes | memoryview], int]:
    header: dict[str, Any] = {"fingerprint": spec.fingerprint(), "spec": repr(spec)}
    header |= {"advanced": list(advanced), "ended": ended}
    tables: list[pa.Table | Unread | _Run] = []
    if state is not None:
        state = state.but(postponed=tuple(p.rest() for p in state.postponed))
        header |= _state_header(state)
        tables = _state_tables(state, packed)
    sections = [table_bytes(t, packed) if isinstance(t, pa.Table) else t.packed or b"" for t in tables]
    size = sum(size_of(table) if isinstance(table, pa.Table) else table.nbytes for table in tables)
    return side_by_side([json.dumps(header).encode(), *sections]), size


def read(
    spec: Spec, blob: bytes | memoryview, known: State | None = None, policy: Policy = DEFAULT
) -> tuple[State | None, tuple[object, ...], bool]:
    """The state, watermarks given before any row, and whether the stream has ended.

    ``known`` is another state of the spec; where its columns are the same, its plan is not made again.
    """
    try:
        view = memoryview(blob)
    except TypeError:
        raise TypeError(f"a snapshot is bytes-like data, as snapshot() gives it; got {type(blob).__name__}") from None
    return _read(spec, _sections(view), known, False, policy)


def unpack(spec: Spec, blob: bytes | memoryview, policy: Policy = DEFAULT) -> State:
    """The state of what ``pack`` has made, read from a file whose checksum was right."""
    state, _, _ = _read(spec, unbundled(blob), None, True, policy)
    assert state is not None
    return state


def _read(
    spec: Spec, parts: list[memoryview], known: State | None, packed: bool, policy: Policy
) -> tuple[State | None, tuple[object, ...], bool]:
    head, *sections = parts
    header = json.loads(bytes(head))
    if header["fingerprint"] != spec.fingerprint():
        raise SnapshotError(
            f"the snapshot was written for another spec (fingerprint {header['fingerprint']}, this one has "
            f"{spec.fingerprint()}); it was {header['spec']}"
        )
    if "runs" not in header:
        return None, tuple(header["advanced"]), header["ended"]
    if known is not None:  # from another process of the same query
        return _state(spec, header, _Tables(sections, False, False), known, policy), (), header["ended"]
    try:
        state = _state(spec, header, _Tables(sections, True, packed), None, policy)
        check_state(state)
    except (OutOfRange, pa.ArrowInvalid) as error:
        raise SnapshotError(f"the snapshot is not one that this library wrote: {error}") from None
    return state, (), header["ended"]


def _state_header(state: State) -> dict[str, Any]:
    return {
        "arrival": state.plan.arrival,
        "since": state.plan.since,
        "agg_since": state.plan.agg_since,
        "newest": state.newest,
        "oldest": state.oldest,
        "progress": state.progress.to_json(),
        "arrived": state.arrived,
        "crowded": state.crowded,
        "pools": list(state.pools),
        "postponed": [[len(p.store.runs), p.after, p.until] for p in state.postponed],
        "apart": [[len(known.store.runs), known.judged, known.epoch] for known in state.apart],
        "told": [[name, len(store.runs)] for name, store in state.told.items()],
        "passed": state.passed is not None,
        "held": [state.held is not None, state.shown],
        "fired": [state.epoch, state.fired, state.fired_at],
        "marks": len(state.marks),
        "groups": [_group_header(group) for group in state.groups],
        **_group_header(state),
    }


def _group_header(state: State) -> dict[str, Any]:
    """Of keys with a watermark of their own: what is theirs alone."""
    return {
        "watermark": state.watermark,
        "filled": list(state.filled),
        "runs": len(state.store.runs),
        "coarse": state.store.coarse,
        "rows": _rows_header(state.rows),
    }


def _group_tables(state: State) -> list[pa.Table]:
    tables = [pa.table({"end": last}) for last in state.filled.values()]
    tables.append(pa.table(asdict(state.revisions)))
    tables += [_cells_table(run) for run in state.store.runs]
    return tables + _row_tables(state.rows)


def _group(state: State, header: dict[str, Any], take: Iterator[pa.Table]) -> State:
    """What ``_group_header`` and ``_group_tables`` have written."""
    plan = state.plan
    filled = {k: next(take)["end"].to_numpy().copy() for k in header["filled"]}
    revisions = Revisions(**{name: c.to_numpy() for name, c in zip(*_columns(next(take)), strict=True)})
    store = Store(plan, tuple(_cells(plan, next(take)) for _ in range(header["runs"])), header["coarse"])
    rows = _rows(plan, header["rows"], take)
    return state.but(watermark=header["watermark"], store=store, rows=rows, filled=filled, revisions=revisions)


class _Run(NamedTuple):
    """Cells as bytes, and how many they are unpacked."""

    packed: list[bytes | memoryview]
    nbytes: int


def _run_of(plan: Plan, run: Cells) -> pa.Table | Unread | _Run:
    """A run for a file: cells of words as words that are packed, 0.03 us each where lz4 takes 0.2."""
    if isinstance(run, Unread) and run.packed is not None:
        return run
    if not plan.words or not len(run):
        return _cells_table(run)
    return _Run(written(run), len(run) * 8 * (3 + sum(map(width, (lane.kind for lane in plan.lanes)))))


def _state_tables(state: State, packed: bool = False) -> list[pa.Table | Unread | _Run]:
    assert state.given is not None
    tables: list[pa.Table | Unread | _Run] = [state.given.empty_table()]
    if state.keys is not None:
        values = state.keys.values(np.arange(len(state.keys)))
        tables.append(pa.table(dict(zip(map(str, range(len(values))), values, strict=True))))
    tables += [pa.table({"value": pool}) for pool in state.pools.values()]
    tables += [pa.table({"end": last}) for last in state.filled.values()]
    tables.append(pa.table(asdict(state.revisions)))
    tables += [_run_of(state.plan, run) if packed else _cells_table(run) for run in state.store.runs]
    tables += [_cells_table(run) for p in state.postponed for run in p.store.runs]
    tables += [_cells_table(run) for known in state.apart for run in known.store.runs]
    tables += [_cells_table(run) for store in state.told.values() for run in store.runs]
    if state.passed is not None:
        tables += _passed_tables(state.passed)
    tables += [] if state.held is None else [state.held]
    tables += _row_tables(state.rows)
    if len(state.marks):
        tables.append(pa.table({"code": state.marks.code, "mark": state.marks.mark}))
    tables += [table for group in state.groups for table in _group_tables(group)]
    return tables


class _Tables(Iterator[pa.Table]):
    """The tables of a snapshot one by one, each looked at before it is used where it may be anything."""

    def __init__(self, sections: list[memoryview], checked: bool, packed: bool) -> None:
        self._left, self._checked, self._packed = iter(sections), checked, packed

    def __next__(self) -> pa.Table:
        return self._table(next(self._left))

    def run(self, plan: Plan) -> Cells:
        """Cells of a store, their partials still packed where these are words and nothing has to be known of them."""
        if not self._packed:
            return _cells(plan, next(self))
        section = next(self._left)
        if section[: len(MARK)] == MARK:
            return _written_run(plan, section)
        if plan.ranked:
            return _cells(plan, self._table(section))
        known = [_width(column.type) for column in schema_of(section)]
        widths = [width for width in known if width is not None]
        if known[1:] != [_words_of(lane) for lane in plan.lanes] or len(widths) < len(known):
            return _cells(plan, self._table(section))
        meta = _words(self._table(section, [0])["meta"])

        def partials() -> tuple[Block, ...]:
            blocks = tuple(map(_words, self._table(section, list(range(1, len(widths)))).columns))
            if {len(block) for block in blocks} - {len(meta)}:
                raise SnapshotError("the snapshot is not one that this library wrote: cells without partials")
            return blocks

        return Unread(meta, 8 * len(meta) * sum(widths[1:]), partials, section)

    def _table(self, section: memoryview, columns: list[int] | None = None) -> pa.Table:
        table = table_of(section, columns)
        if self._checked:
            table.validate(full=True)
        return table


def _width(type: pa.DataType) -> int | None:
    """How many words a column has of each cell, None where they are not so many of all."""
    words = pa.types.is_fixed_size_list(type) and type.value_type == pa.int64()
    return int(type.list_size) if words else None


def _words_of(lane: Lane) -> int | None:
    block = identity(lane, 0)
    return None if isinstance(block, Lists) else int(block.shape[1])


def _written_run(plan: Plan, section: memoryview) -> Cells:
    """What ``_run_of`` made of a run of cells of words."""
    if not plan.words:
        raise SnapshotError("the snapshot is not one that this library wrote: cells whose partials are no words")
    widths = [width(lane.kind) for lane in plan.lanes]
    try:
        cells = Written(section, widths)
    except ValueError as error:
        raise SnapshotError(f"the snapshot is not one that this library wrote: {error}") from None
    if plan.ranked:  # something has to be known of its partials
        return Cells(cells.meta(), cells.blocks())
    return Unread(cells.meta(), 8 * cells.size * sum(widths), cells.blocks, cells.section)


def _state(spec: Spec, header: dict[str, Any], take: _Tables, known: State | None, policy: Policy) -> State:
    """What ``_state_header`` and ``_state_tables`` have written."""
    given = next(take).schema
    stands = header["arrival"], header["since"], header["agg_since"]
    if known is not None and given == known.given and stands == _stands(known.plan):
        plan = known.plan
    else:
        plan = Plan(spec, given, *stands, policy=policy)
    keys = None
    if spec.by:
        keys = KeyTable.of(plan.key_types, [one_piece(column) for column in next(take).columns])
    pools = {name: one_piece(next(take)["value"]) for name in header["pools"]}
    filled = {k: next(take)["end"].to_numpy().copy() for k in header["filled"]}
    revisions = Revisions(**{name: c.to_numpy() for name, c in zip(*_columns(next(take)), strict=True)})
    store = Store(plan, tuple(take.run(plan) for _ in range(header["runs"])), header["coarse"])
    postponed = tuple(
        Postponed(Store(plan, tuple(_cells(plan, next(take)) for _ in range(runs))), after, until)
        for runs, after, until in header["postponed"]
    )
    apart = tuple(
        Apart(Store(plan, tuple(_cells(plan, next(take)) for _ in range(runs))), judged, epoch)
        for runs, judged, epoch in header["apart"]
    )
    told = {name: Store(plan, tuple(_cells(plan, next(take)) for _ in range(runs))) for name, runs in header["told"]}
    passed = _passed(plan, take) if header["passed"] else None
    held, shown = header["held"]
    waiting = next(take) if held else None
    epoch, fired, fired_at = header["fired"]
    state = State(
        plan,
        store,
        _rows(plan, header["rows"], take),
        keys,
        watermark=header["watermark"],
        newest=header["newest"],
        oldest=header["oldest"],
        progress=Progress.from_json(header["progress"]),
        arrived=header["arrived"],
        given=given,
        pools=pools,
        revisions=revisions,
        filled=filled,
        postponed=postponed,
        crowded=header["crowded"],
        apart=apart,
        told=told,
        passed=passed,
        epoch=epoch,
        fired=fired,
        fired_at=fired_at,
        held=waiting,
        shown=shown,
    )
    if header["marks"]:
        state.marks = KeyMarks(*(column.to_numpy() for column in next(take).columns))
    state.groups = tuple(_group(state, group, take) for group in header["groups"])
    return state


def _stands(plan: Plan) -> tuple[object, ...]:
    return plan.arrival, plan.since, plan.agg_since


def _sections(blob: memoryview) -> list[memoryview]:
    if len(blob) < _HEAD.size or bytes(blob[:8]) != MAGIC:
        raise SnapshotError("the bytes are not a snapshot of this library (they do not begin as one)")
    _, version, checksum = _HEAD.unpack(blob[: _HEAD.size])
    body = blob[_HEAD.size :]
    if version != FORMAT:
        raise SnapshotError(f"the snapshot has format {version}; this version of the library reads {FORMAT}")
    if _checksum(body) != checksum:
        raise SnapshotError("the snapshot is damaged: its checksum does not match its content")
    return unbundled(body)


def _checksum(body: bytes | memoryview) -> bytes:
    return hashlib.blake2b(body, digest_size=16).digest()


def _cells_table(cells: Cells) -> pa.Table:
    """Each block as a fixed-size list: the words as they lie in memory; lists of items as lists of these."""

    def column(block: Block) -> pa.Array:
        if isinstance(block, Lists):
            whole = block.whole()
            return pa.LargeListArray.from_arrays(pa.array(whole.at), column(whole.items))
        return _lists(block)

    names = ["meta", *(f"lane{i}" for i in range(len(cells.blocks)))]
    return pa.table([column(block) for block in (cells.meta, *cells.blocks)], names=names)


def _cells(plan: Plan, table: pa.Table) -> Cells:
    def block(column: pa.Array) -> Block:
        if pa.types.is_large_list(column.type):
            return Lists(column.offsets.to_numpy(), block(column.values)).whole()
        return column.flatten().to_numpy().reshape(-1, column.type.list_size)

    if table.num_columns != 1 + len(plan.lanes):
        raise SnapshotError(f"the snapshot holds {table.num_columns - 1} lanes; this spec has {len(plan.lanes)}")
    meta, *blocks = (block(one_piece(c)) for c in table.columns)
    return Cells(meta, tuple(blocks))


def _passed_tables(known: RowPanes) -> list[pa.Table]:
    facts = (known.rows, known.windows, known.parts)
    return [*(pa.table({"facts": _lists(words)}) for words in facts), *map(_cells_table, known.tables)]


def _passed(plan: Plan, take: Iterator[pa.Table]) -> RowPanes:
    rows, windows, parts = (_words(next(take)["facts"]) for _ in range(3))
    row_cells, part_cells = (_cells(plan, next(take)) for _ in range(2))
    return RowPanes(plan, rows, row_cells, windows, parts, part_cells)


def _row_tables(store: KeyRows) -> list[pa.Table]:
    final, quiet = store.final, store.quiet
    counts = _known({"gone": (final.gone, 0), "ranked": (final.ranked, 0), "wakes": (final.wakes, FOREVER)})
    others = (
        _known({"of_key": (store.arrived.of_key, 0)}),
        _known({"last": (quiet.last, BEGIN), "began": (quiet.began, 0)}),
    )
    notes = (pa.table({"note": known}) for kept in (store.notes, store.bases) for _, known in sorted(kept.items()))
    return [
        counts,
        *others,
        *notes,
        *(t for run in final.runs for t in _run_tables(store.plan, run)),
        *map(_waiting_table, store.waiting),
        *(table for stream in store.streams for table in _stream_tables(stream)),
    ]


def _stream_tables(stream: Stream) -> list[pa.Table]:
    return [pa.table({"at": stream.at, "since": stream.since}), *map(_cells_table, stream.store.runs)]


def _known(columns: dict[str, tuple[Ints, int]]) -> pa.Table:
    """What is kept for each key, up to the last key of which anything is: there may be room for more."""
    told = np.logical_or.reduce([column != none for column, none in columns.values()])
    size = int(told.nonzero()[0][-1]) + 1 if told.any() else 0
    return pa.table({name: column[:size] for name, (column, _) in columns.items()})


def _run_tables(plan: Plan, run: RowTable | PlainRows) -> list[pa.Table]:
    if isinstance(run, RowTable):
        return [_cells_table(run.cells), _facts_table(plan, run)]
    return [_waiting_table(run.rows).append_column("rank", pa.array(run.ranks()))]


def _waiting_table(run: Rows) -> pa.Table:
    words = {"time": run.time, "arrival": run.arrivals()} | ({} if run.code is None else {"code": run.code})
    ranks = {f"rank of {name}": rank for name, rank in run.ranks.items()}
    stamps = {f"stamp {number}": stamp for number, stamp in run.stamps.items()}
    return pa.table(words | ranks | stamps | {f"column {name}": column for name, column in run.columns.items()})


def _waiting(plan: Plan, table: pa.Table) -> Rows:
    found = {name: one_piece(column) for name, column in zip(*_columns(table), strict=True)}
    columns = {name: found[f"column {name}"] for name in plan.row_columns}
    ranks = {name: found[f"rank of {name}"].to_numpy() for name in plan.ranked}
    code = found["code"].to_numpy() if "code" in found else None
    codes = 1 if code is None else int(code.max(initial=-1)) + 1
    stamps = {int(n.split()[1]): column.to_numpy() for n, column in found.items() if n.startswith("stamp ")}
    words = found["time"].to_numpy(), code, codes, found["arrival"].to_numpy()
    return Rows(plan, columns, *words, ranks, stamps=stamps)


def _facts_table(plan: Plan, run: RowTable) -> pa.Table:
    values = [as_arrow(v, plan.types[name]) for name, v in zip(plan.row_values, run.values, strict=True)]
    return pa.table([_lists(run.facts), *values], names=["words", *map(str, range(len(values)))])


def _rows_header(store: KeyRows) -> dict[str, Any]:
    return {
        "plain": [isinstance(run, PlainRows) for run in store.final.runs],
        "waiting": len(store.waiting),
        "alive": store.final.alive,
        "counts": [store.arrived.rows, store.placed, store.settled],
        "notes": [sorted(store.notes), sorted(store.bases)],
        "streams": [[len(s.store.runs), s.store.coarse, s.reached, s.closed, s.latest] for s in store.streams],
        "contexts": [
            [number, code, context_json(context.value), [list(o) for o in context.open]]
            for number, known in sorted(store.contexts.items())
            for code, context in sorted(known.items(), key=lambda item: item[0])
        ],
    }


def _rows(plan: Plan, header: dict[str, Any], take: Iterator[pa.Table]) -> KeyRows:
    counts, of_key, quiet = ([c.to_numpy().copy() for c in next(take).columns] for _ in range(3))
    notes, bases = ({n: next(take)["note"].to_numpy().copy() for n in numbers} for numbers in header["notes"])
    final: tuple[Run, ...] = tuple((_plain if plain else _run)(plan, take) for plain in header["plain"])
    waiting = tuple(_waiting(plan, next(take)) for _ in range(header["waiting"]))
    contexts: dict[int, dict[int, Context]] = {}
    for number, code, value, opened in header["contexts"]:
        known = contexts.setdefault(number, {})
        known[code] = Context(context_value(value), tuple(Opened(*o) for o in opened))
    told = zip(axes(plan), header["streams"], strict=bool(header["streams"]))
    streams = tuple(_of_stream(axis.plan, known, take) for axis, known in told)
    arrived, placed, settled = header["counts"]
    counted = Arrived(arrived, *of_key)
    rows = FinalRows(final, header["alive"], *counts)
    return KeyRows(plan, waiting, rows, counted, Quiet(*quiet), placed, settled, contexts, notes, bases, streams)


def _of_stream(plan: Plan, known: list[int], take: Iterator[pa.Table]) -> Stream:
    runs, coarse, reached, closed, latest = known
    at, since = (column.to_numpy() for column in next(take).columns)
    store = Store(plan, tuple(_cells(plan, next(take)) for _ in range(runs)), coarse)
    return Stream(store, reached, closed, at, since, latest)


def _run(plan: Plan, take: Iterator[pa.Table]) -> RowTable:
    cells, facts = _cells(plan, next(take)), next(take)
    seen = zip(facts.columns[1:], plan.row_values.values(), strict=True)
    values = tuple(values_of(one_piece(column), form) for column, form in seen)
    return RowTable(cells, _words(facts["words"]), values)


def _plain(plan: Plan, take: Iterator[pa.Table]) -> PlainRows:
    table = next(take)
    rank = table["rank"].to_numpy()
    return PlainRows(_waiting(plan, table), rank if plan.spec.by else int(rank[0]))


def _lists(words: Ints) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(words).ravel()), words.shape[1])


def _words(column: pa.ChunkedArray) -> Ints:
    words: Ints = one_piece(column).flatten().to_numpy().reshape(-1, column.type.list_size)
    return words


def _columns(table: pa.Table) -> tuple[list[str], list[pa.ChunkedArray]]:
    return table.column_names, table.columns
