"""Calls of one operator take turns, whichever threads they come from."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from functools import wraps
from threading import Lock, get_ident
from typing import Concatenate, ParamSpec, Self, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Turn:
    """Whose turn it is. Copies, and what is read from a pickle, begin anew."""

    __slots__ = ("lock", "thread")

    def __init__(self) -> None:
        self.lock = Lock()
        self.thread: int | None = None

    def __reduce__(self) -> tuple[type[Turn], tuple[()]]:
        return Turn, ()


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
