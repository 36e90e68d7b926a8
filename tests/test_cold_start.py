"""Processes that start at once share one cache of compiled kernels."""

import os
import subprocess
import sys
from pathlib import Path

import cold_start
import pytest

KERNEL = """
time, edges, bounds = np.arange(100), np.arange(0, 100, 10), np.empty(10, np.int64)
assert cut(time, edges, 512, bounds) == 100 and list(bounds) == list(edges)
assert ("numba.np.npyimpl" in sys.modules) == others
time.setflags(write=False)
assert cut(time, edges, 512, bounds) == 100 and list(bounds) == list(edges)
"""
OTHERS = """
@numba.njit
def named(numbers):
    return sorted([str(number) for number in np.sort(numbers) if number > least(3, 4) + most(2.0, 1.0)])

assert named(np.array([7, 30, 1])) == ["30", "7"]
"""


@pytest.mark.parametrize("by", ["", "k"])
def test_processes_that_start_at_once_on_an_empty_cache_all_answer_right(by):
    together, after = cold_start.round_of(2, by)
    assert len(together) == 2
    assert None not in [*together, after]


@pytest.mark.parametrize("others", [False, True])
def test_a_kernel_is_compiled_without_what_others_need_and_they_have_it(tmp_path: Path, others: bool) -> None:
    """Whichever is compiled first."""
    texts = [OTHERS, KERNEL] if others else [KERNEL, OTHERS]
    imports = "import sys, numba, numpy as np\nfrom slicing.kernels.slice import cut\n"
    helpers = "from slicing.kernels.extremes import least, most\n"
    program = imports + helpers + f"others = {others}\n" + "".join(texts)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(cold_start.HERE)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, text=True, capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr
