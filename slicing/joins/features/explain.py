"""What a query of features keeps, until when, and when labels are answered: facts of a spec."""

from __future__ import annotations

import pyarrow as pa

from slicing.columns.expressions import Derived, fields_of
from slicing.joins.explain import INDEX_BYTES, Facts
from slicing.joins.features.plan import FeaturePlan
from slicing.joins.features.spec import FeatureSpec
from slicing.joins.within import RIGHT
from slicing.query.watermark import Punctuated


def facts(spec: FeatureSpec, schemas: tuple[pa.Schema, pa.Schema] | None = None) -> Facts:
    """Of a spec, bound to these columns or, where they are not known, to likely ones."""
    plan = FeaturePlan.of(spec, *(schemas or spec.schemas or _likely(spec)))
    return (
        ("ranges", "\n".join(_ranges(plan))),
        ("labels kept", _labels(plan)),
        ("events kept", _events(plan)),
        ("state", _state(plan)),
        ("bytes an event kept", f"{INDEX_BYTES} for the index, and the columns {', '.join(plan.sides[RIGHT].kept)}"),
        ("work", "a push goes over its rows, and over the events that the labels it answers reach; no pair is made"),
        ("late rows", "rows before their own stream's watermark, before the push"),
        ("output watermark", _watermark(plan)),
    )


def _likely(spec: FeatureSpec) -> tuple[pa.Schema, pa.Schema]:
    """Columns as the spec suggests them."""
    numbers = any(isinstance(span, int) and span != 0 for _, span in spec.spans())
    time = pa.int64() if numbers else pa.timestamp("us", "UTC")
    found = []
    for side, policy in enumerate(spec.watermark):
        types = {name: time if isinstance(policy, Punctuated) else pa.int64() for name in policy.columns()}
        types |= {pair[side]: pa.int64() for pair in spec.on}
        if side:
            types |= _asked(spec)
        types[spec.time[side]] = time
        found.append(pa.schema(list(types.items())))
    return found[0], found[1]


def _asked(spec: FeatureSpec) -> dict[str, pa.DataType]:
    """The columns that aggregates read."""
    types: dict[str, pa.DataType] = {} if spec.sequence is None else {spec.sequence: pa.int64()}
    for agg in (part for formula in spec.aggs.values() for part in formula.parts()):
        for name in agg.columns():
            bools = agg.function in ("any", "all") and not isinstance(name, Derived)
            types |= dict.fromkeys(fields_of(name), pa.bool_() if bools else pa.float64())
        if agg.flag:
            kind = pa.float64() if isinstance(agg.flag, Derived) else pa.bool_()
            types |= dict.fromkeys(fields_of(agg.flag), kind)
    return types


def _ranges(plan: FeaturePlan) -> list[str]:
    label, event = plan.spec.time
    lines = []
    for name, span in zip(plan.spec.ranges, plan.within.spans, strict=True):
        low = "" if span.far is None else f"{label}{_moved(plan, -span.far)} <= "
        if span.tail:
            low = (
                f"{label}{_moved(plan, -span.far) if span.far else ''}, floored to {plan.measure.span(span.tail)}, <= "
            )
        lines.append(f"{name}: {low}{event} <= {label}{_moved(plan, span.near)}")
    return lines


def _labels(plan: FeaturePlan) -> str:
    if not plan.spec.wait:
        return "none: a label is answered when it comes, from the events that have arrived"
    return f"until the events' watermark > {plan.spec.time[0]}{_moved(plan, plan.within.nearest)}"


def _events(plan: FeaturePlan) -> str:
    within, event = plan.within, plan.spec.time[1]
    if within.farthest is None:
        return "for ever: a range has no far end, so a label of any later time reaches them" + _sliced(plan)
    tails = [span.tail for span in within.spans if span.tail]
    floored = (
        f" (with floored ends up to {plan.measure.span(max(tails) - 1)} longer)" if tails and max(tails) > 1 else ""
    )
    waiting = " and no label that waits reaches them" if plan.spec.wait else ""
    until = f"until the labels' watermark > {event}{_moved(plan, within.farthest)}{floored}{waiting}"
    return until + _sliced(plan)


def _sliced(plan: FeaturePlan) -> str:
    """What is kept of old events where far ends are floored."""
    if not plan.spec.tail:
        return ""
    if not plan.sliced:
        return "; as rows, since these aggregates need the values themselves"
    tails = ", ".join(map(plan.measure.span, sorted({span.tail for span in plan.within.spans if span.tail})))
    since = _moved(plan, plan.within.apart(0))
    return f"; as slices of {tails} before the first label that waits or may come{since}, as rows from there on"


def _state(plan: FeaturePlan) -> str:
    within = plan.within
    if within.farthest is None:
        grows = "keys: of old events a slice a key" if plan.sliced else "events"
        return f"all events, and the labels that wait: it grows with the {grows}"
    far = plan.measure.span(max(within.farthest, 0))
    return (
        f"events: rate x ({far} + what the labels' watermark is behind the newest event), labels: rate x what the "
        "events' watermark is behind the newest label: rows wait where the other stream is slow"
    )


def _watermark(plan: FeaturePlan) -> str:
    label = plan.spec.time[0]
    if not plan.spec.wait:
        return f"the labels' watermark: speaks about {label}"
    return (
        f"the smaller of the labels' watermark and the events'{_moved(plan, plan.within.behind)}: speaks about {label}"
    )


def _moved(plan: FeaturePlan, ticks: int) -> str:
    return f" {'+' if ticks > 0 else '-'} {plan.measure.span(abs(ticks))}" if ticks else ""
