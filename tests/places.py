"""Readers and places without Spark: what each is sent, and the operators that it reaches."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa

import slicing as sl
from slicing.exchange import Collector, admit, operator_of, packed, start, state_of
from slicing.lifecycle.change import given_for, moved, whole_from
from slicing.lifecycle.repartition import joined, split
from slicing.lifecycle.state import State


class Places:
    """N places that keep state between batches, and readers in front of them: what Spark does, without it."""

    def __init__(self, built: sl.Spec, schema: pa.Schema, count: int, chance: random.Random, prompt: bool) -> None:
        self.spec, self.schema, self.chance, self.prompt = built, schema, chance, prompt
        self.operators = [start(built, schema) for _ in range(count)]

    def blobs(self, data: pa.RecordBatch) -> list[list[bytes]]:
        """The batch read by one to three readers in pieces, as what each place receives."""
        watermark = state_of(self.operators[0]).watermark
        reader = [self.chance.randrange(3) for _ in range(data.num_rows)]
        found: list[list[bytes]] = [[] for _ in self.operators]
        for number in range(3):
            collector = Collector(self.spec, self.schema, watermark)
            mine = [row for row, by in enumerate(reader) if by == number]
            cut = self.chance.randint(0, len(mine))
            for piece in (mine[:cut], mine[cut:]):
                collector.push(data.take(pa.array(piece, pa.int64())))
            for place, blob in enumerate(packed(collector.parts(), len(self.operators))):
                found[place].append(blob)
        return found

    def push(self, data: pa.RecordBatch) -> list[Any]:
        """What each place gives; at one of them, another each time, it is admitted a second time from a snapshot."""
        received, outs = self.blobs(data), []
        again = self.chance.randrange(len(received))
        other = sl.Operator.restore(self.spec, self.operators[again].snapshot())
        for operator, blobs in zip(self.operators, received, strict=True):
            outs.append(admit(operator, blobs, self.prompt))
        admit(other, self.chance.sample(received[again], len(received[again])), self.prompt)
        assert self.operators[again].snapshot() == other.snapshot()
        return outs

    @property
    def may_rescale(self) -> bool:
        """Windows of the whole stream need one place, whatever comes."""
        return not any(getattr(window, "whole_stream", False) for window in self.spec.windows.values())

    def rescale(self, count: int) -> None:
        states = [state_of(operator) for operator in self.operators]
        pieces = [split(state, count) for state in states]
        self.operators = [operator_of(joined(mine)) for mine in zip(*pieces, strict=True)]

    def change(self, spec: sl.Spec) -> None:
        """The operators of a spec that asks for more or less."""
        states = changed([state_of(operator) for operator in self.operators], spec, self.schema)
        self.spec, self.operators = spec, [operator_of(state) for state in states]


def changed(states: list[State], spec: sl.Spec, columns: pa.Schema | None = None) -> list[State]:
    """The states of all places for a changed spec: the rounds of ``spark_udfs.change``, without files."""
    given = given_for(states[0], spec, columns)
    newest = max((state.newest for state in states if state.newest is not None), default=None)
    states = [state.but(newest=newest) for state in states]
    found = [whole_from(state, spec, given) for state in states]
    since, agg_since = ({name: max(ticks[i][name] for ticks in found) for name in found[0][i]} for i in (0, 1))
    return [moved(state, spec, given, since, agg_since) for state in states]
