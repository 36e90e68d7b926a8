"""Functions as text: everything that they are compiled from, described equally in any process."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
from numba import types

FOREVER_ALIKE = ("builtins", "cmath", "math", "numba", "numpy", "operator")  # with numba's version, which files have
_PLAIN = (bool, int, float, complex, str, bytes, np.generic, type(None))
# what compiled code takes of a module, besides compiled functions
_CONSTANT = (*_PLAIN, CodeType, tuple, frozenset, np.ndarray, np.dtype, Enum, types.Type, ModuleType)


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
