"""Settings by which a Spark of tests starts quickly."""

import zipfile
from importlib.util import find_spec
from pathlib import Path

# Queries of tests are short: a JVM that compiles lightly and collects by one thread answers them with less CPU. It then
# keeps 48 MB of machine code, which a few streams fill; from there on it drops some and compiles that again.
LIGHT = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=256m"

# Where tests have many tasks fail: the worker that follows a failed one is a fork of a process with all imports.
WARM = {"spark.python.daemon.module": "spark_warm_daemon"}


def without_forks() -> list[str]:
    """Settings of Spark that keep Hadoop from starting `chmod` for each local file, and a second one for its checksum.

    A file is written beside its place and renamed, as before; by the default there are as many as twenty a micro-batch.
    """
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        return []
    (jar,) = (Path(found.origin).parent / "jars").glob("spark-sql_*.jar")
    with zipfile.ZipFile(jar) as archive:  # it lies in another package since Spark 4.1
        entries = [name for name in archive.namelist() if name.endswith("/FileSystemBasedCheckpointFileManager.class")]
    manager = entries[0].removesuffix(".class").replace("/", ".")
    return [
        "-Dspark.hadoop.fs.file.impl=org.apache.hadoop.fs.RawLocalFileSystem",
        f"-Dspark.sql.streaming.checkpointFileManagerClass={manager}",
    ]
