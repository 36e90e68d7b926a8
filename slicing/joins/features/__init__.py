"""Aggregates of an events table as of each row of another table, the labels; no join is materialised.

``spec``       the query, frozen: keys, time columns, ranges before each label, aggregates, watermark policies
``ranges``     ranges in ticks: which event times a label reaches, and which rows are done at a watermark
``plan``       a spec resolved against both schemas: aggregates, their partials, and the columns of results
``answer``     computes columns of aggregates from labels and runs of events
``operator``   the flow: judge rows, keep them, answer complete labels, evict events that no label reaches
``api``        feeds the operator once (``sl.features``)
``explain``    what is kept, until when, and when results are emitted

Rows, watermarks, runs by key and time, and snapshots come from joins (``slicing.joins``).
"""
