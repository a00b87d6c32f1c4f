"""Compiling many functions into one: optimized once, when all of them are there, and as a whole.

Numba makes each function a library of its own: it optimizes and emits every function again in every caller, and as
others might call the function, too, LLVM must keep its calling convention and its error codes. Here a function is a
part: it is typed and lowered as usual, but optimized only in the entry point, where nobody else can call it.
"""

from __future__ import annotations

from typing import Any

from llvmlite import binding as llvm
from numba import _dynfunc
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler


class PartLibrary(JITCodeLibrary):  # type: ignore[misc]
    """The code of one function as it was lowered, which is never run for itself."""

    def finalize(self) -> None:
        """Nothing is linked, optimized or emitted."""
        self._raise_if_finalized()
        self._finalized = True

    def _get_module_for_linking(self) -> Any:
        raise RuntimeError(f"{self.name} is a part: compile what calls it as an entry point")


class WholeLibrary(JITCodeLibrary):  # type: ignore[misc]
    """An entry point with all parts that it needs."""

    _linking_libraries: list[Any]

    def finalize(self) -> None:
        """Link the parts, hide everything but the entry point, and optimize."""
        own = {f.name for f in self._final_module.functions if not f.is_declaration}
        for library in _closure(self):
            if isinstance(library, PartLibrary):
                self._final_module.link_in(library._final_module, preserve=True)
                self._linking_libraries = [x for x in self._linking_libraries if x is not library]
            elif library not in self._linking_libraries:
                self._linking_libraries.append(library)
        for function in self._final_module.functions:
            if not function.is_declaration and function.name not in own:
                function.linkage = llvm.Linkage.internal
        super().finalize()

    def _optimize_final_module(self) -> None:
        options = llvm.create_pipeline_tuning_options(3)
        options.loop_vectorization = options.slp_vectorization = options.loop_unrolling = False  # loops are short
        builder = llvm.create_pass_builder(self._codegen._tm, options)
        builder.getModulePassManager().run(self._final_module, builder)


def _closure(library: Any) -> list[Any]:
    """All libraries that a library needs; those of Numba itself have linked what they need."""
    found: dict[Any, None] = {}
    todo = list(library._linking_libraries)
    while todo:
        one = todo.pop()
        if one not in found:
            found[one] = None
            if isinstance(one, PartLibrary):
                todo.extend(one._linking_libraries)
    return list(found)


class PartCompiler(Compiler):  # type: ignore[misc]
    """Compiles a function to a part of whatever calls it."""

    def define_pipelines(self) -> Any:
        state = self.state
        state.library = PartLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = True
        return super().define_pipelines()

    def _compile_core(self) -> Any:
        result = super()._compile_core()
        name, library = self.state.func_id.func_name, result.library
        module = result.fndesc.lookup_module()
        nothing = _dynfunc.make_function(module, name, "without machine code", 0, result.environment, (library,))
        self.state.targetctx.insert_user_function(nothing, result.fndesc, [library])
        return result._replace(entry_point=nothing)


class WholeCompiler(Compiler):  # type: ignore[misc]
    """Compiles an entry point."""

    def define_pipelines(self) -> Any:
        state = self.state
        state.library = WholeLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        return super().define_pipelines()
