"""Rows of a batch into cells."""
