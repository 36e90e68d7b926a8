"""The output of a push."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from slicing.system import html

SHOWN = 10  # rows of a table in a notebook


class Stats(dict[str, int]):
    """Plain numbers, also as attributes (except ``["keys"]``, as every dict has a method of that name).

    Rows of this push: ``rows`` = ``windowed`` (in at least one window) + ``late`` (for all of their windows) +
    ``outside`` (in no window by definition) + ``null_time`` + ``ahead`` (too far ahead of the watermark) + ``full``
    (there was no room for them; an entry only with ``on_full="late"``). Results: ``windows``, the number of rows. Held
    after the push: ``slices``, ``cells`` (slices of each key), ``kept`` rows, ``keys``, and the ``bytes`` of all of it.
    """

    def __getattr__(self, name: str) -> int:
        try:
            return self[name]
        except KeyError:
            if name == "full":
                return 0
            raise AttributeError(f"stats has no {name!r}; it has {', '.join(self)}") from None


@dataclass(frozen=True, repr=False)
class Output:
    """The output of a push: the windows that it closed, late rows, and statistics.

    Attributes
    ----------
    windows
        A pyarrow Table of the closed windows, sorted by window_end, window, window_start, keys. Its columns are
        ``window`` (its name), ``window_start``, ``window_end``, the keys, and the aggregates as the spec names them.
        ``rank_start`` and ``rank_end`` follow the keys if the spec has ``rows`` windows. At the end come ``timing`` if
        it has a trigger, and ``revision`` or ``op`` if ``emit`` is not ``"final"``.
    late
        A pyarrow Table of the rows that no window took: the columns that were pushed, and ``reason``. Reasons are
        ``"late"`` (too late for all windows of the row), ``"null time"``, ``"ahead"`` (further ahead of the watermark
        than ``at_most_ahead``), and ``"full"`` (the operator would have held more than ``max_bytes``).
    stats
        The accounting, a :class:`Stats`: a dict whose entries are also attributes.
    watermark
        The watermark that the results have reached, as a plain value of the time column's type; None while there is
        none. A time that Python's datetime cannot hold (nanoseconds, years beyond 9999) is a ``numpy.datetime64``.
    progress
        How far the results have come along their own times: no later result has an earlier ``"window_start"`` or
        ``"window_end"`` than these. ``window_start`` is None if a query has ``whole()``, windows of its user's own, or
        data-driven windows other than sessions: nobody knows where these begin before their rows come. ``window_end``
        is None if a window may be emitted long after its last row: ``whole()``, ``punctuation``, ``frame``, windows
        with ``partial=True``, ``per_row(after=)``, and a ``ContextAwareWindow``. With ``fill=True`` neither is later
        than the last window of any key: empty windows come with the key's next row.

    Examples
    --------
    >>> op = sl.Operator(sl.Spec("t", {"ten": sl.tumbling(10)}, {"n": sl.count()}))
    >>> out = op.push(pa.table({"t": [1, 2, 12]}))
    >>> out.windows["n"].to_pylist(), out.late.num_rows, out.stats.windowed, out.watermark
    ([2], 0, 3, 12)
    """

    windows: pa.Table
    late: pa.Table
    stats: Stats
    watermark: Any
    progress: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return (
            f"<sl.Output: {self.windows.num_rows} windows, {self.late.num_rows} late rows, "
            f"watermark {self.watermark}, stats {dict(self.stats)}>"
        )

    def _repr_html_(self) -> str:
        stats = self.stats
        parts = [f"{stats.rows:,} rows came", f"{self.windows.num_rows:,} rows of windows", f"{stats.late:,} rows late"]
        watermark = "nothing is known of time yet" if self.watermark is None else f"watermark {self.watermark}"
        held = f"held now: {stats.slices:,} slices, {stats['keys']:,} keys, {stats.bytes:,} bytes"
        found = f"<p>{html.text('; '.join([*parts, watermark, held]))}</p>"
        for name, table in (("windows", self.windows), ("late rows", self.late)):
            if table.num_rows:
                more = f" (the first {SHOWN} of {table.num_rows:,})" if table.num_rows > SHOWN else ""
                rows = table.slice(0, SHOWN).to_pylist()
                found += f"<p>{html.text(name + more)}</p>"
                found += html.listed(table.column_names, (list(row.values()) for row in rows))
        return found


def tables_of(results: object) -> object:
    """Replace outputs by their windows. Other holders of tables are returned unchanged."""
    if isinstance(results, Output):
        return results.windows
    if isinstance(results, list | tuple | Iterator) and not isinstance(results, pa.RecordBatchReader):
        return [item.windows if isinstance(item, Output) else item for item in results]
    return results
