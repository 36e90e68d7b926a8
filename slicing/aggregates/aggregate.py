"""What an aggregate is: data, namely the column families it takes, the *lanes* it needs, and a ``lower``.

A lane is a kind of partial over a column; ``lower`` turns combined partials into a column of answers. Aggregates of the
same column share lanes: ``sum``, ``min``, ``max`` and ``mean`` of a column are one lane.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slicing.columns.values import DURATION, INTEGER, NESTED, NUMERIC, RANKED, TIME, ValueType
from slicing.slices.lanes import Lane

Block = Any  # see slicing.slices.blocks
Mask = npt.NDArray[np.bool_]


class Lowered(NamedTuple):
    """Answers of one aggregate, and which of them do not fit their type."""

    array: pa.Array
    overflow: Mask | None


Pools = Mapping[str, pa.Array]
Lower = Callable[[list[Block], Pools], Lowered]


@dataclass(frozen=True)
class BoundAggregate:
    lanes: tuple[Lane, ...]
    type: pa.DataType
    lower: Lower
    # of each lane's partials that ``lower`` reads; None: all. Without 0 only whether it is 0, the count, matters
    words: frozenset[int] | None = None
    number: int | None = None  # the word of its lane that its answers are, 8 bytes each, as they lie in a column


@dataclass(frozen=True, repr=False)
class Aggregate:
    """An aggregate of a :class:`~slicing.Spec`; frozen, hashable, prints as the code that builds it."""

    function: str
    column: str | None = None
    return_: str | tuple[str, ...] | None = None  # several: a struct of them
    ddof: int | None = None
    flag: str | None = None
    options: tuple[tuple[str, Any], ...] = ()  # other arguments, in their order
    user: Any = None  # a user's functions: slicing.aggregates.udaf

    def where(self, flag: str) -> Aggregate:
        """The same aggregate over the rows whose boolean column ``flag`` is true."""
        if self.flag is not None:
            raise ValueError(f"{self!r} already has a where column; combine the flags into one column first")
        return replace(self, flag=_column(flag, "where"))

    def columns(self) -> tuple[str, ...]:
        """The value columns it reads."""
        if self.user is not None:
            inputs: tuple[str, ...] = self.user.inputs
            return inputs
        returned = (self.return_,) if isinstance(self.return_, str) else self.return_ or ()
        return (*(() if self.column is None else (self.column,)), *returned)

    def bind(self, types: Mapping[str, pa.DataType]) -> BoundAggregate:
        """Resolve against the columns' types; refuses a type the aggregate cannot take."""
        return _TABLE[self.function].bind(self, types)

    def __repr__(self) -> str:
        arguments = [repr(c) for c in self.columns()] if self.user is None else [repr(self.user)]
        if isinstance(self.return_, tuple):
            arguments[1:] = [repr(list(self.return_))]
        if self.ddof not in (None, 1):
            arguments.append(f"ddof={self.ddof}")
        arguments += [f"{name}={value!r}" if at else repr(value) for at, (name, value) in enumerate(self.options)]
        suffix = f".where({self.flag!r})" if self.flag is not None else ""
        return f"sl.{self.function}({', '.join(arguments)}){suffix}"


Build = Callable[[Aggregate, ValueType, Mapping[str, pa.DataType]], BoundAggregate]


class Definition(NamedTuple):
    """The column families an aggregate takes, and what it keeps and reads out of them."""

    families: tuple[str, ...]
    build: Build

    def bind(self, agg: Aggregate, types: Mapping[str, pa.DataType]) -> BoundAggregate:
        if agg.column is None:
            return self.build(agg, ValueType(pa.null(), INTEGER, False), types)
        type = types[agg.column]
        if agg.function == "count":
            return self.build(agg, ValueType(type, INTEGER, False), types)
        value = ValueType.of(type, agg.column)
        if value.family not in self.families:
            raise TypeError(
                f"{agg!r}: column {agg.column!r} has type {type}; {agg.function} takes "
                f"{', '.join(_SHOWN[f] for f in self.families)} columns"
            )
        return self.build(agg, value, types)


_SHOWN = {RANKED: "string or binary", NESTED: "struct or list", **{f: f for f in (*NUMERIC, TIME, DURATION)}}


_TABLE: dict[str, Definition] = {}


def define(name: str, families: tuple[str, ...], build: Build) -> None:
    """One more aggregate: ``Aggregate(name, ...)``."""
    _TABLE[name] = Definition(families, build)


def _column(name: object, argument: str) -> str:
    if not isinstance(name, str) or not name:
        raise TypeError(f"{argument} must be the name of a column; got {name!r}")
    return name


def columns_of(names: object, argument: str) -> str | tuple[str, ...]:
    """A column to return, or several of them."""
    if not isinstance(names, list | tuple):
        return _column(names, argument)
    if not names:
        raise ValueError(f"{argument} must name at least one column; got {names!r}")
    checked = tuple(_column(name, f"{argument}[{at}]") for at, name in enumerate(names))
    twice = [name for name in checked if checked.count(name) > 1]
    if twice:
        raise ValueError(f"{argument} names column {twice[0]!r} twice; each is a field of the result")
    return checked
