"""Specs as HTML for notebooks: each part with the first sentence of its documentation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slicing.query.written import AGGREGATES, WATERMARKS, WINDOWS
from slicing.system.html import code, table, text


def spec_html(values: Mapping[str, Any]) -> str:
    """A table of the arguments of a spec that differ from their defaults."""
    time = code(values["time"]) if isinstance(values["time"], str) else text("the clock, as rows are pushed")
    rows = [("time", time, text("where rows lie"))]
    if values["by"]:
        rows.append(("by", ", ".join(map(code, values["by"])), text("each value has windows of its own")))
    for name, window in values["windows"].items():
        rows.append((f"window {name}", code(_call(window)), text(_summary(window, WINDOWS))))
    for name, agg in values["aggs"].items():
        rows.append((f"aggregate {name}", code(_call(agg)), text(_summary(agg, AGGREGATES))))
    rows.append(("watermark", code(_call(values["watermark"])), text(_summary(values["watermark"], WATERMARKS))))
    shown = ("time", "by", "windows", "aggs", "watermark")
    rows += [(name, code(value), "") for name, value in values.items() if name not in shown]
    return table(f"Windows over {time}", rows)


def _call(value: object) -> str:
    return repr(value).replace("sl.", "")


def _summary(value: object, known: Mapping[str, object]) -> str:
    """The first sentence of the constructor's documentation."""
    name = repr(value).removeprefix("sl.").partition("(")[0]
    lines = (getattr(known.get(name), "__doc__", None) or "").strip().splitlines()
    return lines[0].replace("``", "").partition(": ")[0].rstrip(".") if lines else ""
