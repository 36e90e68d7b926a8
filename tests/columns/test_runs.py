"""Run-end-encoded columns decoded, also where Arrow has no kernel for it."""

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from slicing.columns.casts import without_runs

VALUES = [
    pa.array([[1, 2], None, [], [3]]),
    pa.array([{"a": 1}, None, {"a": 2}, {"a": None}]),
    pa.array(["a", None, "", "b"]),
]


@pytest.mark.parametrize("kernel", [True, False])
@pytest.mark.parametrize("values", VALUES, ids=lambda values: str(values.type))
def test_parts_of_runs(values: pa.Array, kernel: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(column: pa.Array) -> pa.Array:
        raise pa.ArrowNotImplementedError("no kernel")

    if not kernel:
        monkeypatch.setattr(pc, "run_end_decode", none)
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3, 7, 8], pa.int32()), values)
    rows = [values[at].as_py() for at in (0, 0, 1, 2, 2, 2, 2, 3)]
    for first in range(9):
        for last in range(first, 9):
            part = without_runs(runs.slice(first, last - first))
            assert part.type == values.type and part.to_pylist() == rows[first:last]
    both = without_runs(pa.chunked_array([runs, runs.slice(1, 3)]))
    assert both.type == values.type and both.to_pylist() == rows + rows[1:4]
