"""What one push does with the rows that came: joined with the other side, stored, and let go as watermarks pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from slicing.columns.arrow_out import room
from slicing.columns.key_marks import KeyMarks
from slicing.columns.order import order_by, stable_order
from slicing.joins.arrivals import Rows
from slicing.joins.keep import chosen_still, done_by_key
from slicing.joins.pairs import PIECE, Found, best_pairs, chosen, find
from slicing.joins.plan import JoinPlan
from slicing.joins.progress import Marks
from slicing.joins.rows_out import Block, table_of, tested, times_at
from slicing.joins.sides import GONE, MET, Run, Side, run_of
from slicing.joins.spec import LEFT_ALONE, RIGHT_ALONE
from slicing.joins.within import LEFT, MOST, RIGHT, Band, Reach
from slicing.kernels.band import last_in_order, none_before
from slicing.system.arrays import NONE, Bytes, Ints, Mask


@dataclass(frozen=True, eq=False)
class Task:
    """Rows of one side that are still to be joined, and the watermarks that hold after them."""

    side: int
    rows: Rows | None
    marks: Marks | None = None
    ended: tuple[bool, bool] = (False, False)  # no more rows of the left, of the right side will come


class Step:
    """The tasks of a push: what both sides become, and the results."""

    def __init__(
        self,
        plan: JoinPlan,
        sides: Sequence[Side],
        marks: Marks,
        codes: int,
        most: int | None = None,
        threads: int = 1,
        whole: bool = False,
        by_key: tuple[KeyMarks, KeyMarks] | None = None,
    ) -> None:
        self._by_key = NO_MARKS  # rows that still wait to be joined were judged by others
        self._by_key_last = NO_MARKS if by_key is None else by_key
        self.plan, self.sides, self.marks, self.codes = plan, list(sides), marks, codes
        self._most, self._threads, self._whole = most, threads, whole
        self._blocks: list[Block] = []
        self._alone: tuple[list[Ints], list[Ints]] = ([], [])  # names of rows without a partner
        self._alone_time: tuple[list[Ints], list[Ints]] = ([], [])
        self._matched: list[tuple[Ints, Ints, Ints]] = []  # time and name of left rows, and of their partner or -1
        self.waiting: list[Run] = [NOBODY, NOBODY]  # rows that cannot be shown yet, as a side is unknown
        self.joined = 0
        self._ending = False
        spec = plan.spec
        self._tells = spec.how in LEFT_ALONE or (spec.matches and spec.how == "left"), spec.how in RIGHT_ALONE

    # --- the flow ---------------------------------------------------------------------------------------------------

    def show(self, waiting: Sequence[Run]) -> None:
        """Rows that had to wait for the columns of the other side."""
        for side, rows in enumerate(waiting):
            self._tell(side, rows.name, rows.time)

    def work(self, tasks: Sequence[Task]) -> tuple[Task, ...]:
        """Do what is to be done; what is left when the results are many enough."""
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
        """Join the rows and store them; the part of the task that has to wait."""
        assert task.rows is not None
        rows, side = task.rows, task.side
        own, other = self.sides[side], self.sides[1 - side]
        run, order = run_of(rows.code, rows.time, rows.name, rows.sequence, self.codes, rows.ascending)
        found = None
        if not self.plan.spec.matches and other.runs:
            found = find(self.plan.within, side, run, order, other.runs, self._threads)
            fit = self._fitting(found, len(rows))
            if fit < len(rows):
                if fit:
                    self._take(replace(task, rows=rows.part(0, fit)))
                return replace(task, rows=rows.part(fit, len(rows)))
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
        """Rows that are done when they come are not stored."""
        side = task.side
        until = self._until(side, task.marks, task.ended) if task.marks is not None else None
        if until is not None and len(run) and run.low <= until and self._may_leave(side):
            run, gone = replace(own, gone=0).split(run, until)
            self._left(side, gone)
        self.sides[side] = own.added(run)

    def _advance(self, marks: Marks, ended: tuple[bool, bool]) -> None:
        """Let go what is done at these watermarks."""
        self.marks = marks
        for side in (LEFT, RIGHT):
            until = self._until(side, marks, ended)
            if side == RIGHT and self.plan.spec.matches and not ended[LEFT]:
                of_left = self._by_key[LEFT]
                kept = chosen_still(self.plan, self.sides[LEFT], self.sides[RIGHT], marks, self.codes, of_left)
                self.sides[side] = self.sides[side].without(kept)
            elif self._may_leave(side):
                self.sides[side], gone = self.sides[side].purged(until)
                for rows in gone:
                    self._left(side, rows)
                self._purge_by_key(side)

    def _purge_by_key(self, side: int) -> None:
        """Let go what is done at the marks of keys of the other side."""
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
        """Whether rows of a side that come alone wait for the other side's columns."""
        return any(self._tells[side] and not self.plan.known[1 - side] for side in (LEFT, RIGHT))

    def _may_leave(self, side: int) -> bool:
        """Rows of an as-of join's right side leave otherwise; those that come alone wait for the other's columns."""
        if self._tells[side] and not self.plan.known[1 - side] and not self._ending:
            return False
        return not (side == RIGHT and self.plan.spec.matches and not self._ending)

    def match_in_order(self, left: Rows, right: Rows) -> None:
        """The last partner of each left row of tables in order of time: one walk, nothing is sorted or stored."""
        for side, rows in ((LEFT, left), (RIGHT, right)):
            self._tell(side, rows.keyless, rows.keyless_time)
        place = self._last_of(left, right)
        if right.start != self.sides[RIGHT].base or left.keyless.size:  # not the rows as they came
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

    def _last_of(self, left: Rows, right: Rows) -> Ints:
        """The place among the right rows of each left row's last partner, or -1."""
        band, place = self.plan.within, room(len(left))
        assert isinstance(band, Band)
        reach = Reach(left.time, left.time, 0, 0)
        if (band.before, band.after) != (None, 0):
            reach = band.reach(left.time, LEFT)
        half = len(left) // 2
        known = int(right.time.searchsorted(int(reach.high[half - 1]) + reach.forth, "right")) if half else 0
        last_in_order(
            left.code, reach.high, np.int64(reach.forth), right.code, right.time, np.int64(half), np.int64(known),
            np.full((2, self.codes + 1), -1), place,
        )  # fmt: skip
        if band.before is not None or (band.after is not None and band.after < 0):  # a bound may lie before all times
            none_before(reach.low, np.int64(reach.back), right.time, place)
        return place

    def flush(self) -> None:
        """Both sides have ended."""
        self._ending = True
        for side in (LEFT, RIGHT):
            rows, self.waiting[side] = self.waiting[side], NOBODY
            self._tell(side, rows.name, rows.time)
        self._advance(self.marks, (True, True))

    # --- joining ----------------------------------------------------------------------------------------------------

    def _join(self, side: int, rows: Rows, run: Run, order: Ints, found: Found) -> Run:
        """Give the results of rows that have partners; the rows that are to be stored."""
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
        return list(found.pieces(PIECE))

    def _true(self, block: Block) -> Block:
        """The pairs that ``where`` is true for."""
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
        self.sides[LEFT] = replace(left, flags=flags, gone=left.gone + places.size).swept()
        self._give_met(places)
        return run

    def _give_met(self, places: Ints) -> None:
        if self.plan.spec.how == "semi" and places.size:
            self._blocks.append(Block(places, None))
            self.joined += places.size

    def _any_true(self, rows: Rows, found: Found) -> Mask:
        """Which left rows have a partner that ``where`` is true for."""
        met = np.zeros(len(rows), np.bool_)
        own, other = self.sides[LEFT].base, self.sides[RIGHT].base
        for first, last in found.pieces(PIECE):
            row, partner = found.fill(other, first, last)
            true = tested(self.plan, self.sides, Block(rows.name[row] - own, partner))
            met[row[true]] = True
        return met

    def _first_true(self, rows: Rows, found: Found, flags: Bytes) -> Ints:
        """Left rows that have their first partner among these rows, in the order of those."""
        left, right = self.sides
        gone = (flags & GONE) != 0
        given = []
        for first, last in found.pieces(PIECE):
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
        """Rows have left: give those that come alone, or of an as-of join with their partner."""
        if not gone.name.size:
            return
        if side == LEFT and self.plan.spec.matches:
            self._match(gone)
        elif self._tells[side]:
            own = self.sides[side]
            alone = np.flatnonzero((own.flags[gone.name - own.base] & (MET | GONE)) == 0)
            self._tell(side, gone.name[alone], gone.time[alone])

    def _tell(self, side: int, names: Ints, times: Ints) -> None:
        """Rows without a partner, whatever comes."""
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
        """Left rows with the one partner that each has."""
        spec, right = self.plan.spec, self.sides[RIGHT]
        found = find(self.plan.within, LEFT, gone, np.arange(len(gone)), right.runs, self._threads)
        tests = spec.where is not None and bool(found.hits)  # none: also while no right columns are known
        partner = self._best_true(gone, found) if tests else chosen(spec.match, gone.time, found)
        self._matches(gone.time, gone.name, partner)

    def _matches(self, time: Ints, name: Ints, partner: Ints) -> None:
        has = partner >= 0
        self.joined += int(np.count_nonzero(has))
        if self.plan.spec.how != "left":
            time, name, partner = time[has], name[has], partner[has]
        self._matched.append((time, name, partner))

    def _best_true(self, run: Run, found: Found) -> Ints:
        """Among the partners that ``where`` is true for."""
        left, right = self.sides
        partner = np.full(len(run), -1)
        for first, last in found.pieces(PIECE):
            row, place = found.fill(right.base, first, last)
            true = tested(self.plan, self.sides, Block(run.name[row] - left.base, place))
            row, place = row[true], place[true]
            when = times_at(self.plan.sides[RIGHT], right, place)
            key = when, self._sequence(found, place + right.base), place
            best = best_pairs(self.plan.spec.match, row, run.time[row], key)
            partner[row[best]] = place[best] + right.base
        return partner

    def _sequence(self, found: Found, names: Ints) -> Ints:
        """What orders right rows of equal time."""
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
        """All results, as they are given."""
        blocks = [*self._blocks, *self._of_matches()]
        left = self._lonely(LEFT)
        if left is not None and self._whole:
            blocks = [self._in_place(blocks, left)]
        elif left is not None:
            blocks.append(Block(left, None))
        right = self._lonely(RIGHT)
        if right is not None:
            blocks.append(Block(None, right))
        return table_of(self.plan, self.sides, blocks, self._threads)

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
        """Of tables: left rows without a partner stand among the others, in the order of the data."""
        if self.plan.spec.left_only:
            return Block(lonely, None)
        left = np.concatenate([block.left for block in blocks if block.left is not None] or [NONE])
        right = np.concatenate([block.right for block in blocks if block.right is not None] or [NONE])
        at = np.searchsorted(left, lonely)
        return Block(np.insert(left, at, lonely), np.insert(right, at, -1))


NO_MARKS = KeyMarks(), KeyMarks()
_NO_CODES = np.empty(0, np.int32)
NOBODY = Run(_NO_CODES, NONE, NONE)
