"""Reduces the rows of a batch to cells."""
