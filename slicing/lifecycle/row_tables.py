"""Kept rows as Arrow tables and a header, and back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from slicing.columns.arrow_io import one_piece
from slicing.columns.arrow_out import array_of, numbers_table
from slicing.columns.bits import as_numpy
from slicing.columns.row_values import as_arrow, values_of
from slicing.kept_rows.by_key import KeyRows
from slicing.kept_rows.final import FinalRows, Run
from slicing.kept_rows.of_stream import Stream, axes
from slicing.kept_rows.plain import PlainRows
from slicing.kept_rows.remembered import Arrived, Quiet
from slicing.lifecycle.cell_tables import cells_of, cells_table, columns_of, store_of, words_column, words_of
from slicing.query.plan import Plan
from slicing.reducing.batch import Rows
from slicing.system.arrays import Ints
from slicing.windows.bounds import BEGIN, FOREVER
from slicing.windows.rows.row_table import RowTable
from slicing.windows.rows.row_view import Context, Opened
from slicing.windows.rows.users import context_json, context_value


def row_tables(store: KeyRows) -> list[pa.Table]:
    final, quiet = store.final, store.quiet
    counts = _known({"gone": (final.gone, 0), "ranked": (final.ranked, 0), "wakes": (final.wakes, FOREVER)})
    others = (
        _known({"of_key": (store.arrived.of_key, 0)}),
        _known({"last": (quiet.last, BEGIN), "began": (quiet.began, 0)}),
    )
    notes = (numbers_table({"note": known}) for kept in (store.notes, store.bases) for _, known in sorted(kept.items()))
    return [
        counts,
        *others,
        *notes,
        *(t for run in final.runs for t in _run_tables(store.plan, run)),
        *map(_waiting_table, store.waiting),
        *(table for stream in store.streams for table in _stream_tables(stream)),
    ]


def _stream_tables(stream: Stream) -> list[pa.Table]:
    return [
        numbers_table({"at": stream.at, "since": stream.since}),
        *map(cells_table, stream.store.runs),
    ]


def _known(columns: dict[str, tuple[Ints, int]]) -> pa.Table:
    """What is kept for each key, cut after the last key that has anything: the arrays may have room for more."""
    kept = np.logical_or.reduce([column != none for column, none in columns.values()])
    size = int(kept.nonzero()[0][-1]) + 1 if kept.any() else 0
    return numbers_table({name: column[:size] for name, (column, _) in columns.items()})


def _run_tables(plan: Plan, run: RowTable | PlainRows) -> list[pa.Table]:
    if isinstance(run, RowTable):
        return [cells_table(run.cells), _facts_table(plan, run)]
    return [_waiting_table(run.rows).append_column("rank", array_of(run.ranks()))]


def _waiting_table(run: Rows) -> pa.Table:
    words = {"time": run.time, "arrival": run.arrivals()} | ({} if run.code is None else {"code": run.code})
    ranks = {f"rank of {name}": rank for name, rank in run.ranks.items()}
    stamps = {f"stamp {number}": stamp for number, stamp in run.stamps.items()}
    table = numbers_table(words | ranks | stamps)
    for name, column in run.columns.items():
        table = table.append_column(f"column {name}", column)
    return table


def _waiting(plan: Plan, table: pa.Table) -> Rows:
    found = {name: one_piece(column) for name, column in zip(*columns_of(table), strict=True)}
    columns = {name: found[f"column {name}"] for name in plan.row_columns}
    ranks = {name: as_numpy(found[f"rank of {name}"]) for name in plan.ranked}
    code = as_numpy(found["code"]) if "code" in found else None
    codes = 1 if code is None else int(code.max(initial=-1)) + 1
    stamps = {int(n.split()[1]): as_numpy(column) for n, column in found.items() if n.startswith("stamp ")}
    words = as_numpy(found["time"]), code, codes, as_numpy(found["arrival"])
    return Rows(plan, columns, *words, ranks, stamps=stamps)


def _facts_table(plan: Plan, run: RowTable) -> pa.Table:
    values = [as_arrow(v, plan.types[name]) for name, v in zip(plan.rows.values, run.values, strict=True)]
    return pa.table([words_column(run.facts), *values], names=["words", *map(str, range(len(values)))])


def rows_header(store: KeyRows) -> dict[str, Any]:
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


def rows_of(plan: Plan, header: dict[str, Any], take: Iterator[pa.Table]) -> KeyRows:
    counts, of_key, quiet = ([as_numpy(c).copy() for c in next(take).columns] for _ in range(3))
    notes, bases = ({n: as_numpy(next(take)["note"]).copy() for n in numbers} for numbers in header["notes"])
    final: tuple[Run, ...] = tuple((_plain if plain else _run)(plan, take) for plain in header["plain"])
    waiting = tuple(_waiting(plan, next(take)) for _ in range(header["waiting"]))
    contexts: dict[int, dict[int, Context]] = {}
    for number, code, value, opened in header["contexts"]:
        known = contexts.setdefault(number, {})
        known[code] = Context(context_value(value), tuple(Opened(*o) for o in opened))
    pairs = zip(axes(plan), header["streams"], strict=bool(header["streams"]))
    streams = tuple(_of_stream(axis.plan, known, take) for axis, known in pairs)
    arrived, placed, settled = header["counts"]
    counted = Arrived(arrived, *of_key)
    rows = FinalRows(final, header["alive"], *counts)
    return KeyRows(plan, waiting, rows, counted, Quiet(*quiet), placed, settled, contexts, notes, bases, streams)


def _of_stream(plan: Plan, known: list[int], take: Iterator[pa.Table]) -> Stream:
    runs, coarse, reached, closed, latest = known
    at, since = (as_numpy(column) for column in next(take).columns)
    store = store_of(plan, runs, take, coarse)
    return Stream(store, reached, closed, at, since, latest)


def _run(plan: Plan, take: Iterator[pa.Table]) -> RowTable:
    cells, facts = cells_of(plan, next(take)), next(take)
    seen = zip(facts.columns[1:], plan.rows.values.values(), strict=True)
    values = tuple(values_of(one_piece(column), form) for column, form in seen)
    return RowTable(cells, words_of(facts["words"]), values)


def _plain(plan: Plan, take: Iterator[pa.Table]) -> PlainRows:
    table = next(take)
    rank = as_numpy(table["rank"])
    return PlainRows(_waiting(plan, table), rank if plan.spec.by else int(rank[0]))
