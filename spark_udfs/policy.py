"""How a query is run on Spark, where there is a choice: never what it answers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Policy:
    """From where on one way is taken rather than another one."""

    # what goes between workers
    rows_at_once: int = 1 << 18  # of small batches in a push: each push costs the same few milliseconds
    bytes_at_once: int = 64 << 20  # that a reader collects before it sends them, and of a batch that it sends

    # state files
    large: int = 16 << 20  # bytes of a snapshot that is not written with every batch: about 200,000 slices
    most_changes: int = 16  # batches after which a place writes a snapshot again
    share: float = 0.25  # that they may come to, of the snapshot before them


DEFAULT = Policy()
# a value of Spark's store is copied through the JVM: 1.6 s a batch for 13 MB, 18 ms to add a change to its list
IN_SPARK = Policy(large=1 << 20)
