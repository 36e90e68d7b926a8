"""``combine="buckets"``: each slice's partials put into all windows that hold them, whatever the stream."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from harness import batch, check, share, spec
from hypothesis import given
from strategies import CONTEXT_FREE, Case, Kit, cases

import slicing as sl
from slicing.query.plan import Plan

WINDOWS = {"s": sl.sliding(60, every=40), "c": sl.cumulate(90, 30), "l": sl.landmark(45, start=0)}
SPEC = sl.Spec("t", WINDOWS, {"n": sl.count(), "s": sl.sum("v")}, watermark=sl.manual())


@share(15)
@given(cases(Kit(kinds=CONTEXT_FREE, idle=False)))
def test_buckets_answer_what_the_rows_say(case: Case) -> None:
    adds_up = Plan.of(spec(case), batch(case, []).schema).adds_up
    check(case, combine="buckets" if adds_up else "auto")


@pytest.mark.parametrize("by", [[], ["k"]])
def test_they_are_spread_over_pushes_and_restored(by: list[str]) -> None:
    rng = np.random.default_rng(2)
    rows = pa.table({"t": np.arange(900) * 7, "k": rng.integers(0, 50, 900), "v": rng.integers(0, 9, 900)})
    spec = sl.Spec("t", WINDOWS, SPEC.aggs, by=by, watermark=sl.ordered())
    expected = sl.aggregate(rows, spec)
    for most in (None, 10):
        op, found = sl.Operator(spec, combine="buckets", max_windows_per_push=most), []
        for at in range(0, 900, 100):
            found.append(op.push(rows.slice(at, 100)).windows)
            op = sl.Operator.restore(spec, op.snapshot(), combine="buckets", max_windows_per_push=most)
        table = pa.concat_tables([*found, op.flush().windows])
        order = [(name, "ascending") for name in ("window_end", "window", "window_start", *by)]
        assert table.sort_by(order).equals(expected.sort_by(order))


@pytest.mark.parametrize(
    ("windows", "agg"),
    [
        ({"a": sl.session(5)}, sl.count()),
        ({"a": sl.tumbling(5, fill=True)}, sl.count()),
        ({"a": sl.tumbling(5)}, sl.median("v")),
    ],
)
def test_what_does_not_add_up_is_refused(windows: dict, agg: sl.Aggregate) -> None:
    with pytest.raises(ValueError, match=r"combine='buckets' puts the partials of slices into all windows .*: it"):
        sl.Operator(sl.Spec("t", windows, {"n": agg}), combine="buckets").push(pa.table({"t": [1], "v": [1]}))
