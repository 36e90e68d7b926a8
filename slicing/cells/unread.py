"""Cells of a snapshot whose partials are unpacked when they are first needed.

A batch that closes nothing adds cells beside them, and reads only their ends and keys. With two lanes that is a third
of the bytes. The partials stay packed, and the next snapshot can write them unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from slicing.cells.blocks import Block
from slicing.cells.sessions import SessionCells
from slicing.cells.table import Cells
from slicing.system.arrays import Ints


class Unread(Cells):
    """A table whose partials are not read yet; their size in bytes is known. ``packed``: the whole table, as it was
    read."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> tuple[Block, ...]:
            if name != "blocks":
                raise AttributeError(name)
            self.blocks = blocks = self._load()
            self.packed = None
            del self._load  # frees the bytes that it holds
            return blocks

    def __init__(
        self, meta: Ints, partials: int, load: Callable[[], tuple[Block, ...]], packed: memoryview | None = None
    ) -> None:
        self.meta, self.ends, self.starts = meta, None, None
        self._partials, self._load, self.packed = partials, load, packed

    @property
    def unread(self) -> bool:
        return "blocks" not in self.__dict__

    def sizes(self) -> tuple[int, int]:
        if not self.unread:
            return super().sizes()
        known = self.__dict__
        return len(self.meta), self.nbytes + (self.looked_up if "by_code" in known or "_by_last" in known else 0)

    @property
    def nbytes(self) -> int:
        return int(self.meta.nbytes + self._partials)

    @property
    def weight(self) -> int:
        return len(self)

    def since(self, time: int) -> Cells | None:
        first = int(self.until(time))
        left = len(self) - first
        if not self.unread or not first or not left:
            return super().since(time)
        return type(self)(
            self.meta[first:],
            self._partials // len(self) * left,
            lambda: tuple(block[first:] for block in self.blocks),
        )


class UnreadSessions(SessionCells, Unread):
    """Cells of sessions whose partials are not read yet."""
