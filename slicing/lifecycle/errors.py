"""The error for a snapshot that cannot be read, and checks that raise it."""

from collections.abc import Mapping


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


def viewed(blob: object) -> memoryview:
    """The bytes of a snapshot. Refuses other types."""
    try:
        return memoryview(blob)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"a snapshot is bytes-like data, as snapshot() gives it; got {type(blob).__name__}") from None


def check_fingerprint(header: Mapping[str, object], fingerprint: str) -> None:
    """Refuse a snapshot of another spec."""
    if header["fingerprint"] != fingerprint:
        raise SnapshotError(
            f"the snapshot was written for another spec (fingerprint {header['fingerprint']}, this one has "
            f"{fingerprint}); it was {header['spec']}"
        )
