"""Joins by definition, in plain Python, step by step: every row is kept for ever and every pair is looked at."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

INF = 1 << 80


@dataclass
class Row:
    side: int
    time: int
    key: Any
    arrival: int
    value: int
    sequence: int
    met: bool = False
    left: bool = False  # the state


@dataclass
class Naive:
    """One join: ``before`` and ``after`` with both ends closed (None: unbounded), or ``size`` of windows."""

    how: str
    before: int | None = 0
    after: int | None = 0
    size: int | None = None
    match: str = "all"
    delays: tuple[int, int] = (0, 0)
    idle: int | None = None
    least: bool = False
    nulls_equal: bool = False
    where: Any = None  # a function of two rows
    about: str = "left"
    sequenced: bool = False
    pairwise: bool = False  # whether ``where`` reads left columns
    newest: list = field(default_factory=lambda: [None, None])
    rows: tuple[list, list] = field(default_factory=lambda: ([], []))
    number: list = field(default_factory=lambda: [0, 0])
    key_marks: tuple[dict, dict] = field(default_factory=lambda: ({}, {}))

    # --- definitions ---

    def mark(self, side: int, key: Any) -> int | None:
        """The watermark of a key: the larger of the stream's and its own."""
        found = [mark for mark in (self.marks()[side], self.key_marks[side].get(key)) if mark is not None]
        return max(found, default=None)

    def mark_keys(self, side: int, marks: list) -> list:
        """No more rows of a key before a time; None: no more rows at all."""
        for key, time in marks:
            if key is not None or self.nulls_equal:
                mark = 2 * INF if time is None else time
                self.key_marks[side][key] = max(mark, self.key_marks[side].get(key, mark))
        return self.purge()

    def marks(self) -> list:
        own = [None if n is None else n - d for n, d in zip(self.newest, self.delays, strict=True)]
        if self.idle is not None:
            pairs = [(own[0], own[1]), (own[1], own[0])]
            own = [
                max((m for m in (a, None if b is None else b - self.idle) if m is not None), default=None)
                for a, b in pairs
            ]
        if self.least:
            own = [None, None] if None in own else [min(own)] * 2
        return own

    def in_reach(self, left: Row, right: Row) -> bool:
        if self.size is not None:
            return left.time // self.size == right.time // self.size
        low = -INF if self.before is None else left.time - self.before
        high = INF if self.after is None else left.time + self.after
        return low <= right.time <= high

    def partners(self, left: Row, right: Row) -> bool:
        same = left.key == right.key and (left.key is not None or self.nulls_equal)
        return same and self.in_reach(left, right) and (self.where is None or self.where(left, right))

    def end(self, row: Row) -> int:
        """The last time of the other side that the row reaches."""
        if self.size is not None:
            return (row.time // self.size + 1) * self.size - 1
        ahead = self.after if row.side == 0 else self.before
        return INF if ahead is None else row.time + ahead

    # --- steps ---

    def push(self, batches: dict) -> tuple[list, dict]:
        """Results as (left arrival or None, right arrival or None), and late rows' arrivals by side."""
        out, late = [], {}
        for side, batch in sorted(batches.items()):
            late[side] = []
            new = []
            for time, key, value in batch:
                mark = self.mark(side, key)
                row = Row(side, time, key, self.number[side], value, value if self.sequenced and side else 0)
                self.number[side] += 1
                if mark is not None and time < mark:
                    late[side].append(row.arrival)
                    continue
                new.append(row)
            for row in new:
                out += self.joined(row)
            self.rows[side].extend(new)
        for side, batch in batches.items():
            for time, *_ in batch:
                self.newest[side] = time if self.newest[side] is None else max(self.newest[side], time)
        return out + self.purge(), late

    def advance(self, left: int | None = None, right: int | None = None) -> list:
        for side, mark in enumerate((left, right)):
            if mark is not None:
                new = mark + self.delays[side]
                self.newest[side] = new if self.newest[side] is None else max(self.newest[side], new)
        return self.purge()

    def joined(self, row: Row) -> list:
        out = []
        if self.match != "all":
            return out
        others = [r for r in self.rows[1 - row.side] if not (r.left and self.how in ("semi", "anti") and r.side == 0)]
        for other in sorted(others, key=lambda r: (r.time, r.arrival)):
            left, right = (row, other) if row.side == 0 else (other, row)
            if not self.partners(left, right):
                continue
            if self.how in ("semi", "anti"):
                if not left.left and not left.met and self.how == "semi":
                    out.append((left.arrival, None))
                left.met = left.left = True
            else:
                left.met = right.met = True
                out.append((left.arrival, right.arrival))
        return out

    def best(self, left: Row) -> Row | None:
        found = [r for r in self.rows[1] if self.partners(left, r)]
        if not found:
            return None
        if self.match == "first":
            return min(found, key=lambda r: (r.time, r.sequence, r.arrival))
        if self.match == "last":
            return max(found, key=lambda r: (r.time, r.sequence, r.arrival))
        return min(found, key=lambda r: (abs(r.time - left.time), r.time, -r.sequence, -r.arrival))

    def purge(self, ended: bool = False) -> list:
        out: list = []
        for side in (0, 1):
            leaving = []
            for row in self.rows[side]:
                other = self.mark(1 - side, row.key)
                keyless = row.key is None and not self.nulls_equal
                done = ended or keyless or (other is not None and other > self.end(row))
                if side == 1 and self.match != "all" and not ended and not keyless:
                    done = self.useless(row, self.mark(0, row.key))
                if done and not row.left:
                    row.left = True
                    leaving.append(row)
            for row in sorted(leaving, key=lambda r: (r.time, r.arrival)):
                if side == 0 and self.match != "all":
                    best = self.best(row)
                    if best is not None or self.how == "left":
                        out.append((row.arrival, None if best is None else best.arrival))
                elif not row.met and side == 0 and self.how in ("left", "full", "anti"):
                    out.append((row.arrival, None))
                elif not row.met and side == 1 and self.how in ("right", "full"):
                    out.append((None, row.arrival))
        return out

    def useless(self, right: Row, mark: int | None) -> bool:
        """No left row, waiting or still to come, may choose this right row."""
        waiting = [r for r in self.rows[0] if not r.left and r.key == right.key]
        by_time = mark is not None and mark > self.end(right) and not any(self.in_reach(r, right) for r in waiting)
        if self.match != "last" or mark is None or self.pairwise:
            return by_time
        least = min([mark, *(r.time for r in waiting)])
        limit = INF if self.after is None else least + self.after
        order = (right.time, right.sequence, right.arrival)
        others = [r for r in self.rows[1] if r.key == right.key and (self.where is None or self.where(None, r))]
        return by_time or any((r.time, r.sequence, r.arrival) > order and r.time <= limit for r in others)

    def flush(self) -> list:
        return self.purge(ended=True)

    def whole(self) -> list:
        """All of the rows that were kept, as two tables: left rows in their order, then right rows alone in theirs."""
        out = []
        for left in self.rows[0]:
            found = [r for r in self.rows[1] if self.partners(left, r)]
            if self.how in ("semi", "anti"):
                out += [(left.arrival, None)] * (bool(found) == (self.how == "semi"))
                continue
            out += [(left.arrival, r.arrival) for r in sorted(found, key=lambda r: (r.time, r.arrival))]
            out += [(left.arrival, None)] * (not found and self.how in ("left", "full"))
        if self.how in ("right", "full"):
            alone = [r for r in self.rows[1] if not any(self.partners(left, r) for left in self.rows[0])]
            out += [(None, r.arrival) for r in alone]
        return out

    @property
    def held(self) -> int:
        return sum(not row.left for side in self.rows for row in side)

    def reached(self) -> int | None:
        left, right = self.marks()
        if left is None or right is None:
            return None
        if self.size is not None:
            floor = [m // self.size * self.size for m in (left, right)]
            alone, right_alone = min(left, floor[1]), min(right, floor[0])
            bounds = {"left": [alone], "right": [right_alone], "min": floor, "window": floor, "max": [left, right]}
        else:
            b, a = self.before, self.after
            if a is None:
                return None
            alone = min(left, right - a)
            if self.match != "all":
                if self.about == "left" or (self.about == "max" and self.how == "left"):
                    return alone
                if self.about == "max":
                    return alone + (0 if b is None else max(0, -b))
                return None if b is None else alone - (b if self.about == "right" else max(0, b))
            right_alone = min(right, left - b)
            bounds = {
                "left": [alone],
                "right": [right_alone],
                "max": [left + max(0, -b), right + max(0, -a)],
                "min": [left - max(0, b), right - max(0, a)],
            }
        found = bounds[self.about]
        if self.about in ("max", "min"):
            found = found + ([alone] if self.how in ("left", "full", "anti") else [])
            found = found + ([right_alone] if self.how in ("right", "full") else [])
        return min(found)
