"""Work on several threads: kernels release the interpreter, so parts of a batch run in parallel.

Kernels run for some 100 us and a sleeping thread wakes in 50, so a waiting thread polls for a while before it sleeps.
It polls a sign that another thread sets while holding the interpreter. It then waits a little before it goes on, as it
would find the interpreter still held, and sleep after all (two parts of 230 us: 330 -> 250 us).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, TypeVar

import numpy as np

from slicing.kernels.waiting import await_change
from slicing.system.arguments import at_least_one

Part = TypeVar("Part")
Result = TypeVar("Result")

MOST_THREADS = 1024  # more threads are a mistake, and an interpreter cannot start them
LOOKS = 2_000_000  # 1 ms
AFTER = np.int64(80_000)


@dataclass(frozen=True)
class Share:
    """The sizes from which on several threads share the rows of a push."""

    rows: int = 1 << 18  # a thread; with fewer, handing over and merging cost more than they save
    turn: int = 1 << 16  # first rows, whose keys are numbered by one thread while many are new
    few_new: int = 4  # rows for each row with a new key, from which on several threads look keys up


SHARE = Share()


def parts(rows: int, threads: int, share: Share = SHARE, together: int = 1) -> list[slice]:
    """The rows in equal parts, one for each thread, if each has enough; a row counts as ``together`` rows."""
    count = max(1, min(threads, rows, rows * together // share.rows))
    bounds = [rows * i // count for i in range(count + 1)]
    return [slice(a, b) for a, b in pairwise(bounds)]


def side_by_side(work: Callable[[Part], Result], parts: Sequence[Part]) -> list[Result]:
    """The result for each part, in order. The first is done here, and so are those that no other thread has begun."""
    if len(parts) == 1:
        return [work(parts[0])]
    team = _team()
    jobs = [_Job(work, part) for part in parts]
    team.take(jobs[1:])
    for job in jobs:
        job.finish(team.looks)
    return [job.result() for job in jobs]


class _Job:
    def __init__(self, work: Callable[[Any], Any], part: Any) -> None:
        self._work, self._part = work, part
        self._begun, self._ended = Lock(), Lock()
        self._ended.acquire()
        self._sign = np.zeros(1, np.int64)
        self._result: Any = None
        self._error: BaseException | None = None

    def run(self) -> bool:
        """Do the work unless another thread has begun it; returns whether it was done here."""
        if not self._begun.acquire(blocking=False):
            return False
        try:
            self._result = self._work(self._part)
        except BaseException as error:
            self._error = error
        self._ended.release()
        self._sign[0] = 1
        return True

    def finish(self, looks: np.int64) -> None:
        """Do the work here, or wait for the thread that does it."""
        if not self.run():
            await_change(self._sign, np.int64(0), looks, AFTER)
            self._ended.acquire()

    def result(self) -> Any:
        if self._error is not None:
            raise self._error
        return self._result


class _Team:
    """Threads that wait for work, as many as jobs were ever given at once. A polling thread uses a core, so they poll
    only if there are enough cores."""

    def __init__(self) -> None:
        self.looks = np.int64(0)
        self._jobs: SimpleQueue[tuple[_Job, np.int64]] = SimpleQueue()
        self._sign = np.zeros(1, np.int64)  # the number of calls of ``take``
        self._size, self._growing = 0, Lock()

    def _grow(self, size: int) -> None:
        with self._growing:
            try:
                while self._size < size:
                    Thread(target=self._serve, name="slicing", daemon=True).start()
                    self._size += 1
            except RuntimeError:  # there are too many, or the interpreter ends: who asks does the work
                pass

    def take(self, jobs: Sequence[_Job]) -> None:
        if self._size < len(jobs):
            self._grow(len(jobs))
        self.looks = np.int64(LOOKS if cores() > len(jobs) else 0)
        self._sign[0] += 1
        for job in jobs:
            self._jobs.put((job, self._sign[0]))

    def _serve(self) -> None:
        known = np.int64(0)
        while True:
            await_change(self._sign, known, self.looks, AFTER)
            job, known = self._jobs.get()
            job.run()
            del job  # frees the rows, too


def thread_count(threads: object) -> int:
    """The number of threads, checked."""
    count = at_least_one(threads, "threads")
    if count > MOST_THREADS:
        raise ValueError(f"threads must be a whole number from 1 to {MOST_THREADS}; got {count:,}")
    return count


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@lru_cache(maxsize=1)
def _team() -> _Team:
    return _Team()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_team.cache_clear)  # a forked process has none of the threads
