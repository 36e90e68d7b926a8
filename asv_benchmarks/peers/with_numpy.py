"""By hand, for rows that are in order: it knows the question beforehand, and keeps no state."""

from __future__ import annotations

import numpy as np

from asv_benchmarks.peers.data import Data, Plan, Work


def _reduced(ts: np.ndarray, value: np.ndarray, size: int) -> dict[str, np.ndarray]:
    edges = np.arange(ts[0] // size, ts[-1] // size + 2) * size
    bounds = np.searchsorted(ts, edges)
    held = np.flatnonzero(np.diff(bounds))
    first = bounds[held]
    return {
        "start": edges[held],
        "n": np.diff(bounds)[held],
        "total": np.add.reduceat(value, first),
        "low": np.minimum.reduceat(value, first),
        "high": np.maximum.reduceat(value, first),
    }


def reduceat(size: int) -> Plan:
    """Rows are in order: nothing to group by but slices of the array."""

    def plan(data: Data) -> Work:
        ts, value = data.arrays.values()
        return lambda: _reduced(ts, value, size)

    return plan


def groups(size: int) -> Plan:
    """Keys are small numbers: each window has a row of cells."""

    def plan(data: Data) -> Work:
        (ts, value), key = data.arrays.values(), data.table["key"].to_numpy()

        def work() -> dict[str, np.ndarray]:
            keys, slot = int(key.max()) + 1, ts // size
            first = int(slot[0])
            cell, cells = (slot - first) * keys + key, (int(slot[-1]) - first + 1) * keys
            n, total = np.bincount(cell, minlength=cells), np.bincount(cell, value, cells)
            low, high = np.full(cells, np.inf), np.full(cells, -np.inf)
            np.minimum.at(low, cell, value)
            np.maximum.at(high, cell, value)
            held = np.flatnonzero(n)
            start = (held // keys + first) * size
            found = {"n": n[held], "total": total[held], "low": low[held], "high": high[held]}
            return {"start": start, "key": held % keys, **found}

        return work

    return plan


def panes(size: int, every: int) -> Plan:
    """Panes without gaps, as the stream has none; a window is a row of a view."""
    count = size // every
    over = {"n": np.sum, "total": np.sum, "low": np.min, "high": np.max}

    def plan(data: Data) -> Work:
        ts, value = data.arrays.values()

        def work() -> dict[str, np.ndarray]:
            panes = _reduced(ts, value, every)
            view = np.lib.stride_tricks.sliding_window_view
            found = {name: f(view(panes[name], count), axis=1) for name, f in over.items()}
            return {"start": panes["start"][: len(found["n"])], **found}

        return work

    return plan


def counts(size: int) -> Plan:
    """Rows are in order and none is late: a window is a row of a matrix."""

    def plan(data: Data) -> Work:
        ts, value = data.arrays.values()
        count = ts.size // size

        def work() -> dict[str, np.ndarray]:
            times, values = ts[: count * size].reshape(count, size), value[: count * size].reshape(count, size)
            over = {"total": values.sum(axis=1), "low": values.min(axis=1), "high": values.max(axis=1)}
            return {"start": times[:, 0], "end": times[:, -1], "n": np.full(count, size), **over}

        return work

    return plan


def marks(only_inside: bool) -> Plan:
    """Rows are in order: marks are where to cut."""

    def plan(data: Data) -> Work:
        (ts, value), flags = data.arrays.values(), [data.table[name].to_numpy() for name in ("mark", "leave")]

        def work() -> dict[str, np.ndarray]:
            first = np.flatnonzero(flags[0])
            last = np.flatnonzero(flags[1])[: first.size] + 1 if only_inside else np.append(first[1:], ts.size)
            first, over = first[: last.size], (np.add, np.minimum, np.maximum)
            at = np.stack([first, last], axis=1).ravel() if only_inside else first
            at, step = at[at < ts.size], 2 if only_inside else 1
            total, low, high = (f.reduceat(value, at)[::step] for f in over)
            return {"start": ts[first], "n": last - first, "total": total, "low": low, "high": high}

        return work

    return plan
