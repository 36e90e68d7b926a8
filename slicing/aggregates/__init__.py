"""Aggregates: what each one keeps in a slice, and how it computes its answer."""
