"""Rows of the input beside the results of their windows."""
