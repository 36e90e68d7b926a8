"""Of many open sessions few end in a push: the cells of their keys are looked at apart, and nobody sees it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import slicing as sl
from slicing.cells.sessions import SessionCells
from slicing.cells.table import Cells, merged
from slicing.query.policy import Policy
from slicing.storage.open_sessions import Thinned, of_codes, parted, touched

AGGS = {"n": sl.count(), "total": sl.sum("v"), "last": sl.last("v"), "all": sl.collect("v")}
KEYS = 60

QUERIES: dict[str, dict[str, Any]] = {
    "alone": {},
    "several gaps": {"windows": {"s": sl.session(40), "t": sl.session(90), "u": sl.session(7)}},
    "windows beside": {"windows": {"s": sl.session(60), "w": sl.tumbling(9), "u": sl.sliding(50, 20)}},
    "long windows beside": {"windows": {"s": sl.session(20), "w": sl.tumbling(200), "l": sl.landmark(30)}},
    "late": {"allowed_lateness": 25, "windows": {"s": sl.session(40), "w": sl.tumbling(30)}},
    "changes": {"allowed_lateness": 50, "emit": "changes", "windows": {"s": sl.session(40), "w": sl.tumbling(30)}},
    "changes of several gaps": {
        "allowed_lateness": 30,
        "emit": "changes",
        "windows": {"s": sl.session(40), "t": sl.session(9)},
    },
    "whole": {"windows": {"s": sl.session(40), "all": sl.whole()}},
    "idle": {"idle": 70, "windows": {"s": sl.session(40), "w": sl.tumbling(30), "all": sl.whole()}},
    "idle first": {"idle": 20, "windows": {"s": sl.session(40), "w": sl.sliding(60, 30)}},
    "fill": {"windows": {"s": sl.session(40), "w": sl.tumbling(30, fill=True)}},
    "postponed": {"at_most": 3, "windows": {"s": sl.session(40), "w": sl.tumbling(30)}},
}


def pushes(seed: int, count: int = 80) -> list[pa.RecordBatch]:
    """A few rows each, some late, of keys some of which come all the time and some hardly ever; now and then many."""
    random, found, now = np.random.default_rng(seed), [], 0
    for _ in range(count):
        size = int(random.choice([1, 3, 6, 40], p=[0.3, 0.4, 0.25, 0.05]))
        now += int(random.choice([0, 1, 4, 60], p=[0.2, 0.4, 0.38, 0.02]))
        late = random.choice([0, 30, 110], size, p=[0.7, 0.2, 0.1])
        time = now - (late * random.random(size)).astype(np.int64)
        key = (KEYS * random.random(size) ** 2).astype(np.int64)
        found.append(pa.record_batch({"t": time, "k": key, "v": random.integers(0, 100, size)}))
    return found


def operator(query: dict[str, Any], policy: Policy) -> sl.Operator:
    query = {"windows": {"s": sl.session(40)}, "watermark": sl.bounded(8)} | query
    most = query.pop("at_most", None)
    return sl.Operator(sl.Spec("t", aggs=AGGS, by=["k"], **query), max_windows_per_push=most, policy=policy)


def outputs(query: dict[str, Any], seed: int, policy: Policy) -> tuple[list[Any], set[type[Cells]]]:
    op, found, kinds = operator(query, policy), [], set()
    for at, batch in enumerate(pushes(seed)):
        if at % 40 == 39:
            op = sl.Operator.restore(op.spec, op.snapshot(), policy=op._policy)
        out = op.advance(int(batch["t"][0].as_py())) if at % 30 == 7 else op.push(batch)
        found.append((out.windows.to_pylist(), out.late.to_pylist(), out.stats["windowed"], out.watermark))
        runs = op._now.store.runs
        kinds |= {type(run) for run in runs}
        assert out.stats["cells"] == sum(map(len, runs))
        for run in runs:
            check(run)
    found.append((op.flush().windows.to_pylist(),))
    return found, kinds


def check(run: Cells) -> None:
    """What is told of a run without its cells is true of them."""
    if not isinstance(run, Thinned) or len(run) == len(run.whole):
        return
    left = run.whole.take(~run.gone)
    assert (len(run), run.slice_ends.tolist()) == (len(left), left.slice_ends.tolist())
    assert run.earliest_last <= left.earliest_last
    assert run.owner == run.whole.owner


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_keys_are_looked_at_apart_unseen(query: dict[str, Any], seed: int) -> None:
    wanted, kinds = outputs(query, seed, Policy(apart_cells=1 << 40))
    assert kinds == {SessionCells}
    # always, or while they have no more cells than all
    found, kinds = outputs(query, seed, Policy(apart_cells=1, apart_share=seed % 2))
    if "at_most" in query:  # which windows make a share depends on what closes together
        every = [sorted(str(row) for windows, *_ in of for row in windows) for of in (wanted, found)]
        assert every[0] == every[1]
        wanted, found = ([out[1:3] for out in of] for of in (wanted, found))
    for at, (one, other) in enumerate(zip(wanted, found, strict=True)):
        assert one == other, f"push {at}"
    assert (Thinned in kinds) == ("fill" not in str(query))


def test_a_push_moves_only_cells_of_sessions_that_end_or_grow() -> None:
    op = operator({"watermark": sl.ordered()}, Policy(apart_cells=1))
    keys = np.arange(1000)
    rows = pa.record_batch({"t": keys // 10, "k": keys, "v": keys})
    op.push(rows)
    (first,) = op._now.store.runs  # sessions of t < 59 ended at once
    for at in range(10):
        out = op.push(pa.record_batch({"t": [100 + at], "k": [at % 2], "v": [1]}))
        assert (out.windows.num_rows, out.stats["slices"]) == (10, 1)
        assert 400 - 10 * at < out.stats["cells"] <= 410 - 10 * at
    assert op._now.store.runs[0].whole is first  # none of its cells has moved
    assert op.flush().windows.num_rows == 312


def test_runs_forget_what_is_gone_once_it_is_half() -> None:
    cells = SessionCells(
        np.stack([np.zeros(8), *[np.arange(8)] * 2, np.zeros(8), *[np.arange(8)] * 2], axis=1).astype(int), ()
    )
    theirs, left = parted(cells, np.array([2, 3, 11]))
    assert (theirs.code.tolist(), len(left), type(left)) == ([2, 3], 6, Thinned)
    again, less = parted(left, np.array([2, 5, 6]))
    assert (again.code.tolist(), len(less), type(less)) == ([5, 6], 4, Thinned)
    assert len(left) == 6  # as it was: a push that fails leaves it so
    assert of_codes(less, np.array([1, 2])).code.tolist() == [1]
    assert touched(less, [(0, 6)], []).tolist() == [0, 1, 4]
    assert touched(less, [(6, 7)], [(-1, 0)]).tolist() == [0, 1, 4, 7]
    assert type(parted(less, np.array([0]))[1]) is SessionCells
    assert less.code.tolist() == [0, 1, 4, 7]
    assert (less.whole.code.tolist(), less.gone.tolist()) == ([0, 1, 4, 7], [False] * 4)
    assert of_codes(less, np.array([4, 5])).code.tolist() == [4]
    assert merged(less, cells.take(slice(0, 0)), (), np.array([0])).code.tolist() == [0, 1, 4, 7]
