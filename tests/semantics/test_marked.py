"""Keys with watermarks of their own: each key's windows are those of an oracle that has this key's rows alone.

`SLICING_CASES` says how many random cases in total.
"""

from __future__ import annotations

import copy
import pickle
import random
from collections.abc import Callable
from dataclasses import replace
from math import inf

import harness
import pyarrow as pa
import pytest
from harness import compare_late, compare_windows, moment, plain_rows, plain_time, share
from hypothesis import given
from hypothesis import strategies as st
from oracle import Oracle, Refused, Values, rank
from strategies import Case, Kit, cases

import slicing as sl

SEEDS = st.integers(0, 2**32)
KEYED = Kit(keys=(1, 1, 2), watermarks=("bounded", "manual", "manual", "per_source"), compiled=False, counts=(1, 1, 2))


class ByKey:
    """An oracle a key, and one of the stream, which tells its watermark."""

    def __init__(self, case: Case) -> None:
        self.case, self.by = case, case.query["by"]
        self.stream = Oracle(case.columns, {**case.query, "windows": {}})
        self.keys: dict[tuple, Oracle] = {}
        self.marks: dict[tuple, float] = {}

    def key(self, row: Values) -> tuple:
        return tuple(rank(row[name]) for name in self.by)

    def of(self, key: tuple) -> Oracle:
        if key not in self.keys:
            self.keys[key] = Oracle(self.case.columns, {**self.case.query, "watermark": {"kind": "manual"}})
            self.keys[key].advance(max(self.stream.watermark, self.marks.get(key, -inf)))
        return self.keys[key]

    def step(self, rows: list[Values], watermark: float = -inf, marks: list[tuple[tuple, float]] = ()) -> tuple:
        """Windows, late rows and the sum of what was counted; one that fails changes nothing."""
        saved = copy.deepcopy((self.keys, self.marks))
        was = {name: copy.copy(state) for name, state in vars(self.stream).items()}
        try:
            return self._step(rows, watermark, marks)
        except Refused:
            self.keys, self.marks = saved
            vars(self.stream).update(was)
            raise

    def _step(self, rows: list[Values], watermark: float, marks: list[tuple[tuple, float]]) -> tuple:
        outs = []
        for key in dict.fromkeys(map(self.key, rows)):
            outs.append(self.of(key).push([row for row in rows if self.key(row) == key]))
        self.stream._step(rows, watermark)
        for key, mark in marks:
            self.marks[key] = max(mark, self.marks.get(key, -inf))
        for key, known in self.keys.items():
            reached = max(self.stream.watermark, self.marks.get(key, -inf))
            if reached > -inf:
                outs.append(known.advance(reached))
        windows = [row for out in outs for row in out.windows]
        late = [row for out in outs for row in out.late]
        return windows, late, {n: sum(out.stats[n] for out in outs) for n in ("windowed", "late", "outside")}


def asked(case: Case) -> Case:
    """Windows of single keys only."""
    windows = {
        name: {k: (True if k == "per_key" else v) for k, v in window.items() if k != "full"}
        for name, window in case.query["windows"].items()
    }
    return replace(case.asking(windows=windows), told=None)


def some_marks(case: Case, rng: random.Random) -> list[tuple[Values, float]]:
    """Of keys that have come, or are to come; none of them a time that no row is near."""
    everything = [row for row in case.named(case.rows()) if row["t"] is not None]
    if not everything or rng.random() < 0.3:
        return []
    found = []
    for row in rng.choices(everything, k=rng.choice([1, 1, 2, 5])):
        time = rng.choice(everything)["t"]
        found.append((row, inf if rng.random() < 0.08 else time + rng.choice([0, 0, 1, 2])))
    return found


def table_of(case: Case, marks: list[tuple[Values, float]]) -> pa.Table:
    columns = {n: harness.arrow_array([row[n] for row, _ in marks], case.columns[n]) for n in case.query["by"]}
    times = [None if mark == inf else mark for _, mark in marks]
    present = harness.arrow_array([0 if time is None else time for time in times], case.columns["t"])
    gone = pa.array([time is None for time in times])
    return pa.table(columns | {"t": pa.compute.if_else(gone, pa.scalar(None, present.type), present)})


class Both:
    """The operator and the oracles, step by step."""

    def __init__(self, case: Case, seed: int, carried: bool) -> None:
        case, self.rng, self.carried = asked(case), random.Random(seed), carried
        self.built = harness.spec(case)
        if carried:
            given = {name: getattr(self.built, name) for name in self.built.__dataclass_fields__}
            self.built = sl.Spec(**(given | {"watermark": sl.punctuated("mark", by=list(self.built.by))}))
            case = case.asking(watermark={"kind": "manual"})
        self.case, self.wanted, self.op, self.pushed = case, ByKey(case), sl.Operator(self.built), False

    def push(self, given: list[tuple], where: str) -> None:
        rows, marks = self.case.named(given), []
        if self.carried:
            marks = [(row, row["mark"]) for row in rows if row["t"] is not None and row["mark"] is not None]
        out = self.both(lambda: self.op.push(harness.batch(self.case, given)), (rows, -inf, marks), where)
        self.pushed = self.pushed or out is not None

    def advance(self, watermark: float, where: str) -> None:
        marks = some_marks(self.case, self.rng) if self.pushed else []
        if marks or watermark > -inf:
            at = None if watermark == -inf else moment(watermark, self.case.columns["t"])
            table = table_of(self.case, marks) if marks else None
            self.both(lambda: self.op.advance(at, marks=table), ([], watermark, marks), where)

    def restart(self) -> None:
        self.op = sl.Operator.restore(self.built, bytes(self.op.snapshot()))

    def flush(self) -> None:
        self.both(self.op.flush, ([], inf, []), "flush")

    def both(self, step: Callable[[], sl.Output], given: tuple, where: str) -> sl.Output | None:
        """Do it on both sides and compare; None: it is an error on both."""
        rows, watermark, marks = given
        try:
            expected = self.wanted.step(rows, watermark, [(self.wanted.key(row), mark) for row, mark in marks])
        except Refused:
            expected = None
        try:
            out = step()
        except (ValueError, OverflowError) as error:
            assert expected is None, f"{where} failed: {error}\n{self.case!r}"
            return None
        assert expected is not None, f"{where} should have failed\n{self.case!r}"
        self.compare(out, expected, where)
        return out

    def compare(self, out: sl.Output, expected: tuple, where: str) -> None:
        windows, late, counts = expected
        compare_windows(self.case, sorted(windows, key=self.wanted.stream.place), plain_rows(out.windows), where)
        if where.startswith("push"):
            compare_late(self.case, late, out.late, where)
            assert counts == {name: out.stats[name] for name in counts}, f"{where}\n{self.case!r}"
        if where != "flush" and (self.pushed or where.startswith("push")):
            reached = self.wanted.stream.watermark
            assert plain_time(out.watermark, self.case.columns["t"]) == (None if reached == -inf else reached)


def check(case: Case, seed: int, carried: bool = False) -> None:
    both = Both(case, seed, carried)
    for at, step in enumerate(both.case.steps):
        where = f"{step[0]} (step {at})"
        if step[0] == "restart":
            both.restart()
        elif step[0] == "advance":
            both.advance(step[1], where)
        else:
            both.push(step[1], where)
            if both.rng.random() < 0.7:
                both.advance(-inf, f"marks after {where}")
    both.flush()


@share(6)
@given(cases(KEYED), SEEDS)
def test_each_keys_windows_are_those_of_its_own_watermark(case: Case, seed: int) -> None:
    check(case, seed)


@share(2)
@given(cases(replace(KEYED, watermarks=("punctuated",))), SEEDS)
def test_rows_carry_the_marks_of_their_keys(case: Case, seed: int) -> None:
    check(case, seed, carried=True)


SMALL = Kit(
    kinds=("tumbling", "sliding", "session", "session", "rows", "per_row", "frame", "punctuation", "last_rows"),
    keys=(1, 1, 2),
    watermarks=("bounded", "manual", "manual"),
    rich_values=False,
    compiled=False,
    counts=(1, 1, 2),
)


@share(8)
@given(cases(SMALL), SEEDS)
def test_windows_of_each_kind_follow_their_keys(case: Case, seed: int) -> None:
    check(case, seed)


# --- single cases -----------------------------------------------------------------------------------------------------


def rows(*times: int | None, k: str = "") -> pa.Table:
    return pa.table({"t": pa.array(times, pa.int64()), "k": list(k or "a" * len(times))})


def operator(**given: object) -> sl.Operator:
    asked = {"windows": {"w": sl.tumbling(10)}, "aggs": {"n": sl.count()}, "by": "k", "watermark": sl.manual()}
    return sl.Operator(sl.Spec("t", **(asked | given)))


def found(out: sl.Output) -> list[tuple]:
    return [(row["k"], row["window_start"], row["n"]) for row in out.windows.to_pylist()]


def test_a_mark_closes_the_windows_of_its_key_and_makes_its_rows_late() -> None:
    op = operator()
    op.push(rows(1, 2, 11, k="aba"))
    out = op.advance(marks=rows(15, 9, k="ab"))
    assert found(out) == [("a", 0, 1)] and out.watermark is None
    out = op.push(rows(9, 9, 14, k="aba"))
    assert out.late["k"].to_pylist() == ["a"] and out.stats.windowed == 2 and out.stats.cells == 2
    op = pickle.loads(pickle.dumps(op))
    assert found(op.advance(10)) == [("b", 0, 2)]
    assert found(op.advance(20)) == [("a", 10, 2)] and op.advance(21).stats.cells == 0


def test_marks_never_go_back_and_the_streams_watermark_overtakes_them() -> None:
    op = operator()
    op.push(rows(1, 21))
    op.advance(marks=rows(20))
    op.advance(5, marks=rows(10))
    assert op.push(rows(15)).stats.late == 1
    assert found(op.advance(30)) == [("a", 20, 1)]
    assert op.push(rows(25, 30)).stats.late == 1 and op.push(rows(30, 30)).stats.windowed == 2


def test_a_mark_between_edges_makes_rows_late_for_the_whole_stream() -> None:
    """As a watermark does: windows between edges still take the row, and whole() does not."""
    for marked in (True, False):
        op = operator(windows={"w": sl.tumbling(10), "v": sl.whole()})
        op.push(rows(3, 4, k="ab"))
        op.advance(marks=rows(5, 5, k="ab")) if marked else op.advance(5)
        assert op.push(rows(4, k="a")).stats.late == 0
        counted = {(row["window"], row["k"]): row["n"] for row in op.flush().windows.to_pylist()}
        assert counted == {("w", "a"): 2, ("w", "b"): 1, ("v", "a"): 1, ("v", "b"): 1}


def test_a_null_time_ends_a_key() -> None:
    windows = {"w": sl.rows(3, partial=True), "v": sl.whole(), "s": sl.session(5)}
    op = operator(windows=windows)
    op.push(rows(1, 2, k="ab"))
    out = op.advance(marks=rows(None))
    assert sorted((row["window"], row["k"]) for row in out.windows.to_pylist()) == [("s", "a"), ("v", "a"), ("w", "a")]
    assert op.push(rows(10**15, 3, k="ab")).late["k"].to_pylist() == ["a"]
    assert set(op.flush().windows["k"].to_pylist()) == {"b"}


def test_a_state_per_edge_and_not_per_mark() -> None:
    """Twenty thousand keys, each with a mark of its own, are as many groups as there are edges between them."""
    keys = [str(number) for number in range(20_000)]
    op = operator()
    op.push(pa.table({"t": [5] * len(keys), "k": keys}))
    out = op.advance(marks=pa.table({"t": list(range(len(keys))), "k": keys}).slice(0, 30))
    assert out.windows.num_rows == 20 and [group.watermark for group in op._now.groups] == [0, 10, 20]
    out = op.advance(marks=pa.table({"t": [10 + number % 10 for number in range(len(keys))], "k": keys}))
    assert out.windows.num_rows == len(keys) - 20


def test_bytes_count_the_marks() -> None:
    op, keys = operator(), [f"k{number}" for number in range(1000)]
    op.push(pa.table({"t": [1] * 1000, "k": keys}))
    op.advance(5)
    marked = op.advance(marks=pa.table({"t": [15] * 1000, "k": keys}))
    assert (marked.windows.num_rows, marked.stats.cells, marked.stats["keys"]) == (1000, 0, 1000)
    passed = op.advance(16)
    assert (passed.stats["keys"], marked.stats.bytes - passed.stats.bytes) == (1000, 1000 * 16)


def test_keys_that_are_gone_are_forgotten_and_marked_ones_are_not() -> None:
    op, sizes = operator(), []
    for step in range(30):
        keys = [f"{step} {number}" for number in range(1000)]
        op.push(pa.table({"t": [10 * step] * 1000, "k": keys}))
        op.advance(10 * step, marks=pa.table({"t": [10 * step + 10] * 1000, "k": keys}))
        sizes.append(op.advance(10 * step).stats.bytes)
    assert max(sizes[20:]) < 2 * max(sizes[5:10])
    op.advance(marks=pa.table({"t": [10**9], "k": ["last"]}))
    for step in range(30, 40):
        op.push(pa.table({"t": [10 * step] * 1000, "k": [f"{step} {number}" for number in range(1000)]}))
        op.advance(10 * step + 10)
    assert op.push(pa.table({"t": [10**8], "k": ["last"]})).stats.late == 1


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match="marks of keys need the columns of the rows; push some first"):
        operator().advance(marks=rows(5))
    with pytest.raises(TypeError, match="advance takes a watermark, marks= of keys, or both; got none"):
        operator().advance()
    for asked_for, said in [
        ({"by": []}, r"advance\(marks=\) marks keys, and by=\[\] has none"),
        ({"trigger": sl.each_push(), "emit": "updates"}, "closes windows of single keys, and trigger="),
        (
            {"windows": {"w": sl.rows(2, per_key=False)}},
            r"windows\['w'\] with per_key=False counts the rows of all keys",
        ),
    ]:
        op = operator(**asked_for)
        op.push(rows(1))
        with pytest.raises(ValueError, match=said):
            op.advance(marks=rows(5))
    op = operator()
    op.push(rows(1))
    with pytest.raises(TypeError, match="marks: key column 'k' has type int64; it must be string, as in the rows"):
        op.advance(marks=pa.table({"t": [5], "k": [1]}))
    with pytest.raises(TypeError, match="marks: time column 't' has type double; it must be int64, as in the rows"):
        op.advance(marks=pa.table({"t": [5.0], "k": ["a"]}))
    op.advance(marks=rows(15))
    with pytest.raises(ValueError, match="add_window: 1 keys have marks ahead of the stream"):
        op.add_window("v", sl.tumbling(20))
    with pytest.raises(ValueError, match="marks keys of x; by must name the key columns: k"):
        operator(watermark=sl.punctuated("mark", by="x"))
    spec = operator(watermark=sl.punctuated("mark", by="k")).spec
    with pytest.raises(ValueError, match="build the operator without max_windows_per_push=5"):
        sl.Operator(spec, max_windows_per_push=5)
    assert sl.aggregate(rows(1, 2).append_column("mark", [[None, 1]]), spec)["n"].to_pylist() == [2]


def test_an_ended_keys_rows_in_no_window_are_outside_not_late() -> None:
    op = operator(windows={"w": sl.sliding(5, 8)})
    op.push(rows(1))
    op.advance(marks=rows(None))
    out = op.push(rows(2, 6, 12, 14, 6, k="aaaab"))
    assert out.late["t"].to_pylist() == [2, 12] and (out.stats.late, out.stats.outside) == (2, 3)


def test_progress_knows_the_open_sessions_of_marked_keys() -> None:
    op = operator(windows={"s": sl.session(2)}, watermark=sl.bounded(0))
    op.push(rows(1, 3, 5, 7))
    assert op.advance(marks=rows(8)).progress["window_start"] == 1
    assert op.push(rows(9, k="b")).progress["window_start"] == 1
    assert op.advance(marks=rows(10)).progress["window_start"] == 7


class Parts:
    """What each step reports of tumbling windows of 10, key by key: a part a step, of rows that none had before."""

    def __init__(self, lateness: int) -> None:
        self.lateness, self.reached, self.marks, self.keys = lateness, -inf, {}, {}

    def step(self, given: list[tuple] = (), reached: float = -inf, marks: list[tuple] = ()) -> list[tuple]:
        for t, k in given:
            if t // 10 * 10 + 10 + self.lateness > max(self.reached, self.marks.get(k, -inf)):
                self.keys.setdefault((t // 10 * 10, k), [0, []])[1].append(t)
        self.reached = max(self.reached, reached)
        for t, k in marks:
            self.marks[k] = max(inf if t is None else t, self.marks.get(k, -inf))
        out = []
        for (start, k), window in sorted(self.keys.items()):
            if window[1] and start + 10 <= max(self.reached, self.marks.get(k, -inf)):
                out.append((k, start, sorted(window[1]), window[0]))
                window[:] = window[0] + 1, []
        return out


@pytest.mark.parametrize("seed", range(max(4, harness.CASES // 10)))
def test_parts_of_marked_keys_are_numbered_by_key(seed: int) -> None:
    rng, origin = random.Random(seed), random.Random(seed).choice([0, 1_772_323_200_000_000_000, -(2**62)])
    origin -= origin % 10
    lateness = rng.choice([0, 25])
    op = operator(emit="parts", allowed_lateness=lateness, aggs={"v": sl.collect("t")})
    wanted, told = Parts(lateness), 0
    for step in range(30):
        kind, near = rng.choice(["push", "push", "push", "advance", "marks"]), origin + 5 * step
        times = [near + rng.randint(-30, 30) for _ in range(rng.randint(1, 6))]
        keys = rng.choices("abc", k=len(times))
        if kind == "push" or not step:
            out, expected = op.push(rows(*times, k=keys)), wanted.step(list(zip(times, keys, strict=True)))
        elif kind == "advance":
            out, expected = op.advance(near - 10), wanted.step(reached=near - 10)
        else:
            times = [None if rng.random() < 0.03 else t for t in times]
            out, expected = (
                op.advance(marks=rows(*times, k=keys)),
                wanted.step(marks=list(zip(times, keys, strict=True))),
            )
        got = [(row["k"], row["window_start"], sorted(row["v"]), row["revision"]) for row in out.windows.to_pylist()]
        assert got == sorted(expected, key=lambda row: (row[1], row[0])), (seed, step)
        told += len(got)
        if rng.random() < 0.2:
            op = sl.Operator.restore(op.spec, bytes(op.snapshot()))
    got = [(row["k"], row["window_start"], sorted(row["v"]), row["revision"]) for row in op.flush().windows.to_pylist()]
    assert got == sorted(wanted.step(reached=inf), key=lambda row: (row[1], row[0])) and told


def test_marks_of_unsigned_times_beyond_64_bits_are_marks() -> None:
    op = sl.Operator(sl.Spec("t", {"w": sl.tumbling(10)}, {"n": sl.count()}, by="k", watermark=sl.manual()))
    op.push(pa.table({"t": pa.array([5, 6], pa.uint64()), "k": ["a", "b"]}))
    out = op.advance(marks=pa.table({"t": pa.array([2**63 + 5], pa.uint64()), "k": ["a"]}))
    assert out.windows.to_pylist() == [{"window": "w", "window_start": 0, "window_end": 10, "k": "a", "n": 1}]
    assert op.push(pa.table({"t": pa.array([7], pa.uint64()), "k": ["a"]})).late.num_rows == 1


def test_a_snapshot_with_marks_goes_on_only_in_ways_that_marks_allow() -> None:
    op = sl.Operator(SPEC)
    op.push(pa.table({"t": [1, 2], "k": ["a", "b"]}))
    op.advance(marks=pa.table({"t": [10], "k": ["a"]}))
    for way in ({"max_windows_per_push": 1}, {"max_bytes": 10**9, "on_full": "late"}):
        with pytest.raises(ValueError, match="keys have marks emits all windows of a key at once"):
            sl.Operator.restore(SPEC, op.snapshot(), **way)


SPEC = sl.Spec("t", {"w": sl.tumbling(10)}, {"n": sl.count()}, by="k", watermark=sl.manual())


def test_what_marks_refuse_is_named() -> None:
    op = sl.Operator(SPEC)
    op.push(pa.table({"t": [1, 2], "k": ["a", "b"]}))
    with pytest.raises(TypeError, match=r"^marks must be"):
        op.advance(marks=5)


def test_many_pushes_beside_marks_leave_few_runs_and_groups() -> None:
    """Work and memory of a push must not grow with the number of pushes before it."""
    spec = sl.Spec("t", {"d": sl.tumbling(100)}, {"n": sl.count()}, by="k", watermark=sl.manual())
    op = sl.Operator(spec)
    op.push(pa.table({"t": [0], "k": [0]}))
    op.advance(marks=pa.table({"t": [10**9], "k": [99]}))
    for i in range(300):
        op.push(pa.table({"t": [10 * i, 10 * i + 1], "k": [i % 50, (i + 1) % 50]}))
    assert op._now is not None and len(op._now.store.runs) < 12 and len(op._now.groups) == 1
    carried = sl.Spec("t", {"d": sl.tumbling(10)}, {"n": sl.count()}, by="k", watermark=sl.punctuated("m", by=["k"]))
    op, closed = sl.Operator(carried), 0
    for i in range(300):
        closed += op.push(pa.table({"t": range(10 * i, 10 * i + 5), "k": range(5), "m": [10 * i] * 5})).windows.num_rows
    assert op._now is not None and len(op._now.groups) == 1 and closed == 5 * 299


def test_windows_may_change_once_keys_have_ended():
    op = sl.Operator(sl.Spec("t", {"w": sl.tumbling(10)}, {"n": sl.count()}, by="k", watermark=sl.manual()))
    op.push(pa.table({"t": [1, 2], "k": ["a", "b"]}))
    op.advance(marks=pa.table({"k": ["a", "b"], "t": pa.array([None, 30], pa.int64())}))
    with pytest.raises(ValueError, match=r"^add_window: 1 keys have marks ahead of the stream; advance its watermark"):
        op.add_window("x", sl.tumbling(20))
    op.advance(30)
    op.add_window("x", sl.tumbling(20))
    op.remove_window("w")
    out = op.push(pa.table({"t": [41, 42], "k": ["a", "b"]}))
    assert out.late.select(["t", "k"]).to_pylist() == [{"t": 41, "k": "a"}]
    assert [(row["window"], row["k"], row["n"]) for row in op.flush().windows.to_pylist()] == [("x", "b", 1)]
