"""Stream slicing on Spark: any :class:`slicing.Spec` on a batch or streaming DataFrame, exactly once."""

from spark_udfs.api import window_aggregate
from spark_udfs.features import window_features
from spark_udfs.files import FileRows, read_files
from spark_udfs.joins import window_join
from spark_udfs.log import BatchLog
from spark_udfs.native import explain
from spark_udfs.upkeep import change, drain, peek, rescale
from spark_udfs.versions import StateError

__all__ = [
    "BatchLog",
    "FileRows",
    "StateError",
    "change",
    "drain",
    "explain",
    "peek",
    "read_files",
    "rescale",
    "window_aggregate",
    "window_features",
    "window_join",
]
