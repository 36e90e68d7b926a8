"""The ways to answer the windows that a push closes, one a file; all give the same answers.

=============  =========================================================================================================
in steps       sliding windows without keys, of slices none of which is missing: dense columns of partials
as they lie    the cells of each window, or nodes of trees over them, are added up from the runs: for few windows
stacks         sliding windows of most keys: two stacks of whole slices, a cell a key
buckets        sparse keys: each cell put into all windows that hold it, sorted by window and key
one table      all live cells merged, sorted by key and combined by a strategy (``kernels.strategies``): answers
               everything, also sessions, empty windows and a flush that is spread over pushes (``answer``, ``emit``)
=============  =========================================================================================================

They are asked in this order, and the first one that costs less than one table is taken.
"""

from __future__ import annotations

from slicing.closing.ways import as_they_lie, buckets, in_steps, stacks
from slicing.closing.ways.interface import Closing, Way

__all__ = ["WAYS", "Closing", "Way"]

WAYS = (in_steps.WAY, as_they_lie.WAY, stacks.WAY, buckets.WAY)
