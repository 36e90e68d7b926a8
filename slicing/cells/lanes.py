"""Lanes: what a slice keeps of a column for the aggregates that read it."""

from __future__ import annotations

from typing import Any, NamedTuple

from slicing.kernels import combine as kinds


class Feed(NamedTuple):
    """A column in the form that a kernel reads.

    =========================  ===========================================================================
    float, log, int, word      the values as such numbers
    unsigned, signed           integers modulo 2**64; integers that must fit a sign
    square, square_lost        the two floats of a square
    low, high                  a word; the wanted extreme is smallest and NaN last
    limb0, limb1               the halves of a large decimal
    valid                      only which values are null
    null                       1 for a null, which does not exclude the row
    =========================  ===========================================================================
    """

    column: str
    form: str


class Lane(NamedTuple):
    """One block of partials: a kind (a number or an object, see ``slicing.cells.blocks``), the feeds of its kernel, and
    the flag column that says which rows count."""

    kind: Any
    feeds: tuple[Feed, ...]
    flag: str | None

    @property
    def counts_all(self) -> bool:
        """Whether the partial is the number of all rows."""
        return self == COUNTS_ALL

    @property
    def sums(self) -> Lane:
        """The lane that has only this lane's counts and sums; the lane itself if it has nothing else."""
        return self._replace(kind=kinds.SUMS.get(self.kind, self.kind))


COUNTS_ALL = Lane(kinds.COUNT, (), None)
