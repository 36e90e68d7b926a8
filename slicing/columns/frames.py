"""Results as the frames that the data came in."""

from __future__ import annotations

import sys
from typing import Any

import pyarrow as pa

from slicing.system.arguments import choice

RETURNS = ("arrow", "same", "polars", "pandas")


def check_returns(returns: object, data: object) -> str:
    """What results are to be: "arrow", "polars", "lazy" or "pandas"."""
    asked = choice(returns, "returns", RETURNS)
    if asked != "same":
        return asked
    for module, name, kind in _FRAMES:
        library = sys.modules.get(module)  # what was never imported cannot have made the data
        if library is not None and isinstance(data, getattr(library, name)):
            return kind
    return "arrow"


_FRAMES = (("polars", "DataFrame", "polars"), ("polars", "LazyFrame", "lazy"), ("pandas", "DataFrame", "pandas"))


def given_back(table: pa.Table, kind: str) -> Any:
    """A table as ``check_returns`` says."""
    if kind == "arrow":
        return table
    if kind == "pandas":
        return table.to_pandas()
    import polars

    # one struct, through the C interface: from_arrow hands even ten rows to Polars' threads, which takes 134 us at the
    # median of a busy machine, and this 80; types and chunks are the same
    frame: Any = polars.Series(table).struct.unnest()
    return frame.lazy() if kind == "lazy" else frame
