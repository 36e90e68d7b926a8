"""A push that fails changes nothing: the operator goes on as one that never saw it."""

from __future__ import annotations

import pkgutil
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest

import slicing as sl
from slicing.closing import too_many
from slicing.stages import close

SCHEMA = pa.schema([("t", pa.int64()), ("k", pa.string()), ("s", pa.string()), ("v", pa.int64()), ("x", pa.float64())])
# time, key, string, integer, float
FIRST = [(1, "a", "pear", 5, 0.1), (4, "b", "fig", 7, 0.2), (3, "a", None, None, None)]
SECOND = [(8, None, "apple", 1, -0.0), (2, "b", "fig", 2, 1e300), (12, "a", "plum", 3, 0.3)]
THIRD = [(9, "a", "date", 4, 0.7), (1, "a", "date", 4, 0.7), (31, "b", "kiwi", 9, 0.4)]
FOURTH = [(33, "c", "lime", 6, 0.5), (75, "a", "pear", 6, 0.6)]
STREAM = [FIRST, SECOND, THIRD, FOURTH]


def batch(rows):
    columns = zip(zip(*rows, strict=True), SCHEMA, strict=True)
    return pa.RecordBatch.from_arrays([pa.array(column, field.type) for column, field in columns], schema=SCHEMA)


@dataclass(frozen=True)
class Gate(sl.ContextFreeWindow):
    """Tens, as a user would write them, who forgot about 61 and the eighties."""

    def next_edge(self, times):
        if (times == 61).any():
            raise ArithmeticError("no edge after 61")
        return times // 10 * 10 + 10

    def containing(self, time):
        if time // 10 == 8:
            raise ArithmeticError("no window in the eighties")
        return [(time // 10 * 10, time // 10 * 10 + 10)]


QUERIES = {
    "tumbling": {"windows": {"w": sl.tumbling(10)}},
    "several": {"windows": {"w": sl.sliding(20, 5), "v": sl.session(4), "all": sl.whole(), "u": Gate()}},
    "no key": {"by": [], "windows": {"w": sl.sliding(20, 5), "v": sl.session(4)}},
    "late": {"windows": {"w": sl.tumbling(10), "v": sl.session(4)}, "allowed_lateness": 9},
    "updates": {"windows": {"w": sl.tumbling(10)}, "emit": "updates", "allowed_lateness": 30},
    "changes": {"windows": {"w": sl.tumbling(10), "v": sl.session(4)}, "emit": "changes", "allowed_lateness": 30},
    "fill": {"windows": {"w": sl.tumbling(5, fill=True)}},
    "idle": {"windows": {"w": sl.tumbling(10), "v": sl.session(4)}, "idle": 15},
    "sources": {"windows": {"w": sl.tumbling(10)}, "watermark": sl.per_source("k", 2, idle=20)},
    "manual": {"windows": {"w": sl.tumbling(10)}, "watermark": sl.manual()},
    "two keys": {"windows": {"w": sl.tumbling(10)}, "by": ["k", "s"]},
}
AGGS = {"n": sl.count(), "total": sl.sum("v"), "least": sl.min("s"), "mean": sl.mean("x"), "tail": sl.last("s")}


def operator(name, **changes):
    return sl.Operator(sl.Spec(**({"time": "t", "by": ["k"], "aggs": AGGS} | QUERIES[name] | changes)))


NEW = [(5, "new", "zest", 1, 1.0), (200, "newer", "aaa", 1, 1.0)]  # other keys, other strings, a time far ahead


def with_column(name, array):
    return batch(NEW).set_column(SCHEMA.get_field_index(name), name, array)


FAILING = {
    "v as a float": with_column("v", pa.array([1.0, 2.0])),
    "t as a timestamp": with_column("t", pa.array([5, 200], pa.timestamp("s"))),
    "s as binary": with_column("s", pa.array([b"zest", b"aaa"])),
    "x as text": with_column("x", pa.array(["1", "2"])),
    "no v": batch(NEW).drop_columns(["v"]),
    "v twice": batch(NEW).append_column("v", pa.array([1, 2])),
    "null time": batch([*NEW, (None, "newest", "", 1, 1.0)]),
    "no Arrow": {"t": [1]},
}


def went_on(op, pushes):
    """All that can be seen of an operator as it goes on."""
    outs = [*(op.push(batch(rows)) for rows in pushes), op.flush()]
    return [(out.windows, out.late, out.stats, out.watermark) for out in outs]


def fails(op, data):
    with pytest.raises((TypeError, ValueError, ArithmeticError)):
        op.push(data)


@pytest.mark.parametrize("failing", FAILING)
@pytest.mark.parametrize("query", QUERIES)
def test_a_failed_push_changes_nothing(query, failing):
    kept, hurt = operator(query), operator(query)
    for pushed, rows in enumerate(STREAM):
        if pushed:  # before the first push everything is still open, even the types of the columns
            fails(hurt, FAILING[failing])
        assert hurt.snapshot() == kept.snapshot()
        kept.push(batch(rows))
        hurt.push(batch(rows))
    fails(hurt, FAILING[failing])
    assert went_on(hurt, [FOURTH]) == went_on(kept, [FOURTH])


@pytest.mark.parametrize("query", QUERIES)
def test_a_failed_first_push_does_not_fix_the_types(query):
    kept, hurt = operator(query), operator(query)
    fails(hurt, batch(NEW).set_column(4, "x", pa.array(["not", "numbers"])))
    fails(hurt, batch([(None, "a", "b", 1, 1.0)]))
    assert hurt.snapshot() == kept.snapshot()
    assert went_on(hurt, STREAM) == went_on(kept, STREAM)


# --- failures found late: when the batch's keys and strings are already known, or its windows close -------------------

HUGE = (1 << 63) - 1
ORDERED = {"watermark": sl.ordered()}
END = (300, "a", "end", 1, 1.0)  # closes what the failing batch opened
LATE_FAILURES = {
    "far time": ("tumbling", {}, [(40, "new", "zest", 1, 0.0), ((1 << 63) - 1, "newer", "", 1, 1.0)]),
    "far past": ("tumbling", {}, [(40, "new", "zest", 1, 0.0), (-(1 << 63) + 1, "newer", "", 1, 1.0)]),
    "overflow in the batch": ("tumbling", {}, [(41, "new", "zest", HUGE, 0.0), (42, "new", "yew", 1, 0.0), END]),
    "overflow with what was there": ("tumbling", {}, [(41, "new", "", 1, 0.0), (32, "b", "zest", HUGE, 0.0), END]),
    "overflow in a session": ("several", {}, [(41, "new", "", 1, 0.0), (32, "b", "zest", HUGE, 0.0), END]),
    "overflow in a revised window": ("updates", {}, [(41, "new", "", 1, 0.0), (4, "a", "zest", HUGE, 0.0)]),
    "overflow in a changed window": ("changes", {}, [(41, "new", "", 1, 0.0), (4, "a", "zest", HUGE, 0.0)]),
    "a user's edge": ("several", {}, [(41, "new", "", 1, 0.0), (61, "newer", "zest", 1, 0.0), END]),
    "a user's window": ("several", {}, [(41, "new", "", 1, 0.0), (81, "newer", "zest", 1, 0.0), END]),
    "disorder": ("tumbling", ORDERED, [(40, "new", "zest", 1, 0.0), (39, "newer", "yew", 1, 0.0)]),
    "disorder after the last batch": ("fill", ORDERED, [(3, "new", "zest", 1, 0.0)]),
}


def twins(query, changes):
    """Two operators that saw the same, in order of time."""
    rows = sorted(FIRST + SECOND + THIRD, key=lambda row: row[0])
    both = operator(query, **changes), operator(query, **changes)
    for op in both:
        for part in (rows[:4], rows[4:]):
            op.push(batch(part))
    return both


@pytest.mark.parametrize("failure", LATE_FAILURES)
def test_a_push_that_fails_late_changes_no_result(failure):
    query, changes, rows = LATE_FAILURES[failure]
    kept, hurt = twins(query, changes)
    fails(hurt, batch(rows))

    def seen(op):
        """Without what the table of keys takes: see below."""
        found = went_on(op, [FOURTH])
        return [(w, late, dict(stats) | {"keys": 0, "bytes": 0}, reached) for w, late, stats, reached in found]

    assert seen(hurt) == seen(kept)


@pytest.mark.parametrize("failure", LATE_FAILURES)
def test_a_push_that_fails_late_leaves_no_trace(failure):
    query, changes, rows = LATE_FAILURES[failure]
    kept, hurt = twins(query, changes)
    fails(hurt, batch(rows))
    assert hurt.snapshot() == kept.snapshot()
    assert went_on(hurt, [FOURTH]) == went_on(kept, [FOURTH])


def test_keys_of_failed_pushes_do_not_pile_up():
    op = operator("tumbling", watermark=sl.ordered())
    op.push(batch(FIRST[:1]))
    for turn in range(20):
        keys = [f"{turn}-{row}" for row in range(1000)]
        fails(op, batch([(0, key, "s", 1, 0.0) for key in keys]))
    assert op.push(batch([(50, "a", "s", 1, 0.0)])).stats["keys"] == 1


def test_a_failed_advance_and_a_failed_flush_change_nothing():
    kept, hurt = twins("tumbling", {})
    for op in (kept, hurt):
        op.push(batch([(32, "b", "zest", HUGE, 0.0), (33, "b", "zest", 9, 0.0)]))
    before = hurt.snapshot()
    for call in (lambda: hurt.advance(500), hurt.flush, lambda: hurt.advance("soon")):
        with pytest.raises((OverflowError, TypeError)):
            call()
        assert hurt.snapshot() == before == kept.snapshot()
    spec = sl.Spec(time="t", by=["k"], aggs=AGGS, on_overflow="null", **QUERIES["tumbling"])
    last = sl.Operator.restore(spec, before).flush().windows
    assert last["total"].to_pylist() == [None]
    assert last["n"].to_pylist() == [3]


@pytest.mark.parametrize("window", [sl.sliding(1 << 40, 3), sl.cumulate(3 << 40, 3)], ids=str)
@pytest.mark.parametrize("changes", [{}, {"by": []}, {"emit": "changes", "allowed_lateness": 1 << 41}], ids=str)
@pytest.mark.parametrize("most", [None, 10])
def test_more_windows_than_a_result_has_room_for_are_refused_before_anything_changed(window, changes, most):
    windows = {"other": sl.tumbling(10), "same": window, "w": window, "v": sl.session(4)}
    spec = sl.Spec(
        **({"time": "t", "by": ["k"], "aggs": AGGS, "windows": windows, "watermark": sl.bounded(0)} | changes)
    )
    op = sl.Operator(spec, max_windows_per_push=most)
    op.push(batch(FIRST))
    before = op.snapshot()
    told = (
        r"windows\['same'\], sl\.\w+\(\d+, every=3\): [\d,]{15,} of its windows are complete and have rows, as a row "
    )
    for call in (op.flush, lambda: op.advance(1 << 40), lambda: op.push(batch([(1 << 40, "a", "fig", 1, 0.0)]))):
        with pytest.raises(ValueError, match=told + r"is in [\d,]+ of them; a push can emit at most 2,147,483,647"):
            call()
        assert op.snapshot() == before
    assert op.advance(9).windows.num_rows
    assert op.push(batch(FOURTH)).windows.num_rows


def test_windows_that_exceed_the_memory_are_refused_with_what_to_do(monkeypatch):
    op = sl.Operator(sl.Spec("t", {"w": sl.sliding(10, every=1)}, {"n": sl.count()}))
    op.push(pa.table({"t": [0, 5]}))
    before = op.snapshot()
    with monkeypatch.context() as context:
        context.setattr(close, "all_windows", lambda *given: np.empty(1 << 45))  # more than any machine has
        with pytest.raises(
            MemoryError, match=r"than there is \(.*\): a larger every .*_windows_per_push.* before the flush"
        ):
            op.flush()
    assert op.snapshot() == before
    assert op.flush().windows["n"].to_pylist() == [2] * 5 + [1] * 5


def test_slices_are_not_listed_to_tell_that_few_windows_close(monkeypatch):
    spec = sl.Spec("t", {"w": sl.sliding(10**6, every=1)}, {"n": sl.count()})
    op = sl.Operator(spec)
    op.push(pa.table({"t": np.arange(3000)}))  # each in a million windows
    monkeypatch.setattr(too_many, "distinct", lambda ends: pytest.fail("all slices were sorted"))
    (window,) = op.push(pa.table({"t": [3000]})).windows.to_pylist()
    assert window == {"window": "w", "window_start": 3000 - 10**6, "window_end": 3000, "n": 3000}


def test_late_rows_that_change_more_windows_than_a_result_has_room_for_are_refused():
    windows = {"w": sl.sliding(1 << 40, 1)}
    op = operator("updates", windows=windows, allowed_lateness=1 << 40, watermark=sl.manual())
    op.advance(1 << 39)  # nobody's windows
    before = op.snapshot()
    with pytest.raises(ValueError, match="549,755,813,887 of its windows"):
        op.push(batch(FIRST[:1]))
    assert op.snapshot() == before
    assert op.push(batch([(1 << 39, "a", "fig", 1, 0.0)])).stats["windowed"] == 1


def test_what_a_push_gave_is_not_touched_by_later_ones():
    op = operator("several")
    out = op.push(batch([*FIRST, (40, "a", "pear", 1, 0.0)]))
    windows, stats = out.windows.to_pylist(), dict(out.stats)
    blob = op.snapshot()
    went_on(op, [SECOND, FOURTH])
    assert out.windows.to_pylist() == windows
    assert dict(out.stats) == stats
    assert sl.Operator.restore(op.spec, blob).snapshot() == blob


def test_the_arrays_of_a_batch_are_not_written_to():
    times, values = np.array([1, 5, 30]), np.array([0.5, -0.0, np.nan])
    op = sl.Operator(sl.Spec(time="t", windows={"w": sl.tumbling(10)}, aggs={"m": sl.argmax("x", "x")}))
    op.push(pa.record_batch({"t": times, "x": values}))
    assert times.tolist() == [1, 5, 30]
    assert values.tobytes() == np.array([0.5, -0.0, np.nan]).tobytes()


AFTER = {  # calls within a push that an interrupt comes right after
    "counting": "slicing.stages.output.Stats",
    "words": "slicing.columns.key_tables.WordTable.step",
    "text": "slicing.columns.key_tables.ByteTable.step",
}


@pytest.mark.parametrize("hot", [False, True])
@pytest.mark.parametrize("place", AFTER)
def test_an_interrupted_push_changes_nothing(place: str, hot: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    window = sl.tumbling(10) if hot else sl.session(10)
    spec = sl.Spec("t", {"w": window}, {"total": sl.sum("v")}, by=["k", "s"], watermark=sl.manual())

    def table(first: int, rows: int) -> pa.Table:
        number = np.arange(first, first + rows)
        return pa.table({"t": number % 10, "k": number // 2, "s": pa.array(number).cast(pa.string()), "v": number})

    def begun() -> sl.Operator:
        op = sl.Operator(spec)
        op.push(table(0, 100))
        op.push(table(0, 5))
        assert (op._now.store.head is not None) == hot
        return op

    kept, op = begun(), begun()
    call = pkgutil.resolve_name(AFTER[place])

    def interrupted(*arguments: object, **more: object) -> None:
        call(*arguments, **more)
        monkeypatch.setattr(AFTER[place], call)
        raise KeyboardInterrupt

    monkeypatch.setattr(AFTER[place], interrupted)
    with pytest.raises(KeyboardInterrupt):
        op.push(table(0 if place == "counting" else 100, 3))
    assert op.snapshot() == kept.snapshot()
    for rows in (table(102, 1), table(104, 4), table(100, 4)):
        assert op.push(rows).stats == kept.push(rows).stats
    assert op.flush().windows.equals(kept.flush().windows)
