"""What a join keeps, until when, and when its results come: facts derived from a spec, each with its reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa

from slicing.joins.plan import JoinPlan, TwoSidedSpec, TwoSides
from slicing.joins.spec import LEFT_ALONE, RIGHT_ALONE, JoinSpec
from slicing.joins.within import Band
from slicing.query.watermark import Punctuated
from slicing.times.durations import shown

INDEX_BYTES = 21  # code, time, name and flag of a row

Facts = tuple[tuple[str, str], ...]


def facts(spec: JoinSpec, schemas: tuple[pa.Schema, pa.Schema] | None = None) -> Facts:
    """The facts of a spec, for the given columns or, if they are unknown, for likely ones."""
    schemas = schemas or spec.schemas
    bare = spec if schemas or spec.where is None else replace(spec, where=None)  # `where` may read any column
    plan = JoinPlan.of(bare, *(schemas or likely(spec)))
    reads_right = spec.where is None or (bare is spec and plan.where_is_right)
    return (
        ("partners", _partners(plan, spec)),
        ("left rows kept", _left_kept(plan)),
        ("right rows kept", _right_kept(plan, reads_right)),
        ("state", _state(plan)),
        ("bytes a row kept", f"{INDEX_BYTES} for the index, and the columns that results need: {_columns(plan)}"),
        ("results", _results(plan)),
        ("late rows", _late(plan)),
        ("output watermark", _watermark(plan)),
    )


def likely(spec: TwoSidedSpec, of_right: Mapping[str, pa.DataType] | None = None) -> tuple[pa.Schema, pa.Schema]:
    """Likely schemas of both sides, from the spec; ``of_right``: more columns of the right side that the spec reads."""
    numbers = any(isinstance(span, int) and span != 0 for _, span in spec.spans())
    time = pa.int64() if numbers else pa.timestamp("us", "UTC")
    found = []
    for side, policy in enumerate(spec.watermark):
        types = {name: time if isinstance(policy, Punctuated) else pa.int64() for name in policy.columns()}
        types |= {pair[side]: pa.int64() for pair in spec.on}
        if side:
            types |= {} if spec.sequence is None else {spec.sequence: pa.int64()}
            types |= of_right or {}
        types[spec.time[side]] = time
        found.append(pa.schema(list(types.items())))
    return found[0], found[1]


def _partners(plan: JoinPlan, spec: JoinSpec) -> str:
    within = plan.within
    left, right = (f"{side}.{name}" for side, name in zip(("left", "right"), spec.time, strict=True))
    if isinstance(within, Band):
        low = "" if within.before is None else f"{left}{moved(plan, -within.before)} <= "
        high = "" if within.after is None else f" <= {left}{moved(plan, within.after)}"
        where = f"{low}{right}{high}"
        where = f"any {right}" if where == right else where
    else:
        where = f"{left} and {right} in the same window of {spec.within!r}"
    keys = ", ".join(one if one == other else f"{one} = {other}" for one, other in spec.on) or "none: only time decides"
    nulls = " (null equals null)" if spec.nulls_equal and spec.on else ""
    lines = [where, f"keys: {keys}{nulls}"]
    lines += [f"where {spec.where}"] if spec.where is not None else []
    lines += [f"of a left row's partners the {spec.match} one"] if spec.matches else []
    return "\n".join(lines)


def _left_kept(plan: JoinPlan) -> str:
    within, spec = plan.within, plan.spec
    if isinstance(within, Band):
        if within.after is None:
            return "until the end: it may have partners at any later time"
        until = f"until the right watermark > {spec.time[0]}{moved(plan, within.after)}"
    else:
        until = "until the right watermark >= the end of its window"
    return until + (", or its first partner" if spec.left_only else "")


def _right_kept(plan: JoinPlan, reads_right: bool) -> str:
    """Until when right rows are kept; ``reads_right``: `where` reads right columns only."""
    within, spec = plan.within, plan.spec
    if not isinstance(within, Band):
        return "until the left watermark >= the end of its window"
    waiting = " and no left row that waits reaches it" if spec.matches else ""
    if within.before is None:
        until = "for ever"
        if spec.match != "last" or not reads_right:
            return f"{until}: a left row of any later time may choose it"
    else:
        until = f"until the left watermark > {spec.time[1]}{moved(plan, within.before)}{waiting}"
    if spec.match == "last" and reads_right:
        return f"{until}, or until a later row of its key is near enough to every left row of it, waiting or to come"
    return until


def _state(plan: JoinPlan) -> str:
    within = plan.within
    if not isinstance(within, Band):
        return (
            "the rows of both sides in open windows, and in those that the other side's watermark is behind: rows wait "
            "where the other side is slow"
        )
    if within.after is None or within.before is None:
        keys = "a row of each key for ever, and " if plan.spec.match == "last" and within.after is not None else ""
        return f"{keys}what the unbounded side of the band has: it grows with {'keys' if keys else 'rows'}"
    after, before = (plan.measure.span(max(span, 0)) for span in (within.after, within.before))
    return (
        f"left: rate x ({after} + what the right watermark is behind the newest left row), right: rate x ({before} + "
        "what the left one is behind the newest right row): rows wait where the other side is slow"
    )


def _columns(plan: JoinPlan) -> str:
    left, right = (len(side.kept) for side in plan.sides)
    return f"{left} of the left, {right} of the right"


def _results(plan: JoinPlan) -> str:
    how = plan.spec.how
    if plan.spec.matches:
        return "a left row with its partner when it leaves, in the order of time"
    lines = ["a pair in the push of its later row"] if how not in ("semi", "anti") else []
    lines += ["a left row in the push in which it has its first partner"] if how == "semi" else []
    alone = [
        side for side, kinds in (("left", LEFT_ALONE), ("right", RIGHT_ALONE)) if how in kinds
    ]  # sides that come alone
    lines += [f"a {side} row without a partner when it leaves" for side in alone]
    return "\n".join(lines)


def _late(plan: JoinPlan) -> str:
    spec = plan.spec
    if spec.progress == "least":
        judged = "rows before the smaller one of both watermarks"
    else:
        judged = "rows before their own side's watermark"
    left, right = spec.watermark
    policies = f"left {left!r}, right {right!r}"
    idle = f"; a silent side counts as at most {shown(spec.idle)} behind the other one" if spec.idle is not None else ""
    marks = ", or before the mark of their key" if spec.on else ""
    return f"{judged}{marks}, before the push ({policies}){idle}"


def _watermark(plan: JoinPlan) -> str:
    about = plan.spec.speaks_about
    names = {"left": f"the left's {plan.spec.time[0]}", "right": f"the right's {plan.spec.time[1]}"}
    names |= {"max": "the later time of a pair", "min": "the earlier time of a pair", "window": "window_start"}
    if isinstance(plan.within, Band) and plan.within.after is None:
        return f"none before the end: speaks about {names[about]}, and left rows wait for ever"
    return f"speaks about {names[about]}"


def moved(plan: TwoSides, ticks: int) -> str:
    """A shift by ``ticks`` as text, such as `` + 5s``; empty for 0."""
    return f" {'+' if ticks > 0 else '-'} {plan.measure.span(abs(ticks))}" if ticks else ""
