"""State: everything that an operator remembers, as one value that a push replaces at its end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from slicing.closing.answers import Answers
from slicing.closing.fill import Filled
from slicing.closing.open_runs import PushedRuns, Reports
from slicing.closing.postpone import Postponed
from slicing.closing.revise import Revisions
from slicing.columns.key_marks import KeyMarks
from slicing.columns.keys import KeyTable
from slicing.columns.pools import FEW_VALUES, Placed, Pool
from slicing.columns.types import decoded, storable
from slicing.kept_rows.by_key import KeyRows
from slicing.kept_rows.remembered import moved
from slicing.query.plan import Plan
from slicing.query.policy import DEFAULT, Policy
from slicing.query.processing_time import ProcessingTime
from slicing.query.progress import Progress
from slicing.query.spec import Spec
from slicing.storage.apart import Apart
from slicing.storage.row_panes import RowPanes
from slicing.storage.session_store import store_for
from slicing.storage.store import Store
from slicing.system.arrays import Ints, Mask
from slicing.windows.bounds import BEGIN, LIMIT

FEW_KEYS = 256  # up to this many keys, looking for keys to drop does not pay
_NO_PROGRESS, _NO_REVISIONS, _NO_MARKS = Progress(), Revisions(), KeyMarks()


@dataclass(eq=False)
class State:
    """Everything that an operator remembers."""

    plan: Plan
    store: Store
    rows: KeyRows
    keys: KeyTable | None
    watermark: int | None = None
    progress: Progress = _NO_PROGRESS
    arrived: int = 0
    in_order: bool = True  # whether the rows of the last push came in order, as those of the next one then may
    given: pa.Schema | None = None  # the schema of the last batch
    pools: dict[str, Pool] = field(default_factory=dict)
    revisions: Revisions = _NO_REVISIONS
    filled: Filled = field(default_factory=dict)
    postponed: tuple[Postponed, ...] = ()
    newest: int | None = None  # the latest time of all rows
    oldest: int | None = None  # the earliest time of all rows that were not behind the watermark
    crowded: int = FEW_KEYS  # at this many codes, find the keys that are still alive
    apart: tuple[Apart, ...] = ()  # cells beside the store that some trigger has not reported
    epoch: int = 0  # how often a trigger has fired at the end of a push
    fired: dict[str, int] = field(default_factory=dict)  # window -> the epoch in which its trigger last fired
    pushed: PushedRuns | None = None  # only within a push, in plans with sessions or whole streams and triggers
    reported: Reports = field(default_factory=dict)  # last reports of runs, if not each push reports them
    passed: RowPanes | None = None  # only in plans with panes at rows
    marks: KeyMarks = _NO_MARKS  # the marks of keys that are ahead of the stream
    groups: tuple[State, ...] = ()  # the states of keys with marks, by watermark (slicing.lifecycle.by_key)
    held: pa.Table | None = None  # results of windows with triggers that wait for the next pushes
    shown: int | None = None  # the watermark when no results waited last
    fired_at: dict[str, int] = field(default_factory=dict)  # window -> when a clock last fired it, or was first asked

    def headless(self) -> tuple[Store, Revisions]:
        """The store with its head as a run, and all revisions: some are counted in the head."""
        head = self.store.head
        if head is None or head.reports is None:
            return self.store.whole(), self.revisions
        end, code, count = head.reported()
        number, start = np.full(end.size, self.plan.timed[0]), end - self.plan.periodic[0]
        counted = Revisions(number, start, end, code, count)
        return self.store.whole(), Revisions.of((self.revisions, counted))

    def fold_head(self) -> None:
        """Make the head of the store a run, with all revisions."""
        self.store, self.revisions = self.headless()

    @staticmethod
    def fresh(spec: Spec, schema: pa.Schema, arrival: bool = True, policy: Policy = DEFAULT) -> State:
        plan = Plan.of(spec, schema, arrival, policy)
        none = {n: pa.nulls(0, storable(decoded(plan.types[n]))) for n in plan.ranked}
        pools = {n: values if n in plan.listed else plan.partials.pool(n, values) for n, values in none.items()}
        keys = plan.alike("keys", lambda: KeyTable(plan.key_types)).begun() if spec.by else None
        return State(plan, store_for(plan), KeyRows(plan), keys, pools=pools)

    def draft(self) -> State:
        """A copy that one push may change. It is shallow: members are values, except three that change in place: the
        table of keys, pools of texts by place (``columns.pools.Placed``), and the head of the store. ``as_it_was``
        takes back what a push that fails has added to the tables."""
        state = object.__new__(State)
        state.__dict__ = self.__dict__.copy()
        return state

    def but(self, **changes: Any) -> State:
        """As ``replace``, but faster: a small push makes several states."""
        state = object.__new__(State)
        state.__dict__ = {**self.__dict__, **changes}
        return state

    def as_it_was(self, known: int, rebuild: bool = False) -> State:
        """The state with the ``known`` keys and the values that it had: a call that is given up has added to tables in
        place. ``rebuild``: it may have left one of them half written."""
        keys = None if self.keys is None else self.keys.as_it_was(known, rebuild)
        placed = {name: pool.as_it_was(rebuild) for name, pool in self.pools.items() if isinstance(pool, Placed)}
        return self.but(keys=keys, pools=self.pools | placed)

    @property
    def stores(self) -> list[Store]:
        """All stores except those of postponed windows."""
        return [self.store, *(known.store for known in self.apart), *self.reported.values()]

    @property
    def _holders(self) -> list[Store | KeyRows | RowPanes]:
        """All that holds values which are not yet emitted."""
        postponed = [known.store for known in self.postponed]
        passed = [] if self.passed is None else [self.passed]
        groups = [holder for group in self.groups for holder in group._holders]
        return [*self.stores, *postponed, self.rows, *passed, *groups]

    def ranks_used(self, name: str) -> Ints:
        """The ranks of a column's values that anything not yet emitted holds."""
        size = len(self.pools[name])
        used = np.zeros(size, np.bool_)
        for holder in self._holders:
            used[holder.ranks_used(name, size)] = True
        return used.nonzero()[0]

    def ranks_kept(self, name: str) -> Ints:
        """The ranks of a column's values to go on with: all of them, or :meth:`ranks_used` once most are not used."""
        size = len(self.pools[name])
        few = size > FEW_VALUES and size > 2 * sum(holder.values for holder in self._holders) + FEW_VALUES
        return self.ranks_used(name) if few else np.arange(size)

    def forget_values(self, name: str, few: bool = False) -> None:
        """Drop values of a column that are looked up by hash and not used any more, if these are at least half of
        them or, ``few``, however few they are. Sorted values are dropped as others come."""
        pool = self.pools[name]
        if isinstance(pool, Placed):
            pool, moved = pool.fewer(self.ranks_used(name), few)
            if moved is not None:
                self.__dict__.update(self.reranked(name, moved).__dict__)
            self.pools = self.pools | {name: pool}

    def reranked(self, name: str, rank: Ints) -> State:
        """Renumber the ranks of a column's values (order kept): ``rank[old]`` is the new rank."""
        return self.with_cells(
            lambda store: store.reranked(name, rank),
            rows=self.rows.reranked(name, rank),
            passed=None if self.passed is None else self.passed.reranked(name, rank),
            postponed=tuple(replace(p, store=p.store.reranked(name, rank)) for p in self.postponed),
            groups=tuple(group.reranked(name, rank) for group in self.groups),
        )

    def recoded(self, code: Ints) -> State:
        """Renumber codes of keys: ``code[old]`` is the new code, -1 for a code that is dropped."""
        return self.with_cells(
            lambda store: store.recoded(code),
            rows=self.rows.recoded(code),
            passed=None if self.passed is None else self.passed.recoded(code),
            postponed=tuple(p.recoded(code) for p in self.postponed),
            groups=tuple(group.recoded(code) for group in self.groups),
            revisions=self.revisions.recoded(code),
            marks=self.marks.recoded(code),
            filled={k: moved(last, code, BEGIN) for k, last in self.filled.items()},
        )

    def with_cells(self, change: Callable[[Store], Store], **changes: Any) -> State:
        """Change the cells of each store, except those of postponed windows."""
        apart = tuple(known.but(change(known.store)) for known in self.apart)
        reported = {name: change(store) for name, store in self.reported.items()}
        return self.but(store=change(self.store), apart=apart, reported=reported, **changes)

    @property
    def row_panes(self) -> RowPanes:
        """The rows and windows of panes at rows."""
        return RowPanes.none(self.plan) if self.passed is None else self.passed

    @row_panes.setter
    def row_panes(self, known: RowPanes) -> None:
        self.passed = known

    @property
    def horizon(self) -> int:
        """Windows that end here or before have expired."""
        return BEGIN if self.watermark is None else self.watermark - self.plan.lateness

    @property
    def passed_time(self) -> int:
        """The time that the watermark has passed; BEGIN before it has moved."""
        return BEGIN if self.watermark is None else self.watermark

    @property
    def reached(self) -> int | None:
        """The watermark that the emitted windows have reached."""
        if self.held is not None:
            return self.shown
        if not self.postponed:
            return self.watermark
        after = self.postponed[0].after
        return None if after == BEGIN else after + self.plan.patience


def reached_by(state: State, upto: int | None = None) -> int | None:
    """The watermark that the stream has reached, at least ``upto``. It never goes back."""
    plan = state.plan
    reached = plan.spec.watermark.reached(state.progress, plan.delays)
    if isinstance(plan.spec.time, ProcessingTime):
        reached = state.progress.largest
    if reached is not None:
        reached = max(-LIMIT, min(LIMIT, reached))  # a watermark beyond all times acts like one at the last time
    for known in (upto, state.watermark):
        if known is not None and (reached is None or known > reached):
            reached = known
    return reached


def forget(state: State, keys: KeyTable, just_out: Sequence[Answers] = (), few: bool = False) -> KeyTable:
    """Drop the codes of keys without cells and without windows ``just_out``, once these are at least half of the table
    or, ``few``, however few they are.

    Looking for them is a pass over all cells. So it waits until a quarter of the keys are new since the last time.
    """
    used = np.zeros(len(keys), np.bool_)
    for answers in just_out:
        used[answers.code] = True
    used[state.marks.code] = True
    for part in (state, *state.groups):
        _use(part, used)
    postponed = tuple(p.rest() for p in state.postponed)
    for run in (run for p in postponed for run in p.store.runs):
        used[run.code] = True
    live = np.flatnonzero(used)
    if live.size == len(keys) or (2 * live.size > len(keys) and not few):
        state.crowded = len(keys) + len(keys) // 4
        return keys
    code = np.full(len(keys), -1, np.int64)
    code[live] = np.arange(live.size)
    state.keys = fewer = keys.compact(live)
    state.__dict__.update(state.but(postponed=postponed).recoded(code).__dict__)
    state.crowded = max(2 * live.size, FEW_KEYS)
    return fewer


def _use(state: State, used: Mask) -> None:
    """Mark the codes that a state's cells, rows and emitted windows have."""
    for run in (run for store in state.stores for run in store.runs):
        used[run.code] = True
    if state.passed is not None:
        used |= state.passed.uses(used.size)
    used[state.revisions.code] = True
    used |= state.rows.uses(used.size)
    for last in state.filled.values():
        used[: last.size] |= last > BEGIN
