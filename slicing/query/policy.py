"""How a query is run where there is a choice; this never changes its answers."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any

from slicing.cells.combining import AUTO, BUCKETS, EAGER, FEW_COMBINATIONS, NAMES
from slicing.kernels.strategies import STRATEGIES
from slicing.query.spec import Spec
from slicing.system.lazy import lazy
from slicing.system.threads import SHARE, Share
from slicing.windows.builtin import Session, Whole
from slicing.windows.context_free import ContextFreeWindow


@dataclass(frozen=True)
class Policy:
    """How a query is run: arguments of the operator, and thresholds that choose between methods."""

    combine: str = AUTO  # how slices are combined to windows
    threads: int = 1  # threads that share the rows of large pushes
    max_windows_per_push: int | None = None  # None: no limit
    max_bytes: int | None = None  # None: no limit
    on_full: str = "error"  # beyond max_bytes: the push is refused, or "late": its rows are late
    lent: bool = False  # nobody writes into the memory of rows before all results are made
    listed: bool = False  # texts that are only picked from rows have a place for each row: no more than a few come
    ranks: bool = True  # False: nobody reads the ranks of `rows` windows, which may be null
    starts: bool = True  # False: nobody reads where windows start (attach does not), which may be where they end
    accounts: bool = True  # outputs have stats and held counts; False: only windows are wanted

    # rows into cells
    share: Share = SHARE  # from which size on several threads share rows
    straight: bool = True  # rows in order of queries without keys become cells, or windows, in one step
    straight_cells: int = 1 << 10  # if more cells are held, only pushes of many rows go straight: it copies the cells
    straight_rows: int = 16  # for each of these cells, a push needs so many rows to go straight then
    numpy_cuts: int = 1024  # up to so many rows numpy cuts, 2 us against 1: a kernel must be loaded first
    block: int = 512  # rows looked at together
    ordered_rows: int = 2048  # rows in order that edges are searched in together: of 512, a page, 0.32 -> 0.24 ns a row
    chunk: int = 1 << 16  # rows scattered at a time: half as many take 0.96 to 0.93 of the rate
    long_slot: int = 4096  # rows of a slot from which on it is scattered separately
    most_pieces: int = 7  # slots a block of rows may touch before scattering is cheaper than a masked pass for each
    most_float_pieces: int = 14  # likewise, for sums and extremes of floats alone: 10 slots 5.9 -> 4.3 ns a row
    turns: int = 8  # cells a slot that rows without keys are spread over in turn
    turn_rows: int = 16  # with fewer rows for each such cell it does not pay
    shared_rows: int = 16  # with fewer rows for each cell, several threads do not pay
    thread_rows: int = 3 << 17  # rows of a thread from which on it has its own cells
    thread_lists: int = 16  # slices of a thread from which on it has its own lists; those of one slice are merged
    grid_rows: int = 32  # with fewer rows between edges of the grid, a cell does not pay
    selected: int = 256  # rows of a cell, on average, from which on values for medians are not sorted ahead

    # the store
    head_slots: int = 4  # adjacent slots in the head, for streams slightly out of order
    head_filled: float = 0.58  # share of a head's places that rows are likely to have, from which on it begins
    head_most: int = 1 << 30  # rows of a head: half a word counts them
    head_rows: int = 128  # rows a key from which on a push is reduced to cells of its own: 10 of them take 1.6x as long
    head_shared: int = 4  # likewise, for rows that several threads share
    apart_cells: int = 4096  # fewest cells at which the cells of some keys are looked at separately
    apart_share: int = 8  # at least so many times as many cells as these keys have, likewise
    fused_cells: int = 256  # with fewer cells, or items of their lists, it does not pay to look for cells to fuse

    packed_keys: int = 128  # with so few keys or fewer, runs of their cells are too small to be packed
    packed_cells: int = 128  # fewest cells of a run that is packed
    packed_slice: int = 8  # fewest cells a slice, likewise: each slice has an entry of its own
    packed_words: int = 12  # words of partials that count as wide: pushes that read all of them take 1.1 to 1.2x
    packed_pushes: tuple[float, float] = (4, 1.5)  # pushes that a packed run must last; with such partials
    packed_share: float = 0.4  # narrow cells that are not packed are at most this many times those that are
    packed_free: int = 512  # cells of wide partials that are packed at each push: it takes some hundredths of the push
    packed_rows: int = 16  # and one more cell for each so many rows of a push, likewise

    # kept rows
    step_rows: int = 1 << 20  # rows that become final at a time: their results reuse the memory of the rows before
    slice_rows: int = 2  # fewest rows between the edges of windows that count rows: below, slices are as large as rows
    alone_rows: int = 4  # times as many rows must be kept as became final, to look at the final ones separately

    # trees over runs
    tree_slides: int = 64  # slides that a window spans, from which on a tree pays
    tree_slices: int = 64  # slices of a run, likewise
    tree_fanout: int = 8  # 360,000 slices are 7 levels; a window takes at most 14 nodes of each
    tree_largest: int = 1 << 17  # cells: larger runs are not merged with the next, so that no push moves many more

    # windows from cells
    way: str | None = None  # the way to answer, whatever it costs, where it applies
    strategies: tuple[str, str] | None = None  # to combine lanes: those that allow subtraction, and the others
    recomputed: int = FEW_COMBINATIONS  # combinations that are done before another strategy's kernels are loaded
    stepped: int = 512  # windows at a time from which on kernels over dense columns of partials pay
    stepped_cells: int = 16  # cells a window, over all these windows, above which they do not pay
    stepped_types: int = 4  # likewise, for each of several types of windows
    stepped_several: int = 4  # times as many windows, of each of several types, from which on they pay
    stepped_rows: int = 16  # times as many windows as ranges of rows, if those with older cells are closed beside them
    slices_together: int = 1024  # slices up to which runs are looked at together: two runs of 2 slices 75 -> 30 us
    table_calls: int = 2500  # cost of one table's calls, in cells: 150 us
    ordered: bool = True  # results are sorted; False: in any order, for callers that sort them otherwise
    piece: int = 1 << 14  # windows whose partials and rows are read together: they stay in cache
    known_names: int = 1 << 17  # rows of windows with one end whose names are kept, at most
    pane_looks: int = 1 << 22  # slices that are looked at together for panes, for each window that holds them
    added_cells: int = 1 << 14  # cells that are added up at a time, lane by lane: they stay in the cache
    cut_rows: int = 1 << 17  # rows that are looked at together for panes at rows, each in all its windows
    table_passes: int = 6  # passes over all cells that merging, sorting and gathering them costs

    # joins
    tested_pairs: int = 1 << 18  # pairs that `where` tests at a time

    # features
    # 1 M events, three ranges: a label for 100 events 57 ms by cells, 66 without, for 33 78 and 81, for 10 145 and 124
    fewest_events: int = 16  # events a label on average; with fewer, ranges are answered from cells
    # 1 M events, 100,000 labels with ranges of 17, 83 and 333: 25 ms one by one, 55 from what they have in common
    long_ranges: int = 64  # times the events of a run in all ranges, from which on these are not reduced one by one
    thread_labels: int = 1 << 12  # labels from which on a second thread pays
    slices_at_once: int = 1 << 16  # slices of events in one table; a larger table is at least twice the next
    sparse_reach: int = 8  # rows of a run that are looked through, in multiples of the rows that labels reach

    # all of the data at once
    push_rows: int = 1 << 19  # rows pushed at a time if windows are emitted on the way
    period_rows: int = 1 << 19  # rows of a thread that answers a period of its own, at least
    listed_rows: int = 1 << 23  # with more rows, or bytes of what is read of them, equal texts are kept once
    listed_bytes: int = 1 << 28
    gathered_rows: int = 1 << 15  # rows of small batches in a push: by 256 rows 7 to 16 times as fast, by 2048 2.4 to 4

    def __hash__(self) -> int:
        return self._hash

    @lazy
    def _hash(self) -> int:
        return hash(tuple([getattr(self, field.name) for field in fields(self)]))

    def with_arguments(self, **arguments: Any) -> Policy:
        """This policy with those of an operator's arguments that differ from the defaults."""
        others = [(name, value) for name, value in arguments.items() if value is not getattr(Policy, name)]
        try:
            return _but(self, tuple(others)) if others else self
        except TypeError:  # an argument without a hash, which is refused by name later
            return replace(self, **dict(others))

    def pays(self, way: str, cost: int, live: int) -> bool:
        """Whether a way that goes over ``cost`` cells is cheaper than to merge, sort and gather all ``live`` cells."""
        if self.way is not None:
            return way == self.way or cost == 0
        return cost <= self.table_passes * live


@lru_cache(64)
def _but(policy: Policy, others: tuple[tuple[str, Any], ...]) -> Policy:
    """``replace``, cached: it takes 16 us for so many fields."""
    return replace(policy, **dict(others))


DEFAULT = Policy()
ADDS_UP = {
    EAGER: "keeps coarser partials of slices",
    BUCKETS: "puts the partials of slices into all windows that hold them",
}
ADDED = ("count", "sum", "mean")  # aggregates that read only what can be subtracted from a lane


def checked(name: object, spec: Spec) -> str:
    """The name of a strategy. Raises if it cannot answer the spec, whatever the types of its columns."""
    if not isinstance(name, str) or name not in NAMES:
        raise ValueError(f"combine must be {', '.join(map(repr, NAMES[:-1]))} or {NAMES[-1]!r}; got {name!r}")
    if name in ADDS_UP and not _adds_up(spec):
        raise ValueError(only_sums(name, spec))
    if name in STRATEGIES and STRATEGIES[name].removes:
        for agg, part in ((name, part) for name, formula in spec.aggs.items() for part in formula.parts()):
            if part.function not in ADDED and not getattr(part.user, "invertible", False):
                raise ValueError(refusal(name, agg, repr(part)))
    return name


def _adds_up(spec: Spec) -> bool:
    """Whether the windows are sums of slices' cells, as far as the spec tells."""
    windows = spec.windows.values()
    runs = any(isinstance(window, Session | Whole) or getattr(window, "fill", False) for window in windows)
    return any(isinstance(window, ContextFreeWindow) for window in windows) and not runs and spec.idle is None


def only_sums(name: str, spec: Spec) -> str:
    return (
        f"combine={name!r} {ADDS_UP[name]}: it takes time windows alone, without sessions, whole(), fill and idle, and "
        f"aggregates whose partials have a fixed size; got {spec!r}"
    )


def refusal(name: str, agg: str, what: str) -> str:
    return (
        f"combine={name!r} removes what leaves a window, which is exact only for counts and for sums and means of "
        f"integers and decimals; aggs[{agg!r}] is {what}"
    )
