"""The kernels alone, on arrays that stay in the cache: what a push could cost at best."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np

from slicing.columns.keys import KeyTable
from slicing.kernels import combine as kinds
from slicing.kernels.scatter import scatter_basic_f, scatter_basic_i
from slicing.kernels.segments import masked_basic_f, segment_basic_f
from slicing.kernels.slice import cut, even_cells, pieces, scan
from slicing.reducing.lift import Quads

from . import measuring, streams
from .streams import SECOND

ROWS = 1 << 15


class Reduce:
    """Rows a second of each step from rows to cells; ``cells`` of them for those that scatter."""

    params: ClassVar = [
        ["read", "scan", "cut", "pieces", "grid", "segment", "masked", "scatter", "integers", "encode"],
        [1, 1000, 100_000],
    ]
    param_names: ClassVar = ["step", "cells"]

    def setup(self, step: str, cells: int) -> None:
        rows, cells = streams.sized(ROWS), streams.sized(cells)
        time, x = streams.times(rows, 100_000), streams.values(rows)
        whole = np.random.default_rng(9).integers(-(2**40), 2**40, rows)
        cell, keys = np.random.default_rng(10).integers(0, cells, rows), streams.keys(rows, cells)
        floats, integers = kinds.identity(kinds.BASIC_F, cells), kinds.identity(kinds.BASIC_I, cells)
        edges = np.arange(time[0] // SECOND + 1, time[-1] // SECOND + 2) * SECOND
        positions, found = np.empty(edges.size, np.int64), np.empty((rows // 16 + 16, 5), np.int64)
        quads = Quads(cells, kinds.BASIC_F)
        run, out = (np.array([0]), np.array([rows])), np.empty(rows, np.int64)
        lows, highs = np.empty((2, -(-rows // 512)), np.int64)
        scan(time, 512, lows, highs)
        runs = np.array([[0, rows, 0, time[0], time[-1] + 1]])
        every, columns = np.empty(0, np.uint8), (x, x.view(np.int64), floats, floats.view(np.float64))
        table = KeyTable([streams.batch(time, keys).schema.field("key").type])
        column = streams.batch(time, keys).column("key")
        works: dict[str, Callable[[], object]] = {
            "read": lambda: measuring.read(time, x),
            "scan": lambda: scan(time, 512, lows, highs),
            "cut": lambda: cut(time, edges, 4096, positions),
            "pieces": lambda: pieces(rows, 512, lows, highs, edges, found),
            "grid": lambda: even_cells(time, edges[0], np.int64(SECOND), cell, np.int64(cells), out),
            "segment": lambda: segment_basic_f(*run, *columns),
            "masked": lambda: masked_basic_f(runs, time, every, *columns),
            "scatter": lambda: scatter_basic_f(cell, x.view(np.int64), quads.words, quads.spilt),
            "integers": lambda: scatter_basic_i(cell, whole, integers),
            "encode": lambda: table.encode([column]),
        }
        self.rows, self.work = rows, works[step]
        self.work()

    def track_rows_per_second(self, step: str, cells: int) -> float:
        return self.rows / measuring.seconds(lambda: [self.work() for _ in range(30)], wanted=9)[0] * 30

    track_rows_per_second.unit = "rows/s"
