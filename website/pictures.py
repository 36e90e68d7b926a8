"""``python -m website.pictures``: draws the pictures of docs/ anew, with ``sl.plot``."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
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


def draw() -> None:
    for make in (slices, progress, lateness):
        svg = vl_convert.vegalite_to_svg(make().to_dict())  # type: ignore[attr-defined]
        svg = svg.replace("<svg ", '<svg style="background:#fff" ', 1)
        (DOCS / f"{make.__name__}.svg").write_text(svg + "\n", encoding="utf-8")


if __name__ == "__main__":
    draw()
