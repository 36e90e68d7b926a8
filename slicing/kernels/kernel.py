"""How kernels are compiled, and kept on disk for the next process.

Numba's own cache numbers the files of a function's signatures in an index that every process rewrites. One killed in
between, or two that compile at once, can leave an index that names another signature's code, or that of an older
source; it would be called with arrays it was not made for. Here each signature has a file of its own, which says what
it was made from, and a change in any kernel makes all of them anew: one may be part of another.
"""

from __future__ import annotations

import hashlib
import os
import pickle
from functools import cache, partial

import numba
from numba import njit
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.runtime import rtsys

from slicing.kernels.compiler import KernelCompiler

PLAIN = {"_nrt": False, "pipeline_class": KernelCompiler}


def helper(function=None, **options):
    """A function that only kernels call, where they are compiled: not from Python, nor inlined before LLVM sees it."""
    if function is None:
        return partial(helper, **options)
    return njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, **PLAIN, **options)(function)


def kernel(function=None, allocates=False, **options):
    """As ``numba.njit``: without the GIL, kept on disk, and without the wrapper for callers in C (a tenth of the
    time to compile). One that makes arrays of its own says so: references are counted in it."""
    if function is None:
        return partial(kernel, allocates=allocates, **options)
    if not allocates:
        options |= PLAIN
    dispatcher = njit(nogil=True, no_cfunc_wrapper=True, **options)(function)
    dispatcher._cache = _Cache(function, allocates)  # as ``cache=True`` does
    return dispatcher


@cache
def source() -> tuple[object, ...]:
    """What all kernels are made from."""
    folder = os.path.dirname(__file__)
    if not os.path.isdir(folder):  # in an archive, which numba looks at
        return (numba.__version__,)
    found = [os.path.join(at, name) for at, _, names in os.walk(folder) for name in names if name.endswith(".py")]
    return (numba.__version__, *((path, os.stat(path).st_mtime_ns, os.stat(path).st_size) for path in sorted(found)))


class _Files(IndexDataCacheFile):
    def __init__(self, cache_path, filename_base, source_stamp):
        super().__init__(cache_path, filename_base, source_stamp)
        self._base, self._made_from = filename_base, (source(), source_stamp)

    def save(self, key, data):
        self._save_data(self._file(key), (self._made_from, key, data))

    def load(self, key):
        try:
            made_from, found, data = self._load_data(self._file(key))
        except (OSError, EOFError, ValueError, TypeError, pickle.UnpicklingError):
            return None
        return data if (made_from, found) == (self._made_from, key) else None

    def _file(self, key):
        return f"{self._base}.{hashlib.blake2b(repr(key).encode(), digest_size=12).hexdigest()}.nbc"


class _Cache(FunctionCache):
    def __init__(self, function, allocates):
        super().__init__(function)
        self._allocates = allocates
        file = self._cache_file
        self._cache_file = _Files(self._cache_path, self._impl.filename_base, file._source_stamp)

    def load_overload(self, signature, context):
        """Numba first imports all that a kernel could be compiled from, 0.1 s: what is loaded is compiled."""
        if self._allocates:
            rtsys.initialize(context)
        with self._guard_against_spurious_io_errors():
            return self._load_overload(signature, context)
