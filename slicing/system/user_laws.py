"""Users' functions are checked when they are given: their arguments, that they compile, and the laws on sample rows."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import pairwise, product
from typing import Any

from numba import types

from slicing.kernels.user import Kernels
from slicing.system.user_functions import Functions, returned

_CHECKED: set[Functions] = set()  # once in a process, however often a spec is built or unpickled


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


def _check_compiles(f: Functions) -> None:
    states = f.states()
    try:
        lift_takes(f, "f" * len(f.inputs))
    except TypeError:
        lift_takes(f, "i" * len(f.inputs))  # bits and remainders need integers
    _check_states(f, "combine", returned(f, "combine", f.jitted[1], (states, states)))
    f.result()
    if f.invert is not None:
        _check_states(f, "invert", returned(f, "invert", f.jitted[3], (states, states)))


def lift_takes(f: Functions, forms: str) -> None:
    """Raise unless lift can take columns of these types."""
    arguments = tuple(types.float64 if form == "f" else types.int64 for form in forms)
    _check_states(f, "lift", returned(f, "lift", f.jitted[0], arguments))


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
