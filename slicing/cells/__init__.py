"""Cells: tables of partial slices, their blocks, and the combination of ranges of cells."""
