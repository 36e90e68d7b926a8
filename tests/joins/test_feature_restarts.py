"""Labels that wait are as they were after a restart."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import slicing as sl
from slicing.joins import repartition
from slicing.joins.exchange import operator_of, state_of

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


@pytest.mark.parametrize("parts", [1, 3])
def test_slices_go_with_their_keys_when_a_state_is_taken_apart(parts: int) -> None:
    """Old events are slices; keys without rows are forgotten, and the others answer as before."""
    users = [f"u{number}" for number in range(40)]
    asked = sl.FeatureSpec(
        "user", ("at", "ts"), {"9us": "9us", "ever": None}, {"s": sl.sum("v"), "last": sl.last("v")}, tail="2us",
        watermark=sl.manual(), wait=False,
    )  # fmt: skip
    whole = sl.FeatureOperator(asked)
    for step in range(4):
        whole.push(labels(("u0", 1))[:0], events(*((user, 500 * step, number) for number, user in enumerate(users))))
    out = whole.advance(labels=np.datetime64(T0 + 3000, "ns"))
    assert (out.stats.kept, out.stats.slices) == (0, 40)
    state = state_of(whole)
    apart = repartition.split(state, parts)
    assert [len(part.sides[1].slices[0]) for part in apart if part.sides[1].slices] != [] and len(apart) == parts
    rows = labels(*((user, 4000) for user in users))
    expected = whole.push_labels(rows).rows.sort_by("user")
    found = []
    for part in apart:
        mine = part.keys.values(np.arange(len(part.keys)))[0].to_pylist()
        some = rows.filter(pa.array([user in mine for user in users]))
        found.append(operator_of(asked, part).push_labels(some).rows)
    again = operator_of(asked, repartition.joined(apart[::-1]))
    again = sl.FeatureOperator.restore(asked, again.snapshot())
    assert pa.concat_tables(found).sort_by("user").equals(expected)
    assert again.push_labels(rows).rows.sort_by("user").equals(expected)
    assert expected["s_ever"].to_pylist() == [4 * int(user[1:]) for user in expected["user"].to_pylist()]
