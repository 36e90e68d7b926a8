"""A key with most of the rows costs its place slices, not rows: what readers send, and what the place does with it."""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa

import slicing as sl
from slicing.exchange import Collector, admit, packed, start

PLACES, READERS = 8, 4
SECOND = 1_000_000
NOW = 1_790_000_000 * SECOND
SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int64()), ("v", pa.float64())])


def spec(agg: sl.Aggregate) -> sl.Spec:
    windows = {"hop": sl.sliding("60s", every="1s"), "ten": sl.tumbling("10s")}
    return sl.Spec("ts", windows, {"n": sl.count(), "of": agg}, by="k", watermark=sl.bounded("1m"))


def sent(asked: sl.Spec, rows: int, hot: float) -> list[list[bytes]]:
    """What each reader sends to each place, of a minute; key 0 has a share of the rows, 100 keys the rest."""
    found = []
    for reader in range(READERS):
        rng = np.random.default_rng(reader)
        key = np.where(rng.random(rows) < hot, 0, rng.integers(1, 101, rows))
        times = pa.array(NOW + rng.integers(0, 60 * SECOND, rows), pa.timestamp("us", "UTC"))
        collector = Collector(asked, SCHEMA, None)
        collector.push(pa.table({"ts": times, "k": key, "v": rng.random(rows)}, schema=SCHEMA))
        found.append(packed(collector.parts(), PLACES))
    return found


def largest(blobs: list[list[bytes]]) -> int:
    """Bytes of the place that is sent most."""
    return max(sum(map(len, column)) for column in zip(*blobs, strict=True))


def test_a_hot_key_is_as_cheap_for_its_place_as_any_other() -> None:
    asked = spec(sl.max("v"))
    even, hot = (sent(asked, 100_000, share) for share in (0.0, 0.95))
    assert largest(hot) < 1.1 * largest(even)
    assert largest(sent(asked, 400_000, 0.95)) < 1.1 * largest(even)  # 380,000 rows of it: not one byte more
    took = []
    for blobs in (even, hot):
        best = 1e9
        for _ in range(5):
            operators = [start(asked, SCHEMA) for _ in range(PLACES)]
            each = []
            for place, operator in enumerate(operators):
                before = time.process_time()
                admit(operator, [of[place] for of in blobs])
                each.append(time.process_time() - before)
            best = min(best, max(each))
        took.append(best)
    assert took[1] < 3 * took[0]  # of the slowest place; about 1 on an idle machine


def test_aggregates_that_hold_values_send_a_hot_keys_rows() -> None:
    """What docs/running.md says of skew."""
    asked = spec(sl.median("v"))
    even, hot = (sent(asked, 20_000, share) for share in (0.0, 0.95))
    assert largest(hot) > 2 * largest(even)
