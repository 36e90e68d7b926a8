"""Windows of the last ``n`` rows, or as many as there are: ``sl.attach(min_rows=)``."""

from __future__ import annotations

from dataclasses import dataclass, replace

from slicing.query.spec import Spec
from slicing.system.arguments import at_least_one
from slicing.system.frozen_map import FrozenMap
from slicing.windows.rows.row_count import RowCount


@dataclass(frozen=True, repr=False)
class UpTo(RowCount):
    """The window of the last ``n`` rows at each row. A row with fewer rows up to it makes one too, from ``least`` rows
    on."""

    least: int = 1

    @property
    def fewest(self) -> int:
        return self.least


def up_to(spec: Spec, min_rows: object) -> Spec:
    """The spec, whose rows make windows with at least so many rows.

    Raises an error if no row makes a window of a number of rows, or if a window never has so many.
    """
    least = at_least_one(min_rows, "min_rows", ", or None")
    name = f"up to {least}"
    if name not in spec.memo:
        spec.memo[name] = _up_to(spec, least)
    made: Spec = spec.memo[name]
    return made


def _up_to(spec: Spec, least: int) -> Spec:
    made = {name: w for name, w in spec.windows.items() if isinstance(w, RowCount) and w.every == 1}
    if not made:
        raise ValueError(
            f"min_rows is for windows of a number of rows at each row, sl.rows(n, every=1); got {least} and windows "
            f"{', '.join(map(repr, spec.windows.values()))}: add sl.count(), and leave out rows where it is less"
        )
    for name, window in made.items():
        if window.by_arrival:
            raise ValueError(f"min_rows is for rows in order of time; got windows[{name!r}] = {window!r}")
        if least > window.n:
            raise ValueError(f"min_rows={least} is more than windows[{name!r}] has: {window!r}")
    windows = {name: UpTo(w.n, w.every, w.order, w.per_key, w.partial, least) for name, w in made.items() if w.n > 1}
    return replace(spec, windows=FrozenMap({**spec.windows, **windows}))
