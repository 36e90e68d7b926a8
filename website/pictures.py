"""``python -m website.pictures``: draws the pictures of docs/ anew, with ``sl.plot``."""

from __future__ import annotations

import os
import time
from datetime import datetime
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import vl_convert

import slicing as sl

DOCS = Path(__file__).parent.parent / "docs"
MINUTES = [1, 2, 3, 5, 6, 7, 9, 10, 17, 18, 19, 21, 22, 23]


def stream() -> pa.Table:
    """Three hundred rows, ten seconds apart, late by 20 s on average and a few by minutes."""
    rng = np.random.default_rng(2)
    at = np.arange(300) * 10_000 - rng.exponential(20_000, 300).astype(np.int64)
    at[::37] -= 400_000
    return pa.table({"ts": pa.array(1_767_254_400_000 + at, pa.timestamp("ms")), "value": rng.normal(size=300)})


def slices() -> object:
    ts = [datetime(2026, 1, 1, 9, minute) for minute in MINUTES]
    windows = {
        "tumbling": sl.tumbling("6m"),
        "sliding": sl.sliding("8m", "4m"),
        "session": sl.session("4m"),
    }
    return sl.plot.timeline(pa.table({"ts": ts}), sl.Spec("ts", windows, {"n": sl.count()}))


def progress() -> object:
    data = stream()
    spec = sl.Spec("ts", {"10 min": sl.tumbling("10m")}, {"n": sl.count()}, watermark=sl.bounded("1m"))
    operator, batches = sl.Operator(spec), [data.slice(start, 25) for start in range(0, 300, 25)]
    return sl.plot.progress([*(operator.push(batch) for batch in batches), operator.flush()], data=batches)


def lateness() -> object:
    return sl.plot.lateness(stream(), "ts")


def results() -> object:
    windows = {"1 min": sl.tumbling("1m"), "10 min": sl.sliding("10m", every="1m", full=True)}
    return sl.plot.results(sl.aggregate(stream(), sl.Spec("ts", windows, {"mean": sl.mean("value")})), y="mean")


def query() -> object:
    """Of a query on Spark that was stopped for ten minutes: twenty files wait, each with half a minute of rows."""
    from spark_udfs import window_aggregate
    from spark_udfs.local import session

    spec = sl.Spec("ts", {"ten": sl.tumbling("10s")}, {"n": sl.count()}, by="user", watermark=sl.bounded("10s"))
    base, rng, began = Path(mkdtemp()), np.random.default_rng(4), time.time() - 600
    for number in range(20):
        count = int(rng.integers(200, 300))
        at = began + number * 30 + rng.uniform(0, 30, count) - rng.exponential(3, count)
        ts = pa.array((at * 1e6).astype(np.int64)).cast(pa.timestamp("us", "UTC"))
        pq.write_table(pa.table({"ts": ts, "user": rng.integers(0, 200, count)}), base / f"{number:02}.parquet")
        os.utime(base / f"{number:02}.parquet", (number, number))
    rows = session().readStream.schema("ts timestamp, user long").option("maxFilesPerTrigger", 1).parquet(str(base))
    written = window_aggregate(rows, spec, state=str(base / "state"), partitions=2).writeStream.format("noop")
    running = written.option("checkpointLocation", str(base / "checkpoint")).trigger(availableNow=True).start()
    running.awaitTermination()
    return sl.plot.query(running)


def draw() -> None:
    for make in (slices, progress, lateness, results, query):
        svg = vl_convert.vegalite_to_svg(make().to_dict())  # type: ignore[attr-defined]
        svg = svg.replace("<svg ", '<svg style="background:#fff" ', 1)
        (DOCS / f"{make.__name__}.svg").write_text(svg + "\n", encoding="utf-8")


if __name__ == "__main__":
    draw()
