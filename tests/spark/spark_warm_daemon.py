"""PySpark's daemon with the library imported, so that a worker that follows a killed one costs a fork, not seconds."""

from pyspark import daemon

import spark_udfs.stages  # noqa: F401

if __name__ == "__main__":
    daemon.manager()
