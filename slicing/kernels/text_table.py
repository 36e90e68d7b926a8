"""A hash table from byte strings to dense codes, like ``table`` for words; blocks of rows go through it step by step.

A slot is a code + 1, or 0 if free. Code c is pool[starts[c] : starts[c + 1]], and ``heads[c + 1]`` is its head: the
first 31 bytes, and then its length, at most 32. Values of up to 31 bytes are one vector each: 18 bytes 13.1 -> 4.4 ns
at 1000 keys, 19 -> 5.5 at 100 k. The rest of longer values is read piece by piece for all rows at once, as a loop over
the pieces of each row would mispredict its end: 20 to 60 bytes 31 -> 10 ns. A value's last piece may overlap the
previous one.
"""

import numpy as np
from numba import uint64 as u64

from slicing.kernels.guard import inside
from slicing.kernels.kernel import helper, kernel
from slicing.kernels.on_stack import on_stack
from slicing.kernels.prefetch import prefetch
from slicing.kernels.table import CROWDED, FAR_SLOTS, FINISHED, FULL, MIX, NEW, NO_BYTES, PLACES
from slicing.kernels.text import PIECE, TWICE, alike, keep, weigh

LONG = PIECE - 1  # longer values are read in pieces
ROWS = 128  # rows looked at together
HEADS = 4 * ROWS  # words
AHEAD, LINE = 4096, 64  # bytes prefetched from memory (100 k keys of 18 bytes 14.5 -> 9.6 ns a row); of a line
inlined = helper(inline="always")  # as calls they take 0.07 s more of 0.8 to compile


@kernel
def encode_bytes(offsets, data, valid, null, slots, shift, multiplier, patience, heads, pool, starts, given, grow, out):
    """Codes of data[offsets[i] : offsets[i + 1]]; returns the same as ``encode_words``."""
    homes, longer, missed = on_stack(ROWS, np.uint64), on_stack(ROWS, np.int32), on_stack(ROWS, np.int32)
    own, tail, kept = on_stack(HEADS, np.uint64), on_stack(TWICE, np.uint8), on_stack(TWICE, np.uint8)
    weights = _weights(multiplier, on_stack(4, np.uint64))
    spare = _readable(data, tail)
    masks = _masks(kept)
    head, text, left = u64(own.ctypes.data), u64(data.ctypes.data), FINISHED
    for start in range(0, out.size, ROWS):
        code, offset = out[start : start + ROWS], offsets[start : start + ROWS + 1]
        for at in range(offset[0] + AHEAD, offset[code.size] + AHEAD, LINE):
            prefetch(data, u64(at))
        for i in range(start + ROWS, start + 2 * ROWS, PLACES):
            prefetch(offsets, u64(i))
        longs = _take_heads(offset, data, text, spare, masks, own, longer)
        for i in range(code.size):
            homes[i] = _spread(weigh(head + u64(i * PIECE), weights), multiplier)
        _hash_rest(offset, text, weights, multiplier, longer, longs, homes)
        _look_home(slots, shift, homes, heads, head, code)
        if longs > 0:
            _compare_rest(offset, text, starts, u64(pool.ctypes.data), longer, code)
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
            mine = head + i * u64(PIECE)
            slot, steps = _walk(slots, homes[i] >> shift, heads, pool, starts, mine, text + u64(at), length)
            if not grow:
                code[i] = slots[slot] - 1
                left = NEW if code[i] < 0 else left
                continue
            if steps > patience:
                return start, given, CROWDED
            if slots[slot] == 0:
                if given == starts.size - 1:
                    return start, given, FULL
                begin = starts[given]
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
    return out.size, given, left


@inlined
def _spread(h, multiplier):
    """A sum of products as a hash whose upper bits select the slot."""
    return (h ^ (h >> u64(32))) * multiplier


@inlined
def _weights(multiplier, weights):
    """Write four odd numbers; returns their address."""
    for w in range(4):
        weights[w] = multiplier
        multiplier = (multiplier * MIX) ^ (multiplier >> u64(32)) | u64(1)
    return u64(weights.ctypes.data)


@inlined
def _readable(data, tail):
    """Copy the end of ``data`` so that a piece can be read at any value; returns the address where byte 0 would be."""
    cut = max(data.size - PIECE, 0)
    for b in range(cut, data.size):
        tail[b - cut] = data[b]
    return u64(tail.ctypes.data) - u64(cut)


@inlined
def _masks(kept):
    """Masks that keep the first bytes. Returns an address: the mask for n bytes begins n bytes before it."""
    for b in range(kept.size):
        kept[b] = 255 if b < LONG else 0
    return u64(kept.ctypes.data) + u64(LONG)


@inlined
def _take_heads(offset, data, text, spare, masks, own, longer):
    """Write the head of each row; lists the rows that are longer, and returns their number."""
    longs, head = np.int64(0), u64(own.ctypes.data)
    for i in range(offset.size - 1):
        at, length = np.int64(offset[i]), np.int64(offset[i + 1]) - np.int64(offset[i])
        inside(data, at, length)
        inside(own, i * PIECE, PIECE)
        address = u64(at) + (text if at + PIECE <= data.size else spare)
        keep(address, masks - u64(min(length, LONG)), head + u64(i * PIECE))
        own[4 * i + 3] |= u64(min(length, PIECE)) << u64(56)
        longer[longs] = i
        longs += np.int64(length > LONG)
    return longs


@inlined
def _hash_rest(offset, text, weights, multiplier, longer, left, homes):
    """Continue the hashes of the listed rows, piece by piece."""
    done = np.int64(LONG)
    while left > 0:
        n, left = left, np.int64(0)
        for j in range(n):
            i = u64(longer[j])
            at, length = u64(offset[i]), np.int64(offset[i + u64(1)]) - np.int64(offset[i])
            rest = weigh(text + at + u64(min(done, length - PIECE)), weights)
            homes[i] = _spread(homes[i] + u64(length) * MIX + rest, multiplier)
            longer[left] = i
            left += np.int64(length > done + PIECE)
        done += PIECE


@inlined
def _look_home(slots, shift, homes, heads, head, code):
    """The codes in the home slots if heads are equal, otherwise -1."""
    known = u64(heads.ctypes.data)
    if slots.size > FAR_SLOTS:
        for i in range(code.size):
            prefetch(slots, homes[i] >> shift)
        for i in range(code.size):
            prefetch(heads, u64(slots[homes[i] >> shift]))
    for i in range(code.size):
        found = slots[homes[i] >> shift]
        inside(heads, found * PIECE, PIECE)
        code[i] = found - 1 if alike(known + u64(found) * u64(PIECE), head + u64(i * PIECE)) else -1


@inlined
def _compare_rest(offset, text, starts, pool, longer, code):
    """The codes of rows that are longer than their heads; -1 if the rest differs."""
    left, done = np.int64(0), np.int64(LONG)
    for i in range(code.size):
        longer[left] = i
        left += np.int64((code[i] >= 0) & (offset[i + 1] - offset[i] > LONG))
    while left > 0:
        n, left = left, np.int64(0)
        for j in range(n):
            i = u64(longer[j])
            at, length = u64(offset[i]), np.int64(offset[i + u64(1)]) - np.int64(offset[i])
            begin, on = starts[u64(code[i])], u64(min(done, length - PIECE))
            same = starts[u64(code[i] + 1)] - begin == length
            same &= alike(text + at + on, pool + u64(begin) + on)
            code[i] = code[i] if same else -1
            longer[left] = i
            left += np.int64(same & (length > done + PIECE))
        done += PIECE


@inlined
def _walk(slots, slot, heads, pool, starts, head, text, length):
    """The slot of a value, or a free slot if it is new, and the distance from its home slot."""
    mask, steps, known = u64(slots.size - 1), np.int64(0), u64(heads.ctypes.data)
    while slots[slot] != 0:
        found = u64(slots[slot])
        inside(heads, np.int64(found) * PIECE, PIECE)
        if alike(known + found * u64(PIECE), head):
            begin = starts[found - u64(1)]
            if length <= LONG or (
                starts[found] - begin == length and _same(text, u64(pool.ctypes.data) + u64(begin), length)
            ):
                break
        slot = (slot + u64(1)) & mask
        steps += 1
    return slot, steps


@inlined
def _same(one, other, length):
    """Whether bytes at two addresses are equal, given that the first 31 are."""
    for at in range(LONG, length, PIECE):
        i = u64(min(at, length - PIECE))
        if not alike(one + i, other + i):
            return False
    return True


@kernel
def place_bytes(heads, pool, starts, null, slots, shift, multiplier):
    """Fill free slots with the codes of a pool."""
    mask, weights = u64(slots.size - 1), _weights(multiplier, on_stack(4, np.uint64))
    for code in range(starts.size - 1):
        begin, length = u64(pool.ctypes.data) + u64(starts[code]), starts[code + 1] - starts[code]
        inside(pool, starts[code], length)
        h = _spread(weigh(u64(heads.ctypes.data) + u64((code + 1) * PIECE), weights), multiplier)
        for at in range(LONG, length, PIECE):
            rest = weigh(begin + u64(min(at, length - PIECE)), weights)
            h = _spread(h + u64(length) * MIX + rest, multiplier)
        slot = h >> shift
        while slots[slot] != 0:
            slot = (slot + u64(1)) & mask
        if code != null:
            slots[slot] = code + 1
