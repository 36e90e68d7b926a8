"""How numba compiles a kernel: what it does for any Python function, without what no kernel has.

Kernels are loops over numbers and arrays that they are given. They allocate nothing, so no reference is counted; they
have no closures, generators, ``with``, exceptions or array expressions, so no pass looks for them.
"""

import gc

from numba.core import ir
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase
from numba.core.compiler_machinery import FunctionPass, PassManager, register_pass
from numba.core.typed_passes import (
    NativeLowering,
    NoPythonBackend,
    NopythonTypeInference,
    PreLowerStripPhis,
)
from numba.core.untyped_passes import (
    DeadBranchPrune,
    FixupArgs,
    GenericRewrites,
    InlineInlinables,
    IRProcessing,
    ReconstructSSA,
    RewriteSemanticConstants,
    TranslateByteCode,
)

from slicing.kernels.contexts import lean
from slicing.kernels.extremes import least, most


class _Library(JITCodeLibrary):
    def _optimize_functions(self, module):
        """Numba goes over each function before the two times it goes over the module. Without the first of these two
        many loops come out four times as slow; without this one none does."""
        module.data_layout = self._codegen._data_layout


@register_pass(mutates_CFG=False, analysis_only=False)
class _Extremes(FunctionPass):
    """``min`` and ``max`` of numba compile a function of a tuple of numbers each time they are met: 17 ms."""

    _name = "kernel_extremes"

    def __init__(self):
        FunctionPass.__init__(self)

    def run_pass(self, state):
        for block in state.func_ir.blocks.values():
            for assign in block.find_insts(ir.Assign):
                given = assign.value
                if isinstance(given, ir.Global) and (given.value is min or given.value is max):
                    given.value = least if given.value is min else most
        return True


@register_pass(mutates_CFG=True, analysis_only=False)
class _Lowering(NativeLowering):
    _name = "kernel_lowering"

    def run_pass(self, state):
        state.library = _Library(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        return super().run_pass(state)


PASSES = (
    TranslateByteCode,
    FixupArgs,
    IRProcessing,
    RewriteSemanticConstants,
    DeadBranchPrune,
    InlineInlinables,
    GenericRewrites,
    _Extremes,
    ReconstructSSA,
    NopythonTypeInference,
    PreLowerStripPhis,
    _Lowering,
    NoPythonBackend,
)


class KernelCompiler(CompilerBase):
    def __init__(self, typing, target, *given):
        self._contexts = typing, target
        with lean(*self._contexts):
            super().__init__(typing, target, *given)

    def define_pipelines(self):
        passes = PassManager("kernel")
        for each in PASSES:
            passes.add_pass(each, each.__name__)
        passes.finalize()
        return [passes]

    def compile_extra(self, func):
        """Without Python's collector, which looks through all that numba makes, and finds little: 0.85 of the time."""
        collecting = gc.isenabled()
        gc.disable()
        try:
            with lean(*self._contexts):
                return super().compile_extra(func)
        finally:
            if collecting:
                gc.enable()
