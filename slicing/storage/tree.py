"""The eager store: coarser and coarser partials over the slices of a store's runs, for windows of very many slices.

Each run of the store carries a tree. A node of a level holds ``fanout`` nodes of the level below, as a table of cells
by (node, code). A window is a few nodes of each level, whatever its length. Runs never change, so their trees do not
either. A late row comes in its own run, and a merged run gets a new tree. Large runs are no longer merged, so that no
push builds a large tree. Trees are made when they are first needed. Snapshots do not hold them, and a push that fails
leaves nothing behind.

Two stacks or DABA Lite, kept between pushes with an entry a slide, would combine 3 partials where a tree takes up to
100. In a push of one slice that takes 350 us, a call of the kernel would take 1.1 in place of 1.4 us. They would be
additional state for each window and key, to be repaired after late rows. So stacks exist only for one push's windows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slicing.cells import blocks as b
from slicing.cells.lanes import Lane
from slicing.cells.table import Cells
from slicing.columns.order import changes, stable_order
from slicing.system.arrays import Ints

Part = tuple[Cells, Ints, Ints]  # a table, and for each window its cells first : last, often none

SHRINKS = 2  # a level has at least this many times fewer cells: keys that are in few slices hardly merge


class Tree:
    """The levels over a run of cells sorted by slice and code. The first level is the run itself."""

    def __init__(self, lanes: Sequence[Lane], run: Cells, fanout: int, fewest: int) -> None:
        self.fanout = fanout
        self.ends = run.slice_ends
        self.levels = [(run, run.slice_bounds())]
        while self.levels[-1][1].size > max(fewest, fanout):
            coarser = _coarser(lanes, *self.levels[-1], fanout)
            if SHRINKS * len(coarser[0]) > len(self.levels[-1][0]):
                break
            self.levels.append(coarser)

    @property
    def nbytes(self) -> int:
        """The bytes of all levels but the run itself."""
        return sum(cells.nbytes + starts.nbytes for cells, starts in self.levels[1:])

    def parts(self, start: Ints, end: Ints) -> list[Part]:
        """The cells of windows: of each level a stretch before the nodes of the next level, and a stretch after
        them."""
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
    """The run's tree. Runs that later lack the first slices of this run share it."""
    known: Tree | None = run.__dict__.get("tree")
    if known is None:
        known = run.__dict__["tree"] = Tree(lanes, run, fanout, fewest)
    return known


def parts(lanes: Sequence[Lane], runs: Sequence[Cells], start: Ints, end: Ints, fanout: int, fewest: int) -> list[Part]:
    """The cells of windows in the trees of the runs."""
    return [part for run in runs for part in tree(lanes, run, fanout, fewest).parts(start, end)]


def size(found: Sequence[Part]) -> int:
    """The number of these cells."""
    count = 0
    for _, first, last in found:
        count += int((last - first).sum())
    return count


def _coarser(lanes: Sequence[Lane], cells: Cells, starts: Ints, fanout: int) -> tuple[Cells, Ints]:
    """The next level: the cells of ``fanout`` nodes merged by code, and where each node starts."""
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
