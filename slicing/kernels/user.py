"""Kernels around users' functions: source text for their number of inputs and states, compiled with the functions.

A partial is a count and one word for each state (``f``: a float64 in the same 8 bytes). Rows kept in order are (time,
sequence, arrival, inputs); an input is a float ('f') or an integer ('i').
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from slicing.kernels.disk import keep_users

TEMPLATE = """
def lifted({names}):
    {states} = lift({names})
    return {cast}

def combined(a, b):
    {states} = combine(a, b)
    return {cast}

def scatter(cell, valid, {names}, A, F):
    every = valid.size == 0
    if cell.size == 0:
        return
    c = np.uint64(cell[0])
    {states} = {held}
    n = A[c, 0]
    for i in range(cell.size):
        if every or valid[i]:
            d = np.uint64(cell[i])
            if d != c:
                {stored} = {state}
                A[c, 0] = n
                c = d
                {states} = {held}
                n = A[c, 0]
            {states} = combined({state}, lifted({row}))
            n += 1
    {stored} = {state}
    A[c, 0] = n

def merge(into, source, ordered, A, F, B, G):
    for i in range(into.size):
        c, d = np.uint64(into[i]), np.uint64(source[i])
        if ordered and d < c:  # what lies before it
            {stored} = combined({other}, {held})
        else:
            {stored} = combined({held}, {other})
        A[c, 0] += B[d, 0]

def inverted(a, b):
    {states} = invert(a, b)
    return {cast}

def slide(first, last, A, F, B, G):
    before, until = np.int64(0), np.int64(0)
    {states} = {zeros}
    n = np.int64(0)
    for w in range(first.size):
        c = np.uint64(w)
        begin, end = first[w], last[w]
        if w == 0 or begin < before or end < until or begin - before + end - until >= end - begin:
            d = np.uint64(begin)
            {states} = {other}
            n = B[d, 0]
            until = begin + 1
        else:
            for i in range(before, begin):
                d = np.uint64(i)
                {states} = inverted({state}, {other})
                n -= B[d, 0]
        for i in range(until, end):
            d = np.uint64(i)
            {states} = combined({state}, {other})
            n += B[d, 0]
        {stored} = {state}
        A[c, 0] = n
        before, until = begin, end

def undone(A, F, B, G):
    for w in range(A.shape[0]):
        c, d = np.uint64(w), np.uint64(w)
        if B[d, 0] != 0:
            {stored} = inverted({held}, {other})
            A[c, 0] -= B[d, 0]

def fold(at, items, floats, A, F):
    for w in range(at.size - 1):
        c = np.uint64(w)
        for i in range(at[w], at[w + 1]):
            {stored} = combined({held}, lifted({item}))
            A[c, 0] += 1

def lowered(A, F, out):
    for w in range(out.size):
        c = np.uint64(w)
        if A[c, 0] > 0:
            out[w] = lower({held})
"""


class Kernels(NamedTuple):
    lifted: Callable[..., Any]
    combined: Callable[..., Any]
    scatter: Callable[..., None]
    merge: Callable[..., None]
    fold: Callable[..., None]
    lowered: Callable[..., None]
    slide: Callable[..., None]
    undone: Callable[..., None]


def compiled(
    lift: Any, combine: Any, lower: Any, invert: Any, inputs: str, states: Sequence[str], source: str | None
) -> Kernels:
    """The kernels for functions with these ``inputs`` (a letter each) and ``states`` ('float64', 'int64' or 'bool'
    each).

    They are compiled at the first call, and kept on disk if ``source`` is all that the functions are made from. Two
    need ``invert``: ``slide`` answers a range of cells from the previous range, without the cells that left and with
    the cells that came, if this is less work; ``undone`` removes partials from others."""
    names = [f"x{i}" for i in range(len(inputs))]
    parts = [f"s{i}" for i in range(len(states))]
    cast = [f"{_CAST[state]}({part})" for state, part in zip(states, parts, strict=True)]

    def loaded(ints: str, floats: str, row: str) -> str:
        return _one_or_tuple([_LOADED[state].format(ints, floats, row, k + 1) for k, state in enumerate(states)])

    text = TEMPLATE.format(
        names=", ".join(names),
        states=", ".join(parts),
        state=_one_or_tuple(parts),
        cast=_one_or_tuple(cast),
        held=loaded("A", "F", "c"),
        other=loaded("B", "G", "d"),
        stored=", ".join(f"{'F' if state == 'float64' else 'A'}[c, {k + 1}]" for k, state in enumerate(states)),
        row=", ".join(f"{name}[i]" for name in names),
        zeros=", ".join(_ZERO[state] for state in states),
        item=", ".join(_ITEM[form].format(3 + k) for k, form in enumerate(inputs)),
    )
    space: dict[str, Any] = {
        "__name__": __name__,
        "np": np,
        "lift": lift,
        "combine": combine,
        "lower": lower,
        "invert": invert,
    }
    exec(text, space)
    for name in ("lifted", "combined", "inverted"):
        space[name] = njit(space[name])
    loops = ("scatter", "merge", "fold", "lowered", "slide", "undone")
    for name in loops:
        space[name] = njit(space[name], nogil=True)
    if source is not None:
        for name in ("lifted", "combined", "inverted", *loops):
            keep_users(space[name], name, text + source)
    return Kernels(space["lifted"], space["combined"], *(space[name] for name in loops))


_CAST = {"float64": "np.float64", "int64": "np.int64", "bool": "bool"}
_ZERO = {"float64": "0.0", "int64": "np.int64(0)", "bool": "False"}
_LOADED = {"float64": "{1}[{2}, {3}]", "int64": "{0}[{2}, {3}]", "bool": "({0}[{2}, {3}] != 0)"}
_ITEM = {"f": "floats[i, {}]", "i": "items[i, {}]"}


def _one_or_tuple(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"({', '.join(parts)})"
