"""JoinSpec and FeatureSpec as TOML. Spans are values; watermarks, windows and aggregates are calls in quotes.

``slicing.query.written`` reads and writes the calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

from slicing.query.written import (
    AGGREGATES,
    WATERMARKS,
    WINDOWS,
    call_text,
    condition,
    entry,
    loaded,
    toml_key,
    toml_value,
    unprefixed,
)
from slicing.times.durations import Duration

UNBOUNDED = "unbounded"  # TOML has no null
_NEEDED = {"on": '["user"]', "time": '["shown_at", "clicked_at"]', "within": '["0s", "10m"]'}


def join_arguments(text: str | PathLike[str], known: Sequence[str]) -> dict[str, Any]:
    """The arguments of a JoinSpec."""
    found = _arguments(text, known, ("on", "time", "within"))
    within = found["within"]
    found["within"] = _given(within) if isinstance(within, list) else entry(within, "within", WINDOWS)
    if "where" in found:
        found["where"] = condition(found["where"])
    return found


def feature_arguments(text: str | PathLike[str], known: Sequence[str]) -> dict[str, Any]:
    """The arguments of a FeatureSpec."""
    found = _arguments(text, known, ("on", "time"))
    for table, example in (("ranges", '"1h" = "1h"'), ("aggs", 'n = "count()"')):
        if not isinstance(found.get(table), dict):
            raise ValueError(f"the spec needs a table [{table}] with entries such as {example}")
    found["ranges"] = {name: _given(span) for name, span in found["ranges"].items()}
    found["aggs"] = {name: entry(said, f"aggs.{name}", AGGREGATES) for name, said in found["aggs"].items()}
    return found


def _arguments(text: str | PathLike[str], known: Sequence[str], needed: Sequence[str]) -> dict[str, Any]:
    found = loaded(text, known)
    for name in needed:
        if name not in found:
            raise ValueError(f"the spec needs {name}, such as {name} = {_NEEDED[name]}")
    if isinstance(said := found.get("watermark"), list):
        found["watermark"] = tuple(entry(policy, "watermark", WATERMARKS) for policy in said)
    elif said is not None:
        found["watermark"] = entry(said, "watermark", WATERMARKS)
    return found


def toml(arguments: Mapping[str, Any]) -> str:
    """TOML of the arguments of a spec; tables come last."""
    lines = [f"{name} = {_shown(name, given)}" for name, given in arguments.items() if not isinstance(given, Mapping)]
    for table, given in arguments.items():
        if isinstance(given, Mapping):
            lines += ["", f"[{table}]", *(f"{toml_key(name)} = {_shown(table, item)}" for name, item in given.items())]
    return "\n".join(lines) + "\n"


def _shown(name: str, given: Any) -> str:
    if name == "watermark":
        texts = [call_text(policy, name, WATERMARKS) for policy in given]
        return toml_value(texts[0] if texts[0] == texts[1] else texts)
    if name == "aggs":
        return toml_value(call_text(given, name, AGGREGATES))
    if name == "where":
        return toml_value(unprefixed(given))
    if name == "within" and not isinstance(given, tuple):
        return toml_value(call_text(given, name, WINDOWS))
    return toml_value(_plain(given))


def _plain(given: Any) -> Any:
    """Spans and None as TOML values."""
    if isinstance(given, list | tuple):
        return [_plain(item) for item in given]
    return UNBOUNDED if given is None else str(given) if isinstance(given, Duration) else given


def _given(said: Any) -> Any:
    """Spans and None as Python values."""
    if isinstance(said, list):
        return tuple(_given(item) for item in said)
    return None if said == UNBOUNDED else said
