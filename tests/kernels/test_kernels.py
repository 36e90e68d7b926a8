"""What kernels are compiled with: not the results of any one of them."""

import gc
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import slicing as sl
from slicing.kernels.again import number_again
from slicing.kernels.floats import floats
from slicing.kernels.kernel import kernel
from slicing.kernels.on_stack import on_stack

FIRST_QUERY = """
import json, sys
import numpy as np, pyarrow as pa, slicing as sl
from numba.core import event

class Compiled(event.Listener):
    def on_start(self, given):
        names.append(given.data["dispatcher"].py_func.__module__)
    def on_end(self, given):
        pass

names = []
event.register("numba:compile", Compiled())
rows, keyed = np.arange(1000), sys.argv[1]
key = pa.array([f"k{i % 7}" for i in range(1000)]) if keyed else None
data = {"t": rows, "v": rows / 8} | ({} if key is None else {"k": key})
spec = sl.Spec(time="t", by=[] if key is None else ["k"], windows={"w": sl.tumbling(100), "s": sl.sliding(300, 100)},
               aggs={"n": sl.count(), "sum": sl.sum("v"), "low": sl.min("v")}, watermark=sl.bounded(10))
assert sl.Operator(spec).push(pa.table(data)).windows.num_rows
print(json.dumps([names, "numba.np.linalg" in sys.modules]))
"""


def test_first_queries_compile_their_own_kernels_and_none_of_numbas_functions(tmp_path: Path) -> None:
    """A query without keys, then one by texts, which compiles what it has beyond the first one."""
    modules: list[str] = []
    for keyed, most in (("", 10), ("string", 16)):
        modules += _first_query(keyed, tmp_path)[0]
        assert all(name.startswith("slicing.kernels.") for name in modules), modules
        assert len(modules) <= most
    again, all_of_numba = _first_query("string", tmp_path)
    assert not again
    assert not all_of_numba  # what is loaded is compiled: 0.1 s less


def _first_query(keyed: str, cache: Path) -> tuple[list[str], bool]:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run(
        [sys.executable, "-c", FIRST_QUERY, keyed], env=environment, capture_output=True, text=True, check=True
    )
    modules, all_of_numba = json.loads(ran.stdout)
    return modules, all_of_numba


def test_reports_are_numbered_by_a_kernel_of_one_type() -> None:
    """Each other type would cost its compilation in the first query; columns of equal numbers are no other type."""
    windows: dict[str, Any] = {"one": sl.tumbling("1000s"), "two": sl.sliding("1000s", every="500s")}
    rng, start = np.random.default_rng(0), np.datetime64("2026-11-25T12:00", "us")
    for some in (["one"], ["one", "two"]):
        chosen = {name: windows[name] for name in some}
        spec = sl.Spec("t", chosen, {"n": sl.count()}, by=["k"], emit="updates", trigger=sl.each_push())
        op, counted = sl.Operator(spec), list[int]()
        for push in range(6):
            times = start + (np.arange(300) + 300 * push) * np.timedelta64(1, "s")
            out = op.push(pa.record_batch({"t": times, "k": rng.integers(0, 9, 300)}))
            counted += out.windows["revision"].to_pylist()
        assert max(counted) > 1
    assert len(number_again.signatures) == 1


@kernel
def _extremes(a, b, low, high):
    for i in range(a.size):
        low[i], high[i] = min(a[i], b[i]), max(a[i], b[i])


@pytest.mark.parametrize("one, other", [("i8", "i8"), ("u8", "u8"), ("f8", "f8"), ("i4", "i8"), ("i8", "f8")])
def test_the_smaller_and_the_larger_of_two_numbers_are_those_of_numpy(one: str, other: str) -> None:
    values = np.array([0, 1, 5, 2**31 - 1])
    lowest = [np.iinfo(t).min if t[0] == "i" else 0 for t in (one, other)]
    a = np.array([*values, lowest[0]]).astype(one).repeat(5)
    b = np.tile(np.array([*values, lowest[1]]).astype(other), 5)
    wanted = np.minimum(a, b), np.maximum(a, b)
    low, high = np.empty_like(wanted[0]), np.empty_like(wanted[1])
    _extremes(a, b, low, high)
    assert low.tolist() == wanted[0].tolist()
    assert high.tolist() == wanted[1].tolist()


@kernel
def _through_rooms(x, out):
    some, others = on_stack(64, np.int64), on_stack(64, np.uint8)
    for start in range(0, x.size, 64):
        y = x[start : start + 64]
        for i in range(y.size):
            some[i], others[i] = y[i], y[i]
        for i in range(y.size):
            out[start + i] = some[y.size - 1 - i] + others[i]


def test_a_kernel_has_room_of_its_own() -> None:
    x, out = np.arange(1000), np.empty(1000, np.int64)
    _through_rooms(x, out)
    blocks = [x[at : at + 64] for at in range(0, 1000, 64)]
    assert out.tolist() == np.concatenate([block[::-1] + block % 256 for block in blocks]).tolist()


@pytest.mark.parametrize("collecting", [True, False])
def test_python_does_not_collect_while_a_kernel_is_compiled(collecting: bool) -> None:
    before, seen = gc.isenabled(), []

    @kernel
    def one(x):
        return x + 1

    def noted(phase: str, about: object) -> None:
        seen.append(phase)

    one._cache.disable()
    one(1.0)  # numba sets itself up once in a process
    gc.callbacks.append(noted)
    (gc.enable if collecting else gc.disable)()
    try:
        assert one(1) == 2
        assert gc.isenabled() is collecting
        assert len(seen) <= 2  # started and stopped once, afterwards
    finally:
        gc.callbacks.remove(noted)
        (gc.enable if before else gc.disable)()


@kernel
def _doubled_floats(words):
    seen = floats(words)
    for i in range(seen.shape[0]):
        seen[i, 1] *= 2.0


def test_words_are_seen_as_floats() -> None:
    words = np.zeros((5, 3), np.int64)
    words.view(np.float64)[:, 1] = np.arange(5) + 0.5
    _doubled_floats(words[1:4])
    assert words.view(np.float64)[:, 1].tolist() == [0.5, 3.0, 5.0, 7.0, 4.5]
    assert not words[:, [0, 2]].any()


CHECKED = """
import numpy as np
from slicing.kernels.at_once import add_basic_f, widen_span
from slicing.kernels.guard import inside
from slicing.kernels.kernel import kernel
from slicing.kernels.scatter import scatter_basic_f, scatter_count, scatter_span, scatter_sums_f, scatter_sums_i
from slicing.kernels.segments import segment_basic_f
from slicing.kernels.text import take_texts

def index_error(function, *given):
    try:
        function(*given)
    except IndexError:
        return True
    return False

cells, rows = np.array([0, 3], np.int32), np.zeros(2)
def quads(size):
    room = np.zeros(4 * size + 8, np.int64)
    first = -room.ctypes.data % 32 // 8
    return room[first : first + 4 * size].reshape(size, 4)

names, lengths = np.zeros((1, 1), np.int64), np.array([3])
def texts(number, room):
    take_texts(np.array(number), names, lengths, np.empty(room, np.uint8), np.empty(len(number) + 1, np.int32))

for size, beyond in ((4, False), (3, True)):
    found = {
        "count": index_error(scatter_count, cells, np.zeros((size, 2), np.int64)),
        "floats": index_error(scatter_basic_f, cells, rows.view(np.int64), quads(size), np.zeros((4, 2))),
        "sums": index_error(scatter_sums_f, cells, np.empty(0, np.uint8), rows, quads(size)),
        "whole": index_error(scatter_sums_i, cells, np.empty(0, np.uint8), cells.astype(np.int64), quads(size)),
        "spans": index_error(scatter_span, cells, np.arange(2), np.zeros((size, 2), np.int64)),
        "runs": index_error(
            segment_basic_f, np.array([0]), np.array([4]), np.zeros(size), np.zeros(size, np.int64),
            *(np.zeros((1, 5), kind) for kind in (np.int64, np.float64))
        ),
        "names": index_error(texts, [0, 0], size * 2 + 3),
    }
    print(sorted(name for name, raised in found.items() if raised))
assert index_error(scatter_count, np.array([0, -5], np.int32), np.zeros((4, 2), np.int64))
"""


def test_kernels_of_a_checked_build_refuse_an_index_beyond_their_arrays() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "SLICING_CHECK": "1"}
    run = {"capture_output": True, "text": True, "check": False}
    found = subprocess.run([sys.executable, "-c", CHECKED], env=environment, **run)
    raised = ["count", "floats", "names", "runs", "spans", "sums", "whole"]
    assert found.stdout.splitlines() == ["[]", str(raised)], found.stderr


def test_a_checked_build_and_a_plain_one_do_not_share_kernels(tmp_path: Path) -> None:
    script = "import numpy as np; from slicing.kernels.scatter import scatter_count as s\n"
    script += "s(np.zeros(2, np.int32), np.zeros((1, 2), np.int64)); print(sum(s.stats.cache_hits.values()))"
    paths = {"NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    hits = []
    for checked in ("0", "1", "0", "1"):
        environment = {**os.environ, **paths, "SLICING_CHECK": checked}
        ran = subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
        )
        hits.append(int(ran.stdout))
    assert hits == [0, 0, 1, 1]
