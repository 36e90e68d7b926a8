"""Cells: tables of partial slices, their blocks, and ranges of them combined."""
