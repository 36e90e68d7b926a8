"""What a feature query keeps, until when, and when it answers labels: facts of a spec."""

from __future__ import annotations

import pyarrow as pa

from slicing.aggregates.aggregate import likely_reads
from slicing.columns.expressions import likely_columns
from slicing.joins.explain import INDEX_BYTES, Facts, likely, moved
from slicing.joins.features.plan import FeaturePlan
from slicing.joins.features.spec import FeatureSpec
from slicing.joins.within import RIGHT


def facts(spec: FeatureSpec, schemas: tuple[pa.Schema, pa.Schema] | None = None) -> Facts:
    """The facts of a spec, for these schemas or, if none are known, for likely ones."""
    read = likely_columns(likely_reads(part for agg in spec.aggs.values() for part in agg.parts()), {})
    plan = FeaturePlan.of(spec, *(schemas or spec.schemas or likely(spec, read)))
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


def _ranges(plan: FeaturePlan) -> list[str]:
    label, event = plan.spec.time
    lines = []
    for name, span in zip(plan.spec.ranges, plan.within.spans, strict=True):
        low = "" if span.far is None else f"{label}{moved(plan, -span.far)} <= "
        if span.tail:
            low = f"{label}{moved(plan, -span.far) if span.far else ''}, floored to {plan.measure.span(span.tail)}, <= "
        lines.append(f"{name}: {low}{event} <= {label}{moved(plan, span.near)}")
    return lines


def _labels(plan: FeaturePlan) -> str:
    if not plan.spec.wait:
        return "none: a label is answered when it comes, from the events that have arrived"
    return f"until the events' watermark > {plan.spec.time[0]}{moved(plan, plan.within.nearest)}"


def _events(plan: FeaturePlan) -> str:
    within, event = plan.within, plan.spec.time[1]
    if within.farthest is None:
        return "for ever: a range has no far end, so a label of any later time reaches them" + _sliced(plan)
    tails = [span.tail for span in within.spans if span.tail]
    floored = (
        f" (with floored ends up to {plan.measure.span(max(tails) - 1)} longer)" if tails and max(tails) > 1 else ""
    )
    waiting = " and no label that waits reaches them" if plan.spec.wait else ""
    until = f"until the labels' watermark > {event}{moved(plan, within.farthest)}{floored}{waiting}"
    return until + _sliced(plan)


def _sliced(plan: FeaturePlan) -> str:
    """How old events are kept if far ends are floored."""
    if not plan.spec.tail:
        return ""
    if not plan.sliced:
        return "; as rows, since these aggregates need the values themselves"
    tails = ", ".join(map(plan.measure.span, sorted({span.tail for span in plan.within.spans if span.tail})))
    since = moved(plan, plan.within.apart(0))
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
        f"the smaller of the labels' watermark and the events'{moved(plan, plan.within.behind)}: speaks about {label}"
    )
