"""State files and the worker functions, driven by hand: no Spark session, only its task's numbers."""

from __future__ import annotations

import datetime as dt
import os
import pickle
import random
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

import slicing as sl

pytest.importorskip("pyspark")

from slicing import exchange
from slicing.cells.unread import Unread
from slicing.columns.arrow_io import together
from slicing.exchange import COUNTS
from slicing.system.filesystems import absolute, filesystem, listed
from slicing.system.sealed import _checksum_of_many as checksum
from spark_udfs import files, jobs, moving, plans, stages, state, upkeep, versions
from spark_udfs.checkpoint import Checkpoint
from spark_udfs.engines import WINDOWS
from spark_udfs.in_spark import InSpark
from spark_udfs.jobs import Job
from spark_udfs.policy import Policy
from spark_udfs.progress import Step
from spark_udfs.state import Place
from spark_udfs.types import conformed, given_schema
from spark_udfs.versions import Files, Owner, StateError

SECOND = 1_000_000
SPEC = sl.Spec(
    time="ts",
    by=["k", "s"],
    windows={"slide": sl.sliding("10s", every="2s"), "visit": sl.session("3s")},
    aggs={"n": sl.count(), "total": sl.sum("v"), "least": sl.min("s"), "last": sl.last("v")},
    watermark=sl.bounded("2s"),
)
SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int64()), ("s", pa.string()), ("v", pa.int64())])


def rows(batch: int, size: int = 60) -> pa.RecordBatch:
    """Ten seconds of a stream, some of it up to 40 s late."""
    rng = np.random.default_rng(batch)
    late = np.where(rng.random(size) < 0.15, rng.integers(0, 40 * SECOND, size), rng.integers(0, SECOND, size))
    ts = np.sort(rng.integers(batch * 10 * SECOND, (batch + 1) * 10 * SECOND, size)) - late
    names = pa.array(["a", None, "a longer name than sixteen bytes"]).take(pa.array(rng.integers(0, 3, size)))
    columns = [pa.array(ts).cast(SCHEMA[0].type), rng.integers(0, 4, size), names, rng.integers(-9, 9, size)]
    return pa.RecordBatch.from_arrays([pa.array(c) if isinstance(c, np.ndarray) else c for c in columns], schema=SCHEMA)


def job(path: Path, partitions: int = 3, spec: sl.Spec = SPEC, **more: object) -> Job:
    return Job(
        spec, SCHEMA, partitions, Files(str(path), "windows", partitions, spec.fingerprint(), spec=repr(spec)), **more
    )


def in_changes(path: Path, partitions: int = 3, spec: sl.Spec = SPEC) -> Job:
    """A job of which every state counts as large, every batch as small, and four batches in a row are written as
    changes."""
    return job(path, partitions, spec, policy=Policy(large=1, share=100, most_changes=4))


def run(job: Job, batch: int, data: pa.RecordBatch, readers: int = 2, query: str = "q") -> pa.Table:
    """One micro-batch: what Spark's tasks do, one after the other. Windows and accounting."""
    sent: list[pa.RecordBatch] = []
    for reader in range(readers):
        mine = data.take(pa.array(range(reader, data.num_rows, readers), pa.int64()))
        sent += stages.collect(job, iter([mine]), Step(query, batch, reader))
    random.Random(batch).shuffle(sent)
    out = []
    for p in range(job.partitions):
        arrived = [of_place(b, p) for b in sent]
        out += stages.merge(job, arrived, Step(query, batch, p))
    return pa.Table.from_batches(out)


def of_place(sent: pa.RecordBatch, place: int) -> pa.RecordBatch:
    """What goes to a place of what a reader has sent."""
    return sent.filter(pc.equal(sent.column(0), place))


def same(one: pa.Table, other: pa.Table) -> bool:
    """Windows and counts; what a batch took is its own."""

    def counted(table: pa.Table) -> list[dict]:
        told = table[jobs.STATS].drop_null().to_pylist()
        return [{n: row[n] for n in (*jobs.COUNTED, "watermark") if n not in ("held", "cold")} for row in told]

    return windows(one) == windows(other) and counted(one) == counted(other)


def windows(table: pa.Table) -> list[dict]:
    plain = table.filter(table[jobs.STATS].is_null()).drop_columns([jobs.STATS])
    return sorted(plain.to_pylist(), key=repr)


def drained(job: Job, batch: int) -> list[dict]:
    numbers = pa.RecordBatch.from_arrays([pa.array(range(job.partitions))], names=["id"])
    return [row for b in stages.drain(job, [numbers], batch, "q") for row in b.to_pylist()]


def place(job: Job, partition: int = 0) -> Place:
    assert job.files is not None
    return Place(job.files, "q", partition)


def restored(job: Job, partition: int, batch: int, spec: sl.Spec = SPEC) -> sl.Operator:
    return place(job, partition).restore(spec, batch)[1]


def version(job: Job, batch: int, partition: int = 0) -> Path:
    """The file of a version."""
    there = place(job, partition)
    return Path(there.folder) / there.newest(batch).name


def checkpoint_of(files: Files) -> Checkpoint:
    """What a checkpoint would say: the last batch is complete."""
    batch = Place(files, "q", 0).batches()[-1]
    return Checkpoint("q", batch, batch)


def rescale(path: str, spec: sl.Spec, partitions: int, to: int) -> int:
    """As Spark's tasks do it, one after the other."""
    old, new = (Files(path, "windows", n, spec.fingerprint()) for n in (partitions, to))
    at = checkpoint_of(old)
    numbers = pa.RecordBatch.from_arrays([pa.array(range(partitions))], names=["id"])
    sent = list(moving.pieces(spec, old, at, to, [numbers]))
    random.Random(to).shuffle(sent)
    for target in range(to):
        mine = [b for b in sent if b.column(0)[0].as_py() == target]
        for answer in moving.put_together(spec, old, new, at, mine):
            raised = pickle.loads(answer.column(1)[0].as_py())
            if raised is not None:
                raise raised
    return at.done


def change(path: str, spec: sl.Spec, after: sl.Spec, partitions: int, to: str, data: Any = None) -> dict:
    old = Files(path, "windows", partitions, spec.fingerprint())
    new = replace(old, name=to, fingerprint=after.fingerprint())
    work = moving.Change(spec, after, old, new, checkpoint_of(old), getattr(data, "schema", None))
    return work.done(lambda task: [task(p) for p in range(partitions)])


def all_windows(job: Job, batches: int, **more: object) -> list[dict]:
    found = [row for b in range(batches) for row in windows(run(job, b, rows(b), **more))]
    return sorted(found + drained(job, batches - 1), key=repr)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[dict]:
    return all_windows(job(tmp_path_factory.mktemp("state"), 1), 6, readers=1)


@pytest.mark.parametrize(("partitions", "readers"), [(1, 3), (2, 1), (5, 4)])
def test_no_number_of_partitions_or_readers_shows(
    tmp_path: Path, undisturbed: list[dict], partitions: int, readers: int
) -> None:
    assert len(undisturbed) > 400
    assert all_windows(job(tmp_path, partitions), 6, readers=readers) == undisturbed


def test_a_batch_closes_what_the_batches_before_it_have_reached_and_judges_one_behind(tmp_path: Path) -> None:
    push = seconds_pushed(tmp_path, prompt=False)
    assert push(0, 3, 20) == ([], 0)
    assert push(1, 4, 21) == ([(5, 2)], 0)  # W(1) = 19 closes; W(0) judges: 4 is in time
    assert push(2, 6, 30) == ([], 1)  # W(1) = 19 judges: 6 is late
    assert push(3, 40) == ([(25, 2)], 0)
    assert push(4) == ([(35, 1)], 0)


def test_a_prompt_batch_closes_what_its_own_rows_complete(tmp_path: Path) -> None:
    push = seconds_pushed(tmp_path, prompt=True)
    assert push(0, 3, 20) == ([(5, 1)], 0)
    assert push(1, 4, 21) == ([], 1)  # W(0) = 19 judges: 4 is late
    assert push(2, 19, 22, 30) == ([(25, 3)], 1)  # W(1) = 20 judges, W(2) = 29 closes
    assert push(3) == ([], 0)


def test_prompt_batches_are_pushes_of_one_operator(tmp_path: Path) -> None:
    """Windows, late rows and accounting of each batch; also of a query that was native before."""
    operator, query = sl.Operator(SPEC), job(tmp_path / "state", late_path=str(tmp_path / "late"))
    late, total = 0, 0
    for batch in range(6):
        out, found = operator.push(rows(batch)), run(query, batch, rows(batch))
        assert windows(found) == sorted(out.windows.to_pylist(), key=repr)
        stats = found[jobs.STATS].drop_null().to_pylist()
        assert {n: sum(s[n] for s in stats) for n in COUNTS} == {n: out.stats[n] for n in COUNTS}
        assert {s["watermark"] for s in stats} == {out.watermark}
        total, late = total + out.windows.num_rows, late + out.late.num_rows
        told = pq.read_table(tmp_path / "late") if late else out.late
        assert told.num_rows == late
    assert total > 300
    assert late > 10
    assert sorted(drained(query, 5), key=repr) == sorted(operator.flush().windows.to_pylist(), key=repr)


def test_a_query_may_become_prompt_and_native_again(tmp_path: Path) -> None:
    native, prompt = (seconds_pushed(tmp_path, told) for told in (False, True))
    assert native(0, 3, 20) == ([], 0)
    assert prompt(1, 4, 21) == ([(5, 2)], 0)
    assert native(2, 6, 30) == ([], 1)
    assert prompt(3, 22) == ([(25, 3)], 0)


def seconds_pushed(path: Path, prompt: bool) -> Callable[..., tuple[list, int]]:
    """A query without keys, fed whole seconds: what a batch closes, and how many of its rows were late."""
    spec = sl.Spec("ts", {"w": sl.tumbling("5s")}, {"n": sl.count()}, watermark=sl.bounded("1s"))
    one = job(path, 1, spec, prompt=prompt)

    def push(batch: int, *seconds: int) -> tuple[list, int]:
        ts = pa.array([s * SECOND for s in seconds], pa.int64()).cast(SCHEMA[0].type)
        data = pa.RecordBatch.from_arrays([ts, *(pa.nulls(len(ts), f.type) for f in list(SCHEMA)[1:])], schema=SCHEMA)
        table = run(one, batch, data, readers=1)
        stats = table[jobs.STATS].drop_null()[0].as_py()
        return [(w["window_end"].second, w["n"]) for w in windows(table)], stats["late"]

    return push


def test_paths_are_those_of_this_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    found = [absolute(path) for path in ("~/state", "state", "/state", "file:///state", "s3://state")]
    assert found == [f"{tmp_path}/state", f"{tmp_path}/state", "/state", "file:///state", "s3://state"]


def test_a_repeated_batch_writes_the_same_bytes_and_gives_the_same_rows(tmp_path: Path) -> None:
    query = job(tmp_path)
    for batch in range(4):
        first = run(query, batch, rows(batch))
        files = {path: path.read_bytes() for path in tmp_path.rglob("*.slices")}
        assert same(run(query, batch, rows(batch)), first)
        assert {path: path.read_bytes() for path in tmp_path.rglob("*.slices")} == files


def test_attempts_at_the_same_task_at_the_same_time_give_the_same(tmp_path: Path, undisturbed: list[dict]) -> None:
    """Three processes a task, as with speculation; what one of them gives is the answer, whoever published last."""
    query, calm, found = job(tmp_path / "state"), job(tmp_path / "calm"), []
    for batch in range(6):
        run(calm, batch, rows(batch), readers=1)
        sent = list(stages.collect(query, iter([rows(batch)]), Step("q", batch, 0)))
        for p in range(3):
            go, attempts = tmp_path / f"go-{batch}-{p}", []
            for _ in range(2):
                attempts.append(os.fork())
                if attempts[-1] == 0:
                    signal.alarm(60)
                    while not go.exists():
                        pass
                    list(stages.merge(query, [of_place(sent[0], p)], Step("q", batch, p)))
                    os._exit(0)
            go.touch()
            found += windows(pa.Table.from_batches(stages.merge(query, [of_place(sent[0], p)], Step("q", batch, p))))
            assert [os.waitpid(attempt, 0)[1] for attempt in attempts] == [0, 0]
    assert sorted(found + drained(query, 5), key=repr) == undisturbed
    files = {path.relative_to(tmp_path / "state"): path.read_bytes() for path in (tmp_path / "state").rglob("*.slices")}
    assert all((tmp_path / "calm" / path).read_bytes() == data for path, data in files.items())
    assert len(files) == 18
    assert not list((tmp_path / "state").rglob(".*"))


def test_late_rows_are_in_one_file_a_batch_and_partition(tmp_path: Path) -> None:
    query = job(tmp_path / "state", late_path=str(tmp_path / "late"))
    counted = 0
    for batch in range(5):
        for _ in range(2):
            stats = run(query, batch, rows(batch))[jobs.STATS].drop_null().to_pylist()
        counted += sum(s["late"] for s in stats)
        assert sum(s["rows"] for s in stats) == 60
    late = pq.read_table(tmp_path / "late")
    assert late.num_rows == counted > 5
    assert late.column_names == [*SCHEMA.names, "reason"]


def test_a_batch_that_other_readers_repeat_writes_its_late_rows_once(tmp_path: Path) -> None:
    """Rows differ in columns that Arrow does not sort by, or in the sign of zero."""
    parts = pa.struct({"a": pa.int64(), "b": pa.list_(pa.float64())})
    schema = pa.schema([("t", pa.int64()), ("v", pa.float64()), ("f", pa.float32()), ("parts", parts)])
    spec = sl.Spec("t", {"w": sl.tumbling(10)}, {"n": sl.count()}, watermark=sl.bounded(0))
    query = replace(job(tmp_path / "state", 1, spec, late_path=str(tmp_path / "late")), schema=schema)
    rng = np.random.default_rng(1)
    zeros, lists = [0.0, -0.0, None, float("nan")], [None, [], [0.0], [-0.0], [None, 1.0]]
    late = [
        {"t": 5, "v": zeros[i % 4], "f": zeros[i // 4 % 3], "parts": {"a": i % 3, "b": lists[i % 5]} if i % 7 else None}
        for i in range(60)
    ]
    early = [{"t": 100, "v": 1.0, "f": 1.0, "parts": {"a": 0, "b": []}}]
    run(query, 0, pa.RecordBatch.from_pylist(early, schema))
    for readers in (1, 2, 3):
        rng.shuffle(late)  # type: ignore[arg-type]
        run(query, 1, pa.RecordBatch.from_pylist(late, schema), readers)
    (file,) = (tmp_path / "late").iterdir()
    found = pq.read_table(file).drop_columns("reason").to_pylist()
    assert sorted(map(repr, found)) == sorted(map(repr, late))


def test_queries_may_share_a_place_for_late_rows(tmp_path: Path) -> None:
    counted = 0
    for query in ("one", "other"):
        asked = job(tmp_path / query, late_path=str(tmp_path / "late"))
        for batch in range(4):
            stats = run(asked, batch, rows(batch), query=query)[jobs.STATS].drop_null().to_pylist()
            counted += sum(s["late"] for s in stats)
    assert pq.read_table(tmp_path / "late").num_rows == counted > 2


def test_columns_keep_their_types_as_long_as_the_query_lives(tmp_path: Path) -> None:
    run(job(tmp_path), 0, rows(0))
    for column, type in (("v", pa.float64()), ("k", pa.int32()), ("ts", pa.timestamp("ms", "UTC"))):
        at = SCHEMA.get_field_index(column)
        other = replace(job(tmp_path), schema=SCHEMA.set(at, pa.field(column, type)))
        with pytest.raises(TypeError, match=f"column '{column}' was .* in the first batch; this one has "):
            run(other, 1, pa.RecordBatch.from_pylist([], other.schema))
        with pytest.raises(TypeError, match=f"column '{column}' was .* and is .* in data=; cast it to what it was"):
            change(str(tmp_path), SPEC, SPEC, 3, to="more", data=other)
    assert windows(run(job(tmp_path), 1, rows(1)))


def test_null_times_may_become_late_rows_of_a_query_that_they_have_stopped(tmp_path: Path) -> None:
    run(job(tmp_path), 0, rows(0))
    nulls = rows(1).set_column(0, "ts", pa.nulls(60, SCHEMA[0].type))
    with pytest.raises(ValueError, match="time column 'ts' is null in row 0"):
        run(job(tmp_path), 1, nulls)
    fields = {name: getattr(SPEC, name) for name in SPEC.__dataclass_fields__} | {"on_null_time": "late"}
    lenient = sl.Spec(**fields | {"windows": dict(SPEC.windows), "aggs": dict(SPEC.aggs)})
    change(str(tmp_path), SPEC, lenient, 3, to="lenient")
    files = Files(str(tmp_path), "lenient", 3, lenient.fingerprint())
    stats = run(replace(job(tmp_path, spec=lenient), files=files), 1, nulls)[jobs.STATS].drop_null().to_pylist()
    assert sum(s["null_time"] for s in stats) == 60


def test_a_reader_sends_before_it_holds_many_texts_or_late_rows(tmp_path: Path) -> None:
    """Keys, values that are compared as text and late rows count, not cells alone. Late rows that are only counted are
    not held."""
    texts = pa.array([f"{i:04}" + "x" * 1000 for i in range(400)])
    moments = pa.array(np.arange(400) % 10 * SECOND).cast(SCHEMA[0].type)
    columns = {"ts": moments, "k": pa.array(np.arange(400)), "s": texts, "v": pa.array(np.arange(400))}
    data = pa.RecordBatch.from_pydict(columns, schema=SCHEMA)
    for by, agg in (["s"], sl.count()), ([], sl.max("s")):
        spec = sl.Spec("ts", {"w": sl.tumbling("10s")}, {"x": agg}, by=by, watermark=sl.bounded(0))
        asked = job(tmp_path / f"{len(by)}", 1, spec, policy=Policy(rows_at_once=100, bytes_at_once=50_000))
        batches = [data.slice(at, 100) for at in range(0, 400, 100)]
        assert sum(sent.num_rows for sent in stages.collect(asked, iter(batches), Step("q", 0, 0))) >= 4

    for keeps in (True, False):
        reader = stages.Collector(SPEC, SCHEMA, 10**15, keeps_late=keeps)
        reader.push(data)
        assert (reader.nbytes > 400_000) == keeps
        assert reader.parts().counts["late"] == 400 and reader.parts().late.num_rows == (400 if keeps else 0)


def test_who_only_looks_at_a_state_leaves_it_to_the_query(tmp_path: Path) -> None:
    forget()
    asked = job(tmp_path, 1, policy=Policy(large=0))
    run(asked, 0, rows(0))
    assert len(state.HELD) == 1
    place = Place(asked.files, "q", 0)
    for spec in (SPEC, pickle.loads(pickle.dumps(SPEC))):
        _, _, held = place.restore(spec, 0)
        assert (held, len(state.HELD)) == (False, 1)
    _, _, held = place.restore(SPEC, 0, own=True)
    assert (held, len(state.HELD)) == (True, 0)


@pytest.mark.parametrize("format", ["parquet", "csv", "json", "arrow"])
def test_files_that_are_gone_have_no_rows_if_they_may(tmp_path: Path, format: str) -> None:
    paths = [pa.RecordBatch.from_arrays([pa.array([f"file:{tmp_path}/gone.{format}"])], names=["path"])]
    reading = files.Reading(format, "error", files.Csv(), tuple(SCHEMA.names))
    assert list(files.read(paths, SCHEMA, replace(reading, skips_missing=True))) == []
    with pytest.raises(FileNotFoundError, match="gone"):
        list(files.read(paths, SCHEMA, reading))


def test_text_in_files_is_read_as_spark_reads_it(tmp_path: Path) -> None:
    def found(name: str, format: str, text: str) -> list[dict]:
        (tmp_path / name).write_text(text)
        paths = pa.RecordBatch.from_arrays([pa.array([f"file:{tmp_path}/{name}"])], names=["path"])
        read = files.read([paths], SCHEMA, files.Reading(format, "error", files.Csv(), tuple(SCHEMA.names)))
        return [row for b in read for row in conformed(b, SCHEMA).to_pylist()]

    start = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    (row, empty) = found("a.csv", "csv", 'ts,k,s,v\n2026-01-01 01:00:00+0100,1,,\n2026-01-01 00:00:00Z,1,"",7\n')
    assert row == {"ts": start, "k": 1, "s": None, "v": None}
    assert empty == {"ts": start, "k": 1, "s": None, "v": 7}
    line = '{"ts": "2026-01-01 00:00:00%s", "k": 1, "s": "x"}'
    assert found("a.json", "json", line % "Z") == [{"ts": start, "k": 1, "s": "x", "v": None}]
    assert found("c.json", "json", "") == found("c.csv", "csv", "") == []
    for number, text in enumerate(('say \\"hi\\"', "c:\\\\temp, x")):
        with pytest.raises(ValueError, match=r"it has \\[\\\"], of which Spark keeps the second sign within quotes"):
            found(f"d{number}.csv", "csv", f'ts,k,s,v\n2026-01-01 00:00:00Z,1,"{text}",7\n')
    with pytest.raises(ValueError, match=r'Text in a column of numbers, such as "NaN", is read by Spark.s own reader'):
        found("d.json", "json", line % "Z" + '\n{"ts": "2026-01-01 00:00:00Z", "k": "NaN"}')
    for name, format, text in (("b.json", "json", line % ""), ("b.csv", "csv", "ts,k,s,v\n2026-01-01 00:00:00,1,,\n")):
        with pytest.raises(ValueError, match="zone offset"):
            found(name, format, text)


def test_files_may_have_columns_that_spark_has_no_type_for() -> None:
    """They are widened as Spark's readers do it, or left out."""
    types = {"a": pa.uint8(), "b": pa.uint32(), "c": pa.uint64(), "d": pa.float16(), "e": pa.month_day_nano_interval()}
    found, others = given_schema(pa.schema(list(types.items())))
    assert found == pa.schema({"a": pa.int16(), "b": pa.int64(), "c": pa.decimal128(20), "d": pa.float32()})
    assert others == {"e": "month_day_nano_interval"}


def test_a_query_goes_on_with_another_number_of_partitions(tmp_path: Path, undisturbed: list[dict]) -> None:
    found: list[dict] = []
    query = job(tmp_path, 3)
    for batch in range(6):
        if batch in (2, 4):
            to = {2: 5, 4: 2}[batch]
            assert rescale(str(tmp_path), SPEC, query.partitions, to) == batch - 1
            query = job(tmp_path, to)
        found += windows(run(query, batch, rows(batch)))
    assert sorted(found + drained(query, 5), key=repr) == undisturbed


def test_rows_that_are_kept_one_by_one_are_rescaled_with_their_keys(tmp_path: Path) -> None:
    kinds = {
        "three": sl.rows(3, every=2, partial=True),
        "before": sl.per_row("4s"),
        "last": sl.last_rows(2, every="3s"),
        "marks": sl.punctuation("mark"),
        "frames": sl.frame("mark", "leave"),
        "slide": sl.sliding("10s", every="2s"),
        "visit": sl.session("3s"),
    }
    aggs = {"n": sl.count(), "all": sl.collect("row"), "words": sl.collect("s"), "most": sl.max("s")}
    spec = sl.Spec("ts", kinds, aggs, by=["k", "s"], watermark=sl.bounded("2s"), sequence="row")
    schema = pa.schema([*SCHEMA, ("mark", pa.bool_()), ("leave", pa.bool_()), ("row", pa.int64())])

    def told(folder: str, scales: dict[int, int]) -> list[dict]:
        count, found = 3, []
        for batch in range(5):
            if batch in scales:
                assert rescale(str(tmp_path / folder), spec, count, scales[batch]) == batch - 1
                count = scales[batch]
            query = Job(spec, schema, count, Files(str(tmp_path / folder), "windows", count, spec.fingerprint()))
            data, chance = rows(batch), np.random.default_rng(batch)
            more = [pa.array(chance.random(data.num_rows) < share) for share in (0.2, 0.3)]
            numbered = [*more, pa.array(np.arange(data.num_rows) + 1000 * batch)]
            found += windows(run(query, batch, pa.RecordBatch.from_arrays([*data.columns, *numbered], schema=schema)))
        return sorted(found + drained(query, 4), key=repr)

    calm = told("calm", {})
    assert {row["window"] for row in calm} == set(kinds)
    assert told("scaled", {1: 5, 3: 2, 4: 4}) == calm


def test_a_query_that_needs_one_place_is_not_rescaled(tmp_path: Path) -> None:
    alone = sl.Spec("ts", {"w": sl.tumbling("5s")}, {"n": sl.count()})
    with pytest.raises(ValueError, match=r"a query without keys .* has one partition; got to=2"):
        upkeep.rescale(None, alone, str(tmp_path), 2)  # type: ignore[arg-type]
    ranks = sl.Spec("ts", {"r": sl.rows(3, per_key=False)}, {"n": sl.count()}, by=["k"], sequence="v")
    with pytest.raises(ValueError, match="needs the rows of all keys in one place: partitions=1; got 2"):
        upkeep.rescale(None, ranks, str(tmp_path), 2)  # type: ignore[arg-type]


def test_what_is_added_to_a_stopped_query_says_from_when_on_it_is_complete(tmp_path: Path) -> None:
    wide = pa.schema([*SCHEMA, ("x", pa.float64())])

    def wider(data: pa.RecordBatch) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([*data.columns, pa.array(np.arange(float(data.num_rows)))], schema=wide)

    slide, visit = dict(SPEC.windows)["slide"], dict(SPEC.windows)["visit"]
    rest = {"by": ["k", "s"], "watermark": sl.bounded("2s")}
    before = sl.Spec("ts", {"slide": slide, "visit": visit}, {"n": sl.count(), "total": sl.sum("v")}, **rest)
    aggs = {"n": sl.count(), "most": sl.max("x"), "words": sl.count_distinct("s"), "mean": sl.mean("v")}
    after = sl.Spec("ts", {"slide": slide, "four": sl.tumbling("4s"), "near": sl.session("1s")}, aggs, **rest)
    query, found = job(tmp_path, spec=before), []
    for batch in range(3):
        found += windows(run(query, batch, rows(batch)))
    with pytest.raises(ValueError, match="column 'x' was not read before; give data="):
        change(str(tmp_path), before, after, 3, to="more")
    with pytest.raises(ValueError, match="column 'x' is not in data=; its columns are ts, k, s, v"):
        change(str(tmp_path), before, after, 3, to="more", data=rows(0))
    told = change(str(tmp_path), before, after, 3, to="more", data=wider(rows(0)))
    assert told == change(str(tmp_path), before, after, 3, to="more", data=wider(rows(0)))
    newest = max(max(rows(batch)["ts"].to_pylist()) for batch in range(3))
    tick = dt.timedelta(microseconds=1)
    assert told["aggs"] == {"most": newest + tick, "words": newest + tick, "mean": None}
    assert told["windows"]["near"] == newest + dt.timedelta(seconds=1) + tick
    assert told["windows"]["four"] < newest - dt.timedelta(seconds=1)  # its slices were there
    changed = Job(after, wide, 3, Files(str(tmp_path), "more", 3, after.fingerprint()))
    found = []
    for batch in range(3, 6):
        found += windows(run(changed, batch, wider(rows(batch))))
    found = sorted(found + drained(changed, 5), key=repr)

    whole, expected = Job(after, wide, 3, Files(str(tmp_path), "whole", 3, after.fingerprint())), []
    for batch in range(6):
        expected += [row for row in windows(run(whole, batch, wider(rows(batch)))) if batch >= 3]
    for row in [*expected, *drained(whole, 5)]:
        if row["window_start"] < told["windows"].get(row["window"], row["window_start"]):
            continue
        hidden = {n: None for n, since in told["aggs"].items() if since is not None and row["window_start"] < since}
        assert row | hidden in found
        found.remove(row | hidden)
    assert found == []
    with pytest.raises(StateError, match=r"after batch 4 as name='more' with partitions=3, and not as name='windows'"):
        place(query).newest(4)


def test_without_keys_any_number_of_partitions_means_the_one_place(tmp_path: Path) -> None:
    spec = sl.Spec("ts", dict(SPEC.windows), {"n": sl.count()}, watermark=SPEC.watermark)
    query = job(tmp_path, 1, spec=spec)
    run(query, 0, rows(0))
    assert query.files is not None
    for partitions in (None, 1, 8):
        found = upkeep._files(spec, str(tmp_path), partitions, query.files.name, checkpoint_of(query.files))
        assert found.partitions == 1


def test_a_change_of_anything_else_is_refused(written: Job, tmp_path: Path) -> None:
    def changed(**other: object) -> sl.Spec:
        given = {"windows": dict(SPEC.windows), "aggs": dict(SPEC.aggs), "by": ["k", "s"], "watermark": SPEC.watermark}
        return sl.Spec("ts", **given | other)

    for other, sentence in (
        ({"by": ["k"]}, r"by was \('k', 's'\) and is \('k',\); only windows and aggs can change"),
        ({"watermark": sl.bounded("3s")}, "watermark was"),
        (
            {"windows": {"slide": sl.sliding("10s", every="1s")}},
            r"windows\['slide'\] was .*: give the new one a new name",
        ),
        ({"aggs": {"n": sl.count("v")}}, r"aggs\['n'\] was .*: give the new one a new name"),
        ({"windows": {**SPEC.windows, "all": sl.whole()}}, "cannot be added while a stream runs"),
    ):
        with pytest.raises(ValueError, match=sentence):
            change(str(tmp_path), SPEC, changed(**other), 3, to="more")
    more = changed(aggs={**SPEC.aggs, "mean": sl.mean("v")})
    with pytest.raises(StateError, match="its new name must be another one than 'windows'"):
        change(str(tmp_path), SPEC, more, 3, to="windows")
    place(written).mark_drained(2)
    with pytest.raises(StateError, match="was drained after batch 2, which ended its stream"):
        change(str(tmp_path), SPEC, more, 3, to="more")


def test_versions_that_are_too_old_are_removed(tmp_path: Path) -> None:
    query = job(tmp_path, 1)
    assert query.files is not None
    query = replace(query, files=replace(query.files, keep=3))
    # an attempt that did not come to its end
    killed = tmp_path / "windows" / "q" / "1" / "00000" / f".{5:012}.00.none.slices.0f"
    killed.parent.mkdir(parents=True)
    killed.touch()
    for batch in range(34):
        run(query, batch, rows(batch, 2), readers=1)
    assert place(query).batches() == [29, 30, 31, 32, 33]
    assert not list(tmp_path.rglob(".*"))


@pytest.mark.parametrize("kind", ["pyarrow", "object store", "fsspec"])
def test_state_may_be_on_any_filesystem(
    tmp_path: Path, undisturbed: list[dict], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """One that pyarrow has beside the local one, and one that fsspec opens; an object store has no rename."""
    if kind == "pyarrow":
        root, inside = "/other", fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
        for module in (state, versions):
            monkeypatch.setattr(module, "opened", lambda path: (inside, path))
    else:
        fsspec = pytest.importorskip("fsspec")
        root = f"fsspec+local://{tmp_path}"
        assert filesystem(root)[0].type_name.startswith("py::fsspec")
    if kind == "object store":

        class Puts(fs.FSSpecHandler):
            def get_type_name(self) -> str:
                return "fsspec+s3"

            def move(self, src: str, dest: str) -> None:
                pytest.fail("an object store would copy it")

        store = fs.PyFileSystem(Puts(fsspec.filesystem("file")))
        root = str(tmp_path)
        for module in (state, versions):
            monkeypatch.setattr(module, "opened", lambda path: (store, path))
    files = Files(root, "windows", 3, SPEC.fingerprint(), keep=2)
    query = replace(in_changes(tmp_path, 3), files=files)
    found = [row for b in range(4) for row in windows(run(query, b, rows(b)))]
    assert rescale(root, SPEC, 3, 2) == 3
    query = replace(query, partitions=2, files=replace(files, partitions=2))
    for batch in (4, 5):
        once = windows(run(query, batch, rows(batch)))
        forget()
        assert windows(run(query, batch, rows(batch))) == once
        found += once
    assert sorted(found + drained(query, 5), key=repr) == undisturbed
    place(query).prune(5)
    assert place(query).batches() == [3, 4, 5]  # 4 and 5 build on 3
    assert not list(tmp_path.rglob(".*"))
    with pytest.raises(StateError, match="after batch 6 is missing"):
        run(query, 7, rows(7))


def test_a_folder_may_come_while_it_is_looked_for(tmp_path: Path) -> None:
    """Two first tasks at once: pyarrow found none to list, then one that is there, and raised in spite of
    allow_not_found."""
    folder = tmp_path / "new"

    class Coming:
        def get_file_info(self, wanted: fs.FileSelector) -> list[fs.FileInfo]:
            if not folder.exists():
                folder.mkdir()
                raise FileNotFoundError(wanted.base_dir)
            return fs.LocalFileSystem().get_file_info(wanted)

    assert listed(Coming(), str(folder)) == []  # type: ignore[arg-type]
    assert folder.exists()


# --- a large state is not written with every batch --------------------------------------------------------------------


def forget() -> None:
    """As in a worker that has not had this partition yet."""
    state.HELD.clear()


def snapshots(query: Job, batches: int) -> list[bytes]:
    return [restored(query, p, b).snapshot() for b in range(batches) for p in range(2)]


def test_changes_alone_are_written_and_every_version_is_the_same(tmp_path: Path, undisturbed: list[dict]) -> None:
    query = in_changes(tmp_path / "changes", 2)
    assert all_windows(query, 6) == undisturbed
    bases = [[place(query, p).header(b)["base"] for b in range(6)] for p in range(2)]
    assert bases == [[0, 0, 0, 0, 4, 4], [0, 0, 0, 3, 3, 3]]  # one writes a snapshot after the other
    whole = job(tmp_path / "whole", 2)
    all_windows(whole, 6)
    assert snapshots(query, 6) == snapshots(whole, 6)


def test_a_worker_goes_on_from_what_it_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    query, read, told = in_changes(tmp_path, 1), [], []
    loaded = type(WINDOWS).loaded
    monkeypatch.setattr(type(WINDOWS), "loaded", lambda *args: read.append(args) or loaded(*args))
    for batch in range(12):
        told += run(query, batch, rows(batch))[jobs.STATS].drop_null().to_pylist()
    assert read == []
    assert [(one["held"], one["cold"]) for one in told] == [(0, 0), *[(1, 0)] * 11]
    assert all(one["largest_cells"] == one["cells"] for one in told)
    assert all(one["restore_ms"] >= 0 and one["publish_ms"] >= 0 for one in told)
    assert told[0]["lag_ms"] > 50 * 365 * 86_400_000  # of 1970
    run(query, 9, rows(9))  # a restart before the batch
    assert len(read) == 1
    run(query, 10, rows(100))  # on another way: what was held of batch 10 is not its state
    run(query, 11, rows(11))
    assert len(read) == 1


NUMBERS = sl.Spec(
    "ts",
    {"slide": sl.sliding("100s", every="2s"), "visit": sl.session("3s")},
    {"n": sl.count(), "total": sl.sum("v"), "mean": sl.mean("v")},
    by=["k"],
    watermark=sl.bounded("20s"),
)
WINDOW = replace(NUMBERS, windows={"slide": sl.sliding("100s", every="2s")})


ENDS = replace(WINDOW, windows={"ten": sl.tumbling("10s")})  # whose cells are its windows


@pytest.mark.parametrize("spec", [SPEC, WINDOW, ENDS], ids=["both", "sliding", "tumbling"])
@pytest.mark.parametrize("restarts", [False, True])
def test_workers_that_hold_the_state_write_the_same_bytes(tmp_path: Path, restarts: bool, spec: sl.Spec) -> None:
    """Batches that are admitted again close what they closed before, and nobody asks what that was."""
    query, other, given = in_changes(tmp_path / "one", 1, spec), in_changes(tmp_path / "other", 1, spec), 0
    for batch in range(16):
        first = run(query, batch, rows(batch))
        given += first.num_rows - 1
        if restarts:
            forget()
            assert same(run(query, batch, rows(batch)), first)
        forget()
        assert same(run(other, batch, rows(batch)), first)
    assert given > 40
    files = [sorted(path.rglob("*.slices")) for path in (tmp_path / "one", tmp_path / "other")]
    assert [f.read_bytes() for f in files[0]] == [f.read_bytes() for f in files[1]]


class Slot:
    """A value, and a list, of Spark's store."""

    def __init__(self) -> None:
        self.kept: list[tuple] = []

    def get(self) -> Any:
        return self.kept[-1] if self.kept else None

    def update(self, value: tuple) -> None:
        self.kept = [value]

    def appendValue(self, value: tuple) -> None:  # noqa: N802
        self.kept.append(value)

    def clear(self) -> None:
        self.kept = []


class Listed(Slot):
    def get(self) -> Any:
        return iter(self.kept)


def run_in_spark(job: Job, batch: int, data: pa.RecordBatch, slots: list[tuple[Slot, Slot, Listed]]) -> pa.Table:
    """As ``run``, with the state of each place in slots of Spark's store."""
    assert job.files is not None
    mine = [data.take(pa.array(range(reader, data.num_rows, 2), pa.int64())) for reader in range(2)]
    sent = [b for reader, some in enumerate(mine) for b in stages.collect(job, iter([some]), Step("q", batch, reader))]
    out = []
    for p, kept in enumerate(slots):
        blobs = [blob for b in sent for blob in of_place(b, p).column(1).to_pylist()]
        storage = InSpark(Owner(job.files, "q", p), batch, *kept)
        out.append(stages.entered(job, storage, blobs, Step("q", batch, p)))
    return pa.concat_tables(out)


REVISED = replace(SPEC, allowed_lateness="8s", emit="changes")
BY_ROWS = sl.Spec(
    "ts", {"three": sl.rows(3, partial=True)}, {"n": sl.count()}, ["k", "s"], watermark=sl.bounded("2s"), sequence="v"
)


@pytest.mark.parametrize(
    ("spec", "prompt"), [(SPEC, False), (REVISED, True), (BY_ROWS, True)], ids=["native", "changes", "rows"]
)
def test_a_state_in_sparks_store_gives_what_files_give(tmp_path: Path, spec: sl.Spec, prompt: bool) -> None:
    """Readers do not judge; versions are changes, held or read; a batch that failed is given again."""
    in_files = replace(job(tmp_path, 3, spec), prompt=prompt)
    files = Files("", "windows", 3, spec.fingerprint(), in_spark=True)
    policy = Policy(large=1, share=100, most_changes=4)
    stored = replace(in_files, files=files, policy=policy)
    slots = [(Slot(), Slot(), Listed()) for _ in range(3)]
    changes = set()
    for batch in range(9):
        expected = run(in_files, batch, rows(batch))
        if batch % 3 == 2:
            state.HELD.clear()
        before = [[list(slot.kept) for slot in kept] for kept in slots]
        found = run_in_spark(stored, batch, rows(batch), slots)
        held = sum(row["held"] for row in found[jobs.STATS].drop_null().to_pylist())
        assert held == (0 if batch == 0 or batch % 3 == 2 else 3)
        assert told(found) == told(expected)
        if batch % 4 == 1:
            for kept, were in zip(slots, before, strict=True):
                for slot, was in zip(kept, were, strict=True):
                    slot.kept = was
            assert told(run_in_spark(stored, batch, rows(batch), slots)) == told(expected)
        changes.add(max(len(kept[2].kept) for kept in slots))
    assert changes == {0, 1, 2, 3}
    for wrong, refused in (
        ({"partitions": 2}, "was written for partitions=3, and this query has 2: keep the number"),
        (
            {"name": "south"},
            "was written for name='windows', and this query has 'south': keep the names, and the order",
        ),
        ({"fingerprint": "other"}, "was written for another spec .*give the changed query another checkpoint; store="),
    ):
        with pytest.raises(StateError, match=refused):
            run_in_spark(replace(stored, files=replace(files, **wrong)), 9, rows(9), slots)
    for kept in slots:
        kept[1].kept = [(kept[1].kept[0][0][:-1] + b"?",)]
    state.HELD.clear()
    with pytest.raises(StateError, match="the state of partition 0 in Spark's store is damaged"):
        run_in_spark(stored, 9, rows(9), slots)
    with pytest.raises(StateError, match="is missing before batch 9: the query began with another store= or part"):
        run_in_spark(stored, 9, rows(9), [(Slot(), Slot(), Listed())])


def told(table: pa.Table) -> tuple[list[dict], dict[str, int], Any]:
    """Windows, what is counted but for how the state lies, in all places, and the watermark."""
    names = [n for n in jobs.COUNTED if n not in ("held", "cold", "state_bytes")]
    places = table[jobs.STATS].drop_null().to_pylist()
    return windows(table), {n: sum(row[n] for row in places) for n in names}, places[0]["watermark"]


@pytest.mark.parametrize("spec", [NUMBERS, WINDOW])
def test_partials_stay_packed_until_they_are_needed(tmp_path: Path, spec: sl.Spec) -> None:
    """A state that is read before each batch answers, counts and is written as one that never was."""
    query, never_read, unread = job(tmp_path, 1, spec), sl.Operator(spec), 0
    for batch in range(12):
        found, pushed = run(query, batch, rows(batch)), never_read.push(rows(batch))
        assert windows(found) == sorted(pushed.windows.to_pylist(), key=repr)
        told = found[jobs.STATS].drop_null()[0].as_py()
        operator = restored(query, 0, batch, spec)
        tables = exchange.state_of(operator).store.runs
        unread += sum(isinstance(table, Unread) and table.unread for table in tables)
        assert sum(table.sizes()[0] for table in tables) == told["cells"]
        again = saved(operator)
        assert again == saved(exchange.loaded(spec, again[0]))
        sizes = [(table.sizes(), table.nbytes, table.weight) for table in tables]
        middles = [int(table.end[len(table) // 2]) for table in tables]
        later = [table.since(middle) for table, middle in zip(tables, middles, strict=True)]
        whole = operator.snapshot()  # unpacks all
        assert not any(isinstance(table, Unread) and table.unread for table in tables)
        assert sizes == [(table.sizes(), table.nbytes, table.weight) for table in tables]
        for table, half, middle in zip(tables, later, middles, strict=True):
            rest = table.take(table.end > middle)
            assert len(rest) == 0 if half is None else half.sizes() == rest.sizes()
            for one, other in zip(() if half is None else half.blocks, rest.blocks, strict=half is not None):
                assert (one == other).all()
        assert saved(operator) == again
        assert sl.Operator.restore(spec, whole).snapshot() == whole
    assert unread >= 12


def saved(operator: sl.Operator) -> tuple[bytes, int]:
    pieces, size = exchange.saved(operator)
    return b"".join(pieces), size


def test_any_number_that_changes_changes_the_checksum() -> None:
    data = np.random.default_rng(1).integers(0, 256, 4099, np.uint8)
    known = {checksum(data.tobytes())}
    for at in range(data.size):
        for other in (data[at] ^ 1, data[at] ^ 128):
            changed = data.copy()
            changed[at] = other
            known.add(checksum(changed.tobytes()))
    for size in range(0, 4099, 3):
        known.add(checksum(data[:size].tobytes()))
    assert len(known) == 1 + 2 * data.size + 4099 // 3 + 1
    swapped = data.reshape(-1)[:4096].reshape(-1, 32)[::-1].tobytes()
    assert checksum(swapped) != checksum(data[:4096].tobytes())
    assert checksum(bytes(64)) != checksum(bytes(96))


def answers(query: Job, batches: range, held: list[tuple[int, int]]) -> list[list[dict]]:
    """Windows of some batches; how many places were held and cold in each."""
    found = []
    for batch in batches:
        table = run(query, batch, rows(batch))
        told = table[jobs.STATS].drop_null().to_pylist()
        held.append((sum(one["held"] for one in told), sum(one["cold"] for one in told)))
        found.append(windows(table))
    return found


def test_a_worker_holds_several_states_and_never_a_stale_one(tmp_path: Path) -> None:
    """Two queries of three places each take turns; one is taken back, and goes on with other rows."""
    query, calm, held = in_changes(tmp_path / "one"), in_changes(tmp_path / "calm"), []
    for batch in range(6):
        assert answers(query, range(batch, batch + 1), held) == answers(calm, range(batch, batch + 1), held)
    assert held == [(0, 0)] * 2 + [(3, 0)] * 10
    again: list[tuple[int, int]] = []
    run(query, 3, rows(77))  # taken back to batch 3
    found = answers(query, range(4, 7), again)
    assert again == [(3, 0)] * 3
    forget()
    cold: list[tuple[int, int]] = []
    other = in_changes(tmp_path / "other")
    answers(other, range(3), cold)
    run(other, 3, rows(77))
    for batch in range(4, 7):
        forget()
        assert answers(other, range(batch, batch + 1), cold) == [found[batch - 4]]
    assert cold[-3:] == [(0, 3)] * 3


def test_a_state_held_of_an_older_version_goes_on_from_there(tmp_path: Path) -> None:
    """As with more places than workers, where a place comes back to a worker after some batches."""
    query = in_changes(tmp_path / "one", 1)
    run(query, 0, rows(0))
    run(query, 1, rows(1))
    before = dict(state.HELD._kept)
    for batch in range(2, 4):
        run(query, batch, rows(batch))  # elsewhere
    expected = restored(query, 0, 3).snapshot()
    state.HELD._kept = {folder: kept._replace(operator=restored(query, 0, 1)) for folder, kept in before.items()}
    _, operator, held = place(query).restore(SPEC, 3, own=True)
    assert held
    assert operator.snapshot() == expected


@pytest.mark.parametrize("hold", [-1, True, "1 GiB"])
def test_bytes_to_hold_are_a_number(hold: object) -> None:
    with pytest.raises(
        ValueError, match=f"hold_bytes must be a whole number of bytes, 0 to hold nothing; got {hold!r}"
    ):
        plans.check_state_arguments(None, "windows", None, 2, hold)


def test_what_is_held_stays_within_its_bytes(tmp_path: Path) -> None:
    query = in_changes(tmp_path)
    for budget, kept in ((0, 0), (1 << 30, 3)):
        forget()
        some = replace(query, files=replace(query.files, hold=budget))
        for batch in range(2):
            run(some, batch, rows(batch))
        assert len(state.HELD) == kept
    sizes = [kept.size for kept in state.HELD._kept.values()]
    assert all(size > 0 for size in sizes)
    two = replace(query, files=replace(query.files, hold=sizes[1] + sizes[2]))
    forget()
    run(two, 1, rows(1))
    assert [folder[-1] for folder in state.HELD._kept] == ["1", "2"]  # the place written longest ago went
    assert state.HELD.nbytes <= sizes[1] + sizes[2]


def test_versions_are_kept_that_others_build_on(tmp_path: Path) -> None:
    query = in_changes(tmp_path, 1)
    assert query.files is not None
    query = replace(query, files=replace(query.files, keep=3))
    for batch in range(33):
        run(query, batch, rows(batch, 2), readers=1)
    assert place(query).batches() == [28, 29, 30, 31, 32]  # 29 builds on 28
    forget()
    for batch in range(28, 33):
        restored(query, 0, batch)


def test_damage_anywhere_in_what_a_version_is_made_of_is_refused(tmp_path: Path) -> None:
    query = in_changes(tmp_path, 1)
    for batch in range(4):
        run(query, batch, rows(batch))
    for batch in range(4):
        path = version(query, batch)
        data = path.read_bytes()
        for damaged in damages(data, 300):
            path.write_bytes(damaged)
            forget()
            with pytest.raises(StateError, match=r"damaged|has format"):
                restored(query, 0, 3)
        path.unlink()
        with pytest.raises(StateError, match=f"after batch {batch} is missing"):
            restored(query, 0, 3)
        path.write_bytes(data)
    version(query, 2).unlink()
    run(query, 2, rows(77))
    forget()
    with pytest.raises(StateError, match=r"000000000003\..* builds on another version of batch 2 than is there"):
        restored(query, 0, 3)


def test_a_late_rewrite_of_a_batch_stops_nothing(tmp_path: Path) -> None:
    """A version that others build on stays; one of other rows counts for the batches that come after it."""
    query, calm = in_changes(tmp_path / "one", 1), in_changes(tmp_path / "calm", 1)
    for batch in range(4):
        assert windows(run(query, batch, rows(batch))) == windows(run(calm, batch, rows(batch)))
    before = restored(query, 0, 3).snapshot()
    run(query, 2, rows(77))
    forget()
    assert restored(query, 0, 3).snapshot() == before
    assert windows(run(query, 4, rows(4))) == windows(run(calm, 4, rows(4)))
    other = in_changes(tmp_path / "other", 1)
    for batch, seed in ((0, 0), (1, 1), (2, 77), (3, 3), (4, 4)):  # taken back to batch 2, which read other rows
        again = run(query, batch, rows(seed)) if batch > 2 else None
        assert again is None or windows(again) == windows(run(other, batch, rows(seed)))
        if again is None:
            run(other, batch, rows(seed))
    forget()
    assert restored(query, 0, 4).snapshot() == restored(other, 0, 4).snapshot()


def test_a_query_may_be_taken_back_and_forth(tmp_path: Path) -> None:
    """Rows A, then B, then A again: the last version counts, though its content was there before."""
    query = job(tmp_path, 1)
    run(query, 0, rows(0))
    found = []
    for seed in (1, 7, 1, 7, 7):
        run(query, 1, rows(seed))
        found.append(restored(query, 0, 1).snapshot())
    assert found[0] == found[2] != found[1] == found[3]
    names = sorted(path.name.split(".")[0] for path in tmp_path.rglob("000000000001*.slices"))
    assert names == ["000000000001", "000000000001-1", "000000000001-2", "000000000001-3"]


def test_an_equal_version_is_left_alone_and_a_damaged_one_replaced(tmp_path: Path) -> None:
    query = job(tmp_path, 1)
    run(query, 0, rows(0))
    first = version(query, 0)
    data, written = first.read_bytes(), first.stat().st_mtime_ns
    run(query, 0, rows(0))
    assert version(query, 0) == first
    assert first.stat().st_mtime_ns == written
    first.write_bytes(data[:-9] + b"123456789")
    with pytest.raises(StateError, match="damaged"):
        run(query, 1, rows(1))
    run(query, 0, rows(0))  # the batch before, given again
    assert version(query, 0).name.startswith("000000000000-1.")
    assert version(query, 0).read_bytes() == data
    run(query, 1, rows(1))


def test_a_full_disk_leaves_no_temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    query = job(tmp_path, 1)
    run(query, 0, rows(0))

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        run(query, 1, rows(1))
    monkeypatch.undo()
    assert not list(tmp_path.rglob(".*"))
    assert windows(run(query, 1, rows(1)))


def test_a_worker_that_holds_a_state_takes_the_spec_of_the_query_as_it_is_now(tmp_path: Path) -> None:
    """``on_overflow`` may change with a restart, and the fingerprint stays."""
    fields = {name: getattr(SPEC, name) for name in SPEC.__dataclass_fields__}
    fields |= {"windows": dict(SPEC.windows), "aggs": {"total": sl.sum("v")}}
    strict, lenient = sl.Spec(**fields), sl.Spec(**fields | {"on_overflow": "null"})
    assert strict.fingerprint() == lenient.fingerprint()
    most = pa.array(np.full(60, 2**62), pa.int64())
    for batch in range(2):
        run(in_changes(tmp_path, 1, strict), batch, rows(batch))
    much = rows(2).set_column(3, "v", most)
    batches = {2: much, 3: rows(3), 4: rows(9)}
    with pytest.raises(OverflowError, match="does not fit int64"):
        for batch, data in batches.items():
            run(in_changes(tmp_path, 1, strict), batch, data)
    at = place(in_changes(tmp_path, 1)).batches()[-1]
    again = {batch: data for batch, data in batches.items() if batch > at}
    found = [row for b, data in again.items() for row in windows(run(in_changes(tmp_path, 1, lenient), b, data))]
    assert None in {row["total"] for row in found}


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def written(tmp_path: Path) -> Job:
    query = job(tmp_path)
    for batch in range(3):
        run(query, batch, rows(batch))
    return query


def refused(written: Job, batch: int, sentence: str, query: str = "q") -> None:
    with pytest.raises(StateError, match=sentence):
        run(written, batch, rows(batch), query=query)


def test_a_place_that_is_not_the_drivers_is_refused(tmp_path: Path) -> None:
    """As ``/data/state`` is on each machine another one."""
    (tmp_path / "driver").mkdir()
    told = Files(str(tmp_path / "driver"), "windows", 3, SPEC.fingerprint()).announce()
    assert told.announce() == told  # one marker for all who come
    run(replace(job(tmp_path), files=told), 0, rows(0))
    elsewhere = replace(told, root=str(tmp_path / "executor"))
    with pytest.raises(StateError, match=r"partition 0 does not see .*driver\..* is not the same place for the driver"):
        run(replace(job(tmp_path), files=elsewhere), 0, rows(0))
    assert not list((tmp_path / "executor").rglob("*.slices"))
    (tmp_path / "file").touch()
    with pytest.raises(StateError, match=r"state='.*/file/state': the driver cannot write there: .*Not a directory"):
        replace(told, root=str(tmp_path / "file" / "state")).announce()


def test_a_missing_version_is_refused(written: Job) -> None:
    refused(written, 4, "after batch 3 is missing in .*it has 0 to 2")


def test_each_query_has_a_state_of_its_own(tmp_path: Path) -> None:
    """One DataFrame may be started twice; a new checkpoint begins anew."""
    query = job(tmp_path)
    for batch in range(3):
        first = run(query, batch, rows(batch), query="one")
        assert windows(run(query, batch, rows(batch), query="other")) == windows(first)
    refused(query, 3, "after batch 2 is missing in .*it has none", query="third")


def test_another_number_of_partitions_is_refused(written: Job, tmp_path: Path) -> None:
    refused(job(tmp_path, 4), 3, "holds state of 3 partitions; this query has partitions=4: keep the number")
    rescale(str(tmp_path), SPEC, 3, 4)
    run(job(tmp_path, 4), 3, rows(3))
    refused(written, 4, "holds state of 4 partitions; this query has partitions=3: keep the number")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    paths = pa.RecordBatch.from_arrays([pa.array([f"file:{tmp_path}/a.parquet"])], names=["path"])
    pq.write_table(pa.table({"v": ["1", "b"]}), tmp_path / "a.parquet")
    reading = files.Reading("parquet", "error", files.Csv(), ("v",))
    (text,) = files.read([paths], pa.schema({"v": pa.string()}), reading)
    assert text.column(0).to_pylist() == ["1", "b"]
    for name, why in (("v", "has type string and does not fit int64"), ("w", "column 'w' is missing in the file")):
        with pytest.raises(ValueError, match=rf"a\.parquet cannot be read as parquet with columns {name}: .*{why}"):
            list(files.read([paths], pa.schema({name: pa.int64()}), reading))


def test_another_spec_is_refused(written: Job, tmp_path: Path) -> None:
    changed = sl.Spec(
        "ts", {"w": sl.tumbling("5s")}, {"n": sl.count(), "sum": sl.sum("v"), "x": sl.min("s")}, by=["k", "s"]
    )
    other = r"was written for another spec \(windows was .* and is .*; spark_udfs\.drain, called with the old spec"
    refused(job(tmp_path, spec=changed), 3, other)


def test_a_file_of_another_partition_or_batch_is_refused(written: Job, tmp_path: Path) -> None:
    other = version(written, 2, 1)
    version(written, 2).unlink()
    (tmp_path / "windows" / "q" / "3" / "00000" / other.name).write_bytes(other.read_bytes())
    refused(written, 3, "was written for partition 1, not 0: it was moved")
    (tmp_path / "windows" / "q" / "3" / "00000" / other.name).rename(
        tmp_path / "windows" / "q" / "3" / "00000" / f"{2:012}.{'0' * 16}.none.slices"
    )
    refused(written, 3, "was written for partition 1, not 0: it was moved")


def test_slices_of_another_partition_are_refused(written: Job) -> None:
    (sent,) = stages.collect(written, iter([rows(3)]), Step("q", 3, 0))
    with pytest.raises(StateError, match="one task received what partitions 0, 1 keep: the plan was re-partitioned"):
        list(stages.merge(written, [sent.slice(0, 2)], Step("q", 3, 1)))


def test_tasks_may_be_numbered_otherwise(tmp_path: Path, undisturbed: list[dict]) -> None:
    """As behind a union; a batch that nobody has read is kept up with all the same."""
    query, found = job(tmp_path), []
    for batch in range(7):
        sent = list(stages.collect(query, iter([rows(batch)]), Step("q", batch, 4))) if batch < 6 else []
        for p in range(3):
            out = stages.merge(query, [of_place(b, p) for b in sent], Step("q", batch, 7 + p))
            found += windows(pa.Table.from_batches(out))
    assert sorted(found + drained(query, 6), key=repr) == undisturbed


def test_a_drained_query_does_not_go_on(written: Job) -> None:
    for p in range(3):
        place(written, p).mark_drained(2)
    run(written, 2, rows(2))
    refused(written, 3, "was drained after batch 2, which ended its stream")


def test_a_query_that_is_taken_back_to_before_its_end_goes_on(tmp_path: Path, undisturbed: list[dict]) -> None:
    query = job(tmp_path)
    before = [row for batch in range(3) for row in windows(run(query, batch, rows(batch)))]
    for batch in range(3, 6):
        run(query, batch, rows(batch + 10))
    assert drained(query, 5)
    refused(query, 6, "was drained after batch 5, which ended its stream")
    with pytest.raises(StateError, match="was drained after batch 5"):
        rescale(str(tmp_path), SPEC, 3, 2)
    back = Checkpoint("q", 2, 2)
    assert query.files is not None
    assert [moving._going_on(query.files, back, place).batches()[-1] for place in range(3)] == [5] * 3
    again = [row for batch in range(3, 6) for row in windows(run(query, batch, rows(batch)))]
    assert sorted(before + again + drained(query, 5), key=repr) == undisturbed
    run(query, 5, rows(5))  # its commit was lost: no way back
    refused(query, 6, "was drained after batch 5, which ended its stream")
    assert [len(place(query, p)._drained) for p in range(3)] == [1] * 3
    run(query, 3, rows(3))
    drained(query, 3)
    drained(query, 5)
    refused(query, 4, "was drained after batch 3, which ended its stream")


@pytest.mark.parametrize("moved", ["rescaled", "changed"])
def test_an_end_where_a_query_moves_to_is_one_that_it_went_back_from(tmp_path: Path, moved: str) -> None:
    """As of three partitions that it had, drained, and left by going back to two."""
    path, query = str(tmp_path), job(tmp_path, 2)
    for batch in range(3):
        run(query, batch, rows(batch))
    other = job(tmp_path, 3) if moved == "rescaled" else replace(query, files=replace(query.files, name="v2"))
    for p in range(other.partitions):
        place(other, p).mark_drained(1)
        place(other, p).mark_drained(2)
        place(other, p).mark_drained(9)
    assert rescale(path, SPEC, 2, 3) == 2 if moved == "rescaled" else change(path, SPEC, SPEC, 2, to="v2")
    assert run(other, 3, rows(3)).num_rows
    with pytest.raises(StateError, match="was drained after batch 3"):
        drained(other, 3)
        run(other, 4, rows(4))


def move(path: Path, how: str) -> None:
    """From two partitions, by ``rescale`` or ``change``."""
    assert (
        rescale(str(path), SPEC, 2, 3)
        if how == "rescaled"
        else change(str(path), SPEC, SPEC, 2, to="v2")
        == {
            "windows": {},
            "aggs": {},
        }
    )


@pytest.mark.parametrize("how", ["rescaled", "changed"])
@pytest.mark.parametrize("back", [1, 2])
def test_what_a_query_went_back_from_is_no_state_to_go_on_from(tmp_path: Path, how: str, back: int) -> None:
    """It moves after batch 2, and goes back to where it was: the batches that it had elsewhere do not count."""
    query = job(tmp_path, 2)
    other = job(tmp_path, 3) if how == "rescaled" else replace(query, files=replace(query.files, name="v2"))
    found = [windows(run(query, batch, rows(batch))) for batch in range(3)][: back + 1]
    move(tmp_path, how)
    for batch in range(3, 6):
        run(other, batch, rows(batch + 20))
    found += [windows(run(query, batch, rows(batch))) for batch in range(back + 1, 4)]
    refused(other, 4, f"after batch 3 is of a history that was given up: .* went on from batch {back + 1} under")
    refused(other, 6, "is of a history that was given up")
    assert [place(other, p).batches() for p in range(other.partitions)] == [list(range(2, back + 1))] * other.partitions
    move(tmp_path, how)
    found += [windows(run(other, batch, rows(batch))) for batch in range(4, 6)]
    straight = all_windows(job(tmp_path / "straight", 2), 6)
    assert sorted([row for some in found for row in some] + drained(other, 5), key=repr) == straight


def test_what_was_given_up_stays_so_after_the_query_has_moved_there_again(tmp_path: Path) -> None:
    """Set back a second time, to a batch that it ran in the other place."""
    two, three = job(tmp_path, 2), job(tmp_path, 3)
    for batch in range(3):
        run(two, batch, rows(batch))
    move(tmp_path, "rescaled")
    for batch in range(3, 5):
        run(three, batch, rows(batch + 20))
    for batch in range(3, 6):
        run(two, batch, rows(batch))
    move(tmp_path, "rescaled")
    run(three, 6, rows(6))
    assert [place(three, p).batches() for p in range(3)] == [[2, 5, 6]] * 3
    refused(three, 5, "holds state of 2 partitions; this query has partitions=3")


@pytest.mark.parametrize("back", [0, 2])
def test_a_place_that_it_came_to_by_way_of_another_does_not_count_either(tmp_path: Path, back: int) -> None:
    two, three, four = (job(tmp_path, n) for n in (2, 3, 4))
    for batch in range(3):
        run(two, batch, rows(batch))
    rescale(str(tmp_path), SPEC, 2, 3)
    if back == 0:
        run(three, 3, rows(3))
    rescale(str(tmp_path), SPEC, 3, 4)
    for batch in range(3 + (back == 0), 7):
        run(four, batch, rows(batch))
    for batch in range(back + 1, 6):
        run(two, batch, rows(batch + 10))
    for batch in (5, 6, 7):
        refused(four, batch, f"is of a history that was given up: .* went on from batch {back + 1} under")


def test_a_query_that_goes_back_once_more_goes_on_in_either_place(tmp_path: Path) -> None:
    query, other = job(tmp_path, 2), job(tmp_path, 3)
    for batch in range(3):
        run(query, batch, rows(batch))
    rescale(str(tmp_path), SPEC, 2, 3)
    for going in (other, query, other, query):  # each time from batch 2, which both have
        left = query if going is other else other
        for batch in range(3, 6):
            run(going, batch, rows(batch + going.partitions))
        for batch in range(4, 7):
            if batch <= place(left).latest() + 1:
                refused(left, batch, "is of a history that was given up")
    run(query, 6, rows(6))
    run(query, 7, rows(7))
    assert place(query).others() == []  # nothing of the other one could be taken for newer state


def test_a_place_for_late_rows_that_cannot_be_written_is_told_before_there_are_any(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    late = str(tmp_path / "file" / "late")
    early = conformed(rows(0).slice(0, 1), SCHEMA)
    with pytest.raises(StateError, match=r"late_path=.*/file/late.: this executor cannot write there: "):
        run(job(tmp_path / "state", late_path=late), 0, early)
    assert not place(job(tmp_path / "state")).batches()
    run(job(tmp_path / "other", late_path=str(tmp_path / "late")), 0, early)
    assert list((tmp_path / "late").iterdir()) == []


@pytest.mark.parametrize("ran", [1, 3])
def test_a_place_that_an_action_has_left_out_is_found_by_and_by(tmp_path: Path, ran: int) -> None:
    """As of ``limit`` in a sink that does nothing else, which runs the first places alone; there is one reader."""
    query = job(tmp_path, 4)
    for batch in range(ran):
        for sent in stages.collect(query, iter([rows(batch)]), Step("q", batch, 0)):
            for p in range(ran):
                list(stages.merge(query, [of_place(sent, p)], Step("q", batch, p)))
    sentence = f"partition {ran} after batch {ran - 1} is missing .* did not run every partition"
    with pytest.raises(StateError, match=sentence):
        list(stages.collect(query, iter([rows(ran)]), Step("q", ran, 0)))


def test_another_format_is_refused(written: Job, tmp_path: Path) -> None:
    path = version(written, 2)
    data = bytearray(path.read_bytes())
    data[8] = versions.FORMAT + 1
    path.write_bytes(data)
    refused(written, 3, f"has format {versions.FORMAT + 1}; this version of the library reads {versions.FORMAT}")


def damages(data: bytes, number: int) -> Iterator[bytes]:
    chance = random.Random(1)
    for _ in range(number):
        if chance.random() < 0.2:
            yield data[: chance.randrange(len(data))]
            continue
        flipped = bytearray(data)
        for _ in range(chance.choice([1, 1, 1, 2, 9])):
            flipped[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        yield bytes(flipped)


def test_a_damaged_file_is_never_read(written: Job, tmp_path: Path) -> None:
    path = version(written, 2)
    data = path.read_bytes()
    restored(written, 0, 2)
    refused = 0
    for damaged in damages(data, 4000):
        if damaged != data:
            path.write_bytes(damaged)
            with pytest.raises(StateError, match=r"damaged|has format"):
                restored(written, 0, 2)
            refused += 1
    assert refused > 3500


def test_paths_and_uris_open_the_same_file(tmp_path: Path) -> None:
    system, inside = filesystem(f"file://{tmp_path}/a b")
    assert (system.type_name, inside) == ("local", f"{tmp_path}/a b")
    assert filesystem(f"{tmp_path}/a b")[1] == inside
    assert filesystem(f"file:{tmp_path}/a b")[1] == inside
    with pytest.raises(ValueError, match=r"file:state/q1 has the scheme file: without a slash; .* or state/q1$"):
        filesystem("file:state/q1")
    with pytest.raises(ValueError, match="pyarrow cannot open it"):
        filesystem("nowhere://bucket/path")


def test_a_partition_over_its_bound_stops_the_query_before_its_state_is_published(tmp_path: Path) -> None:
    free, bound = job(tmp_path / "free"), job(tmp_path / "bound", max_bytes=400_000)
    for batch in range(3):
        assert same(run(free, batch, rows(batch)), run(bound, batch, rows(batch)))
    many = together([rows(3, 20_000).set_column(1, "k", pa.array(range(20_000))), rows(3)])
    said = r"partition \d would hold \d+ bytes after this batch, and max_bytes is 400000; the state is as it was before"
    with pytest.raises(StateError, match=said):
        run(bound, 3, many)
    assert same(run(free, 3, rows(3)), run(bound, 3, rows(3)))
