"""The result of a push to an operator of features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from slicing.output import Stats


@dataclass(frozen=True, repr=False)
class FeatureOutput:
    """The result of a push, advance or flush of a :class:`FeatureOperator`.

    Attributes
    ----------
    rows : pyarrow.Table
        The complete labels, by (time, arrival): label columns, then ``<agg>_<range>``. Before the first labels their
        columns are unknown and left out; give ``FeatureSpec(schemas=)`` to have them from the beginning.
    late_labels, late_events : pyarrow.Table
        Late rows: the columns that were pushed, and ``reason`` (``"late"`` or ``"null time"``).
    stats : Stats
        Of this push: ``labels`` and ``events`` (rows pushed), ``answered`` (labels), ``late_labels``,
        ``late_events``, ``null_time``. Of the state after it: ``waiting`` (labels), ``kept`` (events), ``slices`` and
        ``bytes``. ``slices`` counts the partials of events that no label tells apart, with ``tail``: one for each key
        and slice. Beyond 65,536, later events of a slice have a second partial until the two are merged.
    watermark : object
        No later result has a label time before this; None while nothing is known.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import slicing as sl
    >>> op = sl.FeatureOperator(sl.FeatureSpec("user", "t", {"10": 10}, {"spent": sl.sum("paid")}))
    >>> out = op.push_labels(pa.table({"user": ["ann"], "t": [100]}))
    >>> out.rows.num_rows, out.stats["waiting"]
    (0, 1)
    >>> op.push_events(pa.table({"user": ["ann"], "t": [105], "paid": [1]})).rows["spent_10"].to_pylist()
    [None]
    """

    rows: pa.Table
    late_labels: pa.Table
    late_events: pa.Table
    stats: Stats
    watermark: Any

    def __repr__(self) -> str:
        return (
            f"<sl.FeatureOutput: {self.rows.num_rows} rows, {self.late_labels.num_rows} late labels and "
            f"{self.late_events.num_rows} late events, watermark {self.watermark}, stats {dict(self.stats)}>"
        )
