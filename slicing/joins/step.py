"""The work of one push: join its rows with the other side, store them, and evict rows as watermarks advance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from slicing.columns.key_marks import KeyMarks
from slicing.columns.order import order_by, stable_order
from slicing.joins.arrivals import Rows
from slicing.joins.in_order import partners
from slicing.joins.keep import chosen_still, done_by_key
from slicing.joins.pairs import Found, best_pairs, chosen, find
from slicing.joins.plan import JoinPlan
from slicing.joins.progress import Marks
from slicing.joins.rows_out import Block, table_of, tested, times_at
from slicing.joins.sides import GONE, MET, Run, Side, run_of
from slicing.joins.spec import LEFT_ALONE, RIGHT_ALONE
from slicing.joins.within import LEFT, RIGHT, Band
from slicing.query.policy import DEFAULT, Policy
from slicing.system.arrays import MOST, NONE, Bytes, Ints, Mask
from slicing.system.replace import but


@dataclass(frozen=True, eq=False)
class Task:
    """Rows of one side that are still to be joined, and the watermarks that hold after them."""

    side: int
    rows: Rows | None
    marks: Marks | None = None
    ended: tuple[bool, bool] = (False, False)  # whether the left and the right stream have ended


class Step:
    """Does the tasks of a push; holds the new sides and the results."""

    def __init__(
        self,
        plan: JoinPlan,
        sides: Sequence[Side],
        marks: Marks,
        codes: int,
        most: int | None = None,
        policy: Policy = DEFAULT,
        whole: bool = False,
        by_key: tuple[KeyMarks, KeyMarks] | None = None,
    ) -> None:
        self._by_key = NO_MARKS  # rows that still wait to be joined were judged by earlier marks
        self._by_key_last = NO_MARKS if by_key is None else by_key
        self.plan, self.sides, self.marks, self.codes = plan, list(sides), marks, codes
        self._most, self._policy, self._whole = most, policy, whole
        self._blocks: list[Block] = []
        self._alone: tuple[list[Ints], list[Ints]] = ([], [])  # names of rows without a partner
        self._alone_time: tuple[list[Ints], list[Ints]] = ([], [])
        self._matched: list[tuple[Ints, Ints, Ints]] = []  # left rows: time, name, partner's name or -1
        self.waiting: list[Run] = [NOBODY, NOBODY]  # rows that wait for the other side's columns
        self.joined = 0
        self._ending = False
        spec = plan.spec
        self._tells = spec.how in LEFT_ALONE or (spec.matches and spec.how == "left"), spec.how in RIGHT_ALONE

    # --- the flow ---------------------------------------------------------------------------------------------------

    def show(self, waiting: Sequence[Run]) -> None:
        """Emit rows that waited for the columns of the other side."""
        for side, rows in enumerate(waiting):
            self._tell(side, rows.name, rows.time)

    def work(self, tasks: Sequence[Task]) -> tuple[Task, ...]:
        """Do the tasks until the results are as many as allowed; return the remaining tasks."""
        todo = list(tasks)
        while todo:
            task = todo.pop(0)
            rest = None if task.rows is None else self._take(task)
            if rest is not None:
                return (rest, *todo)
            self._by_key = NO_MARKS if todo else self._by_key_last
            if task.marks is not None:
                self._advance(task.marks, task.ended)
        return ()

    def _take(self, task: Task) -> Task | None:
        """Join the rows of a task and store them; return the part of the task that must wait."""
        assert task.rows is not None
        rows, side = task.rows, task.side
        own, other = self.sides[side], self.sides[1 - side]
        run, order = run_of(rows.code, rows.time, rows.name, rows.sequence, self.codes, rows.ascending)
        found = None
        if not self.plan.spec.matches and other.runs:
            found = find(self.plan.within, side, run, order, other.runs, self._policy.threads)
            fit = self._fitting(found, len(rows))
            if fit < len(rows):
                if fit:
                    self._take(but(task, rows=rows.part(0, fit)))
                return but(task, rows=rows.part(fit, len(rows)))
        self._tell(side, rows.keyless, rows.keyless_time)
        if found is not None and found.hits:
            run = self._join(side, rows, run, order, found)
            own = self.sides[side]
        self._store(task, own, run)
        return None

    def _fitting(self, found: Found, count: int) -> int:
        """How many of the rows may be joined now."""
        if self._most is None or (self.plan.spec.left_only and self.plan.spec.where is None):
            return count
        left = self._most - self.joined
        if found.pairs <= left:
            return count
        return found.fitting(left) if left > 0 else 0

    def _store(self, task: Task, own: Side, run: Run) -> None:
        """Store the rows of a run; rows that are already done are not stored."""
        side = task.side
        until = self._until(side, task.marks, task.ended) if task.marks is not None else None
        if until is not None and len(run) and run.low <= until and self._may_leave(side):
            run, gone = but(own, gone=0).split(run, until)
            self._left(side, gone)
        self.sides[side] = own.added(run)

    def _advance(self, marks: Marks, ended: tuple[bool, bool]) -> None:
        """Evict the rows that are done at these watermarks."""
        self.marks = marks
        for side in (LEFT, RIGHT):
            until = self._until(side, marks, ended)
            if side == RIGHT and self.plan.spec.matches and not ended[LEFT]:
                left, right, of_left = self.sides[LEFT], self.sides[RIGHT], self._by_key[LEFT]
                kept = chosen_still(self.plan, left, right, marks, self.codes, of_left, right.is_due)
                self.sides[side] = right.without(kept).looked_through(right.is_due)
            elif self._may_leave(side):
                self.sides[side], gone = self.sides[side].purged(until)
                for rows in gone:
                    self._left(side, rows)
                self._purge_by_key(side)

    def _purge_by_key(self, side: int) -> None:
        """Evict the rows that are done by the other side's marks of keys."""
        marks = self._by_key[1 - side]
        if len(marks) and self.sides[side].runs:
            self.sides[side], gone = self.sides[side].purged_by(done_by_key(self.plan, side, marks, self.codes))
            for rows in gone:
                self._left(side, rows)

    def _until(self, side: int, marks: Marks | None, ended: tuple[bool, bool]) -> int | None:
        """Rows of the side up to this time are done."""
        if ended[1 - side]:
            return MOST
        return None if marks is None else self.plan.within.done(side, marks[1 - side])

    @property
    def holds_back(self) -> bool:
        """Whether rows without a partner wait for the other side's columns."""
        return any(self._tells[side] and not self.plan.known[1 - side] for side in (LEFT, RIGHT))

    def _may_leave(self, side: int) -> bool:
        """Whether time alone evicts rows: not right rows of an as-of join, nor rows that wait for unknown columns."""
        if self._tells[side] and not self.plan.known[1 - side] and not self._ending:
            return False
        return not (side == RIGHT and self.plan.spec.matches and not self._ending)

    def match_in_order(self, left: Rows, right: Rows) -> None:
        """Match each left row with its one partner, for tables in order of time."""
        for side, rows in ((LEFT, left), (RIGHT, right)):
            self._tell(side, rows.keyless, rows.keyless_time)
        band = self.plan.within
        assert isinstance(band, Band)
        place = partners(self.plan.spec.match, band, left, right, self.codes)
        if right.start != self.sides[RIGHT].base or left.keyless.size:  # names are not the positions of the rows
            partner = np.full(len(left), -1)
            has = place >= 0
            partner[has] = right.name[place[has]]
            self._matches(left.time, left.name, partner)
            return
        places = left.name - self.sides[LEFT].base
        has = place >= 0
        self.joined += int(np.count_nonzero(has))
        if self.plan.spec.how != "left":
            places, place = places[has], place[has]
        self._blocks.append(Block(places, place))

    def flush(self) -> None:
        """End both sides."""
        self._ending = True
        for side in (LEFT, RIGHT):
            rows, self.waiting[side] = self.waiting[side], NOBODY
            self._tell(side, rows.name, rows.time)
        self._advance(self.marks, (True, True))

    # --- joining ----------------------------------------------------------------------------------------------------

    def _join(self, side: int, rows: Rows, run: Run, order: Ints, found: Found) -> Run:
        """Emit the pairs of rows that have partners; return the rows to be stored."""
        if self.plan.spec.left_only:
            return self._met(side, rows, run, order, found)
        own, other = self.sides[side].base, self.sides[1 - side].base
        start = rows.start
        for first, last in self._pieces(found):
            row, partner = found.fill(other, first, last, 0 if start is None else start - own)
            row = rows.name[row] - own if start is None else row
            places = (row, partner) if side == LEFT else (partner, row)
            self._give(self._true(Block(*places)))
        return run

    def _pieces(self, found: Found) -> list[tuple[int, int]]:
        if self.plan.spec.where is None:
            return [(0, found.total.size)]
        return list(found.pieces(self._policy.tested_pairs))

    def _true(self, block: Block) -> Block:
        """The pairs for which ``where`` is true."""
        if self.plan.spec.where is None or not len(block):
            return block
        rows = tested(self.plan, self.sides, block)
        assert block.left is not None and block.right is not None
        return Block(block.left[rows], block.right[rows])

    def _give(self, block: Block) -> None:
        self._blocks.append(block)
        self.joined += len(block)
        for side, places in ((LEFT, block.left), (RIGHT, block.right)):
            if self._tells[side] and places is not None:
                self.sides[side] = self.sides[side].flagged(places, MET)

    def _met(self, side: int, rows: Rows, run: Run, order: Ints, found: Found) -> Run:
        """Semi and anti joins: a left row leaves with its first partner."""
        if side == LEFT:
            met = found.total > 0 if self.plan.spec.where is None else self._any_true(rows, found)
            self._give_met(rows.name[met] - self.sides[LEFT].base)
            return run.take(np.flatnonzero(~met[order]))
        left = self.sides[LEFT]
        flags = left.flags.copy()
        if self.plan.spec.where is None:
            _, places = found.claimed(left.base, flags, GONE)
        else:
            places = self._first_true(rows, found, flags)
            flags[places] |= np.uint8(GONE)
        self.sides[LEFT] = but(left, flags=flags, gone=left.gone + places.size).swept()
        self._give_met(places)
        return run

    def _give_met(self, places: Ints) -> None:
        if self.plan.spec.how == "semi" and places.size:
            self._blocks.append(Block(places, None))
            self.joined += places.size

    def _any_true(self, rows: Rows, found: Found) -> Mask:
        """Which left rows have a partner for which ``where`` is true."""
        met = np.zeros(len(rows), np.bool_)
        own, other = self.sides[LEFT].base, self.sides[RIGHT].base
        for first, last in found.pieces(self._policy.tested_pairs):
            row, partner = found.fill(other, first, last)
            true = tested(self.plan, self.sides, Block(rows.name[row] - own, partner))
            met[row[true]] = True
        return met

    def _first_true(self, rows: Rows, found: Found, flags: Bytes) -> Ints:
        """Left rows that find their first partner among ``rows``, in the order of ``rows``."""
        left, right = self.sides
        gone = (flags & GONE) != 0
        given = []
        for first, last in found.pieces(self._policy.tested_pairs):
            row, partner = found.fill(left.base, first, last)
            open_ = np.flatnonzero(~gone[partner])
            row, partner = row[open_], partner[open_]
            true = tested(self.plan, self.sides, Block(partner, rows.name[row] - right.base))
            _, at = np.unique(partner[true], return_index=True)
            places = partner[true][np.sort(at)]
            gone[places] = True
            given.append(places)
        return np.concatenate(given) if given else NONE

    # --- leaving ----------------------------------------------------------------------------------------------------

    def _left(self, side: int, gone: Run) -> None:
        """Emit the evicted rows without a partner, or, in an as-of join, the evicted left rows with their partner."""
        if not gone.name.size:
            return
        if side == LEFT and self.plan.spec.matches:
            self._match(gone)
        elif self._tells[side]:
            own = self.sides[side]
            alone = np.flatnonzero((own.flags[gone.name - own.base] & (MET | GONE)) == 0)
            self._tell(side, gone.name[alone], gone.time[alone])

    def _tell(self, side: int, names: Ints, times: Ints) -> None:
        """Emit rows that will never have a partner."""
        if not self._tells[side] or not names.size:
            return
        if not self.plan.known[1 - side] and not self._ending:
            known = self.waiting[side]
            self.waiting[side] = Run(
                _NO_CODES, np.concatenate([known.time, times]), np.concatenate([known.name, names])
            )
        elif side == LEFT and self.plan.spec.matches:
            self._matched.append((times, names, np.full(names.size, -1)))
        else:
            self._alone[side].append(names)
            self._alone_time[side].append(times)

    def _match(self, gone: Run) -> None:
        """Emit left rows with the one partner of each."""
        spec, right = self.plan.spec, self.sides[RIGHT]
        found = find(self.plan.within, LEFT, gone, np.arange(len(gone)), right.runs, self._policy.threads)
        tests = spec.where is not None and bool(found.hits)  # no hits also while the right columns are unknown
        partner = self._best_true(gone, found) if tests else chosen(spec.match, gone.time, found)
        self._matches(gone.time, gone.name, partner)

    def _matches(self, time: Ints, name: Ints, partner: Ints) -> None:
        has = partner >= 0
        self.joined += int(np.count_nonzero(has))
        if self.plan.spec.how != "left":
            time, name, partner = time[has], name[has], partner[has]
        self._matched.append((time, name, partner))

    def _best_true(self, run: Run, found: Found) -> Ints:
        """The best partner of each row among those for which ``where`` is true."""
        left, right = self.sides
        partner = np.full(len(run), -1)
        for first, last in found.pieces(self._policy.tested_pairs):
            row, place = found.fill(right.base, first, last)
            true = tested(self.plan, self.sides, Block(run.name[row] - left.base, place))
            row, place = row[true], place[true]
            when = times_at(self.plan.sides[RIGHT], right, place)
            key = when, self._sequence(found, place + right.base), place
            best = best_pairs(self.plan.spec.match, row, run.time[row], key)
            partner[row[best]] = place[best] + right.base
        return partner

    def _sequence(self, found: Found, names: Ints) -> Ints:
        """Integers that order right rows of equal time."""
        words = np.zeros(names.size, np.int64)
        for hit in found.hits:
            if hit.run.sequence is None:
                continue
            order = np.argsort(hit.run.name)
            at = np.minimum(np.searchsorted(hit.run.name, names, sorter=order), len(hit.run) - 1)
            there = hit.run.name[order[at]] == names
            words[there] = hit.run.sequence[order[at[there]]]
        return words

    # --- results ----------------------------------------------------------------------------------------------------

    def rows(self) -> pa.Table:
        """All results, in order of output."""
        blocks = [*self._blocks, *self._of_matches()]
        left = self._lonely(LEFT)
        if left is not None and self._whole:
            blocks = [self._in_place(blocks, left)]
        elif left is not None:
            blocks.append(Block(left, None))
        right = self._lonely(RIGHT)
        if right is not None:
            blocks.append(Block(None, right))
        return table_of(self.plan, self.sides, blocks, self._policy.threads)

    def _lonely(self, side: int) -> Ints | None:
        if not self._alone[side]:
            return None
        names, times = np.concatenate(self._alone[side]), np.concatenate(self._alone_time[side])
        order = stable_order(names) if self._whole else order_by(names, times)
        return names.take(order) - self.sides[side].base

    def _of_matches(self) -> list[Block]:
        if not self._matched:
            return []
        time, name, partner = (np.concatenate(found) for found in zip(*self._matched, strict=True))
        if not self._whole:
            order = order_by(name, time)
            name, partner = name.take(order), partner.take(order)
        elif (name[1:] < name[:-1]).any():
            order = stable_order(name)
            name, partner = name.take(order), partner.take(order)
        places = np.where(partner < 0, -1, partner - self.sides[RIGHT].base)
        return [Block(name - self.sides[LEFT].base, places)]

    def _in_place(self, blocks: Sequence[Block], lonely: Ints) -> Block:
        """For whole tables: left rows without a partner are inserted among the others in the order of the data."""
        if self.plan.spec.left_only:
            return Block(lonely, None)
        left = np.concatenate([block.left for block in blocks if block.left is not None] or [NONE])
        right = np.concatenate([block.right for block in blocks if block.right is not None] or [NONE])
        at = np.searchsorted(left, lonely)
        return Block(np.insert(left, at, lonely), np.insert(right, at, -1))


NO_MARKS = KeyMarks(), KeyMarks()
_NO_CODES = np.empty(0, np.int32)
NOBODY = Run(_NO_CODES, NONE, NONE)
