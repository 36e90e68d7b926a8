"""What DataFusion is asked: columns start, [key], n, total, low, high."""

from __future__ import annotations

from asv_benchmarks.peers.data import Data, Plan, Work

AGGS = "count(*) n, sum(value) total, min(value) low, max(value) high"


def sql(query: str) -> Plan:
    def plan(data: Data) -> Work:
        return lambda: data.datafusion.sql(query).to_arrow_table()

    return plan


def groups(size: int, *keys: str) -> Plan:
    columns = ", ".join([f"ts / {size} * {size} AS start", *keys])
    numbers = ", ".join(str(i + 1) for i in range(len(keys) + 1))
    return sql(f"SELECT {columns}, {AGGS} FROM stream GROUP BY {numbers}")


def panes(size: int, every: int) -> Plan:
    return sql(f"""
        WITH panes AS (SELECT ts / {every} * {every} AS pane, {AGGS} FROM stream GROUP BY 1)
        SELECT pane + {every - size} AS start, sum(n) OVER w n, sum(total) OVER w total,
            min(low) OVER w low, max(high) OVER w high
        FROM panes WINDOW w AS (ORDER BY pane RANGE BETWEEN {size - every} PRECEDING AND CURRENT ROW)
    """)


def sessions(gap: int) -> Plan:
    return sql(f"""
        WITH marked AS (
            SELECT *, CASE WHEN ts - lag(ts) OVER (PARTITION BY key ORDER BY ts) <= {gap} THEN 0 ELSE 1 END AS opens
            FROM stream
        ), numbered AS (
            SELECT *, sum(opens) OVER (PARTITION BY key ORDER BY ts ROWS UNBOUNDED PRECEDING) AS session FROM marked
        ) SELECT key, min(ts) AS start, max(ts) + {gap} AS "end", {AGGS} FROM numbered GROUP BY key, session
    """)
