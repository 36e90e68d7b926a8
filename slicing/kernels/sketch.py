"""HyperLogLog and bucket sketches over arrays: values to registers, registers to an estimate."""

import math

import numpy as np

from slicing.kernels.kernel import kernel

BITS = 12
REGISTERS = 1 << BITS  # standard error 1.04 / sqrt(registers) = 1.6 %
RANKS = 64 - BITS  # the largest rank is one more


@kernel
def register_words(hashed, out):
    """register * 64 + rank of each hash: the register from its first bits, the rank from the zeros after them."""
    for i in range(out.size):
        h = hashed[i]
        rest = h << np.uint64(BITS)
        rank = np.int64(1)
        while rank <= RANKS and rest >> np.uint64(63) == np.uint64(0):
            rest = rest << np.uint64(1)
            rank += 1
        out[i] = np.int64(h >> np.uint64(64 - BITS)) * 64 + rank


@kernel
def too_small(at, items, reach, beyond, least):
    """Count items whose buckets are too small compared with the largest one of their cell. ``least``: for each cell the
    bucket that is ``reach`` below its largest one (buckets from ``beyond`` on are no numbers)."""
    n = np.int64(0)
    for c in range(at.size - 1):
        largest = np.int64(0)
        for i in (at[c], at[c] + 1, at[c + 1] - 1, at[c + 1] - 2, at[c + 1] - 3):  # sorted: next to NaN and infinities
            if at[c] <= i < at[c + 1] and abs(items[i, 0]) < beyond:
                largest = max(largest, abs(items[i, 0]))
        least[c] = largest - reach
        if least[c] > 1:
            for i in range(at[c], at[c + 1]):
                n += items[i, 0] != 0 and abs(items[i, 0]) < least[c]
    return n


@kernel
def narrowed(at, items, least, out_at, out):
    """Lists of buckets in which too small buckets are merged into bucket 0."""
    n = np.int64(0)
    for c in range(at.size - 1):
        out_at[c] = n
        for i in range(at[c], at[c + 1]):
            number = items[i, 0] if abs(items[i, 0]) >= least[c] else np.int64(0)
            if n > out_at[c] and out[n - 1, 0] == number:
                out[n - 1, 1] += items[i, 1]
            else:
                out[n, 0] = number
                out[n, 1] = items[i, 1]
                n += 1
    out_at[at.size - 1] = n
    return n


@kernel(allocates=True)
def estimates(first, last, at, items, out):
    """The number of different values of each window (a range of cells), by Ertl's estimator: unbiased at any size."""
    registers = np.zeros(REGISTERS, np.int64)
    touched = np.empty(REGISTERS, np.int64)
    count = np.zeros(RANKS + 2, np.float64)
    for j in range(first.size):
        n = 0
        for i in range(at[first[j]], at[last[j]]):
            r = items[i, 0]
            if registers[r] == 0:
                touched[n] = r
                n += 1
            registers[r] = max(registers[r], items[i, 1])
        count[:] = 0.0
        for i in range(n):
            count[registers[touched[i]]] += 1.0
            registers[touched[i]] = 0
        count[0] = REGISTERS - n
        x = 1.0 - count[RANKS + 1] / REGISTERS
        z = 0.0
        if 0.0 < x < 1.0:
            y, t, before = 1.0, 1.0 - x, -1.0
            while t != before:
                x = math.sqrt(x)
                before = t
                y *= 0.5
                t -= (1.0 - x) ** 2 * y
            z = REGISTERS * t / 3.0
        for k in range(RANKS, 0, -1):
            z = 0.5 * (z + count[k])
        x = count[0] / REGISTERS
        if x == 1.0:
            out[j] = 0.0
            continue
        y, s, before = 1.0, x, -1.0
        while s != before:
            x *= x
            before = s
            s += x * y
            y += y
        z += REGISTERS * s
        out[j] = 0.5 / math.log(2.0) * REGISTERS * REGISTERS / z
