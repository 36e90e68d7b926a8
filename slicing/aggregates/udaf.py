"""User-defined aggregates: lift, combine and lower as plain Python functions, compiled with the library's loops.

A commutative aggregate keeps one partial for each slice: a count and its states, combined like any other partial
(``UserWords``). A non-commutative one keeps the rows of a slice in order (``list_kinds.in_order``). Each slice is
folded when it is needed, and windows combine slices. Where slices overlap in time, the rows of a window are sorted and
folded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import numpy as np
import pyarrow as pa

from slicing.aggregates.aggregate import Aggregate, BoundAggregate, Pools, column_named, define
from slicing.aggregates.arithmetic import Lowered
from slicing.cells import combining
from slicing.cells.blocks import Block
from slicing.cells.lanes import Feed, Lane
from slicing.cells.list_kinds import Lifting, in_order, rows_of
from slicing.cells.lists import Lists, Picked, interleaved
from slicing.columns.arrow_out import array_of
from slicing.columns.values import DECIMAL, DURATION, FLOAT, NUMERIC, TIME, ValueType, word_floats
from slicing.kernels.strategies import STRATEGIES, Combinations
from slicing.system.arguments import says_arguments, yes_or_no
from slicing.system.arrays import Ints
from slicing.system.code_text import as_it_is, described, digest
from slicing.system.user_functions import STATES, Functions
from slicing.system.user_laws import check, lift_takes

# --- blocks -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class UserWords:
    """The partials of a commutative aggregate: a count and its states."""

    functions: Functions
    forms: str

    def identity(self, lane: Lane, size: int) -> Ints:
        return self.functions.empty(size)

    def lifted(self, lane: Lane, rows: Lifting) -> Ints:
        block = self.functions.empty(rows.cells)
        feeds = rows.feeds
        self.functions.run("scatter", self.forms, rows.cell(), rows.valid, *feeds, block, block.view(np.float64))
        return block

    def merged(self, lane: Lane, into: Ints, size: int, older: Ints, newer: Ints) -> Ints:
        block, every, split = self.functions.empty(size), np.arange(into.size), len(older)
        self.combine(into[:split], every[:split], block, older)
        self.combine(into[split:], every[: into.size - split], block, newer)
        return block

    def answered(
        self, lane: Lane, block: Ints, first: Ints, last: Ints, combinations: Callable[[], Combinations]
    ) -> Ints:
        if not self.functions.evicts:
            return self.ranges(block, combinations())
        answer = self.functions.empty(first.size)
        floats = answer.view(np.float64), block.view(np.float64)
        self.functions.run("slide", self.forms, first, last, answer, floats[0], block, floats[1])
        return answer

    def ranges(self, block: Ints, plan: Combinations) -> Ints:
        """The answers of ranges by the plan of combinations, each in the order of the cells."""
        partials = block
        if plan.scratch is not None:
            partials = plan.partials(block)
            self.combine(plan.into, plan.source, partials, partials, ordered=True)
        answer = partials.take(plan.seed, axis=0)
        self.combine(plan.more, plan.rest, answer, partials)
        return answer

    def combine(self, into: Ints, source: Ints, out: Ints, cells: Ints, ordered: bool = False) -> None:
        floats = out.view(np.float64), cells.view(np.float64)
        self.functions.run("merge", self.forms, into, source, ordered, out, floats[0], cells, floats[1])


def _folded(kind: UserWords, rows: Lists, keyed: Sequence[bool]) -> Ints:
    """The rows of each list, combined in order."""
    block = kind.functions.empty(len(rows))
    items = np.ascontiguousarray(rows.items)
    for k, is_key in enumerate(keyed):
        if is_key:
            items = items.copy() if items is rows.items else items
            items[:, 3 + k] = word_floats(np.ascontiguousarray(items[:, 3 + k])).view(np.int64)
    kind.functions.run("fold", kind.forms, rows.at, items, items.view(np.float64), block, block.view(np.float64))
    return block


def _combined_in_order(kind: UserWords, picked: Picked, keyed: Sequence[bool]) -> Ints:
    """The answer of each window: its slices combined in order, or its rows if the slices overlap in time."""
    lists = picked.lists.whole()
    tangled = interleaved(picked)
    answer = kind.functions.empty(len(picked))
    some = np.flatnonzero(tangled)
    if some.size:
        answer[some] = _folded(kind, rows_of(picked[some], in_order(len(keyed))), keyed)
    rest = np.flatnonzero(~tangled & (picked.last > picked.first))
    first, last = picked.first[rest], picked.last[rest]
    order = np.lexsort((last, first, np.frexp((last - first).astype(np.float64))[1]))
    first, last = first[order], last[order]
    lists_of: Callable[[Ints, Ints, int], Combinations] = STRATEGIES[combining.choose(first, last, len(lists))].lists
    answer[rest[order]] = kind.ranges(_folded(kind, lists, keyed), lists_of(first, last, len(lists)))
    return answer


# --- the definition ---------------------------------------------------------------------------------------------------


def _bind(agg: Aggregate, value: ValueType, columns: Mapping[str, pa.DataType]) -> BoundAggregate:
    functions: Functions = agg.user
    values = {name: ValueType.of(columns[name], name) for name in functions.inputs}
    for name, found in values.items():
        if found.family not in (*NUMERIC, TIME, DURATION):
            raise TypeError(
                f"{agg!r}: column {name!r} has type {columns[name]}; udaf takes numbers, booleans and times"
            )
    floats = [found.family in (FLOAT, DECIMAL) for found in values.values()]
    forms = "".join("f" if is_float else "i" for is_float in floats)
    lift_takes(functions, forms)
    kind = UserWords(functions, forms)

    def lowered(block: Ints) -> Lowered:
        type = functions.result()
        out = np.zeros(len(block), type.to_pandas_dtype())
        functions.run("lowered", forms, block, block.view(np.float64), out)
        empty = block[:, 0] == 0
        return Lowered(array_of(out, empty), None)

    integer = ["signed" if found.type == pa.uint64() else "int" for found in values.values()]
    plain = ["float" if is_float else form for is_float, form in zip(floats, integer, strict=True)]
    if functions.commutative:
        feeds = tuple(Feed(name, form) for name, form in zip(values, plain, strict=True))
        return BoundAggregate((Lane(kind, feeds, agg.flag),), functions.result(), lambda b, pools: lowered(b[0]))
    # words in the order of values, which order rows of one time if there is no arrival
    keyed = [found.family == FLOAT for found in values.values()]
    feeds = tuple(Feed(name, "word" if k else form) for name, form, k in zip(values, plain, keyed, strict=True))

    def lower(b: list[Block], pools: Pools) -> Lowered:
        return lowered(_combined_in_order(kind, Picked.of(b[0]), keyed))

    return BoundAggregate((Lane(in_order(len(feeds)), feeds, agg.flag),), functions.result(), lower)


define("udaf", (), _bind)


# --- the public constructor, and what it refuses --------------------------------------------------------------------


@says_arguments
def udaf(
    name: str,
    lift: Callable[..., Any],
    combine: Callable[[Any, Any], Any],
    lower: Callable[[Any], Any],
    identity: Any,
    invert: Callable[[Any, Any], Any] | None = None,
    commutative: bool = False,
    state: Sequence[object] = ("float64",),
    inputs: Sequence[str] = (),
) -> Aggregate:
    """An aggregate of your own, from plain Python functions that the library compiles.

    Parameters
    ----------
    name
        The name that is printed.
    lift
        ``lift(*values)``: the state of one row, from its values of the columns ``inputs``. Floats and decimals are
        passed as float64; integers, booleans and times as int64, which every value must fit. Rows with a null among
        them are left out.
    combine
        ``combine(a, b)``: one state from two. It must be associative.
    lower
        ``lower(state)``: the answer: a float, an integer or a bool.
    identity
        The neutral state: combined with any other state it gives that state.
    invert
        ``invert(combine(a, b), b)`` gives ``a`` back. What leaves a sliding window is then subtracted, instead of
        combining the rest again. Used only where that is exact and order does not matter: commutative, with states of
        integers and bools (in floats an infinity or a rounding error would stay).
    commutative
        False: rows and states are combined in the order of (time, sequence, arrival), in whatever order they arrive.
        This keeps the rows of open windows.
    state
        The types of a state ('float64', 'int64', 'bool'): one entry for a plain value, several for a tuple.
    inputs
        The columns that ``lift`` takes.

    Notes
    -----
    Functions may use what numba compiles: numbers, tuples, math, numpy. Functions that do not compile are refused here.

    Examples
    --------
    >>> squares = sl.udaf(
    ...     "squares",
    ...     lift=lambda x: x * x,
    ...     combine=lambda a, b: a + b,
    ...     lower=lambda s: s,
    ...     identity=0.0,
    ...     inputs=["v"],
    ...     commutative=True,
    ... )
    >>> rows = pa.table({"t": [1, 2, 12], "v": [2.0, 3.0, 4.0]})
    >>> sl.aggregate(rows, sl.Spec("t", {"ten": sl.tumbling(10)}, {"x": squares}))["x"].to_pylist()
    [13.0, 16.0]
    """
    name = _name(name)
    lift, combine, lower = (_function(name, *f) for f in (("lift", lift), ("combine", combine), ("lower", lower)))
    invert = None if invert is None else _function(name, "invert", invert)
    functions = Functions(
        name,
        lift,
        combine,
        lower,
        invert,
        state=_states(name, state),
        identity=_identity(name, identity, _states(name, state)),
        inputs=_inputs(name, inputs),
        commutative=yes_or_no(commutative, f"udaf {name!r}: commutative"),
        digest=digest(described(lift, combine, lower, invert)[0]),
    )
    check(functions)
    return Aggregate("udaf", user=functions)


def _name(name: object) -> str:
    if not isinstance(name, str) or not name:
        raise TypeError(f"udaf's name must be a string that is not empty; got {name!r}")
    return name


def _function(name: str, what: str, function: Any) -> FunctionType:
    found = getattr(function, "py_func", function)  # of njit
    if not isinstance(found, FunctionType):
        raise TypeError(f"udaf {name!r}: {what} must be a function written in Python (def or lambda); got {function!r}")
    try:
        return as_it_is(found)
    except ValueError:
        raise ValueError(f"udaf {name!r}: {what} uses a variable that has no value yet; set it before") from None


def _states(name: str, state: object) -> tuple[str, ...]:
    names = {float: "float64", int: "int64", bool: "bool"}
    given = [state] if isinstance(state, str | type) else state
    if not isinstance(given, list | tuple) or not given:
        raise TypeError(f"udaf {name!r}: state must be a list of 'float64', 'int64' or 'bool'; got {state!r}")
    found = [names.get(s, s) if isinstance(s, type) else str(s) for s in given]
    for s in found:
        if s not in STATES:
            raise TypeError(f"udaf {name!r}: state must be made of 'float64', 'int64' or 'bool'; got {s!r}")
    return tuple(map(str, found))


def _identity(name: str, identity: Any, state: tuple[str, ...]) -> tuple[float | int | bool, ...]:
    given = tuple(identity) if isinstance(identity, list | tuple) else (identity,)
    if len(given) != len(state) or not all(isinstance(v, int | float | np.number | np.bool_) for v in given):
        wanted = "one number" if len(state) == 1 else f"a tuple of {len(state)} numbers"
        raise TypeError(f"udaf {name!r}: identity must be {wanted}, as state={list(state)!r} says; got {identity!r}")
    casts: dict[str, Callable[[Any], Any]] = {"float64": float, "int64": int, "bool": bool}
    for s, v in zip(state, given, strict=True):
        if s == "int64" and not (v == v and -(2**63) <= v < 2**63):
            raise ValueError(f"udaf {name!r}: identity must fit its state, int64; got {v!r}")
    return tuple(casts[s](v) for s, v in zip(state, given, strict=True))


def _inputs(name: str, inputs: object) -> tuple[str, ...]:
    given = [inputs] if isinstance(inputs, str) else inputs
    if not isinstance(given, list | tuple) or not given:
        raise TypeError(f"udaf {name!r}: inputs must be a list of at least one column; got {inputs!r}")
    found = tuple(column_named(c, f"each of the inputs of udaf {name!r}") for c in given)
    twice = [column for column in found if found.count(column) > 1]
    if twice:
        raise ValueError(f"udaf {name!r}: inputs names column {twice[0]!r} twice; lift gets each column once")
    return found
