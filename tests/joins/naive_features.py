"""Features by definition, in plain Python, step by step: every event is kept for ever and every label looks at all."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

LEAST = -(1 << 63)
MOST = (1 << 63) - 1


@dataclass
class Row:
    time: int
    key: object
    number: int  # of its side, in order of arrival
    values: dict
    gone: bool = False


@dataclass
class Naive:
    """``ranges``: (far or None, near) by name; ``tails``: the step of a floored far end by name."""

    ranges: dict
    closed: str = "left"
    delay: int = 0
    tails: dict = field(default_factory=dict)
    wait: bool = True
    delays: tuple = (0, 0)
    idle: int | None = None
    newest: list = field(default_factory=lambda: [None, None])
    rows: tuple = field(default_factory=lambda: ([], []))  # labels, events in time
    number: list = field(default_factory=lambda: [0, 0])
    of_key: tuple = field(default_factory=lambda: ({}, {}))  # marks of single keys

    # --- definitions ---

    def marks(self) -> list:
        own = [None if n is None else n - d for n, d in zip(self.newest, self.delays, strict=True)]
        if self.idle is None:
            return own
        behind = [None if mark is None else mark - self.idle for mark in own]
        pairs = [(own[0], behind[1]), (own[1], behind[0])]
        return [max((mark for mark in pair if mark is not None), default=None) for pair in pairs]

    def mark(self, side: int, key: object) -> float | None:
        """The watermark of a key: its stream's, or its own mark if that is later."""
        known = [m for m in (self.marks()[side], self.of_key[side].get(key)) if m is not None]
        return max(known, default=None)

    def far_end(self, name: str, label: int) -> int | None:
        """None: there is none."""
        far, _ = self.ranges[name]
        if far is None:
            return None
        end = label - self.delay - far
        return end // self.tails[name] * self.tails[name] if name in self.tails else end

    def holds(self, name: str, label: int, event: int) -> bool:
        far, near = self.far_end(name, label), label - self.delay - self.ranges[name][1]
        if self.closed == "left":
            return event < near and (far is None or event >= far)
        inclusive = name in self.tails
        return event <= near and (far is None or event > far or (inclusive and event == far))

    def reached(self, name: str, label: Row) -> list:
        if label.key is None:
            return []
        return [e for e in self.rows[1] if e.key == label.key and self.holds(name, label.time, e.time)]

    def complete(self, label: Row) -> bool:
        mark = self.mark(1, label.key)
        if label.key is None or not self.wait:
            return True
        near = label.time - self.delay - min(near for _, near in self.ranges.values())
        return mark is not None and (mark >= near if self.closed == "left" else mark > near)

    def useless(self, event: Row) -> bool:
        """No label, waiting or still to come, reaches it. A later label reaches it in a range if the first label that
        may come does not leave it behind: the near end goes on for ever."""
        if event.key is None:
            return True
        mark = self.mark(0, event.key)
        waiting = [label for label in self.rows[0] if not label.gone and label.key == event.key]
        if any(self.holds(name, label.time, event.time) for label in waiting for name in self.ranges):
            return False
        if mark is None:
            return False
        if mark == inf:
            return True
        for name in self.ranges:
            far = self.far_end(name, mark)
            if far is None or event.time > far:
                return False
            if event.time == far and (self.closed == "left" or name in self.tails):
                return False
        return True

    # --- steps ---

    def push(self, batches: dict) -> tuple[list, dict]:
        """Labels that are answered, each with its events by range; late rows' numbers by side."""
        late: dict = {}
        before = [{key: self.mark(side, key) for _, key, _ in batch} for side, batch in sorted(batches.items())]
        for (side, batch), marks in zip(sorted(batches.items()), before, strict=True):
            late[side] = []
            for time, key, values in batch:
                row = Row(time, key, self.number[side], values)
                self.number[side] += 1
                if marks[key] is not None and time < marks[key]:
                    late[side].append(row.number)
                else:
                    self.rows[side].append(row)
            for time, *_ in batch:
                self.newest[side] = time if self.newest[side] is None else max(self.newest[side], time)
        return self.settle(), late

    def advance(self, labels: int | None = None, events: int | None = None, of_key: tuple = ((), ())) -> list:
        """``of_key``: pairs of a key and its mark (None: no more rows at all), of both sides."""
        for known, new_marks in zip(self.of_key, of_key, strict=True):
            for key, mark in new_marks:
                if key is not None:
                    known[key] = max(known.get(key, -inf), inf if mark is None else mark)
        for side, mark in enumerate((labels, events)):
            if mark is not None:
                new = mark + self.delays[side]
                self.newest[side] = new if self.newest[side] is None else max(self.newest[side], new)
        return self.settle()

    def settle(self, ended: bool = False) -> list:
        out = []
        for label in sorted(self.rows[0], key=lambda row: (row.time, row.number)):
            if not label.gone and (ended or self.complete(label)):
                out.append(label)
        for label in out:
            label.gone = True
        return [(label, {name: self.reached(name, label) for name in self.ranges}) for label in out]

    def whole(self) -> list:
        return [(label, {name: self.reached(name, label) for name in self.ranges}) for label in self.rows[0]]

    @property
    def waiting(self) -> int:
        return sum(not label.gone for label in self.rows[0])

    def kept(self) -> int:
        """Sets aside, once and for all, what nobody can reach any more."""
        for event in self.rows[1]:
            event.gone = event.gone or self.useless(event)
        return sum(not event.gone for event in self.rows[1])

    def sliced(self) -> tuple:
        """Of the events that are kept: how many are rows, and how many slices the others are."""
        kept = self.kept()
        mark = self.marks()[0]
        if not self.tails or mark is None:
            return kept, 0
        first = min([mark, *(label.time for label in self.rows[0] if not label.gone and label.key is not None)])
        events = [event for event in self.rows[1] if not event.gone]
        old = [event for event in events if not self.is_near(event.time, first)]
        return kept - len(old), len({(event.key, self.slice(event.time, first)) for event in old})

    def is_near(self, time: int, first: int) -> bool:
        """Whether a label from ``first`` on has an end that may lie anywhere at this time, or had it before."""
        nears = [first - self.delay - near for _, near in self.ranges.values()]
        fars = [
            self.far_end(n, first) for n, (far, _) in self.ranges.items() if far is not None and n not in self.tails
        ]
        return any(time >= end + (self.closed == "right") for end in (*nears, *fars))

    def slice(self, time: int, first: int) -> int | None:
        """The last floored end of a label from ``first`` on that is not after a time; None: there is none."""
        ends = [(time // step * step, self.far_end(name, first)) for name, step in self.tails.items()]
        return max((end for end, least in ends if end >= least), default=None)

    def watermark(self) -> int | None:
        labels, events = self.marks()
        if labels is None or (self.wait and events is None):
            return None
        near = self.delay + min(near for _, near in self.ranges.values())
        found = min(labels, events + near) if self.wait else labels
        return max(LEAST, min(MOST, found))
