"""The decision trees of general stream slicing (Scotty, TODS 2021, figures 4 to 6), all combinations."""

from itertools import product

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from harness import FastVisit, Squares, user_defined

import slicing as sl
from slicing.closing.explain import likely_schema
from slicing.query.plan import Plan
from slicing.windows.decide import Workload, decide

YES, NO = True, False
CONTEXTS = ["free", "forward free", "forward aware", "session"]
# (ordered, context): (rows are stored, slices are split), by time and with commutative aggregates
BY_TIME = {
    (YES, "free"): (NO, NO),
    (YES, "forward free"): (NO, NO),
    (YES, "forward aware"): (YES, YES),
    (YES, "session"): (NO, NO),
    (NO, "free"): (NO, NO),
    (NO, "forward free"): (YES, YES),
    (NO, "forward aware"): (YES, YES),
    (NO, "session"): (NO, NO),
}


COMBINATIONS = [
    (*case, counts) for case, counts in product(BY_TIME, [YES, NO]) if not (counts and case[1] == "session")
]


@pytest.mark.parametrize(("ordered", "context", "counts"), COMBINATIONS)
@pytest.mark.parametrize(("commutative", "invertible"), list(product([YES, NO], repeat=2)))
def test_every_combination(ordered, context, commutative, invertible, counts):
    rows, splits = BY_TIME[ordered, context]
    if not ordered and (counts or not commutative):
        rows = YES
    removal = "none" if ordered or not counts else "subtract" if invertible else "recompute"
    found = decide(Workload(ordered, commutative, invertible, context, counts))
    assert (found.rows, found.splits, found.removal) == (rows, splits, removal)
    assert found.why


WINDOWS = {
    "free": sl.tumbling(10),
    "whole": sl.whole(),
    "visit": sl.session(5),
    "count": sl.rows(3),
    "mark": sl.punctuation("p"),
    "frame": sl.frame("p", "q"),
    "per row": sl.per_row(5),
    "last": sl.last_rows(2, 10),
    "own edges": Squares(),
    "own rows": FastVisit(3, 9),  # what it opens with a row it may close at any time before a later one
}
ASKS = {YES: {"per row", "last", "own rows"}, NO: {"count", "mark", "frame", "per row", "last", "own rows"}}


@pytest.mark.parametrize("ordered", [YES, NO])
@pytest.mark.parametrize("name", WINDOWS)
def test_a_plan_decides_for_each_of_its_windows(name, ordered):
    watermark = sl.ordered() if ordered else sl.bounded(3)
    spec = sl.Spec(time="t", windows={name: WINDOWS[name]}, aggs={"s": sl.sum("v")}, watermark=watermark)
    plan = Plan(spec, likely_schema(spec))
    decision = plan.kept[name].decision
    assert decision.rows == (name in ASKS[ordered])
    assert plan.keeps_rows >= decision.rows
    assert decision.removal == ("none" if ordered or name != "count" else "recompute")  # sums of floats never subtract
    told = sl.explain(spec)
    assert told["rows kept"].startswith("yes" if plan.keeps_rows else "no")
    assert not plan.keeps_rows or f"{name}: {plan.kept[name]}" in told["rows kept"]
    assert told["splits and removals"].startswith("none")


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({}, None),
        ({"windows": {"mark": sl.punctuation("p"), "frame": sl.frame("p", "q"), "n": sl.rows(9, 4)}}, None),
        ({"windows": {"mark": sl.punctuation("p"), "last": sl.last_rows(3, 9)}}, "a window 'last' may begin or end at"),
        ({"windows": {"count": sl.rows(3, every=2)}}, "a window 'count' may begin or end at any of them"),
        ({"windows": {f"w{i}": sl.punctuation(f"p{i}") for i in range(62)}}, None),
        (
            {"windows": {f"w{i}": sl.punctuation(f"p{i}") for i in range(63)}},
            "windows ask 63 flags of a row, and a slice has room for 62",
        ),
        ({"idle": 9}, None),
        ({"emit": "changes", "allowed_lateness": 5}, "a late row may revise them"),
    ],
)
def test_rows_kept_though_no_decision_asks_for_them_are_explained(more, why):
    query = {"windows": {"mark": sl.punctuation("p")}, "aggs": {"s": sl.sum("v")}, "watermark": sl.ordered()}
    told = sl.explain(sl.Spec("t", **{**query, **more}))["rows kept"]
    if why is None:
        assert "only slices" in told and "all the same" not in told
    else:
        assert f"all the same its rows are kept until its windows close, for {why}" in told


STREAM = {"mark": sl.punctuation("p", per_key=False), "count": sl.rows(9, per_key=False)}


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({}, None),
        ({"windows": {**STREAM, "came": sl.rows(9, order="arrival", per_key=False)}}, None),
        ({"windows": {"came": sl.rows(9, order="arrival")}}, None),
        (
            {"windows": {"count": sl.rows(3, every=1, per_key=False)}},
            "a window 'count' may begin or end at any of them",
        ),
        (
            {"windows": {"w": sl.rows(9, order="arrival")}, "sequence": "q"},
            "a window 'w' counts them as they come, which",
        ),
        (
            {"windows": {"w": sl.rows(9, order="arrival")}, "watermark": sl.ordered(on_disorder="late")},
            "a window 'w' counts them as they come, which need not be in order of time",
        ),
        ({"emit": "changes", "allowed_lateness": 5}, "a late row may revise them"),
    ],
)
def test_rows_of_all_keys_that_are_kept_are_explained(more, why):
    query = {"windows": STREAM, "aggs": {"s": sl.sum("v")}, "by": ["k"], "watermark": sl.ordered()}
    told = sl.explain(sl.Spec("t", **{**query, **more}))["rows kept"]
    if why is None:
        assert "only slices" in told and "all the same" not in told
    else:
        assert f"all the same its rows are kept until its windows close, for {why}" in told


def test_only_windows_of_single_keys_grow_with_their_number():
    windows = {**STREAM, "key": sl.rows(9)}
    told = sl.explain(sl.Spec("t", windows, {"s": sl.sum("v")}, by=["k"], watermark=sl.ordered()))
    assert told["state"].startswith("grows with the number of keys: key (rows() counts on for every key). ")
    assert "windows of the whole stream: slices of their own" in told["combine"]


def test_an_aggregate_that_needs_order_keeps_rows_of_slices_out_of_order_only():
    query = {"time": "t", "windows": {"m": sl.tumbling(10)}, "aggs": {"c": sl.collect("v")}}
    ordered, not_ordered = (sl.Spec(**query, watermark=w) for w in (sl.ordered(), sl.bounded(3)))
    assert [Plan(s, likely_schema(s)).kept["m"].decision.rows for s in (ordered, not_ordered)] == [NO, YES]


@pytest.mark.parametrize(
    ("agg", "removal"),
    [
        (sl.count(), "subtract"),
        (sl.sum("v"), "recompute"),
        (sl.max("v"), "recompute"),
        (sl.median("v"), "recompute"),
        (user_defined("remainder", "i"), "subtract"),
        (user_defined("weighted", "i"), "recompute"),  # floats, and no invert
        (user_defined("polynomial", "i"), "recompute"),
    ],
)
def test_what_is_exact_and_has_an_inverse_may_be_subtracted(agg, removal):
    aggs = {"a": agg, "n": sl.count()}
    spec = sl.Spec(time="t", windows={"r": sl.rows(3)}, aggs=aggs, watermark=sl.bounded(3))
    schema = pa.schema({"t": pa.int64(), "v": pa.float64(), "i": pa.int64(), "flag": pa.bool_()})
    assert Plan(spec, schema).kept["r"].decision.removal == removal


@pytest.mark.parametrize(
    "aggs",
    [
        {"n": sl.count().where("ok"), "share": sl.mean("ok")},
        {"any": sl.any("ok"), "last": sl.last("ok")},
        {"s": sl.sum("v").where(~sl.col("ok") & sl.col("well"))},
        {"s": sl.sum("v").where(sl.col("name") == "a"), "names": sl.count_distinct("name")},
        {"s": sl.sum("v").where(sl.col("a").isin(["x"]) & (sl.col("b") == "y") & sl.col("c") & ~sl.col("d"))},
        {"long": sl.max(pc.utf8_length(sl.col("name"))), "s": sl.sum(sl.col("v") * 2).where(sl.col("t").is_valid())},
        {"latest": sl.argmax("v", "at").where(pc.hour(sl.col("at")) > 3), "first": sl.first("seq")},
    ],
    ids=str,
)
def test_types_that_the_spec_does_not_tell_are_found_for_its_expressions(aggs):
    windows = {"m": sl.tumbling("1m"), "on": sl.frame(sl.col("state") == "on", sl.col("v") < 0)}
    spec = sl.Spec("t", windows, aggs, by="name", sequence="seq", watermark=sl.bounded("5s"))
    assert sl.explain(spec)["edges"].startswith("every 1m")
    asked = sl.FeatureSpec(on="k", time="at", ranges={"hour": "1h"}, aggs={"s": sl.sum("v").where(sl.col("w") == "a")})
    assert "hour" in sl.explain(asked)["ranges"]


def test_a_query_of_nanoseconds_is_explained_without_a_schema() -> None:
    spec = sl.Spec("t", {"w": sl.tumbling("500ns")}, {"n": sl.count()})
    assert "edges                every 500ns" in str(sl.explain(spec))
