"""Ranges in ticks of the common time: which event times a label reaches, and which rows are done."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slicing.columns.order import distinct
from slicing.joins.features.spec import FeatureSpec
from slicing.joins.within import LEFT, PARTS, RIGHT, Band, Reach, behind
from slicing.system.arrays import LEAST, MOST, Ints
from slicing.times.measure import Measure


@dataclass(frozen=True)
class Span:
    """The events from ``label - far`` to ``label + near``, both inclusive. ``far`` None: all events before the label.

    ``tail``: the far end is floored to a multiple of it; 0: not floored."""

    far: int | None
    near: int
    tail: int

    def reach(self, times: Ints) -> Reach:
        """The smallest and the largest event time that each label reaches."""
        if self.far is None or not self.tail or not times.size:
            return Band(self.far, self.near).reach(times, LEFT)
        lowest, high, _, _ = Band(None, self.near).reach(times, LEFT)
        if int(times.min()) - self.far - self.tail >= LEAST and int(times.max()) - self.far <= MOST:
            low = times - self.far
            low -= low % self.tail
        else:  # an end beyond 64 bits may be floored back into them
            ends = times.astype(object) - self.far
            ends -= ends % self.tail
            low, high = np.clip(ends, LEAST, MOST).astype(np.int64), np.where(ends > MOST, LEAST, high)
        return Reach(np.maximum(lowest, low), high, 0, 0)

    def first(self, watermark: int) -> int | None:
        """The first event time that a label at or after the watermark may reach; None: any time."""
        if self.far is None:
            return None
        low = watermark - self.far
        return low - low % self.tail if self.tail else low


class Ranges:
    """All ranges of a spec, with the methods that the join engine calls on a band."""

    def __init__(self, spec: FeatureSpec, measure: Measure) -> None:
        delay = measure.ticks(spec.delay, "delay")
        self.spans: list[Span] = []
        nears: list[int] = []
        for name, (far, near) in spec.ranges.items():
            low = None if far is None else measure.ticks(far, f"ranges[{name!r}]'s far") + delay
            high = measure.ticks(near, f"ranges[{name!r}]'s near") + delay
            tail = measure.ticks(spec.tail[name], f"tail of {name!r}") if name in spec.tail else 0
            if low is not None and low <= high:
                raise ValueError(f"ranges[{name!r}] holds no time at all: far must be larger than near")
            if spec.closed == "left":
                high += 1
            elif low is not None and not tail:
                low -= 1
            self.spans.append(Span(low, -high, tail))
            nears.append(measure.ticks(near, f"ranges[{name!r}]'s near") + delay)
        self.nearest = max(span.near for span in self.spans)
        open_ended = any(span.far is None for span in self.spans)
        self.farthest = None if open_ended else max(span.far for span in self.spans if span.far is not None)
        self.behind = min(nears)  # how far the watermark of answered labels is ahead of the events' watermark
        tails = {span.tail for span in self.spans if span.tail}
        self.coarsens = len(tails) > 1 or bool(tails and open_ended)  # slices get longer as they get older
        width = 0 if self.farthest is None else self.farthest + max(self.nearest, 0)
        self.step = max(width // PARTS, 1) if width else 0

    def reached(self, times: Ints) -> Reach:
        """The smallest and the largest time of the labels that may reach each event."""
        far = None if self.farthest is None else self.farthest + max(span.tail for span in self.spans)
        return Band(far, self.nearest).reach(times, RIGHT)

    def done(self, side: int, other: int | None) -> int | None:
        """Rows up to this time are done: labels that have all their events, or events that no later label reaches."""
        if other is None:
            return None
        if side == LEFT:
            until = other - self.nearest - 1
        else:
            first = [span.first(other) for span in self.spans]
            if None in first:
                return None
            until = min(time for time in first if time is not None) - 1
        return None if until < LEAST else min(until, MOST)

    def apart(self, first: int) -> int:
        """The time from which events must stay rows: labels from ``first`` on may tell neighbouring events apart."""
        exact = [first - span.far for span in self.spans if span.far is not None and not span.tail]
        return max(LEAST, min([MOST, *exact, *(first + span.near + 1 for span in self.spans)]))

    def slices(self, times: Ints, first: int) -> Ints:
        """For events before ``apart(first)``: the start of each event's slice, which no later label cuts."""
        starts = np.full(times.size, LEAST)
        for span in self.spans:
            end = span.first(first)
            if span.tail and end is not None and end <= MOST:
                rest = times % span.tail
                start = np.where(times < LEAST + rest, LEAST, times - rest)
                starts = np.maximum(starts, np.where(start >= max(LEAST, end), start, LEAST))
        return starts

    def below(self, side: int, others: Ints) -> Ints:
        if side == LEFT:
            return behind(others, self.nearest)
        marks = distinct(others)
        done = [MOST if mark == MOST else self.done(RIGHT, mark) for mark in marks.tolist()]
        before = [LEAST if until is None else min(until, MOST - 1) + 1 for until in done]
        return np.array(before, np.int64)[np.searchsorted(marks, others)]
