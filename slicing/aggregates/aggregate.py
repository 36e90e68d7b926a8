"""Aggregates as data: the column families that an aggregate takes, the *lanes* it needs, and a ``lower``.

A lane is a kind of partial over a column; ``lower`` turns combined partials into a column of answers. Aggregates of the
same column share lanes: ``sum``, ``min``, ``max`` and ``mean`` of a column are one lane.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slicing.aggregates.arithmetic import Lowered, calculated
from slicing.cells.lanes import Lane
from slicing.columns.dictionaries import unordered
from slicing.columns.expressions import column_or_derived
from slicing.columns.values import BOOL, DURATION, FLOAT, INTEGER, NESTED, NUMERIC, RANKED, TIME, ValueType
from slicing.kernels.combine import SUM_WORDS

Block = Any  # see slicing.cells.blocks


Pools = Mapping[str, pa.Array]
Lower = Callable[[list[Block], Pools], Lowered]
Types = Mapping[str, pa.DataType]


@dataclass(frozen=True)
class BoundAggregate:
    lanes: tuple[Lane, ...]
    type: pa.DataType
    lower: Lower
    # the words of each lane's partials that ``lower`` reads; None: all. Without word 0, only count = 0 or not matters
    words: frozenset[int] | None = None
    number: int | None = None  # the word of its lane that is the answer, if that is a plain number that fits
    least: int = 1  # with fewer values, such an answer is null
    valid: int | None = None  # the word that is 0 where such an answer is null although there are values
    sides: tuple[str, BoundAggregate, BoundAggregate] | None = None  # of arithmetic: the operator, and what it takes
    coded: pa.DictionaryType | None = None  # the dictionary type of the answers; None: no dictionary

    @property
    def shown(self) -> pa.DataType:
        """The type of the result column."""
        return self.type if self.coded is None else self.coded

    @property
    def of_numbers(self) -> bool:
        """Whether the answers are plain numbers that fit (``number``), or computed from such alone."""
        if self.sides is not None:
            return all(side.of_numbers for side in self.sides[1:])
        return self.number is not None or not self.lanes

    @property
    def read(self) -> set[Lane]:
        """The least that the aggregate needs of its lanes: only sums where it reads nothing else."""
        only_sums = self.words is not None and max(self.words, default=0) < SUM_WORDS
        return {lane.sums if only_sums else lane for lane in self.lanes}


Through = Callable[["Aggregate", BoundAggregate], BoundAggregate]  # changes each aggregate that is bound


_ELSEWHERE = {  # what other libraries do to an aggregate
    "filter": "rows are chosen by .where(flag)",
    "alias": "its name is its key in aggs, as in aggs={'total': sl.sum('v')}",
    "over": "the keys are the spec's by=, and sl.attach gives each row the answers of its window",
    **dict.fromkeys(("round", "cast", "fill_null", "abs"), "apply it to the result, or to the column by sl.col"),
}


class Formula:
    """An entry of a spec's ``aggs``: an aggregate, or arithmetic of aggregates and numbers."""

    __array_ufunc__ = None  # numpy numbers leave arithmetic to these classes

    def parts(self) -> tuple[Aggregate, ...]:
        """The single aggregates in the formula."""
        raise NotImplementedError

    def gives(self) -> list[str]:
        """The columns of which the formula gives values, or computes them: not those by which it chooses rows."""
        return [
            column
            for part in self.parts()
            for column in part.columns()
            if part.return_ is None or column in columns_in(part.return_)
        ]

    def bind(self, types: Types, through: Through | None = None) -> BoundAggregate:
        """Resolve the formula against the types of columns. Raises for a type that it cannot take."""
        raise NotImplementedError

    def where(self, flag: object) -> Formula:
        """This formula, computed only over the rows for which ``flag`` is true."""
        raise NotImplementedError

    if not TYPE_CHECKING:  # a type checker knows that there are no other attributes

        def __getattr__(self, name: str) -> object:
            how = f"; {_ELSEWHERE[name]}" if name in _ELSEWHERE else ""
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}{how}", name=name, obj=self)

    def __add__(self, other: object) -> Arithmetic:
        return Arithmetic("+", self, _operand(other))

    def __radd__(self, other: object) -> Arithmetic:
        return Arithmetic("+", _operand(other), self)

    def __sub__(self, other: object) -> Arithmetic:
        return Arithmetic("-", self, _operand(other))

    def __rsub__(self, other: object) -> Arithmetic:
        return Arithmetic("-", _operand(other), self)

    def __mul__(self, other: object) -> Arithmetic:
        return Arithmetic("*", self, _operand(other))

    def __rmul__(self, other: object) -> Arithmetic:
        return Arithmetic("*", _operand(other), self)

    def __truediv__(self, other: object) -> Arithmetic:
        return Arithmetic("/", self, _operand(other))

    def __rtruediv__(self, other: object) -> Arithmetic:
        return Arithmetic("/", _operand(other), self)

    def __neg__(self) -> Arithmetic:
        return -1 * self

    def _no_comparison(self, other: object) -> NoReturn:
        raise TypeError(
            f"{self!r} cannot be compared: choose rows with .where(sl.col('x') > 3), or windows by filtering results"
        )

    __lt__ = __le__ = __gt__ = __ge__ = _no_comparison

    def __pow__(self, other: object) -> NoReturn:
        raise TypeError(f"{self!r} has no power: aggregates take + - * /; write a * a, or compute it from the result")

    def _no_whole_quotient(self, other: object) -> NoReturn:
        raise TypeError(f"{self!r} has no // and no %: aggregates take + - * /; compute it from the result")

    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = _no_whole_quotient

    def __abs__(self) -> NoReturn:
        raise TypeError(f"{self!r} has no abs(): aggregates take + - * /; compute it from the result")

    def __round__(self, digits: object = None) -> NoReturn:
        raise TypeError(f"{self!r} cannot be rounded: aggregates take + - * /; round the column of the result")


@dataclass(frozen=True, repr=False)
class Number(Formula):
    """A number in arithmetic. Numbers of equal value but of two types are different."""

    text: str
    value: int | float = field(compare=False)

    def parts(self) -> tuple[Aggregate, ...]:
        return ()

    def where(self, flag: object) -> Formula:
        return self

    def bind(self, types: Types, through: Through | None = None) -> BoundAggregate:
        type = pa.int64() if isinstance(self.value, int) else pa.float64()
        one = pa.scalar(self.value, type)
        return BoundAggregate((), type, lambda blocks, pools: Lowered(one, None))

    def __repr__(self) -> str:
        return self.text


@dataclass(frozen=True, repr=False)
class Arithmetic(Formula):
    """Two entries and an operator, built by ``+ - * /`` of aggregates and numbers.

    ``/`` gives float64, as in Polars: division by 0 gives inf, -inf or NaN. The other operators keep integers exact
    (a result that does not fit is an overflow, as for a sum) and decimals decimal. Null if any aggregate in it is null.
    """

    operator: str
    left: Formula
    right: Formula

    def parts(self) -> tuple[Aggregate, ...]:
        return (*self.left.parts(), *self.right.parts())

    def where(self, flag: object) -> Formula:
        return replace(self, left=self.left.where(flag), right=self.right.where(flag))

    def bind(self, types: Types, through: Through | None = None) -> BoundAggregate:
        left, right = self.left.bind(types, through), self.right.bind(types, through)
        count = len(left.lanes)
        none = [pa.nulls(0, side.type) for side in (left, right)]
        try:
            type = calculated(self.operator, *none).array.type
        except (pa.ArrowException, TypeError):
            spans = any(pa.types.is_temporal(side.type) for side in (left, right))
            cure = "; of times and durations use the number, as in sl.col('t').cast('int64')" if spans else ""
            raise TypeError(
                f"{self!r}: {left.type} {self.operator} {right.type} is not defined; arithmetic takes aggregates that "
                f"are numbers, decimals, or times that are subtracted{cure}"
            ) from None

        def lower(blocks: list[Block], pools: Pools) -> Lowered:
            a, b = left.lower(blocks[:count], pools), right.lower(blocks[count:], pools)
            found = calculated(self.operator, a.array, b.array)
            masks = [mask for mask in (a.overflow, b.overflow, found.overflow) if mask is not None]
            return Lowered(found.array, reduce(np.logical_or, masks), (a, b)) if masks else found

        words = None if left.words is None or right.words is None else left.words | right.words
        return BoundAggregate((*left.lanes, *right.lanes), type, lower, words, sides=(self.operator, left, right))

    def __repr__(self) -> str:
        return f"{self._side(self.left, False)} {self.operator} {self._side(self.right, True)}"

    def _side(self, side: Formula, right: bool) -> str:
        if isinstance(side, Arithmetic) and _STRENGTH[side.operator] < _STRENGTH[self.operator] + right:
            return f"({side!r})"
        return repr(side)


def unfit(formula: Formula, found: Lowered, row: int, column: str) -> str:
    """What does not fit its type in a row of answers ``found``: the beginning of an error's sentence."""
    part, type = _first_unfit(formula, found, row)
    whole = "" if part is formula else f" in {formula!r}"
    return f"{part!r}{whole} (output column {column!r}) does not fit {type}"


def _first_unfit(formula: Formula, found: Lowered, row: int) -> tuple[Formula, pa.DataType]:
    """The innermost part of a formula whose answer does not fit its type, and this type."""
    if isinstance(formula, Arithmetic):
        for part, side in zip((formula.left, formula.right), found.sides, strict=True):
            if side.overflow is not None and side.overflow[row]:
                return _first_unfit(part, side, row)
    return formula, found.array.type


_STRENGTH = {"+": 1, "-": 1, "*": 2, "/": 2}


def _operand(value: object) -> Formula:
    if isinstance(value, Formula):
        return value
    if isinstance(value, np.integer | np.floating):
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, int | float) or (isinstance(value, int) and not _fits(value)):
        raise TypeError(
            "aggregates can be added, subtracted, multiplied and divided by aggregates, floats and whole numbers of 64 "
            f"bits; got {value!r}"
        )
    return Number(repr(value) if value - value == 0 else f"float('{value}')", value)


def _fits(value: int) -> bool:
    return -(1 << 63) <= value < 1 << 63


@dataclass(frozen=True, repr=False)
class Aggregate(Formula):
    """An aggregate of a :class:`~slicing.Spec`: frozen, hashable, printed as the code that builds it.

    Made by :func:`count`, :func:`sum` and the like. Arithmetic of aggregates is an aggregate, too.

    Parameters
    ----------
    function
        The name of the aggregate.
    column
        The column that it reads; None for ``count()``.
    return_
        The column that it returns, or several columns.
    ddof
        The degrees of freedom, for ``var`` and ``std``.
    flag
        The boolean column of ``where``.
    options
        Other arguments, in order.
    user
        The functions of a :func:`udaf`.

    Examples
    --------
    >>> sl.count().where(sl.col("ms") > 100)
    sl.count().where(sl.col('ms') > 100)
    >>> sl.sum("v") / sl.count()
    sl.sum('v') / sl.count()
    """

    function: str
    column: str | None = None
    return_: str | tuple[str, ...] | None = None  # several: returned as a struct
    ddof: int | None = None
    flag: str | None = None
    options: tuple[tuple[str, Any], ...] = ()  # other arguments, in order
    user: Any = None  # a user's functions: slicing.aggregates.udaf

    @property
    def value_column(self) -> str:
        """The column of an aggregate that has one."""
        assert self.column is not None
        return self.column

    def parts(self) -> tuple[Aggregate, ...]:
        return (self,)

    def where(self, flag: object) -> Aggregate:
        """This aggregate, computed only over the rows for which ``flag`` is true.

        Parameters
        ----------
        flag
            The name of a boolean column, or a boolean expression: ``sl.count().where(sl.col("ms") > 100)``.
        """
        if self.flag is not None:
            raise ValueError(f"{self!r} already has a where; combine the two with & (sl.col('a') & sl.col('b'))")
        return replace(self, flag=column_named(flag, "where"))

    def columns(self) -> tuple[str, ...]:
        """The value columns that the aggregate reads."""
        if self.user is not None:
            inputs: tuple[str, ...] = self.user.inputs
            return inputs
        return (*(() if self.column is None else (self.column,)), *columns_in(self.return_))

    def bind(self, types: Types, through: Through | None = None) -> BoundAggregate:
        """Resolve the aggregate against the types of columns. Raises for a type that it cannot take."""
        bound = _TABLE[self.function].bind(self, types)
        return bound if through is None else through(self, bound)

    def __repr__(self) -> str:
        returned = repr(list(self.return_) if isinstance(self.return_, tuple) else self.return_)
        arguments = [repr(self.user)] if self.user is not None else [] if self.column is None else [repr(self.column)]
        if self.return_ is not None and not self.options:
            arguments.append(returned)
        if self.ddof not in (None, 1):
            arguments.append(f"ddof={self.ddof}")
        arguments += [f"{name}={value!r}" if at else repr(value) for at, (name, value) in enumerate(self.options)]
        if self.return_ is not None and self.options:
            arguments.append(f"return_={returned}")
        suffix = f".where({self.flag!r})" if self.flag is not None else ""
        return f"sl.{self.function}({', '.join(arguments)}){suffix}"


Build = Callable[[Aggregate, ValueType, Mapping[str, pa.DataType]], BoundAggregate]


class Definition(NamedTuple):
    """The column families that an aggregate takes, and how it is built."""

    families: tuple[str, ...]
    build: Build

    def bind(self, agg: Aggregate, types: Mapping[str, pa.DataType]) -> BoundAggregate:
        bound = self._bound(agg, types)
        given = types.get(str(agg.return_ or agg.column)) if agg.function in _PICKED else None
        if given is None or not pa.types.is_dictionary(given):
            return bound
        return replace(bound, coded=unordered(given))

    def _bound(self, agg: Aggregate, types: Mapping[str, pa.DataType]) -> BoundAggregate:
        if agg.column is None:
            return self.build(agg, ValueType(pa.null(), INTEGER, False), types)
        type = types[agg.column]
        if agg.function == "count":
            return self.build(agg, ValueType(type, INTEGER, False), types)
        value = ValueType.of(type, agg.column)
        if value.family not in self.families:
            number = f"; for its number use sl.col({agg.column!r}).cast('int64')"
            raise TypeError(
                f"{agg!r}: column {agg.column!r} has type {type}; {agg.function} takes "
                f"{', '.join(_SHOWN[f] for f in self.families)} columns{number if value.family in _SPANS else ''}"
            )
        return self.build(agg, value, types)


_SPANS = (TIME, DURATION)
_SHOWN = {RANKED: "string or binary", NESTED: "struct or list", **{f: f for f in (*NUMERIC, TIME, DURATION)}}


_PICKED = {"min", "max", "first", "last", "argmin", "argmax", "mode"}  # aggregates whose answers are values of a column

_TABLE: dict[str, Definition] = {}


def define(name: str, families: tuple[str, ...], build: Build) -> None:
    """Register an aggregate, for ``Aggregate(name, ...)``."""
    _TABLE[name] = Definition(families, build)


def column_named(name: object, argument: str) -> str:
    """The column that an argument names, or that an expression computes; checked."""
    if isinstance(name, pc.Expression):
        return column_or_derived(name, argument)
    if not isinstance(name, str) or not name:
        other = type(name).__module__.startswith(("polars.", "pyspark.", "ibis.", "narwhals.", "duckdb."))
        cure = "; expressions are pyarrow's here: sl.col('x') > 3" if other else ""
        raise TypeError(f"{argument} must be the name of a column or an expression; got {name!r}{cure}")
    return name


def likely_reads(aggs: Iterable[Aggregate]) -> Iterator[tuple[str, pa.DataType]]:
    """The columns and expressions that aggregates read, each with a likely type: float where floats are allowed."""
    for agg in aggs:
        families = _TABLE[agg.function].families or NUMERIC
        type = pa.float64() if FLOAT in families else pa.bool_() if BOOL in families else pa.int64()
        for place, name in enumerate(agg.columns()):
            yield name, pa.float64() if place and agg.return_ is not None else type  # of any type
        if agg.flag:
            yield agg.flag, pa.bool_()


def columns_in(return_: str | tuple[str, ...] | None) -> tuple[str, ...]:
    """The columns that an aggregate returns beside the one that it compares."""
    return (return_,) if isinstance(return_, str) else return_ or ()


def columns_of(names: object, argument: str) -> str | tuple[str, ...]:
    """A column to return, or several columns; checked."""
    if not isinstance(names, list | tuple):
        return column_named(names, argument)
    if not names:
        raise ValueError(f"{argument} must name at least one column; got {names!r}")
    checked = tuple(column_named(name, f"{argument}[{at}]") for at, name in enumerate(names))
    twice = [name for name in checked if checked.count(name) > 1]
    if twice:
        raise ValueError(f"{argument} names column {twice[0]!r} twice; each is a field of the result")
    return checked
