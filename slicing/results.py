"""Answers to Arrow: the columns of ``out.windows``, in their order."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slicing.aggs import Pools
from slicing.cells import BEYOND, Cells
from slicing.emit import Answers, key_ranks
from slicing.kernels.combine import identity
from slicing.keys import KeyTable
from slicing.plan import Plan
from slicing.windows import BEGIN

Ints = npt.NDArray[np.int64]


def schema(plan: Plan) -> pa.Schema:
    """The columns of ``out.windows``."""
    time = plan.measure.type
    fields = [pa.field("window", pa.string()), pa.field("window_start", time), pa.field("window_end", time)]
    fields += [pa.field(n, t) for n, t in zip(plan.spec.by, plan.key_types, strict=True)]
    fields += [pa.field(n, a.type) for n, a in plan.aggs.items()]
    if plan.spec.emit == "updates":
        fields.append(pa.field("revision", pa.int64()))
    if plan.spec.emit == "changes":
        fields.append(pa.field("op", pa.string()))
    return pa.schema(fields)


def in_order(answers: Answers, keys: KeyTable | None, last: Ints | None = None) -> Ints | None:
    """The order of rows: end, window, start, keys (null first), then ``last``; None where they are in it."""
    if answers.ordered and last is None:
        return None
    rank = key_ranks(answers.code, keys)[answers.code]
    return np.lexsort(((last,) if last is not None else ()) + (rank, answers.start, answers.window, answers.end))


def to_table(plan: Plan, answers: Answers, keys: KeyTable | None, pools: Pools, mark: Ints | None = None) -> pa.Table:
    """``mark`` is the revision of each row or, for changes, 0 for '-' and 1 for '+'."""
    order = in_order(answers, keys, mark)
    if order is not None:
        answers = answers.take(order)
        mark = None if mark is None else mark[order]
    names = pa.DictionaryArray.from_arrays(pa.array(answers.window.astype(np.int32)), pa.array(plan.names, pa.string()))
    no_start = answers.start == BEGIN
    columns = [
        names.cast(pa.string()),
        plan.measure.array(answers.start, no_start if no_start.any() else None),
        plan.measure.array(answers.end),
    ]
    if keys is not None:
        columns += keys.columns(answers.code)
    columns += aggregates(plan, answers, pools)
    if plan.spec.emit == "updates":
        columns.append(pa.array(np.zeros(len(answers), np.int64) if mark is None else mark))
    if plan.spec.emit == "changes":
        sign = np.ones(len(answers), np.int64) if mark is None else mark
        columns.append(pa.array(["-", "+"]).take(pa.array(sign)))
    return pa.Table.from_arrays(columns, schema=schema(plan))


def aggregates(plan: Plan, answers: Answers, pools: Pools) -> list[pa.Array]:
    blocks = dict(zip(plan.lanes, answers.blocks, strict=True))
    columns = []
    for name, agg in plan.aggs.items():
        array, overflow = agg.lower([blocks[lane] for lane in agg.lanes], pools)
        if overflow is not None and overflow.any():
            array = _overflown(plan, answers, name, array, overflow)
        columns.append(array)
    return columns


def _overflown(plan: Plan, answers: Answers, name: str, array: pa.Array, overflow: npt.NDArray[np.bool_]) -> pa.Array:
    if plan.spec.on_overflow == "error":
        row = int(np.argmax(overflow))
        start, end = (plan.measure.value(int(c[row])) for c in (answers.start, answers.end))
        raise OverflowError(
            f"{plan.spec.aggs[name]!r} (output column {name!r}) does not fit {array.type} in window "
            f"{plan.names[int(answers.window[row])]!r} from {start} to {end}; use on_overflow='null' or 'wrap'"
        )
    if plan.spec.on_overflow == "wrap" and not pa.types.is_decimal(array.type):
        return array
    kept = array.is_valid().to_numpy(zero_copy_only=False) & ~overflow
    return (
        pa.array(array.fill_null(0).to_numpy(zero_copy_only=False), mask=~kept)
        if not pa.types.is_decimal(array.type)
        else array
    )


def with_empty(
    plan: Plan, answers: Answers, filled: dict[int, Ints], table: Cells, after: int, until: int
) -> tuple[Answers, dict[int, Ints]]:
    """Add the empty windows between a key's first and last row (of those known) that are complete by ``until``.

    ``filled`` holds, for each window with ``fill=True``, the end of the last one given out for each code (BEGIN: none).
    """
    parts, given = [answers], dict(filled)
    codes = int(table.code.max()) + 1
    starts = table.slices()
    for k in plan.fill:
        number, bound = plan.timed[k], plan.bounds[k]
        mine = answers.take(answers.window == number)
        # windows that ended by `after` are in `filled`; slices that outlived theirs say nothing about this type
        newest, held_until = np.full(codes, BEGIN, np.int64), bound.last_end(table.end[starts])
        held_until[held_until <= after] = BEGIN
        np.maximum.at(newest, table.code, np.repeat(held_until, np.diff(np.append(starts, len(table)))))
        last = np.full(max(codes, filled[k].size if k in filled else 0), BEGIN, np.int64)
        if k in filled:
            last[: filled[k].size] = filled[k]
        first_answer = np.full(codes, BEYOND, np.int64)
        np.minimum.at(first_answer, mine.code, mine.end)
        lower = np.where(last[:codes] > BEGIN, last[:codes], first_answer)
        open_keys = np.flatnonzero((lower < BEYOND) & (newest > BEGIN))
        if not open_keys.size:
            continue
        lower, upper = lower[open_keys], np.minimum(newest[open_keys], until)
        every_end = bound.all_ends(int(lower.min()), int(upper.max()))
        a = np.searchsorted(every_end, lower, "right")
        b = np.maximum(np.searchsorted(every_end, upper, "right"), a)
        end = every_end[np.repeat(a - np.cumsum(b - a) + (b - a), b - a) + np.arange((b - a).sum())]
        blocks = tuple(identity(lane.kind, end.size) for lane in plan.lanes)
        code = np.repeat(open_keys, b - a)
        candidates = Answers(np.full(end.size, number, np.int64), bound.start_of(end), end, code, blocks)
        parts.append(candidates.take(~among(candidates, mine)))
        np.maximum.at(last, mine.code, mine.end)
        np.maximum.at(last, code, end)
        given[k] = last
    return Answers.together(parts), given


def among(answers: Answers, others: Answers) -> npt.NDArray[np.bool_]:
    """Which of the answers are windows of ``others`` too."""
    n = len(others)
    names = ("window", "start", "end", "code")
    columns = [np.append(getattr(others, c), getattr(answers, c)) for c in names]
    order = np.lexsort(columns)
    same = np.append(False, np.logical_and.reduce([c[order][1:] == c[order][:-1] for c in columns]))[: order.size]
    group = np.cumsum(~same) - 1
    held = np.zeros(order.size, np.bool_)
    held[group[order < n]] = True
    out = np.empty(order.size, np.bool_)
    out[order] = held[group]
    return out[n:]
