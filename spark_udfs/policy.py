"""How a query is run on Spark where there is a choice; this never changes its answers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Policy:
    """The sizes from which on one method is used instead of another."""

    # data between workers
    rows_at_once: int = 1 << 18  # rows of small batches in one push: each push costs a few milliseconds
    bytes_at_once: int = 64 << 20  # bytes that a reader collects before it sends them, and of a batch that it sends

    # state files
    large: int = 16 << 20  # bytes from which on a snapshot is not written in every batch: about 200,000 slices
    most_changes: int = 16  # batches after which a place writes a snapshot again
    share: float = 0.25  # share of the last snapshot that the changes after it may reach


DEFAULT = Policy()
# each value of Spark's store is copied through the JVM: 1.6 s a batch for 13 MB, 18 ms to append a change
IN_SPARK = Policy(large=1 << 20)
