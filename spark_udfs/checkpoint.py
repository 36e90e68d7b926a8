"""The checkpoint of a query, as Spark wrote it: whose it is, and how far the query has come."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from spark_udfs.types import check_path, check_session
from spark_udfs.versions import StateError


@dataclass(frozen=True)
class Checkpoint:
    """What the checkpoint of a query says."""

    query: str  # its id
    begun: int  # the last batch that was begun
    done: int  # the last complete batch

    @staticmethod
    def of(spark: SparkSession, checkpoint: str | None, function: str) -> Checkpoint:
        """Read the checkpoint by Spark, which opens any path that its queries can use for checkpoints."""
        check_session(spark)
        if checkpoint is None:
            raise StateError(
                f"{function} needs checkpoint=, that of the query (its checkpointLocation): it says whose state is "
                "meant and which batch is complete"
            )
        check_path(checkpoint, "checkpoint")
        try:
            folder = _no_pattern(checkpoint)
            query = _query_of("".join(row.value for row in spark.read.text(f"{folder}/metadata").collect()))
            begun, done = (_newest(spark, f"{folder}/{log}") for log in ("offsets", "commits"))
        except AnalysisException:
            what = "it has no metadata, offsets/ or commits/"
            raise StateError(f"{checkpoint} is no query's checkpoint: {what}") from None
        if query is None:
            raise StateError(f"{checkpoint} is no query's checkpoint: its file metadata has no id of a query")
        if begun is None or done is None:
            raise StateError(f"the query at {checkpoint} has not completed a batch yet: it has no state")
        return Checkpoint(query, begun, done)


def _query_of(metadata: str) -> str | None:
    """The id of the query that a checkpoint belongs to; None if its metadata are damaged."""
    try:
        known = json.loads(metadata)
    except ValueError:
        return None
    query = known.get("id") if isinstance(known, dict) else None
    return query if isinstance(query, str) else None


def _no_pattern(path: str) -> str:
    """A path for readers of Spark, which would take signs in it for a pattern that other folders match too."""
    return re.sub(r"([\\*?\[\]{}])", r"\\\1", path)


def _newest(spark: SparkSession, log: str) -> int | None:
    """The last batch in one of the logs of a checkpoint."""
    entries = spark.read.format("binaryFile").option("pathGlobFilter", "[0-9]*").load(log).select("path").collect()
    names = (entry.path.rpartition("/")[2] for entry in entries)
    return max((int(name) for name in names if name.isdigit()), default=None)
