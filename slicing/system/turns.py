"""Calls of one operator take turns, whichever threads they come from."""

from __future__ import annotations

import os
from collections.abc import Callable
from copy import deepcopy
from functools import wraps
from threading import Lock, get_ident
from typing import Concatenate, NoReturn, ParamSpec, Self, TypeVar
from weakref import WeakSet

P = ParamSpec("P")
T = TypeVar("T")


class Turn:
    """Whose turn it is. Copies, and what is read from a pickle, begin anew."""

    __slots__ = ("__weakref__", "lock", "thread")

    def __init__(self) -> None:
        self.lock: Lock | Torn = Lock()
        self.thread: int | None = None
        _TURNS.add(self)

    def __reduce__(self) -> tuple[type[Turn], tuple[()]]:
        return Turn, ()


class Torn:
    """In a forked process, the lock of what another thread was changing as the process was forked."""

    def __enter__(self) -> NoReturn:
        raise RuntimeError(
            "this process was forked while another thread was in a call of this operator, which does not go on here, "
            "and its state may be half changed; restore a snapshot, or make the operator after the fork"
        )

    def __exit__(self, *error: object) -> None: ...


_TURNS: WeakSet[Turn] = WeakSet()


def _forked() -> None:
    """Only the thread that forked is here: what other threads hold is never released."""
    for turn in _TURNS:
        if isinstance(turn.lock, Torn) or (turn.lock.locked() and turn.thread != get_ident()):
            turn.lock = Torn()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_forked)


class TakesTurns:
    """Base of what has methods that take turns."""

    _turn: Turn

    def __new__(cls, *args: object, **kwargs: object) -> Self:
        made = super().__new__(cls)
        made._turn = Turn()
        return made

    def __copy__(self) -> Self:
        return deepcopy(self)  # calls change what it is made of in place: of two that share it both would change


def in_the_middle(whose: object, method: str) -> RuntimeError:
    return RuntimeError(
        f"{method} was called in the middle of another call of the same {type(whose).__name__} (by a signal handler, "
        "or by a function of the query); call it once that has returned"
    )


S = TypeVar("S", bound=TakesTurns)


def in_turn(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """A method that waits for the calls of other threads to end; refused in the middle of a call of its own thread.

    A push builds on the state that it finds and puts another one in its place: of two at once one would be lost.
    """

    @wraps(method)
    def called(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        turn, thread = self._turn, get_ident()
        if turn.thread == thread:
            raise in_the_middle(self, method.__name__)
        with turn.lock:  # of C: no interrupt comes between its taking and its block
            turn.thread = thread
            try:
                return method(self, *args, **kwargs)
            finally:
                turn.thread = None

    return called
