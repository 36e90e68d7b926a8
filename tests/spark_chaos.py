"""``python tests/spark_chaos.py --kills 200``: a stream whose processes are killed (``kill -9``) at random moments.

A driver runs a query on ``local-cluster`` (executors are processes of their own), from files to files. While it runs,
Python workers, executors and the driver itself are killed; a killed driver is started again. What is written
then has to be what one process answers for the same files, in the same batches: nothing lost, nothing twice.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import slicing as sl
from slicing.partials import Collector, admit, packed, start, state_of

SECOND = 1_000_000
SPEC = sl.Spec(
    time="ts",
    by=["k"],
    windows={"slide": sl.sliding("10s", every="2s"), "visit": sl.session("700ms")},
    aggs={"n": sl.count(), "total": sl.sum("v"), "first": sl.first("v")},
    watermark=sl.bounded("2s"),
)
COLUMNS = "ts timestamp_ltz, k long, v long"
PARTITIONS = 3
KINDS = ("worker", "executor", "driver")


def readings(batch: int, size: int = 400) -> pa.Table:
    rng = np.random.default_rng(batch)
    behind = np.where(rng.random(size) < 0.05, rng.integers(0, 60 * SECOND, size), rng.integers(0, 2 * SECOND, size))
    ts = rng.integers(batch * 10 * SECOND, (batch + 1) * 10 * SECOND, size) - behind
    columns = {"ts": pa.array(ts + 10**15, pa.timestamp("us", "UTC")), "k": rng.integers(0, 20, size)}
    return pa.table({**columns, "v": rng.integers(-50, 50, size)})


def deliver(folder: Path, batch: int) -> None:
    spare = folder / f".{batch}"
    pq.write_table(readings(batch), spare)
    os.utime(spare, (10**9 + batch, 10**9 + batch))
    spare.rename(folder / f"{batch:05}.parquet")


def rows_of(tables: list[pa.Table]) -> list[tuple]:
    return sorted(tuple(row.values()) for table in tables for row in table.to_pylist())


def undisturbed(batches: int) -> list[tuple]:
    """What one process answers, batch by batch."""
    schema = readings(0).schema
    operator, found = start(SPEC, schema), []
    for batch in range(batches):
        collector = Collector(SPEC, schema, state_of(operator).watermark)
        collector.push(readings(batch))
        found.append(admit(operator, packed(collector.parts(), 1)).windows)
    return rows_of([*found, operator.flush().windows])


# --- the driver, a process of its own ---------------------------------------------------------------------------------


def drive(base: Path) -> None:
    """Run the query until ``base/stop`` is there and all files are read, then drain."""
    from spark_udfs import drain, window_aggregate
    from spark_udfs.local import session

    more = {
        "spark.task.maxFailures": 1000,
        "spark.stage.maxConsecutiveAttempts": 1000,
        "spark.deploy.maxExecutorRetries": -1,
        "spark.executor.memory": "512m",
    }
    spark = session("local-cluster[2,1,512]", **more)
    source = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).parquet(str(base / "in"))
    windows = window_aggregate(source, SPEC, str(base / "state"), PARTITIONS)
    writer = windows.writeStream.format("parquet").option("checkpointLocation", str(base / "checkpoint"))
    writer = writer.option("path", str(base / "out"))
    (base / "running").touch()
    stopping = False
    while not stopping:
        stopping = (base / "stop").exists()
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        time.sleep(0.05)
    rest = drain(spark, SPEC, str(base / "state"), checkpoint=str(base / "checkpoint")).toArrow()
    pq.write_table(spark.read.parquet(str(base / "out")).toArrow(), base / "closed.parquet")
    pq.write_table(rest, base / "rest.parquet")
    (base / "done").touch()
    spark.stop()


# --- who kills --------------------------------------------------------------------------------------------------------


def family(root: int) -> dict[int, tuple[int, str]]:
    """Descendants of a process: parent and command line of each."""
    every: dict[int, tuple[int, str]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            every[int(entry.name)] = (parent, command)
    found, queue = {}, [root]
    while queue:
        parent = queue.pop()
        children = [pid for pid, (of, _) in every.items() if of == parent and pid not in found]
        found.update({pid: every[pid] for pid in children})
        queue += children
    return found


def victims(kind: str, driver: int) -> list[int]:
    if kind == "driver":
        return [driver]
    members = family(driver)
    if kind == "executor":
        return [pid for pid, (_, command) in members.items() if "CoarseGrainedExecutorBackend" in command]
    daemons = {pid for pid, (_, command) in members.items() if "pyspark.daemon" in command}
    return [pid for pid in daemons if members[pid][0] in daemons]


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


class Chaos:
    def __init__(self, base: Path, chance: random.Random) -> None:
        self.base, self.chance = base, chance
        self.killed: Counter[str] = Counter()
        self.batches = 0
        self.wanted = 0  # batches complete before the next blow
        self.log = (base / "driver.log").open("ab")
        (base / "in").mkdir()
        self.driver = self.begin()

    def begin(self) -> subprocess.Popen[bytes]:
        (self.base / "running").unlink(missing_ok=True)
        command = [sys.executable, __file__, "--drive", str(self.base)]
        return subprocess.Popen(command, stdout=self.log, stderr=self.log, start_new_session=True)

    def feed(self) -> int:
        """Always some files that were not read yet; how many batches are complete."""
        done = len(list((self.base / "checkpoint" / "commits").glob("[0-9]*")))
        while self.batches < done + 3:
            deliver(self.base / "in", self.batches)
            self.batches += 1
        return done

    def strike(self, kind: str) -> None:
        """Kill one of a kind, at a random moment of a running query."""
        deadline = time.monotonic() + 180
        while True:
            done = self.feed()
            if self.driver.poll() is not None:
                raise SystemExit(f"the driver ended by itself:\n{self.tail()}")
            found = victims(kind, self.driver.pid) if (self.base / "running").exists() else []
            if found and done >= self.wanted:
                break
            if time.monotonic() > deadline:
                raise SystemExit(f"no {kind} to kill in three minutes:\n{self.tail()}")
            time.sleep(0.05)
        time.sleep(self.chance.uniform(0, 1.5))
        if kind == "driver":
            members = family(self.driver.pid)
            kill(self.driver.pid)
            for pid, (_, command) in members.items():  # executors and workers outlive it for a while, and may go on
                if "SparkSubmit" in command:
                    kill(pid)
            self.driver.wait()
            self.driver = self.begin()
        else:
            found = victims(kind, self.driver.pid)
            if not found:
                return self.strike(kind)
            kill(self.chance.choice(found))
        self.killed[kind] += 1
        self.wanted = done + self.chance.choice([0, 0, 1, 2])
        return None

    def finish(self) -> tuple[list[tuple], list[tuple]]:
        (self.base / "stop").touch()
        if self.driver.wait(timeout=600) != 0 or not (self.base / "done").exists():
            raise SystemExit(f"the driver failed:\n{self.tail()}")
        found = [pq.read_table(self.base / name) for name in ("closed.parquet", "rest.parquet")]
        return rows_of(found), undisturbed(self.batches)

    def tail(self) -> str:
        return (self.base / "driver.log").read_text(errors="replace")[-6000:]


def run(kinds: list[str], seed: int, loud: bool = True) -> str:
    """Kill one of each of ``kinds``, in their order; what came of it, or an error."""
    with tempfile.TemporaryDirectory() as temporary:
        chaos = Chaos(Path(temporary), random.Random(seed))
        try:
            for number, kind in enumerate(kinds):
                chaos.strike(kind)
                if loud and number % 10 == 9:
                    print(f"  {number + 1} kills, {chaos.batches} batches", flush=True)
            found, expected = chaos.finish()
        finally:
            for pid in [*family(chaos.driver.pid), chaos.driver.pid]:
                kill(pid)
    lost, twice = Counter(expected) - Counter(found), Counter(found) - Counter(expected)
    told = ", ".join(f"{count} {kind}s" for kind, count in sorted(chaos.killed.items()))
    result = f"killed {told} in {chaos.batches} batches: "
    result += f"{len(expected):,} windows, {lost.total()} lost, {twice.total()} extra"
    if lost or twice:
        raise SystemExit(result)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--drive", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.drive is not None:
        drive(args.drive)
        return
    chance = random.Random(args.seed)
    print(run(chance.choices(KINDS, weights=(5, 3, 2), k=args.kills), args.seed))


if __name__ == "__main__":
    main()
