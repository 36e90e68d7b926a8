"""What a stream on Spark takes: predicted from keys, rate, windows, readers and places, and measured by hand.

A *load* says what comes in and how it is spread. ``predict`` computes CPU, bytes shuffled, state and the time of a
batch from costs that were measured; ``measured`` runs the functions of the Python workers on such a load without Spark,
one after the other. docs/sizing.md has points where both were compared.
"""

from __future__ import annotations

import math
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import slicing as sl

MINUTE = 60_000_000
BEGIN = 1_700_000_000_000_000 // MINUTE * MINUTE
LARGE, TURNS, SHARE = 16 << 20, 16, 0.25  # as spark_udfs.policy: when a place writes all of its cells
LANES = 48  # count, sum and maximum of floats


@dataclass(frozen=True)
class Load:
    """A query with one sliding window over so many ``slices`` of ``step`` seconds, one begins with each of them.

    Rows are of all keys alike. A tumbling window has one slice; what the watermark waits adds to them.
    """

    keys: float
    rate: float  # rows a second
    slices: int
    readers: int
    places: int
    seconds: float = 60  # of a batch
    step: float = 60
    held: float = 1.0  # the share of places whose worker has their state
    lanes: int = LANES  # bytes of partials a cell: sl.explain tells

    @property
    def rows(self) -> float:
        """Of a batch."""
        return self.rate * self.seconds

    def keys_in(self, seconds: float) -> float:
        """How many keys have rows in so many seconds."""
        return self.keys * -math.expm1(-self.rate * seconds / self.keys)

    @property
    def partials(self) -> float:
        """Of a batch, sent by all readers: each has a part of the rows, and one for each key and slice of its own."""
        slices = max(self.seconds / self.step, 1.0)
        return self.readers * slices * replace(self, rate=self.rate / self.readers).keys_in(self.seconds / slices)

    @property
    def cells(self) -> float:
        """That are live after a batch, in the mean: a key and slice with rows each; the last slice may be filling."""
        full, x = self.keys_in(self.step), self.rate * self.step / self.keys
        filling = full if self.seconds >= self.step else self.keys * (1 + math.expm1(-x) / x)
        return (self.slices - 1) * full + filling

    @property
    def live_keys(self) -> float:
        return self.keys_in(self.slices * self.step)

    @property
    def windows(self) -> float:
        """Given by a batch, in the mean."""
        return self.live_keys * self.seconds / self.step


@dataclass(frozen=True)
class Costs:
    """Microseconds of CPU, and bytes, on the machine that docs/sizing.md names; ``at`` gives those of another one."""

    reader: float = 1000.0  # a task
    row: float = 0.012
    partial_sent: float = 0.18
    pair_sent: float = 6.0
    place: float = 3500.0  # a task
    pair_read: float = 12.0
    partial_merged: float = 0.2
    window: float = 0.15
    cell_answered: float = 0.02  # where windows end: each looks at its cells
    cell_restored: float = 0.03
    key_restored: float = 0.04
    cell_written: float = 0.06
    beyond: float = 2.5  # times the last four, in a place whose state is beyond what caches hold
    partial_bytes: float = 33.0  # beside its lanes
    pair_bytes: float = 60.0
    reader_bytes: float = 400.0
    cell_bytes: float = 40.0  # of a file: count and two random floats
    key_bytes: float = 5.0
    cell_memory: float = 24.0  # beside its lanes
    key_memory: float = 60.0
    spark_row: float = 0.56  # from a file through the JVM to Python
    file_row: float = 0.14  # where workers read the files themselves
    spark_batch: float = 130_000.0  # on the clock: offsets, plans, commits
    spark_task: float = 15_000.0

    def at(self, speed: float) -> Costs:
        """The costs of Python's tasks on cores that are ``speed`` times as fast."""
        return replace(self, **{name: getattr(self, name) / speed for name in TASKS})


TASKS = (
    *("reader", "row", "partial_sent", "pair_sent", "place", "pair_read", "partial_merged", "window"),
    *("cell_answered", "cell_restored", "key_restored", "cell_written"),
)


@dataclass(frozen=True)
class Sizes:
    """What a batch takes: seconds of CPU of readers and places in Python, bytes sent, and of a version's files."""

    readers: float
    places: float
    shuffled: float
    state: float
    windows: float

    @property
    def cpu(self) -> float:
        return self.readers + self.places


def large(load: Load, costs: Costs) -> bool:
    """Whether a place's state is not written with every batch."""
    return (costs.cell_memory + load.lanes) * load.cells / load.places >= LARGE


def written_whole(load: Load, costs: Costs) -> float:
    """The share of batches in which a place writes all of its cells."""
    if not large(load, costs):
        return 1.0
    unpacked = (costs.cell_memory + load.lanes) * load.cells
    brought = (costs.partial_bytes + load.lanes) * load.partials
    return min(1.0, max(1 / TURNS, brought / (SHARE * unpacked)))


def snapshot(load: Load, costs: Costs) -> float:
    """Bytes of all cells in files."""
    return costs.cell_bytes * load.cells + costs.key_bytes * load.live_keys


def predict(load: Load, costs: Costs | None = None) -> Sizes:
    """What a batch takes, in the mean."""
    c = costs or Costs()
    pairs, partials, whole = load.readers * load.places, load.partials, written_whole(load, c)
    readers = c.reader * load.readers + c.row * load.rows + c.partial_sent * partials + c.pair_sent * pairs
    again = (1 / whole - 1) / 2 * c.partial_merged * partials  # changes since the snapshot
    cold = 1.0 if whole == 1.0 else 1.0 - load.held
    of_cells = load.cells * (c.cell_written * whole + c.cell_restored * cold) + load.live_keys * c.key_restored * cold
    if load.slices > 1:
        of_cells += load.cells * c.cell_answered * min(load.seconds / load.step, 1.0)
    places = c.place * load.places + c.pair_read * pairs + c.partial_merged * partials + c.window * load.windows
    places += cold * again + of_cells * (c.beyond if large(load, c) else 1.0)
    shuffled = (c.partial_bytes + load.lanes) * partials + c.pair_bytes * pairs + c.reader_bytes * load.readers
    state = snapshot(load, c) + (1 / whole - 1) / 2 * shuffled
    return Sizes(readers / 1e6, places / 1e6, shuffled, state, load.windows)


def kept(load: Load, versions: int = 100) -> float:
    """Bytes of all files that ``keep_versions`` keeps: snapshots, and what batches brought between them."""
    c = Costs()
    whole, sizes = written_whole(load, c), predict(load, c)
    return versions * (whole * snapshot(load, c) + (1 - whole) * sizes.shuffled)


def memory(load: Load, costs: Costs | None = None) -> float:
    """Bytes that the states of all places take in the workers that hold them, at most."""
    c = costs or Costs()
    return (c.cell_memory + load.lanes) * load.cells + c.key_memory * load.live_keys


def batch_seconds(load: Load, cores: int, files: bool = False, costs: Costs | None = None) -> float:
    """How long a batch takes on so many cores: what Spark takes for any, tasks in turns, and the CPU of all."""
    c, sizes = costs or Costs(), predict(load, costs)
    through = (c.file_row if files else c.spark_row) * load.rows
    tasks = c.spark_task * (load.readers + load.places)
    return (c.spark_batch + (tasks + through) / cores) / 1e6 + sizes.cpu / min(cores, load.readers + load.places)


# --- measured ---------------------------------------------------------------------------------------------------------


SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int64()), ("v", pa.float64())])


def spec_of(load: Load) -> sl.Spec:
    window = sl.sliding(f"{load.slices * load.step:g}s", every=f"{load.step:g}s")
    aggs = {"n": sl.count(), "total": sl.sum("v"), "most": sl.max("v")}
    return sl.Spec("ts", {"w": window}, aggs, by=["k"], watermark=sl.bounded("0s"))


class ByHand:
    """A load's query, its tasks run here one after the other."""

    def __init__(self, load: Load, folder: str) -> None:
        from spark_udfs.jobs import Job
        from spark_udfs.versions import Files

        self.load, self.rng, self.batch, self.now = load, np.random.default_rng(1), 0, BEGIN
        spec = spec_of(load)
        files = Files(folder, "windows", load.places, spec.fingerprint(), hold=1 << 34)
        self.job = Job(spec, SCHEMA, load.places, files)
        for _ in range(load.slices):
            self.run(load.step)

    def rows(self, seconds: float) -> pa.RecordBatch:
        """The rows that come in so many seconds."""
        size, ticks = int(self.load.rate * seconds), int(seconds * 1e6)
        keys = self.rng.integers(0, int(self.load.keys), size) * 7919
        ts = np.sort(self.now + self.rng.integers(0, ticks, size))
        self.now += ticks
        columns = [pa.array(ts).cast(SCHEMA[0].type), pa.array(keys), pa.array(self.rng.random(size))]
        return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)

    def run(self, seconds: float) -> Sizes:
        """A batch, and what it took."""
        from spark_udfs import jobs, stages
        from spark_udfs.progress import Step

        rows, readers = self.rows(seconds), self.load.readers
        bounds = [rows.num_rows * i // readers for i in range(readers + 1)]
        parts = [rows.slice(a, b - a) for a, b in pairwise(bounds)]
        sent: list[pa.RecordBatch] = []
        begun = time.process_time()
        for reader, part in enumerate(parts):
            sent += stages.collect(self.job, iter([part]), Step("q", self.batch, reader))
        read, places, state, windows = time.process_time() - begun, 0.0, 0, 0
        for place in range(self.load.places):
            arrived = [batch.filter(pc.equal(batch.column(0), place)) for batch in sent]
            begun = time.process_time()
            given = list(stages.merge(self.job, arrived, Step("q", self.batch, place)))
            places += time.process_time() - begun
            state += given[-1].column(jobs.STATS)[-1].as_py()["state_bytes"]
            windows += sum(batch.num_rows for batch in given) - 1
        self.batch += 1
        return Sizes(read, places, sum(batch.column(1).nbytes for batch in sent), state, windows)


def measured(load: Load, batches: int = TURNS) -> Sizes:
    """Means over some batches; before each of them workers have all states, or none (``held=0``)."""
    from spark_udfs.state import HELD

    HELD.clear()
    found = []
    with tempfile.TemporaryDirectory() as folder:
        query = ByHand(load, folder)
        for _ in range(batches):
            if not load.held:
                HELD.clear()
            found.append(query.run(load.seconds))
    return Sizes(*(float(np.mean([getattr(one, field.name) for one in found])) for field in fields(Sizes)))


def described(load: Load) -> str:
    held = "held" if load.held else "cold"
    return (
        f"{load.keys:.0e} keys, {load.slices} slices, {load.rate:.0e} rows/s, {load.seconds:g} s, "
        f"{load.readers} x {load.places}, {held}"
    )


def speed_of(found: Sequence[tuple[Load, Sizes]]) -> float:
    """How many times as fast a core of this machine is as one of the machine of the costs: the median of some loads."""
    return statistics.median(predict(load).cpu / was.cpu for load, was in found)


def compared(load: Load, was: Sizes, speed: float) -> str:
    """What was measured, and in brackets the prediction as a share of it."""
    said = predict(load, Costs().at(speed))
    figures = (("cpu", 1e3, "ms"), ("shuffled", 1e-6, "MB"), ("state", 1e-6, "MB"))
    cells = [f"{getattr(was, n) * f:.3g} {u} ({getattr(said, n) / getattr(was, n):.2f})" for n, f, u in figures]
    return f"{described(load):<66}" + "".join(f"{cell:>18}" for cell in cells)


# fixed before they were measured: a small state, many pairs, more of them, short batches of many rows held and cold,
# many cold cells
CHECKED = (
    Load(2e4, 2000, 10, 4, 4),
    Load(1e4, 1000, 10, 16, 16),
    Load(1e4, 1000, 10, 64, 64),
    Load(1e5, 20_000, 1, 2, 1, seconds=4),
    Load(1e5, 20_000, 1, 2, 1, seconds=4, held=0.0),
    Load(3e5, 5000, 10, 2, 2, held=0.0),
)

# seconds of a batch that docs/spark.md tells, of 2 cores: the load, whether workers read the files
_OF_TABLE = Load(1000, 50_000, 1, 2, 2, seconds=20, step=10, lanes=40)
_SMALL = Load(1000, 500, 1, 1, 4, seconds=2, step=10, lanes=40)
TIMED = (
    (_OF_TABLE, False, 0.476),
    (_OF_TABLE, True, 0.314),
    (replace(_OF_TABLE, slices=10, step=1), False, 0.496),
    (replace(_OF_TABLE, slices=10, step=1), True, 0.280),
    (replace(_OF_TABLE, slices=60, step=1), False, 0.469),
    (replace(_OF_TABLE, slices=60, step=1), True, 0.263),
    (_SMALL, False, 0.164),
    (_SMALL, True, 0.187),
)
