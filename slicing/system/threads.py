"""Work on several threads: the kernels let go of the interpreter, so parts of a batch run side by side."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import pairwise
from typing import TypeVar

Part = TypeVar("Part")
Result = TypeVar("Result")

ENOUGH = 1 << 16  # rows a thread; for fewer, starting and merging cost more than they save


def parts(rows: int, threads: int) -> list[slice]:
    """Equal parts of the rows, one a thread, as far as each has enough."""
    count = max(1, min(threads, rows // ENOUGH))
    bounds = [rows * i // count for i in range(count + 1)]
    return [slice(a, b) for a, b in pairwise(bounds)]


def side_by_side(work: Callable[[Part], Result], parts: Sequence[Part]) -> list[Result]:
    """The result for each part, in order."""
    if len(parts) == 1:
        return [work(parts[0])]
    return list(_pool(len(parts)).map(work, parts))


@lru_cache(maxsize=8)
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, "slicing")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # a forked process has none of the threads
