"""Exact sums of integers and decimals: 128 bits, from partials that never overflow."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from slicing.columns.values import ValueType
from slicing.kernels.numbers import whole_sums
from slicing.system.arrays import Ints, Mask, Unsigned

FEW_SUMS = 128  # so few sums do not pay for another kernel to be loaded; 1000 of them 19 -> 8 us


class Total(NamedTuple):
    """128-bit sums: value = high * 2**64 + low (unsigned)."""

    low: Unsigned
    high: Ints

    @staticmethod
    def of(block: Ints, offset: bool) -> Total:
        """The sum of a BASIC_I block. ``offset``: words were shifted by 2**63, which is added again for each value."""
        low32, high = block[:, 1], block[:, 2]
        high = high + (low32 >> 32)  # carry, then value = high * 2**32 + low32
        low32 = low32 & 0xFFFFFFFF
        top = high >> 32
        low = ((high & 0xFFFFFFFF) << 32 | low32).view(np.uint64)
        if offset:
            half = block[:, 0].astype(np.uint64) << np.uint64(63)
            carried = low + half
            top = top + (block[:, 0] >> 1) + (carried < low)
            low = carried
        return Total(low, top)

    @staticmethod
    def words(block: Ints) -> tuple[Ints, Mask | None]:
        """The signed sums of a BASIC_I block as words, and which of them do not fit; None if all do."""
        if len(block) < FEW_SUMS:
            total = Total.of(block, False)
            sums = total.low.view(np.int64)
            beyond = (total.high != sums >> 63) & (block[:, 0] != 0)
            return sums, beyond if beyond.any() else None
        columns = map(np.ascontiguousarray, block.T[:3])
        sums, beyond = np.empty(len(block), np.int64), np.empty(len(block), np.bool_)
        some = whole_sums(*columns, sums, beyond)  # 8000 sums 182 -> 7 us (loaded machine)
        return sums, beyond if some else None

    @staticmethod
    def of_decimals(blocks: list[Ints], value: ValueType) -> tuple[Total, Mask]:
        """The sum of a decimal column; the mask says where 128 bits cannot hold it."""
        if not value.ranked:
            return Total.of(blocks[0], False), np.zeros(len(blocks[0]), np.bool_)
        total, top = _wide(blocks)
        return total, top != (total.high >> 63)

    @staticmethod
    def objects_of_decimals(blocks: list[Ints], value: ValueType) -> npt.NDArray[np.object_]:
        """The sum of a decimal column as Python integers, also where 128 bits cannot hold it."""
        if not value.ranked:
            return Total.of(blocks[0], False).objects()
        total, top = _wide(blocks)
        return (top - (total.high >> 63)).astype(object) * (1 << 128) + total.objects()

    def times(self, factor: int) -> Total | None:
        """The sums multiplied by ``factor``; None if some of these do not fit a word."""
        low = self.low.view(np.int64)
        if not low.size:
            return self
        least, most = int(low.min()), int(low.max())
        if (self.high != low >> 63).any() or max(-least, most) * factor >= 1 << 63:
            return None
        low = low * factor
        return Total(low.view(np.uint64), low >> 63)

    def objects(self) -> npt.NDArray[np.object_]:
        """The sums as Python integers, to divide wide decimals."""
        return self.high.astype(object) * (1 << 64) + self.low.astype(object)

    def mean(self, count: Ints) -> Ints:
        """The sums divided by counts, rounded to integers, halves away from zero; means of words always fit a word."""
        low, negative = self.low.view(np.int64), self.high < 0
        divisor = count.astype(np.uint64)
        size = np.where(negative, ~self.low + np.uint64(1), self.low)
        quotient = size // divisor
        rest = size - quotient * divisor
        quotient += (rest >= divisor - rest).astype(np.uint64)
        means: Ints = np.where(negative, ~quotient + np.uint64(1), quotient).view(np.int64)
        far = np.flatnonzero(self.high != low >> 63)  # sums that are wider than a word
        if far.size:
            total, n = Total(self.low[far], self.high[far]).objects(), count[far].astype(object)
            sign = np.where(self.high[far] < 0, -1, 1).astype(object)
            means[far] = ((abs(total) * 2 + n) // (n * 2) * sign).astype(np.int64)
        return means

    def reaches(self, limit: int) -> Mask:
        """|total| >= limit"""
        negative = self.high < 0
        low = np.where(negative, ~self.low + np.uint64(1), self.low)
        high = np.where(negative, ~self.high + (self.low == 0), self.high)
        top, rest = np.int64(limit >> 64), np.uint64(limit & (2**64 - 1))
        return (high > top) | ((high == top) & (low >= rest))


def _wide(blocks: list[Ints]) -> tuple[Total, Ints]:
    """The sum of a decimal column that is wider than a word: its lowest 128 bits, and the word above them."""
    low, upper = Total.of(blocks[0], True), Total.of(blocks[1], False)
    high = low.high + upper.low.view(np.int64)
    carry = (high.view(np.uint64) < upper.low).astype(np.int64)
    return Total(low.low, high), upper.high + (low.high >> 63) + carry  # low halves taken back may exceed those added
