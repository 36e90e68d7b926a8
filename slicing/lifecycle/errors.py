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


OF_WINDOWS, OF_TWO_SIDES, OF_PARTS = b"SLICESNP", b"SLICEJNS", b"SLICEPRT"  # how snapshots begin
_WRITERS = {
    OF_WINDOWS: "an Operator",
    OF_TWO_SIDES: "a JoinOperator or FeatureOperator",
    OF_PARTS: "a Distinct or a chain",
}


def check_writer(blob: memoryview, wanted: bytes) -> None:
    """Refuse a snapshot of another kind of operator."""
    begin = bytes(blob[: len(wanted)])
    if begin != wanted and begin in _WRITERS:
        raise SnapshotError(
            f"the snapshot was written by {_WRITERS[begin]}, and this restores {_WRITERS[wanted]}; call restore of the "
            "class that wrote it"
        )


def viewed(blob: object) -> memoryview:
    """The bytes of a snapshot. Refuses other types."""
    try:
        return memoryview(blob)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"a snapshot is bytes-like data, as snapshot() gives it; got {type(blob).__name__}") from None


def differences(was: str, now: str) -> str:
    """How one spec differs from another, argument by argument, as their texts tell; empty if these are alike."""
    before, after = _arguments(was), _arguments(now)
    changed = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    said = {n: [_shortened(of.get(n, "left out")) for of in (before, after)] for n in changed}
    return "; ".join(f"{name} was {was} and is {now}" for name, (was, now) in said.items())


def _shortened(text: str, most: int = 300) -> str:
    return text if len(text) <= most else f"{text[:most]}..."


def _arguments(text: str) -> dict[str, str]:
    """The arguments of a call, as it is written."""
    found, depth, quote, begin = dict[str, str](), 0, "", text.find("(") + 1
    escaped = False
    for at, sign in enumerate(text):
        if quote:
            quote, escaped = "" if sign == quote and not escaped else quote, sign == "\\" and not escaped
        elif sign in "'\"":
            quote = sign
        else:
            depth += (sign in "([{") - (sign in ")]}")
            if begin and ((depth == 1 and sign == ",") or (depth == 0 and sign == ")")):
                name, _, value = text[begin:at].strip().partition("=")
                found[name] = value
                begin = at + 1
    return found


def check_fingerprint(header: Mapping[str, object], fingerprint: str) -> None:
    """Refuse a snapshot of another spec."""
    if header["fingerprint"] != fingerprint:
        raise SnapshotError(
            f"the snapshot was written for another spec (fingerprint {header['fingerprint']}, this one has "
            f"{fingerprint}); it was {header['spec']}"
        )
