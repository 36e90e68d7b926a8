"""What numba knows while it compiles a kernel: numbers, arrays and tuples, and what it found out for those before."""

from contextlib import contextmanager
from functools import cache

from numba.core import fastmathpass, types
from numba.core.cpu import CPUContext
from numba.core.imputils import builtin_registry
from numba.core.typing import Context, templates

_found = {}


class _Typing(Context):
    def refresh(self):
        """Numba imports all that any function could use, which takes 0.12 s."""
        from numba.core.typing import arraydecl, builtins  # noqa: F401

        self.install_registry(templates.builtin_registry)

    def resolve_function_type(self, func, args, kws):
        """Found once: numba asks lists, sets and strings what they make of ``+`` wherever two numbers are added."""
        func = self._lookup_global(func) or func
        if kws or not (isinstance(func, types.Function) and all(map(_plain, args))):
            return super().resolve_function_type(func, args, kws)
        key = id(func), args
        if key not in _found:
            _found[key] = func, super().resolve_function_type(func, args, kws)
        return _found[key][1]


class _Target(CPUContext):
    def refresh(self):
        from numba.cpython import builtins, numbers, rangeobj, slicing, tupleobj  # noqa: F401
        from numba.np import arrayobj  # noqa: F401

        for registry in (builtin_registry, *self._registries):  # what is new in them
            self.install_registry(registry)

    def get_abi_sizeof(self, ty):
        """Numba has LLVM read a module to find out, for each variable."""
        return _size(ty, self.target_data)

    def post_lowering(self, module, library):
        """Numba links what counts references, and a kernel has none."""
        if self.fastmath:
            fastmathpass.rewrite_module(module, self.fastmath)


def _plain(kind):
    """Whether a type is that of numbers: some others cannot be looked up."""
    return isinstance(kind, types.Number | types.Array) or (
        isinstance(kind, types.BaseTuple) and all(map(_plain, kind))
    )


@cache
def _size(ty, data):
    return ty.get_abi_size(data)


@contextmanager
def lean(typing, target):
    """Numba's contexts as kernels need them, while its lock is held; others then find them as they were."""
    before = type(typing), type(target)
    typing.__class__, target.__class__ = _Typing, _Target
    try:
        yield
    finally:
        typing.__class__, target.__class__ = before
