"""How kernels are compiled: numba's ``njit``, without the GIL, and kept on disk.

Three things make this cheaper and use internals of numba, or depend on them: compiled code in our own files (``disk``),
a pipeline with less work (``pipeline``), and calls that count no references. Each one is left out if a numba lacks what
it needs; ``SLICING_NUMBA=plain`` leaves out all three.
"""

from __future__ import annotations

from functools import partial

from numba import njit

from slicing.kernels.disk import PLAIN, keep_kernel


def _compiled_by():
    """Options for our pipeline: it saves 4 of 28 s of CPU for the first ten queries (2 busy cores)."""
    try:
        from slicing.kernels.pipeline import KernelCompiler

        njit(pipeline_class=KernelCompiler)(_compiled_by)
    except (ImportError, AttributeError, KeyError, TypeError):
        return {}
    return {"pipeline_class": KernelCompiler}


def _uncounted():
    """Options so that calls of kernels that allocate nothing count no references: saves 0.06 us for each array."""
    try:
        njit(_nrt=False)(_uncounted)
    except (KeyError, TypeError):
        return {}
    return {"_nrt": False}


PIPELINE = {} if PLAIN else _compiled_by()
UNCOUNTED = {} if PLAIN else _uncounted()


def helper(function=None, **options):
    """A function that only kernels call: not callable from Python, and not inlined before LLVM."""
    if function is None:
        return partial(helper, **options)
    return njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, **PIPELINE, **UNCOUNTED, **options)(function)


def kernel(function=None, allocates=False, **options):
    """Like ``numba.njit``, without the GIL, kept on disk, and without the wrapper for C callers (a tenth of the time to
    compile). ``allocates``: the kernel makes arrays, so that references must be counted in it."""
    if function is None:
        return partial(kernel, allocates=allocates, **options)
    if not allocates:
        options |= UNCOUNTED
    dispatcher = njit(nogil=True, no_cfunc_wrapper=True, **PIPELINE, **options)(function)
    keep_kernel(dispatcher, function, allocates or not UNCOUNTED)
    return dispatcher
