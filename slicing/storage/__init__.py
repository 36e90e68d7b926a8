"""The store of slices."""
