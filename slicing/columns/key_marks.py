"""Marks of single keys (group-wise punctuation): no more rows of the key will come before a time."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from slicing.columns.order import none
from slicing.system.arrays import LEAST, MOST, Codes, Ints, Mask


@dataclass(frozen=True, eq=False)
class KeyMarks:
    """Keys, by code, and their marks in ticks. MOST: no more rows of the key will come."""

    code: Ints = field(default_factory=none)
    mark: Ints = field(default_factory=none)

    def __len__(self) -> int:
        return self.code.size

    @property
    def nbytes(self) -> int:
        return self.code.nbytes + self.mark.nbytes

    @property
    def waiting(self) -> int:
        """How many keys will get more rows."""
        return int(np.count_nonzero(self.mark != MOST))

    def raised(self, code: Ints, mark: Ints) -> KeyMarks:
        """These marks and more; the mark of a key never goes back."""
        both, marks = np.concatenate([self.code, code]), np.concatenate([self.mark, mark])
        order = np.lexsort((marks, both))
        both, marks = both[order], marks[order]
        last = np.append(both[1:] != both[:-1], True)[: both.size]
        return KeyMarks(both[last], marks[last])

    def ahead_of(self, watermark: int | None) -> KeyMarks:
        """These marks, without those that the stream's watermark has reached."""
        if watermark is None or not len(self):
            return self
        ahead = (self.mark > watermark) | (self.mark == MOST)
        return self if ahead.all() else self.taken(ahead)

    def taken(self, some: Mask) -> KeyMarks:
        """Only the marks where ``some`` is true."""
        return KeyMarks(self.code[some], self.mark[some])

    def recoded(self, code: npt.NDArray[np.integer]) -> KeyMarks:
        """These marks with new codes ``code[old]``."""
        new = code[self.code].astype(np.int64)
        order = np.argsort(new)
        return KeyMarks(new[order], self.mark[order])

    def scaled(self, scale: int) -> KeyMarks:
        """These marks in ticks that are ``scale`` times finer."""
        if scale == 1:
            return self
        end = self.mark == MOST
        most = MOST // scale  # below its negative the finer ticks overflow, and would be a mark that is far ahead
        mark = np.where(end, 0, np.clip(self.mark, -most, most)) * scale
        return KeyMarks(self.code, np.where(end, MOST, mark))

    def of(self, code: Codes) -> Ints:
        """The mark of each row's key; LEAST if the key has none."""
        if not len(self):
            return np.full(code.size, LEAST)
        at = np.minimum(np.searchsorted(self.code, code), self.code.size - 1)
        found: Ints = np.where(self.code[at] == code, self.mark[at], LEAST)
        return found
