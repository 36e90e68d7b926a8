"""Parts of a source that threads read at the same time."""

import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import slicing as sl
from slicing.columns import datasets, parquet
from slicing.columns.wanted import Wanted
from slicing.system.ahead import in_order


def slowly(part, seconds=0.0, items=3):
    for item in range(items):
        time.sleep(seconds)
        yield part, item


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_items_come_in_the_order_of_parts(threads):
    parts = [partial(slowly, part, 0.002 * (part % 3)) for part in range(20)]
    expected = [(part, item) for part in range(20) for item in range(3)]
    for room in (1, 2, 100):
        assert list(in_order(iter(parts), threads, threads + 2, room, len)) == expected


def test_no_more_parts_are_begun_than_may_be_held():
    begun = []

    def part(number):
        begun.append(number)
        return slowly(number)

    found = in_order((partial(part, number) for number in range(20)), 2, 4, 100, len)
    for number in range(17):
        for _ in range(3):
            next(found)
        assert len(begun) <= number + 4
    found.close()


@pytest.mark.parametrize("threads", [1, 2])
def test_an_error_comes_after_the_parts_before(threads):
    def wrong():
        yield "lost"
        raise OSError("damaged")

    parts = [partial(slowly, 0), partial(slowly, 1), wrong, partial(slowly, 3)]
    found, seen = in_order(iter(parts), threads, 4, 100, len), []
    with pytest.raises(OSError, match="damaged"):
        seen.extend(item for item in found if item != "lost")
    assert [part for part, _ in seen] == [0, 0, 0, 1, 1, 1]


def test_nothing_reads_after_close():
    for room in (1, 100):
        found = in_order((partial(slowly, part, 0.01) for part in range(100)), 3, 5, room, len)
        assert next(found) == (0, 0)
        found.close()
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("slicing reads")]


def test_no_more_items_wait_than_there_is_room_for():
    read = [0] * 10

    def part(number):
        for _ in range(50):
            read[number] += 1
            yield "12345"

    found = in_order((partial(part, number) for number in range(10)), 2, 4, 15, len)
    for taken in range(1, 501):
        next(found)
        if taken % 25 == 1:
            time.sleep(0.01)
        assert sum(read) <= taken + 4 * 3 + 2
    assert list(found) == []


def test_the_caller_reads_if_no_thread_can_be_started(monkeypatch):
    def start(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    found = in_order((partial(slowly, part) for part in range(9)), 3, 5, 1, len)
    assert list(found) == [(part, item) for part in range(9) for item in range(3)]


AT_THE_END = """
import atexit, sys, threading, time
import slicing as sl

spec = sl.Spec("t", {"w": sl.whole()}, {"n": sl.count()})

def answer(before):
    print(before, sl.aggregate(sys.argv[1], spec, threads=2)["n"].to_pylist())

def outlive():
    threading.main_thread().join()
    answer("thread")

answer("main")
atexit.register(answer, "atexit")
threading.Thread(target=outlive).start()
"""


def test_files_are_read_while_the_interpreter_ends(tmp_path):
    """In a thread that outlives the main thread, and in a function of atexit: files of more than one part."""
    rows = datasets.TOGETHER * datasets.LARGEST
    for name in ("a", "b"):
        pq.write_table(pa.table({"t": np.arange(rows)}), tmp_path / f"{name}.parquet", row_group_size=rows // 4)
    root = Path(__file__).resolve().parents[2]
    asked = [sys.executable, "-c", AT_THE_END, str(tmp_path)]
    done = subprocess.run(asked, cwd=root, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == [f"{when} [{2 * rows}]" for when in ("main", "thread", "atexit")], done.stderr


@pytest.fixture
def few_rows_at_a_time(monkeypatch):
    for name in ("SMALLEST", "LARGEST"):
        monkeypatch.setattr(datasets, name, 1000)


@pytest.mark.skipif(not datasets.MAY_SHARE_FILES, reason="row groups are read side by side from pyarrow 20 on")
@pytest.mark.parametrize(("group", "side_by_side"), [(700, True), (3000, True), (20_000, False)])
def test_row_groups_are_read_side_by_side_unless_they_are_large(
    group, side_by_side, tmp_path, few_rows_at_a_time, monkeypatch
):
    rng = np.random.default_rng(1)
    start = 1_700_000_000_000_000_000
    times = start + np.sort(rng.integers(0, 5000, 60_000))
    table = pa.table({"t": times, "k": rng.integers(0, 5, 60_000), "v": range(60_000)})
    for name, rows in (("a", table[:50_000]), ("b", table[50_000:])):
        pq.write_table(rows, tmp_path / f"{name}.parquet", row_group_size=group)
    spec = sl.Spec("t", {"w": sl.tumbling(100)}, {"first": sl.first("v"), "all": sl.collect("v")}, by="k")
    threads, opened = set(), parquet.opened

    def seen(*file):
        threads.add(threading.current_thread().name)
        return opened(*file)

    monkeypatch.setattr(parquet, "opened", seen)
    assert sl.aggregate(tmp_path, spec, threads=2).equals(sl.aggregate(table, spec, threads=1))
    assert any(name.startswith("slicing reads") for name in threads) == side_by_side
    between = start + 1234, start + 3210
    some = sl.aggregate(tmp_path, spec, threads=2, between=between)
    assert some.equals(sl.aggregate(table, spec, between=between, threads=1))


@pytest.mark.skipif(not datasets.MAY_SHARE_FILES, reason="row groups are read side by side from pyarrow 20 on")
def test_small_files_are_read_together(tmp_path, few_rows_at_a_time, monkeypatch):
    """Parts are as many files as have 4000 rows."""
    for at in range(110):
        pq.write_table(pa.table({"t": range(100 * at, 100 * at + 100)}), tmp_path / f"{at:03}.parquet")
    sizes, parts = [], parquet.parts

    def seen(*asked):
        for part in parts(*asked):
            sizes.append(len(part))
            yield part

    monkeypatch.setattr(parquet, "parts", seen)
    spec = sl.Spec("t", {"w": sl.tumbling(1000)}, {"all": sl.collect("t")})
    expected = [list(range(start, start + 1000)) for start in range(0, 11_000, 1000)]
    for threads in (1, 2):
        assert sl.aggregate(tmp_path, spec, threads=threads)["all"].to_pylist() == expected
        assert sl.aggregate(f"{tmp_path}/00*", spec, threads=threads)["all"].to_pylist() == expected[:1]
    assert sizes == 2 * [40, 40, 30, 10]


@pytest.mark.skipif(not datasets.MAY_SHARE_FILES, reason="row groups are read side by side from pyarrow 20 on")
def test_texts_are_read_ahead_by_their_bytes(tmp_path, few_rows_at_a_time, monkeypatch):
    table = pa.table({"t": range(10_000), "x": ["x" * 1000] * 10_000})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=500, use_dictionary=False)
    held, decoded, pieces = 400_000, [], parquet.pieces

    def counted(*asked):
        for batch in pieces(*asked):
            decoded.append(batch.nbytes)
            yield batch

    monkeypatch.setattr(parquet, "pieces", counted)
    monkeypatch.setattr(datasets, "HELD", held)
    taken = []
    for batch in datasets.of_dataset(ds.dataset(tmp_path), Wanted(threads=2)):
        time.sleep(0.0005)
        taken.append(batch.nbytes)
        assert taken[-1] <= 1.1 * 1000 * (8 + datasets.WORDS)
        assert sum(decoded) - sum(taken) <= held + 3 * max(decoded)
    assert sum(taken) > 10_000_000
