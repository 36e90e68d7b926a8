"""Plan: a spec resolved against a schema: edges, gaps, lanes, and what has to be kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slicing.aggregates.changelog import SIGN, Side
from slicing.cells.blocks import identity
from slicing.cells.sessions import SessionCells
from slicing.cells.table import Cells
from slicing.columns.arrow_io import no_rows
from slicing.columns.arrow_out import Names
from slicing.columns.key_columns import check_key_type
from slicing.columns.signs import check_signs, signs
from slicing.columns.typed import Columns, column_type
from slicing.columns.types import is_plain, result_type
from slicing.kernels.strategies import STRATEGIES
from slicing.query.early import Early
from slicing.query.keep import Kept, kept_for
from slicing.query.partials import Partials
from slicing.query.policy import ADDS_UP, DEFAULT, Policy, only_sums, refusal
from slicing.query.processing_time import ProcessingTime
from slicing.query.rollup import written_in
from slicing.query.routes import Routes, SessionWindow
from slicing.query.row_plan import RowPlan
from slicing.query.spec import Spec
from slicing.query.type_checks import (
    check_flags,
    check_sequence,
    check_span,
    derived_types,
    of_window,
)
from slicing.query.watermark import Ordered
from slicing.system.arrays import Ints, Mask
from slicing.system.lazy import lazy
from slicing.times.measure import Measure
from slicing.windows.bounds import BEGIN, Bound
from slicing.windows.builtin import Session, Whole, Window
from slicing.windows.context_free import ContextFreeWindow
from slicing.windows.edges import EdgeSet
from slicing.windows.rows.bound_rows import BoundRows
from slicing.windows.rows.per_row import PerRow
from slicing.windows.rows.row_windows import Binding, RowWindow

FEWEST_NAMES = 2  # average names a type from which on results of a type are shared between its names
ENDLESS = (1 << 64) - 1
Made = TypeVar("Made")


class Plan(Routes):
    """A spec resolved against the types of its columns."""

    def __init__(
        self,
        spec: Spec,
        schema: pa.Schema,
        arrival: bool = True,
        since: Mapping[str, int] | None = None,
        agg_since: Mapping[str, int] | None = None,
        policy: Policy = DEFAULT,
    ) -> None:
        """``since``: windows that were added to a running stream; windows that start earlier have missed rows.
        ``agg_since``: aggregates that were added; null in windows that start earlier. ``policy``: how to run."""
        self.spec = spec
        self.since = dict(since or {})
        self.agg_since = dict(agg_since or {})
        self.memo: dict[str, Any] = {}
        self._made_alike: dict[str, Any] = {}
        self.policy = policy
        self.arrival = arrival  # False: rows have no order of arrival, and ties go to the smaller value
        given = {name: column_type(schema, name) for name in spec.columns()}
        flags = [name for name, t in given.items() if pa.types.is_dictionary(t) and pa.types.is_boolean(t.value_type)]
        types = given | {name: pa.bool_() for name in flags if name not in spec.by}  # read as booleans
        self.derived = spec.derived()
        types |= derived_types(given, self.derived)
        if isinstance(spec.time, ProcessingTime):
            self.measure = Measure.of(pa.timestamp("us", "UTC"), "processing time")
        else:
            self.measure = Measure.of(types[spec.time], spec.time)
        self.types = types
        self.columns = Columns(types | given, self.derived, [name for name in given if types[name] != given[name]])
        self.unlike = frozenset(name for name, type in types.items() if not is_plain(type))
        self.key_types = [types[name] for name in spec.by]
        for name in spec.by:
            check_key_type(name, types[name])
        check_flags(spec, types)
        if spec.op is not None:
            check_signs(types[spec.op], spec.op)
        if spec.sequence is not None:
            check_sequence(spec.sequence, types[spec.sequence])

        ticks = self.measure.ticks
        self.lateness = ticks(spec.allowed_lateness, "allowed_lateness")
        self.idle = None if spec.idle is None else ticks(spec.idle, "idle")
        for where, span in spec.watermark.spans().items():
            ticks(span, where)
        spec.watermark.check(types, self.measure)

        # windows are numbered in the order of their names, which orders results
        self.names = sorted(spec.windows)
        windows = [spec.windows[name] for name in self.names]
        self.early = Early(spec, self.names, self.measure)
        self._bind_edges(windows)
        self._bind_sessions(windows)
        self._bind_rows(windows, types)
        self.partials = Partials(spec, types, arrival, bool(self.wholes))
        self.aggs, self.lanes, self.ranked = self.partials.aggs, self.partials.lanes, self.partials.ranked

    @staticmethod
    def of(spec: Spec, schema: pa.Schema, arrival: bool = True, policy: Policy = DEFAULT) -> Plan:
        """A plan copied from one that was made before for an equal spec and equal types: 130 -> 12 us, and after other
        work 600 -> 60. A spec remembers its last plan: 12 -> 3."""
        cached: tuple[pa.Schema, bool, tuple[int, bool], Plan] | None = spec.memo.get("plan")
        bound_by = policy.slice_rows, policy.ranks
        if cached is None or cached[1] != arrival or cached[2] != bound_by or not cached[0].equals(schema):
            if not all(isinstance(window, Window) for window in spec.windows.values()):  # they may remember something
                return Plan(spec, schema, arrival, policy=policy)
            try:
                types = tuple([(name, column_type(schema, name)) for name in spec.columns()])
                like = _like(spec, arrival, types, *bound_by)
            except TypeError:  # to be raised again below, or an argument of an aggregate has no hash
                return Plan(spec, schema, arrival, policy=policy)
            spec.memo["plan"] = cached = schema, arrival, bound_by, like
        return cached[3].another(spec, policy)

    def another(self, spec: Spec, policy: Policy) -> Plan:
        """A copy of this plan for an equal spec, with its own state between pushes."""
        plan, edges = object.__new__(Plan), object.__new__(EdgeSet)
        edges.__dict__ = self.edges.__dict__.copy()
        plan.__dict__ = {**self.__dict__, "spec": spec, "edges": edges, "memo": {}, "policy": policy}
        return plan

    def _bind_edges(self, windows: Sequence[ContextFreeWindow | RowWindow | Window]) -> None:
        """Bind the windows between edges: their types, and all their edges."""
        self.timed = [i for i, w in enumerate(windows) if isinstance(w, ContextFreeWindow)]
        self.bounds = [of_window(self.names[i], _bind, windows[i], self.measure) for i in self.timed]
        for i, bound in zip(self.timed, self.bounds, strict=True):
            check_span(self.names[i], bound.longest)
        self.fill = [k for k, i in enumerate(self.timed) if getattr(windows[i], "fill", False)]
        self.full = [i for i in self.timed if getattr(windows[i], "full", False)]
        alone = bool(self.fill) or self.spec.trigger is not None
        self.types_of, distinct = _fused(self.bounds, [windows[i] for i in self.timed], alone)
        self.edges = EdgeSet(distinct, self.early.edges(self.bounds))
        self.open_start = any(bound.open_start for bound in self.bounds)
        self.limited = [bound for bound in self.bounds if bound.limited]

    def _bind_sessions(self, windows: Sequence[ContextFreeWindow | RowWindow | Window]) -> None:
        """Bind sessions and whole streams: the gaps that end them, and where a slice needs several cells of a key."""
        self.wholes = [i for i, w in enumerate(windows) if isinstance(w, Whole)]
        sessions = {i: w for i, w in enumerate(windows) if isinstance(w, Session)}
        gap_of = {i: of_window(self.names[i], self.measure.ticks, w.gap, "gap") for i, w in sessions.items()}
        for i, gap in gap_of.items():
            check_span(self.names[i], gap)
        # a quiet key ends all its windows, so no session spans a gap longer than idle
        capped = {i: gap if self.idle is None else min(gap, self.idle) for i, gap in gap_of.items()}
        gaps = sorted({*capped.values(), *([] if self.idle is None else [self.idle])})
        self.sessions = [SessionWindow(i, gaps.index(capped[i]), gap) for i, gap in gap_of.items()]
        self.session_gaps = gaps
        # A level is the number of gaps that are too short to take a cell; levels of rows outside of `whole` follow.
        self.levels = len(gaps) + 1
        self.gaps = np.array([*gaps, ENDLESS] * (2 if self.wholes else 1), np.uint64)
        # a key's rows of a slot must be of one session: slots end at edges or, if these are far apart, on a grid
        self.grid = gaps[0] + 1 if gaps and gaps[0] + 1 < self.edges.longest else 0
        self.cells: type[Cells] = SessionCells if gaps or self.wholes else Cells

    def _bind_rows(
        self, windows: Sequence[ContextFreeWindow | RowWindow | Window], types: dict[str, pa.DataType]
    ) -> None:
        """Bind data-driven windows, and what is kept of each row for them."""
        of_rows = [(i, w) for i, w in enumerate(windows) if isinstance(w, RowWindow)]
        # flags of a row: (argument, column); a slice of several rows takes another row's flag for another argument
        self.row_flags = list(dict.fromkeys(f for _, w in of_rows for f in zip(w.flags, w.flag_columns(), strict=True)))
        seen = list(dict.fromkeys(name for _, w in of_rows for name in w.columns()))
        flags, values = ({n: at for at, n in enumerate(self.row_flags)}, {n: at for at, n in enumerate(seen)})
        keyed, revises = bool(self.spec.by), self.spec.revises
        arrives_in_order = self.spec.watermark == Ordered() and self.spec.sequence is None
        bound: list[BoundRows] = [
            of_window(
                self.names[i],
                w.bind_rows,
                Binding(
                    *(i, self.measure, flags, values, types, keyed),
                    *(self.since.get(self.names[i]), revises, arrives_in_order, self.idle),
                    *(self.policy.ranks, self.policy.slice_rows),
                ),
            )
            for i, w in of_rows
        ]
        self.bound_rows = {self.names[window.number]: window for window in bound}

    @lazy
    def kept(self) -> dict[str, Kept]:
        """What is kept for each window, and why, by the window's name."""
        return kept_for(self.spec, self.aggs, self.lanes, self.bound_rows, self.since, len(self.row_flags))

    @lazy
    def rows(self) -> RowPlan:
        """The plan of the data-driven windows."""
        rows_in_order = self.spec.watermark == Ordered() and self.spec.sequence is None and self.idle is None
        return RowPlan(self.bound_rows, self.kept, self.row_flags, rows_in_order, self.lateness == 0)

    def missed(self, window: Ints, start: Ints, end: Ints) -> Mask:
        """Which windows began before they were added to the running stream."""
        since = np.array([self.since.get(name, BEGIN - 1) for name in self.names], np.int64)
        by_end = np.array([isinstance(self.spec.windows[name], PerRow) for name in self.names])
        missed: Mask = np.where(by_end[window], end, start) < since[window]
        return missed

    @lazy
    def row_columns(self) -> tuple[str, ...]:
        """The columns that are needed of a row once it is final."""
        feeds = [f.column for lane in self.lanes for f in lane.feeds]
        flags = [lane.flag for lane in self.lanes]
        row_flags = (name for _, name in self.row_flags)
        flags = [flag.flag if isinstance(flag, Side) else flag for flag in flags]
        names = (*feeds, *flags, *row_flags, *self.rows.values, *self.early.marks, self.spec.sequence, self.spec.op)
        return tuple(dict.fromkeys(name for name in names if name not in (None, SIGN.column)))

    def with_signs(self, columns: dict[str, pa.Array]) -> dict[str, pa.Array]:
        """The columns of a changelog, with the sign of each row (added or retracted)."""
        name = str(self.spec.op)
        found = signs(columns[name], name)
        columns = columns | {SIGN.column: found}
        for side in {lane.flag for lane in self.lanes if isinstance(lane.flag, Side)}:
            mask = pc.equal(found, side.sign)
            columns[side] = mask if side.flag is None else pc.and_(mask, columns[side.flag])
        return columns

    @property
    def listed(self) -> frozenset[str]:
        """The columns of which each row's value has a place of its own (``pools.listed``)."""
        if not self.policy.listed:
            return frozenset()
        types = self.types
        return frozenset(name for name in self.partials.only_picked if not pa.types.is_dictionary(types[name]))

    def once(self, name: str, make: Callable[[], Made]) -> Made:
        """A value that is the same for every push of this plan; made at the first call."""
        if name not in self.memo:
            self.memo[name] = make()
        made: Made = self.memo[name]
        return made

    def alike(self, name: str, make: Callable[[], Made]) -> Made:
        """A value that is the same for all plans of one spec and types, in any thread; made at the first call."""
        if name not in self._made_alike:
            self._made_alike[name] = make()
        made: Made = self._made_alike[name]
        return made

    def named(self, numbers: Ints) -> pa.Array:
        """The names of windows, from their numbers."""
        return self.name_arrays.take(numbers)

    def numbered(self, types: Ints) -> Ints:
        """Numbers of time windows, converted to numbers among all windows."""
        return types if len(self.timed) == len(self.names) else np.array(self.timed, np.int64)[types]

    @lazy
    def shares(self) -> Ints:
        """How many window names each type of time windows has."""
        return np.bincount(self.types_of)

    @lazy
    def delays(self) -> dict[str, int]:
        """The spans of the watermark in ticks."""
        return self.spec.watermark.delays(self.measure)

    @lazy
    def fitting(self) -> tuple[int, int]:
        """Between these times, the type of the time column can hold the bounds of all windows of a row."""
        (least, most), edges = self.measure.range, (bound.farthest for bound in self.bounds)
        reach = max(
            [*edges, *self.session_gaps, *(window.latest_end(0) for window in self.bound_rows.values())], default=0
        )
        return least + reach, most - reach

    @lazy
    def result_schema(self) -> pa.Schema:
        """The columns of ``out.windows``."""
        spec, time, text, whole = self.spec, self.measure.type, pa.string(), pa.int64()
        types = [text, time, time, *map(result_type, self.key_types), *([whole, whole] if spec.ranks_rows else [])]
        types += [agg.shown for agg in self.aggs.values()] + ([] if spec.trigger is None else [text])
        types += {"final": [], "updates": [whole], "parts": [whole], "changes": [text]}[spec.emit]
        columns = zip(spec.result_columns(), types, strict=True)
        return pa.schema(columns, written_in(spec) if spec.emit == "parts" else None)

    @lazy
    def coded(self) -> dict[int, pa.DictionaryType]:
        """The aggregates, by number, whose results are dictionaries."""
        return {at: agg.coded for at, agg in enumerate(self.aggs.values()) if agg.coded is not None}

    @lazy
    def no_windows(self) -> pa.Table:
        return no_rows(self.result_schema)

    @lazy
    def name_arrays(self) -> Names:
        return Names(self.names)

    @lazy
    def no_cells(self) -> Cells:
        return self.cells(np.empty((0, self.cells.words), np.int64), tuple(identity(lane, 0) for lane in self.lanes))

    def set_policy(self, policy: Policy) -> None:
        """Run by ``policy`` from now on. Raises if its strategy does not fit the types of columns."""
        check_types(policy.combine, self)
        self.policy = policy
        self.memo.pop("ways", None)


@lru_cache(64)
def _like(spec: Spec, arrival: bool, types: tuple[tuple[str, pa.DataType], ...], slice_rows: int, ranks: bool) -> Plan:
    """A plan to copy others from, with everything computed that is needed once."""
    plan = Plan(spec, pa.schema(types), arrival, policy=Policy(slice_rows=slice_rows, ranks=ranks))
    for made in plan, plan.partials:
        for kind in type(made).__mro__:
            for name, attribute in vars(kind).items():
                if isinstance(attribute, lazy):
                    getattr(made, name)
    return plan


def _bind(window: ContextFreeWindow | RowWindow | Window, measure: Measure) -> Bound:
    assert isinstance(window, ContextFreeWindow)
    return window.bind(measure)


def _fused(bounds: Sequence[Bound], windows: Sequence[object], fill: bool) -> tuple[Ints, list[Bound]]:
    """The type of each window, and the types. Equal windows under different names share a type, whose answers are
    computed once. Each window has its own type if few are equal, or if empty windows or triggers are asked for."""
    known: dict[object, int] = {}
    alike = (w if isinstance(w, Window) else id(w) for w in windows)  # a user's window may have no hash
    keys = (bound.periodic or other for bound, other in zip(bounds, alike, strict=True))
    types = [known.setdefault(key, len(known)) for key in keys]
    if fill or len(bounds) < FEWEST_NAMES * len(known):
        return np.arange(len(bounds)), list(bounds)
    return np.array(types, np.int64), [bounds[types.index(t)] for t in range(len(known))]


def check_types(name: str, plan: Plan) -> None:
    """Raise for a strategy that the types of columns do not allow: removing needs exact sums."""
    if name in ADDS_UP and not plan.adds_up:
        raise ValueError(only_sums(name, plan.spec))
    if name in STRATEGIES and STRATEGIES[name].removes:
        for agg, bound in plan.aggs.items():
            if not plan.partials.removable.issuperset(bound.lanes):
                read = (c for part in plan.spec.aggs[agg].parts() for c in part.columns())
                columns = ", ".join(f"{c} {plan.types[c]}" for c in read)
                raise ValueError(refusal(name, agg, f"{plan.spec.aggs[agg]!r} ({columns})"))
