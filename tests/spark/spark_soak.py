"""``python tests/spark/spark_soak.py --minutes 30``: micro-batches one after the other, with keys that come and go.

Each batch moves time on and replaces half of the keys. What the query keeps (cells, keys, bytes and files of state),
what its workers hold in memory and what a batch takes must not grow. The first fifth of the time is warming up; of the
rest the last third is held against the first. (The table of keys is a saw: those without cells are forgotten once they
are most of some thousands, every 50 batches.)
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress
from spark_chaos import family

import slicing as sl
from spark_udfs import window_aggregate
from spark_udfs.local import session

SPEC = sl.Spec(
    time="ts",
    by=["k"],
    windows={"slide": sl.sliding("60s", every="5s"), "visit": sl.session("7s")},
    aggs={"n": sl.count(), "total": sl.sum("v"), "least": sl.min("name"), "middle": sl.median("v")},
    watermark=sl.bounded("8s"),
)
ROWS, KEYS = 2000, 400
DAEMONS = "-m pyspark.daemon", "-m spark_warm_daemon"  # the second one where tests have begun the JVM
KEPT = 20  # versions of the state
TICK = os.sysconf("SC_CLK_TCK")
# drift that passes: a worker's memory and the clock are noisy, what is kept is not
ALLOWED = {
    "cells": 0.05,
    "keys": 0.05,
    "state_bytes": 0.05,
    "state_files": 0.05,
    "worker_mb": 0.10,
    "batch_ms": 0.20,
    "cpu_ms": 0.20,
}


@dataclass
class Sample:
    at: float
    figures: dict[str, float]


def stream(spark: SparkSession) -> DataFrame:
    """5 s a batch, up to 6 s out of order; 400 keys, of which each batch replaces half."""
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS)
    source = source.option("advanceMillisPerBatch", 5000).option("startTimestamp", 10**12).option("numPartitions", 2)
    return source.load().selectExpr(
        "timestampadd(MILLISECOND, -(value * 7919 % 6000), timestamp) as ts",
        f"concat('sensor ', value div {ROWS} * {KEYS // 2} + value * 31 % {KEYS}) as k",
        "value * 104729 % 1000 as v",
        "concat('name ', value % 5000) as name",
    )


def memory(pid: int) -> float:
    """Resident MB of a process; forked workers share most of the first 100."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
    except OSError:
        return 0.0


def cpu(pid: int) -> float:
    try:
        return sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15])) / TICK
    except OSError:
        return 0.0


def told(progress: StreamingQueryProgress) -> dict[str, float]:
    """What Spark tells of one batch."""
    held = progress.observedMetrics["windows"].stats
    figures = {name: float(held[name]) for name in ("cells", "keys", "state_bytes")}
    return figures | {"batch_ms": progress.durationMs["triggerExecution"], "batches": progress.batchId + 1}


def observe(minutes: float, base: Path, spec: sl.Spec, batches: float) -> list[Sample]:
    spark = session("local[2]", **{"spark.local.dir": str(base / "local")})
    frame = window_aggregate(stream(spark), spec, str(base / "state"), partitions=2, keep_versions=KEPT)
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(base / "checkpoint"))
    query = writer.start()
    samples: list[Sample] = []
    seen, begun = -1, time.monotonic()
    used, known = 0.0, 0
    while time.monotonic() - begun < 60 * minutes and seen < batches:
        time.sleep(1.0)
        if query.exception() is not None:
            raise SystemExit(str(query.exception()))
        new = [p for p in query.recentProgress if p.batchId > seen and p.numInputRows]
        if not new:
            continue
        seen = new[-1].batchId
        members = family(os.getpid())
        workers = [pid for pid, (_, command) in members.items() if any(name in command for name in DAEMONS)]
        now = sum(cpu(pid) for pid in [os.getpid(), *members])
        outside = {
            "cpu_ms": (now - used) * 1e3 / (seen - known or 1),
            "worker_mb": max(map(memory, workers), default=0.0),
            "state_files": sum(1 for _ in (base / "state").rglob("*.slices")),
        }
        used, known = now, seen
        samples += [Sample(time.monotonic() - begun, told(progress) | outside) for progress in new]
    query.stop()
    spark.stop()
    return samples


def verdict(samples: list[Sample]) -> tuple[bool, str]:
    """Whether nothing grew, and a line for each figure."""
    steady = [s for s in samples if s.at >= samples[-1].at / 5]
    third = max(len(steady) // 3, 1)
    hours = np.array([s.at / 3600 for s in steady])
    flat, lines = True, [f"{samples[-1].figures['batches']:.0f} batches in {samples[-1].at / 60:.1f} minutes"]
    for name, allowed in ALLOWED.items():
        values = np.array([s.figures[name] for s in steady])
        first, last = statistics.median(values[:third]), statistics.median(values[-third:])
        slope = np.polyfit(hours, values, 1)[0] if len(values) > 1 else 0.0
        drift = last / first - 1 if first else 0.0
        good = drift <= allowed
        flat &= good
        told = f"{first:,.0f} -> {last:,.0f} ({drift:+.1%}, {slope:+,.0f} an hour)"
        lines.append(f"  {name:<12}{told}{'' if good else f'  GROWS: more than {allowed:.0%}'}")
    return flat, "\n".join(lines)


def run(minutes: float, spec: sl.Spec = SPEC, batches: float = float("inf")) -> list[Sample]:
    """Until so much time has passed, or so many batches."""
    with tempfile.TemporaryDirectory() as temporary:
        return observe(minutes, Path(temporary), spec, batches)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    args = parser.parse_args()
    flat, told = verdict(run(args.minutes))
    print(told)
    print("flat" if flat else "NOT FLAT")
    sys.exit(not flat)


if __name__ == "__main__":
    main()
