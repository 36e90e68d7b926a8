"""The eager store: coarser and coarser partials over the slices of a store's runs, for windows of very many slices.

Each run of the store carries a tree: a node of a level holds ``fanout`` nodes of the level below, as a table of cells
by (node, code). A window is a few nodes of each level, whatever its length. Runs never change, so neither do their
trees: a late row comes in a run of its own, and when runs are merged the tree of what they become is built. Large runs
are not merged any more, so that no push builds a large tree. Trees are made from the runs when they are first asked
for; a snapshot does not hold them, and a push that fails leaves nothing behind.

Two stacks or DABA Lite living on between pushes, an entry a slide, would combine 3 partials where this takes up to 100:
1.1 against 1.4 us a call of the kernel, in a push of one slice that takes 350 us. They would be a state of their own
for each window and key, to be mended after late rows; so there are none but for the windows of one push.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slicing.cells import blocks as b
from slicing.cells.lanes import Lane
from slicing.cells.table import Cells
from slicing.columns.order import changes, stable_order
from slicing.system.arrays import Ints

Part = tuple[Cells, Ints, Ints]  # for each window the cells first : last of a table, often none

SHRINKS = 2  # times fewer cells a level has at least: keys that are in few slices do not add up


class Tree:
    """A run of cells sorted by slice and code, and its levels."""

    def __init__(self, lanes: Sequence[Lane], run: Cells, fanout: int, fewest: int) -> None:
        self.fanout = fanout
        self.ends = run.slice_ends
        self.levels = [(run, np.append(run.slices(), len(run)))]
        while self.levels[-1][1].size > max(fewest, fanout):
            coarser = _coarser(lanes, *self.levels[-1], fanout)
            if SHRINKS * len(coarser[0]) > len(self.levels[-1][0]):
                break
            self.levels.append(coarser)

    @property
    def nbytes(self) -> int:
        """Beside the run itself."""
        return sum(cells.nbytes + starts.nbytes for cells, starts in self.levels[1:])

    def parts(self, start: Ints, end: Ints) -> list[Part]:
        """The cells of windows: of each level a stretch before the nodes of the next one, and a stretch after them."""
        low, high = np.searchsorted(self.ends, start, "right"), np.searchsorted(self.ends, end, "right")
        found, fanout = [], self.fanout
        for cells, starts in self.levels[:-1]:
            inner = np.minimum(-(-low // fanout) * fanout, high)
            outer = np.maximum(high // fanout * fanout, inner)
            found += [(cells, starts[low], starts[inner]), (cells, starts[outer], starts[high])]
            low, high = -(-inner // fanout), outer // fanout
            high = np.maximum(low, high)
        cells, starts = self.levels[-1]
        return [*found, (cells, starts[low], starts[high])]


def tree(lanes: Sequence[Lane], run: Cells, fanout: int, fewest: int) -> Tree:
    """The run's tree, which it shares with the runs that later lack its first slices."""
    known: Tree | None = run.__dict__.get("tree")
    if known is None:
        known = run.__dict__["tree"] = Tree(lanes, run, fanout, fewest)
    return known


def parts(lanes: Sequence[Lane], runs: Sequence[Cells], start: Ints, end: Ints, fanout: int, fewest: int) -> list[Part]:
    """The cells of windows in the trees of the runs."""
    return [part for run in runs for part in tree(lanes, run, fanout, fewest).parts(start, end)]


def size(found: Sequence[Part]) -> int:
    """How many cells these are."""
    count = 0
    for _, first, last in found:
        count += int((last - first).sum())
    return count


def _coarser(lanes: Sequence[Lane], cells: Cells, starts: Ints, fanout: int) -> tuple[Cells, Ints]:
    """The next level: the cells of ``fanout`` nodes by code, and where each of its nodes starts."""
    nodes = -(-(starts.size - 1) // fanout)
    node = np.repeat(np.arange(starts.size - 1) // fanout, np.diff(starts))
    codes = int(cells.code.max()) + 1
    if codes == 1 and node.size == starts.size - 1:
        into, meta = node, np.zeros((nodes, 3), np.int64)
        meta[:, 0] = np.arange(nodes)
    else:
        number = node * codes + cells.code
        order = stable_order(number)
        change = changes(number[order])
        into = np.empty(number.size, np.int64)
        into[order] = np.cumsum(change) - 1
        held = number[order[change]]
        meta = np.stack([held // codes, held % codes, np.zeros_like(held)], axis=1)
    none = [block[:0] for block in cells.blocks]
    pairs = zip(lanes, cells.blocks, none, strict=True)
    merged = tuple(b.kind_of(lane).merged(lane, into, len(meta), one, other) for lane, one, other in pairs)
    coarser = Cells(meta, merged)
    return coarser, np.searchsorted(coarser.end, np.arange(nodes + 1))
