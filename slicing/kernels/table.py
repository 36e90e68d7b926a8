"""Hash tables from key values to dense codes: one for 64-bit words, one for bytes.

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
from slicing.kernels.text import PIECE, alike, keep, weigh

BLOCK = 512
AHEAD = 1024  # rows that are on their way from memory
LINE = 8  # rows in a cache line
LONG = PIECE - 1  # more bytes than these are looked at in pieces
TEXT = 128  # rows of text looked at together
HEADS = 4 * TEXT  # words
# why they stopped: for want of codes, of pool bytes, of patience, of leave, of a slot
FINISHED, FULL, NO_BYTES, CROWDED, NEW, OUTSIDE = range(6)
FAR_SLOTS = 1 << 19  # what larger tables say is asked for ahead
MIX = u64(0x9E3779B97F4A7C15)


@helper(inline="always")
def _look_home(word, slots, shift, multiplier, keys, code, missed):
    """What is in the home slots; lists the rows whose word is another one, and returns how many they are."""
    misses = np.int64(0)
    if slots.size > FAR_SLOTS:
        for i in range(code.size):
            prefetch(slots, (u64(word[i]) * multiplier) >> shift)
        for i in range(code.size):
            code[i] = slots[(u64(word[i]) * multiplier) >> shift] - 1
            prefetch(keys, u64(code[i] + 1))
        for i in range(code.size):
            missed[u64(misses)] = i
            misses += np.int64(keys[u64(code[i] + 1)] != word[i])
    else:
        for i in range(code.size):
            found = slots[(u64(word[i]) * multiplier) >> shift]
            code[i] = found - 1
            missed[u64(misses)] = i
            misses += np.int64(keys[u64(found)] != word[i])
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
    """The same for numbers that lie close together: that of ``low + i`` is in slot i, and nothing need be compared.

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
        out[i] = codes[u64(place[i])]
        none += out[i] < 0
    return none


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


@helper
def _spread(h, multiplier):
    """A sum of products as a hash, whose upper bits say where to look."""
    return (h ^ (h >> u64(32))) * multiplier


@helper
def _weights(multiplier, weights):
    """Four odd numbers; returns where they are."""
    for w in range(4):
        weights[w] = multiplier
        multiplier = (multiplier * MIX) ^ (multiplier >> u64(32)) | u64(1)
    return u64(weights.ctypes.data)


@helper
def _same(one, other, length):
    """Equality of the bytes at two addresses that agree in the first 31."""
    for at in range(LONG, length, PIECE):
        i = u64(min(at, length - PIECE))
        if not alike(one + i, other + i):
            return False
    return True


@kernel
def encode_bytes(offsets, data, valid, null, slots, shift, multiplier, patience, heads, pool, starts, given, grow, out):
    """Codes of byte strings. A slot is a code + 1, 0 when free; code c is pool[starts[c] : starts[c + 1]], and
    ``heads[c + 1]`` its first 31 bytes, and then how many it has, at most 32.

    Values of up to 31 bytes are a vector each: 18 bytes 13.1 -> 4.4 ns a row at 1000 keys, 19 -> 5.5 at 100 k. The rest
    of longer ones is looked at a piece of all rows at a time, as a loop over each row's pieces would end at a guess:
    20 to 60 bytes 31 -> 10 ns. The last piece of a value may overlap the one before.
    """
    mask, far = u64(slots.size - 1), slots.size > FAR_SLOTS
    homes, missed, longer = on_stack(TEXT, np.uint64), on_stack(TEXT, np.int32), on_stack(TEXT, np.int32)
    own, tail, kept = on_stack(HEADS, np.uint64), on_stack(64, np.uint8), on_stack(64, np.uint8)
    weights = _weights(multiplier, on_stack(4, np.uint64))
    for b in range(64):
        kept[b] = 255 if b < LONG else 0
    cut = max(data.size - PIECE, 0)
    for b in range(cut, data.size):  # the end of ``data``, so that a piece can be read of any value
        tail[b - cut] = data[b]
    base, spare, pool_base = u64(data.ctypes.data), u64(tail.ctypes.data) - u64(cut), u64(pool.ctypes.data)
    masks, head, known = u64(kept.ctypes.data) + u64(LONG), u64(own.ctypes.data), u64(heads.ctypes.data)
    for start in range(0, out.size, TEXT):
        code, offset = out[start : start + TEXT], offsets[start : start + TEXT + 1]
        left = np.int64(0)
        for i in range(code.size):
            at, length = np.int64(offset[i]), np.int64(offset[i + 1]) - np.int64(offset[i])
            address = u64(at) + (base if at + PIECE <= data.size else spare)
            keep(address, masks - u64(min(length, LONG)), head + u64(i * PIECE))
            own[4 * i + 3] |= u64(min(length, PIECE)) << u64(56)
            longer[left] = i
            left += np.int64(length > LONG)
        for i in range(code.size):
            homes[i] = _spread(weigh(head + u64(i * PIECE), weights), multiplier)
        longs, done = left, np.int64(LONG)
        while left > 0:
            n, left = left, np.int64(0)
            for j in range(n):
                i = u64(longer[j])
                at, length = u64(offset[i]), np.int64(offset[i + u64(1)]) - np.int64(offset[i])
                rest = weigh(base + at + u64(min(done, length - PIECE)), weights)
                homes[i] = _spread(homes[i] + u64(length) * MIX + rest, multiplier)
                longer[left] = i
                left += np.int64(length > done + PIECE)
            done += PIECE
        if far:
            for i in range(code.size):
                prefetch(slots, homes[i] >> shift)
            for i in range(code.size):
                prefetch(heads, u64(slots[homes[i] >> shift]))
        for i in range(code.size):
            found = slots[homes[i] >> shift]
            code[i] = found - 1 if alike(known + u64(found) * u64(PIECE), head + u64(i * PIECE)) else -1
        if longs > 0:
            for i in range(code.size):
                longer[left] = i
                left += np.int64((code[i] >= 0) & (offset[i + 1] - offset[i] > LONG))
        done = np.int64(LONG)
        while left > 0:
            n, left = left, np.int64(0)
            for j in range(n):
                i = u64(longer[j])
                at, length = u64(offset[i]), np.int64(offset[i + u64(1)]) - np.int64(offset[i])
                begin, on = starts[u64(code[i])], u64(min(done, length - PIECE))
                same = starts[u64(code[i] + 1)] - begin == length
                same &= alike(base + at + on, pool_base + u64(begin) + on)
                code[i] = code[i] if same else -1
                longer[left] = i
                left += np.int64(same & (length > done + PIECE))
            done += PIECE
        if valid is not None:
            for i in range(code.size):
                code[i] = code[i] if valid[start + i] else null
        misses = np.int64(0)
        for i in range(code.size):
            missed[misses] = i
            misses += np.int64(code[i] < 0)
        for j in range(misses):
            i = u64(missed[j])
            at, length = np.int64(offset[i]), np.int64(offset[i + u64(1)]) - np.int64(offset[i])
            slot, steps = homes[i] >> shift, np.int64(0)
            while slots[slot] != 0:
                found = u64(slots[slot])
                if alike(known + found * u64(PIECE), head + i * u64(PIECE)):
                    begin = starts[found - u64(1)]
                    if length <= LONG or (
                        starts[found] - begin == length and _same(base + u64(at), pool_base + u64(begin), length)
                    ):
                        break
                slot = (slot + u64(1)) & mask
                steps += 1
            if steps > patience:
                return start, given, CROWDED
            if slots[slot] == 0:
                if not grow:
                    return start, given, NEW
                begin = starts[given]
                if given == starts.size - 1:
                    return start, given, FULL
                if begin + length > pool.size:
                    return start, given, NO_BYTES
                for b in range(length):
                    pool[u64(begin + b)] = data[u64(at + b)]
                given += 1
                starts[given] = begin + length
                for w in range(4):
                    heads[given, w] = own[u64(4) * i + u64(w)]
                slots[slot] = given
            code[i] = slots[slot] - 1
    return out.size, given, FINISHED


@kernel
def place_bytes(heads, pool, starts, null, slots, shift, multiplier):
    """Fill free slots with the codes of a pool."""
    mask, weights = u64(slots.size - 1), _weights(multiplier, on_stack(4, np.uint64))
    for code in range(starts.size - 1):
        begin, length = u64(pool.ctypes.data) + u64(starts[code]), starts[code + 1] - starts[code]
        h = _spread(weigh(u64(heads.ctypes.data) + u64((code + 1) * PIECE), weights), multiplier)
        for at in range(LONG, length, PIECE):
            rest = weigh(begin + u64(min(at, length - PIECE)), weights)
            h = _spread(h + u64(length) * MIX + rest, multiplier)
        slot = h >> shift
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
