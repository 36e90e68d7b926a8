"""What the pages of windows and aggregates show: code that is run, and what it prints."""

from __future__ import annotations

import contextlib
import io

import pyarrow as pa

from slicing.query.written import AGGREGATES, WINDOWS

DATA = """\
from datetime import datetime
import pyarrow as pa
import slicing as sl

minutes = [1, 2, 3, 5, 6, 7, 9, 10, 17, 18, 19, 21, 22, 23]
readings = pa.table({
    "ts": [datetime(2026, 1, 1, 9, minute) for minute in minutes],
    "value": [20.5, 21.0, 21.5, 24.0, 25.5, 25.5, 23.0, 22.0, 20.0, 20.5, 20.5, 26.0, 27.5, 24.0],
    "room": ["attic" if n % 3 == 2 else "hall" for n in range(14)],
    "hot": [minute in (6, 7, 21, 22) for minute in minutes],
    "cool": [minute in (10, 23) for minute in minutes],
})
"""
ARGUMENTS = {  # of windows
    "tumbling": '"6m"',
    "sliding": '"8m", every="4m"',
    "cumulate": '"12m", every="4m"',
    "landmark": '"8m"',
    "fixed": '"2026-01-01T09:04", "2026-01-01T09:20"',
    "calendar": '"1h"',
    "session": '"4m"',
    "rows": "5",
    "per_row": '"4m"',
    "last_rows": '3, every="8m"',
    "punctuation": '"hot"',
    "frame": '"hot", "cool"',
}
OF = {  # of aggregates; the others take a column of numbers
    "argmin": '"value", "ts"',
    "argmax": '"value", "ts"',
    "quantile": '"value", 0.9',
    "approx_quantile": '"value", 0.9',
    "top_k": '"value", 2',
    "bottom_k": '"value", 2',
    "sample": '"value", 2',
    "heavy_hitters": '"room", 0.5',
    "mode": '"room"',
    "count_distinct": '"room"',
    "approx_count_distinct": '"room"',
    "any": '"hot"',
    "all": '"hot"',
}


def window_code(name: str) -> str:
    call = f"sl.{name}({ARGUMENTS.get(name, '')})"
    return (
        f'spec = sl.Spec("ts", {{"w": {call}}}, {{"n": sl.count(), "max": sl.max("value")}})\n'
        "for w in sl.aggregate(readings, spec).to_pylist():\n"
        '    print(*w.values(), sep="  ")\n'
    )


def aggregate_code(name: str) -> str:
    arguments = OF.get(name, '"value"')
    call = f"sl.{name}({arguments})"
    return (
        f'spec = sl.Spec("ts", {{"w": sl.tumbling("12m")}}, {{"x": {call}}})\n'
        "for w in sl.aggregate(readings, spec).to_pylist():\n"
        '    print(*w.values(), sep="  ")\n'
    )


def run(code: str, names: dict[str, object] | None = None) -> tuple[str, dict[str, object]]:
    """What code prints, and the names it leaves."""
    names = {} if names is None else names
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, names)
    return printed.getvalue(), names


def page(name: str, code: str, picture: str = "") -> str:
    printed, _ = run(DATA + code)
    assert printed, f"the example of {name} prints nothing"
    return (
        f"# {name}\n\n::: slicing.{name}\n\n## Example {{#example-of-{name}}}\n\n{picture}"
        f"```python\n{DATA}\n{code}```\n\n```text\n{printed}```\n"
    )


def pages() -> dict[str, str]:
    """Pages by path; a picture is beside each."""
    found: dict[str, str] = {}
    for name in WINDOWS:
        found[f"windows/{name}.md"] = page(name, window_code(name), f"![Windows of {name}]({name}.svg)\n\n")
    for name in AGGREGATES:
        found[f"aggregates/{name}.md"] = page(name, aggregate_code(name), f"![Windows of the example]({name}.svg)\n\n")
    return found


def picture(name: str) -> str:
    """The SVG of an example: its windows, or the numbers that an aggregate gives for each."""
    import vl_convert

    import slicing as sl

    _, names = run(DATA + (window_code(name) if name in WINDOWS else aggregate_code(name)))
    data, spec = names["readings"], names["spec"]
    assert isinstance(spec, sl.Spec)
    found = sl.aggregate(data, spec)
    numbers = "x" in found.column_names and (
        pa.types.is_integer(found["x"].type) or pa.types.is_floating(found["x"].type)
    )
    chart = sl.plot.results(found, y="x") if numbers else sl.plot.timeline(data, spec)
    svg: str = vl_convert.vegalite_to_svg(chart.to_dict())
    return svg.replace("<svg ", '<svg style="background:#fff" ', 1)
