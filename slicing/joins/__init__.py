"""Joins of two streams by keys and time, in process.

``spec``       what is asked, frozen: keys, time columns, band or windows, kind, policies of progress
``within``     a band or windows in ticks: which times a row reaches, and which rows are done at a watermark
``plan``       a spec resolved against both schemas: common types of keys and time, the columns of results, ``where``
``sides``      what is kept of one side: index runs by (code, time, name) in slices of time, payload as it came
``arrivals``   a batch judged and encoded: rows in time with their codes, late rows, rows without a key
``pairs``      rows against the runs of the other side: counted, filled, tested by ``where``; or one partner a row
``keep``       which right rows of an as-of join a left row may still choose
``rows_out``   names of rows into columns of results
``progress``   watermarks of both sides, and what the results have reached
``operator``   the flow: judge, join, advance, purge, commit; ``state`` is all it remembers, ``snapshot`` the same
               as bytes; ``step`` is what one push does; ``api`` feeds it once (``sl.join``)
``explain``    what is kept, until when, and when results come
"""
