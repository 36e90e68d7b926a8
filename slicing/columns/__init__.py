"""Columns of data: in from Arrow, as 8-byte words, keys as codes, sorted."""
