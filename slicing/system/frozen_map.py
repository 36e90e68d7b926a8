"""A hashable mapping."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, Mapping, ValuesView
from typing import Any, TypeVar

V = TypeVar("V")


class FrozenMap(Mapping[str, V]):
    """An ordered, hashable mapping that prints as a dict."""

    __slots__ = ("_hash", "_items")

    def __init__(self, items: Mapping[str, V]) -> None:
        self._items = dict(items)
        self._hash: int | None = None  # computed at the first call

    def __getitem__(self, key: str) -> V:
        return self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def values(self) -> ValuesView[V]:
        return self._items.values()

    def items(self) -> ItemsView[str, V]:
        return self._items.items()

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(tuple(self._items.items()))
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenMap, (self._items,)  # hashes of texts differ between processes

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FrozenMap) and list(self._items.items()) == list(other._items.items())

    def __repr__(self) -> str:
        return repr(self._items)
