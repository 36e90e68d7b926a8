"""Tables whose rows are in order, or nearly: threads answer a period each, and the windows are those of one thread."""

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import slicing as sl
from slicing.api import all_windows
from slicing.query.policy import Policy
from slicing.tables import held, periods

ROWS = 6000
BEGUN = 1_700_000_000_000_000_000
SECOND = 10**9
POLICY = Policy(push_rows=256, gathered_rows=16, period_rows=500)
AGGS = {
    "s": sl.sum("v"),
    "lo": sl.min("v"),
    "n": sl.count(),
    "top": sl.last("v"),
    "word": sl.max("k"),
    "mid": sl.median("v"),
    "all": sl.collect("v"),
    "kinds": sl.count_distinct("d"),
}
WINDOWS = {
    "tumbling": {"w": sl.tumbling("1s")},
    "sliding": {"w": sl.sliding("3s", "1s"), "x": sl.tumbling("500ms")},
    "sparse": {"w": sl.sliding("300ms", "2s", offset="7ms")},
    "calendar": {"w": sl.calendar("1d", tz="Europe/Berlin"), "x": sl.tumbling("4s")},
    "cumulate": {"w": sl.cumulate("4s", "1s")},
    "fixed": {"w": sl.fixed(BEGUN + 10 * SECOND, BEGUN + 11 * SECOND), "x": sl.tumbling("2s", offset="333ms")},
}


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many periods there were, by query."""
    found: list[int] = []
    of_periods = held.of_periods

    def noting(plan: Any, periods: list[Any], operator: Any) -> list[pa.Table]:
        found.append(len(periods))
        return of_periods(plan, periods, operator)

    monkeypatch.setattr(held, "of_periods", noting)
    monkeypatch.setattr(periods, "BLOCK", 16)
    monkeypatch.setattr(periods, "SHARED", 2)
    return found


def rows(seed: int, late: int = 0, step: int = 10_000_000, nulls: float = 0.0) -> pa.Table:
    """A row each 10 ms, up to ``late`` ns out of order, in some batches."""
    chance = np.random.default_rng(seed)
    time = BEGUN + np.arange(ROWS) * step
    time = time[np.argsort(time + chance.integers(0, late + 1, ROWS), kind="stable")]
    columns = {
        "t": pa.array(time, mask=chance.random(ROWS) < nulls).cast(pa.timestamp("ns", "UTC")),
        "k": pa.array(chance.integers(0, 30, ROWS).astype(str), mask=chance.random(ROWS) < 0.05),
        "v": pa.array(chance.integers(-(2**40), 2**40, ROWS), mask=chance.random(ROWS) < 0.1),
        "d": pa.array(chance.integers(0, 9, ROWS).astype(str)).dictionary_encode(),
        "f": chance.integers(0, 2**20, ROWS).astype(float),
    }
    table, cuts = pa.table(columns), sorted(chance.integers(100, ROWS - 100, seed % 3).tolist())
    return pa.concat_tables([table.slice(a, b - a) for a, b in zip([0, *cuts], [*cuts, ROWS], strict=True)])


def one(data: pa.Table, spec: sl.Spec) -> pa.Table:
    """The windows of one push."""
    op = sl.Operator(spec.patient)
    return pa.concat_tables([op.push(data).windows, op.flush().windows]).unify_dictionaries()


@pytest.mark.parametrize("late", [0, 200_000_000])
@pytest.mark.parametrize("by", [[], ["k"], ["k", "d"]], ids=str)
@pytest.mark.parametrize("name", WINDOWS)
def test_threads_answer_a_period_each(name: str, by: list[str], late: int, taken: list[int]) -> None:
    seed, threads = ((1, 2), (2, 3), (3, 5))[(len(by) + list(WINDOWS).index(name) + (late > 0)) % 3]
    data, spec = rows(seed, late), sl.Spec("t", WINDOWS[name], AGGS, by=by)
    assert all_windows(data, spec, threads, policy=POLICY).equals(one(data, spec))
    if name != "calendar":  # all rows are within a day
        assert len(taken) == 1 and taken[0] > 1


@pytest.mark.parametrize("late", [0, 200_000_000])
@pytest.mark.parametrize("by", [[], ["k"]], ids=str)
def test_periods_of_columns_that_arrow_cannot_filter(by: list[str], late: int, taken: list[int]) -> None:
    data = rows(1, late).select(["t", "k", "v", "d"])
    fields = {"k": pa.string_view(), "d": pa.dictionary(pa.int8(), pa.string())}
    data = data.cast(pa.schema([pa.field(f.name, fields.get(f.name, f.type)) for f in data.schema]))
    listed = pa.ListArray.from_arrays(np.arange(ROWS + 1, dtype=np.int32), data["k"].combine_chunks())
    data = data.append_column("l", listed)
    assert pa.types.is_string_view(data["k"].type) and pa.types.is_string_view(data["l"].type.value_type)
    aggs = {"n": sl.count(), "kinds": sl.count_distinct("k"), "all": sl.collect("k"), "lists": sl.collect("l")}
    spec = sl.Spec("t", {"w": sl.tumbling("1s")}, aggs, by=by)
    found = all_windows(data, spec, 3, policy=POLICY)
    assert found.to_pylist() == one(data, spec).to_pylist()
    assert len(taken) == 1 and taken[0] > 1


def test_random_queries(taken: list[int]) -> None:
    for seed in range(30):
        chance = random.Random(seed)
        windows = {}
        for at in range(chance.randint(1, 3)):
            ms = chance.choice([250, 400, 1000, 1500])
            every, most = f"{ms}ms", f"{chance.randint(1, 4) * ms}ms"
            windows[f"w{at}"] = chance.choice([sl.tumbling(every), sl.sliding(most, every), sl.cumulate(most, every)])
        some = dict(chance.sample(sorted(AGGS.items()), chance.randint(1, 4)))
        spec = sl.Spec("t", windows, some, by=chance.choice([[], ["k"]]), watermark=sl.bounded("1s"))
        data = rows(seed, chance.choice([0, 0, 30_000_000, 10**9, 10**11]), chance.choice([10_000_000, 3_000_000]))
        assert all_windows(data, spec, chance.randint(2, 6), policy=POLICY).equals(one(data, spec)), spec
    assert len(taken) > 15


@pytest.mark.parametrize(
    "asked",
    [
        {"windows": {"w": sl.session("20ms")}},
        {"windows": {"w": sl.rows(10)}},
        {"windows": {"w": sl.tumbling("1s"), "x": sl.whole()}},
        {"windows": {"w": sl.tumbling("1s", fill=True)}},
        {"windows": {"w": sl.landmark("1s")}},
        {"windows": {"w": sl.sliding("40s", "1s")}},  # most rows would be in two periods
        {"aggs": {"a": sl.approx_quantile("f", 0.5)}},
        {"aggs": {"a": sl.sample("v", 2)}},
        {
            "aggs": {
                "a": sl.udaf(
                    "add", inputs=["f"], lift=lambda x: x, combine=lambda a, b: a + b, lower=lambda s: s, identity=0.0
                )
            }
        },
        {"op": "op", "aggs": {"n": sl.count()}},
    ],
    ids=str,
)
def test_what_is_not_cut(asked: dict[str, Any], taken: list[int]) -> None:
    data = rows(1).append_column("op", pa.array(["+"] * ROWS))
    spec = sl.Spec("t", **({"windows": WINDOWS["tumbling"], "aggs": {"n": sl.count()}, "by": "k"} | asked))
    assert all_windows(data, spec, 3, policy=POLICY).equals(all_windows(data, spec, 1, policy=POLICY))
    assert not taken


def test_rows_in_no_order_or_without_times_are_not_cut(taken: list[int]) -> None:
    spec = sl.Spec("t", WINDOWS["tumbling"], AGGS, by="k", on_null_time="late")
    for data in (rows(1, late=10**12), rows(2, nulls=0.01), rows(0).slice(0, 900)):
        assert all_windows(data, spec, 3, policy=POLICY).equals(one(data, spec))
    assert not taken


def test_rows_far_out_of_order_are_in_their_period(taken: list[int]) -> None:
    """A few rows of the first second at the end, and of the last one at the beginning."""
    data = rows(0)
    order = np.arange(ROWS)
    order[[3, 7, ROWS - 2]] = order[[ROWS - 1, ROWS - 9, 5]]
    data = data.take(order)
    for threads in (2, 4):
        spec = sl.Spec("t", WINDOWS["tumbling"], AGGS, by="k")
        assert all_windows(data, spec, threads, policy=POLICY).equals(one(data, spec))


@pytest.mark.parametrize("at", [100, ROWS - 100])
def test_an_error_names_the_row_and_the_window_that_one_thread_names(at: int, taken: list[int]) -> None:
    values = np.ones(ROWS, np.int64)
    values[at : at + 2] = 2**62
    data = rows(0).set_column(2, "v", pa.array(values))
    spec = sl.Spec("t", {"w": sl.tumbling("100ms")}, {"s": sl.sum("v")})
    told = []
    for threads in (1, 4):
        with pytest.raises(OverflowError) as error:
            all_windows(data, spec, threads, policy=POLICY)
        told.append(str(error.value))
    assert taken and told[0] == told[1] and "'s'" in told[0]


def test_an_interrupted_thread_ends_the_others(taken: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    pushes: list[int] = []
    push = sl.Operator.push

    def interrupted(self: sl.Operator, data: pa.RecordBatch) -> Any:
        pushes.append(len(data))
        if len(pushes) == 6:
            raise KeyboardInterrupt
        return push(self, data)

    monkeypatch.setattr(periods, "PROBED", 64)
    monkeypatch.setattr(held.Operator, "push", interrupted)
    with pytest.raises(KeyboardInterrupt):
        all_windows(rows(0), sl.Spec("t", WINDOWS["tumbling"], {"n": sl.count()}, by="k"), 3, policy=POLICY)
    assert taken and len(pushes) < 12
