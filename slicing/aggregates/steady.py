"""Float aggregates whose answers are equal to the last bit, however the rows were grouped into partials.

With ``emit="changes"`` a retraction is computed again, and must equal the row that was emitted before.

===========  ===========================================================================================================
sums, means  carry their rounding errors, as always (``Plan.exact`` if cells are cut anew)
var, std     from sums of values and of their squares, which two floats hold exactly. A mean and the distances from it
             are rounded differently in each grouping; they are used only if squares are too large or too small
product      from the counted values of each slice
===========  ===========================================================================================================
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from slicing.aggregates.aggregate import Aggregate, BoundAggregate, Pools, Types
from slicing.aggregates.algebraic import COUNT_AND_SUM
from slicing.aggregates.arithmetic import Lowered
from slicing.aggregates.changelog import Net
from slicing.cells.blocks import Block
from slicing.cells.lanes import Feed, Lane
from slicing.cells.lists import COUNTED, Picked
from slicing.columns.arrow_out import array_of
from slicing.columns.squares import SQUARES, product
from slicing.columns.values import ValueType
from slicing.kernels import combine as kinds
from slicing.system.arrays import Floats

SMALLEST, LARGEST = 2.0**-900, 2.0**900  # sums of squares beyond these limits have lost digits
NOTHING = 2.0**-96  # a difference smaller than this share has no digits left


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
        squares, usual = _sum(b[1])[0], b[0][:, 0] > ddof
        with np.errstate(all="ignore"):
            usual &= (squares >= SMALLEST) & (squares <= LARGEST)
            distances = _distances(b[0][:, 0], _sum(b[0]), _sum(b[1]), _sum(b[2]))
            usual &= np.isfinite(distances)
            var = distances / (b[0][:, 0] - ddof)
            found = array_of(np.sqrt(var) if root else var)
        return Lowered(pa.compute.if_else(pa.array(usual), found, other), None)

    return BoundAggregate((*sums, *bound.lanes), bound.type, lower, COUNT_AND_SUM)


def _sum(block: Block) -> tuple[Floats, Floats]:
    """A sum and its rounding error, as two floats that do not overlap."""
    words = block.view(np.float64)
    with np.errstate(invalid="ignore"):
        total: Floats = words[:, 1] + words[:, 2]
        return total, words[:, 2] - (total - words[:, 1])


def _distances(
    count: Floats, sums: tuple[Floats, Floats], squares: tuple[Floats, Floats], lost: tuple[Floats, Floats]
) -> Floats:
    """The sum of squared distances from the mean, (n * squares - sum * sum) / n for n values, in pairs of floats."""
    n = count.astype(np.float64)
    more, beyond = product(squares[0], n)
    beyond = beyond + n * (squares[1] + lost[0] + lost[1])
    less, below = product(sums[0], sums[0])
    below = below + 2 * sums[0] * sums[1]
    far = (more - less) + (beyond - below)
    return np.where(far < NOTHING * more, 0.0, far) / n
