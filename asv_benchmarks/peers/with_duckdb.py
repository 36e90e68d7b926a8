"""What DuckDB is asked: columns start, [end], [key], n, total, low, high."""

from __future__ import annotations

from asv_benchmarks.peers.data import Data, Plan, Work

AGGS = "count(*) n, sum(value) total, min(value) low, max(value) high"


def sql(query: str) -> Plan:
    def plan(data: Data) -> Work:
        return lambda: data.duckdb.sql(query).to_arrow_table()

    return plan


def groups(size: int, *keys: str) -> Plan:
    by = ", ".join(f"{i + 2}" for i in range(len(keys)))
    columns = "".join(f"{key}, " for key in keys)
    return sql(f"SELECT ts // {size} * {size} AS start, {columns}{AGGS} FROM stream GROUP BY 1{by and ', ' + by}")


def panes(size: int, every: int) -> Plan:
    return sql(f"""
        WITH panes AS (SELECT ts // {every} * {every} AS pane, {AGGS} FROM stream GROUP BY 1)
        SELECT pane + {every - size} AS start, CAST(sum(n) OVER w AS bigint) n, sum(total) OVER w total,
            min(low) OVER w low, max(high) OVER w high
        FROM panes WINDOW w AS (ORDER BY pane RANGE BETWEEN {size - every} PRECEDING AND CURRENT ROW)
    """)


def sessions(gap: int) -> Plan:
    return sql(f"""
        WITH marked AS (
            SELECT *, ts - lag(ts) OVER (PARTITION BY key ORDER BY ts) <= {gap} AS joined FROM stream
        ), numbered AS (
            SELECT *, count(*) FILTER (NOT coalesce(joined, false)) OVER (
                PARTITION BY key ORDER BY ts ROWS UNBOUNDED PRECEDING) AS session FROM marked
        ) SELECT key, min(ts) AS start, max(ts) + {gap} AS "end", {AGGS} FROM numbered GROUP BY key, session
    """)


def spread(size: int, every: int, aggs: str) -> Plan:
    """Each row once for every window that it is in: what a holistic aggregate leaves."""
    return sql(f"""
        SELECT pane * {every} AS start, {aggs} FROM (
            SELECT unnest(range(ts // {every} - {size // every - 1}, ts // {every} + 1)) AS pane, value FROM stream
        ) GROUP BY 1
    """)


def counts(size: int) -> Plan:
    return sql(f"""
        SELECT min(ts) AS start, max(ts) AS "end", {AGGS} FROM stream
        GROUP BY rowid // {size} HAVING count(*) = {size}
    """)


def ranked_counts(size: int) -> Plan:
    return sql(f"""
        SELECT min(ts) AS start, max(ts) AS "end", {AGGS} FROM (
            SELECT *, row_number() OVER (ORDER BY ts, rowid) - 1 AS rank FROM stream
        ) GROUP BY rank // {size} HAVING count(*) = {size}
    """)


def rolling(span: int) -> Plan:
    return sql(f"""
        SELECT ts AS "end", min(value) OVER (ORDER BY ts RANGE BETWEEN {span - 1} PRECEDING AND CURRENT ROW) AS low
        FROM stream
    """)


def tails(rows: int, every: int) -> Plan:
    return sql(f"""
        SELECT min(ts) AS start, edge AS "end", {AGGS} FROM (
            SELECT *, (ts // {every} + 1) * {every} AS edge FROM stream
            QUALIFY row_number() OVER (PARTITION BY ts // {every} ORDER BY ts DESC, rowid DESC) <= {rows}
        ) GROUP BY edge
    """)


def marks(only_inside: bool) -> Plan:
    inside = "WHERE number > gone" if only_inside else ""
    return sql(f"""
        SELECT min(ts) AS start, {AGGS} FROM (
            SELECT *, sum(mark::int) OVER (ORDER BY rowid ROWS UNBOUNDED PRECEDING) AS number,
                sum(leave::int) OVER (ORDER BY rowid ROWS UNBOUNDED PRECEDING) - leave::int AS gone FROM stream
        ) {inside} GROUP BY number
    """)
