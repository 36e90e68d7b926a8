"""The state of a join as sealed bytes, and back.

    magic, format version, header (JSON) | Arrow IPC streams: schemas, keys, then for each side flags, payload and
    runs, then rows that wait, and marks of keys

Key values are written raw, as codes are valid in one process only. Values are written in the order of their codes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from slicing.columns.arrow_io import empty, one_piece
from slicing.columns.arrow_out import numbers_table
from slicing.columns.bits import as_numpy
from slicing.columns.key_marks import KeyMarks
from slicing.columns.keys import KeyTable
from slicing.joins.arrivals import Rows
from slicing.joins.plan import TwoSidedSpec, TwoSides
from slicing.joins.progress import Marks
from slicing.joins.sides import NO_KEY, Run, Side
from slicing.joins.slices import Slices
from slicing.joins.state import JoinState, Marked
from slicing.joins.step import Task
from slicing.joins.within import LEFT, RIGHT
from slicing.lifecycle.errors import OF_PARTS, OF_TWO_SIDES, SnapshotError, check_fingerprint, check_writer, viewed
from slicing.query.progress import Progress
from slicing.system.arrays import Array, Ints
from slicing.system.bundles import bundled, table_bytes, table_of, unbundled
from slicing.system.sealed import SealError, content_of, header_of, sealed
from slicing.times.measure import moment_of_json, moment_to_json


class Named(Protocol):
    """A spec, identified by its fingerprint."""

    def fingerprint(self) -> str: ...


PlanOf = Callable[[pa.Schema | None, pa.Schema | None], TwoSides]

FORMAT = 4
PARTS_FORMAT = 2  # of Distinct and of chains


def write(spec: TwoSidedSpec, state: JoinState | None, advanced: Marked, ended: bool) -> bytes:
    """The state as bytes."""
    header: dict[str, Any] = {"fingerprint": spec.fingerprint(), "spec": repr(spec)}
    header |= {"advanced": [list(map(moment_to_json, marks)) for marks in advanced], "ended": ended}
    tables: list[pa.Table] = []
    if state is not None:
        header["state"] = _header(state)
        tables = list(_tables(state))
    return bytes(sealed(OF_TWO_SIDES, FORMAT, header, [bundled(map(table_bytes, tables))])[0])


def read(spec: TwoSidedSpec, plan_of: PlanOf, blob: bytes | memoryview) -> tuple[JoinState | None, Marked, bool]:
    """The state, the watermarks given before the first rows of a side, and whether the streams have ended."""
    header, content = _opened(OF_TWO_SIDES, FORMAT, blob)
    check_fingerprint(header, spec.fingerprint())
    left, right = (tuple(map(moment_of_json, marks)) for marks in header["advanced"])
    if "state" not in header:
        return None, (left, right), header["ended"]
    take = iter([table_of(part) for part in unbundled(content)])
    return _state(plan_of, header["state"], take), (left, right), header["ended"]


def write_parts(of: str, specs: Sequence[Named], parts: Iterable[bytes]) -> bytes:
    """One snapshot made of the snapshots of several parts."""
    header = {"of": of, "fingerprints": [spec.fingerprint() for spec in specs], "specs": repr(list(specs))}
    return bytes(sealed(OF_PARTS, PARTS_FORMAT, header, [bundled(parts)], packed=True)[0])


def read_parts(of: str, specs: Sequence[Named], blob: bytes | memoryview) -> list[memoryview]:
    """The parts that ``write_parts`` wrote for the same specs."""
    header, content = _opened(OF_PARTS, PARTS_FORMAT, blob)
    if (header["of"], header["fingerprints"]) != (of, [spec.fingerprint() for spec in specs]):
        raise SnapshotError(
            f"the snapshot was written by a {header['of']} of {header['specs']}; this is a {of} of {list(specs)!r}"
        )
    return unbundled(content)


def _opened(magic: bytes, version: int, blob: bytes | memoryview) -> tuple[dict[str, Any], bytes | memoryview]:
    """The header and the content of a snapshot. Raises if it is damaged, or of another kind of operator."""
    data = viewed(blob)
    check_writer(data, magic)
    try:
        header, body = header_of(magic, version, bytes(data), "the snapshot")
        return header, content_of(header, body, "the snapshot")
    except SealError as error:
        raise SnapshotError(str(error)) from None


def _header(state: JoinState) -> dict[str, Any]:
    return {
        "known": list(state.plan.known),
        "progress": [progress.to_json() for progress in state.progress],
        "own": list(state.own),
        "marks": list(state.marks),
        "sides": [_side_header(side) for side in state.sides],
        "tasks": [
            [task.side, task.rows is not None, None if task.marks is None else list(task.marks)] for task in state.tasks
        ],
    }


def _side_header(side: Side) -> dict[str, Any]:
    numbers = {"base": side.base, "next": side.next, "gone": side.gone, "step": side.step}
    numbers |= {"slices": len(side.slices)}
    return numbers | {"payload": bool(side.chunks), "slots": [run.slot for run in side.runs]}


def _tables(state: JoinState) -> Iterator[pa.Table]:
    for side in state.plan.sides:
        if side.known:
            yield pa.Table.from_batches([empty(side.schema)])
    if state.keys is not None:
        yield state.keys.table()
    for kept in state.sides:
        yield numbers_table({"flags": kept.flags})
        if kept.chunks:
            yield kept.table
        for run in kept.runs:
            yield _words(code=run.code, time=run.time, name=run.name, sequence=run.sequence)
        for part in kept.slices:
            lanes = {
                f"{lane} {word}": words for lane, block in enumerate(part.blocks) for word, words in enumerate(block.T)
            }
            yield _words(code=part.code, time=part.time, **lanes)
    for task in state.tasks:
        if task.rows is not None:
            rows = task.rows
            yield _words(code=rows.code, time=rows.time, name=rows.name, sequence=rows.sequence)
            yield _words(time=rows.keyless_time, name=rows.keyless)
    for gone in state.waiting:
        yield _words(time=gone.time, name=gone.name)
    for marks in state.by_key:
        yield _words(code=marks.code, mark=marks.mark)


def _words(**columns: Array | None) -> pa.Table:
    return numbers_table({name: column for name, column in columns.items() if column is not None})


def _state(plan_of: PlanOf, header: dict[str, Any], take: Iterator[pa.Table]) -> JoinState:
    """The state that ``_header`` and ``_tables`` wrote."""
    schemas = [next(take).schema if known else None for known in header["known"]]
    plan = plan_of(schemas[LEFT], schemas[RIGHT])
    keys = None
    if plan.key_types:
        keys = KeyTable.of(plan.key_types, [one_piece(column) for column in next(take).columns])
    sides = [_side(plan, known, take) for known in header["sides"]]
    tasks = tuple(_task(known, take) for known in header["tasks"])
    waiting = [_gone(next(take)) for _ in range(2)]
    by_key = [KeyMarks(*(_numbers(table, n) for n in ("code", "mark"))) for table in (next(take), next(take))]
    left, right = (Progress.from_json(progress) for progress in header["progress"])
    return JoinState(
        plan,
        keys,
        (sides[LEFT], sides[RIGHT]),
        (left, right),
        (header["own"][LEFT], header["own"][RIGHT]),
        Marks(*header["marks"]),
        tasks,
        (waiting[LEFT], waiting[RIGHT]),
        (by_key[LEFT], by_key[RIGHT]),
    )


def _side(plan: TwoSides, header: dict[str, Any], take: Iterator[pa.Table]) -> Side:
    flags = _numbers(next(take), "flags").copy()
    chunks = tuple(next(take).to_batches()) if header["payload"] else ()
    runs = tuple(_run(next(take), slot) for slot in header["slots"])
    places = {name: header[name] for name in ("base", "next", "gone", "step")}
    slices = tuple(_slices(next(take)) for _ in range(header["slices"]))
    return Side(runs, flags=flags, least=plan.within.step, slices=slices, **places).stored(chunks)


def _run(table: pa.Table, slot: int) -> Run:
    code, time, name = (_numbers(table, column) for column in ("code", "time", "name"))
    return Run(code, time, name, _sequence(table), slot)


def _slices(table: pa.Table) -> Slices:
    lanes: dict[str, list[Ints]] = {}
    for name in table.column_names[2:]:
        lanes.setdefault(name.split()[0], []).append(_numbers(table, name))
    blocks = tuple(np.stack(words, axis=1) for words in lanes.values())
    return Slices(_numbers(table, "code"), _numbers(table, "time"), blocks)


def _task(header: list[Any], take: Iterator[pa.Table]) -> Task:
    side, has_rows, marks = header
    rows = None
    if has_rows:
        keyed, keyless = next(take), next(take)
        time, code, name = (_numbers(keyed, column) for column in ("time", "code", "name"))
        rows = Rows(time, code, name, _sequence(keyed), _numbers(keyless, "name"), _numbers(keyless, "time"))
    return Task(side, rows, None if marks is None else Marks(*marks))


def _gone(table: pa.Table) -> Run:
    time = _numbers(table, "time")
    return Run(np.full(time.size, NO_KEY, np.int32), time, _numbers(table, "name"))  # they have no partner


def _sequence(table: pa.Table) -> Ints | None:
    return _numbers(table, "sequence") if "sequence" in table.column_names else None


def _numbers(table: pa.Table, name: str) -> Any:
    return as_numpy(table[name])
