"""Beam's trigger transcripts (facts of apache/beam, sdks/python/apache_beam/testing/data/trigger_transcripts.yaml).

One key; a row's value is its time; windows are ``[start, end)``, where Beam writes their last tick. Scripts say where
our contract departs. Scripts in ``WRONG`` must fail: they show that the checker looks.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import slicing as sl

TEN = {"w": sl.tumbling(10)}
FOREVER = 10**6  # Beam's scripts have unlimited lateness: ours is a number
UPDATES = {"emit": "updates", "allowed_lateness": FOREVER, "trigger": sl.by_hand()}

STAMPED: list[Any] = [
    *([1, 2, 3, 10, 11, 25], 100),
    {(0, 10): ([1, 2, 3], "on_time"), (10, 20): ([10, 11], "on_time"), (20, 30): ([25], "on_time")},
]
SCRIPTS: dict[str, tuple[dict[str, Any], list[Any]]] = {
    "fixed": (UPDATES, [[1, 2, 3, 10, 11], 25, {(0, 10): ([1, 2, 3], "on_time"), (10, 20): ([10, 11], "on_time")}]),
    # a pane's stamp, the time Beam gives to its row, is not told: values and windows only
    **dict.fromkeys(
        [f"stamp of a pane: {which}" for which in ("earliest", "latest", "own, end of window", "own, earliest")],
        (UPDATES, STAMPED),
    ),
    # nothing in ours moves the stamps of results
    "stamp of a pane: shifted by the window function": (UPDATES, STAMPED),
    # a late pane is a higher revision
    "fixed, late row": (
        UPDATES,
        [
            [1, 2, 3, 10, 11, 25],
            100,
            {(0, 10): ([1, 2, 3], "on_time"), (10, 20): ([10, 11], "on_time"), (20, 30): ([25], "on_time")},
            [7],
            {(0, 10): ([1, 2, 3, 7], "late")},
        ],
    ),
    # the pane's own stamp is not told: values and windows only
    "rows behind the watermark, window open": (
        UPDATES,
        [5, {}, [2, 3, 7, 8], {}, 11, {(0, 10): ([2, 3, 7, 8], "on_time")}],
    ),
    "rows behind the watermark only": (UPDATES, [8, {}, [2, 3, 7], {}, 11, {(0, 10): ([2, 3, 7], "on_time")}]),
    # Beam asks after_count(2) once a batch; here by hand, where it fires. No on-time part without rows
    "discarding": (
        UPDATES | {"emit": "parts"},
        [
            *([1, 2, 3], "fire", {(0, 10): ([1, 2, 3], "early")}),
            *([4], [14], [5], "fire", {(0, 10): ([4, 5], "early"), (10, 20): ([14], "early")}),
            *([18], "fire", {(10, 20): ([18], "early")}),
            *([6], 100, {(0, 10): ([6], "on_time")}),
        ],
    ),
    # Beam's trigger ends and drops rows 4 and on; ours only adds panes
    "a trigger that ends": (
        UPDATES | {"emit": "parts"},
        [
            *([1, 2, 3, 10, 11], "fire", {(0, 10): ([1, 2, 3], "early"), (10, 20): ([10, 11], "early")}),
            *([4], 100, {(0, 10): ([4], "on_time")}),
        ],
    ),
}
WRONG = {
    "a pane too early": [[1, 2, 3], {(0, 10): ([1, 2, 3], "on_time")}, 100],
    "wrong values": [[1, 2, 3], 100, {(0, 10): ([1, 2], "on_time")}],
    "wrong window": [[1, 2, 3], 100, {(0, 20): ([1, 2, 3], "on_time")}],
    "a pane not expected": [[1, 2, 3], 100, {}],
    "a pane not expected at the end": [[1, 2, 3], 100],
    "wrong timing": [[1, 2, 3], 100, {(0, 10): ([1, 2, 3], "early")}],
}


def told(table: pa.Table) -> dict[tuple[int, int], tuple[list[int], str]]:
    return {(r["window_start"], r["window_end"]): (sorted(r["all"]), r["timing"]) for r in table.to_pylist()}


def plays(asked: dict[str, Any], steps: list[Any]) -> None:
    """A list is a batch, a number a watermark; a dict is all that came out since the last one."""
    op = sl.Operator(sl.Spec("t", TEN, {"all": sl.collect("t")}, watermark=sl.manual(), **asked))
    found: dict[Any, Any] = {}
    for step in steps:
        if isinstance(step, dict):
            assert found == step
            found = {}
            continue
        if isinstance(step, list):
            out = op.push(pa.table({"t": step}))
        else:
            out = op.fire() if step == "fire" else op.advance(step)
        more = told(out.windows)
        assert len(more) == out.windows.num_rows and not more.keys() & found.keys()
        found |= more
    assert found == {}


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_plays(name: str) -> None:
    plays(*SCRIPTS[name])


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_script_fails(name: str) -> None:
    with pytest.raises(AssertionError):
        plays(UPDATES, WRONG[name])


def test_sessions_early_after_two_rows_late_after_three() -> None:
    """Beam asks after_count(2) once a batch: here by hand, where it fires. A late pane of ours comes with each push.
    What is replaced is taken back, as its end has moved."""
    windows, asked = {"s": sl.session(10)}, {"emit": "changes", "allowed_lateness": FOREVER, "trigger": sl.by_hand()}
    op = sl.Operator(sl.Spec("t", windows, {"all": sl.collect("t")}, watermark=sl.manual(), **asked))
    six = [1, 2, 3, 4, 5, 6]
    steps: list[tuple[Any, list[Any]]] = [
        ([1, 2, 3], []),
        ("fire", [("+", 13, [1, 2, 3], "early")]),
        *(([4], []), ([5], [])),
        ("fire", [("-", 13, [1, 2, 3], "early"), ("+", 15, [1, 2, 3, 4, 5], "early")]),
        ([6], []),
        (100, [("-", 15, [1, 2, 3, 4, 5], "early"), ("+", 16, six, "on_time")]),
        ([1], [("-", 16, six, "on_time"), ("+", 16, [1, *six], "late")]),
        ([3, 4], [("-", 16, [1, *six], "late"), ("+", 16, sorted([1, 3, 4, *six]), "late")]),
    ]
    for step, wanted in steps:
        if isinstance(step, list):
            out = op.push(pa.table({"t": step}))
        else:
            out = op.fire() if step == "fire" else op.advance(step)
        found = [(r["op"], r["window_end"], sorted(r["all"]), r["timing"]) for r in out.windows.to_pylist()]
        assert sorted(found) == sorted(wanted)
        assert set(out.windows["window_start"].to_pylist()) <= {1}


def test_panes_of_every_by_hand() -> None:
    """A row behind the watermark is in the next pane; a cut on the end is the pane on time; ``-`` is what came out."""
    spec = sl.Spec("t", TEN, {"n": sl.count()}, emit="changes", trigger=sl.every(5), watermark=sl.manual())
    op = sl.Operator(spec)
    steps = [
        (lambda: op.push(pa.table({"t": [1, 6]})), []),
        (lambda: op.advance(5), [(1, "early", "+")]),
        (lambda: op.advance(7), []),
        (lambda: op.push(pa.table({"t": [2]})), []),
        (lambda: op.advance(10), [(1, "early", "-"), (3, "on_time", "+")]),
    ]
    for act, wanted in steps:
        assert [(r["n"], r["timing"], r["op"]) for r in act().windows.to_pylist()] == wanted
