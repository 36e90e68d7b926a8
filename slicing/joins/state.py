"""The state of a join, and how it changes between pushes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from slicing.columns.key_marks import KeyMarks
from slicing.columns.keys import KeyTable
from slicing.columns.order import distinct
from slicing.joins.arrivals import Rows, unfit
from slicing.joins.plan import TwoSides
from slicing.joins.progress import Marks, effective
from slicing.joins.sides import UNFIT, Run, Side
from slicing.joins.step import NOBODY, Task
from slicing.joins.within import LEFT, RIGHT
from slicing.query.progress import Progress
from slicing.system.arrays import LEAST, MOST, Ints
from slicing.system.replace import but

Own = tuple[int | None, int | None]
Marked = tuple[tuple[object, ...], tuple[object, ...]]  # watermarks given before the first rows of each side

FORGET = 1 << 12  # so many unused keys are kept, plus three times as many as are in use


@dataclass(frozen=True, eq=False)
class JoinState:
    """The whole state of a join."""

    plan: TwoSides
    keys: KeyTable | None
    sides: tuple[Side, Side]
    progress: tuple[Progress, Progress] = (Progress(), Progress())
    own: Own = (None, None)  # watermarks in ticks of each side's own time column
    marks: Marks = field(default_factory=Marks)  # watermarks that all rows joined so far have reached
    tasks: tuple[Task, ...] = ()  # rows that still wait to be joined
    waiting: tuple[Run, Run] = (NOBODY, NOBODY)  # rows that wait for the other side's columns
    by_key: tuple[KeyMarks, KeyMarks] = (KeyMarks(), KeyMarks())

    @staticmethod
    def fresh(plan: TwoSides, whole: bool = False) -> JoinState:
        keys = KeyTable(plan.key_types) if plan.key_types else None
        step = 0 if whole else plan.within.step
        return JoinState(plan, keys, (Side.fresh(step), Side.fresh(step)))

    @property
    def codes(self) -> int:
        return 1 if self.keys is None else max(len(self.keys), 1)

    @property
    def pending(self) -> int:
        return sum(len(task.rows) for task in self.tasks if task.rows is not None)

    @property
    def held(self) -> int:
        shown_later = sum(gone.name.size for gone in self.waiting)
        return sum(side.held for side in self.sides) + self.pending + shown_later

    @property
    def nbytes(self) -> int:
        known = 0 if self.keys is None else self.keys.nbytes
        pending = sum(task.rows.nbytes for task in self.tasks if task.rows is not None)
        pending += sum(gone.nbytes for gone in self.waiting)
        return known + pending + sum(side.nbytes for side in self.sides) + sum(marks.nbytes for marks in self.by_key)

    def with_marks(self, side: int, code: Ints, mark: Ints) -> JoinState:
        """The state with more marks of keys of a side."""
        by_key = list(self.by_key)
        by_key[side] = by_key[side].raised(code, mark)
        return but(self, by_key=(by_key[LEFT], by_key[RIGHT]))

    def without_marks(self) -> JoinState:
        """The state without marks of keys that the watermarks of the streams have reached."""
        left, right = (marks.ahead_of(mark) for marks, mark in zip(self.by_key, self.marks, strict=True))
        return self if (left, right) == self.by_key else but(self, by_key=(left, right))

    def judge(self) -> Marks:
        """The watermarks by which the next rows are judged."""
        common = (
            None if mark is None else mark * side.factor for mark, side in zip(self.own, self.plan.sides, strict=True)
        )
        return effective(self.plan, *common)


def replanned(state: JoinState, plan: TwoSides) -> JoinState:
    """The state for ``plan``, in its common ticks and key types, once the columns of both sides are known."""
    old = state.plan
    finer = [new.factor // side.factor for new, side in zip(plan.sides, old.sides, strict=True)]
    scale = max(f for f, known in zip(finer, old.known, strict=True) if known)
    keys = state.keys
    if keys is not None and plan.key_types != old.key_types:
        values = keys.values(np.arange(len(keys)))
        keys = KeyTable(plan.key_types)
        keys.encode_values([value.cast(type) for value, type in zip(values, plan.key_types, strict=True)])
    sides = []
    for side, was in zip(plan.sides, state.sides, strict=True):
        new = but(was, runs=(), least=plan.within.step, step=plan.within.step)
        for run in was.runs:
            new = new.added(but(run, time=_scaled(run.time, scale), slot=0))
        chunks = tuple(chunk.select(side.kept) for chunk in was.chunks) if side.kept else ()
        sides.append(new.stored(chunks))
    first = 0
    for chunk in sides[RIGHT].chunks:
        sides[RIGHT] = sides[RIGHT].flagged(unfit(plan, RIGHT, first, chunk), UNFIT)
        first += chunk.num_rows
    tasks = tuple(_scaled_task(task, scale) for task in state.tasks)
    waiting = [but(gone, time=_scaled(gone.time, scale)) for gone in state.waiting]
    marks = Marks(*(None if mark is None else clipped(mark * scale) for mark in state.marks))
    return but(
        state, plan=plan, keys=keys, sides=(sides[LEFT], sides[RIGHT]), tasks=tasks, marks=marks,
        waiting=(waiting[LEFT], waiting[RIGHT]),
        by_key=(state.by_key[LEFT].scaled(scale), state.by_key[RIGHT].scaled(scale)),
    )  # fmt: skip


def _scaled_task(task: Task, scale: int) -> Task:
    marks = None if task.marks is None else Marks(*(None if m is None else clipped(m * scale) for m in task.marks))
    rows = task.rows
    if rows is not None:
        rows = but(rows, time=_scaled(rows.time, scale), keyless_time=_scaled(rows.keyless_time, scale))
    return but(task, rows=rows, marks=marks)


def _scaled(time: Ints, scale: int) -> Ints:
    if scale == 1 or not time.size:
        return time
    for word in (int(time.min()), int(time.max())):
        if not LEAST <= word * scale <= MOST:
            raise ValueError(
                "times that are kept of one side do not fit the finer unit of the other side's time column; cast that "
                "one to a coarser unit"
            )
    return time * scale


def settled(
    state: JoinState, sides: Sequence[Side], marks: Marks, waiting: Sequence[Run], tasks: tuple[Task, ...] = ()
) -> JoinState:
    """The state after a push, without payload, marks and keys that are no longer needed."""
    kept, shown = [], []
    for number, side in enumerate(sides):
        of_side = [at for at, task in enumerate(tasks) if task.side == number and task.rows is not None]
        side, names = side.freed([_rows(tasks[at]).names() for at in of_side] + [waiting[number].name])
        renamed = dict(zip(of_side, names, strict=False))
        tasks = tuple(
            but(task, rows=_rows(task).renamed(renamed[at])) if at in renamed else task for at, task in enumerate(tasks)
        )
        shown.append(but(waiting[number], name=names[-1]))
        kept.append(side)
    left, right = kept
    state = but(state, sides=(left, right), marks=marks, tasks=tasks, waiting=(shown[LEFT], shown[RIGHT]))
    return _forgotten(state.without_marks())


def _rows(task: Task) -> Rows:
    assert task.rows is not None
    return task.rows


def _forgotten(state: JoinState) -> JoinState:
    """The state without the codes of unused keys, if these are many."""
    keys = state.keys
    marked = [marks.code for marks in state.by_key]
    sliced = [part.code for side in state.sides for part in side.slices]
    having = state.held + sum(map(len, sliced)) + sum(map(len, marked))
    if keys is None or len(keys) <= FORGET + 4 * having:
        return state
    used = [*(run.code for side in state.sides for run in side.runs), *sliced]
    used += [_rows(task).code for task in state.tasks if task.rows is not None]
    live = distinct(np.concatenate([*used, *marked, np.empty(0, np.int32)]).astype(np.int64))
    code = np.full(len(keys), -1, np.int32)
    code[live] = np.arange(live.size)
    sides = [
        but(
            side,
            runs=tuple(but(run, code=code[run.code]) for run in side.runs),
            slices=tuple(part.recoded(code) for part in side.slices),
        )
        for side in state.sides
    ]
    tasks = tuple(
        task if task.rows is None else but(task, rows=but(task.rows, code=code[task.rows.code])) for task in state.tasks
    )
    left, right = (marks.recoded(code) for marks in state.by_key)
    sides_now = sides[LEFT], sides[RIGHT]
    return but(state, keys=keys.compact(live), sides=sides_now, tasks=tasks, by_key=(left, right))


def clipped(mark: int | None) -> int | None:
    return None if mark is None else max(LEAST, min(MOST, mark))
