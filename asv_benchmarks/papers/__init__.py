"""The figures of the papers, run again here: ``python -m asv_benchmarks.papers FIGURE ...``.

Each figure is measured beside peers in the same run, on seeded streams that have what the paper says about its own data
(``data``). It prints its tables, and what the paper states beside what this run found. ``docs/papers.md`` says why they
differ.
"""

import os

os.environ.setdefault("POLARS_MAX_THREADS", "1")  # read when polars is imported
