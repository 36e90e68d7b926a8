"""Float aggregates whose answers are equal to the last bit, however the rows were grouped into partials.

With ``emit="changes"`` a retraction is computed again, and must equal the row that was emitted before.

===========  ===========================================================================================================
sums, means  carry their rounding errors, as always (``Plan.exact`` if cells are cut anew)
var, std     from sums of values and of their squares, which two and four floats hold exactly. A mean and the distances
             from it are rounded differently in each grouping; they are used only if squares are too large or too small
product      from the counted values of each slice
===========  ===========================================================================================================
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from slicing.aggregates.aggregate import Aggregate, BoundAggregate, Pools, Types
from slicing.aggregates.algebraic import COUNT_AND_SUM
from slicing.aggregates.arithmetic import Lowered
from slicing.aggregates.changelog import Net
from slicing.cells.blocks import Block
from slicing.cells.lanes import Feed, Lane
from slicing.cells.list_kinds import COUNTED
from slicing.cells.lists import Picked
from slicing.columns.arrow_out import array_of
from slicing.columns.squares import SQUARES
from slicing.columns.values import ValueType
from slicing.kernels import combine as kinds
from slicing.kernels.squares import PARTS, squared_distances
from slicing.system.arrays import Floats

SMALLEST, LARGEST = 2.0**-900, 2.0**900  # sums of squares beyond these limits have lost digits


def steady(agg: Aggregate, bound: BoundAggregate, types: Types) -> BoundAggregate:
    """The aggregate itself, or an equivalent one with steady answers."""
    if agg.function in ("var", "std"):
        return _from_sums(agg, bound)
    if bound.lanes[0].kind == kinds.PRODUCT_F:
        return _from_values(bound, types)
    return bound


class _Counted(Net):
    kind = COUNTED


def _from_values(bound: BoundAggregate, types: Types) -> BoundAggregate:
    """A product, computed in the order of values."""
    lane = bound.lanes[0]
    column = lane.feeds[0].column
    value = ValueType.of(types[column], column)

    def lower(b: list[Block], pools: Pools) -> Lowered:
        return bound.lower([Picked.shared(b[0], _Counted).partials(lane, value, pools.get(column))], pools)

    return BoundAggregate((Lane(COUNTED, (Feed(column, "low"),), lane.flag),), bound.type, lower)


def _from_sums(agg: Aggregate, bound: BoundAggregate) -> BoundAggregate:
    """A variance, or a standard deviation."""
    ddof, root = agg.ddof or 0, agg.function == "std"
    sums = [Lane(kinds.BASIC_F, (Feed(agg.value_column, form),), agg.flag) for form in ("float", *SQUARES)]

    def lower(b: list[Block], pools: Pools) -> Lowered:
        other = bound.lower(b[len(sums) :], pools).array
        count, found = np.ascontiguousarray(b[0][:, 0]), _sums(b[: len(sums)])
        distances = np.empty(count.size)
        squared_distances(count, found, np.empty(PARTS), distances)
        usual = (count > ddof) & (found[:, 2] >= SMALLEST) & (found[:, 2] <= LARGEST) & np.isfinite(distances)
        with np.errstate(all="ignore"):
            var = distances / (count - ddof)
            steady = array_of(np.sqrt(var) if root else var)
        return Lowered(pa.compute.if_else(array_of(usual), steady, other), None)

    return BoundAggregate((*sums, *bound.lanes), bound.type, lower, COUNT_AND_SUM)


def _sums(blocks: Sequence[Block]) -> Floats:
    """Each sum and its rounding error, as two floats that do not overlap."""
    found = np.empty((len(blocks[0]), 2 * len(blocks)))
    with np.errstate(all="ignore"):
        for at, block in enumerate(blocks):
            words = block.view(np.float64)
            total = words[:, 1] + words[:, 2]
            found[:, 2 * at], found[:, 2 * at + 1] = total, words[:, 2] - (total - words[:, 1])
    return found
