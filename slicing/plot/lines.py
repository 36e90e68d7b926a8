"""Which columns of results name a line, and which results are the last ones."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slicing.columns.key_columns import check_key_type
from slicing.columns.keys import KeyTable
from slicing.columns.types import is_text
from slicing.plot.shared import rows_at
from slicing.system.arrays import NONE, Codes, Mask

BOUNDS = ("window_start", "window_end")
WINDOW = ("window", *BOUNDS, "rank_start", "rank_end")
REPORT = ("timing", "revision", "op")


def keys_of(table: pa.Table, others: Sequence[str], y: str | None) -> list[str]:
    """The columns in front of ranks. Without ranks the shortest run of leading columns that tells results apart; if
    there is none, all columns of text."""
    if "rank_start" in table.column_names:
        before = table.column_names[: table.column_names.index("rank_start")]
        return [name for name in others if name in before]
    left = [name for name in others if is_number(table.schema.field(name).type)][-1:] if y is None else [y]
    run = list(takewhile(lambda name: name not in left and _may_be_key(table.schema.field(name)), others))
    for size in range(len(run) + 1):
        if _tell_apart(table, run[:size]):
            return run[:size]
    return [name for name in others if _has_words(table, name)]


def names_of(table: pa.Table, others: Sequence[str], keys: Sequence[str], y: str) -> list[str]:
    """The keys, and the columns of text right behind them that split no line. Without keys, those that split no window:
    windows as sessions often differ by their bounds alone, whatever their key."""
    if "rank_start" in table.column_names:
        return list(keys)
    whole = [name for name in (WINDOW[:1] if keys else WINDOW) if name in table.column_names]
    behind = others[others.index(keys[-1]) + 1 :] if keys else others
    names = list(keys)
    for name in takewhile(lambda name: name != y and _has_words(table, name), behind):
        if _distinct(table, [*whole, *names, name]) > _distinct(table, [*whole, *names]):
            break
        names.append(name)
    return names


def last_results(table: pa.Table, keys: Sequence[str], y: str) -> pa.Table:
    """The last result of each window; windows whose last result was retracted are left out."""
    if not revisions_of(table) and "op" not in table.column_names:
        return table
    codes, size = _codes(table, [*_window_of(table), *keys])
    rows = np.arange(codes.size)
    if "window" not in table.column_names:  # in wide results null may stand for what was not revised
        known = table[y].is_valid().to_numpy()
        rows = np.append(rows[~known], rows[known])
    last = np.empty(size, np.int64)
    last[codes[rows]] = rows
    table = rows_at(table, last)
    return table.filter(pc.equal(table["op"], "+")) if "op" in table.column_names else table


def revisions_of(table: pa.Table) -> list[str]:
    """The columns that count how often a window was emitted; wide results have one for each window."""
    if "window" in table.column_names:
        return [name for name in table.column_names if name == "revision"]
    return [name for name in table.column_names if name.startswith("revision_")]


def is_number(type: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type) or pa.types.is_floating(type) or pa.types.is_decimal(type))


def _has_words(table: pa.Table, name: str) -> bool:
    type = table.schema.field(name).type
    return bool(is_text(type) or pa.types.is_dictionary(type))


def _may_be_key(field: pa.Field) -> bool:
    """A key of floats is unlikely, and an aggregate of floats nearly always tells results apart."""
    try:
        check_key_type(field.name, field.type)
    except TypeError:
        return False
    return not pa.types.is_floating(field.type)


def _window_of(table: pa.Table) -> list[str]:
    return [name for name in WINDOW if name in table.column_names]


def _tell_apart(table: pa.Table, keys: Sequence[str]) -> bool:
    """Whether windows and keys occur once for each revision; of changes, whether signs alternate and begin with '+'."""
    if "op" not in table.column_names:
        return _distinct(table, [*_window_of(table), *keys, *revisions_of(table)]) == table.num_rows
    codes, _ = _codes(table, [*_window_of(table), *keys])
    return _alternate(codes, pc.equal(table["op"], "+").to_numpy())


def _alternate(codes: Codes, plus: Mask) -> bool:
    order = np.argsort(codes, kind="stable")
    codes, plus = codes[order], plus[order]
    again = codes[1:] == codes[:-1]
    return bool(plus[:1].all() and np.where(again, plus[1:] != plus[:-1], plus[1:]).all())


def _distinct(table: pa.Table, names: Sequence[str]) -> int:
    return _codes(table, names)[1]


def _codes(table: pa.Table, names: Sequence[str]) -> tuple[Codes, int]:
    """A number for the values of some columns in each row, and how many different ones there are."""
    keys = KeyTable([table.schema.field(name).type for name in names])
    codes = [keys.encode(batch.columns) for batch in table.select(names).to_batches()]
    return np.concatenate([NONE, *codes]), len(keys)
