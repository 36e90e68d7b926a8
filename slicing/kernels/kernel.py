"""How kernels are compiled: numba's ``njit``, without the GIL, and kept on disk.

Three things make that cheaper and are no part of numba's public interface, or lean on it: compiled code in files of our
own (``disk``), a pipeline with less to do (``pipeline``), and calls that count no references. Each is left out where a
numba does not have what it needs; ``SLICING_NUMBA=plain`` leaves out all three.
"""

from __future__ import annotations

from functools import partial

from numba import njit

from slicing.kernels.disk import PLAIN, keep_kernel


def _compiled_by():
    """The pipeline: of the first ten questions' 28 s of CPU (2 busy cores) it saves 4."""
    try:
        from slicing.kernels.pipeline import KernelCompiler

        njit(pipeline_class=KernelCompiler)(_compiled_by)
    except (ImportError, AttributeError, KeyError, TypeError):
        return {}
    return {"pipeline_class": KernelCompiler}


def _uncounted():
    """No references to the arrays of a call are counted, in kernels that allocate nothing: 0.06 us an array."""
    try:
        njit(_nrt=False)(_uncounted)
    except (KeyError, TypeError):
        return {}
    return {"_nrt": False}


PIPELINE = {} if PLAIN else _compiled_by()
UNCOUNTED = {} if PLAIN else _uncounted()


def helper(function=None, **options):
    """A function that only kernels call, where they are compiled: not from Python, nor inlined before LLVM sees it."""
    if function is None:
        return partial(helper, **options)
    return njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, **PIPELINE, **UNCOUNTED, **options)(function)


def kernel(function=None, allocates=False, **options):
    """As ``numba.njit``: without the GIL, kept on disk, and without the wrapper for callers in C (a tenth of the
    time to compile). One that makes arrays of its own says so: references are counted in it."""
    if function is None:
        return partial(kernel, allocates=allocates, **options)
    if not allocates:
        options |= UNCOUNTED
    dispatcher = njit(nogil=True, no_cfunc_wrapper=True, **PIPELINE, **options)(function)
    keep_kernel(dispatcher, function, allocates or not UNCOUNTED)
    return dispatcher
