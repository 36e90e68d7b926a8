"""Joins of two streams by keys and time, in process.

``spec``       what is asked, frozen: keys, time columns, band or windows, kind, how watermarks move
``within``     a band or windows in ticks: which times a row reaches, and which rows are done at a watermark
``plan``       a spec resolved against both schemas: common types of keys and time, result columns, ``where``
``sides``      the state of one side: index runs by (code, time, name) in slices of time, and the payload columns
``arrivals``   one batch, judged and encoded: rows in time with their codes, late rows, rows without a key
``pairs``      partners of rows in the runs of the other side: counted, listed, tested by ``where``, or chosen
``keep``       which right rows of an as-of join a left row may still choose
``rows_out``   result columns, gathered by the names of rows
``progress``   the watermarks of both sides and of the output
``operator``   the flow: judge, join, advance, purge, commit; ``state`` is the operator's state, ``snapshot`` writes
   it as bytes, ``step`` does the work of one push, and ``api`` (``sl.join``) joins two whole tables
``explain``    what is kept, until when, and when results come
"""
