"""Queries as frozen data, and resolved against the types of columns."""
