"""What the process does with freed memory.

A push makes and frees arrays of some megabytes. By default glibc hands each back to the system, and the next push pays
for the same pages again: with 1000 sliding windows 30 of 65 ns a result were page faults (1.1-1.6x the whole push).
"""

import numpy as np

LARGEST = 32 << 20  # glibc's upper limit of its own adaptive threshold


def keep_freed_memory() -> None:
    """Let glibc keep up to 64 MiB for the next push; elsewhere, or with MALLOC_* set by the user, a no-op.

    Freeing one large array is how glibc learns that a process frees large arrays; as it is never touched it costs
    no memory.
    """
    np.empty(LARGEST - 8192, np.uint8)
