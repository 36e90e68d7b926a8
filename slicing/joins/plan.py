"""The spec of a join, resolved against the columns of both sides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
import pyarrow.types as t

from slicing.columns.arrow_io import no_rows
from slicing.columns.expressions import Derived
from slicing.columns.key_columns import check_key_type
from slicing.columns.typed import Columns, column_type, in_result_type
from slicing.columns.types import decoded, is_binary, is_text, is_view, result_type
from slicing.joins.spec import JoinSpec
from slicing.joins.within import LEFT, RIGHT, Band, Windows, Within, bound
from slicing.query.type_checks import check_sequence
from slicing.query.watermark import Watermark
from slicing.system.arrays import Ints
from slicing.system.lazy import lazy
from slicing.times.durations import NS, Duration
from slicing.times.measure import Measure

WORDS = "both columns must have one type, but for the width of integers of one signedness, the form of \
text, and the unit of time"


@dataclass(frozen=True)
class Source:
    """Where a result column comes from: a column of the left, of the right, or (merged keys) of both."""

    name: str
    left: str | None
    right: str | None
    type: pa.DataType


class TwoSidedSpec(Protocol):
    """What the specs of joins and features have in common."""

    @property
    def sides(self) -> tuple[str, str]:
        """The names of both streams."""

    @property
    def on(self) -> tuple[tuple[str, str], ...]: ...

    @property
    def time(self) -> tuple[str, str]: ...

    @property
    def watermark(self) -> tuple[Watermark, Watermark]: ...

    @property
    def idle(self) -> Duration | int | None: ...

    @property
    def progress(self) -> str: ...

    @property
    def nulls_equal(self) -> bool: ...

    @property
    def sequence(self) -> str | None: ...

    @property
    def on_null_time(self) -> str: ...

    @property
    def schemas(self) -> tuple[pa.Schema, pa.Schema] | None: ...

    def spans(self) -> list[tuple[str, Duration | int]]: ...

    def fingerprint(self) -> str: ...


def _called(spec: TwoSidedSpec, side: int) -> str:
    """What errors call a side."""
    title = spec.sides[side]
    return f"{title} side" if title in ("left", "right") else title


class SidePlan:
    """The columns of one side: which are read, which are kept, and how its times are converted to common ticks."""

    def __init__(self, spec: TwoSidedSpec, side: int, schema: pa.Schema, known: bool) -> None:
        self.side, self.schema, self.known = side, schema, known
        self.title, self.called = spec.sides[side], _called(spec, side)
        self.time = spec.time[side]
        self.on = [pair[side] for pair in spec.on]
        self.policy = spec.watermark[side]
        self.measure = Measure.of(column_type(schema, self.time, f"the {self.called}"), self.time)
        self.keys = [column_type(schema, name, f"the {self.called}") for name in self.on]
        for name, type in zip(self.on, self.keys, strict=True):
            check_key_type(name, type)
        for name in schema.names:
            column_type(schema, name, f"the {self.called}")  # raises for names that occur twice
        if known:
            types = {name: column_type(schema, name) for name in self.policy.columns()}
            for argument, span in self.policy.spans().items():
                self.measure.ticks(span, f"{self.title} {argument}")
            self.policy.check(types, self.measure)
            by = getattr(self.policy, "by", ())
            if by and sorted(by) != sorted(self.on):
                raise ValueError(
                    f"watermark={self.policy!r} of the {self.called} marks keys of {', '.join(by)}; by must name the "
                    f"key columns: {', '.join(self.on) or 'there are none'}"
                )
        self.columns = Columns({field.name: field.type for field in schema})
        self.types = {field.name: result_type(field.type) for field in schema}
        self.factor = 1  # common ticks in one tick of this side
        self.kept: list[str] = []  # columns of the payload

    def payload(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The columns that results need, in their result types."""
        columns = [batch.column(name) for name in self.kept]
        columns = [c if c.type == self.types[n] else in_result_type(c) for n, c in zip(self.kept, columns, strict=True)]
        return pa.RecordBatch.from_arrays(columns, self.kept)

    def with_views(self) -> None:
        """Keep views as they are, for results that go to Polars, which has them too."""
        self.types |= {f.name: f.type for f in self.schema if is_view(f.type) and f.name not in self.on}


class TwoSides:
    """What the plans of joins and features share. A side that is not ``known`` yet is assumed to be like the other."""

    within: Within
    sequence: str | None = None  # a column that orders right rows of equal time
    tests_right = False  # whether right rows can be found unfit when they arrive

    def __init__(self, spec: TwoSidedSpec, left: pa.Schema, right: pa.Schema, known: tuple[bool, bool]) -> None:
        self.known, self.common_spec = known, spec
        self.sides = (SidePlan(spec, LEFT, left, known[LEFT]), SidePlan(spec, RIGHT, right, known[RIGHT]))
        self.measure = self._common_time()
        self.key_types = self._common_keys()
        self.idle = None if spec.idle is None else self.measure.ticks(spec.idle, "idle")

    def check_times(self, times: Ints, side: SidePlan) -> None:
        """Raise for rows in time whose results could not be shown."""

    def _common_time(self) -> Measure:
        left, right = (side.measure for side in self.sides)
        both = f"time columns {self.sides[0].time!r} ({left.type}) and {self.sides[1].time!r} ({right.type})"
        common = _common(left.type, right.type)
        if common is None or left.is_integer != right.is_integer:
            raise TypeError(f"{both} cannot be compared: {_why_not(left.type, right.type)}; cast one of them")
        measure = Measure.of(common, self.sides[0].time)
        if not measure.is_integer:
            for side in self.sides:
                side.factor = side.measure.word_ns // measure.word_ns
        return measure

    def _common_keys(self) -> list[pa.DataType]:
        """The types in which keys of both sides are compared."""
        found = []
        pairs = zip(self.sides[0].on, self.sides[1].on, self.sides[0].keys, self.sides[1].keys, strict=True)
        for left_name, right_name, left, right in pairs:
            common = _common(decoded(left), decoded(right))
            if common is None:
                raise TypeError(
                    f"key columns {left_name!r} ({left}) and {right_name!r} ({right}) cannot be compared: "
                    f"{_why_not(decoded(left), decoded(right))}; cast one of them"
                )
            found.append(common)
        return found


class JoinPlan(TwoSides):
    """Both sides resolved: common types, result columns, the condition of partners.

    If only one side's columns are ``known`` yet, the other side is assumed to have the same time and key types.
    """

    def __init__(
        self, spec: JoinSpec, left: pa.Schema, right: pa.Schema, known: tuple[bool, bool], views: bool = False
    ) -> None:
        super().__init__(spec, left, right, known)
        for side in self.sides if views and spec.where is None else ():  # Arrow computes little with views
            side.with_views()
        self.spec, self.sequence = spec, spec.sequence
        self.within: Band | Windows = bound(spec, self.measure, all(known))
        if spec.sequence is not None and known[RIGHT]:
            check_sequence(spec.sequence, column_type(right, spec.sequence))
        self.sources = self._sources()
        self.output = pa.schema([(source.name, source.type) for source in self.sources])
        if spec.windowed and not spec.left_only:
            self.output = pa.schema([*((name, self.measure.type) for name in WINDOW), *self.output])
        if spec.event_time in ("max", "min"):
            self.output = self.output.append(pa.field("event_time", self.measure.type))
        self._check_names()
        self.where_sources: list[Source] = []
        self.where_made: list[str] = []  # columns that `where` reads and that neither side has
        if spec.where is not None and all(known):
            self.where_sources = self._tested(spec.where)
        self.tests_right = spec.where is not None and spec.match == "last" and all(known) and self.where_is_right
        self._keep_columns()

    def check_times(self, times: Ints, side: SidePlan) -> None:
        if isinstance(self.within, Windows):
            self.within.check(times, f"time column {side.time!r} of the {side.called}", not self.spec.left_only)

    @staticmethod
    def of(spec: JoinSpec, left: pa.Schema | None, right: pa.Schema | None, views: bool = False) -> JoinPlan:
        """The plan for the known schemas; at least one side must be known. ``views``: results may have views."""
        return JoinPlan(spec, *both_known(spec, left, right), views)

    @property
    def where_is_right(self) -> bool:
        """Whether the condition reads only right columns (or keys, which are equal on both sides)."""
        return not self.where_made and all(source.right is not None for source in self.where_sources)

    def empty(self) -> pa.Table:
        """A table without rows, with the columns that are known."""
        return no_rows(self.shown)

    @lazy
    def shown(self) -> pa.Schema:
        """The result columns; columns of a side that is still unknown are left out."""
        hidden = {s.name for s in self.sources if s.left is None and not self.known[RIGHT]}
        hidden |= {s.name for s in self.sources if s.right is None and not self.known[LEFT]}
        return pa.schema([field for field in self.output if field.name not in hidden])

    def _sources(self) -> list[Source]:
        left, right = self.sides
        merged = {name for name, other in self.spec.on if name == other}
        common = dict(zip([name for name, _ in self.spec.on], self.key_types, strict=True))
        found = []
        for name, type in left.types.items():
            if name in merged:
                found.append(Source(name, name, name, _merged(type, right.types[name], common[name])))
            else:
                found.append(Source(name, name, None, type))
        for name, type in right.types.items():
            if name not in merged:
                shown = name + self.spec.suffix if name in left.types else name
                found.append(Source(shown, None, name, type))
        self.all_sources = found
        return [s for s in found if s.left is not None] if self.spec.left_only else found

    def _check_names(self) -> None:
        seen: set[str] = set()
        for name in [*self.output.names, *(s.name for s in self.all_sources if s not in self.sources)]:
            if name in seen:
                raise ValueError(
                    f"the result would have two columns {name!r} (right columns that the left has too get "
                    f"suffix={self.spec.suffix!r}); rename one of them or choose another suffix"
                )
            seen.add(name)

    def _tested(self, where: Derived) -> list[Source]:
        """The columns that ``where`` reads. Raises if ``where`` cannot be evaluated."""
        made = [self.output.field(name) for name in MADE if name in self.output.names]
        made = [field for field in made if all(s.name != field.name for s in self.sources)]
        _try(where, pa.schema([*((s.name, s.type) for s in self.all_sources), *made]))
        self.where_made = [field.name for field in made if field.name in where.fields]
        return [s for s in self.all_sources if s.name in where.fields]

    def _keep_columns(self) -> None:
        needed = [*self.sources, *self.where_sources]
        if not all(self.known):  # a side is unknown, so any column may be needed
            needed = self.all_sources
        for number, side in enumerate(self.sides):
            names = {(s.left, s.right)[number] for s in needed}
            if self.spec.left_only and number == RIGHT and all(self.known):
                names = {s.right for s in self.where_sources if s.left is None}
            side.kept = [name for name in side.schema.names if name in names]


WINDOW = ("window_start", "window_end")
MADE = (*WINDOW, "event_time")


def _try(where: Derived, schema: pa.Schema) -> None:
    try:
        no_rows(schema).filter(where.computing(schema))
    except pa.ArrowTypeError as error:
        raise TypeError(f"where={where} must be true or false for a pair: {error}") from None
    except pa.ArrowInvalid as error:
        raise ValueError(
            f"where={where} cannot be asked of the result's columns {', '.join(schema.names)}: "
            f"{str(error).splitlines()[0]}"
        ) from None
    except pa.ArrowNotImplementedError as error:
        raise TypeError(f"where={where} cannot be evaluated: {error}") from None


def both_known(
    spec: TwoSidedSpec, left: pa.Schema | None, right: pa.Schema | None
) -> tuple[pa.Schema, pa.Schema, tuple[bool, bool]]:
    """The schemas of both sides and which are known; an unknown schema is assumed to be like the other one."""
    known = left is not None, right is not None
    if left is None:
        assert right is not None
        left = _alike(spec, right, LEFT)
    return left, _alike(spec, left, RIGHT) if right is None else right, known


def _alike(spec: TwoSidedSpec, other: pa.Schema, side: int) -> pa.Schema:
    """The columns that a join needs of an unknown side, with the types of the other side."""
    called = f"the {_called(spec, 1 - side)}"
    names = {spec.time[side]: _in_coarsest_unit(spec, column_type(other, spec.time[1 - side], called))}
    for pair in spec.on:
        names.setdefault(pair[side], column_type(other, pair[1 - side], called))
    return pa.schema(list(names.items()))


def _in_coarsest_unit(spec: TwoSidedSpec, type: pa.DataType) -> pa.DataType:
    """The type, in the coarsest unit that all spans fit: the unknown side's time may have such a unit."""
    if not t.is_timestamp(type):
        return type
    spans = [span.ns for _, span in spec.spans() if isinstance(span, Duration)]
    units = (unit for unit in ("s", "ms", "us", "ns") if NS[unit] <= NS[type.unit])
    unit = next((unit for unit in units if not any(span % NS[unit] for span in spans)), type.unit)
    return pa.timestamp(unit, type.tz)


def _common(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """The type in which values of both types are compared; None if they cannot be compared."""
    if left == right:
        return left
    if t.is_integer(left) and t.is_integer(right):
        if t.is_signed_integer(left) != t.is_signed_integer(right):
            return None
        return max(left, right, key=lambda type: type.bit_width)
    if t.is_timestamp(left) and t.is_timestamp(right) and (left.tz is None) == (right.tz is None):
        return pa.timestamp(_finer(left.unit, right.unit), left.tz)
    if t.is_duration(left) and t.is_duration(right):
        return pa.duration(_finer(left.unit, right.unit))
    if (t.is_time(left) and t.is_time(right)) or (t.is_date(left) and t.is_date(right)):
        return max(left, right, key=lambda type: -NS[type.unit] if t.is_time(type) else int(t.is_date64(type)))
    if is_text(left) and is_text(right):
        return pa.large_string()
    return pa.large_binary() if is_binary(left) and is_binary(right) else None


def _finer(one: str, other: str) -> str:
    return min(one, other, key=NS.__getitem__)


def _why_not(left: pa.DataType, right: pa.DataType) -> str:
    if t.is_timestamp(left) and t.is_timestamp(right):
        return "one has a time zone and the other has none"
    return WORDS


def _merged(left: pa.DataType, right: pa.DataType, common: pa.DataType) -> pa.DataType:
    """The type of a key column that both sides fill."""
    if left == right:
        return left
    plain = decoded(left), decoded(right)
    if is_text(common) or is_binary(common):
        large = any(t.is_large_string(type) or t.is_large_binary(type) for type in plain)
        text = is_text(common)
        return (pa.large_string() if text else pa.large_binary()) if large else pa.string() if text else pa.binary()
    return common
