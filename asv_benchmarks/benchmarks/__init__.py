"""The asv suite. ``SLICING_BENCH_SCALE=0.001`` shrinks all of it.

asv takes every figure for a cost: ``asv compare`` calls a higher one a regression. Compare by ``time_*``; the rates
(``track_*`` in rows/s) are for reading.
"""
