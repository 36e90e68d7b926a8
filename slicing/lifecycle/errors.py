"""What is raised for a snapshot that cannot be read."""


class SnapshotError(ValueError):
    """A snapshot that cannot be read: of another spec, a newer format, or damaged.

    Examples
    --------
    >>> spec = sl.Spec("t", {"ten": sl.tumbling(10)}, {"n": sl.count()})
    >>> try:
    ...     sl.Operator.restore(spec, b"damaged")
    ... except sl.SnapshotError as error:
    ...     print(error)
    the bytes are not a snapshot of this library (they do not begin as one)
    """
