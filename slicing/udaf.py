"""User-defined aggregates: lift, combine and lower as plain Python functions, compiled with the library's loops.

A commutative aggregate keeps one partial a slice: a count and its states, combined like any other (``UserWords``). One
that is not keeps the rows of a slice in order (``blocks.in_order``): each slice is folded when it is asked for, and the
windows combine slices; only where slices interleave in time are the rows of a window put in order and folded anew.
"""

from __future__ import annotations

import hashlib
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numba import cloudpickle, njit, types

from slicing.aggs import Aggregate, BoundAggregate, Feed, Lane, Lowered, Pools, _column, define
from slicing.blocks import Block, Lifting, Lists, Picked, in_order, rows_of
from slicing.kernels.strategies import STRATEGIES, Combinations
from slicing.kernels.user import Kernels, compiled
from slicing.values import DECIMAL, FLOAT, NUMERIC, TIME, UNSIGNED, ValueType, word_floats

Ints = npt.NDArray[np.int64]

STATES = ("float64", "int64", "bool")
_NUMBA = {"float64": types.float64, "int64": types.int64, "bool": types.boolean}
_ARROW = {types.float64: pa.float64(), types.int64: pa.int64(), types.boolean: pa.bool_()}


# --- the functions ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Functions:
    """What a user gave. Equal where code and constants are; pickled with its code, so that any process can run it."""

    name: str
    lift: FunctionType
    combine: FunctionType
    lower: FunctionType
    invert: FunctionType | None
    identity: tuple[float | int | bool, ...]
    state: tuple[str, ...]
    inputs: tuple[str, ...]
    commutative: bool
    digest: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Functions) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[object, ...]:
        return self.name, self.digest, repr(self.identity), self.state, self.inputs, self.commutative

    def __reduce__(self) -> tuple[Any, ...]:
        given = (self.lift, self.combine, self.lower, self.invert)
        return _unpickled, (cloudpickle.dumps(given), self.name, *self._key()[1:2], self.identity, *self._key()[3:])

    def __repr__(self) -> str:
        parts = [f"{name}={getattr(self, name).__qualname__}" for name in ("lift", "combine", "lower")]
        identity = self.identity if len(self.state) > 1 else self.identity[0]
        parts += [f"identity={identity!r}", f"state={list(self.state)!r}", f"inputs={list(self.inputs)!r}"]
        if self.invert is not None:
            parts.append(f"invert={self.invert.__qualname__}")
        return ", ".join([repr(self.name), *parts, f"commutative={self.commutative}"])

    @property
    def jitted(self) -> tuple[Any, Any, Any]:
        if self.digest not in _JITTED:
            _JITTED[self.digest] = njit(self.lift), njit(self.combine), njit(self.lower)
        return _JITTED[self.digest]

    def kernels(self, forms: str) -> Kernels:
        """Compiled once a process for the types of its inputs."""
        key = self.digest, self.state, forms
        if key not in _KERNELS:
            _KERNELS[key] = compiled(*self.jitted, forms, self.state)
        return _KERNELS[key]

    def states(self) -> Any:
        """The type of a state, as numba has it."""
        parts = [_NUMBA[s] for s in self.state]
        return parts[0] if len(parts) == 1 else types.Tuple(parts)

    def result(self) -> pa.DataType:
        """The type that ``lower`` gives."""
        found = _returned(self, "lower", self.jitted[2], (self.states(),))
        if isinstance(found, types.Integer):
            found = types.int64
        if isinstance(found, types.Float):
            found = types.float64
        if found not in _ARROW:
            raise TypeError(f"udaf {self.name!r}: lower must give a float, an integer or a bool; it gives {found}")
        return _ARROW[found]

    def empty(self, size: int) -> Ints:
        """Partials of no rows."""
        block = np.zeros((size, 1 + len(self.state)), np.int64)
        for k, (state, value) in enumerate(zip(self.state, self.identity, strict=True)):
            (block.view(np.float64) if state == "float64" else block)[:, k + 1] = value
        return block


# Compiled and checked once a process, however often a spec is built or unpickled.
_JITTED: dict[str, tuple[Any, Any, Any]] = {}
_KERNELS: dict[tuple[Any, ...], Kernels] = {}
_CHECKED: set[Functions] = set()


def _unpickled(
    code: bytes, name: str, digest: str, identity: Any, state: Any, inputs: Any, commutative: bool
) -> Functions:
    lift, combine, lower, invert = cloudpickle.loads(code)
    return Functions(name, lift, combine, lower, invert, identity, state, inputs, commutative, digest)


def _digest(*functions: FunctionType | None) -> str:
    return hashlib.sha256("\n".join(map(_described, functions)).encode()).hexdigest()[:16]


def _described(value: object, within: tuple[object, ...] = ()) -> str:
    """A value by what it is, alike in every process: functions by their bytecode and what it refers to."""
    if isinstance(value, CodeType):
        constants = [_described(c, within) for c in value.co_consts]
        return f"code({value.co_code.hex()}, {constants}, {value.co_names}, {value.co_varnames})"
    function = getattr(value, "py_func", value)
    if isinstance(function, FunctionType):
        if function in within:
            return "itself"
        within = (*within, function)
        code, closure = function.__code__, function.__closure__ or ()
        known = [
            f"{n}={_described(function.__globals__[n], within)}" for n in _names(code) if n in function.__globals__
        ]
        cells = [_described(cell.cell_contents, within) for cell in closure]
        return f"function({_described(code, within)}, {known}, {cells}, {function.__defaults__!r})"
    if isinstance(value, ModuleType):
        return value.__name__
    if isinstance(value, frozenset | set):
        return f"{{{sorted(map(repr, value))}}}"
    if isinstance(value, np.ndarray):
        return f"array({value.dtype}, {value.tobytes().hex()})"
    if value is None or isinstance(value, bool | int | float | complex | str | bytes | tuple | np.generic):
        return repr(value)
    return getattr(value, "__qualname__", type(value).__qualname__)


def _names(code: CodeType) -> list[str]:
    """Every global a code may refer to, that of functions within it too."""
    inner = [c for c in code.co_consts if isinstance(c, CodeType)]
    return sorted({*code.co_names, *(name for c in inner for name in _names(c))})


# --- blocks -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class UserWords:
    """Partials of a commutative aggregate: a count and its states."""

    functions: Functions
    forms: str

    def identity(self, lane: Lane, size: int) -> Ints:
        return self.functions.empty(size)

    def lifted(self, lane: Lane, rows: Lifting) -> Ints:
        block = self.functions.empty(rows.cells)
        kernels = self.functions.kernels(self.forms)
        kernels.scatter(rows.cell(), rows.valid, *rows.feeds, block, block.view(np.float64))
        return block

    def merged(self, lane: Lane, into: Ints, size: int, older: Ints, newer: Ints) -> Ints:
        block, every, split = self.functions.empty(size), np.arange(into.size), len(older)
        self.combine(into[:split], every[:split], block, older)
        self.combine(into[split:], every[: into.size - split], block, newer)
        return block

    def answered(
        self, lane: Lane, block: Ints, first: Ints, last: Ints, combinations: Callable[[], Combinations]
    ) -> Ints:
        return self.ranges(block, combinations())

    def ranges(self, block: Ints, plan: Combinations) -> Ints:
        """As the combinations say, each in the order of the cells."""
        partials = block
        if plan.scratch is not None:
            partials = np.concatenate([block, block.take(plan.scratch, axis=0), self.functions.empty(1)])
            self.combine(plan.into, plan.source, partials, partials, ordered=True)
        answer = partials.take(plan.seed, axis=0)
        self.combine(plan.more, plan.rest, answer, partials)
        return answer

    def combine(self, into: Ints, source: Ints, out: Ints, cells: Ints, ordered: bool = False) -> None:
        floats = out.view(np.float64), cells.view(np.float64)
        self.functions.kernels(self.forms).merge(into, source, ordered, out, floats[0], cells, floats[1])


def _folded(kind: UserWords, rows: Lists, keyed: Sequence[bool]) -> Ints:
    """The rows of each list, combined in their order."""
    block = kind.functions.empty(len(rows))
    items = np.ascontiguousarray(rows.items)
    for k, is_key in enumerate(keyed):
        if is_key:
            items = items.copy() if items is rows.items else items
            items[:, 3 + k] = word_floats(np.ascontiguousarray(items[:, 3 + k])).view(np.int64)
    kernels = kind.functions.kernels(kind.forms)
    kernels.fold(rows.at, items, items.view(np.float64), block, block.view(np.float64))
    return block


def _in_turn(kind: UserWords, picked: Picked, keyed: Sequence[bool]) -> Ints:
    """The answer of each window: its slices combined in their order, or its rows where these interleave."""
    from slicing.emit import choose

    lists = picked.lists.whole()
    late = np.append(0, np.cumsum(_begins_too_early(lists)))
    inner = np.minimum(picked.first + 1, picked.last)
    tangled = late[picked.last] > late[inner]
    answer = kind.functions.empty(len(picked))
    some = np.flatnonzero(tangled)
    if some.size:
        answer[some] = _folded(kind, rows_of(picked[some], in_order(len(keyed))), keyed)
    rest = np.flatnonzero(~tangled & (picked.last > picked.first))
    first, last = picked.first[rest], picked.last[rest]
    order = np.lexsort((last, first, np.frexp((last - first).astype(np.float64))[1]))
    first, last = first[order], last[order]
    strategy: Callable[[Ints, Ints, int], Combinations] = STRATEGIES[choose(first, last, len(lists))]
    answer[rest[order]] = kind.ranges(_folded(kind, lists, keyed), strategy(first, last, len(lists)))
    return answer


def _begins_too_early(lists: Lists) -> npt.NDArray[np.bool_]:
    """Whether a cell's first row comes before the last one of the cells before it (empty ones aside)."""
    early = np.zeros(len(lists), np.bool_)
    held = np.flatnonzero(lists.at[1:] > lists.at[:-1])
    first, last = lists.items[lists.at[held]][1:], lists.items[lists.at[held + 1] - 1][:-1]
    before, same = np.zeros(len(first), np.bool_), np.ones(len(first), np.bool_)
    for a, b in zip(first.T, last.T, strict=True):
        before |= same & (a < b)
        same &= a == b
    early[held[1:]] = before
    return early


# --- the definition ---------------------------------------------------------------------------------------------------


def _bind(agg: Aggregate, value: ValueType, columns: Mapping[str, pa.DataType]) -> BoundAggregate:
    functions: Functions = agg.user
    values = {name: ValueType.of(columns[name], name) for name in functions.inputs}
    for name, found in values.items():
        if found.family not in (*NUMERIC, TIME):
            raise TypeError(
                f"{agg!r}: column {name!r} has type {columns[name]}; udaf takes numbers, booleans and times"
            )
    floats = [found.family in (FLOAT, DECIMAL) for found in values.values()]
    forms = "".join("f" if is_float else "i" for is_float in floats)
    _lift_takes(functions, forms)
    kind = UserWords(functions, forms)

    def lowered(block: Ints) -> Lowered:
        type = functions.result()
        out = np.zeros(len(block), type.to_pandas_dtype())
        functions.kernels(forms).lowered(block, block.view(np.float64), out)
        empty = block[:, 0] == 0
        return Lowered(pa.array(out, mask=empty if empty.any() else None), None)

    integer = ["unsigned" if found.family == UNSIGNED else "int" for found in values.values()]
    plain = ["float" if is_float else form for is_float, form in zip(floats, integer, strict=True)]
    if functions.commutative:
        feeds = tuple(Feed(name, form) for name, form in zip(values, plain, strict=True))
        return BoundAggregate((Lane(kind, feeds, agg.flag),), functions.result(), lambda b, pools: lowered(b[0]))
    # as words that order as the values do, where there is no arrival to order rows of one time by
    keyed = [found.family == FLOAT for found in values.values()]
    feeds = tuple(Feed(name, "word" if k else form) for name, form, k in zip(values, plain, keyed, strict=True))

    def lower(b: list[Block], pools: Pools) -> Lowered:
        return lowered(_in_turn(kind, Picked.of(b[0]), keyed))

    return BoundAggregate((Lane(in_order(len(feeds)), feeds, agg.flag),), functions.result(), lower)


define("udaf", (), _bind)


# --- the public constructor, and what it refuses --------------------------------------------------------------------


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

    ``lift(*values)``
        the state of one row, from its values of the columns ``inputs`` (floats and decimals as float64, integers,
        booleans and times as int64). Rows where one of them is null are left out.
    ``combine(a, b)``
        one state from two; it must be associative, and ``identity`` must leave the other as it is.
    ``lower(state)``
        the answer: a float, an integer or a bool.

    ``state`` lists what a state is made of ('float64', 'int64', 'bool'): with one entry a plain value, with several a
    tuple. With ``commutative=False`` rows and states are combined in the order of (time, sequence, arrival), however
    they arrive; that keeps the rows of open windows. ``invert(combine(a, b), b)`` gives ``a`` back; it is checked, and
    kept for later use.

    Functions may use what numba compiles: numbers, tuples, math, numpy. Wrong ones are refused here.
    """
    functions = Functions(
        name=_name(name),
        **{what: _function(name, what, f) for what, f in (("lift", lift), ("combine", combine), ("lower", lower))},
        invert=None if invert is None else _function(name, "invert", invert),
        state=_states(name, state),
        identity=_identity(name, identity, _states(name, state)),
        inputs=_inputs(name, inputs),
        commutative=_flag(name, commutative),
        digest=_digest(*map(_plain, (lift, combine, lower, invert))),
    )
    if functions not in _CHECKED:
        _check_arity(functions)
        _check_compiles(functions)
        _check_samples(functions)
        _CHECKED.add(functions)
    return Aggregate("udaf", user=functions)


def _plain(function: Any) -> Any:
    return getattr(function, "py_func", function)


def _name(name: object) -> str:
    if not isinstance(name, str) or not name:
        raise TypeError(f"udaf's name must be a string that is not empty; got {name!r}")
    return name


def _function(name: str, what: str, function: Any) -> FunctionType:
    found = _plain(function)
    if not isinstance(found, FunctionType):
        raise TypeError(f"udaf {name!r}: {what} must be a function written in Python (def or lambda); got {function!r}")
    return found


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
    return tuple(casts[s](v) for s, v in zip(state, given, strict=True))


def _inputs(name: str, inputs: object) -> tuple[str, ...]:
    given = [inputs] if isinstance(inputs, str) else inputs
    if not isinstance(given, list | tuple) or not given:
        raise TypeError(f"udaf {name!r}: inputs must be a list of at least one column; got {inputs!r}")
    return tuple(_column(c, f"each of the inputs of udaf {name!r}") for c in given)


def _flag(name: str, commutative: object) -> bool:
    if not isinstance(commutative, bool):
        raise TypeError(f"udaf {name!r}: commutative must be True or False; got {commutative!r}")
    return commutative


def _check_arity(f: Functions) -> None:
    takes = {"lift": f.inputs, "combine": ("a", "b"), "lower": ("state",), "invert": ("a", "b")}
    for what, arguments in takes.items():
        function = getattr(f, what)
        if function is None:
            continue
        try:
            inspect.signature(function).bind(*arguments)
        except TypeError:
            raise TypeError(
                f"udaf {f.name!r}: {what} must take {len(arguments)} argument{'s' * (len(arguments) > 1)} "
                f"({', '.join(arguments)}); its own are {inspect.signature(function)}"
            ) from None


def _returned(f: Functions, what: str, function: Any, arguments: tuple[Any, ...]) -> Any:
    """Compile; the type of what comes back."""
    try:
        if arguments not in function.overloads:
            function.compile(arguments)
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        about = next((line for line in lines if not line.startswith("Failed in")), type(error).__name__)
        raise TypeError(
            f"udaf {f.name!r}: {what} cannot be compiled for {', '.join(map(str, arguments))}: {about}; functions may "
            "use numbers, tuples, math and numpy"
        ) from None
    return function.overloads[arguments].signature.return_type


def _check_compiles(f: Functions) -> None:
    states = f.states()
    try:
        _lift_takes(f, "f" * len(f.inputs))
    except TypeError:
        _lift_takes(f, "i" * len(f.inputs))  # bits and remainders are for integers only
    _check_states(f, "combine", _returned(f, "combine", f.jitted[1], (states, states)))
    f.result()
    if f.invert is not None:
        _check_states(f, "invert", _returned(f, "invert", njit(f.invert), (states, states)))


def _lift_takes(f: Functions, forms: str) -> None:
    """Whether lift can take columns of these types."""
    arguments = tuple(types.float64 if form == "f" else types.int64 for form in forms)
    _check_states(f, "lift", _returned(f, "lift", f.jitted[0], arguments))


def _check_states(f: Functions, what: str, found: Any) -> None:
    parts = list(found) if isinstance(found, types.BaseTuple) else [found]
    wanted = ", ".join(f.state)
    if len(parts) != len(f.state):
        raise TypeError(f"udaf {f.name!r}: {what} must give a state ({wanted}); it gives {found}")
    for part, state in zip(parts, f.state, strict=True):
        whole = isinstance(part, types.Integer | types.Boolean)
        if not (whole or (state == "float64" and isinstance(part, types.Float))):
            raise TypeError(f"udaf {f.name!r}: {what} must give a state ({wanted}); it gives {found}")


_SAMPLES = (1.5, 2.0, 0.25, 7.0)


def _check_samples(f: Functions) -> None:
    """Laws that the library relies on, tried on the states of a few rows."""
    forms = "f" * len(f.inputs)
    try:
        _lift_takes(f, forms)
        rows: list[tuple[Any, ...]] = [tuple(_SAMPLES[(i + k) % 4] for k in range(len(forms))) for i in range(4)]
    except TypeError:
        forms = "i" * len(f.inputs)
        rows = [tuple(3 * i + 2 * k + 1 for k in range(len(forms))) for i in range(4)]
    kernels = f.kernels(forms)
    try:
        lifted = [kernels.lifted(*row) for row in rows]
        samples = [*lifted, kernels.combined(lifted[0], lifted[1])]
        broken = _broken_law(f, kernels.combined, samples)
    except (ArithmeticError, ValueError) as error:
        raise ValueError(f"udaf {f.name!r} fails on the sample rows {rows}: {error}") from None
    if broken is not None:
        raise ValueError(f"udaf {f.name!r}: {broken}")


def _broken_law(f: Functions, combine: Callable[[Any, Any], Any], samples: Sequence[Any]) -> str | None:
    """What is wrong with these states, if anything."""
    identity = f.identity if len(f.state) > 1 else f.identity[0]
    for a in samples:
        for way, found in (("identity, a", combine(identity, a)), ("a, identity", combine(a, identity))):
            if not _alike(found, a):
                return f"identity must leave a state as it is; for a = {a}, combine({way}) gives {found}"
    for a, b, c in product(samples, repeat=3):
        left, right = combine(combine(a, b), c), combine(a, combine(b, c))
        if not _alike(left, right):
            return (
                f"combine must be associative; for a, b, c = {a}, {b}, {c}, combine(combine(a, b), c) gives {left} and "
                f"combine(a, combine(b, c)) gives {right}"
            )
    for a, b in product(samples, repeat=2):
        both, back = combine(a, b), combine(b, a)
        if f.commutative and not _alike(both, back):
            return (
                f"combine is not commutative: for a, b = {a}, {b}, combine(a, b) gives {both} and combine(b, a) gives "
                f"{back}; with commutative=False rows come in order"
            )
        if f.invert is not None and not _alike(f.invert(both, b), a):
            return f"invert must undo combine; for a, b = {a}, {b}, invert(combine(a, b), b) gives {f.invert(both, b)}"
    return None


def _alike(a: Any, b: Any) -> bool:
    """Within rounding."""
    pairs = zip(a, b, strict=True) if isinstance(a, tuple) else [(a, b)]
    close = partial(math.isclose, rel_tol=1e-9, abs_tol=1e-9)
    return all(close(x, y) or (math.isnan(x) and math.isnan(y)) for x, y in pairs)
