"""A spec of features resolved against the columns of labels and events."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from slicing.aggregates.aggregate import Formula
from slicing.cells.blocks import by_column, identity
from slicing.cells.combining import AUTO
from slicing.columns.arrow_io import no_rows
from slicing.columns.casts import plain
from slicing.columns.expressions import types_of
from slicing.columns.typed import Columns, column_type
from slicing.columns.types import decoded, result_type
from slicing.joins.features.ranges import Ranges
from slicing.joins.features.spec import FeatureSpec
from slicing.joins.plan import SidePlan, TwoSides, both_known
from slicing.joins.within import LEFT, RIGHT
from slicing.query.plan import Plan
from slicing.query.policy import DEFAULT, Policy
from slicing.query.spec import Spec
from slicing.windows.builtin import whole


class EventPlan(SidePlan):
    """The events' columns: keeps the columns that aggregates read, and keeps computed columns as computed."""

    def asks(self, columns: list[str], derived: dict[Any, str]) -> None:
        """Keep these columns; ``derived`` has the ones that expressions compute."""
        plain_types = {name: self.types[name] for name in self.types}
        computed = types_of(plain_types, list(derived)) if derived else {}
        self.columns = Columns({field.name: field.type for field in self.schema} | computed, derived)
        self.types |= computed
        self.kept = columns

    def payload(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        _, columns = self.columns.of(batch)
        arrays = []
        for name in self.kept:
            column, type = plain(columns[name]), decoded(self.types[name])
            arrays.append(column if column.type == type else column.cast(type))
        return pa.RecordBatch.from_arrays(arrays, self.kept)


class FeaturePlan(TwoSides):
    """Labels and events resolved: common types, ranges in ticks, aggregates and the columns of results."""

    within: Ranges

    def __init__(
        self,
        spec: FeatureSpec,
        labels: pa.Schema,
        events: pa.Schema,
        known: tuple[bool, bool],
        policy: Policy,
        views: bool = False,
    ) -> None:
        super().__init__(spec, labels, events, known)
        if views:
            self.sides[LEFT].with_views()
        self.spec, self.policy = spec, policy
        self.within = Ranges(spec, self.measure)
        side = EventPlan(spec, RIGHT, events, known[RIGHT])
        side.factor = self.sides[RIGHT].factor
        self.sides = self.sides[LEFT], side
        self.aggs = self._aggregates(side) if known[RIGHT] else None
        labels_side = self.sides[LEFT]
        labels_side.kept = list(labels_side.schema.names) if known[LEFT] else []
        self.output = self._output(labels_side)
        # old events are kept as slices if some far ends are floored and no partial holds rows
        self.sliced = bool(spec.tail) and all(known) and self.aggs is not None and of_fixed_size(self.aggs)

    @staticmethod
    def of(
        spec: FeatureSpec,
        labels: pa.Schema | None,
        events: pa.Schema | None,
        policy: Policy = DEFAULT,
        views: bool = False,
    ) -> FeaturePlan:
        """The plan for the schemas that are known; at least one must be. ``views``: columns of labels may be views."""
        return FeaturePlan(spec, *both_known(spec, labels, events), policy, views)

    def empty(self) -> pa.Table:
        """A table of no rows, with the columns that are known."""
        return no_rows(self.output)

    def _aggregates(self, side: EventPlan) -> Plan:
        """The plan of the aggregates, as for a stream in one window: their partials, and how answers are computed."""
        spec = over_events(self.spec)
        types = pa.schema([(name, result_type(column_type(side.schema, name))) for name in side.schema.names])
        plan = Plan.of(spec, types, policy=self.policy)
        side.asks(list(plan.row_columns), plan.derived)
        return plan

    def _output(self, labels: SidePlan) -> pa.Schema:
        fields = [pa.field(name, labels.types[name]) for name in labels.kept]
        if self.aggs is None:
            types = [without_events(agg).type for agg in self.spec.aggs.values()]
        else:
            types = [agg.shown for agg in self.aggs.aggs.values()]
        by_agg = dict(zip(self.spec.aggs, types, strict=True))
        for range_, agg, name in self.spec.names():
            if name in labels.kept:
                raise ValueError(
                    f"the labels have a column {name!r}, as aggs[{agg!r}] in ranges[{range_!r}] has in the result; "
                    "rename one of them"
                )
            fields.append(pa.field(name, by_agg[agg]))
        return pa.schema(fields)


def over_events(spec: FeatureSpec) -> Spec:
    """A spec that computes the aggregates, named by number, over all events in one window."""
    aggs = dict(zip(map(str, range(len(spec.aggs))), spec.aggs.values(), strict=True))
    return Spec(spec.time[RIGHT], {"all": whole()}, aggs, sequence=spec.sequence, on_overflow=spec.on_overflow)


def of_fixed_size(aggs: Plan) -> bool:
    """Whether every partial is a few numbers: none holds values, rows or words of a text."""
    return aggs.combine == AUTO and not aggs.ranked and aggs.all_words


def without_events(agg: Formula) -> pa.Array:
    """The answer of an aggregate without events, before the columns are known: 0 for counts, null otherwise."""
    if not all(part.function in COUNTS for part in agg.parts()):
        return pa.nulls(1)
    bound = agg.bind({name: pa.int64() for part in agg.parts() for name in part.columns()})  # counts are 0 for any type
    return bound.lower([by_column(identity(lane, 1)) for lane in bound.lanes], {}).array


COUNTS = ("count", "count_distinct", "approx_count_distinct", "min_count", "max_count")
