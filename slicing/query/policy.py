"""How a query is run, where there is a choice: never what it answers."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any

from slicing.cells.combining import AUTO, FEW, NAMES
from slicing.columns.lazy import lazy
from slicing.kernels.strategies import STRATEGIES
from slicing.query.spec import Spec
from slicing.system.threads import SHARE, Share


@dataclass(frozen=True)
class Policy:
    """How a query is run: what an operator was told, and from where on one route is taken rather than another one."""

    combine: str = AUTO  # how slices become windows
    threads: int = 1  # that share the rows of large pushes
    max_windows_per_push: int | None = None  # None: however many a flush gives
    max_bytes: int | None = None  # None: whatever a push comes to
    on_full: str = "error"  # a push that would be more is refused, or "late": its rows are
    accounts: bool = True  # outputs say what became of the rows and what is held; False: nobody asks but for windows

    # rows into cells
    share: Share = SHARE  # from where on several threads share them
    numpy_cuts: int = 1024  # rows that numpy cuts as well, 2 us against 1: a kernel is loaded for more
    block: int = 512  # rows looked at together
    chunk: int = 1 << 16  # rows scattered at a time: half as many take 0.96 to 0.93 of the rate
    long_slot: int = 4096  # rows of a slot that are worth a turn of their own
    most_pieces: int = 7  # slots a block of rows may touch before scattering is cheaper than a masked pass for each
    turns: int = 8  # cells a slot that rows without keys take turns at
    turn_rows: int = 16  # rows of such a cell that are not worth it
    shared_rows: int = 16  # rows of a cell that are not worth that several threads make it
    thread_rows: int = 3 << 17  # rows of a thread that are worth cells of its own
    grid_rows: int = 32  # rows between edges of the grid that are not worth a cell

    # the store
    head_slots: int = 4  # slots side by side in the head, of streams somewhat out of order
    head_filled: float = 0.5  # of the keys have rows in a slot: dense cells beat sorted runs, in time and in memory
    head_rows: int = 4  # rows a key of pushes that are reduced to cells of their own
    apart_cells: int = 4096  # at least of which those of some keys are looked at apart
    apart_share: int = 8  # times as many at least as these keys have, likewise
    fused_cells: int = 256  # cells, or items of their lists, that are not worth a look which of them could be fused

    packed_keys: int = 128  # or fewer hold too little for runs of their cells to be packed
    packed_cells: int = 1024  # of a run that are worth it
    packed_slice: int = 8  # a slice at least, likewise: each slice has an entry of its own
    packed_words: int = 12  # of partials that are packed as well: pushes that look at all of them take 1.1 to 1.2x
    packed_pushes: tuple[float, float] = (4, 1.5)  # that a run is worth at least, so that it stays; with such partials

    # kept rows
    step_rows: int = 1 << 20  # that become final at a time: what is made of them is memory that those before have used
    slice_rows: int = 2  # between the edges of windows that count rows: with fewer, slices would be as much as rows
    alone_rows: int = 4  # times as many are kept as became final, for a look at the latter alone to be worth it

    # trees over runs
    tree_slides: int = 64  # a window spans at least before a tree is worth its making
    tree_slices: int = 64  # a run has at least, likewise
    tree_fanout: int = 8  # 360,000 slices are 7 levels; a window takes at most 14 nodes of each
    tree_largest: int = 1 << 17  # cells: larger runs are not merged with the next one, so that no push moves much more

    # windows from cells
    way: str | None = None  # to answer, whatever it costs, where it can
    strategies: tuple[str, str] | None = None  # to combine: of lanes that can be removed from one another, of others
    recomputed: int = FEW  # combinations that are done before another strategy's kernels are loaded
    stepped: int = 512  # windows at a time that are worth kernels over dense columns of partials
    stepped_cells: int = 16  # cells a window, of all these at a time, that are not
    slices_together: int = 1024  # of all runs that are sooner looked at together: two runs of 2 slices 75 -> 30 us
    table_calls: int = 2500  # cells' worth of the calls that one table takes: 150 us
    ordered: bool = True  # results come in their order; False: as they are found, for who orders them by something else
    piece: int = 1 << 16  # windows whose partials, and the rows they are made of, are read together: they stay in cache
    known_names: int = 1 << 17  # rows of windows that end together whose names are kept, at most
    pane_looks: int = 1 << 22  # slices that are looked at together for panes, for each window that holds them
    cut_rows: int = 1 << 17  # that are looked at together for panes at rows, each in all its windows
    table_passes: int = 6  # times all cells are gone over to merge, sort and gather them

    # features
    # 1 M events, three ranges: a label for 100 events 57 ms by cells, 66 without, for 33 78 and 81, for 10 145 and 124
    fewest_events: int = 16  # a label on average, or ranges are answered from cells
    # 1 M events, 100,000 labels with ranges of 17, 83 and 333: 25 ms one by one, 55 from what they have in common
    long_ranges: int = 64  # times the events of a run in all ranges: those are not reduced one by one
    thread_labels: int = 1 << 12  # labels that are worth a second thread
    slices_at_once: int = 1 << 16  # of events that are one table; of more of them one is at least twice the next
    sparse_reach: int = 8  # times as many rows of a run as labels reach are looked through

    # all of the data at once
    push_rows: int = 1 << 19  # that are pushed at a time where windows are given out on the way
    gathered_rows: int = 1 << 15  # of small batches in a push: by 256 rows 7 to 16 times as fast, by 2048 2.4 to 4

    def __hash__(self) -> int:
        return self._hash

    @lazy
    def _hash(self) -> int:
        return hash(tuple([getattr(self, field.name) for field in fields(self)]))

    def told(self, **arguments: Any) -> Policy:
        """This one, with those of an operator's arguments that are not what they would be anyway."""
        others = [(name, value) for name, value in arguments.items() if value is not getattr(Policy, name)]
        try:
            return _but(self, tuple(others)) if others else self
        except TypeError:  # what has no hash is refused by name later
            return replace(self, **dict(others))

    def pays(self, way: str, cost: int, live: int) -> bool:
        """Whether a way to answer goes over so many cells, rather than merge, sort and gather all that are live."""
        if self.way is not None:
            return way == self.way or cost == 0
        return cost <= self.table_passes * live


@lru_cache(64)
def _but(policy: Policy, others: tuple[tuple[str, Any], ...]) -> Policy:
    """``replace``, which takes 16 us for as many fields, once."""
    return replace(policy, **dict(others))


DEFAULT = Policy()
ADDED = ("count", "sum", "mean")  # aggregates that read nothing of a lane but what can be removed from it


def checked(name: object, spec: Spec) -> str:
    """The name of a strategy; refuses one that cannot answer the spec, whatever the types of its columns."""
    if not isinstance(name, str) or name not in NAMES:
        raise ValueError(f"combine must be {', '.join(map(repr, NAMES[:-1]))} or {NAMES[-1]!r}; got {name!r}")
    if name in STRATEGIES and STRATEGIES[name].removes:
        for agg, asked in ((name, part) for name, formula in spec.aggs.items() for part in formula.parts()):
            if asked.function not in ADDED and not getattr(asked.user, "invertible", False):
                raise ValueError(refusal(name, agg, repr(asked)))
    return name


def refusal(name: str, agg: str, what: str) -> str:
    return (
        f"combine={name!r} removes what leaves a window, which is exact only for counts and for sums and means of "
        f"integers and decimals; aggs[{agg!r}] is {what}"
    )
