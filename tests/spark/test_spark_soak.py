"""A few batches of the soak; `python tests/spark/spark_soak.py --minutes 30` is the long run."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

from spark_soak import ALLOWED, SPEC, Sample, run, verdict

import slicing as sl


def samples(**growth: float) -> list[Sample]:
    def at(n: int) -> dict[str, float]:
        return {name: 100 * (1 + growth.get(name, 0) * n / 50) for name in ALLOWED} | {"batches": n}

    return [Sample(n, at(n)) for n in range(50)]


def test_what_grows_is_told() -> None:
    assert verdict(samples())[0]
    for name in ALLOWED:
        flat, told = verdict(samples(**{name: 0.6}))
        assert not flat
        assert [line.split()[0] for line in told.splitlines() if "GROWS" in line] == [name]
    assert verdict(samples(batch_ms=-0.6, worker_mb=0.05))[0]


def test_what_a_query_keeps_stops_growing() -> None:
    windows = {"slide": sl.sliding("10s", every="5s"), "visit": sl.session("7s")}
    short = sl.Spec("ts", windows, dict(SPEC.aggs), by=["k"], watermark=sl.bounded("8s"))
    found = run(10.0, short, batches=14)
    assert found[-1].figures["batches"] > 12
    full = [s.figures["cells"] for s in found if s.figures["batches"] > 8]
    assert len(full) > 1
    assert max(full) <= 1.1 * min(full)
    memory = [s.figures["worker_mb"] for s in found]
    assert min(memory) > 0, memory
    assert max(memory) < 2000, memory
