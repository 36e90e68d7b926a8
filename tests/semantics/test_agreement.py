"""The library holds against the brute force, on streams drawn at random.

`SLICING_CASES` says how many in total (150 by default; the long run takes 20000), `SLICING_SEED` which.
A failing case prints as code that runs after the imports of this file and `from math import inf, nan`.
"""

from __future__ import annotations

import os

import pytest
from harness import check, check_aggregate, check_postponed, check_resplit, share
from hypothesis import given
from hypothesis import strategies as st
from strategies import OF_ROWS, Case, Kit, calendar_cases, cases

from slicing.system.threads import Share

IDLE = os.environ.get("SLICING_IDLE", "1") == "1"

BUILT_IN = tuple(kind for kind in Kit.kinds if kind not in ("visit", "delta"))
LONG = Kit(
    kinds=("tumbling", "tumbling", "sliding", "cumulate", "session"),
    time_types=("timestamp[ns]", "timestamp[ns, UTC]", "int64"),
    idle=False,
    rich_values=False,
    compiled=False,
    counts=(1, 1, 2),
    long=True,
)
PLAIN = Kit(idle=False, rich_values=False)
BOUNDED = Kit(watermarks=("bounded", "ordered", "per_source", "punctuated"), emits=("final",), within_bound=True)


@share(30)
@given(cases(PLAIN))
def test_each_step_emits_what_the_rows_say(case: Case) -> None:
    check(case)


@share(25)
@given(cases(Kit(idle=False)))
def test_each_step_holds_for_every_type_and_aggregate(case: Case) -> None:
    check(case)


@share(20)
@given(cases(Kit(kinds=BUILT_IN, idle=False, compiled=False)))
def test_built_in_windows_and_aggregates_step_by_step(case: Case) -> None:
    check(case)


@share(10)
@given(cases(LONG))
def test_spans_of_decades_in_nanoseconds(case: Case) -> None:
    check(case)
    check_aggregate(case)


@share(10)
@given(cases(Kit(kinds=("session",), idle=False, rich_values=False)))
def test_sessions_step_by_step(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("kind", OF_ROWS)
def test_windows_of_rows_step_by_step(kind: str) -> None:
    @share(4)
    @given(cases(Kit(kinds=(kind, kind, "tumbling", "session"), idle=IDLE, rich_values=False)))
    def agrees(case: Case) -> None:
        check(case)

    agrees()


@share(8)
@given(
    cases(
        Kit(
            kinds=("tumbling", "sliding", "session", *OF_ROWS),
            watermarks=("bounded", "bounded", "manual", "per_source"),
            keys=(0, 1, 1, 2),
            idle=False,
            rich_values=False,
            each=True,
        )
    )
)
def test_all_kinds_of_windows_at_once_with_aggregates_that_see_order(case: Case) -> None:
    check(case)


@share(10)
@given(
    cases(
        Kit(
            kinds=("rows",),
            watermarks=("ordered", "ordered", "bounded", "manual"),
            emits=("final",),
            keys=(0,),
            idle=False,
            rich_values=False,
        )
    )
)
def test_counts_without_keys_step_by_step(case: Case) -> None:
    check(case)


@share(20)
@given(
    cases(
        Kit(
            kinds=("rows", "rows", "punctuation", "frame", "tumbling"),
            watermarks=("ordered", "ordered", "bounded", "manual"),
            emits=("final",),
            keys=(0, 1, 1, 2),
            idle=IDLE,
            rich_values=False,
            sliced=True,
        )
    )
)
def test_counts_marks_and_frames_share_their_slices(case: Case) -> None:
    check(case, slice_rows=0)


@share(20)
@given(
    cases(
        Kit(
            kinds=("rows", "rows", "rows", "punctuation", "punctuation", "frame", "per_row", "tumbling"),
            watermarks=("ordered", "ordered", "ordered", "bounded", "manual", "punctuated"),
            emits=("final", "final", "changes"),
            keys=(1, 1, 2),
            idle=False,
            of_stream=True,
        )
    )
)
def test_counts_and_marks_of_the_whole_stream_go_on_from_slices(case: Case) -> None:
    check(case, slice_rows=0)


@pytest.mark.skipif(not IDLE, reason="SLICING_IDLE=0")
@share(10)
@given(cases(Kit(rich_values=False)))
def test_idle_keys_end(case: Case) -> None:
    check(case)


@share(10)
@given(cases(Kit(emits=("final",), idle=False)))
def test_aggregate_sees_everything_at_once(case: Case) -> None:
    check_aggregate(case)


@share(12)
@given(
    cases(Kit(**{**vars(BOUNDED), "idle": IDLE})),
    st.lists(st.integers(1, 9), min_size=1, max_size=3),
    st.lists(st.integers(0, 9), min_size=1, max_size=5),
)
def test_no_split_and_no_order_within_the_bound_shows(case: Case, sizes: list[int], jitter: list[int]) -> None:
    watermark = case.query["watermark"]
    bound = watermark.get("delay", 0)
    if watermark["kind"] == "punctuated":
        jitter = [0]
    check_resplit(case, sizes, [by % (bound + 1) for by in jitter])


@share(10)
@given(cases(Kit(emits=("final", "updates"), idle=IDLE)), st.integers(1, 5))
def test_windows_that_are_postponed_come_all_the_same(case: Case, most: int) -> None:
    check_postponed(case, most)


FEW_ROWS = {
    "block": 4,
    "most_pieces": 6,
    "most_float_pieces": 6,
    "long_slot": 1,
    "turns": 2,
    "turn_rows": 1,
    "shared_rows": 1,
    "chunk": 3,
}
FEW_ROWS |= {
    "piece": 3,
    "threads": 3,
    "thread_rows": 1,
    "thread_lists": 1,
    "share": Share(rows=2, turn=2, few_new=1),
}


@share(15)
@given(cases(Kit(idle=False)))
def test_blocks_and_threads_do_not_show(case: Case) -> None:
    """Blocks, chunks and parts of threads of some rows each, and three threads to every operator."""
    check(case, **FEW_ROWS)


@share(15)
@given(cases(Kit(kinds=("tumbling", *OF_ROWS), emits=("final",), idle=IDLE)))
def test_rows_that_complete_no_window_are_added_to_others_unseen(case: Case) -> None:
    """Rows that became final are looked at alone first, however few are kept."""
    check(case, alone_rows=-1)


@share(3)
@given(calendar_cases())
def test_calendar_windows_follow_local_midnight(case: Case) -> None:
    check(case)
