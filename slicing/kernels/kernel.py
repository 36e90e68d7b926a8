"""How kernels are compiled, and kept on disk for the next process.

Numba's own cache numbers the files of a function's signatures in an index that every process rewrites. One killed in
between, or two that compile at once, can leave an index that names another signature's code, or that of an older
source; it would be called with arrays it was not made for. Here each signature has a file of its own, which says what
it was made from: the text of the kernel's module and of all kernels that it imports, which may be part of it.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import re
import sys
from functools import cache, partial

import numba
from numba import njit
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.runtime import rtsys

from slicing.kernels.compiler import KernelCompiler

IMPORTED = re.compile(rb"^\s*from (slicing\.kernels(?:\.\w+)+) import", re.MULTILINE)
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
def made_from(module: str) -> str:
    """A digest of all that the kernels of a module are made from: its text, that of the kernels it imports, numba."""
    texts: dict[str, bytes] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name not in texts:
            texts[name] = _text(name)
            waiting += [found.decode() for found in IMPORTED.findall(texts[name])]
    made = hashlib.blake2b(numba.__version__.encode(), digest_size=12)
    for name in sorted(texts):
        made.update(f"{name} {len(texts[name])}\n".encode() + texts[name])
    return made.hexdigest()


def _text(module: str) -> bytes:
    """Of a file, or of one in an archive."""
    found = sys.modules[module]
    return found.__loader__.get_data(found.__file__)


class _Files(IndexDataCacheFile):
    """A file a signature.

    Where several sources share a folder (``NUMBA_CACHE_DIR``; the user's own, for archives), its source is part of its
    name. Beside its source it takes the place of the file of an older source.
    """

    def __init__(self, cache_path, filename_base, source_stamp, module, shared):
        super().__init__(cache_path, filename_base, source_stamp)
        self._base, self._module, self._shared = filename_base, module, shared

    def save(self, key, data):
        os.makedirs(self._cache_path, exist_ok=True)
        self._save_data(self._file(key), (made_from(self._module), key, data))

    def load(self, key):
        try:
            source, found, data = self._load_data(self._file(key))
        except (OSError, EOFError, ValueError, TypeError, pickle.UnpicklingError):
            return None
        return data if (source, found) == (made_from(self._module), key) else None

    def _file(self, key):
        name = repr((key, made_from(self._module))) if self._shared else repr(key)
        return f"{self._base}.{hashlib.blake2b(name.encode(), digest_size=12).hexdigest()}.nbc"


class _Cache(FunctionCache):
    def __init__(self, function, allocates):
        super().__init__(function)
        self._allocates = allocates
        root = numba.config.CACHE_DIR
        beside = os.path.dirname(os.path.abspath(function.__code__.co_filename))
        shared = bool(root) or not os.path.isdir(beside)
        if shared:
            root = root or os.path.dirname(self._cache_path)
            self._cache_path = os.path.join(root, "slicing")
        stamp, base = self._cache_file._source_stamp, self._impl.filename_base
        self._cache_file = _Files(self._cache_path, base, stamp, function.__module__, shared)

    def load_overload(self, signature, context):
        """Numba first imports all that a kernel could be compiled from, 0.1 s: what is loaded is compiled."""
        if self._allocates:
            rtsys.initialize(context)
        with self._guard_against_spurious_io_errors():
            return self._load_overload(signature, context)
