"""Whether two engines gave the same answer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


class Disagreement(Exception):
    """Two engines gave different answers."""


def canonical(answer: object, size: int, span: tuple[int, int], compared: Sequence[str] = ()) -> pa.Table:
    """Columns start, [end], [key], aggregates, in order; of sliding windows those that lie in the data."""
    table = answer if isinstance(answer, pa.Table) else pa.table(answer)
    ours = {"window_start": "start", "window_end": "end"}
    table = table.rename_columns([ours.get(name, name) for name in table.column_names])
    names = [n for n in ("start", "end", "key", "n", "total", "low", "high", "middle") if n in table.column_names]
    names = [n for n in names if n in (compared or names)]
    columns = {n: table[n].cast(_plain(table[n].type)).combine_chunks() for n in names}
    table = pa.table(columns)
    if size:
        start = table["start"]
        inside = pc.and_(pc.greater_equal(start, span[0]), pc.less_equal(start, span[1] - size))
        table = table.filter(inside)
    return table.sort_by([(n, "ascending") for n in ("start", "key", "end") if n in names])


def _plain(type: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(type):
        return _plain(type.value_type)
    if pa.types.is_integer(type):
        return pa.int64()
    return pa.float64() if pa.types.is_floating(type) else pa.string()


def compare(name: str, found: pa.Table, expected: pa.Table) -> None:
    """Exact but for sums, which may be added in another order."""
    if found.num_rows != expected.num_rows:
        raise Disagreement(f"{name} gives {found.num_rows} windows, not {expected.num_rows}")
    for column in found.column_names:
        a, b = found[column], expected[column]
        near = column == "total" and np.allclose(a.to_numpy(), b.to_numpy(), rtol=1e-9, atol=0)
        if not near and not a.equals(b):
            raise Disagreement(f"{name} gives other values of {column!r}")
