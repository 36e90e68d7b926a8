"""Lanes: what a slice keeps of a column for the aggregates that read it."""

from __future__ import annotations

from typing import Any, NamedTuple

from slicing.kernels import combine as kinds


class Feed(NamedTuple):
    """A column as a kernel reads it: 'float', 'log', 'square' / 'square_lost' (the two floats of a square), 'int',
    'word', 'low' / 'high' (a word with the wanted extreme smallest and NaN last), 'limb0' / 'limb1' (halves of a large
    decimal), 'valid' (nothing but its nulls), 'null' (1 for a null, which does not leave the row out)."""

    column: str
    form: str


class Lane(NamedTuple):
    """One block of partials: a kind (a number, or an object: ``slicing.cells.blocks``), the feeds of its kernel, and
    the flag column that lets rows in."""

    kind: Any
    feeds: tuple[Feed, ...]
    flag: str | None

    @property
    def counts_all(self) -> bool:
        """Whether it is the number of rows."""
        return self == COUNTS_ALL

    @property
    def sums(self) -> Lane:
        """The lane of its counts and sums alone; itself where it has no more."""
        return self._replace(kind=kinds.SUMS.get(self.kind, self.kind))


COUNTS_ALL = Lane(kinds.COUNT, (), None)
