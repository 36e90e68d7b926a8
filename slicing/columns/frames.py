"""Results as frames of the library that the data came from."""

from __future__ import annotations

import json
import sys
from typing import Any

import pyarrow as pa

from slicing.system.arguments import choice

MANY_ROWS = 1 << 16  # rows of a pandas frame for which threads pay off: starting them takes 0.3 ms
RETURNS = ("arrow", "same", "polars", "pandas")


def check_returns(returns: object, data: object) -> str:
    """The kind of results: "arrow", "polars", "lazy" or "pandas"."""
    kind = choice(returns, "returns", RETURNS)
    if kind != "same":
        return kind
    for module, name, kind in _FRAMES:
        library = sys.modules.get(module)  # a library that was never imported cannot have made the data
        if library is not None and isinstance(data, getattr(library, name)):
            return kind
    return "arrow"


_FRAMES = (("polars", "DataFrame", "polars"), ("polars", "LazyFrame", "lazy"), ("pandas", "DataFrame", "pandas"))


def given_back(table: pa.Table, kind: str, like: object = None) -> Any:
    """A table as the ``kind`` from ``check_returns``; ``like``: the input data, for types that Arrow does not keep."""
    if kind == "arrow":
        return table
    if kind == "pandas":
        return table.to_pandas(use_threads=table.num_rows >= MANY_ROWS)
    import polars

    # one struct, through the C interface: from_arrow hands even ten rows to Polars' threads (134 us at the median of a
    # busy machine, while this takes 80 us); types and chunks are equal
    frame: Any = polars.Series(table).struct.unnest()
    if isinstance(like, polars.DataFrame | polars.LazyFrame) and polars.Categorical in frame.dtypes:
        known = like.collect_schema()
        enums = {n: known[n] for n, t in frame.schema.items() if t == polars.Categorical and n in known}
        frame = frame.cast({name: type for name, type in enums.items() if isinstance(type, polars.Enum)})
    return frame.lazy() if kind == "lazy" else frame


def with_index(table: pa.Table, given: pa.Schema) -> pa.Table:
    """A table with pandas metadata: which of its columns were the index of the frame with schema ``given``."""
    known = json.loads((given.metadata or {}).get(b"pandas", b"{}"))
    known["index_columns"] = [name for name in known.get("index_columns", ()) if name in table.column_names]
    if not known["index_columns"]:
        return table
    known["columns"] = [about for about in known["columns"] if about["field_name"] in known["index_columns"]]
    return table.replace_schema_metadata({b"pandas": json.dumps(known).encode()})


def without_index(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch without the columns of an unnamed pandas index."""
    known = json.loads((batch.schema.metadata or {}).get(b"pandas", b"{}"))
    unnamed = [about["field_name"] for about in known.get("columns", ()) if about["name"] is None]
    return batch.select([name for name in batch.schema.names if name not in unnamed]) if unnamed else batch
