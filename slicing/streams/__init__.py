"""Streams put together.

``chain``     operators behind each other
``union``     several streams as one, whose watermark is the least of theirs
``distinct``  one row of each key and window, or of each key within a span: first rows, found by ``first_rows``
``api``       the same of data that is there as a whole
"""
