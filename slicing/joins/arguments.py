"""What the specs of two streams share: arguments that concern both sides, checked and printed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, ClassVar

import pyarrow as pa

from slicing.query.watermark import Bounded, Watermark
from slicing.system.frozen_map import FrozenMap
from slicing.times.durations import Span, shown


class SpecOfTwo:
    """A spec of two streams. It is pickled by its arguments and printed as the code that builds it."""

    sides: ClassVar[tuple[str, str]]
    watermark: tuple[Watermark, Watermark]
    idle: Span | None

    def _chosen(self) -> dict[str, Any]:
        """The arguments that differ from their defaults."""
        raise NotImplementedError

    def _spans_of_progress(self) -> list[tuple[str, Span]]:
        """The spans of both watermarks and ``idle``, each with the name of its argument."""
        found: list[tuple[str, Span]] = []
        for side, policy in zip(self.sides, self.watermark, strict=True):
            found += [(f"{side} {name}", span) for name, span in policy.spans().items()]
        return found + ([("idle", self.idle)] if self.idle is not None else [])

    def __reduce__(self) -> tuple[Any, ...]:
        arguments = {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]
        return _rebuild, (type(self), {n: dict(v) if isinstance(v, FrozenMap) else v for n, v in arguments.items()})

    def __repr__(self) -> str:
        return code_of(self, self._chosen())


def _rebuild(kind: type, arguments: dict[str, Any]) -> object:
    return kind(**arguments)


def chosen(spec: Any, defaults: Mapping[str, object]) -> dict[str, Any]:
    """The arguments of a spec of two streams that differ from their defaults, without ``schemas``."""
    on = [left if left == right else (left, right) for left, right in spec.on]
    time = spec.time[0] if spec.time[0] == spec.time[1] else spec.time
    arguments = {f.name: getattr(spec, f.name) for f in fields(spec) if f.name not in ("on", "time", "schemas")}
    return {"on": on, "time": time} | {n: v for n, v in arguments.items() if n not in defaults or v != defaults[n]}


def code_of(spec: Any, arguments: Mapping[str, object]) -> str:
    """The code that builds a spec of two streams from these arguments."""
    given = [
        f"{name}={shown_pair(value) if name == 'watermark' else shown_spans(value)}"
        for name, value in arguments.items()
    ]
    given += [] if spec.schemas is None else ["schemas=(...)"]
    return f"sl.{type(spec).__name__}({', '.join(given)})"


def on_columns(on: object, sides: tuple[str, str]) -> tuple[tuple[str, str], ...]:
    """Pairs of key columns: one column of each side."""
    names = [on] if isinstance(on, str) else on
    if not isinstance(names, list | tuple):
        raise TypeError(f"on must be a list of column names or of pairs of them ([]: only time decides); got {on!r}")
    pairs = tuple(pair_of(name, "on's columns", sides) for name in names)
    for side, columns in zip(sides, zip(*pairs, strict=True), strict=False):
        twice = [name for name in columns if columns.count(name) > 1]
        if twice:
            raise ValueError(f"on names the {side} column {twice[0]!r} twice; each key column is named once")
    return pairs


def pair_of(value: object, argument: str, sides: tuple[str, str]) -> tuple[str, str]:
    """A pair of columns, one of each side; a single name is used for both sides."""
    pair = (value, value) if isinstance(value, str) else value
    if isinstance(pair, list | tuple) and len(pair) == 2:
        left, right = pair
        if isinstance(left, str) and isinstance(right, str) and left and right:
            return left, right
    left, right = map(_whose, sides)
    raise TypeError(f"{argument} must be the name of a column, or the {left} and the {right} as a pair; got {value!r}")


def _whose(side: str) -> str:
    return f"{side}'" if side.endswith("s") else f"{side}'s"


def watermarks_of(value: object, what: str) -> tuple[Watermark, Watermark]:
    """The watermark policy of each side; a single policy is used for both sides."""
    pair = value if isinstance(value, list | tuple) else (value, value)
    if len(pair) == 2:
        left, right = (Bounded(0) if policy is None else policy for policy in pair)
        if isinstance(left, Watermark) and isinstance(right, Watermark):
            if any(isinstance(policy, Bounded) and policy.at_most_ahead is not None for policy in (left, right)):
                raise ValueError(
                    f"watermark of {what} takes no at_most_ahead; leave rows with wrong clocks out before; got "
                    f"{left!r} and {right!r}"
                )
            return left, right
    raise TypeError(
        "watermark must be sl.bounded(delay), sl.ordered(), sl.manual(), sl.per_source(column, delay) or "
        f"sl.punctuated(column), one for both sides or a pair; got {value!r}"
    )


def schemas_of(value: object, sides: tuple[str, str]) -> tuple[pa.Schema, pa.Schema] | None:
    """The schemas of both sides, or None."""
    if value is None:
        return None
    if isinstance(value, list | tuple) and len(value) == 2 and all(isinstance(s, pa.Schema) for s in value):
        return value[0], value[1]
    left, right = map(_whose, sides)
    raise TypeError(f"schemas must be a pair of pyarrow schemas, the {left} and the {right}; got {value!r}")


def shown_spans(value: object) -> str:
    """An argument as code; spans may be in a pair or in a dict by name."""
    if isinstance(value, tuple):
        return f"({', '.join(map(shown, value))})"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{name!r}: {shown_spans(one)}' for name, one in value.items())}}}"
    return shown(value)


def shown_pair(pair: Any) -> str:
    return repr(pair[0]) if pair[0] == pair[1] else repr(pair)
