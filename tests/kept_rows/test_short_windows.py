"""A stream of windows of up to ``n`` rows: what ``attach(min_rows=)`` asks for at once, push by push."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

import slicing as sl
from slicing.beside.short import up_to

Row = tuple[int, str, int]  # time, key, number


def expected(rows: list[Row], n: int, least: int, keyed: bool, per_key: bool) -> list[tuple]:
    """The key, ranks, first and last time, and numbers of each window."""
    found = []
    for ranked in by_key(rows, keyed and per_key):
        ranked = sorted(ranked, key=lambda row: row[0])
        for end in range(least, len(ranked) + 1):
            window = ranked[max(end - n, 0) : end]
            edges = max(end - n, 0), end, window[0][0], window[-1][0]
            found += [
                (own[0][1] if keyed else None, *edges, [number for _, _, number in own])
                for own in by_key(window, keyed)
            ]
    return found


def by_key(rows: list[Row], keyed: bool) -> list[list[Row]]:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row[1] if keyed else "", []).append(row)
    return list(groups.values())


def answers(table: pa.Table) -> list[tuple]:
    columns = ("k", "rank_start", "rank_end", "window_start", "window_end", "numbers")
    return [tuple(row.get(name) for name in columns) for row in table.to_pylist()]


def closed_early(chance: random.Random, keyed: bool, per_key: bool) -> int:
    """Push some rows, compare what has closed after each push. How many windows closed before the flush."""
    n = chance.randint(2, 7)
    least, delay = chance.randint(1, n), chance.choice([0, 2, 5])
    plain = sl.Spec(
        "t",
        {"w": sl.rows(n, every=1, per_key=per_key)},
        {"numbers": sl.collect("number")},
        by="k" if keyed else None,
        watermark=sl.bounded(delay),
    )
    spec = up_to(plain, least)
    op, clock, count, latest, rows, found = sl.Operator(spec), 0, 0, 0, list[Row](), list[tuple]()
    for _ in range(chance.randint(1, 20)):
        pushed = []
        for _ in range(chance.randint(1, 6)):
            clock += chance.choice([0, 0, 1, 1, 3])
            pushed.append((max(clock - chance.choice([0, 0, 0, 1, 2, 5]), 0), chance.choice("ab"), count))
            count += 1
        out = op.push(pa.table(dict(zip(("t", "k", "number"), zip(*pushed, strict=True), strict=True))))
        found += answers(out.windows)
        mark = latest - delay
        assert out.late["number"].to_pylist() == [number for time, _, number in pushed if time < mark]
        rows += [row for row in pushed if row[0] >= mark]
        latest = max(latest, *(time for time, _, _ in pushed))
        wanted = [window for window in expected(rows, n, least, keyed, per_key) if window[4] < latest - delay]
        assert sorted(found, key=repr) == sorted(wanted, key=repr), (n, least)
        if chance.random() < 0.3:
            op = sl.Operator.restore(spec, op.snapshot())
    early = len(found)
    found += answers(op.flush().windows)
    assert sorted(found, key=repr) == sorted(expected(rows, n, least, keyed, per_key), key=repr), (n, least)
    return early


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("per_key", [False, True])
def test_windows_of_fewer_rows_come_once_and_in_time(keyed: bool, per_key: bool) -> None:
    counts = [closed_early(random.Random(case), keyed, per_key) for case in range(30)]
    assert sum(count > 0 for count in counts) > 15
