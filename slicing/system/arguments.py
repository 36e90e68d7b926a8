"""What several functions check of their arguments."""

from __future__ import annotations

from collections.abc import Sequence


def choice(value: object, argument: str, allowed: Sequence[str]) -> str:
    """One of the values that an argument may have."""
    if value not in allowed:
        raise ValueError(f"{argument} must be one of {', '.join(map(repr, allowed))}; got {value!r}")
    assert isinstance(value, str)
    return value


def at_least_one(value: object, argument: str, other: str = "") -> int:
    """A whole number of at least 1; ``other``: what else is allowed."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{argument} must be a whole number of at least 1{other}; got {value!r}")
    return value
