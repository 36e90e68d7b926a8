"""Windows of rows by arrival, beside what a list of rows gives: in order of time, nearly in order, and shuffled."""

import random
from itertools import pairwise

import pyarrow as pa
import pytest

import slicing as sl

BEGIN = 1_790_000_000_000_000_000
STEPS = [1, 3, 10**9]


def stream(chance: random.Random, step: int) -> pa.Table:
    """Rows in chunks, at times that are multiples of ``step`` nanoseconds apart: in order of time, with one straggler
    at the begin of a chunk or within it, nearly in order, or in any order."""
    count = chance.randint(0, 80)
    times = sorted(BEGIN + step * chance.randint(0, count // 2) for _ in range(count))
    chunks = sorted(chance.choices(range(count + 1), k=chance.randint(0, 3)))
    disorder = chance.choice(["none", "none", "one", "edge", "near", "any"])
    if disorder == "near":
        times.sort(key=lambda time: time + step * chance.randint(0, 9))
    elif disorder == "any":
        chance.shuffle(times)
    elif count > 2 and disorder != "none":
        at = chance.choice(chunks) if chunks and disorder == "edge" else chance.randrange(count)
        times.insert(min(at, count - 1), times.pop(0))
    rows = {
        "t": pa.array(times, pa.timestamp("ns", "UTC")),
        "k": pa.array([chance.choice(["a", "b", None]) for _ in times], pa.string()),
        "q": pa.array([chance.randint(0, 3) for _ in times], pa.int64()),
        "v": pa.array(range(count), pa.int64()),
    }
    table = pa.table(rows)
    bounds = [0, *chunks, count]
    return pa.concat_tables([table.slice(a, b - a) for a, b in pairwise(bounds)])


def expected(rows: list[dict], n: int, every: int, keyed: bool, per_key: bool, partial: bool) -> list[tuple]:
    """The key, ranks, earliest and latest time, and values in order of time of each window."""
    found = []
    for ranked in by_key(rows, keyed and per_key):
        for start in range(0, len(ranked), every):
            window = ranked[start : start + n]
            if len(window) == n or partial:
                times = [row["t"] for row in window]
                for own in by_key(window, keyed):
                    values = [row["v"] for row in sorted(own, key=lambda row: row["t"])]
                    span = (min(times), max(times))
                    found.append((own[0]["k"] if keyed else None, start, start + n, *span, sorted(values)))
    return found


def by_key(rows: list[dict], keyed: bool) -> list[list[dict]]:
    groups: dict[object, list[dict]] = {}
    for row in rows:
        groups.setdefault(row["k"] if keyed else None, []).append(row)
    return list(groups.values())


def answers(table: pa.Table, keyed: bool) -> list[tuple]:
    return [
        (row.get("k") if keyed else None, row["rank_start"], row["rank_end"], row["a"], row["b"], sorted(row["x"]))
        for row in table.append_column("a", table["window_start"].cast(pa.int64()))
        .append_column("b", table["window_end"].cast(pa.int64()))
        .select([c for c in ("k", "rank_start", "rank_end", "a", "b", "x") if c != "k" or keyed])
        .to_pylist()
    ]


@pytest.mark.parametrize("case", range(120))
def test_windows_hold_rows_as_they_arrived(case):
    chance = random.Random(case)
    table = stream(chance, chance.choice(STEPS))
    n, every = chance.randint(1, 7), chance.randint(1, 7)
    keyed, per_key, partial = (chance.random() < 0.5 for _ in range(3))
    window = sl.rows(n, every, order="arrival", per_key=per_key, partial=partial)
    sequence = chance.choice([None, None, "q"])
    spec = sl.Spec(
        "t", {"w": window}, {"x": sl.collect("v")}, by="k" if keyed else None, sequence=sequence, watermark=sl.manual()
    )
    rows = table.set_column(0, "t", table["t"].cast(pa.int64())).to_pylist()
    wanted = expected(rows, n, every, keyed, per_key, partial)
    key = repr
    assert sorted(answers(sl.aggregate(table, spec), keyed), key=key) == sorted(wanted, key=key)

    op, found = sl.Operator(spec), []
    for batch in table.to_batches(max_chunksize=chance.choice([1, 7, 100])):
        found += answers(op.push(batch).windows, keyed)
    found += answers(op.flush().windows, keyed)
    assert sorted(found, key=key) == sorted(wanted, key=key)


def passed(case: int) -> int:
    """Push rows nearly in order, and compare what has closed after each push. How many windows closed before the flush.

    A window closes with the first push after which it is complete and the watermark is later than its last row.
    """
    chance = random.Random(1000 + case)
    step = chance.choice(STEPS)
    table = stream(chance, step)
    n, every = chance.randint(1, 5), chance.randint(1, 5)
    keyed, per_key, partial = (chance.random() < 0.5 for _ in range(3))
    window = sl.rows(n, every, order="arrival", per_key=per_key, partial=partial)
    delay = step * chance.choice([0, 1, 3, 9, 20])
    by = "k" if keyed else None
    spec = sl.Spec("t", {"w": window}, {"x": sl.collect("v")}, by=by, watermark=sl.bounded(f"{delay}ns"))
    op, found, kept, latest, closed = sl.Operator(spec), [], [], 0, 0
    while len(table):
        batch = table.slice(0, chance.randint(1, 5))
        table = table.slice(len(batch))
        out = op.push(batch)
        found += answers(out.windows, keyed)
        rows, mark = batch.set_column(0, "t", batch["t"].cast(pa.int64())).to_pylist(), latest - delay
        assert out.late["v"].to_pylist() == [row["v"] for row in rows if row["t"] < mark]
        kept += [row for row in rows if row["t"] >= mark]
        latest = max(latest, *(row["t"] for row in rows))
        wanted = [w for w in expected(kept, n, every, keyed, per_key, False) if w[4] < latest - delay]
        assert sorted(found, key=repr) == sorted(wanted, key=repr)
        closed = len(found)
    found += answers(op.flush().windows, keyed)
    assert sorted(found, key=repr) == sorted(expected(kept, n, every, keyed, per_key, partial), key=repr)
    return closed


@pytest.mark.filterwarnings("ignore:one row of time")
@pytest.mark.parametrize("cases", range(10))
def test_windows_by_arrival_close_as_the_watermark_passes(cases):
    counts = [passed(case) for case in range(8 * cases, 8 * cases + 8)]
    assert sum(count > 0 for count in counts) >= 3
