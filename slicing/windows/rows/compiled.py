"""A user's window as a kernel: whether its methods compile, the contexts of all keys, and the walk over rows."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numba import njit, typeof, types
from numba.core.errors import NumbaError

from slicing.columns.row_values import in_form, number_form
from slicing.kernels import walk
from slicing.system.arrays import Array, Ints
from slicing.system.code_text import described, digest
from slicing.system.lazy import lazy
from slicing.system.user_functions import NUMBA_TYPES
from slicing.windows.bounds import FOREVER
from slicing.windows.rows.row_view import Context, Opened, View

_FORMS = {"f8": types.float64, "i8": types.int64, "?": types.boolean}
METHODS = ("see", "deadline", "expired")
NOT_OPEN = -1


class Methods(NamedTuple):
    """The compiled methods of a user's window, and which of them return the end of a window."""

    jitted: dict[str, Any]
    ends: dict[str, bool]


class Walked(NamedTuple):
    """The result of showing rows to a window: the windows found, and the new context of each group."""

    window: CompiledWindow
    found: Ints  # group, first, last, start, end, closes
    words: Ints
    by: Ints  # the rank of the row that opened the open window, or NOT_OPEN
    at: Ints  # the start of the open window
    needed: Ints  # the first row of the open window, or the first row that was not shown
    wakes: Ints  # the deadline of each group

    def closed(self) -> Ints:
        """The groups whose windows closed."""
        return self.found[:, 0]

    def windows(self, view: View, unfinished: Ints) -> Ints:
        """All windows found, and the windows that are still open in the groups ``unfinished``."""
        rest = unfinished[self.by[unfinished] != NOT_OPEN]
        if not rest.size:
            return self.found
        last = view.last[rest]
        closes = np.full(rest.size, FOREVER)
        return np.append(
            self.found, np.stack([rest, self.needed[rest], last, self.at[rest], view.time[last - 1], closes], axis=1), 0
        )

    def contexts(self, view: View, before: Mapping[int, Context]) -> Contexts:
        """The contexts of all keys. A key with several groups has that of its first group that goes on.

        Contexts that equal the first one are left out."""
        going = np.flatnonzero(~view.over)
        code, first = np.unique(view.rows.code[view.first[going]], return_index=True)
        group = going[first]
        some = (self.words[group] != self.window.first).any(axis=1) | (self.by[group] != NOT_OPEN)
        code, group = code[some], group[some]
        found = Contexts(self.window, code, self.words[group], self.by[group], self.at[group])
        return Contexts.of(self.window, before).updated(view.rows.code[view.first], found)


@dataclass(frozen=True, eq=False)
class CompiledWindow:
    """A window whose methods compile."""

    me: Any  # the numbers among its attributes, as a named tuple
    methods: Methods
    key: tuple[Any, ...]
    states: tuple[str, ...]
    single: bool
    start: tuple[float | int | bool, ...]
    columns: tuple[tuple[str, pa.DataType], ...]

    def walk(self, view: View, before: Mapping[int, Context], values: Sequence[int], until: int) -> Walked | None:
        """Show all rows before ``until``; None if the window does something that is not allowed."""
        size = view.first.size
        words, by, at = self._remembered(view, before)
        seen = self._values(view, values)
        nullable = tuple(not ok.all() for ok in seen[1::2])
        kernel = self._kernel(nullable)
        if kernel is None:
            return None
        needed, wakes = np.empty((2, size), np.int64)
        rows = (view.bounds, np.ascontiguousarray(view.time), view.rank)
        room = size + 64
        while True:
            found, kept = np.empty((room, 6), np.int64), (words.copy(), by.copy(), at.copy())
            last = (kept[0], kept[0].view(np.float64), kept[1], kept[2], found, needed, wakes)
            try:
                n = kernel(self.me, *rows, view.settled, until, view.over, *seen, *last)
            except NumbaError:
                _KERNELS[self._key(nullable)] = None
                return None
            except (ArithmeticError, LookupError, ValueError, TypeError):  # raised by the user's method
                return None
            if n < 0:
                return None
            if n <= room:
                return Walked(self, found[:n], *kept, needed, wakes)
            room = n

    def _values(self, view: View, values: Sequence[int]) -> list[Array]:
        out: list[Array] = []
        for at, (_, type) in zip(values, self.columns, strict=True):
            column = in_form(view.rows.values[at], number_form(type), type)
            out += [np.ascontiguousarray(column["value"]), np.ascontiguousarray(column["valid"])]
        return out

    def _remembered(self, view: View, before: Mapping[int, Context]) -> tuple[Ints, Ints, Ints]:
        """The context of each group: for the first group of a key, the one that is kept for the key."""
        size, code = view.first.size, view.rows.code[view.first]
        words = np.tile(self.first, (size, 1))
        by, at = np.full(size, NOT_OPEN), np.zeros(size, np.int64)
        if before and size:
            table = Contexts.of(self, before)
            begins = np.flatnonzero(view.goes_on)
            place = np.minimum(np.searchsorted(table.code, code[begins]), table.code.size - 1)
            known = table.code[place] == code[begins]
            group, place = begins[known], place[known]
            words[group], by[group], at[group] = table.words[place], table.by[place], table.at[place]
        return words, by, at

    def as_words(self, values: Sequence[float | int | bool]) -> Ints:
        words = np.zeros(len(self.states), np.int64)
        for k, (state, value) in enumerate(zip(self.states, values, strict=True)):
            (words.view(np.float64) if state == "float64" else words)[k] = value
        return words

    @lazy
    def first(self) -> Ints:
        """The context of a key before its first row."""
        return self.as_words(self.start)

    def value(self, words: Ints) -> Any:
        """A context in the form in which the window's methods take it."""
        floats = words.view(np.float64).tolist()
        read = {"float64": floats, "int64": words.tolist(), "bool": (words != 0).tolist()}
        parts = tuple(read[state][k] for k, state in enumerate(self.states))
        return parts[0] if self.single else parts

    def _key(self, nullable: tuple[bool, ...]) -> tuple[Any, ...]:
        return *self.key, repr(self.start), nullable

    def _kernel(self, nullable: tuple[bool, ...]) -> Callable[..., int] | None:
        key = self._key(nullable)
        if key not in _KERNELS:
            methods = self.methods
            _KERNELS[key] = walk.compiled(methods.jitted, self.states, self.single, methods.ends, self.start, nullable)
        return _KERNELS[key]


_KERNELS: dict[Any, Callable[..., int] | None] = {}


@dataclass(frozen=True, eq=False)
class Contexts(Mapping[int, Context]):
    """The contexts of a compiled window by key, as columns in the order of the codes."""

    window: CompiledWindow
    code: Ints
    words: Ints
    by: Ints
    at: Ints

    @staticmethod
    def of(window: CompiledWindow, known: Mapping[int, Context]) -> Contexts:
        """From a mapping with one context per code, as in a snapshot."""
        if isinstance(known, Contexts):
            return known
        codes = sorted(known)
        words = np.zeros((len(codes), len(window.states)), np.int64)
        by, at = np.full(len(codes), NOT_OPEN), np.zeros(len(codes), np.int64)
        for k, code in enumerate(codes):
            value, opened = known[code]
            words[k] = window.as_words((value,) if window.single else value)
            for o in opened:
                by[k], at[k] = o.rank, o.start
        return Contexts(window, np.array(codes, np.int64), words, by, at)

    def __len__(self) -> int:
        return self.code.size

    def __iter__(self) -> Iterator[int]:
        return iter(self.code.tolist())

    def __getitem__(self, code: int) -> Context:
        k = int(np.searchsorted(self.code, code))
        if k == self.code.size or self.code[k] != code:
            raise KeyError(code)
        opened = (Opened(0, int(self.at[k]), int(self.by[k])),) if self.by[k] != NOT_OPEN else ()
        return Context(self.window.value(self.words[k]), opened)

    def updated(self, seen: Ints, newer: Contexts) -> Contexts:
        """These contexts with those of the keys ``seen`` replaced by ``newer``."""
        quiet = ~np.isin(self.code, seen)
        code = np.append(self.code[quiet], newer.code)
        order = np.argsort(code)

        def column(name: str) -> Ints:
            both: Ints = np.concatenate([getattr(self, name)[quiet], getattr(newer, name)])[order]
            return both

        return Contexts(self.window, code[order], column("words"), column("by"), column("at"))


def compiled_window(window: Any, base: type, columns: Sequence[tuple[str, pa.DataType]]) -> CompiledWindow | str:
    """The compiled window, or the reason why it runs in plain Python. A process tries to compile each window once."""
    for name, type_ in columns:
        if number_form(type_) is None:
            return f"column {name!r} of type {type_} is no number that a compiled method takes"
    start = window.start()
    single = not isinstance(start, tuple)
    parts = (start,) if single else start
    if not parts or not all(isinstance(p, bool | int | float) for p in parts):
        return f"start() gives {start!r}, and only a number or a tuple of numbers compiles"
    states = tuple("bool" if isinstance(p, bool) else "int64" if isinstance(p, int) else "float64" for p in parts)
    methods = {
        name: getattr(type(window), name) for name in METHODS if getattr(type(window), name) is not getattr(base, name)
    }
    try:
        me = _me(window)
        forms = tuple(str(number_form(type_)) for _, type_ in columns)
        text, doubts = described(*methods.values())
        key = digest(text), *doubts, tuple(methods), str(typeof(me)), states, single, forms
        if key not in _TRIED:
            _TRIED[key] = _compiled(methods, typeof(me), states, single, forms)
    except OverflowError:
        return "one of its numbers does not fit int64"
    found = _TRIED[key]
    if isinstance(found, str):
        return found
    return CompiledWindow(me, found, key, states, single, parts, tuple(columns))


_TRIED: dict[Any, Methods | str] = {}


def _me(window: Any) -> Any:
    """The ``self`` of compiled methods: the numbers among the window's attributes."""
    known: dict[str, Any] = {}
    for cls in reversed(type(window).__mro__):
        known |= vars(cls)
    known |= getattr(window, "__dict__", {})
    if is_dataclass(window):
        known |= {f.name: getattr(window, f.name) for f in fields(window)}
    numbers = {
        name: value for name, value in known.items() if not name.startswith("_") and type(value) in (bool, int, float)
    }
    return _tuple_of(tuple(sorted(numbers)))(**numbers)


@cache
def _tuple_of(names: tuple[str, ...]) -> Any:
    return namedtuple("Window", names)


def _compiled(
    methods: dict[str, Any], me: Any, states: tuple[str, ...], single: bool, forms: Sequence[str]
) -> Methods | str:
    """The compiled methods, or the reason why one does not compile."""
    state = NUMBA_TYPES[states[0]] if single else types.Tuple([NUMBA_TYPES[s] for s in states])
    takes = {
        "see": (me, state, types.int64, *(_FORMS[form] for form in forms)),
        "deadline": (me, state),
        "expired": (me, state),
    }
    found = Methods({}, {})
    for name, method in methods.items():
        try:
            found.jitted[name] = jitted = njit(method, boundscheck=True)
            jitted.compile(takes[name])
            given = jitted.overloads[takes[name]].signature.return_type
        except Exception as error:
            return f"{name} does not compile: {_first_line(error)}"
        if name != "deadline":
            wrong = _wrong(given, state, single)
            if wrong is not None:
                return f"{name} gives {wrong}"
            found.ends[name] = len(given) == 3
        elif isinstance(given, types.NoneType):
            del found.jitted[name]
        elif not isinstance(given.type if isinstance(given, types.Optional) else given, types.Integer):
            return f"deadline gives {given}, not a whole number or None"
    return found


def _wrong(given: Any, state: Any, single: bool) -> str | None:
    """What is wrong with the type that a method returns; None if nothing is."""
    if not isinstance(given, types.BaseTuple) or len(given) not in (2, 3):
        return f"{given}, not a context, edges and perhaps where the window ends"
    if not all(isinstance(part, types.Integer) for part in list(given)[1:]):
        return f"{given}, whose edges are no number such as self.OPEN"
    return None if _gives(given[0], state, single) else f"a context of {given[0]}, where start() gives one of {state}"


def _gives(given: Any, state: Any, single: bool) -> bool:
    parts, wanted = ([given], [state]) if single else (list(given) if isinstance(given, types.BaseTuple) else [], state)
    if len(parts) != len(wanted):
        return False
    return all(
        types.unliteral(part) == want or (want == types.float64 and isinstance(part, types.Integer | types.Float))
        for part, want in zip(parts, wanted, strict=True)
    )


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return next((line for line in lines if not line.startswith("Failed in")), type(error).__name__).rstrip(".")
