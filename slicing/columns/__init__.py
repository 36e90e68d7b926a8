"""Columns of data: read from Arrow, as 8-byte words, keys as codes, in order."""
