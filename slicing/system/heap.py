"""What the process does with freed memory.

A push allocates and frees arrays of some megabytes. By default glibc returns each array to the system, and the next
push pays for the same pages again: with 1000 sliding windows 30 of 65 ns a result were page faults (1.1-1.6x the whole
push).
"""

import numpy as np

LARGEST = 32 << 20  # glibc's upper limit of its own adaptive threshold


def keep_freed_memory() -> None:
    """Let glibc keep up to 64 MiB for the next push. No effect elsewhere, or if the user has set MALLOC_*.

    glibc learns from one freed large array that the process frees large arrays. The array is never touched, so it costs
    no memory.
    """
    np.empty(LARGEST - 8192, np.uint8)
