"""Snapshots that were made up: numbers that point outside of their tables are refused, and no kernel sees them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import slicing as sl
from slicing.cells.lists import Lists
from slicing.cells.table import Cells
from slicing.lifecycle import snapshot
from slicing.lifecycle.state import State

SPEC = sl.Spec(
    "t",
    {"slide": sl.sliding(40, every=10), "visit": sl.session(15)},
    {"n": sl.count(), "least": sl.min("s"), "all": sl.collect("s")},
    by=["k"],
    watermark=sl.bounded(20),
)
REVISED = sl.Spec(
    "t",
    {"w": sl.tumbling(20)},
    {"n": sl.count()},
    by=["k"],
    watermark=sl.bounded(0),
    allowed_lateness=90,
    emit="updates",
)


def pushed(spec: sl.Spec = SPEC) -> sl.Operator:
    operator = sl.Operator(spec)
    for start in (0, 60, 40):
        times = pa.array(np.arange(start, start + 60))
        words = pa.array([f"w{n % 7}" for n in range(60)])
        operator.push(pa.table({"t": times, "k": np.arange(60) % 3, "s": words}))
    return operator


def first_cells(state: State, cells: Callable[[Cells], Cells]) -> State:
    runs = state.store.runs
    return replace(state, store=replace(state.store, runs=(cells(runs[0]), *runs[1:])))


def meta(word: int, value: int) -> Callable[[State], State]:
    def changed(cells: Cells) -> Cells:
        wrong = cells.meta.copy()
        wrong[0, word] = value
        return Cells(wrong, cells.blocks)

    return lambda state: first_cells(state, changed)


def block(number: int, change: Callable[[np.ndarray], np.ndarray]) -> Callable[[State], State]:
    def changed(cells: Cells) -> Cells:
        blocks = list(cells.blocks)
        held = blocks[number]
        blocks[number] = replace(held, items=change(held.items)) if isinstance(held, Lists) else change(held)
        return Cells(cells.meta, tuple(blocks))

    return lambda state: first_cells(state, changed)


def lane(kind: type | None) -> int:
    """The lane of lists, or of texts' extremes."""
    blocks = pushed()._state.store.runs[0].blocks
    return next(i for i, b in enumerate(blocks) if isinstance(b, Lists) == (kind is Lists) and (kind or b.shape[1] > 2))


def beyond(words: np.ndarray) -> np.ndarray:
    wrong = words.copy()
    wrong[:, 1:] = 1 << 40
    return wrong


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (meta(1, 3), "keys of cells are 0 to 3, and there are 3"),
        (meta(1, -1), "keys of cells are -1 to 2, and there are 3"),
        (meta(1, 2**62), "keys of cells"),
        (meta(3, 99), "levels of cells are 0 to 99"),
        (meta(3, -5), "levels of cells"),
        (block(lane(None), beyond), "values of column 's'"),
        (block(lane(Lists), beyond), "values of column 's'"),
        (block(lane(None), lambda words: words[:, :1].copy()), "another width than the spec's"),
    ],
)
def test_a_number_that_points_outside_is_refused(wrong: Callable[[State], State], sentence: str) -> None:
    operator = pushed()
    assert operator._state is not None
    blob = snapshot.write(SPEC, wrong(operator._state), (), False)
    with pytest.raises(sl.SnapshotError, match=f"not one that this library wrote: .*{sentence}"):
        sl.Operator.restore(SPEC, blob)


def test_windows_that_were_revised_are_of_keys_there_are() -> None:
    state = pushed(REVISED)._state
    assert state is not None
    assert state.revisions.code.size
    wrong = replace(state, revisions=replace(state.revisions, code=state.revisions.code + 3))
    with pytest.raises(sl.SnapshotError, match="keys of windows that were revised are 3 to 5, and there are 3"):
        sl.Operator.restore(REVISED, snapshot.write(REVISED, wrong, (), False))


def test_lists_that_end_outside_of_their_items_are_refused() -> None:
    operator, number = pushed(), lane(Lists)
    assert operator._state is not None

    def longer(cells: Cells) -> Cells:
        lists = cells.blocks[number].whole()
        at = lists.at.copy()
        at[1:-1] = len(lists.items) + 1000
        blocks = (*cells.blocks[:number], Lists(at, lists.items), *cells.blocks[number + 1 :])
        return Cells(cells.meta, blocks)

    blob = snapshot.write(SPEC, first_cells(operator._state, longer), (), False)
    with pytest.raises(sl.SnapshotError, match="not one that this library wrote"):
        sl.Operator.restore(SPEC, blob)


def test_rows_that_are_kept_point_into_their_tables() -> None:
    spec = sl.Spec("t", {"last": sl.last_rows(3, every=20)}, {"n": sl.count(), "s": sl.min("s")}, by=["k"])
    operator = pushed(spec)
    assert operator._state is not None
    sl.Operator.restore(spec, operator.snapshot())
    state = operator._state
    wrong = replace(state, pools={name: pool.slice(0, 1) for name, pool in state.pools.items()})
    with pytest.raises(sl.SnapshotError, match="values of column 's'"):
        sl.Operator.restore(spec, snapshot.write(spec, wrong, (), False))
