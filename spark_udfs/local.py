"""A local Spark session, for the demonstration, the tests and the benchmarks."""

from __future__ import annotations

import os
import shutil
import sys
import warnings

from pyspark.sql import SparkSession

# With pandas 3, PySpark warns about its conversions to pandas; none is used here.
warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas")

NO_JAVA = (
    "Spark needs Java 17 or newer, and none was found: install one (such as openjdk-17-jre-headless) or set JAVA_HOME"
)

# With a smaller limit Spark measures the columns after each row that it sends to Python: 1.1 M rows of 3 columns cost
# the JVM's tasks 0.61 s of CPU without a limit, and 1.1 s with one
UNMEASURED = str(2**31 - 1)


def session(master: str = "local[2]", **conf: object) -> SparkSession:
    """A quiet session whose workers use this Python and this checkout; ``conf`` are settings by name."""
    home = os.environ.get("JAVA_HOME")
    if shutil.which("java") is None and not (home and os.path.exists(os.path.join(home, "bin", "java"))):
        raise SystemExit(NO_JAVA)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    known = os.environ.get("PYTHONPATH", "")
    if root not in known.split(os.pathsep):  # workers start with it
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (root, known)))
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.adaptive.streaming.stateless.enabled": "false",
        "spark.sql.execution.arrow.maxBytesPerBatch": UNMEASURED,
        **{name: str(value) for name, value in conf.items()},
    }
    builder = SparkSession.builder.master(master).appName("slicing")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark
