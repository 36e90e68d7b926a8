"""Partial slices: tables of cells (one a slice and key), their blocks of partials, and how ranges of them combine."""
