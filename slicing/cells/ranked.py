"""Partials of values without a word of their own hold ranks: positions among the column's sorted values seen so far.

A new value that sorts between others shifts the ranks after it. Partials that hold ranks are then renumbered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

import numpy as np

from slicing.cells.lanes import Lane
from slicing.cells.list_kinds import ListKind
from slicing.cells.lists import Lists
from slicing.cells.table import Cells
from slicing.kernels import combine as kinds
from slicing.system.arrays import Ints

CellOf = Callable[[], Ints]

RANK_FORMS = ("word", "low", "high")
# which words of a partial hold a rank, and of which feed: kind -> (word, feed); complemented in form 'high'
RANK_WORDS = {
    kinds.EXTREMES: ((1, 0), (2, 0)),
    kinds.FIRST: ((4, 0),),
    kinds.LAST: ((4, 0),),
    kinds.ARG: ((1, 0), (5, 1)),
    kinds.EXTREME_COUNT: ((1, 0),),
}


def reranked(lanes: Sequence[Lane], cells: Cells, column: str, rank: Ints, arrival: bool) -> Cells:
    """Renumber the ranks of a column's values (order kept): ``rank[old]`` is the new rank. ``arrival``: whether the
    order of arrival breaks ties."""

    def moved(words: Ints, complemented: bool, cell: CellOf) -> Ints:
        return ~rank[~words] if complemented else rank[words]

    return map_ranks(lanes, cells, column, moved, ties=not arrival)


def ranks_used(lanes: Sequence[Lane], tables: Iterable[Cells], column: str, size: int) -> Ints:
    """The ranks of a column's values that occur in any cell of the tables."""
    used = np.zeros(size, np.bool_)

    def mark(words: Ints, complemented: bool, cell: CellOf) -> Ints:
        used[~words if complemented else words] = True
        return words

    for table in tables:
        map_ranks(lanes, table, column, mark)
    return np.flatnonzero(used)


def map_ranks(
    lanes: Sequence[Lane],
    cells: Cells,
    column: str,
    change: Callable[[Ints, bool, CellOf], Ints],
    ties: bool = False,
) -> Cells:
    """Change the words that are ranks of a column's values. ``change`` gets such words, whether they are complemented,
    and a function that returns the cell of each."""
    blocks = list(cells.blocks)
    for b, lane in enumerate(lanes):
        for word, feed in _rank_words(lane):
            if lane.feeds[feed].column != column or lane.feeds[feed].form not in RANK_FORMS:
                continue
            if isinstance(blocks[b], Lists):
                lists = blocks[b].whole()
                items = lists.items.copy()
                items[:, word] = change(items[:, word], lane.feeds[feed].form == "high", lists.cells)
                blocks[b] = Lists(lists.at, items)
                continue
            held = blocks[b][:, 0] > 0
            if lane.kind == kinds.ARG and feed == 1:
                held &= blocks[b][:, 6] > 0
            changed = blocks[b].copy()
            changed[held, word] = change(
                changed[held, word], lane.feeds[feed].form == "high", partial(np.flatnonzero, held)
            )
            if ties and word == kinds.ARRIVAL_WORDS.get(lane.kind, word) + 1:
                changed[held, word - 1] = ~changed[held, word] if lane.kind == kinds.LAST else changed[held, word]
            blocks[b] = changed
    return cells.kind(cells.meta, tuple(blocks))


def _rank_words(lane: Lane) -> tuple[tuple[int, int], ...]:
    """(word, feed) of each word of a lane's partials that may be a rank."""
    return lane.kind.rank_words if isinstance(lane.kind, ListKind) else RANK_WORDS.get(lane.kind, ())
