"""Joins on Spark: the worker functions driven by hand, then on a real Spark against its own stream-stream joins."""

from __future__ import annotations

import os
import random
from collections import Counter
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
from slicing.joins import exchange

pytest.importorskip("pyspark")

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from spark_udfs import (
    StateError,
    change,
    drain,
    jobs,
    moving,
    peek,
    read_files,
    rescale,
    stages,
    state,
    window_join,
)
from spark_udfs.checkpoint import Checkpoint
from spark_udfs.joins import JoinJob, collect_left, collect_right, with_schemas
from spark_udfs.local import session
from spark_udfs.log import line
from spark_udfs.policy import Policy
from spark_udfs.progress import Step
from spark_udfs.state import Place
from spark_udfs.versions import Files

SECOND = 1_000_000
START = 1_790_000_000 * SECOND  # microseconds since 1970
CASES = int(os.environ.get("SLICING_CASES", "6"))
LEFT = pa.schema([("shown", pa.timestamp("us", "UTC")), ("k", pa.int64()), ("a", pa.int64())])
RIGHT = pa.schema([("clicked", pa.timestamp("us", "UTC")), ("k", pa.int64()), ("b", pa.string())])


def spec(**more: Any) -> sl.JoinSpec:
    given: dict[str, Any] = {"on": ["k"], "time": ("shown", "clicked"), "within": ("2s", "3s")}
    return sl.JoinSpec(**given | {"watermark": (sl.bounded("4s"), sl.bounded("7s"))} | more)


def rows(schema: pa.Schema, batch: int, size: int = 60) -> pa.Table:
    """Ten seconds of one side, out of order by up to 4 s, one in eight by up to half a minute; 10 ms and a bit."""
    rng = np.random.default_rng([batch, "shown" in schema.names])
    behind = np.where(rng.random(size) < 0.12, rng.integers(0, 3000, size), rng.integers(0, 400, size))
    ts = (rng.integers(batch * 1000, (batch + 1) * 1000, size) - behind) * 10_000 + START
    key = pa.array(rng.integers(0, 5, size), mask=rng.random(size) < 0.06)
    value = pa.array(rng.integers(0, 1000, size))
    columns = [pa.array(ts).cast(schema[0].type), key, value if "a" in schema.names else value.cast(pa.string())]
    return pa.table(columns, schema=schema)


def plain(*tables: pa.Table) -> list[str]:
    return sorted(repr(tuple(row.items())) for table in tables for row in table.to_pylist())


# --- by hand ----------------------------------------------------------------------------------------------------------


def job(path: Path, asked: sl.JoinSpec, partitions: int = 3, spread: str | None = None, **more: Any) -> JoinJob:
    files = Files(str(path), "joined", partitions, asked.fingerprint(), spread=spread)
    return JoinJob(with_schemas(asked, (LEFT, RIGHT)), partitions, files, spread=spread, **more)


def run(job: JoinJob, batch: int, left: pa.Table, right: pa.Table, query: str = "q") -> pa.Table:
    """One micro-batch: what Spark's tasks do, two readers a side, one after the other. Rows and accounting."""
    sent: list[pa.RecordBatch] = []
    for collect, table in ((collect_left, left), (collect_right, right)):
        for reader in range(2):
            mine = table.take(pa.array(range(reader, table.num_rows, 2), pa.int64())).combine_chunks().to_batches()
            sent += collect(job, iter(mine), Step(query, batch, reader))
    random.Random(batch).shuffle(sent)
    out = []
    for p in range(job.partitions):
        arrived = [b.filter(pc.equal(b.column(0), p)) for b in sent]
        out += stages.merge(job, arrived, Step(query, batch, p))
    return pa.Table.from_batches(out)


def found(table: pa.Table) -> pa.Table:
    return table.filter(table[jobs.STATS].is_null()).drop_columns([jobs.STATS])


def told(table: pa.Table) -> dict[str, int]:
    stats = table[jobs.STATS].drop_null().to_pylist()
    return {n: sum(s[n] for s in stats) for n in ("left", "right", "joined", "late_left", "late_right", "null_time")}


def rest(job: JoinJob, batch: int) -> pa.Table:
    numbers = pa.RecordBatch.from_arrays([pa.array(range(job.partitions))], names=["id"])
    return pa.Table.from_batches(stages.drain(job, [numbers], batch, "q"), job.rows_schema())


KINDS = [{"how": how} for how in ("inner", "left", "right", "full", "semi", "anti")]
KINDS += [{"how": "left", "match": "last"}, {"match": "nearest"}, {"how": "left", "within": sl.tumbling("5s")}]
KINDS += [{"how": "full", "progress": "least"}, {"idle": "3s"}, {"nulls_equal": True}, {"closed": "none"}]
KINDS += [{"how": "left", "where": pc.field("a") > 300}, {"on": []}]


@pytest.mark.parametrize("case", range(CASES))
def test_a_batch_is_a_push_whatever_the_places_and_readers(case: int, tmp_path: Path) -> None:
    """Rows, late rows and accounting of every batch; also with keys spread, after a rescale, and written as changes."""
    chance = random.Random(case)
    more = KINDS[case % len(KINDS)] if case < len(KINDS) else chance.choice(KINDS)
    spread = chance.choice([None, "2s", "30s"]) if more.get("how") not in ("right", "full") else None
    asked = spec(**more)
    keyed = bool(asked.on) or spread is not None
    query = job(tmp_path / "state", asked, 3 if keyed else 1, spread, late_path=str(tmp_path / "late"))
    operator = sl.JoinOperator(with_schemas(asked, (LEFT, RIGHT)))
    late: dict[str, list[pa.Table]] = {"left": [], "right": []}
    for batch in range(5):
        sides = rows(LEFT, batch), rows(RIGHT, batch, 0 if batch == 2 else 60)
        out, answer = operator.push(*sides), run(query, batch, *sides)
        assert plain(found(answer)) == plain(out.rows)
        assert told(answer) == {name: out.stats[name] for name in told(answer)}
        late["left"].append(out.late_left)
        late["right"].append(out.late_right)
        if batch == 1 and spread is None and keyed:
            query = rescaled(query, batch, to=2)
    for side, tables in late.items():
        files = sorted((tmp_path / "late" / side).glob("*.parquet"))
        assert plain(*map(pq.read_table, files)) == plain(*tables)
        assert sum(table.num_rows for table in tables) > 0
    assert plain(rest(query, 4)) == plain(operator.flush().rows)


def rescaled(query: JoinJob, batch: int, to: int) -> JoinJob:
    """As Spark's tasks do it."""
    assert query.files is not None
    old, new = query.files, replace(query.files, partitions=to)
    at = Checkpoint("q", batch, batch)
    numbers = pa.RecordBatch.from_arrays([pa.array(range(old.partitions))], names=["id"])
    sent = list(moving.pieces(query.spec, old, at, to, [numbers]))
    for target in range(to):
        answers = moving.put_together(
            query.spec, query.files, new, at, [b for b in sent if b.column(0)[0].as_py() == target]
        )
        assert len(list(answers)) == 1
    return replace(query, partitions=to, files=new)


@pytest.mark.parametrize("changes", [True, False])
def test_a_repeated_batch_writes_the_same_bytes(changes: bool, tmp_path: Path) -> None:
    """Where versions are written as changes; and as snapshots, then also of rows that come in another order."""
    query = job(tmp_path, spec(how="left"), policy=Policy(large=1, share=1e9) if changes else Policy())
    answers = []
    for again in range(2):
        for batch in range(4):
            sides = [rows(schema, batch) for schema in (LEFT, RIGHT)]
            if again and not changes:
                order = pa.array(np.random.default_rng(batch).permutation(60))
                sides = [table.take(order) for table in sides]
            state.HELD.clear()
            answers.append(plain(found(run(query, batch, *sides))))
    assert answers[:4] == answers[4:]
    assert len(list(tmp_path.rglob("*.slices"))) == 12  # a version a batch and place


def test_late_path_may_come_and_go(tmp_path: Path) -> None:
    """Late rows are written with columns that the query itself does not keep; also where versions are changes."""
    asked, note = spec(how="semi"), pa.field("note", pa.string())
    quiet = job(tmp_path / "state", asked, policy=Policy(large=1, share=1e9))
    quiet = replace(quiet, spec=with_schemas(asked, (LEFT, pa.schema(list(RIGHT)[:2]))))
    telling = replace(quiet, spec=with_schemas(asked, (LEFT, RIGHT.append(note))), late_path=str(tmp_path / "late"))
    operator, late = sl.JoinOperator(asked), []
    for batch in range(8):
        query = telling if batch in (2, 3, 6, 7) else quiet
        left, right = rows(LEFT, batch), rows(RIGHT, batch)
        right = right.append_column(note, pa.array([f"{batch} {row}" for row in range(60)]))
        state.HELD.clear()
        answer = run(query, batch, left, right.select(query.spec.schemas[1].names))
        out = operator.push(left, right)
        assert plain(found(answer)) == plain(out.rows)
        late += [out.late_right] if query is telling else []
    assert plain(*map(pq.read_table, (tmp_path / "late" / "right").glob("*.parquet"))) == plain(*late) != []
    assert plain(rest(telling, 7)) == plain(operator.flush().rows)


def test_native_progress_is_one_batch_behind(tmp_path: Path) -> None:
    """Rows of batch b by the watermarks of b - 1, which the rows before it gave; b lets go what those of b reach."""
    query = job(tmp_path, spec(how="left", progress="least"), 1, prompt=False)
    operator = sl.JoinOperator(with_schemas(spec(how="left", progress="least", watermark=sl.manual()), (LEFT, RIGHT)))
    latest: list[Any] = []
    for batch in range(5):
        sides = rows(LEFT, batch), rows(RIGHT, batch)
        answer = found(run(query, batch, *sides))
        out = [operator.push(*sides).rows]
        if latest:
            marks = (time - np.timedelta64(delay, "s").item() for time, delay in zip(latest, (4, 7), strict=True))
            out.append(operator.advance(*marks).rows)
        assert plain(answer) == plain(*out)
        here = [pc.max(table.column(0)).as_py() for table in sides]
        latest = [max(pair) for pair in zip(here, latest or here, strict=True)]


def test_damage_and_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    query = job(tmp_path, spec(), 2)
    run(query, 0, rows(LEFT, 0), rows(RIGHT, 0))
    assert query.files is not None
    place = Place(query.files, "q", 0)
    path = Path(place.folder) / place.newest(0).name
    assert place.newest(0).watermark == Place(query.files, "q", 1).newest(0).watermark
    data = path.read_bytes()

    def refused(words: str, other: JoinJob = query) -> None:
        with pytest.raises((StateError, TypeError), match=words):
            run(other, 1, rows(LEFT, 1), rows(RIGHT, 1))

    path.write_bytes(data[:-9] + b"123456789")
    refused("is damaged")
    path.write_bytes(data)
    refused("another spec", job(tmp_path, spec(how="left"), 2))
    refused("spread=None and has '1m' now", job(tmp_path, spec(), 2, spread="1m"))
    refused("holds state of 2 partitions", job(tmp_path, spec(), 3))
    other = pa.schema([LEFT[0], pa.field("k", pa.int32()), LEFT[2]])
    refused("stay as they are", replace(query, spec=with_schemas(spec(), (other, RIGHT))))
    path.unlink()
    refused("is missing")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"spread": "1ms"}, "every row of right would go to about 5001 places"),
        ({"spread": "1m", "how": "full"}, "which how='full' must know"),
        (
            {"spread": "1m", "how": "left", "match": "last", "within": (None, "0s")},
            "every row of right would go to about",
        ),
        ({"watermark": sl.punctuated("k", by=["k"])}, "of left marks keys one by one"),
        ({"watermark": (sl.bounded("1s"), sl.ordered())}, "the watermark=sl.ordered\\(\\) of right needs rows in"),
    ],
)
def test_what_has_no_answer_on_several_places_is_refused(arguments: dict[str, Any], words: str) -> None:
    spread = arguments.pop("spread", None)
    asked = with_schemas(spec(**arguments), (LEFT, RIGHT))
    with pytest.raises(ValueError, match=words):
        exchange.Reader(asked, 0, 4, spread=spread)


# --- on Spark ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    running = session("local[2,3]", **WARM, **{"spark.sql.timestampType": "TIMESTAMP_LTZ"})
    yield running
    running.stop()


def write(folder: Path, tables: list[pa.Table], first: int = 0) -> str:
    folder.mkdir(exist_ok=True)
    for number, table in enumerate(tables, first):
        pq.write_table(table, folder / f".{number}")
        os.utime(folder / f".{number}", (10**9 + number, 10**9 + number))
        (folder / f".{number}").rename(folder / f"{number:03}.parquet")
    return str(folder)


def stream(spark: SparkSession, folder: str, columns: str) -> DataFrame:
    return spark.readStream.schema(columns).option("maxFilesPerTrigger", 1).parquet(folder)


LEFT_COLUMNS = "shown timestamp, k long, a long"
RIGHT_COLUMNS = "clicked timestamp, k long, b string"


def finished(frame: DataFrame, base: Path) -> Any:
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(base / "checkpoint"))
    query = writer.option("path", str(base / "out")).trigger(availableNow=True).start()
    query.awaitTermination()
    return query


def test_a_batch_is_the_join_of_two_tables(spark: SparkSession) -> None:
    """With keys of another width, names with dots, and keys spread; late is nothing."""
    left, right = (pa.concat_tables([rows(schema, batch) for batch in range(3)]) for schema in (LEFT, RIGHT))
    right = right.set_column(1, "k", right["k"].cast(pa.int32())).rename_columns(["clicked", "k", "b.c"])
    for more, spread in (({"how": "full"}, None), ({"how": "left", "match": "nearest"}, "5s"), ({"how": "anti"}, "3s")):
        frames = (spark.createDataFrame(table) for table in (left, right))
        answer = window_join(*frames, spec(**more), partitions=3, spread=spread).toArrow()
        expected = sl.join(left, right, spec(**more))
        assert answer.column_names == expected.column_names
        assert plain(answer) == plain(expected.cast(answer.schema))


def test_streams_equal_sparks_own_join(spark: SparkSession, tmp_path: Path) -> None:
    """Row by row, with progress="least" and "native"; but for a row exactly at the watermark, which Spark drops.

    Times are whole 10 ms on the left and 3 ms later on the right, delays a millisecond more: nothing else is equal.
    Spark's outer joins of streams take null keys for equal.
    """
    left = [rows(LEFT, batch) for batch in range(5)]
    right = [rows(RIGHT, batch) for batch in range(5)]
    right = [t.set_column(0, "clicked", moved(t["clicked"], 3000)) for t in right]
    newest = [max(pc.max(t.column(0)).cast(pa.int64()).as_py() for t in side[:2]) for side in (left, right)]
    mark = min(newest[0] - 4_001_000, newest[1] - 7_001_000)  # that judges batch 3: of the rows of batches 0 and 1
    left[3] = pa.concat_tables([left[3], pa.table([times(mark), [77], [1]], schema=LEFT)])
    right[3] = pa.concat_tables([right[3], pa.table([times(mark + 1000), [77], ["1"]], schema=RIGHT)])
    for number in (100, 200):  # everything before is complete with the second one
        end = times(START + number * 10 * SECOND)
        left.append(pa.table([end, [-1], [0]], schema=LEFT))
        right.append(pa.table([end, [-1], ["0"]], schema=RIGHT))
    folders = write(tmp_path / "left", left), write(tmp_path / "right", right)

    def sources() -> tuple[DataFrame, DataFrame]:
        return stream(spark, folders[0], LEFT_COLUMNS), stream(spark, folders[1], RIGHT_COLUMNS)

    marks = sl.bounded("4001ms"), sl.bounded("7001ms")
    asked = spec(how="full", progress="least", watermark=marks, nulls_equal=True)
    ours = window_join(*sources(), asked, str(tmp_path / "state"), 2, progress="native")
    query = finished(ours, tmp_path / "ours")
    stats = [p.observedMetrics["joined"].stats for p in query.recentProgress]
    assert sum(s["left"] for s in stats) == sum(t.num_rows for t in left)
    assert sum(s["late_left"] for s in stats) > 0 < sum(s["late_right"] for s in stats)
    one, other = sources()
    other = other.withColumnRenamed("k", "k2").withWatermark("clicked", "7001 milliseconds")
    near = "k = k2 and clicked >= shown - interval 2 seconds and clicked <= shown + interval 3 seconds"
    native = one.withWatermark("shown", "4001 milliseconds").join(other, sf.expr(near), "full")
    native = native.select("shown", sf.coalesce("k", "k2").alias("k"), "a", "clicked", "b")
    finished(native, tmp_path / "native")
    here, there = (written(spark, tmp_path / name) for name in ("ours", "native"))
    assert len(there) > 300
    row, partner = (t[0].as_py() for t in (times(mark), times(mark + 1000)))
    dropped, kept = ({"shown": r, "k": 77, "a": a, "clicked": partner, "b": "1"} for r, a in ((None, None), (row, 1)))
    assert list((Counter(there) - Counter(here)).elements()) == [repr(tuple(dropped.items()))]
    assert list((Counter(here) - Counter(there)).elements()) == [repr(tuple(kept.items()))]


def times(word: int) -> pa.Array:
    return pa.array([word]).cast(LEFT[0].type)


def moved(column: pa.ChunkedArray, by: int) -> pa.ChunkedArray:
    return pc.add(column.cast(pa.int64()), by).cast(LEFT[0].type)


def written(spark: SparkSession, base: Path) -> list[str]:
    table = spark.read.parquet(str(base / "out")).toArrow()
    return plain(table.filter(pc.not_equal(table["k"], -1).fill_null(True)))


def test_a_stream_goes_on_is_looked_into_rescaled_and_drained(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tasks fail after their state; one side is read by the workers and has fewer batches."""
    asked = spec(how="left", watermark=(sl.bounded("4s"), sl.bounded("1m")))
    operator = sl.JoinOperator(with_schemas(asked, (LEFT, RIGHT)))
    monkeypatch.setattr(stages, "merge", failing_after(stages.merge, str(tmp_path / "failed")))
    checkpoint, closed = str(tmp_path / "checkpoint"), []
    for part in range(2):
        left = write(tmp_path / "left", [rows(LEFT, 2 * part + n) for n in range(2)], 2 * part)
        right = write(tmp_path / "right", [rows(RIGHT, 2 * part)], part)
        for n in range(2):
            out = operator.push(rows(LEFT, 2 * part + n), rows(RIGHT, 2 * part, 0 if n else 60))
            closed.append(out.rows)
        sides = stream(spark, left, LEFT_COLUMNS), read_files(spark, right, RIGHT, maxFilesPerTrigger=1)
        joined = window_join(*sides, asked, str(tmp_path / "state"), 2 + part, late_path=str(tmp_path / "late"))
        query = finished(joined, tmp_path)
        if not part:
            rescale(spark, asked, str(tmp_path / "state"), to=3, checkpoint=checkpoint)
    assert len(list(tmp_path.glob("failed-*"))) == 2 * 2 + 2 * 3
    stats = query.recentProgress[-1].observedMetrics["joined"].stats
    assert stats["kept"] == out.stats["held"] and stats["watermark_left"] is not None
    assert line("joined", query.recentProgress[-1], stats).startswith("joined batch 3: 60 and 0 rows, ")
    assert written(spark, tmp_path) == plain(*closed)
    where = {"state": str(tmp_path / "state"), "partitions": 3, "checkpoint": checkpoint}
    left_open = plain(operator.flush().rows)
    assert plain(peek(spark, asked, **where).toArrow()) == left_open == plain(drain(spark, asked, **where).toArrow())
    assert left_open
    with pytest.raises(TypeError, match="another join is another query"):
        change(spark, asked, asked, to="v2", **where)


def failing_after(stage: Any, marks: str) -> Any:
    """A stage whose tasks fail once each after all their work, state included."""

    def wrapped(job: Any, batches: Any) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        yield from list(stage(job, batches))
        context = TaskContext.get()
        mark = f"{marks}-{context.getLocalProperty('streaming.sql.batchId')}-{context.partitionId()}"
        if job.files is not None and not os.path.exists(mark):
            open(mark, "w").close()
            raise RuntimeError("injected after the state was written")

    return wrapped


def test_what_cannot_be_is_refused_where_it_is_asked(spark: SparkSession, tmp_path: Path) -> None:
    left = stream(spark, write(tmp_path / "left", []), LEFT_COLUMNS)
    right = stream(spark, write(tmp_path / "right", []), RIGHT_COLUMNS)
    still = spark.createDataFrame(rows(RIGHT, 0))

    def refused(error: type[Exception], words: str, *arguments: Any, **more: Any) -> None:
        with pytest.raises(error, match=words):
            window_join(*arguments, **more)

    refused(TypeError, "takes two DataFrames and a sl.JoinSpec; got builtins's str", left, right, "k")
    refused(TypeError, "takes Spark's DataFrame, or what read_files gives", left, rows(RIGHT, 0), spec())
    refused(ValueError, "left is streaming and right is batch.*left.join", left, still, spec())
    refused(ValueError, "a streaming query needs state=", left, right, spec())
    refused(ValueError, "the watermark=sl.manual\\(\\) of left", left, right, spec(watermark=sl.manual()), state="/x")
    refused(ValueError, "progress must be 'prompt' or 'native'", left, right, spec(), progress="least")
    refused(ValueError, "spread='1m' sends a right row to", left, right, spec(how="full"), state="/x", spread="1m")
    refused(ValueError, "does not tell apart", still, still.withColumnRenamed("b", "B"), spec(time="clicked"))
    months = still.selectExpr("*", "interval '1' month as v")
    refused(TypeError, "column 'v' of right has type interval month", still, months, spec(time="clicked"))
