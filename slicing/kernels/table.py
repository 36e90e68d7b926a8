"""A hash table from 64-bit words to dense codes (``text_table``: from bytes).

Both are open-addressing, at most an eighth full. A block of rows first looks at home slots without branches;
only rows that miss (new keys among them) walk the table. A walk of more than ``patience`` steps stops the
kernel: however keys were chosen, another multiplier spreads them.

What tables beyond a core's caches say is asked for ahead, slots and then keys: in pushes of 1 M rows 100 k keys 3.7 ->
2.9 ns a row, 1 M 12 -> 6; it costs 15 % where they fit.

Both kernels return (rows done, codes given, why they stopped). A stopped block is begun again, which is
harmless: the keys it added are found.
"""

import numpy as np
from numba import uint64 as u64

from slicing.kernels.kernel import helper, kernel
from slicing.kernels.on_stack import on_stack
from slicing.kernels.prefetch import prefetch

BLOCK = 128  # rows looked at together: 512 ask for more lines at once than a core has on its way, 1.45 -> 1.3 ns
AHEAD = 512  # rows that are on their way from memory
LINE, PLACES = 8, 16  # rows in a cache line: words, places
# why they stopped: for want of codes, of pool bytes, of patience, of leave, of a slot
FINISHED, FULL, NO_BYTES, CROWDED, NEW, OUTSIDE = range(6)
FAR_SLOTS = 1 << 19  # what larger tables say is asked for ahead
MIX = u64(0x9E3779B97F4A7C15)


@helper(inline="always")
def _look_home(word, slots, shift, multiplier, keys, code, missed):
    """What is in the home slots; lists the rows whose word is another one, and returns how many they are."""
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
    """Codes of rows that are null; returns how many of the n rows listed are not."""
    misses = np.int64(0)
    for j in range(n):
        missed[u64(misses)] = missed[u64(j)]
        misses += np.int64(valid[start + missed[u64(j)]])
    for i in range(code.size):
        code[i] = code[i] if valid[start + i] else null
    return misses


@kernel
def encode_words(words, valid, null, slots, shift, multiplier, patience, keys, given, grow, out):
    """Codes of int64 words. A slot is a code + 1, 0 when free; ``keys[code + 1]`` is the code's word.

    Slots of codes alone, two or four bytes, stay in the nearer caches: 1000 keys 2.5 -> 1.0 ns a row against slots that
    hold the word too. Rows that are not at home are listed, and looked for in the next slot, without a branch: what is
    left for the walk are new keys and few others (1000 keys 1.49 -> 1.34 ns from memory, with slots of two bytes 1.12).
    """
    mask = u64(slots.size - 1)
    missed = on_stack(BLOCK, np.int64)
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
        if lowest < 0:  # new keys, or the word that free slots have
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
            if steps > patience:
                return start, given, CROWDED
            if slots[slot] == 0:
                if not grow:
                    return start, given, NEW
                if given == keys.size - 1:
                    return start, given, FULL
                given += 1
                keys[u64(given)] = word[i]
                slots[slot] = given
            code[i] = slots[slot] - 1
    return out.size, given, FINISHED


@kernel
def encode_near(words, valid, null, low, slots, keys, given, grow, out):
    """Codes of int64 words that lie close together: slot i is for the word ``low + i``, and no words are compared.

    Numbers in a row, ns each, against slots by their lowest bits: 1000 keys 0.81 -> 0.45, 100 k 2.3 -> 1.0, 1 M
    2.6 -> 0.9. The last slot stays free: what lies far off is looked for there.
    """
    last = u64(slots.size - 1)
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
        for i in range(code.size):
            if code[i] < 0:
                slot = u64(word[i] - low)
                if slot >= last:
                    return start, given, OUTSIDE
                if slots[slot] == 0:
                    if not grow:
                        return start, given, NEW
                    if given == keys.size - 1:
                        return start, given, FULL
                    given += 1
                    keys[u64(given)] = word[i]
                    slots[slot] = given
                code[i] = slots[slot] - 1
    return out.size, given, FINISHED


@kernel
def look_up(place, codes, out):
    """``codes`` at each place; returns how many are none, -1."""
    none = np.int64(0)
    for i in range(out.size):
        if i % PLACES == 0:
            prefetch(place, u64(i + AHEAD))
        out[i] = codes[u64(place[i])]
        none += out[i] < 0
    return none


@kernel
def number_views(views, valid, slots, shift, pairs, first, out):
    """Numbers of pairs of words in order of first appearance, the pair and the first row of each; returns how many
    there are, -1 where they are more than ``first`` has room for. A slot is a number + 1, 0 when free. Nulls are all
    -1. 365 k rows of 58 short texts 10 -> 4 ns a row, in runs 2.6."""
    given, mask = np.int64(0), u64(slots.size - 1)
    known, one, other = np.int64(-1), np.int64(0), np.int64(0)
    for i in range(out.size):
        a, b = views[i, 0], views[i, 1]
        if valid is not None:
            a, b = (a, b) if valid[i] else (np.int64(-1), np.int64(-1))
        if known < 0 or a != one or b != other:  # neighbours are often alike
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


# --- hashes that mean the same in every process ---------------------------------------------------------------


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
