"""Watermarks that a user gives, also before the first rows tell the type of the time column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import pyarrow as pa

from slicing.times.measure import Measure

Ticks = TypeVar("Ticks")


def later(one: int | None, other: int | None) -> int | None:
    """The larger of two watermarks; None is before all times."""
    if one is None or other is None:
        return other if one is None else one
    return max(one, other)


def waiting(given: Sequence[object], watermark: object) -> tuple[object, ...]:
    """Watermarks from before the first rows, and another one. Those before it that are no later say nothing more."""
    left = list(given)
    while left and _is_no_later(left[-1], watermark):
        left.pop()
    return (*left, watermark)


def _is_no_later(one: object, other: object) -> bool:
    if isinstance(one, int) or isinstance(other, int):
        return isinstance(one, int) and isinstance(other, int) and one <= other
    least, most = (Measure.of(pa.timestamp("ns", "UTC"), "time").watermark(value, "") for value in (one, other))
    return least <= most


def fitting(given: Sequence[object], in_ticks: Callable[[object], Ticks]) -> list[Ticks]:
    """Watermarks from before the first rows, in ticks. One that does not fit the time column is left out if a later one
    fits."""
    found: list[Ticks] = []
    for number, watermark in enumerate(given, 1):
        try:
            found.append(in_ticks(watermark))
        except (TypeError, ValueError) as error:
            if number == len(given):
                raise type(error)(f"{error}. It was given by advance before the first push: advance again") from None
    return found
