"""Pictures of queries, streams and results, as Altair charts (the extra ``plot``).

Each function gives a chart that composes (``a & b``, ``a.properties(width=900)``), saves (``chart.save("a.svg")``), and
has the table that it shows in ``chart.data``.
"""

from slicing.plot.arrivals import progress
from slicing.plot.batches import query
from slicing.plot.delays import lateness
from slicing.plot.rows import timeline
from slicing.plot.windows import results

__all__ = ["lateness", "progress", "query", "results", "timeline"]
