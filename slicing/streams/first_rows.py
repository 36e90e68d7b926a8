"""Which keys have already had a row in each open window: used to keep only the first row to arrive."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from slicing.columns.arrow_io import one_piece
from slicing.columns.arrow_out import array_of
from slicing.columns.bits import as_numpy
from slicing.columns.casts import plain
from slicing.columns.keys import KeyTable
from slicing.columns.order import alike
from slicing.columns.types import decoded
from slicing.joins.within import Windows
from slicing.system.arrays import MOST, Ints
from slicing.system.bundles import table_bytes, table_of
from slicing.times.measure import Measure
from slicing.windows.builtin import Tumbling, Whole
from slicing.windows.calendar import Calendar


class FirstRows:
    """Pairs of key and window that have had a row, as codes of a key table. The window's start is its last column."""

    def __init__(self, within: object, time: pa.Field, keys: list[pa.DataType]) -> None:
        assert isinstance(within, Tumbling | Calendar | Whole)
        self._measure = Measure.of(time.type, time.name)
        self._windows = None if isinstance(within, Whole) else Windows(within, self._measure)
        self._keys = KeyTable([*keys, pa.int64()])
        self._end = np.empty(0, np.int64)  # the window's end for each code

    def first(self, time: pa.Array, keys: list[pa.Array]) -> Ints:
        """Positions, in order, of rows that are the first of their key and window. They are remembered from now on."""
        if self._windows is None:
            start, end = alike(0, len(time)), alike(MOST, len(time))
        else:
            start, end = self._windows.bounds(self._measure.words(time))
        known = len(self._keys)
        columns = [plain(column) for column in keys]
        columns = [column.cast(decoded(column.type)) for column in columns]
        code = self._keys.encode_values([*columns, array_of(start)]).astype(np.int64)
        new, at = np.unique(code, return_index=True)
        at = np.sort(at[new >= known])
        self._end = np.append(self._end, np.empty(at.size, np.int64))
        self._end[code[at]] = end[at]
        return at

    def let_go(self, mark: int) -> None:
        """Forget windows that the watermark (in ticks) has passed: rows in them are late."""
        live = np.flatnonzero(self._end > mark)
        if 2 * live.size < self._end.size:
            self._keys, self._end = self._keys.compact(live), self._end[live]

    def restorer(self) -> Callable[[], None]:
        """A function that restores the keys of now."""
        keys, known, end = self._keys, len(self._keys), self._end

        def put_back() -> None:
            self._keys, self._end = keys.as_it_was(known, rebuild=True), end

        return put_back

    def to_bytes(self) -> bytes:
        return table_bytes(self._keys.table().append_column("end", array_of(self._end)))

    def read(self, blob: bytes | memoryview) -> None:
        """Load what ``to_bytes`` wrote."""
        *keys, end = (one_piece(column) for column in table_of(blob).columns)
        self._keys.encode_values(keys)
        self._end = as_numpy(end).copy()


def key_types(schema: pa.Schema, names: tuple[str, ...]) -> list[pa.DataType]:
    """The types of key columns."""
    return [decoded(schema.field(name).type) for name in names]
