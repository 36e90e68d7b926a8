"""Send rows to the partition that their column ``place`` names."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

Words = npt.NDArray[np.uint32]

PLACE = "place"


def by_place(frame: DataFrame, count: int) -> DataFrame:
    """``repartitionById``, which Spark has since 4.1; before 4.1, numbers that Spark's hash sends to each partition."""
    if hasattr(DataFrame, "repartitionById"):
        return frame.repartitionById(count, PLACE)
    return by_hash(frame, count)


def by_hash(frame: DataFrame, count: int) -> DataFrame:
    """``by_place`` for any Spark."""
    numbers = sf.array(*map(sf.lit, numbers_of_places(count)))
    return frame.repartition(count, sf.element_at(numbers, sf.col(PLACE) + 1))


@lru_cache(16)
def numbers_of_places(count: int) -> tuple[int, ...]:
    """For each of ``count`` partitions, the least number that ``repartition`` sends there."""
    numbers = np.arange(32 * count + 1024, dtype=np.uint32)  # a place is missed with a probability of e ** -32
    place = murmur3(numbers).view(np.int32) % np.int32(count)
    found, first = np.unique(place, return_index=True)
    assert found.size == count
    return tuple(first.tolist())


def murmur3(numbers: Words) -> Words:
    """Spark's ``hash`` of int columns."""

    def turned(x: Words, by: int) -> Words:
        return (x << np.uint32(by)) | (x >> np.uint32(32 - by))

    mixed = turned(numbers * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    mixed = turned(mixed ^ np.uint32(42), 13) * np.uint32(5) + np.uint32(0xE6546B64)
    mixed = mixed ^ np.uint32(4)  # bytes of an int
    mixed = (mixed ^ (mixed >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    mixed = (mixed ^ (mixed >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return mixed ^ (mixed >> np.uint32(16))
