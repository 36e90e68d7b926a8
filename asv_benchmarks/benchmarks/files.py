"""From Parquet files to answers: decoding and aggregation, where a file has more columns than are asked for."""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

import slicing as sl

from . import measuring, streams
from .push import AGGS

FILES = 4


def written(table: pa.Table, folder: Path) -> None:
    """The rows in four files, by row groups of 1 M rows at most."""
    share = -(-table.num_rows // FILES)
    for number in range(FILES):
        pq.write_table(table.slice(number * share, share), folder / f"{number}.parquet")


class FromParquet:
    """10 M rows of four columns; ``between``: a tenth of them, in row groups of their own."""

    params: ClassVar = (["path", "parquet file", "between"], ["no key", "1000 keys"])
    param_names: ClassVar = ["source", "keys"]
    timer = time.process_time
    rows = 10_000_000

    def setup(self, source: str, keys: str) -> None:
        rows = streams.sized(self.rows)
        batch = streams.batch(streams.times(rows, 100_000), streams.keys(rows, 1000))
        self.table = pa.Table.from_batches([batch]).append_column("beside", batch.column("value"))
        self._room = TemporaryDirectory()
        written(self.table, Path(self._room.name))
        self.spec = sl.Spec("ts", {"w": sl.tumbling("1s")}, AGGS, by=[] if keys == "no key" else ["key"])
        times = self.table["ts"].cast(pa.int64())
        self.span = (times[0].as_py(), times[rows // 10].as_py()) if source == "between" else None
        self.data = self._room.name if source != "parquet file" else None
        self.aggregate()

    def teardown(self, source: str, keys: str) -> None:
        self._room.cleanup()

    def aggregate(self) -> pa.Table:
        if self.data is not None:
            return sl.aggregate(self.data, self.spec, between=self.span, threads=1)
        files = (pq.ParquetFile(f"{self._room.name}/{number}.parquet") for number in range(FILES))
        return sl.aggregate(files, self.spec, threads=1)

    def time_aggregate(self, source: str, keys: str) -> None:
        self.aggregate()

    def peakmem_aggregate(self, source: str, keys: str) -> None:
        self.aggregate()

    def track_rows_per_second(self, source: str, keys: str) -> float:
        """Rows of the files, read or not."""
        return self.table.num_rows / measuring.seconds(self.aggregate, wanted=3)[0]

    track_rows_per_second.unit = "rows/s"
