"""Features on Spark: the worker functions driven by hand, then a backfill and a stream on a real Spark."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from quick_spark import WARM

import slicing as sl

pytest.importorskip("pyspark")

from pyspark.sql import SparkSession

from spark_udfs import drain, jobs, joins, stages, window_features
from spark_udfs.features import FeatureJob
from spark_udfs.joins import answer, collect_left, collect_right, with_schemas
from spark_udfs.local import session
from spark_udfs.policy import Policy
from spark_udfs.progress import Step
from spark_udfs.versions import Files

SECOND = 1_000_000
START = 1_790_000_000 * SECOND
CASES = int(os.environ.get("SLICING_CASES", "4"))
LABELS = pa.schema([("asked", pa.timestamp("us", "UTC")), ("k", pa.int64()), ("id", pa.int64())])
EVENTS = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int32()), ("v", pa.int64()), ("text", pa.string())])
AGGS = {
    "n": sl.count(),
    "total": sl.sum("v"),
    "few": sl.sum(sl.col("v") + 1).where(sl.col("v") > 50),
    "p50": sl.median("v"),
}


def spec(**more: Any) -> sl.FeatureSpec:
    ranges = {"2s": "2s", "before": ("5s", "1s"), "after": ("1s", "-2s")}
    given: dict[str, Any] = {"on": "k", "time": ("asked", "ts"), "ranges": ranges, "aggs": AGGS}
    return sl.FeatureSpec(**given | {"watermark": (sl.bounded("4s"), sl.bounded("7s"))} | more)


def rows(schema: pa.Schema, batch: int, size: int = 80) -> pa.Table:
    """Ten seconds of one side, one in eight late by up to half a minute; no two labels are alike."""
    rng = np.random.default_rng([batch, len(schema)])
    behind = np.where(rng.random(size) < 0.12, rng.integers(0, 3000, size), rng.integers(0, 400, size))
    ts = (rng.integers(batch * 1000, (batch + 1) * 1000, size) - behind) * 10_000 + START
    columns = [pa.array(ts).cast(schema[0].type), pa.array(rng.integers(0, 5, size)).cast(schema[1].type)]
    numbers = np.arange(size) + 1000 * batch if schema is LABELS else rng.integers(0, 99, size)
    columns.append(pa.array(numbers))
    return pa.table(columns + [pa.array(["x"] * size)] * (len(schema) - 3), schema=schema)


def plain(*tables: pa.Table) -> list[str]:
    return sorted(repr(tuple(row.items())) for table in tables for row in table.to_pylist())


def job(path: Path | None, asked: sl.FeatureSpec, partitions: int, spread: str | None, **more: Any) -> FeatureJob:
    files = None
    if path is not None:
        files = Files(str(path), "features", partitions, asked.fingerprint(), spread=spread)
    return FeatureJob(with_schemas(asked, (LABELS, EVENTS)), partitions, files, spread=spread, **more)


def collected(job: FeatureJob, batch: int, labels: pa.Table, events: pa.Table) -> list[pa.RecordBatch]:
    """What two readers a side send."""
    sent: list[pa.RecordBatch] = []
    for collect, table in ((collect_left, labels), (collect_right, events)):
        for reader in range(2):
            mine = table.take(pa.array(range(reader, table.num_rows, 2), pa.int64())).combine_chunks()
            sent += collect(job, iter(mine.to_batches(max_chunksize=50)), Step("q", batch, reader))
    random.Random(batch).shuffle(sent)
    return sent


VARIANTS: list[dict[str, Any]] = [{}, {"closed": "right"}, {"ranges": {"ever": None, "1s": "1s"}}, {"delay": "1s"}]
VARIANTS += [{"tail": "1s"}, {"idle": "3s"}, {"ranges": {"3s": "3s"}, "wait": False}]


@pytest.mark.parametrize("case", range(CASES))
def test_a_batch_is_a_push_whatever_the_places_and_readers(case: int, tmp_path: Path) -> None:
    asked = spec(**VARIANTS[case % len(VARIANTS)])
    spread = [None, "2s"][case // 2 % 2] if "ever" not in asked.ranges else None
    query = job(tmp_path / "state", asked, 3, spread, late_path=str(tmp_path / "late"))
    operator = sl.FeatureOperator(with_schemas(asked, (LABELS, EVENTS)))
    late: dict[str, list[pa.Table]] = {"labels": [], "events": []}
    for batch in range(4):
        sides = rows(LABELS, batch), rows(EVENTS, batch, 0 if batch == 2 else 120)
        out, sent, found = operator.push(*sides), collected(query, batch, *sides), []
        for p in range(3):
            arrived = [b.filter(pc.equal(b.column(0), p)) for b in sent]
            found += stages.merge(query, arrived, Step("q", batch, p))
        answers = pa.Table.from_batches(found)
        stats = answers[jobs.STATS].drop_null().to_pylist()
        assert plain(answers.filter(answers[jobs.STATS].is_null()).drop_columns([jobs.STATS])) == plain(out.rows)
        for name in ("labels", "events", "answered", "late_labels", "late_events", "waiting"):
            assert sum(s[name] for s in stats) == out.stats[name]
        late["labels"].append(out.late_labels)
        late["events"].append(out.late_events)
    for side, tables in late.items():
        assert plain(*map(pq.read_table, (tmp_path / "late" / side).glob("*.parquet"))) == plain(*tables) != []
    numbers = pa.RecordBatch.from_arrays([pa.array(range(3))], names=["id"])
    rest = pa.Table.from_batches(stages.drain(query, [numbers], 3, "q"), query.rows_schema())
    assert plain(rest) == plain(operator.flush().rows)


@pytest.mark.parametrize("spread", [None, "3s"])
def test_a_backfill_holds_one_piece_at_a_time(spread: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers send what they have more often than once; a piece has all rows of its keys, or spans of time."""
    labels, events = (pa.concat_tables([rows(schema, batch, 300) for batch in range(4)]) for schema in (LABELS, EVENTS))
    asked = replace(spec(), watermark=(sl.manual(), sl.manual()))
    query = job(None, asked, 2, spread, pieces=8, policy=Policy(rows_at_once=50, bytes_at_once=4000))
    sent = pa.Table.from_batches(collected(query, 0, labels, events)).sort_by([("place", "ascending")])
    assert sent.num_rows > 40
    largest: list[int] = []
    once = joins.answer_of
    monkeypatch.setattr(joins, "answer_of", lambda s, blobs: largest.append(sum(map(len, blobs))) or once(s, blobs))
    found = []
    for place in range(2):
        mine = sent.filter(pc.equal(sent["place"], place)).sort_by("piece")
        found += answer(query, mine.to_batches(max_chunksize=3))
    assert plain(pa.Table.from_batches(found)) == plain(sl.features(labels, events, spec()))
    total = sum(len(blob) for blob in sent["slices"].to_pylist())
    assert len(largest) > 4 and max(largest) < total / 2  # five keys; with spans of time there are more pieces


BACKFILL = """
import resource

import numpy as np
import pyarrow as pa

import slicing as sl
from slicing.joins.exchange import Reader
from spark_udfs.features import FeatureJob
from spark_udfs.joins import PIECES, answer, with_schemas

LABELS = pa.schema([("t", pa.int64()), ("k", pa.int64())])
EVENTS = pa.schema([("t", pa.int64()), ("k", pa.int64()), ("v", pa.float64())])
spec = sl.FeatureSpec("k", "t", {"9": 9, "ever": None}, {"n": sl.count(), "v": sl.sum("v")}, watermark=sl.manual())
job = FeatureJob(with_schemas(spec, (LABELS, EVENTS)), 1)


def memory(what):
    # MB; ru_maxrss would begin with that of the process that began this one
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(what)) // 1024


def sent(pieces, rows=300_000):
    # what Spark gives a worker: the rows of one piece after the other
    for number in range(12):
        for side, schema, size in ((0, LABELS, rows // 50), (1, EVENTS, rows)):
            reader, times = Reader(job.spec, side, 1), np.arange(size)[::-1]
            columns = [times, times % 1000, times.astype(float)][: len(schema)]
            reader.push(pa.table(list(map(pa.array, columns)), schema=schema))
            yield pa.record_batch([pa.array([0], pa.int32()), pa.array([number % pieces], pa.int32()),
                                   pa.array(reader.packed(), pa.binary())], schema=PIECES)


def answered(pieces, rows=300_000):
    count = sum(batch.num_rows for batch in answer(job, sent(pieces, rows)))
    assert count == 12 * (rows // 50)
    return memory("VmHWM")


"""
MEASURED = "print(answered(12, 1000), answered(12), answered(1))"
LIMITED = """
answered(12, 1000), answered(12)
resource.setrlimit(resource.RLIMIT_AS, (memory("VmSize") + 70 << 20, resource.RLIM_INFINITY))
answered(12)
try:
    answered(1)
except MemoryError:
    print("refused")
"""


def told(code: str, **environment: str) -> list[str]:
    """What a new process prints."""
    given = os.environ | environment | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", BACKFILL + code], capture_output=True, text=True, env=given)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_a_backfill_needs_the_memory_of_one_piece() -> None:
    """Twelve pieces of 7 MB, one after the other, and as one. (Arrow's pool gives pages back at once.)"""
    before, in_pieces, as_one = map(int, told(MEASURED, MIMALLOC_PURGE_DELAY="0"))
    assert in_pieces - before < 60 < 120 < as_one - before


def test_a_backfill_is_larger_than_what_a_worker_may_have() -> None:
    """With 70 MB left to it, which is how ``spark.executor.pyspark.memory`` sets limits, a worker has room for each of
    the pieces, and none for the 88 MB of all of them. (Other memory pools reserve room in advance.)"""
    assert told(LIMITED, ARROW_DEFAULT_MEMORY_POOL="system", MALLOC_ARENA_MAX="1") == ["refused"]


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    running = session("local[2,3]", **WARM, **{"spark.sql.timestampType": "TIMESTAMP_LTZ"})
    yield running
    running.stop()


def test_a_backfill_and_a_stream_are_the_library(spark: SparkSession, tmp_path: Path) -> None:
    labels, events = ([rows(schema, batch) for batch in range(3)] for schema in (LABELS, EVENTS))
    frames = (spark.createDataFrame(pa.concat_tables(tables)) for tables in (labels, events))
    answers = window_features(*frames, spec(), partitions=2, pieces=3, spread="4s").toArrow()
    expected = sl.features(pa.concat_tables(labels), pa.concat_tables(events), spec())
    assert answers.column_names == expected.column_names
    assert plain(answers) == plain(expected.cast(answers.schema))
    sources = []
    shapes = "asked timestamp, k long, id long", "ts timestamp, k int, v long, text string"
    for name, tables, columns in zip("le", (labels, events), shapes, strict=True):
        (tmp_path / name).mkdir()
        for number, table in enumerate(tables):
            pq.write_table(table, tmp_path / name / f"{number}.parquet")
            os.utime(tmp_path / name / f"{number}.parquet", (10**9 + number, 10**9 + number))
        reader = spark.readStream.schema(columns).option("maxFilesPerTrigger", 1)
        sources.append(reader.parquet(str(tmp_path / name)))
    answered = window_features(*sources, spec(), str(tmp_path / "state"), 2)
    writer = answered.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.option("path", str(tmp_path / "out")).trigger(availableNow=True).start()
    query.awaitTermination()
    operator = sl.FeatureOperator(spec())
    pushed = [operator.push(*sides).rows for sides in zip(labels, events, strict=True)]
    assert plain(spark.read.parquet(str(tmp_path / "out")).toArrow()) == plain(*pushed) != []
    rest = drain(spark, spec(), str(tmp_path / "state"), checkpoint=str(tmp_path / "checkpoint")).toArrow()
    assert plain(rest) == plain(operator.flush().rows) != []
    with pytest.raises(TypeError, match="takes two DataFrames and a"):
        window_features(*sources, "k")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="every row of events would go to about"):
        window_features(*sources, spec(ranges={"ever": None}), str(tmp_path / "s"), spread="1h")
