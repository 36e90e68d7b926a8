"""States that a worker keeps between batches, so that the next batch need not read them.

A state is kept by the folder of its place, with the mark of its version. The mark identifies everything the version is
made of, so a state is used only if its mark is that of the version that the batch builds on. A state is removed when it
is taken: a batch that fails leaves none behind.
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
    """The states of several places. Above a limit of bytes, the states written longest ago are dropped."""

    def __init__(self) -> None:
        self._kept: dict[str, _Kept] = {}  # by folder, the latest written last

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def nbytes(self) -> int:
        return sum(kept.size for kept in self._kept.values())

    def take(self, folder: str, mark: str, spec: Any) -> tuple[dict[str, Any], Any] | None:
        """The state of a version with its header, if it is kept for this very spec object. A spec with an equal
        fingerprint may still differ."""
        kept = self._kept.get(folder)
        if kept is None or kept.mark != mark or kept.operator.spec is not spec:
            return None
        del self._kept[folder]
        return kept.header, kept.operator

    def put(self, folder: str, mark: str, header: dict[str, Any], operator: Any, size: int, budget: int) -> None:
        """Keep a state of ``size`` bytes instead of the place's old one, unless it alone exceeds the budget."""
        self.drop(folder)
        if size <= budget:
            self.make_room(budget - size)
            self._kept[folder] = _Kept(mark, header, operator, size)

    def drop(self, folder: str) -> None:
        self._kept.pop(folder, None)

    def make_room(self, left: int) -> None:
        """Drop states until the rest has at most ``left`` bytes."""
        while self._kept and self.nbytes > left:
            del self._kept[next(iter(self._kept))]

    def clear(self) -> None:
        self._kept.clear()
