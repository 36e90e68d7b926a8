"""Numba's own pipeline with less work, in two places.

``pipeline_class`` is numba's documented way to use another pipeline. If this one cannot be built, kernels are compiled
by numba's pipeline.
"""

from __future__ import annotations

import gc

from numba.core import ir
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.untyped_passes import InlineInlinables

from slicing.kernels.extremes import least, most


@register_pass(mutates_CFG=False, analysis_only=False)
class Extremes(FunctionPass):
    """Replaces ``min`` and ``max``: numba compiles a function of a tuple at each use of them, which takes 17 ms."""

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


class KernelCompiler(CompilerBase):
    def define_pipelines(self):
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state, "kernel")
        passes.add_pass_after(Extremes, InlineInlinables)
        passes.finalize()
        return [passes]

    def compile_extra(self, func):
        """Compile without Python's garbage collector, which visits all of numba and frees little: 0.85 of the time."""
        collecting = gc.isenabled()
        gc.disable()
        try:
            return super().compile_extra(func)
        finally:
            if collecting:
                gc.enable()
