"""Progress of a long computation: by tqdm if installed, otherwise as lines on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from typing import Any, TypeVar

Batch = TypeVar("Batch")


def counted(batches: Iterable[Batch], total: int | None) -> Iterator[Batch]:
    """The batches; their rows are counted as they pass."""
    bar = _bar(total)
    try:
        for batch in batches:
            yield batch
            bar.update(len(batch))  # type: ignore[arg-type]
    finally:
        bar.close()


def _bar(total: int | None) -> Any:
    if find_spec("tqdm") is None:
        return _Lines(total)
    from tqdm.auto import tqdm

    return tqdm(total=total, unit=" rows", unit_scale=True)


class _Lines:
    """The part of tqdm that is needed here."""

    def __init__(self, total: int | None, every: float = 1.0) -> None:
        self.total, self.rows, self.every = total, 0, every  # seconds between lines
        self.began = self.said = time.monotonic()

    def update(self, rows: int) -> None:
        self.rows += rows
        if time.monotonic() - self.said >= self.every:
            self._say()

    def close(self) -> None:
        self._say()

    def _say(self) -> None:
        self.said = time.monotonic()
        rate = self.rows / max(self.said - self.began, 1e-9)
        of = "" if self.total is None else f" of {self.total:,}"
        print(f"{self.rows:,}{of} rows, {rate:,.0f} a second", file=sys.stderr)
