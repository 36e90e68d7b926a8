"""From other libraries' calls to ours: both are run, where the other library is a Python package, and compared."""

from __future__ import annotations

from typing import Any, NamedTuple

DATA = """\
import pyarrow as pa
import slicing as sl
import pandas as pd
import polars as pl
import duckdb
from datetime import datetime, timedelta

start = datetime(2026, 1, 1, 9)
table = pa.table({
    "ts": [start + timedelta(seconds=37 * n) for n in range(200)],
    "k": ["a" if n % 3 else "b" for n in range(200)],
    "v": [float(n * 7 % 23) for n in range(200)],
})
df, frame, data = table.to_pandas(), pl.from_arrow(table), table
windows = lambda kind, **aggs: sl.aggregate(table, sl.Spec("ts", {"w": kind}, aggs, by="k"))
"""


class Pair(NamedTuple):
    task: str
    theirs: str
    ours: str
    values: tuple[str, str] | None = None  # what is compared: the values in order, of ``found``


def _sorted(column: str) -> str:
    return f"sorted(map(str, {column}))"


OURS = "found['x'].drop_null().to_pylist()"
PANDAS = [
    Pair(
        "a sum a minute and key",
        'df.groupby(["k", pd.Grouper(key="ts", freq="1min")])["v"].sum()',
        'windows(sl.tumbling("1m"), x=sl.sum("v"))',
        ("found.tolist()", OURS),
    ),
    Pair(
        "the mean of the last five minutes at each row",
        'df.set_index("ts").groupby("k")["v"].rolling("5min").mean()',
        'windows(sl.per_row("5m"), x=sl.mean("v"))',
        ("found.tolist()", OURS),
    ),
    Pair(
        "each row with the count of its hour",
        'df.groupby(["k", df["ts"].dt.floor("1h")])["v"].transform("count")',
        'sl.attach(table, sl.Spec("ts", {"h": sl.tumbling("1h")}, {"x": sl.count()}, by="k"))',
        ("found.tolist()", OURS),
    ),
    Pair(
        "a median a day",
        'df.groupby(["k", pd.Grouper(key="ts", freq="D")])["v"].median()',
        'windows(sl.calendar("1d"), x=sl.median("v"))',
        ("found.tolist()", OURS),
    ),
]
POLARS = [
    Pair(
        "a sum a minute and key",
        'frame.group_by_dynamic("ts", every="1m", group_by="k").agg(pl.col("v").sum())',
        'windows(sl.tumbling("1m"), x=sl.sum("v"))',
        ("found['v'].to_list()", OURS),
    ),
    Pair(
        "an hour that slides by 15 minutes",
        'frame.group_by_dynamic("ts", every="15m", period="1h", group_by="k", start_by="window").agg(pl.len())',
        'windows(sl.sliding("1h", every="15m"), x=sl.count())',
        None,
    ),
    Pair(
        "the mean of the last five minutes at each row",
        'frame.with_columns(pl.col("v").rolling_mean_by("ts", "5m").over("k"))',
        'windows(sl.per_row("5m"), x=sl.mean("v"))',
        ("found['v'].to_list()", OURS),
    ),
    Pair(
        "share of rows above 10",
        'frame.group_by_dynamic("ts", every="1h", group_by="k").agg((pl.col("v") > 10).mean().alias("v"))',
        'windows(sl.tumbling("1h"), x=sl.count().where(sl.col("v") > 10) / sl.count())',
        ("found['v'].to_list()", OURS),
    ),
]
DUCKDB = [
    Pair(
        "a sum a minute and key",
        "duckdb.sql(\"select k, time_bucket(interval '1 minute', ts) m, sum(v) x from data group by all\")",
        'windows(sl.tumbling("1m"), x=sl.sum("v"))',
        ("[row[-1] for row in found.fetchall()]", OURS),
    ),
    Pair(
        "the mean of the last five minutes at each row",
        'duckdb.sql("select avg(v) over (partition by k order by ts range interval 299 seconds preceding) from data")',
        'windows(sl.per_row("5m"), x=sl.mean("v"))',
        ("[row[-1] for row in found.fetchall()]", OURS),
    ),
    Pair(
        "the two largest of an hour",
        "duckdb.sql(\"select max(v, 2) x from data group by k, time_bucket(interval '1 hour', ts)\")",
        'windows(sl.tumbling("1h"), x=sl.top_k("v", 2))',
        ("[row[-1] for row in found.fetchall()]", OURS),
    ),
]
SPARK = [
    Pair(
        "tumbling", 'groupBy(window("ts", "1 minute"), "k").agg(sum("v"))', 'windows(sl.tumbling("1m"), x=sl.sum("v"))'
    ),
    Pair("sliding", 'window("ts", "1 hour", "15 minutes")', 'windows(sl.sliding("1h", every="15m"), x=sl.count())'),
    Pair("sessions", 'session_window("ts", "5 minutes")', 'windows(sl.session("5m"), x=sl.count())'),
    Pair("lateness", 'withWatermark("ts", "10 seconds")', 'sl.bounded("10s")'),
    Pair(
        "late rows",
        "dropped, and counted in the progress",
        'sl.Operator(sl.Spec("ts", {"m": sl.tumbling("1m")}, {"n": sl.count()})).push(table).late',
    ),
]
FLINK = [
    Pair(
        "tumbling", "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTES)", 'windows(sl.tumbling("1m"), x=sl.sum("v"))'
    ),
    Pair(
        "sliding",
        "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '15' MINUTES, INTERVAL '1' HOURS)",
        'windows(sl.sliding("1h", every="15m"), x=sl.count())',
    ),
    Pair(
        "growing",
        "CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' MINUTES, INTERVAL '1' HOURS)",
        'windows(sl.cumulate("1h", every="10m"), x=sl.count())',
    ),
    Pair(
        "sessions",
        "SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '5' MINUTES)",
        'windows(sl.session("5m"), x=sl.count())',
    ),
    Pair("watermark", "WATERMARK FOR ts AS ts - INTERVAL '10' SECOND", 'sl.bounded("10s")'),
    Pair(
        "late data",
        "allowedLateness(Time.minutes(1))",
        'sl.Spec("ts", {"m": sl.tumbling("1m")}, {"n": sl.count()}, allowed_lateness="1m", emit="updates")',
    ),
]
BEAM = [
    Pair("tumbling", "FixedWindows(60)", 'windows(sl.tumbling("1m"), x=sl.sum("v"))'),
    Pair("sliding", "SlidingWindows(3600, 900)", 'windows(sl.sliding("1h", every="15m"), x=sl.count())'),
    Pair("sessions", "Sessions(300)", 'windows(sl.session("5m"), x=sl.count())'),
    Pair("one window", "GlobalWindows()", "windows(sl.whole(), x=sl.count())"),
    Pair(
        "corrections",
        "AccumulationMode.ACCUMULATING with allowed_lateness=60",
        'sl.Spec("ts", {"m": sl.tumbling("1m")}, {"n": sl.count()}, allowed_lateness="1m", emit="updates")',
    ),
]
RUN = {"pandas": PANDAS, "Polars": POLARS, "DuckDB": DUCKDB}
SHOWN = {"Spark": SPARK, "Flink": FLINK, "Beam": BEAM}


def compared(pair: Pair, names: dict[str, Any]) -> None:
    """Run both calls; refuse a pair whose values differ."""
    theirs, ours = (eval(code, names) for code in (pair.theirs, pair.ours))
    if pair.values is None:
        return
    found = [eval(code, {**names, "found": found}) for code, found in zip(pair.values, (theirs, ours), strict=True)]
    one, other = (sorted(repr(_rounded(value)) for value in values) for values in found)
    assert one == other, f"{pair.task}: {pair.theirs} gives {one[:5]}, {pair.ours} {other[:5]}"


def _rounded(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_rounded(item) for item in value]
    return round(float(value), 9)


def page(name: str) -> str:
    names: dict[str, Any] = {}
    exec(DATA, names)
    pairs = RUN.get(name) or SHOWN[name]
    for pair in pairs:
        if name in RUN:
            compared(pair, names)
        else:
            eval(pair.ours, names)
    said = (
        "Both calls of each row were run when this page was built, and their values compared."
        if name in RUN
        else f"Our calls were run when this page was built; those of {name} were not."
    )
    rows = "".join(
        f"| {pair.task} | `{pair.theirs.replace('|', chr(92) + '|')}` | `{pair.ours.replace('|', chr(92) + '|')}` |\n"
        for pair in pairs
    )
    head = f"# From {name}\n\n{said}\n\n| task | {name} | slicing |\n| --- | --- | --- |\n"
    return f"{head}{rows}\n## The data\n\n```python\n{DATA}```\n"
