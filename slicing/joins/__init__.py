"""Joins of two streams by keys and time, in process. ``features/``: aggregates of events as of each row of a table.

``spec``       what is asked, frozen: keys, time columns, band or windows, kind, how watermarks move
``within``     a band or windows in ticks: which times a row reaches, and which rows are done at a watermark
``plan``       a spec resolved against both schemas: common types of keys and time, result columns, ``where``
``two_sided``  the flow of operators with two inputs: judge, join, advance, purge, commit
``operator``   the operator of joins; ``step`` does the work of one push, and ``api`` (``sl.join``) joins two tables
``arrivals``   one batch, judged and encoded: rows in time with their codes, late rows, rows without a key
``by_key``     watermarks of single keys
``sides``      the state of one side: index runs by (code, time, name) in slices of time, and the payload columns
``pairs``      partners of rows in the runs of the other side: counted, listed, tested by ``where``, or chosen
``in_order``   partners of rows of whole tables in order of time, met on a walk
``keep``       which right rows of an as-of join a left row may still choose
``slices``     partial aggregates in place of rows that need not be told apart
``places``     columns of rows that are chosen by their places
``rows_out``   result columns, gathered by the names of rows
``progress``   the watermarks of both sides and of the output
``state``      what the operator remembers; ``snapshot`` writes it as bytes, ``repartition`` splits it by key
``exchange``   an operator that is split between processes, as on Spark
``explain``    what is kept, until when, and when results come
"""
