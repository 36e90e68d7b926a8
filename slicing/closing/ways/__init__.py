"""The ways to answer the windows that a push closes, one per file. All of them give the same answers.

=============  =========================================================================================================
ranges         many windows without keys: ranges of dense columns of cells, straight from the runs
as they lie    add up the cells of each window, or nodes of trees over them, from the runs: for few windows
stacks         sliding windows of most keys: two stacks of whole slices, one cell per key
buckets        sparse keys: put each cell into all windows that hold it, sorted by window and key
one table      merge all live cells, sort them by key, combine them by a strategy (``kernels.strategies``): answers
               everything, also sessions, empty windows and a flush that is spread over pushes (``answer``, ``emit``)
=============  =========================================================================================================

They are tried in this order. The first way that costs less than one table is taken.
"""

from __future__ import annotations

from slicing.closing.ways import as_they_lie, buckets, ranges, stacks
from slicing.closing.ways.interface import Closing, Way

__all__ = ["WAYS", "Closing", "Way"]

WAYS = (ranges.WAY, as_they_lie.WAY, stacks.WAY, buckets.WAY)
