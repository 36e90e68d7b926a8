"""Cells as Arrow tables, and back: their words unchanged."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from slicing.cells.blocks import Block
from slicing.cells.lists import Lists
from slicing.cells.table import Cells
from slicing.columns.arrow_io import one_piece
from slicing.columns.arrow_out import array_of
from slicing.columns.bits import as_numpy
from slicing.lifecycle.errors import SnapshotError
from slicing.query.plan import Plan
from slicing.storage.session_store import store_for
from slicing.storage.store import Store
from slicing.system.arrays import Ints


def cells_table(cells: Cells) -> pa.Table:
    """Each block as a column of fixed-size lists: the words as they are in memory. Lists of items become lists of these
    lists."""

    def column(block: Block) -> pa.Array:
        if isinstance(block, Lists):
            whole = block.whole()
            return pa.LargeListArray.from_arrays(array_of(whole.at), column(whole.items))
        return words_column(block)

    names = ["meta", *(f"lane{i}" for i in range(len(cells.blocks)))]
    return pa.table([column(block) for block in (cells.meta, *cells.blocks)], names=names)


def cells_of(plan: Plan, table: pa.Table, kind: type[Cells] = Cells) -> Cells:
    def block(column: pa.Array) -> Block:
        if pa.types.is_large_list(column.type):
            return Lists(as_numpy(column.offsets), block(column.values)).whole()
        return as_numpy(column.flatten()).reshape(-1, column.type.list_size)

    if table.num_columns != 1 + len(plan.lanes):
        raise SnapshotError(f"the snapshot holds {table.num_columns - 1} lanes; this spec has {len(plan.lanes)}")
    meta, *blocks = (block(one_piece(c)) for c in table.columns)
    return kind(meta, tuple(blocks))


def store_of(plan: Plan, runs: int, take: Iterator[pa.Table], coarse: int = 0) -> Store:
    """A store of ``runs`` runs, each read from a table."""
    return store_for(plan, tuple([cells_of(plan, next(take), plan.cells) for _ in range(runs)]), coarse)


def words_column(words: Ints) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(array_of(words.ravel()), words.shape[1])


def words_of(column: pa.ChunkedArray) -> Ints:
    words: Ints = as_numpy(one_piece(column).flatten()).reshape(-1, column.type.list_size)
    return words


def columns_of(table: pa.Table) -> tuple[list[str], list[pa.ChunkedArray]]:
    return table.column_names, table.columns
