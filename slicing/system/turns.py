"""Calls of one operator are serialised, from any thread."""

from __future__ import annotations

import os
from collections.abc import Callable
from copy import deepcopy
from functools import wraps
from threading import Lock, get_ident
from typing import Any, Concatenate, NoReturn, ParamSpec, Self, TypeVar
from weakref import WeakSet

from numba import cloudpickle

P = ParamSpec("P")
T = TypeVar("T")


class Turn:
    """The lock of an operator and the thread that holds it. Copies and unpickled objects get a new one."""

    __slots__ = ("__weakref__", "lock", "thread")

    def __init__(self) -> None:
        self.lock: Lock | Torn = Lock()
        self.thread: int | None = None
        _TURNS.add(self)

    def __reduce__(self) -> tuple[type[Turn], tuple[()]]:
        return Turn, ()


class Torn:
    """In a forked process, replaces a lock that another thread held at the fork."""

    def __enter__(self) -> NoReturn:
        raise RuntimeError(
            "this process was forked while another thread was in a call of this operator, which does not go on here, "
            "and its state may be half changed; restore a snapshot, or make the operator after the fork"
        )

    def __exit__(self, *error: object) -> None: ...


_TURNS: WeakSet[Turn] = WeakSet()


def _forked() -> None:
    """Only the forking thread exists in the child: locks held by other threads would never be released."""
    for turn in _TURNS:
        if isinstance(turn.lock, Torn) or (turn.lock.locked() and turn.thread != get_ident()):
            turn.lock = Torn()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_forked)


class TakesTurns:
    """Base class for methods that take turns."""

    _turn: Turn

    def __new__(cls, *args: object, **kwargs: object) -> Self:
        made = super().__new__(cls)
        made._turn = Turn()
        return made

    def __copy__(self) -> Self:
        return deepcopy(self)  # calls change parts in place, so two shallow copies would change each other

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles have all parts as they are between two calls."""
        return _unpickled, (type(self), _pickled(self))


def in_the_middle(whose: object, method: str) -> RuntimeError:
    return RuntimeError(
        f"{method} was called in the middle of another call of the same {type(whose).__name__} (by a signal handler, "
        "or by a function of the query); call it once that has returned"
    )


S = TypeVar("S", bound=TakesTurns)


def in_turn(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """A method that waits until calls of other threads have ended. Raises if called within a call of its own thread.

    A push reads the state and replaces it: of two pushes at once, one would be lost.
    """

    @wraps(method)
    def called(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        turn, thread = self._turn, get_ident()
        if turn.thread == thread:
            raise in_the_middle(self, method.__name__)
        with turn.lock:  # implemented in C: no interrupt comes between acquiring it and entering the block
            turn.thread = thread
            try:
                return method(self, *args, **kwargs)
            finally:
                turn.thread = None

    return called


@in_turn
def _pickled(whole: TakesTurns) -> bytes:
    return cloudpickle.dumps({name: part for name, part in vars(whole).items() if name != "_turn"})


def _unpickled(kind: type[TakesTurns], parts: bytes) -> TakesTurns:
    made = kind.__new__(kind)
    vars(made).update(cloudpickle.loads(parts))
    return made
