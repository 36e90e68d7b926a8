"""Facts of a spec, each with its reason: how its windows are cut into slices, kept and answered."""

from __future__ import annotations

import math
import re
from fractions import Fraction

import numpy as np
import pyarrow as pa

from slicing.aggregates.aggregate import likely_reads
from slicing.cells.blocks import identity
from slicing.cells.combining import AUTO, BUCKETS, EAGER, costs
from slicing.cells.list_kinds import NETTED, Bounded, ListKind
from slicing.closing import over_cells
from slicing.closing.ways import stacks
from slicing.columns.expressions import likely_columns
from slicing.kernels.strategies import STRATEGIES
from slicing.query.plan import Plan
from slicing.query.policy import Policy, checked
from slicing.query.processing_time import ProcessingTime
from slicing.query.spec import Spec
from slicing.query.watermark import Punctuated
from slicing.times.durations import SECOND, Duration
from slicing.windows.bounds import BEGIN, Progression
from slicing.windows.builtin import Landmark, Whole, Window
from slicing.windows.calendar import CalendarWindow
from slicing.windows.context_free import ContextFreeWindow
from slicing.windows.cuts import RowCuts
from slicing.windows.edges import DueWindows
from slicing.windows.rows.last_rows import LastRows
from slicing.windows.rows.marked import Frame, Punctuation
from slicing.windows.rows.row_count import RowCount
from slicing.windows.rows.row_windows import RowWindow
from slicing.windows.rows.users import BoundContextAware

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_UNBOUNDED = (
    (Landmark, "landmark keeps every key"),
    (Whole, "whole() keeps every key until flush"),
    (RowCount, "rows() counts on for every key"),
    (LastRows, "last_rows() keeps every key's last rows"),
    (Punctuation, "punctuation() keeps a key's rows since its last mark"),
    (Frame, "frame() keeps the rows of a key's open frame"),
)


def facts(spec: Spec, schema: pa.Schema | None, combine: str) -> tuple[tuple[str, str], ...]:
    """The facts of a spec, planned for the schema or, without one, for likely columns."""
    plan = Plan(spec, likely_schema(spec) if schema is None else schema)
    plan.set_policy(Policy(checked(combine, spec)))
    return (
        ("edges", _edges(plan)),
        ("hyper-period", _hyper_period(plan)),
        ("slices a window", _slices(plan)),
        ("fragments", _fragments(plan)),
        ("rows kept", _rows_kept(plan)),
        *_of_users(plan),
        *_taken_back(plan),
        ("splits and removals", _splits(plan)),
        ("combine", _combine(plan)),
        ("bytes per live key", _bytes(plan)),
        ("state", _bounds(plan)),
        ("results", _results(plan)),
        ("late rows", _late(plan)),
        *_early(plan),
        *_weeks(plan),
    )


def _late(plan: Plan) -> str:
    spec = plan.spec
    if isinstance(spec.time, ProcessingTime):
        return "none: rows are stamped as they come"
    reached = f"the watermark less {plan.measure.span(plan.lateness)}" if plan.lateness else "the watermark"
    rules = []
    if plan.timed:
        rules.append(("windows between edges", f"all its windows end at or before {reached}"))
    if plan.sessions:
        rules.append(("sessions", f"{reached} is the gap or more after it"))
    if plan.wholes or plan.bound_rows:
        rules.append(("other windows", f"it is before {reached}"))
    if len(rules) == 1:
        late = f"if {rules[0][1]}"
    else:
        late = "for " + "; for ".join(f"{windows} if {when}" for windows, when in rules)
    said = f"with watermark={spec.watermark!r} a row is late {late}"
    if plan.delays.get("bounded's delay") == 0:
        said += "\nthis watermark is the newest time, so a row that comes out of order may be late"
    return said


def likely_schema(spec: Spec) -> pa.Schema:
    """The columns that the spec suggests. Types are guessed only where they do not matter to slicing."""
    spans = [span for _, span in spec._spans()]
    numbers = any(isinstance(span, int) and span != 0 for span in spans)
    fine = any(isinstance(span, Duration) and span.ns % 1000 for span in spans)
    calendars = any(isinstance(w, CalendarWindow) for w in spec.windows.values())
    local = any(isinstance(w, CalendarWindow) and w.local for w in spec.windows.values())
    time = pa.int64() if numbers and not calendars else pa.timestamp("ns" if fine else "us", None if local else "UTC")
    fixed = dict.fromkeys([name for trigger in spec.triggers().values() for name in trigger.columns()], pa.bool_())
    if spec.sequence is not None:
        fixed[spec.sequence] = pa.int64()
    if isinstance(spec.watermark, Punctuated):
        fixed[spec.watermark.column] = time
    if not isinstance(spec.time, ProcessingTime):
        fixed[spec.time] = time
    rows = [window for window in spec.windows.values() if isinstance(window, RowWindow)]
    reads = [*likely_reads(spec.parts()), *((flag, pa.bool_()) for window in rows for flag in window.flag_columns())]
    types = dict.fromkeys(spec.columns(), pa.int64()) | likely_columns(reads, fixed)
    return pa.schema(list(types.items()))


def _edges(plan: Plan) -> str:
    edges = plan.edges
    found = [
        f"every {plan.measure.span(p.every)}" + (f" from {plan.measure.span(p.phase)}" if p.phase else "")
        for p in _progressions(plan)
    ]
    if len(found) > 6:
        found = [*found[:5], f"and {len(found) - 5} more progressions"]
    found += [f"at {plan.measure.value(m.edge)}" for m in edges.marks[:6]]
    found += [f"of {window!r}" for i, window in _timed(plan) if plan.bounds[i].irregular]
    progressions = sum(len(b.progressions) for b in plan.bounds)
    kept = len(_progressions(plan))
    together = f" ({progressions} progressions of {len(plan.bounds)} windows fused into {kept})"
    return ("; ".join(found) or "none") + (together if progressions > kept else "")


def _progressions(plan: Plan) -> list[Progression]:
    """The progressions of all regular edges, however long an edge is live."""
    return plan.edges.cuts


def _hyper_period(plan: Plan) -> str:
    steps = [p.every for p in _progressions(plan)]
    if not steps:
        return "none: no regular edges"
    period = math.lcm(*steps)
    count = sum(period // p.every for p in _progressions(plan))
    return f"edges repeat every {plan.measure.span(period)}, at most {count} slices in it"


def _slices(plan: Plan) -> str:
    found = []
    for i, _ in _timed(plan)[:8]:
        bound, name = plan.bounds[i], plan.names[plan.timed[i]]
        if bound.periodic is None:
            found.append(f"{name}: as many as edges fall into it")
            continue
        size = bound.periodic[0]
        count = sum(max(size // p.every, 1) for p in _progressions(plan))
        found.append(f"{name}: at most {count}")
    if len(plan.timed) > 8:
        found.append(f"and {len(plan.timed) - 8} more windows")
    return "; ".join(found) or "no windows between edges"


def _fragments(plan: Plan) -> str:
    if plan.session_gaps:
        gap = plan.measure.span(plan.session_gaps[0])
        idle = " (the shortest session gap or idle)"
        return f"yes: within a slice a key's rows split where they are more than {gap} apart{idle}"
    if plan.wholes:
        return "one a slice, with its first and last time: whole() reports them"
    return "no: one cell a slice and key (no sessions)"


def _rows_kept(plan: Plan) -> str:
    if plan.early.run_marks or not all(cuts is None or cuts.at_once for cuts in plan.early.row_cuts):
        return "yes, beside slices: a row waits for its trigger until the watermark has passed it"
    if plan.keeps_rows:
        beside = " beside slices" if plan.keeps_slices else ""
        found = [f"yes{beside}; a row is dropped when no open window needs it"]
        return "\n".join(found + [f"{name}: {plan.kept[name]}" for name in plan.bound_rows])
    kinds = [lane.kind for lane in plan.lanes if isinstance(lane.kind, ListKind)]
    if any(not kind.fuse for kind in kinds):
        return "yes, of some columns: a slice keeps the rows of an aggregate that must see them in order"
    if kinds:
        return "no: a slice keeps the sorted values, counted, of a column with a holistic aggregate; never rows"
    return "no: every window is known from edges or gaps, and every aggregate combines from partials"


def _of_users(plan: Plan) -> list[tuple[str, str]]:
    """Whether the methods of users' windows are compiled."""
    found = [
        f"{plan.names[w.number]}: "
        + ("compiled, a kernel over rows" if not isinstance(w.compiled, str) else _reason(w.compiled))
        for w in plan.rows.windows
        if isinstance(w, BoundContextAware)
    ]
    return [("windows of your own", "\n".join(found))] if found else []


def _reason(refused: str) -> str:
    """Why code is not compiled, without the colours of numba's message."""
    return f"plain Python, row by row: {_COLOURS.sub('', refused)}"


def _splits(plan: Plan) -> str:
    decisions = {name: plan.kept[name].decision for name in plan.names}
    split = [name for name, decision in decisions.items() if decision.splits]
    if not split:
        return "none: no row moves an edge"
    moved = [f"{name}: {decision.removal}" for name, decision in decisions.items() if decision.removal != "none"]
    why = f"edges of {', '.join(split)} may move, so slices would have to be split"
    why += f" and rows removed ({'; '.join(moved)})" if moved else ""
    return f"none: {why}; their rows are kept and grouped when the watermark has passed them"


def _combine(plan: Plan) -> str:
    """The strategy that the engine chooses if every slice holds rows."""
    others = ["each session or whole stream: its run of cells, once"] if plan.sessions or plan.wholes else []
    others += ["each window of rows: its kept rows, as the windows due ask for it"] if plan.rows.windows else []
    others += ["windows of the whole stream: slices of their own, as of time"] if plan.rows.on_axes else []
    longest = max((b.longest for b in plan.bounds if b.periodic is not None), default=0)
    width = min((p.every for p in _progressions(plan)), default=1)
    if not plan.bounds:
        return "\n".join(others)
    if plan.a_cell_a_slice and over_cells.can(plan) and not plan.tumbles:
        others.insert(0, f"{plan.policy.stepped} windows at once or more: {_RANGES}")
    if plan.combine != AUTO:
        named = {EAGER: _EAGER, BUCKETS: _BUCKETS}
        why = named[plan.combine] if plan.combine in named else STRATEGIES[plan.combine].why
        chosen = f"{plan.combine}, as combine= says ({why})"
        return "\n".join([chosen, *others, _subtracted(plan)])
    if plan.eager and longest and longest // width > MOST_SHOWN:
        return "\n".join([f"a push that closes few windows: eager store ({_EAGER})", *others, _subtracted(plan)])
    if not longest or longest // width > MOST_SHOWN:
        return "\n".join(["chosen at each closing push, by the windows due and their slices", *others])
    ends = plan.edges.between(0, 2 * longest - 1, np.arange(0, 2 * longest, width), 0, 4 * MOST_SHOWN)
    edge = int(plan.edges.next_live(np.array([longest]), BEGIN)[0])
    one, many = plan.edges.due(ends, edge - 1, edge), plan.edges.due(ends, longest, 2 * longest)
    pays = plan.policy.pays
    exact = len(plan.partials.removable) == len(plan.lanes)
    few = _cheapest(one, ends.size, exact)
    if plan.eager:
        few = f"eager store, as long as its cells are fewer than those that are live ({_EAGER})"
    elif plan.adds_up and plan.spec.by and pays("as they lie", int((one.high - one.low).sum()), ends.size):
        few = "the cells of each window are added up in place, for any number of keys"
    elif plan.slices_add_up and plan.spec.by and pays("buckets", int((one.high - one.low).sum()), ends.size):
        few = f"buckets ({_BUCKETS})"
    at_once = _cheapest(many, ends.size, exact)
    if plan.slices_add_up and plan.spec.by and pays("buckets", int((many.high - many.low).sum()), ends.size):
        at_once = f"buckets ({_BUCKETS})"
    stacked = stacks.stacked_cells(many, [np.arange(ends.size + 1)], 1)
    if plan.adds_up and plan.spec.by and pays("stacks", stacked, ends.size):
        at_once = f"two stacks of whole slices, where most keys have rows in most of them; else {at_once}"
    if plan.slices_add_up and plan.spec.by and "buckets" not in at_once:
        others.append(f"where keys have rows in few of the slices: buckets ({_BUCKETS})")
    spans = f"a push that spans {plan.measure.span(longest)}: {at_once}"
    return "\n".join([f"a push that closes one edge: {few}", spans, *others, _subtracted(plan)])


def _subtracted(plan: Plan) -> str:
    parts = ((name, part) for name, agg in plan.spec.aggs.items() for part in agg.parts())
    evicted = [name for name, part in parts if part.user is not None and part.user.evicts]
    found = [f"what leaves a window is taken from {name} by its invert" for name in evicted]
    if plan.partials.removable:
        columns = [", ".join(f.column for f in lane.feeds) or "rows" for lane in plan.partials.removable]
        what = f"sums and counts of {', '.join(sorted(set(columns)))}, which are exact"
        if len(plan.partials.removable) < len(plan.lanes):
            what += "; the other partials take the cheapest of the other ways"
        found.append(f"only these are ever subtracted: {what}")
    return "\n".join(found or ["nothing is ever subtracted"])


_RANGES = "ranges that move forward over dense columns, of partials or, where slices have few rows, of values"
_BUCKETS = "each partial put into all windows that hold it, when these close: one a window and key"
_EAGER = "windows slide over very many slices: a few partials of each level of a tree over them, kept between pushes"
MOST_SHOWN = 20_000  # slices that explain works through


def _cheapest(due: DueWindows, cells: int, removes: bool) -> str:
    if not due.type.size:
        return "no window ends there"
    found = costs(due.low, due.high, cells, removes)
    cost, name = min((cost, name) for name, cost in found.items())
    dearer = ", ".join(f"{c} by {other}" for other, c in found.items() if other != name)
    why = STRATEGIES[name].why
    return f"{name}, {cost} combinations a key for {due.type.size} windows ({dearer}): {why}"


def _bytes(plan: Plan) -> str:
    meta = plan.cells.words * 8
    lists = [lane.kind for lane in plan.lanes if isinstance(lane.kind, ListKind)]
    partials = sum(identity(lane, 1).nbytes for lane in plan.lanes) - 8 * len(lists)
    cell = meta + partials
    periodic = [b.periodic for b in plan.bounds if b.periodic is not None]
    slices = max((sum(-(-size // p.every) for p in _progressions(plan)) + 1 for size, _, _ in periodic), default=1)
    return (
        f"{cell} bytes a cell ({meta} of bounds, {partials} of {len(plan.lanes)} partial blocks); up to "
        f"{slices} cells in the longest periodic window: {cell * slices} bytes"
        + "".join(f"; and {8 * kind.words} bytes an item of its {kind.name}{_most(kind)}" for kind in lists)
    )


def _taken_back(plan: Plan) -> list[tuple[str, str]]:
    """How rows of a changelog can be taken back, and what it costs."""
    if plan.spec.op is None:
        return []
    listed = {name: [lane for lane in agg.lanes if lane.kind == NETTED] for name, agg in plan.aggs.items()}
    columns = sorted({lane.feeds[0].column for lanes in listed.values() for lane in lanes})
    numbers = [name for name, lanes in listed.items() if not lanes]
    found = [f"{', '.join(numbers)}: numbers, of rows added less rows taken back"] if numbers else []
    if columns:
        names = ", ".join(name for name, lanes in listed.items() if lanes)
        found.append(
            f"{names}: the values of {', '.join(map(repr, columns))} in each slice with their counts, 16 bytes a "
            "different value, until no open window needs the slice"
        )
    if plan.wholes:
        found.append("whole(): the times of rows with their counts, for its bounds are those of the rows that are left")
    return [("rows taken back", "\n".join(found))]


def _most(kind: ListKind) -> str:
    return f", at most {kind.most} a cell" if isinstance(kind, Bounded) else ""


def _bounds(plan: Plan) -> str:
    unbounded = [
        f"{plan.names[i]} ({what})"
        for i, window in enumerate(plan.spec.windows[n] for n in plan.names)
        for kind, what in _UNBOUNDED
        if isinstance(window, kind) and i not in plan.rows.on_axes
    ]
    unbounded += [f"{plan.names[plan.timed[k]]} (fill keeps every key's last window)" for k in plan.fill]
    if unbounded and plan.idle is None:
        return "grows with the number of keys: " + "; ".join(unbounded) + ". Spec(idle=...) ends quiet keys"
    return "bounded by open windows x active keys"


def _results(plan: Plan) -> str:
    when = "once, when complete" if plan.spec.emit == "final" else "when complete, and again when a late row changes it"
    if plan.spec.emit == "parts":
        when = "when complete, and one with the late rows of each push that brings some"
    late = f", {plan.measure.span(plan.lateness)} after that no row counts any more" if plan.lateness else ""
    return f"a row a window {when}{late}"


def _early(plan: Plan) -> list[tuple[str, str]]:
    """What triggers cost: additional rows of results."""
    found = []
    for name, trigger in plan.spec.triggers().items():
        i = plan.names.index(name)
        bound = plan.bounds[plan.timed.index(i)] if i in plan.timed else None
        open_ = 1 if bound is None else bound.overlap
        at_rows = plan.early.row_cuts[plan.timed.index(i)] if i in plan.timed else plan.early.run_marks.get(i)
        cuts = plan.early.cuts[plan.timed.index(i)] if i in plan.timed else plan.early.run_cuts.get(i)
        if at_rows is not None:
            often = _at_rows(at_rows, open_)
        elif cuts is None:
            often = f"at most {open_} rows a firing for each key with new rows"
        else:
            rate = sum((Fraction(open_, d) for d, _ in cuts.spans), Fraction())
            if bound is not None and bound.periodic is not None:
                rate += Fraction(len(cuts.shares), bound.periodic[1])
            often = f"at most {_rate(plan, rate)} for each key with new rows"
        twice = "; each replaces a row, which comes again with op='-'" if plan.spec.emit == "changes" else ""
        found.append(f"{name}: {trigger!r} adds {often} ({open_} windows are open at a time){twice}")
    return [("early results", "\n".join(found))] if found else []


def _at_rows(cuts: RowCuts, open_: int) -> str:
    """How many early results windows with cuts at rows have, and what is kept for them."""
    often = [
        f"{open_} rows for every {n} rows of a key" + ("" if t is None else f", {t} a window at most")
        for n, t in cuts.counts
    ]
    often += [f"{open_} rows for each mark"] if cuts.marks else []
    often += ["those of its other cuts"] if cuts.times is not None else []
    kept = "" if cuts.at_once else "; rows are kept one by one until the watermark has passed them"
    return f"at most {', and '.join(often)}{kept}"


def _rate(plan: Plan, a_tick: Fraction) -> str:
    """A number of rows per tick, in a readable unit."""
    if plan.measure.is_integer:
        return f"{float(1000 * a_tick):g} rows in 1000 units of {plan.spec.time!r}"
    return f"{float(a_tick * SECOND / plan.measure.word_ns):g} rows a second"


def _weeks(plan: Plan) -> list[tuple[str, str]]:
    """The day on which weeks begin, if they are counted from 1970."""
    if plan.measure.is_integer:
        return []
    week = 7 * 86_400 * SECOND // plan.measure.word_ns
    days = ("Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday")
    found = []
    for i, bound in enumerate(plan.bounds):
        _, every, offset = bound.periodic or (0, 1, 0)
        if every % week == 0 and offset * 7 % week == 0:
            day = days[offset * 7 // week % 7]
            monday = "" if day == "Monday" else "; those of sl.calendar('1w') begin on Monday, local ones too"
            found.append(f"{plan.names[plan.timed[i]]}: begins on {day} (UTC){monday}")
    return [("weeks", "\n".join(found))] if found else []


def _timed(plan: Plan) -> list[tuple[int, ContextFreeWindow | RowWindow | Window]]:
    return [(k, plan.spec.windows[plan.names[i]]) for k, i in enumerate(plan.timed)]
