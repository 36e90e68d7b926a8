"""What stages and state files need of an operator, for each kind of query: windows, joins, features."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Protocol

from slicing import FeatureOperator, FeatureSpec, JoinOperator, JoinSpec, Operator, Spec
from slicing import exchange as windows
from slicing.exchange import COUNTS
from slicing.joins import exchange as joins
from slicing.joins import repartition as join_parts
from slicing.lifecycle import repartition as window_parts

AnySpec = Spec | JoinSpec | FeatureSpec
Reached = int | None | tuple[int | None, int | None]  # a watermark in ticks; for a join the watermarks of both sides


class Engine(Protocol):
    """One kind of query, with operators of its kind."""

    @property
    def name(self) -> str:
        """The ``name`` of a query that was given none: the default in the signature of its function."""

    @property
    def counted(self) -> tuple[str, ...]:
        """The counts of a batch that are summed over all places."""

    def restore(self, spec: Any, content: bytes) -> Any:
        """The operator of a snapshot."""

    def saved(self, operator: Any) -> tuple[Sequence[bytes | memoryview], int]:
        """An operator as packed pieces of bytes, and their approximate size unpacked."""

    def loaded(self, spec: Any, content: bytes | memoryview) -> Any:
        """The operator of these bytes, whose checksum was already checked."""

    def admit(self, operator: Any, blobs: Iterable[bytes], prompt: bool) -> Any:
        """Push what the readers of a batch have sent; return the operator's output."""

    def replay(self, operator: Any, blobs: Iterable[bytes], prompt: bool) -> None:
        """Push again what a batch brought; its results were already emitted before."""

    def figures(self, operator: Any) -> dict[str, Any]:
        """Facts about a state for the header of its version; ``watermark`` judges the rows of the next batch."""

    def given(self, operator: Any) -> Any:
        """The columns of the rows."""

    def split(self, operator: Any, count: int) -> list[Any]:
        """Operators for ``count`` places, each with a part of the keys."""

    def joined(self, operators: Sequence[Any]) -> Any:
        """One operator from several operators of different keys."""


class _Windows:
    name = "windows"
    counted = (*COUNTS, "windows", "slices", "cells", "kept", "keys", "state_bytes", "held", "cold")

    def restore(self, spec: Spec, content: bytes) -> Operator:
        return Operator.restore(spec, content)

    def saved(self, operator: Operator) -> tuple[Sequence[bytes | memoryview], int]:
        return windows.saved(operator)

    def loaded(self, spec: Spec, content: bytes | memoryview) -> Operator:
        return windows.loaded(spec, content)

    def admit(self, operator: Operator, blobs: Iterable[bytes], prompt: bool) -> Any:
        return windows.admit(operator, blobs, prompt)

    def replay(self, operator: Operator, blobs: Iterable[bytes], prompt: bool) -> None:
        windows.admit(operator, blobs, prompt, quiet=True)

    def figures(self, operator: Operator) -> dict[str, Any]:
        state = windows.state_of(operator)
        return {"watermark": state.watermark, "largest": state.progress.largest, "newest": state.newest}

    def given(self, operator: Operator) -> Any:
        return windows.state_of(operator).given

    def split(self, operator: Operator, count: int) -> list[Operator]:
        return [windows.operator_of(part) for part in window_parts.split(windows.state_of(operator), count)]

    def joined(self, operators: Sequence[Operator]) -> Operator:
        return windows.operator_of(window_parts.joined([windows.state_of(operator) for operator in operators]))


class _Joins:
    name = "joined"
    counted: tuple[str, ...] = (
        "left", "right", "joined", "late_left", "late_right", "null_time", "kept", "state_bytes", "held", "cold",
    )  # fmt: skip

    def restore(self, spec: Any, content: bytes) -> Any:
        return JoinOperator.restore(spec, content)

    def saved(self, operator: Any) -> tuple[Sequence[bytes | memoryview], int]:
        content = operator.snapshot()
        return [content], len(content)

    def loaded(self, spec: Any, content: bytes | memoryview) -> Any:
        """The columns of the spec may be others than those of the state: a ``JoinJob`` checks them."""
        restored = self.restore(replace(spec, schemas=None), bytes(content))
        return joins.operator_of(spec, joins.state_of(restored))

    def admit(self, operator: Any, blobs: Iterable[bytes], prompt: bool) -> Any:
        return joins.admit(operator, blobs, prompt)

    def replay(self, operator: Any, blobs: Iterable[bytes], prompt: bool) -> None:
        joins.admit(operator, blobs, prompt)

    def figures(self, operator: Any) -> dict[str, Any]:
        state = joins.state_of(operator)
        left, right = state.progress
        return {"watermark": tuple(state.judge()), "largest": [left.largest, right.largest]}

    def given(self, operator: Any) -> Any:
        left, right = joins.state_of(operator).plan.sides
        return left.schema, right.schema

    def split(self, operator: Any, count: int) -> list[Any]:
        parts = join_parts.split(joins.state_of(operator), count)
        return [joins.operator_of(operator.spec, part) for part in parts]

    def joined(self, operators: Sequence[Any]) -> Any:
        state = join_parts.joined([joins.state_of(operator) for operator in operators])
        return joins.operator_of(operators[0].spec, state)


class _Features(_Joins):
    name = "features"
    counted = (
        "labels", "events", "answered", "late_labels", "late_events", "null_time", "waiting", "kept", "slices",
        "state_bytes", "held", "cold",
    )  # fmt: skip

    def restore(self, spec: Any, content: bytes) -> Any:
        return FeatureOperator.restore(spec, content)


WINDOWS, JOINS, FEATURES = _Windows(), _Joins(), _Features()


def engine(spec: AnySpec) -> Engine:
    """The engine for a spec."""
    if isinstance(spec, FeatureSpec):
        return FEATURES
    return JOINS if isinstance(spec, JoinSpec) else WINDOWS
