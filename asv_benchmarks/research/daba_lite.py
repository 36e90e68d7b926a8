"""DABA Lite: two stacks whose flip is spread over the steps that follow, so that no step takes more than a few
combinations (two stacks: as many as a window has cells, at every flip).

A run of ranges that move forward is a queue: cells enter at ``end`` and leave at ``front``. From front to end,

    front .. left       each partial: all from it to ``back``
    left .. right       from it to ``right``
    right .. across     the cell alone
    across .. back      from it to ``back``
    back .. end         cells; their prefixes are kept beside

and ``middle`` is all of right .. back. Each step moves ``left`` by one (and ``across`` down by one, until they meet at
``right``; after that all move on); when ``left`` reaches ``back`` the queue up to ``end`` becomes the next front, with
nothing to be combined. Partials are overwritten as the queue moves, so an answer is a scratch partial of its own.
"""

import numpy as np

from slicing.kernels.kernel import kernel
from slicing.kernels.strategies.interface import NONE, Combinations, Strategy


def daba_lite(first, last, cells):
    return _lists(first, last, cells)[0]


def busiest_step(first, last, cells):
    """The most combinations that any step takes; a step is a cell that enters or leaves, or an answer."""
    return _lists(first, last, cells)[1]


def cost(first, last, cells):
    return 5 * int(queued(first, last)) + 4 * first.size


def _lists(first, last, cells):
    size, answers = queued(first, last), first.size
    scratch = np.empty(answers + 2 * size, np.int64)
    scratch[:answers] = first
    into, source = np.empty((2, 3 * (size + answers)), np.int64)
    seed = np.arange(cells, cells + answers)
    n, most = _daba(first, last, cells + answers, size, scratch[answers:], into, source, seed)
    return Combinations(scratch, into[:n], source[:n], seed, NONE, NONE), most


@kernel
def queued(first, last):
    """How many cells enter the queue, anew in each run."""
    size = np.int64(0)
    bottom, reach = np.int64(0), np.int64(0)
    for r in range(first.size):
        a, b = first[r], last[r]
        if a < bottom or a >= reach or b < reach:
            reach = a
        size += b - reach
        bottom, reach = a, b
    return size


@kernel
def _daba(first, last, base, size, scratch, into, source, seed):
    """The queue's partials are those from ``base`` on, the prefixes of back .. end ``size`` further. Returns how many
    combinations there are, and the most of a step."""
    n = np.int64(0)
    most = np.int64(0)
    end = np.int64(0)
    front, left, right, across, back = end, end, end, end, end
    middle = np.int64(0)
    bottom, reach = np.int64(0), np.int64(0)
    ahead = base + size
    for r in range(first.size):
        a, b = first[r], last[r]
        if a < bottom or a >= reach or b < reach:
            front, left, right, across, back = end, end, end, end, end
            bottom, reach = a, a
        while reach < b or bottom < a:
            before = n
            if reach < b:
                scratch[end] = reach
                scratch[size + end] = reach
                if end > back:
                    into[n], source[n] = ahead + end, ahead + end - 1
                    n += 1
                end += 1
                reach += 1
            else:
                front += 1
                bottom += 1
            if left == back and end > front:
                left, right, across, back = front, back, end - 1, end
                middle = ahead + end - 1
            if left < right:
                into[n], source[n] = base + left, middle
                n += 1
                left += 1
                if across > right:
                    across -= 1
                    into[n], source[n] = base + across, base + across + 1
                    n += 1
            elif left < back:
                left += 1
                right, across = left, left
            most = max(most, n - before)
        before = n
        if front == back:
            seed[r] = ahead + end - 1
            continue
        after = front + 1
        if after < back:
            into[n], source[n] = seed[r], base + after
            n += 1
        if left <= after < right:
            into[n], source[n] = seed[r], middle
            n += 1
        if back < end:
            into[n], source[n] = seed[r], ahead + end - 1
            n += 1
        most = max(most, n - before)
    return n, most


STRATEGY = Strategy("daba lite", daba_lite, cost, "windows that slide, at most three combinations a step")
