"""Processes that start at once share one cache of compiled kernels."""

import cold_start


def test_processes_that_start_at_once_on_an_empty_cache_all_answer_right():
    together, after = cold_start.round_of(2)
    assert len(together) == 2
    assert None not in [*together, after]
