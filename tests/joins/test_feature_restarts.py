"""Labels that wait are as they were after a restart."""

from __future__ import annotations

import pyarrow as pa

import slicing as sl

NS = pa.timestamp("ns")
T0 = 1_700_000_000_000_000_000

SPEC = sl.FeatureSpec(
    ["user"],
    ("at", "ts"),
    {"ever": None, "5s": "5s"},
    {"n": sl.count(), "users": sl.count_distinct("v"), "s": sl.sum("v")},
    watermark=sl.bounded("1us"),
)


def labels(*rows: tuple[str | None, int]) -> pa.Table:
    users, times = zip(*rows, strict=True)
    return pa.table({"user": pa.array(users, pa.string()), "at": pa.array([T0 + t for t in times], NS)})


def events(*rows: tuple[str | None, int, int]) -> pa.Table:
    users, times, values = zip(*rows, strict=True)
    return pa.table({"user": pa.array(users, pa.string()), "ts": pa.array([T0 + t for t in times], NS), "v": values})


def restarted(op: sl.FeatureOperator) -> sl.FeatureOperator:
    return sl.FeatureOperator.restore(SPEC, op.snapshot())


def test_labels_of_a_null_key_wait_over_restarts_for_the_events_columns() -> None:
    op = sl.FeatureOperator(SPEC)
    assert op.push_labels(labels((None, 7), ("a", 8))).rows.num_rows == 0
    op = restarted(op)
    assert op.push_labels(labels((None, 5), (None, 6))).rows.num_rows == 0
    rows = restarted(op).push_events(events(("a", 1, 3))).rows.to_pylist()
    assert [(row["at"].value - T0, row["n_ever"], row["users_5s"], row["s_ever"]) for row in rows] == [
        (5, 0, 0, None),
        (6, 0, 0, None),
        (7, 0, 0, None),
    ]


def test_labels_without_any_events_count_none_of_them() -> None:
    op = sl.FeatureOperator(SPEC)
    op.push_labels(labels((None, 7), ("a", 8)))
    rows = restarted(op).flush().rows
    assert rows.column_names == ["user", "at", "n_ever", "users_ever", "s_ever", "n_5s", "users_5s", "s_5s"]
    assert rows.drop_columns(["user", "at"]).to_pylist() == 2 * [
        {"n_ever": 0, "users_ever": 0, "s_ever": None, "n_5s": 0, "users_5s": 0, "s_5s": None}
    ]
