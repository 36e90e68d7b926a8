"""``python tests/spark/spark_standalone.py``: a standalone master and two workers, the package shipped as a zip.

``--here`` has them import this checkout instead, whose kernels are compiled: CI has no time to compile those of a zip.

Master and workers (on two addresses of this machine, which Spark takes for two machines) are those of PySpark's own
distribution. A stateful query runs from files to files with speculation on, and in every batch the second attempt of a
task is let run at the same time as the first, so that both publish the same version. What is written has to be what
one process answers.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
from spark_chaos import COLUMNS, SPEC, deliver, rows_of, undisturbed

ROOT = Path(__file__).resolve().parents[2]
BATCHES = 3
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def packed(base: Path) -> str:
    """What ``--py-files`` takes."""
    with zipfile.ZipFile(base / "slicing.zip", "w") as archive:
        for package in ("slicing", "spark_udfs"):
            for path in sorted((ROOT / package).rglob("*.py")):
                archive.write(path, path.relative_to(ROOT))
    return str(base / "slicing.zip")


class Cluster:
    """A master and two workers; processes that end with it."""

    def __init__(self, base: Path, path: str, java: str) -> None:
        self.base, self.path, self.java, self.processes = base, path, java, list[subprocess.Popen[bytes]]()
        self.begin("master", "org.apache.spark.deploy.master.Master --host 127.0.0.1 --port 0 --webui-port 0")
        self.url = self.told("master", r"spark://\S+")
        hosts = ("127.0.0.1", "127.0.0.2")
        for host in hosts:
            worker = f"org.apache.spark.deploy.worker.Worker --host {host} --cores 1 --memory 1g -d {base}/{host}"
            self.begin(host, f"{worker} --webui-port 0 {self.url}")
        for host in hosts:
            self.told(host, "Successfully registered with master")

    def begin(self, name: str, command: str) -> None:
        """A process of Spark's."""
        home = os.path.dirname(pyspark.__file__)
        env = os.environ | {
            "PYTHONPATH": self.path,
            "SPARK_HOME": home,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": self.java,
            "SPARK_LOCAL_DIRS": str(self.base),
        }
        with (self.base / f"{name}.log").open("wb") as file:
            start = [f"{home}/bin/spark-class", *command.split()]
            self.processes.append(subprocess.Popen(start, stdout=file, stderr=file, env=env))

    def told(self, name: str, awaited: str) -> str:
        """What a process says in its log once it is there."""
        log, deadline = self.base / f"{name}.log", time.monotonic() + 120
        while not (found := re.search(awaited, log.read_text(errors="replace"))):
            if time.monotonic() > deadline or any(process.poll() is not None for process in self.processes):
                raise SystemExit(f"the {name} did not start:\n{log.read_text(errors='replace')[-3000:]}")
            time.sleep(0.05)
        return found[0]

    def stop(self) -> None:
        for process in reversed(self.processes):
            process.kill()
            process.wait()


def at_once(stage: Callable[..., Any], marks: str) -> Callable[..., Iterator[pa.RecordBatch]]:
    """The second stage; the first attempt at place 1 waits for the second, and both go on at the same moment."""

    def wrapped(job: Any, batches: Any) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        import slicing

        received, context = list(batches), TaskContext.get()
        batch, attempt = context.getLocalProperty("streaming.sql.batchId"), context.attemptNumber()
        mine, other = (f"{marks}/{batch}-{number}" for number in (attempt, 1 - attempt))
        if batch is not None and context.partitionId() == 1:
            Path(mine).touch()
            deadline = time.monotonic() + 60
            while not os.path.exists(other) and time.monotonic() < deadline:
                time.sleep(0.001)
        yield from stage(job, received)
        if batch is not None and context.partitionId() == 1:
            Path(f"{mine}-published").write_text(slicing.__file__)

    return wrapped


def run(here: bool, classes: str) -> str:
    """``classes``: an archive of those that a JVM begins with; it goes without where there is none."""
    from spark_udfs import drain, stages, window_aggregate
    from spark_udfs.local import session

    java = f"{JAVA} -XX:SharedArchiveFile={classes}"
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
        base = Path(temporary)
        for name in ("in", "marks"):
            (base / name).mkdir()
        for batch in range(BATCHES):
            deliver(base / "in", batch)
        cluster = Cluster(base, str(ROOT) if here else "", java)  # otherwise the package has to come with the query
        try:
            spark = session(
                cluster.url,
                **({} if here else {"spark.submit.pyFiles": packed(base)}),
                **{
                    "spark.executor.memory": "512m",
                    "spark.driver.extraJavaOptions": java,
                    "spark.executor.extraJavaOptions": java,
                    "spark.scheduler.minRegisteredResourcesRatio": "1",
                    "spark.cores.max": "2",
                    "spark.speculation": "true",
                    "spark.speculation.quantile": "0.5",
                    "spark.speculation.interval": "20ms",
                    "spark.locality.wait": "0",
                    "spark.local.dir": str(base / "local"),
                },
            )
            whole, stages.merge = stages.merge, at_once(stages.merge, str(base / "marks"))
            source = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).parquet(str(base / "in"))
            windows = window_aggregate(source, SPEC, str(base / "state"), 2)
            writer = windows.writeStream.option("checkpointLocation", str(base / "checkpoint")).format("parquet")
            writer.option("path", str(base / "out")).trigger(availableNow=True).start().awaitTermination()
            stages.merge = whole
            rest = drain(spark, SPEC, str(base / "state"), checkpoint=str(base / "checkpoint")).toArrow()
            found = rows_of([spark.read.parquet(str(base / "out")).toArrow(), rest])
            spark.stop()
        finally:
            cluster.stop()
        expected = undisturbed([[batch] for batch in range(BATCHES)])
        lost, extra = Counter(expected) - Counter(found), Counter(found) - Counter(expected)
        published = list((base / "marks").glob("*-published"))
        origin = str(ROOT) if here else "slicing.zip"
        assert all(origin in mark.read_text() for mark in published), f"the package was not that of {origin}"
        twice = sum((base / "marks" / f"{b}-{n}").exists() for b in range(BATCHES) for n in (0, 1)) - BATCHES
    told = f"{len(expected):,} windows of {BATCHES} batches on two workers, {twice} tasks run twice at once, "
    told += f"{len(published)} of their attempts published: {lost.total()} lost, {extra.total()} extra"
    if lost or extra:
        raise SystemExit(told)
    return told


if __name__ == "__main__":
    begin = time.monotonic()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--here", action="store_true", help="workers import this checkout")
    parser.add_argument("--classes", default="none", help=argparse.SUPPRESS)
    args = parser.parse_args()
    print(f"{run(args.here, args.classes)}; {time.monotonic() - begin:.0f} s")
