"""Joins and features of other systems (``transcripts.toml``): their rows, and the answers of the contract to them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import slicing as sl

CASES = tomllib.loads((Path(__file__).parent / "transcripts.toml").read_text())
NULL = "-"


def plain(value: Any) -> Any:
    if isinstance(value, list):
        return [plain(v) for v in value]
    return None if value == NULL else value


class Told:
    """An operator that is told the steps of a transcript."""

    def __init__(self, case: dict[str, Any], base: int) -> None:
        self.overlapping = [case[kind] for kind in ("hop", "cumulate") if kind in case]
        self.grows = "cumulate" in case
        within = sl.tumbling(case["window"]) if "window" in case else tuple(case.get("within", (0, 0)))
        self.delay = case.get("delay")
        # a window's last tick says nothing of how far its rows are
        mark = sl.manual() if self.overlapping or self.delay is None else sl.bounded(self.delay)
        asked = {"how": case["how"], "closed": case.get("closed", "both"), "watermark": mark, "progress": "least"}
        self.spec = sl.JoinSpec(["k", "end"] if self.overlapping else "k", "t", within, **asked)
        self.op, self.base = sl.JoinOperator(self.spec), base
        self.rows = {side: plain(case[side]) for side in ("left", "right")}
        self.since: list[str] = []
        self.late: tuple[list[int], list[int]] = ([], [])
        self.op.push(self.table("left", 0, 0), self.table("right", 0, 0))

    def ends(self, time: int) -> list[int]:
        """Where the windows end that a time is in."""
        size, every = self.overlapping[0]
        last = (time // size + 1) * size if self.grows else time // every * every + size
        return list(range((time // every + 1) * every, last + 1, every))

    def table(self, side: str, first: int, last: int) -> pa.Table:
        rows = [(time, key, n) for n, (time, key) in enumerate(self.rows[side]) if first <= n < last]
        if self.overlapping:
            rows = [(end - 1, key, n, end) for time, key, n in rows for end in self.ends(time)]
        names = ["t", "k", "n", "end"][: 3 + len(self.overlapping)]
        kinds = [pa.int64(), pa.array([key for _, key in self.rows[side]]).type, pa.int64(), pa.int64()]
        columns = zip(*rows, strict=True) if rows else [()] * len(names)
        table = pa.table({name: pa.array(c, kind) for name, c, kind in zip(names, columns, kinds, strict=False)})
        return table.set_column(0, "t", pc.add(table["t"], self.base))

    def push(self, side: str, first: int, last: int) -> None:
        rows = self.table(side, first, last)
        self.take(self.op.push_left(rows) if side == "left" else self.op.push_right(rows))
        if self.overlapping:
            mark = max(time for time, _ in self.rows[side][:last]) - self.delay + self.base
            self.take(self.op.advance(**{side: mark}))

    def take(self, out: sl.JoinOutput) -> None:
        for row in out.rows.to_pylist():
            pair = "-".join("" if row.get(n) is None else str(row[n]) for n in ("n", "n_right"))
            self.since.append(f"{pair}@{row['end']}" if self.overlapping else pair)
        for known, late in zip(self.late, (out.late_left, out.late_right), strict=True):
            known += late["n"].to_pylist() if late.num_rows else []

    def step(self, text: str) -> None:
        verb, *words = text.split()
        if verb in self.rows and words[0] == "mark":
            self.take(self.op.advance(**{verb: int(words[1]) + self.base}))
        elif verb in self.rows:
            self.push(verb, *map(int, words[0].split(":")))
        elif verb == "both":
            for n in range(*map(int, words[0].split(":"))):
                self.push("left", n, n + 1)
                self.push("right", n, n + 1)
        elif verb == "gives":
            assert sorted(self.since) == sorted(words)
            self.since = []
        elif verb == "held":
            assert self.op._state is not None
            assert [side.held for side in self.op._state.sides] == [int(word) for word in words]
        elif verb == "late":
            cut = words.index("/")
            assert self.late == ([*map(int, words[:cut])], [*map(int, words[cut + 1 :])])
            self.late = ([], [])
        elif verb == "restore":
            self.op = sl.JoinOperator.restore(self.spec, self.op.snapshot())
        else:
            assert verb == "flush"
            self.take(self.op.flush())


@pytest.mark.parametrize("base", [0, 1_790_000_000_000_000_000])
@pytest.mark.parametrize("case", CASES["join"], ids=lambda case: case["name"])
def test_joins(case: dict[str, Any], base: int) -> None:
    told = Told(case, base - base % 10)  # windows of 5 and 10 begin where they did
    for line in case["steps"].split("\n"):
        for step in filter(None, line.split("; ")):
            told.step(step)
    assert not told.since and told.late == ([], [])


@pytest.mark.parametrize("case", CASES["refused"], ids=lambda case: case["name"])
def test_what_is_refused(case: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=re.escape(case["says"])):
        sl.JoinSpec("k", "t", tuple(case["within"]), how=case["how"])


@pytest.mark.parametrize("case", CASES["features"], ids=lambda case: case["name"])
def test_features(case: dict[str, Any]) -> None:
    labels, events = ({name: plain(column) for name, column in case[side].items()} for side in ("labels", "events"))
    far = plain(case["far"])
    ends = None if far is None else (far, case["near"])
    made = {"sum": sl.sum, "count": sl.count, "max": sl.max, "min": sl.min, "last": sl.last}
    aggs = {name: made[fn](column) if column else made[fn]() for name, (fn, column) in case["aggs"].items()}
    order = sorted(range(len(labels["t"])), key=lambda at: labels["t"][at])
    asked = {"on": case["by"], "time": "t", "ranges": {"r": ends}, "aggs": aggs, "closed": case["closed"]}
    found = sl.features(pa.table(labels), pa.table(events), **asked)
    assert list(map(list, zip(*(found[f"{name}_r"].to_pylist() for name in aggs), strict=True))) == plain(case["gives"])
    op = sl.FeatureOperator(sl.FeatureSpec(**asked))
    op.push_events(pa.table(events))
    late = op.push_labels(pa.table(labels).take(order[::-1])).rows.num_rows
    assert late + op.flush().rows.num_rows == len(order)


@pytest.mark.parametrize("case", CASES["holding"], ids=lambda case: case["name"])
def test_a_row_that_holds_when_the_range_begins(case: dict[str, Any]) -> None:
    labels, events = pa.table(case["labels"]), pa.table(case["events"])
    ranges = {"r": tuple(case["within"]), "held": (None, case["held"])}
    most, least = {"ask": sl.max("ask"), "bid": sl.min("bid")}, {"last": sl.last("ask"), "last_bid": sl.last("bid")}
    found = sl.features(labels, events, on="sym", time="t", ranges=ranges, aggs=most | least)
    ask = pc.max_element_wise(found["ask_r"], found["last_held"])
    bid = pc.min_element_wise(found["bid_r"], found["last_bid_held"])
    assert [list(pair) for pair in zip(ask.to_pylist(), bid.to_pylist(), strict=True)] == case["gives"]


@pytest.mark.parametrize("case", CASES["lengths"], ids=lambda case: case["name"])
def test_a_range_for_each_label(case: dict[str, Any]) -> None:
    labels, events = (pa.table({name: plain(c) for name, c in case[side].items()}) for side in ("labels", "events"))
    labels = labels.append_column("n", pa.array(range(labels.num_rows)))
    longest = max(case["labels"]["length"])
    reached = pc.field("t") - pc.field("t_right") < pc.field("length")
    pairs = sl.join(labels, events, on=[], time="t", within=(longest, 0), how="left", where=reached)
    made = {"sum": sl.sum("v"), "count": sl.count("v")}[case["fn"]]
    told = sl.aggregate(pairs, sl.Spec("t", {"all": sl.whole()}, {"told": made}, by="n"))
    assert told.sort_by("n")["told"].to_pylist() == plain(case["gives"])


def nexmark(name: str) -> pa.Table:
    return pa.table(CASES["nexmark"][name])


def test_nexmark_4_the_mean_winning_bid() -> None:
    """Its band ends at a column of the row: the longest, and a condition."""
    auctions, bids = nexmark("auction"), nexmark("bid").rename_columns(["at", "auction", "bidder", "price"])
    longest = pc.max(pc.subtract(auctions["expires"], auctions["ts"])).as_py()
    join = sl.JoinSpec(
        [("id", "auction")], ("ts", "at"), (0, longest), where=pc.field("at") <= pc.field("expires"), event_time="left"
    )
    whole = {"all": sl.whole()}
    winning = sl.Spec("ts", whole, {"price": sl.max("price")}, by=["id", "category"], watermark=sl.manual())
    mean = sl.Spec("window_start", whole, {"mean": sl.mean("price")}, by="category", watermark=sl.manual())
    op = sl.chain(sl.JoinOperator(join), sl.Operator(winning), sl.Operator(mean))
    op.push_left(auctions)
    for row in range(0, bids.num_rows, 7):
        op.push_right(bids.slice(row, 7))
    found = op.flush().windows
    told = zip(found["category"].to_pylist(), found["mean"].to_pylist(), strict=True)
    assert sorted(map(list, told)) == CASES["nexmark"]["gives"]["q4"]


def test_nexmark_7_the_highest_bids_of_each_window() -> None:
    bids = nexmark("bid")
    highest = sl.Operator(sl.Spec("ts", {"w": sl.tumbling(10_000)}, {"most": sl.max("price")}))
    join = sl.JoinSpec(
        [("price", "most")], ("ts", "window_end"), (0, 10_000), watermark=(sl.bounded(0), sl.manual()),
        schemas=(bids.schema, highest.push(bids.slice(0, 0)).windows.schema),
    )  # fmt: skip
    op, found = sl.JoinOperator(join), []
    for row in range(0, bids.num_rows, 7):
        rows = bids.slice(row, 7)
        out = highest.push(rows)
        found.append(op.push(rows, out.windows).rows)
        op.advance(right=out.progress["window_end"])
    found += [op.push_right(highest.flush().windows).rows, op.flush().rows]
    told = pa.concat_tables(found).select(["auction", "price", "bidder", "ts"]).to_pylist()
    assert sorted(list(row.values()) for row in told) == CASES["nexmark"]["gives"]["q7"]


def test_nexmark_8_people_who_are_new_and_sell() -> None:
    """Each seller once, and the people who came in the same window."""
    once = sl.distinct(nexmark("auction"), on="seller", time="ts", within=sl.tumbling(10_000))
    found = sl.join(nexmark("person"), once, on=[("id", "seller")], time="ts", within=sl.tumbling(10_000))
    assert sorted(found["id"].to_pylist()) == CASES["nexmark"]["gives"]["q8"]
    assert set(found["window_start"].to_pylist()) == {0}


def test_arroyo_a_side_that_is_ten_minutes_behind() -> None:
    """A count by the clock, five a second; the right watermark lets nothing be late, and holds back the left rows."""
    counted = pa.table({"ts": range(0, 20_000, 200), "counter": range(100)})
    delays = sl.bounded(0), sl.bounded(600_000)
    op = sl.JoinOperator(sl.JoinSpec("counter", "ts", sl.tumbling(1000), watermark=delays))
    found = [out.rows for out in (op.push_left(counted), op.push_right(counted), op.flush())]
    told = pa.concat_tables([table for table in found if table.num_rows])
    assert told["counter"].to_pylist() == list(range(100))
    assert told["window_start"].to_pylist() == [n // 5 * 1000 for n in range(100)]


def test_spark_sums_of_rows_in_one_window() -> None:
    """No key but the window, and rows without a time, which meet nothing."""
    left, right = pa.table({"ts": [5, 32, None, None], "v": [1, 2, 3, 4]}), pa.table({"ts": [2, 35], "v": [3, 6]})
    op = sl.JoinOperator(sl.JoinSpec([], "ts", sl.tumbling(10), watermark=sl.manual(), on_null_time="late"))
    out = op.push(left, right)
    told = [out.rows[name].to_pylist() for name in ("window_start", "v", "v_right")]
    assert list(zip(*told, strict=True)) == [(0, 1, 3), (30, 2, 6)] and out.stats.null_time == 2
