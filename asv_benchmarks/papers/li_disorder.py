"""Li (2008), figures 6-11 and 6-12: latency against accuracy, for slack and for punctuation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

import slicing as sl
from asv_benchmarks.benchmarks.streams import SECOND
from asv_benchmarks.papers import data
from asv_benchmarks.papers.data import Arrivals, Ints
from asv_benchmarks.papers.figure import Effort, Figure, Finding, Outcome, Panel, Value, short

MILLISECOND = 1000


@dataclass(frozen=True)
class Query:
    """A sliding window over a stream out of order; sizes in microseconds."""

    size: int
    every: int
    agg: sl.Aggregate

    def spec(self, watermark: object) -> sl.Spec:
        window = sl.sliding(f"{self.size}us", every=f"{self.every}us")
        return sl.Spec("ts", {"w": window}, {"answer": self.agg}, watermark=watermark)


@dataclass(frozen=True)
class Told:
    """What a policy gave: by window its end, its answer, and when it came; and how many rows it dropped."""

    end: Ints
    answer: np.ndarray
    came: Ints
    dropped: int

    def latency(self) -> float:
        """Seconds of the stream from the end of a window to its result, on average."""
        return float(np.mean(self.came - self.end)) / SECOND


def pieces(arrivals: Arrivals, batch: int) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Rows as they come, and the time of arrival of the last one of a batch."""
    for first in range(0, arrivals.rows.num_rows, batch):
        part = arrivals.rows.slice(first, batch)
        yield part, int(arrivals.clock[first + part.num_rows - 1])


def asked(query: Query, arrivals: Arrivals, batch: int, watermark: object, slack: int | None = None) -> Told:
    """The stream pushed in batches. ``slack``: rows late for any of their windows are dropped beforehand, from all."""
    operator = sl.Operator(query.spec(watermark))
    ends, answers, came, dropped, newest = [], [], [], 0, None
    for part, now in pieces(arrivals, batch):
        given = part
        if slack is not None:
            given, newest = _consistent(query, part, slack, newest)
            dropped += part.num_rows - given.num_rows
        out = operator.push(given)
        dropped += out.stats.late
        ends.append(out.windows["window_end"].cast(pa.int64()).to_numpy())
        answers.append(out.windows["answer"].to_numpy())
        came.append(np.full(out.windows.num_rows, now))
    return Told(np.concatenate(ends), np.concatenate(answers), np.concatenate(came), dropped)


def _consistent(query: Query, part: pa.RecordBatch, slack: int, newest: int | None) -> tuple[pa.RecordBatch, int]:
    """Rows none of whose windows ended before them. Li's consistent slack: a row late for one window is for all."""
    ts = part.column("ts").cast(pa.int64()).to_numpy()
    if newest is not None:
        first_end = (ts // query.every + 1) * query.every
        part = part.filter(pa.array(first_end > newest - slack))
        # its time still tells how far the stream has come
    return part, int(max(ts.max(), newest if newest is not None else ts.max()))


def truth(query: Query, arrivals: Arrivals) -> dict[int, float]:
    """All windows, of all rows: nothing is late for ``aggregate``."""
    found = sl.aggregate(arrivals.rows, query.spec(sl.bounded(0)))
    ends = found["window_end"].cast(pa.int64()).to_pylist()
    return dict(zip(ends, found["answer"].to_pylist(), strict=True))


def against(query: Query, told: Told, expected: dict[int, float]) -> tuple[float, float]:
    """The mean error and the share of wrong answers, both in percent, over windows of which all have come."""
    known = np.array([expected[end] for end in told.end.tolist()])
    off = np.abs(told.answer - known) / np.abs(known)
    return 100 * float(off.mean()), 100 * float((off > 1e-9).mean())


@dataclass(frozen=True)
class Policies:
    """One stream under slack of two kinds and under punctuation."""

    query: Query
    arrivals: Arrivals
    batch: int

    def run(self, slacks: Sequence[int]) -> tuple[dict[str, list[Told]], dict[int, float]]:
        found: dict[str, list[Told]] = {"generous slack": [], "consistent slack": []}
        for slack in slacks:
            watermark = sl.bounded(f"{slack}us")
            found["generous slack"].append(asked(self.query, self.arrivals, self.batch, watermark))
            found["consistent slack"].append(asked(self.query, self.arrivals, self.batch, watermark, slack))
        marked = asked(self.query, self.arrivals, self.batch, sl.punctuated("mark"))
        found["punctuation"] = [marked] * len(slacks)
        return found, truth(self.query, self.arrivals)


def _panels(
    query: Query, found: dict[str, list[Told]], expected: dict[int, float], slacks: Sequence[int], measure: int
) -> list[Panel]:
    at = [slack / SECOND for slack in slacks]
    errors: dict[str, list[Value]] = {
        name: [against(query, told, expected)[measure] for told in each] for name, each in found.items()
    }
    latency: dict[str, list[Value]] = {name: [told.latency() for told in each] for name, each in found.items()}
    dropped: dict[str, list[Value]] = {name: [told.dropped for told in each] for name, each in found.items()}
    what = ("mean error, %", "wrong answers, %")[measure]
    return [
        Panel("error", "slack, s", what, at, errors, log_x=False, log_y=False),
        Panel("latency", "slack, s", "s of the stream from a window's end to its result", at, latency, False, False),
        Panel(
            "rows dropped", "slack, s", "rows late for a window or all (generous: for all)", at, dropped, False, False
        ),
    ]


BAND = Query(64 * SECOND, 6_400_000, sl.mean("value"))
BAND_SLACKS = tuple(n * MILLISECOND for n in (0, 320, 640, 1280, 2560, 3200))


def run_band(effort: Effort) -> Outcome:
    """Pushes of a fifth of a second."""
    rate, slacks = effort.pick(1000, 50), effort.pick(BAND_SLACKS, BAND_SLACKS[::5])
    batch = effort.pick(rate // 5, rate)
    found, expected = Policies(BAND, data.band(effort.pick(300, 100) * rate, rate), batch).run(slacks)
    error, latency, dropped = panels = _panels(BAND, found, expected, slacks, 0)
    generous, consistent = error.of("generous slack"), error.of("consistent slack")
    findings = [
        Finding(
            "error falls and latency grows with slack",
            f"generous: from {short(generous[0])} to {short(generous[-1])} %, while a result comes "
            f"{short(latency.of('generous slack')[0])} to {short(latency.of('generous slack')[-1])} s after its window",
        ),
        Finding(
            "generous slack is much more accurate than consistent slack at about the same latency",
            f"generous {', '.join(map(short, generous))} %, consistent {', '.join(map(short, consistent))} %; rows "
            f"lost altogether without slack: {short(dropped.of('generous slack')[0])} against "
            f"{short(dropped.of('consistent slack')[0])}",
        ),
        Finding(
            "punctuation is better in latency and accuracy than either slack",
            f"error {short(error.of('punctuation')[0])} %, {short(latency.of('punctuation')[0])} s after the window; "
            f"the slack without error takes {short(latency.of('generous slack')[-1])} s",
        ),
    ]
    notes = ["Generous slack is `sl.bounded(slack)`. Latency is time of the stream, not of the processor."]
    return Outcome(panels, findings, notes)


BLOCKS = Query(600 * SECOND, 60 * SECOND, sl.count())
BLOCK_SLACKS = tuple(n * 100 * MILLISECOND for n in (0, 544, 1091, 2182, 3273, 4342, 4910, 6000))


def run_blocks(effort: Effort) -> Outcome:
    """Pushes of ten seconds."""
    rate, slacks = (
        effort.pick(100, 2),
        effort.pick(BLOCK_SLACKS, (BLOCK_SLACKS[0], BLOCK_SLACKS[4], *BLOCK_SLACKS[-2:])),
    )
    arrivals = data.blocks(effort.pick(12, 4) * 490 * rate, rate)
    found, expected = Policies(BLOCKS, arrivals, effort.pick(10, 20) * rate).run(slacks)
    wrong, latency, _ = panels = _panels(BLOCKS, found, expected, slacks, 1)
    generous = wrong.of("generous slack")
    shares = ", ".join(f"{short(share)} % at {short(at)} s" for at, share in zip(wrong.at, generous, strict=True))
    enough = next((at for at, share in zip(wrong.at, generous, strict=True) if share == 0), None)
    before = [x for x, share in zip(latency.of("generous slack"), generous, strict=True) if share]
    findings = [
        Finding(
            "wrong answers do not fall in line with slack; 491 s is the one that is enough for blocks of 490 s",
            f"wrong answers: {shares}; none from {short(enough) if enough is not None else 'no slack'} s on",
        ),
        Finding(
            "below that latency hardly depends on slack",
            f"{short(min(before))} to {short(max(before))} s of the stream, against "
            f"{short(latency.of('generous slack')[-1])} at 600 s",
        ),
        Finding(
            "punctuation is better in latency and accuracy than any slack",
            f"{short(wrong.of('punctuation')[0])} % wrong, {short(latency.of('punctuation')[0])} s after the window "
            f"(slack of 491 s: {short(latency.of('generous slack')[-2])} s)",
        ),
    ]
    notes = ["Latency is time of the stream, not of the processor: the thesis measures time on the wall of a replay."]
    return Outcome(panels, findings, notes)


FIGURES = (
    Figure("li-11", "Li (2008), figure 6-11", "Latency and error under band disorder", run_band, timed=False),
    Figure(
        "li-12", "Li (2008), figure 6-12", "Latency and wrong answers under block-sorted disorder", run_blocks, False
    ),
)
