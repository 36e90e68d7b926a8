"""States that a worker keeps between batches, so that the next batch need not read them.

A state is kept under the folder of its place with the mark of its version. The mark stands for all that the version is
made of, so a state is taken only where the version that a batch builds on, by its name, is the one that is kept. It is
given away when it is taken: a batch that fails leaves none behind.
"""

from __future__ import annotations

from typing import Any, NamedTuple

HOLD_BYTES = 1 << 30


class _Kept(NamedTuple):
    mark: str
    header: dict[str, Any]
    operator: Any
    size: int


class Held:
    """The states of several places; over a number of bytes those go first that were written longest ago."""

    def __init__(self) -> None:
        self._kept: dict[str, _Kept] = {}  # by folder, those written last at the end

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def nbytes(self) -> int:
        return sum(kept.size for kept in self._kept.values())

    def take(self, folder: str, mark: str, spec: Any) -> tuple[dict[str, Any], Any] | None:
        """The state of a version with its header, if it is kept, and for this very spec: another one may differ where
        the fingerprint does not."""
        kept = self._kept.get(folder)
        if kept is None or kept.mark != mark or kept.operator.spec is not spec:
            return None
        del self._kept[folder]
        return kept.header, kept.operator

    def put(self, folder: str, mark: str, header: dict[str, Any], operator: Any, size: int, budget: int) -> None:
        """Keep a state of so many bytes, if it alone is within the budget, in place of the one of its place."""
        self.drop(folder)
        if size <= budget:
            self.make_room(budget - size)
            self._kept[folder] = _Kept(mark, header, operator, size)

    def drop(self, folder: str) -> None:
        self._kept.pop(folder, None)

    def make_room(self, left: int) -> None:
        """Forget states until those left come to at most so many bytes."""
        while self._kept and self.nbytes > left:
            del self._kept[next(iter(self._kept))]

    def clear(self) -> None:
        self._kept.clear()
