"""Aggregates of an events table as of each row of another one, the labels: no join is materialised.

``spec``       what is asked, frozen: keys, time columns, ranges before each label, aggregates, policies of progress
``ranges``     ranges in ticks: which times of events a label reaches, and which rows are done at a watermark
``plan``       a spec resolved against both schemas: aggregates and their partials, the columns of results
``answer``     labels and the runs of events into columns of aggregates
``operator``   the flow: judge, keep, answer labels that are complete, let go what no label reaches; ``api`` feeds it
               once (``sl.features``)
``explain``    what is kept, until when, and when results come

Rows, watermarks, runs by key and time, and snapshots are those of joins (``slicing.joins``).
"""
