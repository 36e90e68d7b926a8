"""What joins and features hold in the worst streams: memory follows the band, whatever comes, or fails to come."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

import slicing as sl

MILLION = 10**6
MS = 10**6  # of nanoseconds
BEGIN = 1_700_000_000 * 1000 * MS


def side(times: np.ndarray, **columns: object) -> pa.Table:
    return pa.table({"t": times, "k": np.zeros(times.size, np.int64), **columns})


def spec(**given: object) -> sl.JoinSpec:
    return sl.JoinSpec(**({"on": "k", "time": "t", "within": (1000 * MS, 1000 * MS), "how": "inner"} | given))


def test_one_key_with_a_million_rows_a_side() -> None:
    """A row each 400 ms: five partners a row, and no more rows are held than the band has."""
    times = BEGIN + 400 * MS * np.arange(MILLION)
    op, pairs, held, step = sl.JoinOperator(spec(how="left")), 0, 0, 50_000
    for at in range(0, MILLION, step):
        rows = side(times[at : at + step])
        out = op.push(rows, rows)
        pairs, held = pairs + out.stats.joined, max(held, out.stats.held)
    assert pairs == 5 * MILLION - 6 and held <= 8


def test_a_million_rows_of_one_moment() -> None:
    """10**12 pairs of one key: a push gives a row's pairs at a time, and other rows wait; a semi join needs none."""
    rows = side(np.full(MILLION, BEGIN))
    op = sl.JoinOperator(spec(), max_rows_per_push=100_000)
    op.push_right(rows)
    out = op.push_left(rows[:1000])
    assert out.rows.num_rows <= MILLION and out.stats.pending >= 999
    found = sl.join(rows, rows, on="k", time="t", within=(0, 0), how="semi")
    assert found.num_rows == MILLION


def test_the_nearest_of_a_million_rows_of_one_moment() -> None:
    """The last of them is looked for by halves: one by one 10**12 rows would be looked at, for ten minutes."""
    rows, later = side(np.full(MILLION, BEGIN)), side(np.full(MILLION, BEGIN + MS), v=np.arange(MILLION))
    found = sl.join(rows, later, on="k", time="t", within=(0, 1000 * MS), match="nearest", how="left")
    assert found.num_rows == MILLION and found["v"].unique().to_pylist() == [MILLION - 1]


def test_a_side_that_never_has_rows() -> None:
    """Left rows wait for its watermark for ever; with idle they are held for as long as it says, and no longer."""
    nobody = side(np.empty(0, np.int64))
    times = BEGIN + 10 * MS * np.arange(400_000)
    held = {}
    for idle in (None, 10_000 * MS):
        op = sl.JoinOperator(spec(how="left", idle=idle))
        op.push_right(nobody)
        outs = [op.push_left(side(times[at : at + 20_000])).stats.held for at in range(0, times.size, 20_000)]
        held[idle] = max(outs)
    assert held[None] == times.size and held[10_000 * MS] <= 1101


def test_a_watermark_that_is_ahead_for_ever() -> None:
    """Rows of the other side are done when they come."""
    op = sl.JoinOperator(spec(how="left"))
    op.push(side(np.empty(0, np.int64)), side(np.empty(0, np.int64)))
    op.advance(right=(1 << 62))
    for at in range(5):
        out = op.push_left(side(BEGIN + MS * np.arange(at * 1000, at * 1000 + 1000)))
        assert out.rows.num_rows == 1000 and out.stats.held == 0
    features = sl.FeatureOperator(sl.FeatureSpec("k", "t", {"r": 1000 * MS}, {"n": sl.count()}))
    features.push_labels(side(np.empty(0, np.int64)))
    features.advance(labels=(1 << 62))
    assert features.push_events(side(BEGIN + MS * np.arange(1000))).stats.kept == 0


def test_jumps_of_ten_to_the_twelve() -> None:
    """Each row a trillion ticks after the one before: slices of time become longer, there are never many of them."""
    times = 10**12 * np.arange(-100_000, 100_000)
    op = sl.JoinOperator(spec(within=(3 * 10**12, 0), how="semi"))
    joined = 0
    for at in range(0, times.size, 4000):
        out = op.push(side(times[at : at + 4000]), side(times[at : at + 4000]))
        joined += out.stats.joined
        assert out.stats.held <= 8 and len(op._state.sides[1].runs) <= 64
    assert joined == times.size
    far = sl.FeatureSpec("k", "t", {"r": 2 * 10**12}, {"n": sl.count()})
    features = sl.FeatureOperator(far)
    for at in range(0, times.size, 4000):
        out = features.push(side(times[at : at + 4000]), side(times[at : at + 4000]))
        assert out.stats.kept <= 8 and set(out.rows["n_r"].to_pylist()[2:]) <= {2}
