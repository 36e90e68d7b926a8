"""The output of a push of a join."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from slicing.output import Stats


@dataclass(frozen=True, repr=False)
class JoinOutput:
    """The output of a push, advance or flush of a :class:`JoinOperator`.

    Attributes
    ----------
    rows : pyarrow.Table
        Pairs, and rows without a partner if the kind of the join emits them. The columns of a side are missing until
        its first push, unless ``JoinSpec(schemas=)`` gives them.
    late_left, late_right : pyarrow.Table
        Late rows: the columns that were pushed, and ``reason`` (``"late"`` or ``"null time"``).
    stats : Stats
        Of this push: ``left`` and ``right`` (rows pushed), ``joined`` (pairs), ``late_left``, ``late_right``,
        ``null_time``. Of the state after it: ``held`` (rows of both sides), ``pending`` (how many of these still wait
        to be joined, see ``max_rows_per_push``) and ``bytes``.
    watermark : object
        No later result has an event time before this one; None while nothing is known.

    Examples
    --------
    >>> op = sl.JoinOperator(sl.JoinSpec(on="k", time="t", within=(5, 0)))
    >>> op.push_left(pa.table({"t": [10], "k": ["a"]})).stats.left
    1
    """

    rows: pa.Table
    late_left: pa.Table
    late_right: pa.Table
    stats: Stats
    watermark: Any

    def __repr__(self) -> str:
        return (
            f"<sl.JoinOutput: {self.rows.num_rows} rows, {self.late_left.num_rows} late left and "
            f"{self.late_right.num_rows} late right rows, watermark {self.watermark}, stats {dict(self.stats)}>"
        )
