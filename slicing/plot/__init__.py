"""Charts of queries, streams and results, made with Altair (the extra ``plot``).

Each function returns a chart that can be composed (``a & b``, ``a.properties(width=900)``) and saved
(``chart.save("a.svg")``). Its ``chart.data`` is the table that it shows.
"""

from slicing.plot.arrivals import progress
from slicing.plot.batches import query
from slicing.plot.delays import lateness
from slicing.plot.rows import timeline
from slicing.plot.windows import results

__all__ = ["lateness", "progress", "query", "results", "timeline"]
