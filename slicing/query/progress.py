"""What a watermark policy sees of a batch, and how far the stream has come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from slicing.system.arrays import Ints
from slicing.times.measure import Measure


@dataclass(frozen=True)
class Progress:
    """The state of a policy: the largest time seen, and the largest time of each source. Times in ticks."""

    largest: int | None = None
    sources: dict[str | None, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {"largest": self.largest, "sources": [[k, t] for k, t in self.sources.items()]}

    @staticmethod
    def from_json(data: dict[str, Any]) -> Progress:
        return Progress(data["largest"], {k: t for k, t in data["sources"]})

    def grown(self, newest: int | None) -> Progress:
        if newest is None:
            return self
        return Progress(newest if self.largest is None else max(self.largest, newest), self.sources)

    def joined(self, other: Progress) -> Progress:
        """The progress of a stream that two readers have read parts of."""
        sources = dict(self.sources)
        for name, time in other.sources.items():
            sources[name] = max(time, sources.get(name, time))
        return Progress(self.grown(other.largest).largest, dict(sorted(sources.items(), key=lambda s: str(s[0]))))


class Seen(NamedTuple):
    """The rows of a batch that have a time (at least one), and the positions of rows without one."""

    times: Ints
    oldest: int
    newest: int
    ascending: bool
    columns: Mapping[str, pa.Array]
    measure: Measure
    null_time: Ints

    @staticmethod
    def of(times: Ints, columns: Mapping[str, pa.Array], measure: Measure, null_time: Ints) -> Seen:
        ascending = bool((times[1:] >= times[:-1]).all())
        return Seen(times, int(times.min()), int(times.max()), ascending, columns, measure, null_time)

    def position(self, row: int) -> int:
        """The position of a row in the batch as it was pushed."""
        present = np.delete(np.arange(self.times.size + self.null_time.size), self.null_time)
        return int(present[row])
