"""Stream slicing on Spark: any :class:`slicing.Spec` on a batch or streaming DataFrame, exactly once."""

from spark_udfs.api import drain, window_aggregate
from spark_udfs.files import FileRows, read_files
from spark_udfs.state import StateError, change, rescale

__all__ = ["FileRows", "StateError", "change", "drain", "read_files", "rescale", "window_aggregate"]
