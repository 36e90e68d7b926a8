"""Which strategy combines cells into windows: the cheapest by what it makes and combines, or the one asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from slicing.kernels.combine import REMOVABLE
from slicing.kernels.strategies import STRATEGIES
from slicing.slices import eager
from slicing.slices.lanes import Lane

if TYPE_CHECKING:
    from slicing.plan import Plan
    from slicing.spec import Spec

Ints = npt.NDArray[np.int64]

AUTO = "auto"
EAGER = "eager store"
BUCKETS = "buckets"
NAMES = (AUTO, *STRATEGIES, EAGER, BUCKETS)
FEW = 1 << 14  # combinations that are done before another strategy's kernels are loaded
ADDED = ("count", "sum", "mean")  # aggregates that read nothing of a lane but what can be removed from it


def checked(name: object, spec: Spec) -> str:
    """The name of a strategy; refuses one that cannot answer the spec, whatever the types of its columns."""
    if not isinstance(name, str) or name not in NAMES:
        raise ValueError(f"combine must be {', '.join(map(repr, NAMES[:-1]))} or {NAMES[-1]!r}; got {name!r}")
    if name in STRATEGIES and STRATEGIES[name].removes:
        for agg, asked in spec.aggs.items():
            if asked.function not in ADDED and not getattr(asked.user, "invertible", False):
                raise ValueError(_refusal(name, agg, repr(asked)))
    return name


def check_types(name: str, plan: Plan) -> None:
    """Refuse what ``checked`` could not know of: a strategy that removes needs exact sums."""
    if name in _ADDS_UP and not plan.adds_up:
        raise ValueError(
            f"combine={name!r} {_ADDS_UP[name]}: it takes time windows alone, without sessions, whole(), fill and "
            f"idle, and aggregates whose partials have a fixed size; got {plan.spec!r}"
        )
    if name in STRATEGIES and STRATEGIES[name].removes:
        for agg, bound in plan.aggs.items():
            if not plan.removable.issuperset(bound.lanes):
                columns = ", ".join(f"{c} {plan.types[c]}" for c in plan.spec.aggs[agg].columns())
                raise ValueError(_refusal(name, agg, f"{plan.spec.aggs[agg]!r} ({columns})"))


_ADDS_UP = {
    EAGER: "keeps coarser partials of slices",
    BUCKETS: "puts the partials of slices into all windows that hold them",
}


def _refusal(name: str, agg: str, what: str) -> str:
    return (
        f"combine={name!r} removes what leaves a window, which is exact only for counts and for sums and means of "
        f"integers and decimals; aggs[{agg!r}] is {what}"
    )


def removable(plan: Plan) -> frozenset[Lane]:
    """The lanes whose partials may be removed from one another: whoever reads them reads only what is exact then."""
    reads_more = {
        lane for name, agg in plan.aggs.items() if plan.spec.aggs[name].function not in ADDED for lane in agg.lanes
    }
    exact = (lane for lane in plan.lanes if isinstance(lane.kind, int) and lane.kind in REMOVABLE)
    by_user = (lane for lane in plan.lanes if getattr(lane.kind, "removable", False))
    return frozenset({lane for lane in exact if lane not in reads_more or len(REMOVABLE[lane.kind]) == 0} | {*by_user})


def deep(plan: Plan) -> bool:
    """Whether a window slides over so many slices that few windows are worth a tree over them."""
    periodic = [bound.periodic for bound in plan.bounds if bound.periodic is not None]
    return plan.adds_up and any(size >= eager.DEEP * every for size, every, _ in periodic)


def choose(first: Ints, last: Ints, cells: int, removes: bool = False) -> str:
    """The cheapest strategy; ``removes``: for lanes whose partials can be removed from one another."""
    if cells * first.size <= FEW:
        return "recompute"
    each = int(np.add.reduce(last - first))
    if each <= 3 * first.size + FEW:
        return "recompute"
    if not removes and STRATEGIES["two stacks"].cost(first, last, cells) <= min(each, 2 * cells + 3 * first.size):
        return "two stacks"  # each cell twice, as no other does: the others are not asked
    found = costs(first, last, cells, removes)
    return min(found, key=found.__getitem__)


def costs(first: Ints, last: Ints, cells: int, removes: bool = False) -> dict[str, int]:
    """How many partials each strategy that may be chosen makes and combines."""
    names = ["sparse table", "recompute", *(["prefix difference"] if removes else [])]
    found = {name: STRATEGIES[name].cost(first, last, cells) for name in names}
    if min(found.values()) > 2 * first.size:  # worth asking: one pass over the ranges
        found["two stacks"] = STRATEGIES["two stacks"].cost(first, last, cells)
    return found
