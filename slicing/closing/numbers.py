"""Results that are numbers, each read from the words of one partial (``BoundAggregate.number``): columns are written
once, without columns of words in between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from slicing.cells.blocks import Block
from slicing.cells.lanes import Lane
from slicing.columns.arrow_out import table_room
from slicing.columns.lazy import lazy
from slicing.columns.values import NOWHERE
from slicing.kernels import combine as kinds
from slicing.kernels.numbers import KEY, MEAN_F, MEAN_I, SUM_F, SUM_I, WORD, gather_numbers
from slicing.query.plan import Plan
from slicing.system.arrays import Array, Ints

Ordered = tuple[Sequence[Block], Ints]  # blocks of words, and the positions of cells in the wanted order


class Number(NamedTuple):
    """A result: the word of a lane that it is (``TOTAL``, ``MEAN``: read from two words), and its numpy type."""

    lane: int
    word: int
    type: np.dtype[Any]


class OfLane(NamedTuple):
    """The results of one lane: their places among all results, their words, and how they are read from these."""

    lane: int
    counts: bool
    places: Sequence[int]
    words: Ints
    forms: Ints


@dataclass(eq=False)
class Numbers:
    """All results of a query, and their types."""

    lanes: Sequence[Lane]
    each: Sequence[Number]
    types: Sequence[pa.DataType]

    @staticmethod
    def of(plan: Plan) -> Numbers | None:
        """None if a result is more than a number."""
        each, lanes = list[Number](), plan.partials.lanes_of
        for name, agg in plan.aggs.items():
            if agg.number is None:
                return None
            each.append(Number(lanes[name][0], agg.number, _type_of(agg.type)))
        return Numbers(plan.lanes, each, [agg.type for agg in plan.aggs.values()])

    @lazy
    def by_lane(self) -> Sequence[OfLane]:
        found = []
        for at, lane in enumerate(self.lanes):
            places = [place for place, number in enumerate(self.each) if number.lane == at]
            words = [self.each[place].word for place in places]
            forms = [_form(lane.kind, word) for word in words]
            if places:
                found.append(OfLane(at, lane.kind == kinds.COUNT, places, np.array(words), np.array(forms)))
        return found

    def read(self, parts: Sequence[Ordered], size: int) -> list[Array] | None:
        """Result columns of ``size`` cells in all, made by reading each cell once a lane, without a copy in between:
        5 M rows that become 3 M results 50 -> 45 ns. None if one is null or does not fit."""
        found: list[Array] = [NOWHERE] * len(self.each)
        for lane, counts, places, words, forms in self.by_lane:
            columns, done = table_room(words.size, size), 0
            for blocks, order in parts:
                if gather_numbers(blocks[lane], order, words, forms, columns, done) and not counts:
                    return None
                done += order.size
            for place, column in zip(places, columns, strict=True):
                type = self.each[place].type
                found[place] = column if type.itemsize == 8 else column.astype(type)
        return found

    def arrays(self, columns: Sequence[Array]) -> list[pa.Array]:
        """Columns without nulls, in the types of the results."""
        return [
            pa.Array.from_buffers(type, column.size, [None, pa.py_buffer(column)], null_count=0)
            for type, column in zip(self.types, columns, strict=True)
        ]


def _form(kind: object, word: int) -> int:
    if word == kinds.TOTAL:
        return SUM_F if kind in kinds.FLOATS else SUM_I
    if word == kinds.MEAN:
        return MEAN_F if kind in kinds.FLOATS else MEAN_I
    return KEY if word >= kinds.SUM_WORDS and kind == kinds.BASIC_F else WORD


def _type_of(type: pa.DataType) -> np.dtype[Any]:
    """The numpy type of a column of numbers: words, cut to the width of the result, whose sign does not matter."""
    return np.dtype(f"i{type.bit_width // 8}")
