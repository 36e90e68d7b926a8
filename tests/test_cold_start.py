"""Processes that start at once share one cache of compiled kernels."""

import cold_start
import pytest


@pytest.mark.parametrize("by", ["", "k"])
def test_processes_that_start_at_once_on_an_empty_cache_all_answer_right(by):
    together, after = cold_start.round_of(2, by)
    assert len(together) == 2
    assert None not in [*together, after]
