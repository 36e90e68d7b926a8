"""The state of a join split by a hash of its keys, and states of different keys joined into one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from slicing.columns.key_marks import KeyMarks
from slicing.columns.keys import KeyTable
from slicing.columns.order import is_sorted
from slicing.joins.sides import GONE, Run, Side, rows_at, run_of
from slicing.joins.state import JoinState
from slicing.joins.within import LEFT, RIGHT
from slicing.system.arrays import Bytes, Codes, Mask


def split(state: JoinState, parts: int) -> list[JoinState]:
    """Split a state by keys into ``parts`` states. A key goes to the same part to which readers send its rows."""
    _check_settled(state)
    if state.keys is None:
        nothing = [Side.fresh(state.plan.within.step)] * 2
        return [state, *[replace(state, sides=(nothing[LEFT], nothing[RIGHT]))] * (parts - 1)]
    keys = state.keys
    target = (keys.hashes(np.arange(len(keys))) % np.uint64(parts)).astype(np.int64)
    rows = [_rows(side) for side in state.sides]
    return [_part(state, rows, target == part) for part in range(parts)]


def joined(states: Sequence[JoinState]) -> JoinState:
    """One state from states of different keys at the same watermarks."""
    first = states[0]
    for state in states:
        _check_settled(state)
    keys = None if first.keys is None else KeyTable(first.plan.key_types)
    codes = []
    for state in states:
        if keys is not None and state.keys is not None:
            codes.append(keys.encode_values(state.keys.values(np.arange(len(state.keys)))))
    sides = []
    for number in (LEFT, RIGHT):
        runs: list[Run] = []
        flags: list[Bytes] = []
        chunks: list[pa.RecordBatch] = []
        base = 0
        for at, state in enumerate(states):
            run, payload = _rows(state.sides[number])
            code = run.code if keys is None else codes[at][run.code]
            runs.append(Run(code, run.time, np.arange(base, base + len(run)), run.sequence, 0))
            side = state.sides[number]
            flags.append(side.flags[run.name - side.base])
            chunks += payload
            base += len(run)
        count = 1 if keys is None else max(len(keys), 1)
        slices = [
            part if keys is None else part.recoded(codes[at])
            for at, state in enumerate(states)
            for part in state.sides[number].slices
        ]
        side = _side(first.plan.within.step, Run.of(runs), np.concatenate(flags), chunks, count)
        sides.append(side.sliced(slices))
    progress = list(first.progress)
    for number, plan in enumerate(first.plan.sides):
        for state in states[1:]:
            progress[number] = plan.policy.joined(progress[number], state.progress[number], plan.measure)
    return replace(
        first, keys=keys, sides=(sides[LEFT], sides[RIGHT]), progress=(progress[LEFT], progress[RIGHT]),
        by_key=(_marks(states, codes, LEFT), _marks(states, codes, RIGHT)),
    )  # fmt: skip


def _marks(states: Sequence[JoinState], codes: Sequence[Codes], side: int) -> KeyMarks:
    """The marks of all keys, by their codes in the joined state."""
    found = KeyMarks()
    for state, code in zip(states, codes, strict=False):  # without keys there are neither codes nor marks
        marks = state.by_key[side].recoded(code)
        found = found.raised(marks.code, marks.mark)
    return found


def _check_settled(state: JoinState) -> None:
    if state.tasks or any(gone.name.size for gone in state.waiting):
        raise ValueError("rows of the join still wait to be joined: call advance() until stats.pending is 0")


def _rows(side: Side) -> tuple[Run, Sequence[pa.RecordBatch]]:
    """The rows that are kept, in order of arrival, and their payload."""
    runs = [run.take(np.flatnonzero((side.flags[run.name - side.base] & GONE) == 0)) for run in side.runs]
    run = Run.of(runs)
    run = run.take(np.argsort(run.name))
    return run, rows_at(side.chunks, run.name - side.base)


def _part(state: JoinState, rows: Sequence[tuple[Run, Sequence[pa.RecordBatch]]], chosen: Mask) -> JoinState:
    """The part of a state with the keys that ``chosen`` selects."""
    assert state.keys is not None
    codes = np.flatnonzero(chosen)
    codes = codes[np.argsort(state.keys.ranks(codes))]
    keys = state.keys.compact(codes)
    number = np.full(len(state.keys), -1, np.int32)
    number[codes] = np.arange(codes.size)
    sides = []
    for side, (run, payload) in zip(state.sides, rows, strict=True):
        places = np.flatnonzero(chosen[run.code])
        flags = side.flags[run.name[places] - side.base]
        some = run.take(places)
        some = Run(number[some.code], some.time, np.arange(places.size), some.sequence, 0)
        chunks = rows_at(payload, places)
        slices = [part.where(chosen[part.code]).recoded(number) for part in side.slices]
        sides.append(_side(state.plan.within.step, some, flags, chunks, max(codes.size, 1)).sliced(slices))
    left, right = (marks.taken(chosen[marks.code]).recoded(number) for marks in state.by_key)
    return replace(state, keys=keys, sides=(sides[LEFT], sides[RIGHT]), by_key=(left, right))


def _side(step: int, rows: Run, flags: Bytes, chunks: Sequence[pa.RecordBatch], codes: int) -> Side:
    """A side with these rows, which are in order of arrival."""
    side = replace(Side.fresh(step), next=len(rows), flags=flags).stored(tuple(chunks))
    ascending = is_sorted(rows.time)
    return side.added(run_of(rows.code, rows.time, rows.name, rows.sequence, codes, ascending)[0])
