"""Compiled code on disk, for the next process.

Numba's own cache lists the files of a function's signatures in an index that every process rewrites. Two processes that
compile at once can leave an index that names the code of another signature, which is then called with the wrong kinds
of arrays. And a kernel does not notice that a kernel inlined into it has changed. Here each signature has its own file,
which says what it was made from.

``Dispatcher._cache`` and the pickling of compile results are internals of numba. If a version of numba differs,
``keep`` leaves the dispatcher to numba's own cache, and a file that cannot be read or written only costs a compilation.

``SLICING_CHECK=1`` compiles kernels and users' functions so that an index outside of its array raises an IndexError.
These files are stored next to the others.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import re
import sys
import tempfile
from functools import cache
from pathlib import Path

import numba
from numba.core import serialize
from numba.core.compiler import CompileResult
from numba.core.runtime import rtsys

IMPORTED = re.compile(rb"^\s*from (slicing\.kernels(?:\.\w+)+) import", re.MULTILINE)
UNREADABLE = (OSError, EOFError, ValueError, TypeError, KeyError, AttributeError, ImportError, pickle.UnpicklingError)
PLAIN = os.environ.get("SLICING_NUMBA") == "plain"

if os.environ.get("SLICING_CHECK") == "1":
    numba.config.BOUNDSCHECK = 1
CHECKED = bool(numba.config.BOUNDSCHECK)
BUILD = f"{numba.__version__} {sys.implementation.cache_tag}{' checked' if CHECKED else ''}"


USERS = 2  # how users' functions are compiled; another number leaves the files of before


def _fits():
    """Whether this numba has the internals that :class:`Files` needs."""
    dispatcher = numba.njit(_nothing)
    return all(
        (
            hasattr(dispatcher, "_cache"),
            hasattr(dispatcher.targetctx, "codegen"),
            hasattr(CompileResult, "_reduce"),
            hasattr(CompileResult, "_rebuild"),
            hasattr(serialize, "dumps"),
        )
    )


def _nothing():
    pass


FITS = not PLAIN and _fits()


def keep_kernel(dispatcher, function, counts_references):
    """Keep a kernel's code next to its module."""
    if not FITS:
        if not CHECKED:  # numba's own files do not say whether they are checked
            dispatcher.enable_caching()
        return
    module = function.__module__
    beside = Path(function.__code__.co_filename).parent
    name = f"{module.rpartition('.')[2]}.{function.__qualname__}"
    dispatcher._cache = Files(name, lambda: made_from(module), beside, counts_references)


def keep_users(dispatcher, name, source):
    """Keep the code of a user's function, or of a kernel around it; ``source`` is everything that it was made from."""
    if FITS:
        digest = hashlib.blake2b(f"{BUILD} {USERS} {source}".encode(), digest_size=12).hexdigest()
        dispatcher._cache = Files(f"user.{name}", lambda: digest, None, True)


class Files:
    """The cache of a dispatcher: one file for each signature.

    In a folder that several sources share, a file name contains the digest of its source. Next to its module, a file
    replaces the file of an older source.
    """

    def __init__(self, name, made_from, beside, counts_references):
        self._name, self._made_from, self._beside = name, made_from, beside
        self._counts_references = counts_references

    @property
    def cache_path(self):
        return str(folder(self._beside)[0])

    def load_overload(self, sig, target_context):
        if self._counts_references:
            target_context.refresh()  # numba imports everything that could be compiled, which takes 0.1 s
            rtsys.initialize(target_context)
        try:
            key = _key(sig, target_context.codegen())
            with open(self._file(key), "rb") as file:
                source, found, parts = pickle.load(file)
            if (source, found) == (self._made_from(), key):
                return CompileResult._rebuild(target_context, *parts)
        except UNREADABLE:
            pass
        return None

    def save_overload(self, sig, result):
        if result.lifted or getattr(result.library, "has_dynamic_globals", False):
            return
        try:
            key = _key(sig, result.library.codegen)
            path = self._file(key)
            path.parent.mkdir(parents=True, exist_ok=True)
            whole = serialize.dumps((self._made_from(), key, result._reduce()))
            handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(whole)
                os.replace(temporary, path)
            except BaseException:
                os.unlink(temporary)
                raise
        except UNREADABLE:
            pass

    def enable(self):
        """Numba calls these to enable and to empty a cache; this cache is always enabled and never emptied."""

    disable = flush = enable

    def _file(self, key):
        where, shared = folder(self._beside)
        name = repr((key, self._made_from())) if shared else repr(key)
        digest = hashlib.blake2b(name.encode(), digest_size=12).hexdigest()
        return where / f"{self._name}.{sys.implementation.cache_tag}.{digest}.nbc"


def _key(sig, codegen):
    return str(sig), codegen.magic_tuple(), CHECKED


@cache
def folder(beside):
    """The folder of files, and whether several sources share it: ``NUMBA_CACHE_DIR``; else the module's own folder, if
    it is writable; else the user's cache folder."""
    if numba.config.CACHE_DIR:
        return Path(numba.config.CACHE_DIR) / "slicing", True
    if beside is not None and beside.is_dir() and os.access(beside, os.W_OK):
        return beside / "__pycache__", False
    root = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA") or Path.home() / ".cache"
    return Path(root) / "slicing", True


@cache
def made_from(module):
    """A digest of all that a module's kernels are made from: its text, imported kernels' text, numba's version."""
    texts, waiting = {}, [module]
    while waiting:
        name = waiting.pop()
        if name not in texts:
            texts[name] = _text(name)
            waiting += [found.decode() for found in IMPORTED.findall(texts[name])]
    made = hashlib.blake2b(BUILD.encode(), digest_size=12)
    for name in sorted(texts):
        made.update(f"{name} {len(texts[name])}\n".encode() + texts[name])
    return made.hexdigest()


def _text(module):
    """The text of a module, from a file or from an archive."""
    found = sys.modules[module]
    return found.__loader__.get_data(found.__file__)
