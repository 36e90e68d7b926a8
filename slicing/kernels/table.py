"""A hash table from 64-bit words to dense codes (``text_table``: from bytes).

Both tables are open-addressing and at most an eighth full. A block of rows first looks at home slots without branches;
only rows that miss (new keys among them) walk the table. A walk of more than ``patience`` steps stops the kernel: for
any choice of keys, another multiplier spreads them.

For tables beyond a core's caches, slots and then keys are prefetched: in pushes of 1 M rows 100 k keys 3.7 -> 2.9 ns a
row, 1 M 12 -> 6; it costs 15 % if tables fit.

Both kernels return (rows done, codes given, why they stopped). A stopped block is started again. This is harmless: the
keys that it added are found. Without ``grow`` they change no table and do not stop: rows with new keys get the code -1,
and the reason is NEW if there are any.
"""

import numpy as np
from numba import uint64 as u64

from slicing.kernels.kernel import helper, kernel
from slicing.kernels.on_stack import on_stack
from slicing.kernels.prefetch import prefetch

BLOCK = 128  # rows looked at together; 512 need more cache lines at once than a core can load, 1.45 -> 1.3 ns
AHEAD = 512  # rows ahead that are prefetched from memory
LINE, PLACES = 8, 16  # rows in a cache line: words, places
# why a kernel stopped: no codes, no pool bytes, too many steps, no slot; or what it left: new keys
FINISHED, FULL, NO_BYTES, CROWDED, OUTSIDE, NEW = range(6)
FAR_SLOTS = 1 << 19  # larger tables are prefetched
MIX = u64(0x9E3779B97F4A7C15)


@helper(inline="always")
def _look_home(word, slots, shift, multiplier, keys, code, missed):
    """Read the codes of home slots; lists the rows whose word differs, and returns their number."""
    far = slots.size > FAR_SLOTS
    for i in range(code.size if far else 0):
        prefetch(slots, (u64(word[i]) * multiplier) >> shift)
    for i in range(code.size):
        code[i] = slots[(u64(word[i]) * multiplier) >> shift] - 1
    for i in range(code.size if far else 0):
        prefetch(keys, u64(code[i] + 1))
    misses = np.int64(0)
    for i in range(code.size):
        missed[u64(misses)] = i
        misses += np.int64(keys[u64(code[i] + 1)] != word[i])
    return misses


@helper(inline="always")
def _leave_nulls(code, valid, start, null, missed, n):
    """Set the codes of null rows; returns how many of the n listed rows are not null."""
    misses = np.int64(0)
    for j in range(n):
        missed[u64(misses)] = missed[u64(j)]
        misses += np.int64(valid[start + missed[u64(j)]])
    for i in range(code.size):
        code[i] = code[i] if valid[start + i] else null
    return misses


@kernel
def encode_words(words, valid, null, slots, shift, multiplier, patience, keys, given, grow, out):
    """Codes of int64 words. A slot is a code + 1, or 0 if free; ``keys[code + 1]`` is the code's word.

    Slots that hold only codes, of two or four bytes, stay in the nearer caches: 1000 keys 2.5 -> 1.0 ns a row against
    slots that also hold the word. Rows that miss their home slot are listed, and the next slot is tried without a
    branch: only new keys and few others walk (1000 keys 1.49 -> 1.34 ns from memory, with two-byte slots 1.12).
    """
    mask = u64(slots.size - 1)
    missed, left = on_stack(BLOCK, np.int64), FINISHED
    for start in range(0, out.size, BLOCK):
        word, code = words[start : start + BLOCK], out[start : start + BLOCK]
        for i in range(start + AHEAD, start + AHEAD + BLOCK, LINE):
            prefetch(words, u64(i))
        misses = _look_home(word, slots, shift, multiplier, keys, code, missed)
        if valid is not None:
            misses = _leave_nulls(code, valid, start, null, missed, misses)
        n, misses = misses, np.int64(0)
        for j in range(n):
            i = u64(missed[u64(j)])
            found = slots[(((u64(word[i]) * multiplier) >> shift) + u64(1)) & mask]
            code[i] = found - 1
            missed[u64(misses)] = i
            misses += np.int64(keys[u64(found)] != word[i])
        lowest = np.int32(0)
        for i in range(code.size):
            lowest = min(lowest, code[i])
        if lowest < 0:  # new keys, or the word that free slots seem to have
            for j in range(misses):
                code[u64(missed[u64(j)])] = -1
            misses = np.int64(0)
            for i in range(code.size):
                missed[u64(misses)] = i
                misses += np.int64(code[i] < 0)
        for j in range(misses):
            i = u64(missed[u64(j)])
            slot = (u64(word[i]) * multiplier) >> shift
            steps = np.int64(0)
            while slots[slot] != 0 and keys[u64(slots[slot])] != word[i]:
                slot = (slot + u64(1)) & mask
                steps += 1
            if not grow:
                code[i] = slots[slot] - 1
                left = NEW if code[i] < 0 else left
                continue
            if steps > patience:
                return start, given, CROWDED
            if slots[slot] == 0:
                if given == keys.size - 1:
                    return start, given, FULL
                given += 1
                keys[u64(given)] = word[i]
                slots[slot] = given
            code[i] = slots[slot] - 1
    return out.size, given, left


@kernel
def encode_near(words, valid, null, low, slots, keys, given, grow, out):
    """Codes of int64 words that are close together: slot i is for the word ``low + i``, and words are not compared.

    Consecutive numbers, ns each, against slots by the lowest bits: 1000 keys 0.81 -> 0.45, 100 k 2.3 -> 1.0, 1 M 2.6 ->
    0.9. The last slot stays free: words far away are looked up there.
    """
    last, left = u64(slots.size - 1), FINISHED
    for start in range(0, out.size, BLOCK):
        word, code = words[start : start + BLOCK], out[start : start + BLOCK]
        for i in range(start + AHEAD, start + AHEAD + BLOCK, LINE):
            prefetch(words, u64(i))
        for i in range(code.size):
            code[i] = slots[min(u64(word[i] - low), last)] - 1
        if valid is not None:
            for i in range(code.size):
                code[i] = code[i] if valid[start + i] else null
        lowest = np.int32(0)
        for i in range(code.size):
            lowest = min(lowest, code[i])
        if lowest == 0:
            continue
        if not grow:
            left = NEW
            continue
        for i in range(code.size):
            if code[i] < 0:
                slot = u64(word[i] - low)
                if slot >= last:
                    return start, given, OUTSIDE
                if slots[slot] == 0:
                    if given == keys.size - 1:
                        return start, given, FULL
                    given += 1
                    keys[u64(given)] = word[i]
                    slots[slot] = given
                code[i] = slots[slot] - 1
    return out.size, given, left


@kernel
def look_up(place, codes, out):
    """Look up ``codes`` at each place; returns how many have no code (-1)."""
    none = np.int64(0)
    for i in range(out.size):
        if i % PLACES == 0:
            prefetch(place, u64(i + AHEAD))
        out[i] = codes[u64(place[i])]
        none += out[i] < 0
    return none


@kernel
def number_views(views, valid, slots, shift, pairs, first, out):
    """Number pairs of words in order of first appearance, with the pair and the first row of each number. Returns how
    many there are, or -1 if ``first`` has no room. A slot is a number + 1, or 0 if free. Nulls are all the pair (-1,
    -1). 365 k rows of 58 short texts 10 -> 4 ns a row, in runs 2.6."""
    given, mask = np.int64(0), u64(slots.size - 1)
    known, one, other = np.int64(-1), np.int64(0), np.int64(0)
    for i in range(out.size):
        a, b = views[i, 0], views[i, 1]
        if valid is not None:
            a, b = (a, b) if valid[i] else (np.int64(-1), np.int64(-1))
        if known < 0 or a != one or b != other:  # neighbours are often equal
            one, other = a, b
            slot = ((u64(a) * MIX ^ u64(b)) * MIX) >> shift
            known = np.int64(slots[slot]) - 1
            while known >= 0 and (pairs[u64(known), 0] != a or pairs[u64(known), 1] != b):
                slot = (slot + u64(1)) & mask
                known = np.int64(slots[slot]) - 1
            if known < 0:
                if given == first.size:
                    return -1
                pairs[given, 0], pairs[given, 1] = a, b
                first[given], known = i, given
                given += 1
                slots[slot] = given
        out[i] = known
    return given


@kernel
def place_words(keys, null, slots, shift, multiplier):
    """Fill free slots with the codes of ``keys``."""
    mask = u64(slots.size - 1)
    for code in range(keys.size):
        slot = (u64(keys[code]) * multiplier) >> shift
        while slots[slot] != 0:
            slot = (slot + u64(1)) & mask
        if code != null:
            slots[slot] = code + 1


# --- hashes that are equal in every process -------------------------------------------------------------------


@kernel
def hash_words(words, hashed):
    """Mix one more word into each hash (the finalizer of splitmix64)."""
    for i in range(words.size):
        h = (hashed[i] + MIX) ^ words[i]
        h = (h ^ (h >> u64(30))) * u64(0xBF58476D1CE4E5B9)
        h = (h ^ (h >> u64(27))) * u64(0x94D049BB133111EB)
        hashed[i] = h ^ (h >> u64(31))


@kernel
def hash_bytes(pool, starts, hashed):
    """FNV-1a of pool[starts[i] : starts[i + 1]]."""
    for i in range(hashed.size):
        h = u64(0xCBF29CE484222325)
        for at in range(starts[i], starts[i + 1]):
            h = (h ^ u64(pool[u64(at)])) * u64(0x100000001B3)
        hashed[i] = h
