"""PySpark's daemon with the library imported and a query's kernels loaded: a worker that follows a killed one costs a
fork, not seconds."""

import gc
import os

from pyspark import daemon
from spark_chaos import warm

if __name__ == "__main__":
    warm(os.environ.get("CHAOS_QUERY", "windows"))
    gc.freeze()
    daemon.manager()
