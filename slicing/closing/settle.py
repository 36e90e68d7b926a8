"""Results of changelogs: a window left without rows is dropped, and rows taken back that were never there are found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from slicing.aggregates.changelog import ROWS, Side, Unmatched, first_and_last, times_of, unmatched
from slicing.aggregates.totals import Total
from slicing.cells.blocks import Block
from slicing.cells.lanes import Lane
from slicing.cells.lists import Lists
from slicing.cells.table import Cells
from slicing.closing.answers import Answers
from slicing.closing.panes import EARLY
from slicing.columns.arrow_out import array_of
from slicing.columns.keys import KeyTable
from slicing.columns.values import BOOL, UNSIGNED
from slicing.kernels.combine import NET_SUM
from slicing.query.plan import Plan
from slicing.system.arrays import Ints, Mask
from slicing.windows.bounds import BEGIN
from slicing.windows.builtin import Landmark


def settled(
    plan: Plan, answers: Answers, timing: Ints | None, keys: KeyTable | None
) -> tuple[Answers, Ints | None, Mask | None]:
    """The windows that have rows left, their positions among all windows (None: all), and which of them get nulls.

    A window gets nulls if more was taken back than there was and ``on_unmatched="null"``; otherwise that is an error.
    Early reports of such windows are withheld, and so are the rows that would take these reports back.
    """
    blocks = answers.whole()
    rows = blocks[plan.lanes.index(ROWS)][:, 0]
    wrong, nothing, shows = rows < 0, rows == 0, answers.shows
    for lane, found in _lanes(plan, blocks):
        bad = found.below | (nothing & found.left)
        bad = _seen(plan, answers, lane, bad)
        wrong = wrong | bad
    gone = nothing & ~wrong
    if shows is not None:
        gone, wrong = gone[shows], wrong[shows]
    if timing is not None:
        gone, wrong = gone | (wrong & (timing == EARLY)), wrong & (timing != EARLY)
    if wrong.any() and plan.spec.on_unmatched == "error":
        _refuse(plan, answers, keys, int(np.argmax(wrong)), rows, blocks)
    if plan.wholes:
        answers = _bounded(plan, answers, blocks)
    kept = np.flatnonzero(~gone) if gone.any() else None
    if kept is not None:
        ordered, answers, wrong = answers.ordered, answers.take(kept), wrong[kept]
        answers.ordered = ordered
    return answers, kept, wrong if wrong.any() else None


def nulled(array: pa.Array, void: Mask) -> pa.Array:
    """The column with nulls where ``void`` is set."""
    return array.take(array_of(np.arange(len(array)), void))


def news(plan: Plan, cells: Cells) -> Cells:
    """Drop cells whose rows cancel one another. With a landmark no cell is dropped: any row is news to it."""
    if plan.spec.op is None or any(isinstance(window, Landmark) for window in plan.spec.windows.values()):
        return cells
    new = np.zeros(len(cells), np.bool_)
    for lane, block in zip(plan.lanes, cells.blocks, strict=True):
        if isinstance(block, Lists):
            new |= np.diff(block.at) > 0
        else:
            new |= unmatched(lane, block, None).left
    return cells if new.all() else cells.take(np.flatnonzero(new))


def _lanes(plan: Plan, blocks: tuple[Block, ...]) -> Iterator[tuple[Lane, Unmatched]]:
    """For each lane what is wrong with its partials. The two sides of one lane are checked together."""
    for lane, block in zip(plan.lanes, blocks, strict=True):
        if not isinstance(lane.flag, Side):
            found = unmatched(lane, block, None)
            if lane.kind == NET_SUM and plan.partials.value_types[lane.feeds[0].column].family in (UNSIGNED, BOOL):
                found = found._replace(below=found.below | _negative(plan, lane, block))
            yield lane, found
        elif lane.flag.sign > 0:
            other = lane._replace(flag=Side(-1, lane.flag.flag))
            yield lane, unmatched(lane, block, blocks[plan.lanes.index(other)])


def _negative(plan: Plan, lane: Lane, block: Block) -> Mask:
    """Where the sum of values that are never negative is: more was taken back than there was."""
    value = plan.partials.value_types[lane.feeds[0].column]
    return Total.of(block, value.type == pa.uint64()).high < 0


def _bounded(plan: Plan, answers: Answers, blocks: tuple[Block, ...]) -> Answers:
    """Set the times of whole streams to those of the first and last row that are left."""
    time = str(plan.spec.time)
    held, *words = first_and_last(blocks[plan.lanes.index(times_of(time))])
    value = plan.partials.value_types[time]
    found = np.stack([answers.start, answers.end])
    whole = np.isin(answers.window, plan.wholes)
    place = np.full(len(answers) if answers.shows is None else len(blocks[0]), -1)
    place[held] = np.arange(held.size)
    which = place if answers.shows is None else place[answers.shows]
    chosen = np.flatnonzero(whole & (which >= 0))
    for side, word in zip(found, words, strict=True):
        side[chosen] = plan.measure.words(value.array(word[which[chosen]], None, None))
    return replace(answers, start=found[0], end=found[1], ordered=False)


def _seen(plan: Plan, answers: Answers, lane: Lane, bad: Mask) -> Mask:
    """``bad`` without windows that began before a lane's aggregates were added: they have not seen what is taken
    back."""
    if not plan.agg_since or answers.shows is not None or not bad.any():
        return bad
    using = [name for name, agg in plan.aggs.items() if lane in agg.lanes]
    since = min((plan.agg_since.get(name, BEGIN) for name in using), default=BEGIN)
    return bad & (answers.start >= since)


def _refuse(
    plan: Plan, answers: Answers, keys: KeyTable | None, row: int, rows: Ints, blocks: tuple[Block, ...]
) -> None:
    partial = row if answers.shows is None else int(answers.shows[row])
    what = "more rows were taken back than there were"
    if rows[partial] >= 0:
        lanes = ((lane, found.below | ((rows == 0) & found.left)) for lane, found in _lanes(plan, blocks))
        lane = next(lane for lane, bad in lanes if bad[partial])
        what = f"of column {lane.feeds[0].column!r} values were taken back that were not there"
    start, end = (
        None if tick == BEGIN else plan.measure.value(tick) for tick in (int(answers.start[row]), int(answers.end[row]))
    )
    named = [] if keys is None else [column[0].as_py() for column in keys.columns(answers.code[row : row + 1])]
    key = "".join(f", {name}={value!r}" for name, value in zip(plan.spec.by, named, strict=True))
    raise ValueError(
        f"op={plan.spec.op!r}: {what} in window {plan.names[int(answers.window[row])]!r} from {start} to {end}{key}; "
        "use on_unmatched='null' to have nulls instead"
    )
