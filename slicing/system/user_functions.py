"""Users' functions: identified equally in any process, compiled once in each, and checked for the laws."""

from __future__ import annotations

import hashlib
import inspect
import math
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from functools import cached_property, partial
from itertools import pairwise, product
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
from numba import cloudpickle, njit, types

from slicing.kernels.disk import keep_users
from slicing.kernels.user import Kernels, compiled
from slicing.system.arrays import Ints

STATES = ("float64", "int64", "bool")
NUMBA_TYPES = {"float64": types.float64, "int64": types.int64, "bool": types.boolean}
_ARROW = {types.float64: pa.float64(), types.int64: pa.int64(), types.boolean: pa.bool_()}


@dataclass(frozen=True, eq=False)
class Functions:
    """The functions of a user. Equal if code and constants are; pickled with their code, to run in any process."""

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

    def __post_init__(self) -> None:
        _ = self._described  # now, as values around functions may change

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Functions) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[object, ...]:
        return self.name, self.made_from, repr(self.identity), self.state, self.inputs, self.commutative

    @cached_property
    def made_from(self) -> tuple[object, ...]:
        """What tells the code apart from others in this process; ``digest`` does in any process, as well as it can."""
        return self.digest, *self._described[1]

    @cached_property
    def _described(self) -> tuple[str, list[Doubt]]:
        return described(self.lift, self.combine, self.lower, self.invert)

    def check_unchanged(self) -> None:
        """Raise if something that is called has changed: code that is compiled now would not be what is described."""
        if described(self.lift, self.combine, self.lower, self.invert) != self._described:
            raise ValueError(
                f"udaf {self.name!r}: what its functions call, or a value in a module that they use, has changed since "
                "the aggregate was built; build it again"
            )

    def __reduce__(self) -> tuple[Any, ...]:
        given = (self.lift, self.combine, self.lower, self.invert)
        return _unpickled, (cloudpickle.dumps(given), self.name, self.digest, self.identity, *self._key()[3:])

    def __repr__(self) -> str:
        parts = [f"{name}={getattr(self, name).__qualname__}" for name in ("lift", "combine", "lower")]
        identity = self.identity if len(self.state) > 1 else self.identity[0]
        parts += [f"identity={identity!r}", f"state={list(self.state)!r}", f"inputs={list(self.inputs)!r}"]
        if self.invert is not None:
            parts.append(f"invert={self.invert.__qualname__}")
        return ", ".join([repr(self.name), *parts, f"commutative={self.commutative}"])

    @property
    def jitted(self) -> tuple[Any, Any, Any, Any]:
        """The compiled functions; kept on disk if everything that they are made from is known."""
        if self.made_from not in _JITTED:
            self.check_unchanged()
            parts = {what: getattr(self, what) for what in ("lift", "combine", "lower", "invert")}
            found = {what: None if f is None else njit(f, boundscheck=True) for what, f in parts.items()}
            if self.source is not None:
                for what, dispatcher in found.items():
                    if dispatcher is not None:
                        keep_users(dispatcher, what, self.source)
            _JITTED[self.made_from] = found["lift"], found["combine"], found["lower"], found["invert"]
        return _JITTED[self.made_from]

    @property
    def source(self) -> str | None:
        """What the code on disk is found by. None: it is compiled in each process."""
        text, doubts = self._described
        return None if doubts else text

    def kernels(self, forms: str) -> Kernels:
        """The kernels for the types of the inputs."""
        key = *self.made_from, self.state, forms
        if key not in _KERNELS:
            self.check_unchanged()
            _KERNELS[key] = compiled(*self.jitted, forms, self.state, self.source)
        return _KERNELS[key]

    def run(self, kernel: str, forms: str, *arguments: Any) -> None:
        """Run a loop of ``kernels``. If the user's functions fail on the data, the error names them."""
        try:
            getattr(self.kernels(forms), kernel)(*arguments)
        except (ArithmeticError, LookupError, ValueError) as error:
            raise ValueError(
                f"udaf {self.name!r}: {_CALLED[kernel]} cannot be computed of these rows: {error}; let it give a value "
                "there, such as math.nan, or leave such rows out with .where"
            ) from None

    @property
    def evicts(self) -> bool:
        """Whether what leaves a window is subtracted: with floats a rounding error would remain."""
        return self.invert is not None and self.commutative and "float64" not in self.state

    def states(self) -> Any:
        """The numba type of a state."""
        parts = [NUMBA_TYPES[s] for s in self.state]
        return parts[0] if len(parts) == 1 else types.Tuple(parts)

    def result(self) -> pa.DataType:
        """The type that ``lower`` returns."""
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


_CALLED = {  # by loop
    "scatter": "lift or combine",
    "merge": "combine",
    "fold": "lift or combine",
    "lowered": "lower",
    "slide": "combine or invert",
    "undone": "invert",
}

# Compiled and checked once in a process, however often a spec is built or unpickled.
_JITTED: dict[tuple[object, ...], tuple[Any, Any, Any, Any]] = {}
_KERNELS: dict[tuple[Any, ...], Kernels] = {}
_CHECKED: set[Functions] = set()


def _unpickled(
    code: bytes, name: str, digest: str, identity: Any, state: Any, inputs: Any, commutative: bool
) -> Functions:
    lift, combine, lower, invert = cloudpickle.loads(code)
    return Functions(name, lift, combine, lower, invert, identity, state, inputs, commutative, digest)


@dataclass(frozen=True, eq=False)
class Doubt:
    """An object that a description does not tell apart from others of its name. It equals no other object, and lives
    as long as a table has it: the place of an object that is gone may be another's."""

    value: object

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Doubt) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


def described(*functions: FunctionType | None) -> tuple[str, list[Doubt]]:
    """Everything that functions are compiled from, as a text that is equal in every process; and the objects that it
    does not tell apart, or that may change unnoticed: modules, objects of other libraries."""
    doubts: list[object] = []
    return "\n".join([_described(f, doubts) for f in functions]), [*map(Doubt, doubts)]


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


FOREVER_ALIKE = ("builtins", "cmath", "math", "numba", "numpy", "operator")  # with numba's version, which files have
_PLAIN = (bool, int, float, complex, str, bytes, np.generic, type(None))
# what compiled code takes of a module, besides compiled functions
_CONSTANT = (*_PLAIN, CodeType, tuple, frozenset, np.ndarray, np.dtype, Enum, types.Type, ModuleType)


def _described(value: object, doubts: list[object], within: tuple[object, ...] = (), used: Sequence[str] = ()) -> str:
    """A description of a value that is equal in every process: functions by their bytecode and what it refers to,
    modules and classes by the numbers and functions in them that the bytecode may have ``used``.

    Values that may be something else in another process are added to ``doubts``.
    """

    def inner(part: object) -> str:
        return _described(part, doubts, within, used)

    if isinstance(value, CodeType):
        return f"code({value.co_code.hex()}, {[*map(inner, value.co_consts)]}, {value.co_names}, {value.co_varnames})"
    function = value if isinstance(value, FunctionType | type) else getattr(value, "py_func", value)  # njit's
    if isinstance(function, FunctionType):
        return "itself" if function in within else _of_function(function, doubts, (*within, function))
    if isinstance(value, Enum):
        return f"{type(value).__qualname__}.{value.name}={inner(value.value)}"
    if isinstance(value, tuple):
        fields = getattr(value, "_fields", None)
        return f"{'' if fields is None else (type(value).__qualname__, fields)}({', '.join(map(inner, value))})"
    if isinstance(value, frozenset | set):
        return f"{{{sorted(map(repr, value))}}}"
    if isinstance(value, np.ndarray):
        return f"array({value.dtype}, {value.shape}, {hashlib.sha256(value.tobytes()).hexdigest()})"
    if isinstance(value, _PLAIN):
        return repr(value)
    if isinstance(value, np.dtype | types.Type):
        return f"type {value}"
    if isinstance(value, type) and issubclass(value, Enum):
        return f"{value.__qualname__}{[*map(inner, value)]}"
    module = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None) or ""
    name = _name_of(value)
    alike = str(module).partition(".")[0] in FOREVER_ALIKE and hasattr(value, "__name__")
    if vars(np).get(name) is value or (alike and not isinstance(value, np.ufunc)):  # anybody may make a ufunc
        return name
    doubts.append(value)
    wrapped = getattr(value, "__wrapped__", None)
    if isinstance(wrapped, FunctionType) and not isinstance(value, type):  # of vectorize or cfunc
        return f"{name}({inner(wrapped)})"
    if not isinstance(value, ModuleType | type) or any(value is other for other in within):
        return name
    within = (*within, value)
    known: dict[str, object] = {}
    for owner in [value] if isinstance(value, ModuleType) else reversed(value.__mro__):
        known |= {attribute: vars(owner)[attribute] for attribute in used if attribute in vars(owner)}
    parts = []
    for attribute, part in known.items():
        of = part.__code__ if isinstance(part, FunctionType) else part  # not what it uses, which may be a whole library
        if isinstance(of, _CONSTANT) or hasattr(of, "py_func"):
            parts.append(f".{attribute}={inner(of)}")
    return f"{name}{''.join(parts)}"


def _name_of(value: object) -> str:
    """The name of a function, a class or a module; for other values that of their class."""
    names = [getattr(value, name, None) for name in ("__qualname__", "__name__")]
    names = names[1:] if isinstance(value, ModuleType) else names  # ufuncs have only the second one before numpy 2.2
    return next((name for name in names if isinstance(name, str)), type(value).__qualname__)


def _of_function(function: FunctionType, doubts: list[object], within: tuple[object, ...]) -> str:
    """A function by its code, the globals and the variables around it that the code may use, and its defaults."""
    code, closure = function.__code__, function.__closure__ or ()
    used = _names(code)

    def inner(part: object) -> str:
        return _described(part, doubts, within, used)

    known = [f"{n}={inner(function.__globals__[n])}" for n in used if n in function.__globals__]
    cells = [inner(cell.cell_contents) for cell in closure]
    defaults, others = function.__defaults__, function.__kwdefaults__ or {}
    told = repr(defaults) if all(isinstance(value, _PLAIN) for value in defaults or ()) else inner(defaults)
    told += "".join(f", {name}={inner(value)}" for name, value in others.items())
    return f"function({inner(code)}, {known}, {cells}, {told})"


def _names(code: CodeType) -> list[str]:
    """Every global name that the code may use, including functions inside of it."""
    inner = [c for c in code.co_consts if isinstance(c, CodeType)]
    return sorted({*code.co_names, *(name for c in inner for name in _names(c))})


def as_it_is(function: FunctionType) -> FunctionType:
    """A copy of a function, with the values that it uses now.

    A function is compiled for each type of column when the first one comes. Without a copy, it would use what a
    variable around it has become: the last value of a loop, or what a notebook has set since.
    """
    known, names = function.__globals__, _names(function.__code__)
    used = {name: _copied(known[name]) for name in names if name in known}
    around = [_copied(cell.cell_contents) for cell in function.__closure__ or ()]
    for module in (value for value in (*used.values(), *around) if isinstance(value, ModuleType)):
        for name in names:
            with suppress(Exception):
                getattr(module, name)  # some modules load a part of them then
    used |= {name: known[name] for name in ("__builtins__", "__name__") if name in known}
    cells = tuple(map(CellType, around))
    copy = FunctionType(function.__code__, used, function.__name__, function.__defaults__, cells)
    copy.__qualname__, copy.__module__, copy.__doc__ = function.__qualname__, function.__module__, function.__doc__
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


def _copied(value: Any) -> Any:
    """What may be changed in place, copied; another value as it is."""
    return value.copy(order="K") if type(value) is np.ndarray else value


def check(f: Functions) -> None:
    """Raise if functions have the wrong arguments, do not compile, or break a law on sample rows."""
    if f not in _CHECKED:
        _check_arity(f)
        _check_compiles(f)
        _check_samples(f)
        _CHECKED.add(f)


def _check_arity(f: Functions) -> None:
    takes = {"lift": f.inputs, "combine": ("a", "b"), "lower": ("state",), "invert": ("a", "b")}
    for what, arguments in takes.items():
        function = getattr(f, what)
        if function is None:
            continue
        parameters = inspect.signature(function).parameters.values()
        by_place = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        if len(parameters) != len(arguments) or not all(one.kind in by_place for one in parameters):
            raise TypeError(
                f"udaf {f.name!r}: {what} must take {len(arguments)} argument{'s' * (len(arguments) > 1)} "
                f"({', '.join(arguments)}); its own are {inspect.signature(function)}. Other values come from "
                "variables around the function"
            )


def _returned(f: Functions, what: str, function: Any, arguments: tuple[Any, ...]) -> Any:
    """Compile a function; returns its result type."""
    fresh = arguments not in function.overloads
    if fresh:
        f.check_unchanged()
    try:
        if fresh:
            function.compile(arguments)
    except Exception as error:
        plain = re.sub("\x1b\\[[0-9;]*m", "", str(error))  # numba's colours
        lines = [line.strip().lstrip("-> ") for line in plain.splitlines() if line.strip()]
        told = [line for line in lines if not line.startswith("Failed in")] or [type(error).__name__]
        headings = next((at for at, line in enumerate(told[:4]) if not line.endswith(":")), 0)
        about = " ".join(told[: headings + 1]).partition(" Raised from ")[0].rstrip(".")
        raise TypeError(
            f"udaf {f.name!r}: {what} cannot be compiled for {', '.join(map(str, arguments))}: {about}; functions may "
            "use numbers, tuples, math and numpy"
        ) from None
    return function.overloads[arguments].signature.return_type


def _check_compiles(f: Functions) -> None:
    states = f.states()
    try:
        lift_takes(f, "f" * len(f.inputs))
    except TypeError:
        lift_takes(f, "i" * len(f.inputs))  # bits and remainders need integers
    _check_states(f, "combine", _returned(f, "combine", f.jitted[1], (states, states)))
    f.result()
    if f.invert is not None:
        _check_states(f, "invert", _returned(f, "invert", f.jitted[3], (states, states)))


def lift_takes(f: Functions, forms: str) -> None:
    """Raise unless lift can take columns of these types."""
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
    """Check the laws that the library relies on, with the states of a few rows."""
    forms = "f" * len(f.inputs)
    try:
        lift_takes(f, forms)
        rows: list[tuple[Any, ...]] = [tuple(_SAMPLES[(i + k) % 4] for k in range(len(forms))) for i in range(4)]
    except TypeError:
        forms = "i" * len(f.inputs)
        rows = [tuple(3 * i + 2 * k + 1 for k in range(len(forms))) for i in range(4)]
    kernels = f.kernels(forms)
    try:
        lifted = _lifted(kernels, rows)
        samples = [*lifted, *(kernels.combined(a, b) for a, b in pairwise(lifted[:2]))]
        broken = _broken_law(f, kernels.combined, samples)
    except (ArithmeticError, LookupError, ValueError) as error:
        raise ValueError(f"udaf {f.name!r} fails on the sample rows {rows}: {error}") from None
    if broken is not None:
        raise ValueError(f"udaf {f.name!r}: {broken}")


def _lifted(kernels: Kernels, rows: Sequence[tuple[Any, ...]]) -> list[Any]:
    """The states of rows; without rows that a table of the user's does not have."""
    found = []
    for row in rows:
        with suppress(LookupError):
            found.append(kernels.lifted(*row))
    return found


def _broken_law(f: Functions, combine: Callable[[Any, Any], Any], samples: Sequence[Any]) -> str | None:
    """Which law these states break; None if none."""
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
    """Whether two states are equal within rounding."""
    pairs = zip(a, b, strict=True) if isinstance(a, tuple) else [(a, b)]
    close = partial(math.isclose, rel_tol=1e-9, abs_tol=1e-9)
    return all(close(x, y) or (math.isnan(x) and math.isnan(y)) for x, y in pairs)
