"""What all tests share: a Spark that starts quickly."""

import os

# Queries of tests are short: a JVM that compiles lightly and collects by one thread answers them with less CPU.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
