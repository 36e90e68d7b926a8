"""``window_features``: aggregates of events as of each label, on two batch or two streaming DataFrames."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from slicing import FeatureSpec
from spark_udfs.engines import FEATURES
from spark_udfs.files import FileRows
from spark_udfs.held import HOLD_BYTES
from spark_udfs.joins import JoinJob, Kept, two_frames
from spark_udfs.plans import type_of
from spark_udfs.stages import sent

FEATURED = "features"


def window_features(
    labels: DataFrame | FileRows,
    events: DataFrame | FileRows,
    spec: FeatureSpec,
    state: str | None = None,
    partitions: int | None = None,
    name: str = FEATURED,
    late_path: str | None = None,
    keep_versions: int = 100,
    progress: str = "prompt",
    pieces: int = 16,
    spread: str | int | None = None,
    hold_bytes: int = HOLD_BYTES,
) -> DataFrame:
    """Aggregates of an events DataFrame as of each row of another one, the labels: a row a label.

    Two batch DataFrames are seen whole (a backfill): nothing is late, ``state`` is ignored, and data may be larger than
    the memory of the workers. A micro-batch of two streaming ones is what a ``push(labels, events)`` is to
    :class:`slicing.FeatureOperator`: labels come in the batch that completes them. The output mode is append.

    Parameters
    ----------
    labels, events : DataFrame or FileRows
        Both batch, or both streaming; or what :func:`read_files` gives.
    spec : FeatureSpec
        The ranges before each label, and what is computed of the events in them.
    state, name, late_path, keep_versions, hold_bytes : optional
        As of :func:`window_join`; late rows are in the folders ``labels`` and ``events``.
    partitions : int, optional
        In how many parts keys are kept; ``spark.sql.shuffle.partitions`` if left out.
    progress : str
        ``"prompt"``: a batch gives the labels that its own rows complete. ``"native"``: those that the batches before
        it complete.
    pieces : int
        Of two batch DataFrames each part is answered in so many pieces, key by key, one after the other: a worker holds
        the rows of one piece at a time.
    spread : span, optional
        Give a key one place for each span of this length of the labels' time: for keys with more rows than one task can
        hold. An event goes to all places whose labels may reach it, about ``1 + longest range / spread``. Every range
        must have a far end, and such a stream cannot be rescaled.

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
    kept = Kept(state, name, late_path, keep_versions, progress, hold_bytes)
    return two_frames("window_features", FeatureJob, (labels, events), spec, kept, partitions, pieces, spread)


@dataclass(frozen=True)
class FeatureJob(JoinJob):
    """What the functions of a ``window_features`` need to know."""

    counted = FEATURES.counted

    @property
    def name(self) -> str:
        return FEATURED if self.files is None else self.files.name

    def __reduce__(self) -> tuple[Any, ...]:
        return sent(self)

    def figures(self, stats: Mapping[str, Any]) -> dict[str, Any]:
        return dict(stats)
