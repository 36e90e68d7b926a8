"""``window_features``: event aggregates as of each label, on two batch or two streaming DataFrames."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from slicing import FeatureSpec
from slicing.system.arguments import says_arguments
from spark_udfs.engines import FEATURES
from spark_udfs.files import FileRows
from spark_udfs.held import HOLD_BYTES
from spark_udfs.joins import JoinJob, StreamArguments, two_frames
from spark_udfs.types import type_of


@says_arguments
def window_features(
    labels: DataFrame | FileRows,
    events: DataFrame | FileRows,
    spec: FeatureSpec,
    state: str | None = None,
    partitions: int | None = None,
    name: str = "features",
    late_path: str | None = None,
    keep_versions: int = 100,
    progress: str = "prompt",
    pieces: int = 16,
    spread: str | int | None = None,
    hold_bytes: int = HOLD_BYTES,
) -> DataFrame:
    """Aggregate events as of each label: one result row for each row of ``labels``.

    Two batch DataFrames are read as a whole (a backfill): no row is late, ``state`` is ignored, and the data may be
    larger than the memory of the workers. For two streaming DataFrames a micro-batch works like a ``push(labels,
    events)`` of :class:`slicing.FeatureOperator`: a label is emitted in the batch that completes it, in append mode.

    Parameters
    ----------
    labels, events : DataFrame or FileRows
        Both batch, or both streaming; or results of :func:`read_files`.
    spec : FeatureSpec
        The ranges before each label, and the aggregates of the events in them.
    state, name, late_path, keep_versions, hold_bytes : optional
        See :func:`window_join`. Late rows are in the folders ``labels`` and ``events``.
    partitions : int, optional
        The number of parts into which keys are split; ``spark.sql.shuffle.partitions`` if left out.
    progress : str
        ``"prompt"``: a batch emits the labels that its own rows complete. ``"native"``: it emits the labels that the
        earlier batches complete.
    pieces : int
        For batch DataFrames: each part is answered in so many pieces of its keys, one after the other. A worker holds
        the rows of only one piece at a time.
    spread : span, optional
        Give a key one place for each span of this length of the labels' time, for keys with more rows than one task
        can hold. An event goes to all places whose labels may reach it, about ``1 + longest range / spread``. Every
        range must have a far end, and such a stream cannot be rescaled.

    Returns
    -------
    DataFrame
        The labels' columns, then ``<agg>_<range>``.

    Examples
    --------
    >>> import slicing as sl
    >>> labels = spark.createDataFrame([("ann", 100)], "user string, t long")
    >>> sales = spark.createDataFrame([("ann", 80, 1), ("ann", 95, 2)], "user string, t long, paid long")
    >>> asked = sl.FeatureSpec("user", "t", {"10": 10, "ever": None}, {"spent": sl.sum("paid")})
    >>> window_features(labels, sales, asked, partitions=1).collect()
    [Row(user='ann', t=100, spent_10=2, spent_ever=3)]
    """
    if not isinstance(spec, FeatureSpec):
        raise TypeError(f"window_features takes two DataFrames and a sl.FeatureSpec; got {type_of(spec)}")
    arguments = StreamArguments(state, name, late_path, keep_versions, progress, hold_bytes)
    return two_frames("window_features", FeatureJob, (labels, events), spec, arguments, partitions, pieces, spread)


@dataclass(frozen=True)
class FeatureJob(JoinJob):
    """What the worker functions of a ``window_features`` need to know."""

    counted = FEATURES.counted

    def figures(self, stats: Mapping[str, Any]) -> dict[str, Any]:
        return dict(stats)
