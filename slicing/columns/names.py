"""Names for columns that are added beside a user's columns."""

from __future__ import annotations

from collections.abc import Container

import pyarrow as pa


def free(name: str, known: Container[str]) -> str:
    """The name, with underscores behind it if another column has it."""
    while name in known:
        name += "_"
    return name


def with_reason(given: pa.Schema) -> pa.Schema:
    """The schema with the column that says why a row is late, ``reason`` or, if there is one, ``late_reason``."""
    name = "reason"
    while name in given.names:
        name = f"late_{name}"
    return given.append(pa.field(name, pa.string()))
