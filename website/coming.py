"""From other libraries' calls to ours: both are run and compared, for pandas, Polars, DuckDB and parts of Spark."""

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
ROWS = "[row['x'] for row in found.collect()]"
HALVES = (
    "sl.udaf('halves', lift=lambda v: v / 2, combine=lambda a, b: a + b, lower=lambda s: s, identity=0.0, inputs=['v'])"
)
OPERATOR = 'sl.Operator(sl.Spec("ts", {"m": sl.tumbling("1m")}, {"n": sl.count()}))'
SPARK = [
    Pair(
        "tumbling",
        'events.groupBy(F.window("ts", "1 minute"), "k").agg(F.sum("v").alias("x"))',
        'windows(sl.tumbling("1m"), x=sl.sum("v"))',
        (ROWS, OURS),
    ),
    Pair(
        "sliding",
        'events.groupBy(F.window("ts", "1 hour", "15 minutes"), "k").agg(F.count("*").alias("x"))',
        'windows(sl.sliding("1h", every="15m"), x=sl.count())',
        (ROWS, OURS),
    ),
    Pair(
        "sessions: less than a minute apart, of whole seconds",
        'events.groupBy(F.session_window("ts", "1 minute"), "k").agg(F.max("v").alias("x"))',
        'windows(sl.session("59s"), x=sl.max("v"))',
        (ROWS, OURS),
    ),
    Pair(
        "the mean of the last five minutes at each row",
        'events.selectExpr("avg(v) OVER (PARTITION BY k ORDER BY ts RANGE INTERVAL 299 SECONDS PRECEDING) AS x")',
        'sl.attach(table, sl.Spec("ts", {"w": sl.per_row("5m")}, {"x": sl.mean("v")}, by="k"))',
        (ROWS, OURS),
    ),
    Pair("how late rows may be", 'events.withWatermark("ts", "10 seconds")', 'sl.bounded("10s")'),
    Pair(
        '`outputMode("append")`',
        "a window once it is complete",
        'sl.Spec("ts", {"m": sl.tumbling("1m")}, {"n": sl.count()}, emit="final")',
    ),
    Pair(
        '`outputMode("update")`',
        "a window in each batch that changes it",
        'sl.Spec("ts", {"m": sl.tumbling("1m")}, {"n": sl.count()}, trigger=sl.each_push(), emit="updates")',
    ),
    Pair("late rows", "dropped, and counted in the progress", OPERATOR + ".push(table).late"),
    Pair(
        "an aggregate of your own",
        "Aggregator, pandas_udf",
        f"windows(sl.tumbling('1m'), x={HALVES})",
    ),
    Pair(
        "two streams joined by keys and times",
        'left.join(right, expr("a.id = b.id AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 10 MINUTES"))',
        'sl.JoinSpec("id", "ts", ("0s", "10m"))',
    ),
    Pair(
        "duplicates",
        'dropDuplicatesWithinWatermark(["id"])',
        'sl.Distinct(sl.DistinctSpec("id", "ts", sl.tumbling("1h")))',
    ),
    Pair("state of your own", "transformWithState, applyInPandasWithState", "sl.ContextAwareWindow"),
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
    Pair("count windows", "countWindow(100)", "windows(sl.rows(100), x=sl.count())"),
    Pair(
        "sliding count windows; Flink's first ones have fewer than 100 rows",
        "countWindow(100, 10)",
        "windows(sl.rows(100, every=10), x=sl.count())",
    ),
    Pair(
        "at each row the last five minutes",
        "AVG(v) OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL '5' MINUTES PRECEDING AND CURRENT ROW)",
        'windows(sl.per_row(before="5m", after="0s", closed="both"), x=sl.mean("v"))',
    ),
    Pair(
        "the first three of each window",
        "ROW_NUMBER() OVER (PARTITION BY window_start, window_end, k ORDER BY v DESC) <= 3",
        'windows(sl.tumbling("1h"), x=sl.top_k("v", 3))',
    ),
    Pair("watermark", "WATERMARK FOR ts AS ts - INTERVAL '10' SECOND", 'sl.bounded("10s")'),
    Pair("quiet sources", "withIdleness(Duration.ofMinutes(1))", 'sl.per_source("k", "10s", idle="1m")'),
    Pair(
        "late data",
        "allowedLateness(Duration.ofMinutes(1))",
        'sl.Spec("ts", {"m": sl.tumbling("1m")}, {"n": sl.count()}, allowed_lateness="1m", emit="updates")',
    ),
    Pair("rows too late", "sideOutputLateData(tag)", OPERATOR + ".push(table).late"),
    Pair(
        "results before the end",
        "ContinuousEventTimeTrigger.of(Duration.ofMinutes(10))",
        'sl.Spec("ts", {"h": sl.tumbling("1h")}, {"n": sl.count()}, trigger=sl.every("10m"), emit="updates")',
    ),
    Pair(
        "retractions, +U and -U",
        "toChangelogStream",
        'sl.Spec("ts", {"m": sl.tumbling("1m")}, {"n": sl.count()}, allowed_lateness="1m", emit="changes")',
    ),
    Pair(
        "a changelog as input",
        "fromChangelogStream",
        'sl.Spec("ts", {"m": sl.tumbling("1m")}, {"n": sl.count()}, op="op")',
    ),
    Pair(
        "interval join",
        "a.k = b.k AND a.ts BETWEEN b.ts - INTERVAL '5' MINUTE AND b.ts",
        'sl.JoinSpec("k", "ts", ("0s", "5m"))',
    ),
    Pair(
        "window join",
        "L.k = R.k AND L.window_start = R.window_start AND L.window_end = R.window_end",
        'sl.JoinSpec("k", "ts", sl.tumbling("5m"))',
    ),
    Pair("temporal join", "FOR SYSTEM_TIME AS OF", 'sl.JoinSpec("k", "ts", (None, "0s"), match="last", how="left")'),
    Pair(
        "deduplication in each window",
        "ROW_NUMBER() OVER (PARTITION BY window_start, window_end, id ORDER BY ts) = 1",
        'sl.Distinct(sl.DistinctSpec("id", "ts", sl.tumbling("1h")))',
    ),
    Pair("a window assigner of your own", "WindowAssigner", "sl.ContextFreeWindow"),
    Pair("a function of your own", "AggregateFunction", f"windows(sl.tumbling('1m'), x={HALVES})"),
    Pair("savepoint", "flink savepoint", OPERATOR + ".snapshot"),
]
BEAM = [
    Pair("tumbling", "FixedWindows(60)", 'windows(sl.tumbling("1m"), x=sl.sum("v"))'),
    Pair("sliding", "SlidingWindows(3600, 900)", 'windows(sl.sliding("1h", every="15m"), x=sl.count())'),
    Pair(
        "sessions: less than five minutes apart, of whole seconds",
        "Sessions(300)",
        'windows(sl.session("299s"), x=sl.count())',
    ),
    Pair(
        "calendar days (Beam: only in Java)",
        "CalendarWindows.days(1).withTimeZone(...)",
        'sl.calendar("1d", "Europe/Berlin")',
    ),
    Pair("one window", "GlobalWindows()", "windows(sl.whole(), x=sl.count())"),
    Pair("a WindowFn of your own", "WindowFn", "sl.ContextFreeWindow"),
    Pair("a CombineFn", "CombineFn", f"windows(sl.tumbling('1m'), x={HALVES})"),
    Pair("the default trigger", "DefaultTrigger()", 'sl.Spec("ts", {"h": sl.tumbling("1h")}, {"n": sl.count()})'),
    Pair(
        "early results",
        "trigger=AfterWatermark(early=AfterProcessingTime(60)), accumulation_mode=AccumulationMode.ACCUMULATING",
        'sl.Spec("ts", {"h": sl.tumbling("1h")}, {"n": sl.count()}, emit="updates", '
        'trigger=sl.every_processing_time("1m"))',
    ),
    Pair(
        "accumulating panes",
        "accumulation_mode=AccumulationMode.ACCUMULATING, allowed_lateness=60",
        'sl.Spec("ts", {"m": sl.tumbling("1m")}, {"n": sl.count()}, allowed_lateness="1m", emit="updates")',
    ),
    Pair(
        "discarding panes",
        "accumulation_mode=AccumulationMode.DISCARDING",
        'sl.Spec("ts", {"h": sl.tumbling("1h")}, {"n": sl.count()}, trigger=sl.every("10m"), emit="parts")',
    ),
    Pair(
        "retracting panes",
        "not there yet",
        'sl.Spec("ts", {"m": sl.tumbling("1m")}, {"n": sl.count()}, allowed_lateness="1m", emit="changes")',
    ),
    Pair(
        "pane info",
        "PaneInfo: EARLY, ON_TIME, LATE",
        'sl.Spec("ts", {"h": sl.tumbling("1h")}, {"n": sl.count()}, trigger=sl.every("10m"), emit="updates")',
    ),
    Pair("several streams", "beam.Flatten()", 'sl.Union({"a": sl.bounded("10s"), "b": sl.bounded("1m")}, "ts")'),
]
RUN = {"pandas": PANDAS, "Polars": POLARS, "DuckDB": DUCKDB}
SHOWN = {"Spark": SPARK, "Flink": FLINK, "Beam": BEAM}
BY_HAND = {
    "Flink": "Flink's calls were run by hand with Flink 2.3.0 on its local cluster, in SQL or "
    "Java, and its windows, joins and functions gave what ours give from the rows below; tests run only ours.",
    "Beam": "Beam's calls, all but the calendar days, were run by hand with Beam 2.77.0 for Python on its direct "
    "runner, and its windows and functions gave what ours give from the rows below; tests run only ours.",
}


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
    said = "Both calls of each row were run when this page was built, and their values compared."
    if name not in RUN:
        tested = [pair.task for pair in pairs if pair.values is not None]
        shown = f"; those of {name} are run by a test, and compared, for: {', '.join(tested)}" if tested else ""
        said = f"Our calls were run when this page was built{shown}. {BY_HAND.get(name, '')}".rstrip()
    rows = "".join(
        f"| {pair.task} | `{pair.theirs.replace('|', chr(92) + '|')}` | `{pair.ours.replace('|', chr(92) + '|')}` |\n"
        for pair in pairs
    )
    head = f"# From {name}\n\n{said}\n\n| task | {name} | slicing |\n| --- | --- | --- |\n"
    return f"{head}{rows}\n## The data\n\n```python\n{DATA}```\n"
