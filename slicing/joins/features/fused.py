"""Fuse events that no label can tell apart into slices: one partial for each key and slice.

A label reaches the events between two ends. Near ends, and exact far ends, may lie at any time. Floored far ends lie
only at multiples of the range's ``tail``. The first label that waits or may still come decides from which time on
events must stay rows. Older events are fused: a slice lies between two ends that labels may still have.
"""

from __future__ import annotations

import numpy as np

from slicing.cells.blocks import Block
from slicing.closing.emit import answered as combined
from slicing.columns.order import changes, order_by
from slicing.joins.features.answer import rows_of
from slicing.joins.features.plan import FeaturePlan
from slicing.joins.features.ranges import Ranges
from slicing.joins.sides import Run, Side
from slicing.joins.slices import Slices, beside
from slicing.kernels import combine as kinds
from slicing.query.plan import Plan
from slicing.reducing.reduce import range_partials
from slicing.system.arrays import Codes, Ints

OLD = -1  # the arrival of rows in slices: before all other rows, which are numbered from 0


def fused(plan: FeaturePlan, events: Side, first: int) -> Side:
    """The events, with those fused into slices that labels from time ``first`` on do not tell apart."""
    aggs, within, most = plan.aggs, plan.within, plan.policy.slices_at_once
    assert aggs is not None
    until = within.apart(first)
    parts, keep = [], []
    for run in events.runs:
        old = None if run.low >= until else run.time < until
        keep.append(None if old is None else ~old)
        if old is not None:
            parts.append(_lifted(aggs, within, run.take(np.flatnonzero(old)), events, first))
    if not parts and not (within.coarsens and events.slices):
        return events
    tables = list(events.slices)
    if parts:
        tables.append(_settled(aggs, _merged(aggs, within, parts, first)))
    while len(tables) > 1 and len(tables[-2]) < max(2 * len(tables[-1]), most):
        tables[-2:] = [_merged(aggs, within, tables[-2:], first)]
    if not parts and len(tables) == 1 and len(tables[0]) <= most:
        tables = [_merged(aggs, within, tables, first)]
    return events.without(keep).sliced(tables)


def _lifted(aggs: Plan, within: Ranges, run: Run, events: Side, first: int) -> Slices:
    """The rows of a run, reduced to slices."""
    begin, end = _groups(run.code, within.slices(run.time, first))
    return Slices(run.code[begin], run.time[begin], range_partials(rows_of(aggs, run, events), begin, end))


def _merged(aggs: Plan, within: Ranges, tables: list[Slices], first: int) -> Slices:
    """Tables, given in order of arrival, merged into one with one row for each key and slice."""
    every = beside(tables)
    start = within.slices(every.time, first)
    order = order_by(start, every.code.astype(np.int64))
    every, start = every.take(order), start.take(order)
    begin, end = _groups(every.code, start)
    if begin.size == len(every):
        return every
    return Slices(every.code[begin], every.time[begin], combined(aggs, aggs.lanes, every.blocks, begin, end))


def _groups(code: Codes, start: Ints) -> tuple[Ints, Ints]:
    """Where each group of rows with equal code and start begins and ends."""
    begin = np.flatnonzero(changes(code, start))
    return begin, np.append(begin[1:], code.size)


def _settled(aggs: Plan, slices: Slices) -> Slices:
    """Slices whose rows have arrival ``OLD``, before all later rows: names of rows are renumbered from time to time."""
    blocks: list[Block] = []
    for lane, block in zip(aggs.lanes, slices.blocks, strict=True):
        if lane.kind in kinds.ARRIVAL_WORDS:
            block = block.copy()
            block[:, kinds.ARRIVAL_WORDS[lane.kind]] = OLD
        blocks.append(block)
    return Slices(slices.code, slices.time, tuple(blocks))
