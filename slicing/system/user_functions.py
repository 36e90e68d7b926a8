"""Users' functions: identified equally in any process, and compiled once in each."""

from __future__ import annotations

import re
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import numpy as np
import pyarrow as pa
from numba import cloudpickle, njit, types

from slicing.kernels.disk import keep_users
from slicing.kernels.user import Kernels, compiled
from slicing.system.arrays import Ints
from slicing.system.code_text import Doubt, described
from slicing.system.lazy import lazy

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

    @lazy
    def made_from(self) -> tuple[object, ...]:
        """What tells the code apart from others in this process; ``digest`` does in any process, as well as it can."""
        return self.digest, *self._described[1]

    @lazy
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
        found = returned(self, "lower", self.jitted[2], (self.states(),))
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

# Compiled once in a process, however often a spec is built or unpickled.
_JITTED: dict[tuple[object, ...], tuple[Any, Any, Any, Any]] = {}
_KERNELS: dict[tuple[Any, ...], Kernels] = {}


def _unpickled(
    code: bytes, name: str, digest: str, identity: Any, state: Any, inputs: Any, commutative: bool
) -> Functions:
    lift, combine, lower, invert = cloudpickle.loads(code)
    return Functions(name, lift, combine, lower, invert, identity, state, inputs, commutative, digest)


def returned(f: Functions, what: str, function: Any, arguments: tuple[Any, ...]) -> Any:
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
