"""The kernel that passes rows to a user's window: source text for its state and columns, compiled with its methods.

A state is a few words for each group (``F``: float64 in the same 8 bytes). Windows do not overlap: at most one window
of a group is open, known by the rank of the row that opened it. If a method breaks a rule of the base class, the walk
ends with -1; the window is then run again in plain Python, which says what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numba import njit

OPEN, CLOSE, CLOSE_BEFORE = 1, 2, 4
UNDEFINED = ~(OPEN | CLOSE | CLOSE_BEFORE)  # bits that mean no edge
FOREVER = 0x7FFFFFFFFFFFFFFF
NONE = np.int64(-(2**63))  # no row: before all others

EXPIRE = """
while True:
    due = deadline(me, {state})
    if due is None or due >= {now}:
        break
    end = time[i - 1] if i > 0 else due
    {expired}
    later = deadline(me, {state})
    if later is not None and later <= due:
        return -1
"""

EXPIRED = """answer = expired(me, {state})
    {states} = cast(answer[0])
    edges = answer[1]
    {end}
    if edges & (OPEN | UNDEFINED) or (edges != 0 and row == NONE):
        return -1
    if edges != 0:
        n = put(found, n, g, row, i, start, end, due)
        row = NONE"""

WAKE = """due = deadline(me, {state})
        if due is not None:
            wakes[g] = due"""

ALL_CLOSE = """{states} = {start}
    if row != NONE:
        n = put(found, n, g, row, i, start, end, due)
        row = NONE"""

TEMPLATE = """
def cast(state):
    {states} = state
    return {cast}

def shown(value, valid):
    if valid:
        return value
    return None

def walk(me, bounds, time, rank, settled, until, over, {columns}A, F, by, at, found, needed, wakes):
    n = 0
    for g in range(bounds.size - 1):
        c = np.uint64(g)
        {states} = {held}
        i, last, limit = bounds[g], bounds[g + 1], FOREVER if over[g] else until
        row, start, shift = NONE, at[g], rank[g] - i
        if by[g] >= 0:
            row = by[g] - shift
        i = i + np.searchsorted(time[i:last], settled)
        while i < last and time[i] < limit:
            now = time[i]
            {expire_now}
            answer = see(me, {state}, now{row})
            {states} = cast(answer[0])
            edges = answer[1]
            if edges & UNDEFINED:
                return -1
            if edges & CLOSE_BEFORE:
                if row == NONE or row >= i:
                    return -1
                end = time[i - 1]
                {end}
                n = put(found, n, g, row, i, start, end, now)
                row = NONE
            if edges & OPEN:
                if row != NONE:
                    return -1
                row, start = i, now
            if edges & CLOSE:
                if row == NONE:
                    return -1
                end = now
                {end}
                n = put(found, n, g, row, i + 1, start, end, now)
                row = NONE
            i += 1
        {expire_limit}
        {stored} = {state}
        needed[g] = i if row == NONE else row
        by[g] = -1 if row == NONE else row + shift
        at[g] = start
        wakes[g] = FOREVER
        {wake}
    return n
"""


@njit(inline="always")
def _put(found, n, group, first, last, start, end, closes):
    """Store one more window; if there is no room left, it is only counted."""
    if n < found.shape[0]:
        found[n, 0], found[n, 1], found[n, 2] = group, first, last
        found[n, 3], found[n, 4], found[n, 5] = start, end, closes
    return n + 1


def compiled(
    methods: dict[str, Any],
    states: Sequence[str],
    single: bool,
    ends: dict[str, bool],
    start: tuple[float | int | bool, ...],
    nullable: Sequence[bool],
) -> Callable[..., int]:
    """The kernel for a window's ``methods``: see, and deadline and expired if the user defines them.

    ``states``: 'float64', 'int64' or 'bool' each; ``single``: a state is a plain value; ``ends``: whether a method says
    where windows end."""
    names = [f"s{i}" for i in range(len(states))]

    def tupled(parts: Sequence[str]) -> str:
        return parts[0] if single else f"({', '.join(parts)},)"

    state = tupled(names)
    cast = [f"as_{kind}({name})" for kind, name in zip(states, names, strict=True)]
    first = [f"as_{kind}({value!r})" for kind, value in zip(states, start, strict=True)]
    words = {"states": ", ".join(names) + ("" if single else ","), "state": state}
    end = {name: "end = answer[2]" if given else "pass" for name, given in ends.items()}
    if "expired" in methods:
        expired = EXPIRED.format(**words, end=end["expired"])
    else:
        expired = ALL_CLOSE.format(**words, start=tupled(first))

    def expire(now: str, indent: int) -> str:
        if "deadline" not in methods:
            return "pass"
        text = EXPIRE.format(**words, now=now, expired=expired)
        return text.strip().replace("\n", "\n" + " " * indent)

    row = [f", shown(v{k}[i], ok{k}[i])" if may_be_null else f", v{k}[i]" for k, may_be_null in enumerate(nullable)]
    text = TEMPLATE.format(
        **words,
        cast=tupled(cast),
        held=tupled([_LOADED[kind].format(k) for k, kind in enumerate(states)]),
        stored=tupled([f"{'F' if kind == 'float64' else 'A'}[c, {k}]" for k, kind in enumerate(states)]),
        columns="".join(f"v{k}, ok{k}, " for k in range(len(nullable))),
        row="".join(row),
        end=end["see"],
        expire_now=expire("now", 12),
        expire_limit=expire("limit", 8),
        wake=WAKE.format(**words) if "deadline" in methods else "pass",
    )
    space: dict[str, Any] = {"np": np, "put": _put, "OPEN": OPEN, "CLOSE": CLOSE, "CLOSE_BEFORE": CLOSE_BEFORE}
    space |= {"UNDEFINED": UNDEFINED, "FOREVER": FOREVER, "NONE": NONE, "nan": np.nan, "inf": np.inf, **methods}
    exec(text, space)
    for kind in set(states):  # with an explicit signature, which converts optional values to arguments
        space[f"as_{kind}"] = njit(f"{_TYPES[kind]}({_TYPES[kind]})")(_same)
    for name in ("cast", "shown"):
        space[name] = njit(space[name])
    kernel: Callable[..., int] = njit(space["walk"], nogil=True)
    return kernel


def _same(value: Any) -> Any:
    return value


_TYPES = {"float64": "float64", "int64": "int64", "bool": "boolean"}
_LOADED = {"float64": "F[c, {}]", "int64": "A[c, {}]", "bool": "(A[c, {}] != 0)"}
