"""``python tests/spark/spark_chaos.py --kills 200``: a stream whose processes are killed (``kill -9``) at random.

With ``--query join`` it is a join of two streams, with ``--query features`` features of one stream as of the other;
with ``--state s3`` the state is on an object store (``s3_server.py``), whose answers fail, are cut off, or get lost.

A driver runs a query on ``local-cluster`` (executors are processes of their own), from files to a sink. While it runs,
Python workers, executors and the driver itself are killed, at random moments or between the publishing of a version
and its commit; a killed driver is started again. Between two kills tasks fail after they have written their state, find
their disk full or read-only, or run twice at a time, one of them late by seconds and several batches. A sink fails, or
its driver is killed inside of it; a commit is lost, a query is taken back by some batches, a version is damaged and the
query taken back before it. Workers start anew with another version of the library, beside those of the old one; a
second driver runs the same query at the same time. The sink is Spark's own of files, or a ``foreachBatch`` that
runs the query twice in each batch. What is written has to be what one process answers for the same files, in the
same batches: nothing lost, nothing twice.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

# for a driver a copy that changes while the query runs
sys.path.insert(0, os.environ.get("SLICING_UNDER_TEST", str(Path(__file__).resolve().parents[2])))

from s3_server import CUT, LOST, S3Server

import slicing as sl
from slicing.exchange import Collector, admit, packed, start, state_of

ROOT = Path(__file__).resolve().parents[2]
SECOND = 1_000_000
SPEC = sl.Spec(
    time="ts",
    by=["k"],
    windows={"slide": sl.sliding("10s", every="2s"), "visit": sl.session("700ms")},
    aggs={"n": sl.count(), "total": sl.sum("v"), "first": sl.first("v")},
    watermark=sl.bounded("2s"),
)
COLUMNS = "ts timestamp_ltz, k long, v long"
# with rows that come alone; the result's event time is the left one's, and the right side has another delay
JOIN = sl.JoinSpec(
    on="k", time="ts", within=("1s", "2s"), how="left", watermark=(sl.bounded("2s"), sl.bounded("3s"))
)  # fmt: skip
FEATURES = sl.FeatureSpec(
    "k", ("ts", "ts"), {"2s": "2s", "9s": "9s"}, {"n": sl.count(), "total": sl.sum("v"), "most": sl.max("v")},
    watermark=(sl.bounded("2s"), sl.bounded("3s")),
)  # fmt: skip
SPECS = {"windows": SPEC, "join": JOIN, "features": FEATURES}
QUERIES = tuple(SPECS)
PARTITIONS = 3
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
PATIENCE = 600  # seconds for a driver to come up and go on, beside other work
KILLS = {  # what is killed, and how often among others
    "worker": 4,  # any Python worker, whatever it does
    "worker after its state": 5,  # one that has just published a version and not told so
    "executor": 1,
    "executor after a state": 2,
    "driver": 1,
    "driver before its commit": 3,  # all partitions have published a batch, Spark has not committed it
}
PROVOKED = ("failed task", "twin task", "paused twin", "full disk", "read-only folder")
# what a sink or an operator does to a query; those of checkpoints and sinks where batches are written over
IN_SINKS = ("driver in its sink", "JVM in its sink", "sink that fails")
OF_FOREACH = (*IN_SINKS, "taken back", "damaged version")
OF_FILES = ("two drivers",)  # a sink of one's own would have to refuse the second one itself
BESIDE = ("deleted commit", "worker at a new version", *OF_FOREACH, *OF_FILES)
DISKS = {"full disk": 28, "read-only folder": 30}
FAULTS = (403, 500, 503, CUT, LOST)  # of an object store; a client repeats the middle ones by itself
SINKS = ("files", "foreachBatch")
STATES = ("local", "s3")


def readings(batch: int, size: int = 400, side: int = 0) -> pa.Table:
    rng = np.random.default_rng([batch, side])
    behind = np.where(rng.random(size) < 0.05, rng.integers(0, 60 * SECOND, size), rng.integers(0, 2 * SECOND, size))
    ts = rng.integers(batch * 10 * SECOND, (batch + 1) * 10 * SECOND, size) - behind
    columns = {"ts": pa.array(ts + 10**15, pa.timestamp("us", "UTC")), "k": rng.integers(0, 20, size)}
    return pa.table({**columns, "v": rng.integers(-50, 50, size)})


def deliver(folder: Path, batch: int) -> None:
    """A file of rows; in ``right`` beside it one of the other side of the join."""
    for side, into in enumerate((folder, folder / "right")):
        into.mkdir(exist_ok=True)
        spare = into / f".{batch}"
        pq.write_table(readings(batch, side=side), spare)
        os.utime(spare, (10**9 + batch, 10**9 + batch))
        spare.rename(into / f"{batch:05}.parquet")


def rows_of(tables: list[pa.Table]) -> list[tuple]:
    return sorted((tuple(row.values()) for table in tables for row in table.to_pylist()), key=repr)


def composition(checkpoint: Path, source: int = 0) -> list[list[int]]:
    """The files of each batch, of one source.

    A driver killed between writing down which files come next and that they are a batch of their own begins with two.
    """
    of_offset: dict[int, set[int]] = {}
    for log in (checkpoint / "sources" / str(source)).iterdir():
        if not log.name.startswith("."):
            for entry in map(json.loads, log.read_text().splitlines()[1:]):
                of_offset.setdefault(entry["batchId"], set()).add(int(Path(entry["path"]).stem))
    batches, last = [], -1
    for log in sorted((p for p in (checkpoint / "offsets").iterdir() if p.name.isdigit()), key=lambda p: int(p.name)):
        line = log.read_text().splitlines()[2 + source]  # "-": nothing of this source yet
        offset = last if line == "-" else json.loads(line)["logOffset"]
        batches.append(sorted(set().union(*(of_offset[o] for o in range(last + 1, offset + 1)))))
        last = offset
    return batches


def undisturbed(batches: list[list[int]]) -> list[tuple]:
    """What one process answers, batch by batch."""
    schema = readings(0).schema
    operator, found = start(SPEC, schema), []
    for files in batches:
        collector = Collector(SPEC, schema, state_of(operator).watermark)
        for number in files:
            collector.push(readings(number))
        found.append(admit(operator, packed(collector.parts(), 1)).windows)
    return rows_of([*found, operator.flush().windows])


def undisturbed_join(spec: Any, batches: list[list[int]], right: list[list[int]]) -> list[tuple]:
    """What one process answers to the batches of both sides."""
    schema = readings(0).schema
    kind = sl.FeatureOperator if isinstance(spec, sl.FeatureSpec) else sl.JoinOperator
    operator: Any = kind(dataclasses.replace(spec, schemas=(schema, schema)))
    found = []
    for sides in zip(batches, right, strict=True):
        tables = (
            pa.concat_tables([schema.empty_table(), *(readings(number, side=side) for number in files)])
            for side, files in enumerate(sides)
        )
        found.append(operator.push(*tables).rows)
    return rows_of([*found, operator.flush().rows])


def warm(query: str) -> None:
    """Have the kernels of a query loaded."""
    if query != "windows":
        undisturbed_join(SPECS[query], [[0], [1]], [[0], [1]])
        return
    from spark_udfs import jobs, stages
    from spark_udfs.progress import Step
    from spark_udfs.versions import Files

    with tempfile.TemporaryDirectory() as folder:
        job = jobs.Job(SPEC, readings(0).schema, 1, Files(folder, "windows", 1, SPEC.fingerprint()))
        for batch in range(3):
            sent = list(stages.collect(job, readings(batch).to_batches(), Step("q", batch, 0)))
            list(stages.merge(job, sent, Step("q", batch, 0)))


# --- the driver, a process of its own ---------------------------------------------------------------------------------


def drive(base: Path, sink: str, query_of: str, state: str) -> None:
    """Run the query until ``base/stop`` is there and all files are read, then drain."""
    from pyspark.errors import StreamingQueryException

    from spark_udfs import drain, stages, window_aggregate, window_features, window_join
    from spark_udfs.local import session

    stages.merge = provoked(stages.merge, str(base))
    java = os.environ["CHAOS_JAVA"]
    more = {
        "spark.task.maxFailures": 1000,
        "spark.stage.maxConsecutiveAttempts": 1000,
        "spark.sql.streaming.minBatchesToRetain": "100000",  # the files of every batch are looked at in the end
        "spark.deploy.maxExecutorRetries": -1,
        "spark.executor.memory": "512m",
        "spark.sql.codegen.wholeStage": "false",  # each plan runs for a few small batches
        "spark.python.daemon.module": "spark_warm_daemon",
        "spark.driver.extraJavaOptions": java,
        "spark.executor.extraJavaOptions": java,
    }
    spark = session(os.environ["CHAOS_MASTER"], **more)
    spec: Any = SPECS[query_of]
    reader = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1)
    source = reader.parquet(str(base / "in"))
    if query_of == "windows":
        windows = window_aggregate(source, SPEC, state, PARTITIONS)
    else:
        other = reader.parquet(str(base / "in" / "right"))
        both: Any = window_join if query_of == "join" else window_features
        windows = both(source, other, spec, state, PARTITIONS, "windows")
    writer = windows.writeStream.option("checkpointLocation", str(base / "checkpoint"))
    if sink == "files":
        writer = writer.format("parquet").option("path", str(base / "out"))
    else:
        writer = writer.foreachBatch(twice(base))
    query = writer.start()
    (base / "running").touch()
    read = False
    while not read:
        if not query.isActive:
            if "injected into the sink" not in str(query.exception()):
                raise SystemExit(f"the query ended by itself: {query.exception()}")
            query = writer.start()
        time.sleep(0.02)
        if (base / "stop").exists():
            with suppress(StreamingQueryException):  # which is looked at above
                query.processAllAvailable()
                read = query.isActive
    query.stop()
    rest = drain(spark, spec, state, None, "windows", str(base / "checkpoint")).toArrow()
    written = spark.read.parquet(str(base / ("out" if sink == "files" else "out/*")))
    pq.write_table(written.toArrow(), base / "closed.parquet")
    pq.write_table(rest, base / "rest.parquet")
    (base / "done").touch()
    spark.stop()


def claimed(base: str, kinds: Sequence[str]) -> str:
    """Something of these kinds that is to be done now; only one who asks gets it."""
    for name in os.listdir(f"{base}/tokens"):
        kind = name.rpartition("-")[0]
        if kind in kinds:
            try:
                os.rename(f"{base}/tokens/{name}", f"{base}/claimed/{name}")
            except FileNotFoundError:  # another one was faster
                continue
            return kind
    return ""


def twice(base: Path) -> Callable[[Any, int], None]:
    """Two actions on each batch, which must see the same rows; writing it again does no harm."""
    out = base / "out"

    def put(frame: Any, batch: int) -> None:
        kind = claimed(str(base), IN_SINKS)
        if kind:
            frame.write.mode("overwrite").parquet(str(out / str(batch)))
        if kind == "sink that fails":
            raise RuntimeError("injected into the sink")
        if kind == "driver in its sink":
            os.kill(os.getpid(), signal.SIGKILL)
        if kind == "JVM in its sink":
            kill(jvm_of(os.getpid())[0])
        frame.write.mode("overwrite").parquet(str(out / str(batch)))
        first, second = (
            rows_of([f.toArrow()]) for f in (frame.sparkSession.read.parquet(str(out / str(batch))), frame)
        )
        if first != second:
            raise SystemExit(f"batch {batch}: two actions gave {len(first)} and {len(second)} rows that differ")

    return put


def provoked(stage: Callable[..., Any], base: str) -> Callable[..., Iterator[pa.RecordBatch]]:
    """The second stage; a task that finds something in ``base/tokens`` does it after it has published its state."""

    kinds = (*PROVOKED, "worker after its state", "executor after a state")

    def twin(job: Any, received: list[pa.RecordBatch], pauses: list[float]) -> None:
        """Another attempt at the same task, which nobody waits for."""
        if os.fork() == 0:
            try:
                signal.alarm(60)
                time.sleep(random.choice(pauses))
                list(stage(job, received))
            finally:
                os._exit(0)

    def wrapped(job: Any, batches: Any) -> Iterator[pa.RecordBatch]:
        received, kind = list(batches), "" if job.files is None else claimed(base, kinds)
        if kind in ("twin task", "paused twin"):
            twin(job, received, [0, 0, 0.01, 0.1, 1] if kind == "twin task" else [3, 8, 15])
        if kind in DISKS:
            return_to_it = os.fsync
            os.fsync = refusing(DISKS[kind])  # the last step before a version is there
        try:
            out = list(stage(job, received))
        finally:
            if kind in DISKS:
                os.fsync = return_to_it
        if kind == "failed task":
            raise RuntimeError("a failure was injected after the state was written")
        if kind == "worker after its state":
            os.kill(os.getpid(), signal.SIGKILL)
        if kind == "executor after a state":
            daemon = os.getppid()
            with open(f"/proc/{daemon}/stat") as file:
                os.kill(int(file.read().rpartition(")")[2].split()[1]), signal.SIGKILL)
        yield from out

    return wrapped


def refusing(number: int) -> Callable[[int], None]:
    def refused(descriptor: int) -> None:
        raise OSError(number, os.strerror(number))

    return refused


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
    """Executors, Python workers, or the daemons that workers are forked from."""
    members = family(driver)
    if kind == "executor":
        return [pid for pid, (_, command) in members.items() if "CoarseGrainedExecutorBackend" in command]
    daemons = {pid for pid, (_, command) in members.items() if "-m spark_warm_daemon" in command}
    return [pid for pid in daemons if (members[pid][0] in daemons) == (kind == "worker")]


def jvm_of(driver: int) -> list[int]:
    """The JVM of a driver, while it has one."""
    return [pid for pid, (_, command) in family(driver).items() if "SparkSubmit" in command]


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def back(log: Path, batch: int) -> None:
    """Nothing of batches after this one."""
    for entry in list(log.iterdir()):
        number = entry.name.strip(".").partition(".")[0]
        if number.isdigit() and int(number) > batch:
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()


def damaged(content: bytes, chance: random.Random) -> bytes:
    """With some bits changed."""
    data = bytearray(content)
    for _ in range(3):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return bytes(data)


class OnDisk:
    """State in a folder."""

    def __init__(self, folder: Path) -> None:
        self.uri, self.folder = str(folder), folder

    def versions(self, batch: int) -> dict[str, list[str]]:
        """The versions of a batch, by the place they are of."""
        found: dict[str, list[str]] = {}
        for path in (self.folder / "windows").glob(f"*/{PARTITIONS}/*/{batch:012}*.slices"):
            found.setdefault(path.parent.name, []).append(str(path))
        return found

    def damage(self, name: str, chance: random.Random) -> None:
        Path(name).write_bytes(damaged(Path(name).read_bytes(), chance))

    def close(self) -> None: ...


class OnStore:
    """State on an object store of this process."""

    def __init__(self) -> None:
        self.server = S3Server("team/state").__enter__()
        self.uri = self.server.uri

    def versions(self, batch: int) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for key in list(self.server.objects):
            *_, count, place, name = key.split("/")
            if count == str(PARTITIONS) and name.startswith(f"{batch:012}") and name.endswith(".slices"):
                found.setdefault(place, []).append(key)
        return found

    def damage(self, name: str, chance: random.Random) -> None:
        self.server.objects[name] = damaged(self.server.objects[name], chance)

    def close(self) -> None:
        self.server.__exit__(None, None, None)


class Chaos:
    def __init__(
        self, base: Path, sink: str, chance: random.Random, query: str, state: str, classes: str, executors: int
    ) -> None:
        self.base, self.sink, self.chance, self.query = base, sink, chance, query
        self.classes = classes  # an archive of those that a JVM begins with; it goes without where there is none
        self.master = f"local-cluster[{executors},{2 // executors},512]" if executors else "local[2, 1000]"
        self.state: Any = OnStore() if state == "s3" else OnDisk(base / "state")
        self.edition = 0  # versions of it that there were
        self.done: Counter[str] = Counter()
        self.batches = self.wanted = 0
        self.ahead = 0  # files that are no batches of their own
        self.machine = [0]  # the driver's processes
        self.log = (base / "driver.log").open("ab")
        for name in ("in", "tokens", "claimed"):
            (base / name).mkdir()
        self.upgrade()
        self.driver = self.begin()

    def upgrade(self) -> None:
        """Another version of the library, for processes that begin from now on. Its kernels are those of this one, so
        that they need not be compiled again for each copy."""
        self.edition += 1
        copy = self.base / f"edition-{self.edition}"
        for package in ("slicing", "spark_udfs"):
            shutil.copytree(ROOT / package, copy / package, ignore=shutil.ignore_patterns("__pycache__"))
        for inner in ROOT.glob("slicing/*/**/__init__.py"):
            compiled = inner.parent / "__pycache__"
            compiled.mkdir(exist_ok=True)
            (copy / compiled.relative_to(ROOT)).symlink_to(compiled)
        top = copy / "slicing" / "__init__.py"
        top.write_text(top.read_text() + f"\n__version__ += '.dev{self.edition}'\n")
        (self.base / "link").symlink_to(copy)
        (self.base / "link").rename(self.base / "edition")

    def begin(self) -> subprocess.Popen[bytes]:
        (self.base / "running").unlink(missing_ok=True)
        command = [sys.executable, __file__, "--drive", str(self.base), "--sink", self.sink, "--query", self.query]
        command += ["--state", self.state.uri]
        here, edition = str(Path(__file__).resolve().parent), str(self.base / "edition")
        known = os.pathsep.join([edition, here])
        local = {"SPARK_LOCAL_DIRS": str(self.base / "local"), "PYTHONPATH": known, "SLICING_UNDER_TEST": edition}
        local |= {"CHAOS_QUERY": self.query, "CHAOS_MASTER": self.master}
        local |= {"CHAOS_JAVA": f"{JAVA} -XX:SharedArchiveFile={self.classes}"}
        return subprocess.Popen(
            command, stdout=self.log, stderr=self.log, cwd=self.base, env=os.environ | local, start_new_session=True
        )

    def strike(self, kind: str) -> None:
        """Do one of a kind, at a random moment of a running query."""
        self.wait(lambda: (self.base / "running").exists() and self.commits() >= self.wanted, f"no query for {kind!r}")
        self.feed()
        if self.machine[-1] != self.driver.pid:
            self.machine = [*jvm_of(self.driver.pid), self.driver.pid]
        time.sleep(self.chance.choice([0, 0, 0.3, 1]) * self.chance.random())
        if kind in ("worker", "executor"):
            self.wait(lambda: victims(kind, self.driver.pid), f"no {kind} to kill")
            found = victims(kind, self.driver.pid)
            if not found:
                return self.strike(kind)
            kill(self.chance.choice(found))
        elif kind == "driver":
            self.kill_driver()
        elif kind == "driver before its commit":
            self.wait(self.published_only, "no batch was seen between state and commit", 0.001)
            batch = self.commits() + 1
            self.kill_driver()
            if self.commits() != batch - 1:  # it was faster; a kill like any other
                kind = "driver"
        elif kind in ("deleted commit", "taken back", "damaged version"):
            self.operate(kind)
        elif kind == "worker at a new version":
            self.upgrade()
            self.wait(lambda: victims("daemon", self.driver.pid), "no daemon to kill")
            for pid in victims("daemon", self.driver.pid)[:1]:  # the other executor goes on with the old version
                kill(pid)
        elif kind == "two drivers":
            self.two_drivers()
        elif kind == "S3 fault":
            self.state.server.faults[:] = self.chance.choices(FAULTS, k=self.chance.randint(1, 6))
            self.wait(lambda: not self.state.server.faults, f"no request for {kind!r}")
        else:
            name = f"{kind}-{self.done.total()}"
            (self.base / "tokens" / name).touch()
            self.wait(lambda: (self.base / "claimed" / name).exists(), f"no task for {kind!r}")
            if kind == "JVM in its sink":  # what Python does then is its own affair
                self.until(lambda: self.driver.poll() is not None, 5)
            if kind in ("driver in its sink", "JVM in its sink"):
                self.kill_driver()
        self.done[kind] += 1
        self.wanted = self.commits() + self.chance.choice([0, 0, 1, 2])
        return None

    def wait(self, what: Callable[[], Any], trouble: str, pause: float = 0.01) -> None:
        """Until it is so, with something to do for the query."""
        deadline, looked = time.monotonic() + PATIENCE, 0.0
        while not what():
            now = time.monotonic()
            if now - looked > 0.05:
                looked = now
                self.feed()
                if self.driver.poll() is not None and "in its sink" not in trouble:
                    raise SystemExit(f"the driver ended by itself:\n{self.tail()}")
            if now > deadline:
                raise SystemExit(f"{trouble} in {PATIENCE} s:\n{self.tail()}")
            time.sleep(pause)

    def until(self, what: Callable[[], Any], seconds: float) -> None:
        """Until it is so, or so long."""
        deadline = time.monotonic() + seconds
        while not what() and time.monotonic() < deadline:
            self.feed()
            time.sleep(0.05)

    def two_drivers(self) -> None:
        """A second driver runs the query until one of the two has seen the other, or some batches are done."""
        first, running = self.driver, self.base / "running"
        other = self.begin()
        self.until(lambda: running.exists() or first.poll() is not None or other.poll() is not None, PATIENCE)
        wanted = self.commits() + 3
        self.until(lambda: first.poll() is not None or other.poll() is not None or self.commits() >= wanted, 60)
        for pid in [*jvm_of(other.pid), other.pid]:
            kill(pid)
        other.wait()
        self.kill_driver()

    def operate(self, kind: str) -> None:
        """What is done to a query that was stopped, with at least four batches behind it."""
        self.wait(lambda: self.commits() > 3, f"no batches for {kind!r}")
        self.kill_driver(again=False)
        last, checkpoint = self.commits(), self.base / "checkpoint"
        if kind == "deleted commit":
            back(checkpoint / "commits", last - 1)
        else:
            kept = last - 1 if kind == "damaged version" else last - self.chance.randint(1, 3)
            self.ahead += last - kept + 1  # one batch reads again what came after it, as far as was planned
            if kind == "damaged version":
                for name in self.chance.choice(list(self.state.versions(last).values())):
                    self.state.damage(name, self.chance)
            back(checkpoint / "commits", kept)
            back(checkpoint / "offsets", kept)
            back(self.base / "out", kept)
        self.driver = self.begin()

    def feed(self) -> None:
        """Always some files that were not read yet."""
        while self.batches < self.commits() + 3 + self.ahead:
            deliver(self.base / "in", self.batches)
            self.batches += 1

    def commits(self) -> int:
        """The last batch that is complete."""
        log = self.base / "checkpoint" / "commits"
        return max((int(name) for name in os.listdir(log) if name.isdigit()), default=-1) if log.exists() else -1

    def published_only(self) -> bool:
        """Whether all partitions have published a batch that is not committed."""
        return len(self.state.versions(self.commits() + 1)) == PARTITIONS

    def kill_driver(self, again: bool = True) -> None:
        """Python and JVM; executors and workers outlive it for a while, and may go on."""
        for pid in self.machine:
            kill(pid)
        self.driver.wait()
        if again:
            self.driver = self.begin()

    def finish(self) -> tuple[list[tuple], list[tuple]]:
        (self.base / "stop").touch()
        if self.driver.wait(timeout=600) != 0 or not (self.base / "done").exists():
            raise SystemExit(f"the driver failed:\n{self.tail()}")
        found = [pq.read_table(self.base / name) for name in ("closed.parquet", "rest.parquet")]
        sides = [composition(self.base / "checkpoint", source) for source in range(1 + (self.query != "windows"))]
        for batches in sides:
            if sorted(number for files in batches for number in files) != list(range(self.batches)):
                raise SystemExit(f"{self.batches} files were delivered, and read were {batches}")
        if self.query == "windows":
            return rows_of(found), undisturbed(sides[0])
        return rows_of(found), undisturbed_join(SPECS[self.query], *sides)

    def tail(self) -> str:
        return (self.base / "driver.log").read_text(errors="replace")[-6000:]


def archive(folder: Path) -> str:
    """The classes that JVMs of Spark begin with, so that each of them loads and checks them in half the time."""
    path, part = folder / "classes.jsa", folder / "classes.part"
    command = [sys.executable, __file__, "--archive", str(part)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with suppress(FileNotFoundError):  # a JVM that keeps none
        part.rename(path)  # another process may look for it
    return str(path)


def write_archive(path: str) -> None:
    """A small query in a JVM that keeps what it has loaded."""
    from spark_udfs import window_aggregate
    from spark_udfs.local import session

    java = f"{JAVA} -XX:ArchiveClassesAtExit={path}"
    spark = session("local[1]", **{"spark.driver.extraJavaOptions": java, "spark.sql.shuffle.partitions": 1})
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as base:
        deliver(Path(base) / "in", 0)
        source = spark.readStream.schema(COLUMNS).parquet(f"{base}/in")
        writer = window_aggregate(source, SPEC, f"{base}/state").writeStream.trigger(availableNow=True)
        writer = (
            writer.option("checkpointLocation", f"{base}/checkpoint").format("parquet").option("path", f"{base}/out")
        )
        writer.start().awaitTermination()
        with suppress(Exception):  # it is gone before it answers
            spark._jvm.java.lang.System.exit(0)  # type: ignore[union-attr]


def run(
    kinds: Sequence[str],
    sink: str,
    seed: int,
    loud: bool = True,
    query: str = "windows",
    state: str = "local",
    classes: str = "none",
    executors: int = 2,
) -> str:
    """Do one of each of ``kinds``, in their order; what came of it, or an error. Executors have two cores in all;
    without any, tasks run in the driver's JVM."""
    with tempfile.TemporaryDirectory() as temporary:
        chaos = Chaos(Path(temporary), sink, random.Random(seed), query, state, classes, executors)
        try:
            for number, kind in enumerate(kinds):
                chaos.strike(kind)
                if loud and number % 10 == 9:
                    print(f"  {sink}: {number + 1} of {len(kinds)}, {chaos.batches} batches", flush=True)
            found, expected = chaos.finish()
        finally:
            for pid in [*family(chaos.driver.pid), chaos.driver.pid]:
                kill(pid)
            chaos.state.close()
    lost, twice = Counter(expected) - Counter(found), Counter(found) - Counter(expected)
    kills = sum(count for kind, count in chaos.done.items() if kind in KILLS)
    what = "windows" if query == "windows" else "rows"
    told = ", ".join(f"{count} {kind}" for kind, count in sorted(chaos.done.items()))
    result = f"{sink}: {kills} kills, {chaos.done.total() - kills} other injections ({told}) in "
    result += f"{chaos.batches} batches: {len(expected):,} {what}, {lost.total()} lost, {twice.total()} extra"
    if lost or twice:
        raise SystemExit(result)
    return result


def drawn(kills: int, seed: int, sink: str, state: str = "local") -> list[str]:
    """So many kills of any kind, each kind at least once, with something else before every second."""
    chance = random.Random(seed)
    kinds = [*KILLS, *chance.choices(list(KILLS), list(KILLS.values()), k=max(kills - len(KILLS), 0))][:kills]
    chance.shuffle(kinds)
    others = [kind for kind in (*PROVOKED, *BESIDE) if kind not in (OF_FOREACH if sink == "files" else OF_FILES)]
    if state == "s3":
        others = ["S3 fault"] * 3 + [kind for kind in others if kind not in DISKS]
    for number, at in enumerate(range(0, len(kinds) * 3 // 2, 3)):
        kinds.insert(at, others[number % len(others)])
    return kinds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200, help="in all, half of them for each sink")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sink", choices=SINKS)
    parser.add_argument("--query", choices=QUERIES, default=QUERIES[0])
    parser.add_argument("--state", default=STATES[0], help="local or s3: where state is kept")
    parser.add_argument("--drive", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--archive", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.archive is not None:
        return write_archive(args.archive)
    if args.drive is not None:
        return drive(args.drive, args.sink, args.query, args.state)
    sinks = [args.sink] if args.sink else SINKS
    with tempfile.TemporaryDirectory() as folder:
        known = archive(Path(folder))
        for number, sink in enumerate(sinks):
            kills = args.kills // len(sinks) + (number < args.kills % len(sinks))
            kinds = drawn(kills, args.seed + number, sink, args.state)
            print(run(kinds, sink, args.seed + number, True, args.query, args.state, known), flush=True)
    return None


if __name__ == "__main__":
    main()
