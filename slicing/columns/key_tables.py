"""Hash tables of words and of bytes: distinct values get the ids 0, 1, 2... in order of first appearance."""

from __future__ import annotations

import os

import numpy as np

from slicing.columns.order import none
from slicing.kernels.table import (
    CROWDED,
    FINISHED,
    MIX,
    NO_BYTES,
    OUTSIDE,
    encode_near,
    encode_words,
    place_words,
)
from slicing.kernels.text_table import encode_bytes, place_bytes
from slicing.system.arrays import Array, Codes, Ints, Mask, read_only
from slicing.system.threads import SHARE, Share, parts, side_by_side

SHORT = 1 << 16  # up to so many ids, slots have two bytes
FIRST_ROOM = 1024  # the number of ids at first
PATIENCE = 64  # the most steps from a value's home to its slot
SAMPLE = 4096  # the rows that decide which kind of slots to begin with
NO_HEAD = np.full(4, -1).view(np.uint64)  # equal to no value's head: see encode_bytes
MOST_TOGETHER = 1 << 40  # rows
LONGER = 32  # from so many bytes on, a head holds only the beginning of its value
NOTHING = np.frombuffer(b"", np.uint8)
_LENGTH = np.uint64(0xFF)


class Table:
    """What the tables of words and of bytes share: distinct values to ids."""

    slots: Array
    shift: np.uint64  # from a hash to its slot

    def __init__(self) -> None:
        self.given = 0
        self.null = -1
        self._learning = True  # whether many values were new recently
        self._together = 0  # rows that are looked up at a time: more and more, as fewer values are new
        self.limit = FIRST_ROOM  # the number of ids for which there is room
        self.multiplier, self.patience = MIX, PATIENCE
        self.rebuild()

    def reserve(self, ids: int) -> None:
        """Make room for ``ids`` ids at once: filling a table with 1 M words takes 16 ms instead of 45."""
        while self.limit < ids:
            self.limit *= 2
        self.rebuild()

    def encode(
        self,
        rows: Array,
        count: int,
        valid: Mask | None = None,
        data: Array = NOTHING,
        threads: int = 1,
        how: Share = SHARE,
    ) -> Codes:
        """The ids of ``count`` rows: words, or offsets into ``data``. ``valid`` is given if some rows are null.

        One thread gives values their ids while many are new. Later, several ``threads`` look up values together, and
        one thread then encodes the rows whose values are new.
        """
        rows.setflags(write=False)  # as Arrow's buffers are, so that a kernel is compiled once
        out = np.empty(count, np.int32)
        if threads == 1 or len(parts(count, threads, how)) == 1:
            self._encode(rows, valid, data, out, slice(0, count))
            return out
        first = 0
        while first < count:
            last = min(first + (how.turn if self._learning else self._together), count)
            chunk, known = slice(first, last), self.given
            if self._learning or (valid is not None and self.null < 0 and not valid[chunk].all()):
                self._encode(rows, valid, data, out, chunk)
                new, self._together = self.given - known, how.rows * threads
            else:
                new = self._look_up(rows, valid, data, out, chunk, threads, how)
                self._together = min(2 * self._together, MOST_TOGETHER)
            self._learning = new * how.few_new > last - first
            first = last
        return out

    def _look_up(
        self, rows: Array, valid: Mask | None, data: Array, out: Codes, chunk: slice, threads: int, how: Share
    ) -> int:
        """Encode a chunk of rows: threads look up values, then one encodes the rows that miss. Returns how many do. If
        some rows are null, null must have an id."""

        def missed(part: slice) -> Ints:
            some = slice(chunk.start + part.start, chunk.start + part.stop)
            _, _, left = self._step(rows, valid, data, out, some, grow=False)
            return none() if left == FINISHED else some.start + np.flatnonzero(out[some] < 0)

        at = np.concatenate(side_by_side(missed, parts(chunk.stop - chunk.start, threads, how)))
        if at.size:
            found, some = np.empty(at.size, np.int32), None
            if valid is not None:
                some = valid.take(at)
                some.setflags(write=valid.flags.writeable)
            self._encode(*self.picked(rows, some, data, at), found, slice(0, at.size))
            out[at] = found
        return at.size

    def _encode(self, rows: Array, valid: Mask | None, data: Array, out: Codes, chunk: slice) -> None:
        if valid is not None and self.null < 0:
            some = valid[chunk]
            if some.all():
                self._grow(rows, None, data, out, chunk)
                return
            first = chunk.start + int(some.argmin())
            self._grow(rows, None, data, out, slice(chunk.start, first))
            if self.given == self.limit:
                self.make_room(FINISHED)
            self.add_null()
            self.null, self.given = self.given, self.given + 1
            chunk = slice(first, chunk.stop)
        self._grow(rows, valid, data, out, chunk)

    def _grow(self, rows: Array, valid: Mask | None, data: Array, out: Codes, chunk: slice) -> None:
        while True:
            done, self.given, stop = self._step(rows, valid, data, out, chunk, grow=True)
            if stop == FINISHED:
                return
            self.make_room(stop)
            chunk = slice(chunk.start + done, chunk.stop)

    def _step(
        self, rows: Array, valid: Mask | None, data: Array, out: Codes, chunk: slice, grow: bool
    ) -> tuple[int, int, int]:
        mask = None if valid is None else valid[chunk]
        return self.step(rows[chunk.start :], mask, data, out[chunk], grow)

    def make_room(self, stop: int) -> None:
        if stop == CROWDED:
            self.multiplier = np.uint64(int.from_bytes(os.urandom(8), "little") | 1)
            self.patience *= 2
        else:
            self.limit *= 2
        self.rebuild()

    def free_slots(self, slots: Array) -> None:
        self.slots = slots
        self.shift = np.uint64(65 - len(slots).bit_length())

    def step(self, rows: Array, valid: Mask | None, data: Array, out: Codes, grow: bool) -> tuple[int, int, int]:
        """Returns (rows done, ids given, why it stopped). Without ``grow`` new values get the id -1."""
        raise NotImplementedError

    def picked(self, rows: Array, valid: Mask | None, data: Array, at: Ints) -> tuple[Array, Mask | None, Array]:
        """Some of the rows."""
        raise NotImplementedError

    def rebuild(self) -> None:
        """Make room for ``limit`` ids, and fill the slots anew."""
        raise NotImplementedError

    def add_null(self) -> None:
        """Add a value for the next id, which will be the id of null."""
        raise NotImplementedError


class WordTable(Table):
    def __init__(self) -> None:
        self._words = np.zeros(1, np.int64)  # the word of each id, after one unused place
        self._low: np.int64 | None = None  # the word of the first slot, if slots go by distance from it; None: by hash
        super().__init__()

    @property
    def keys(self) -> Ints:
        """The word of each id."""
        return self._words[1:]

    def step(self, rows: Array, valid: Mask | None, data: Array, out: Codes, grow: bool) -> tuple[int, int, int]:
        if grow and not self.given:
            self._low = self._near(rows[:SAMPLE])
        if self._low is not None:
            return encode_near(rows, valid, self.null, self._low, self.slots, self._words, self.given, grow, out)
        hashing = self.slots, self.shift, self.multiplier, self.patience
        return encode_words(rows, valid, self.null, *hashing, self._words, self.given, grow, out)

    def picked(self, rows: Array, valid: Mask | None, data: Array, at: Ints) -> tuple[Array, Mask | None, Array]:
        return read_only(rows.take(at)), valid, data

    def make_room(self, stop: int) -> None:
        if stop == OUTSIDE:
            self._fill(None)
        else:
            super().make_room(stop)

    def rebuild(self) -> None:
        self._words = longer(self._words, self.limit + 1)
        self._fill(self._near(self._known()))

    def _fill(self, low: np.int64 | None) -> None:
        """Fill the slots anew: by distance from ``low``, or by hash if it is None."""
        self.free_slots(np.zeros(8 * self.limit, np.uint16 if self.limit < SHORT else np.int32))
        self._low = low
        if low is not None:
            codes = np.arange(1, self.given + 1)
            self.slots[self._known() - low] = codes if self.null < 0 else np.delete(codes, self.null)
        elif self.given:
            place_words(self.keys[: self.given], self.null, self.slots, self.shift, self.multiplier)

    def _known(self) -> Ints:
        """The words of all ids except null's."""
        words = self.keys[: self.given]
        return words if self.null < 0 else np.delete(words, self.null)

    def _near(self, words: Ints) -> np.int64 | None:
        """The word of the first slot, if every word between the smallest and the largest can have a slot of its own.

        Free slots before and after are equally many. None if the words are too far apart."""
        if not words.size:
            return None
        low, high = int(words.min()), int(words.max())
        room = 8 * self.limit - 2 - (high - low)
        return None if room < 0 else np.int64(max(low - room // 2, -(2**63)))

    def add_null(self) -> None:
        self.keys[self.given] = 0

    @property
    def nbytes(self) -> int:
        return self.slots.nbytes + self._words.nbytes


class ByteTable(Table):
    def __init__(self) -> None:
        self.starts = np.zeros(1, np.int64)  # id i is pool[starts[i] : starts[i + 1]]
        self.pool = np.empty(4096, np.uint8)
        self._heads = NO_HEAD.reshape(1, 4)  # of each id, after one unused head
        super().__init__()

    def step(self, rows: Array, valid: Mask | None, data: Array, out: Codes, grow: bool) -> tuple[int, int, int]:
        hashing = self.slots, self.shift, self.multiplier, self.patience
        stored = self._heads, self.pool, self.starts, self.given
        return encode_bytes(rows, data, valid, self.null, *hashing, *stored, grow, out)

    def picked(self, rows: Array, valid: Mask | None, data: Array, at: Ints) -> tuple[Array, Mask | None, Array]:
        ends, texts = _texts(rows, data, at)
        return read_only(ends.astype(rows.dtype)), valid, read_only(texts)

    def make_room(self, stop: int) -> None:
        if stop == NO_BYTES:
            self.pool = longer(self.pool, 2 * self.pool.size)
        else:
            super().make_room(stop)

    def rebuild(self) -> None:
        self.starts, self._heads = longer(self.starts, self.limit + 1), longer(self._heads, self.limit + 1)
        self.free_slots(np.zeros(8 * self.limit, np.int32))
        if self.given:
            starts = self.starts[: self.given + 1]
            place_bytes(self._heads, self.pool, starts, self.null, self.slots, self.shift, self.multiplier)

    def texts(self, ids: Ints) -> tuple[Ints, Array]:
        """The bytes of some values in a row, and the ends of each, from 0. For 20 texts numpy takes 2 us, Arrow 70
        (busy cache)."""
        return _texts(self.starts, self.pool, ids)

    def sorting_words(self, ids: Ints) -> list[Array] | None:
        """Words that sort some values as their bytes do, least significant first. None if a value is too long."""
        words = self._heads.take(ids + 1, axis=0).byteswap()
        lengths = words[:, 3] & _LENGTH
        if self.null >= 0:
            lengths = lengths[ids != self.null]
        longest = int(lengths.max(initial=0))
        if longest >= LONGER:
            return None
        return [words[:, 3], *(words[:, at] for at in range(min((longest - 1) // 8, 2), -1, -1))]

    def add_null(self) -> None:
        self.starts[self.given + 1] = self.starts[self.given]
        self._heads[self.given + 1] = NO_HEAD

    @property
    def nbytes(self) -> int:
        return self.slots.nbytes + self._heads.nbytes + self.starts.nbytes + self.pool.nbytes


def _texts(starts: Array, pool: Array, ids: Ints) -> tuple[Ints, Array]:
    """The bytes of some values in a row, and the ends of each, from 0."""
    first = starts.take(ids)
    length, ends = starts.take(ids + 1), np.zeros(ids.size + 1, np.int64)
    length -= first
    length.cumsum(out=ends[1:])
    at = (first - ends[:-1]).repeat(length)
    at += np.arange(at.size)
    return ends, pool.take(at)


def numbered_by_hash(words: Ints) -> tuple[Codes, Ints]:
    """Each word's number, in order of first appearance, and the word of each number."""
    table = WordTable()
    numbers = table.encode(words, words.size)
    return numbers, table.keys[: table.given]


def longer(array: Array, size: int) -> Array:
    """A copy with room for ``size`` items."""
    copy = np.empty((size, *array.shape[1:]), array.dtype)
    copy[: len(array)] = array
    return copy
