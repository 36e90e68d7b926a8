"""What pandas is asked: columns start, [end], [key], n, total, low, high."""

from __future__ import annotations

import pandas as pd

from asv_benchmarks.peers.data import Data, Plan, Work

AGGS = {"n": ("value", "size"), "total": ("value", "sum"), "low": ("value", "min"), "high": ("value", "max")}


def groups(size: int, *keys: str) -> Plan:
    def plan(data: Data) -> Work:
        frame = data.pandas

        def work() -> pd.DataFrame:
            start = (frame["ts"] // size * size).rename("start")
            by = [start, *(frame[key] for key in keys)] if keys else start
            return frame.groupby(by, sort=False).agg(**AGGS).reset_index()

        return work

    return plan


def rolling(span: int) -> Plan:
    def plan(data: Data) -> Work:
        column = data.pandas.set_index(pd.to_datetime(data.pandas["ts"], unit="us"))["value"]
        return lambda: {"end": data.arrays["ts"], "low": column.rolling(f"{span}us").min().to_numpy()}

    return plan
