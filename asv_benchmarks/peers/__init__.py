"""The same questions to this library and to its peers: ``python -m asv_benchmarks.peers``.

Each peer has its best plan that we found, its data in its own form and ready before the clock starts; answers are
compared window by window. One thread each, and CPU time of the process; with ``--all-threads`` as many as there are
cores, and time on the wall. The median of runs in which all take turns. ``--threads``: this library alone, with one
thread and with two. ``--overhead``: its pushes beside their kernels. ``--joins``: joins of two streams, in bands and
as of, and how long pushes of them take.
``--everyday``: questions of a notebook, among them those in which Polars is faster.
"""

import os
import sys

THREADS = (os.cpu_count() or 1) if "--all-threads" in sys.argv else 1
os.environ["POLARS_MAX_THREADS"] = str(THREADS)  # read when polars is imported
