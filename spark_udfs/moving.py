"""The tasks of ``rescale`` and ``change``, which write the state of a query anew under another number of partitions or
another name.

They are plain functions, so that tests run them without Spark. ``moves`` has what both places remember of each other.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from slicing import Spec
from slicing.exchange import operator_of, state_of
from slicing.lifecycle.change import complete_from, given_for, moved, whole_from
from spark_udfs import moves
from spark_udfs.checkpoint import Checkpoint
from spark_udfs.engines import AnySpec, engine
from spark_udfs.stages import Batches
from spark_udfs.state import Place
from spark_udfs.versions import Files, StateError

ANSWERS = pa.schema([("place", pa.int32()), ("answer", pa.binary())])
PIECES = pa.schema([("place", pa.int32()), ("part", pa.int32()), ("piece", pa.binary()), ("error", pa.binary())])
REFUSALS = (StateError, ValueError, TypeError)


@dataclass(frozen=True)
class Change:
    """The three rounds of :func:`change` over all places: latest time, when added parts are complete, new state."""

    spec: Spec
    changed: Spec
    old: Files
    new: Files
    checkpoint: Checkpoint
    columns: pa.Schema | None

    def done(self, ask: Callable[[Callable[[int], Any]], list[Any]]) -> dict[str, dict[str, Any]]:
        """Run all rounds; ``ask`` calls a function for each place and returns all its answers."""
        if self.new.name == self.old.name:
            where = f"{self.old.root}/{self.old.name}"
            raise StateError(f"{where} cannot be changed: its new name must be another one than {self.old.name!r}")
        newest = max((time for time in ask(self.newest) if time is not None), default=None)
        found = ask(lambda place: self.whole_from(place, newest))
        since, agg_since = ({n: max(ticks[i][n] for ticks in found) for n in found[0][i]} for i in (0, 1))
        starts: dict[str, dict[str, Any]] = ask(lambda place: self.write(place, newest, since, agg_since))[0]
        return starts

    def newest(self, place: int) -> int | None:
        """The latest time of the rows that a place has seen."""
        newest: int | None = _going_on(self.old, self.checkpoint, place).header(self.checkpoint.done)["newest"]
        return newest

    def whole_from(self, place: int, newest: int | None) -> tuple[dict[str, int], dict[str, int]]:
        """The starts from which on added parts would be complete, if there were this place alone."""
        _, operator, _ = Place(self.old, self.checkpoint.query, place).restore(self.spec, self.checkpoint.done)
        state = state_of(operator).but(newest=newest)
        return whole_from(state, self.changed, given_for(state, self.changed, self.columns))

    def write(
        self, place: int, newest: int | None, since: dict[str, int], agg_since: dict[str, int]
    ) -> dict[str, dict[str, Any]]:
        """Publish the state of the place for the changed spec."""
        _, operator, _ = Place(self.old, self.checkpoint.query, place).restore(self.spec, self.checkpoint.done)
        state = state_of(operator).but(newest=newest)
        state = moved(state, self.changed, given_for(state, self.changed, self.columns), since, agg_since)
        _begun_anew(self.old, self.new, self.checkpoint, place).write(operator_of(state), self.checkpoint.done)
        return complete_from(self.spec, [state])


def pieces(spec: AnySpec, old: Files, checkpoint: Checkpoint, to: int, numbers: Batches) -> Iterator[pa.RecordBatch]:
    """The state of some places, split into pieces for ``to`` places."""
    for batch in numbers:
        for part in batch.column(0).to_pylist():
            try:
                place = _going_on(old, checkpoint, part)
                header, operator, _ = place.restore(spec, checkpoint.done)
                if "spread" in header:
                    raise StateError(
                        f"{old.root}/{old.name} has spread={header['spread']!r}: a key's rows lie in several places, "
                        "and such a query keeps its number of partitions"
                    )
                for target, some in enumerate(engine(spec).split(operator, to)):
                    yield row_of(PIECES, target, part, some.snapshot(), None)
            except REFUSALS as error:
                for target in range(to):
                    yield row_of(PIECES, target, part, None, pickle.dumps(error))


def put_together(
    spec: AnySpec, old: Files, new: Files, checkpoint: Checkpoint, batches: Batches
) -> Iterator[pa.RecordBatch]:
    """Publish the pieces of each place as its state."""
    rows = [row for batch in batches for row in batch.to_pylist()]
    for place in sorted({row["place"] for row in rows}):
        of_place = sorted((row for row in rows if row["place"] == place), key=lambda row: int(row["part"]))
        errors = [row["error"] for row in of_place if row["error"] is not None]
        if not errors:
            some = [engine(spec).restore(spec, row["piece"]) for row in of_place]
            _begun_anew(old, new, checkpoint, place).write(engine(spec).joined(some), checkpoint.done)
        yield row_of(ANSWERS, place, errors[0] if errors else pickle.dumps(None))


def _begun_anew(old: Files, new: Files, checkpoint: Checkpoint, number: int) -> Place:
    """A place to which a query moves. It goes on, so an end that is marked there is one that it went back from."""
    place = Place(new, checkpoint.query, number)
    place.forget_drained(-1)
    if number == 0:
        moves.note(old, new, checkpoint.query)
    return place


def _going_on(files: Files, checkpoint: Checkpoint, number: int) -> Place:
    """A place of a query that goes on; raises if the query was drained."""
    place = Place(files, checkpoint.query, number)
    ended = place.drained(checkpoint.done)
    if ended is not None:
        raise StateError(f"{files.root}/{files.name} was drained after batch {ended}, which ended its stream")
    return place


def row_of(schema: pa.Schema, *values: Any) -> pa.RecordBatch:
    """One row with these values."""
    columns = [pa.array([value], field.type) for value, field in zip(values, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
