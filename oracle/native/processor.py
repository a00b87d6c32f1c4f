"""LLVM code as machine code of the processor at hand."""

from __future__ import annotations

from typing import Any


def target() -> Any:
    """LLVM's target machine of the processor, a new one: an engine takes its own."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    # whole vectors of AVX-512, which LLVM splits in two for many processors where it is not told otherwise
    features = f"{llvm.get_host_cpu_features().flatten()},-prefer-256-bit"
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=features, opt=2)


def name() -> str:
    """What machine code depends on beside what is compiled: LLVM's version, and the processor."""
    import llvmlite.binding as llvm

    features = llvm.get_host_cpu_features().flatten()
    return f"{llvm.llvm_version_info} {llvm.get_process_triple()} {llvm.get_host_cpu_name()} {features}"


def machine_code(text: str, *, optimized: bool = False) -> bytes:
    """An object file of LLVM code, which the code generator alone optimizes, or LLVM's passes for scalar code, too."""
    import llvmlite.binding as llvm

    module, machine = llvm.parse_assembly(text), target()
    module.verify()
    if optimized:
        options = llvm.create_pipeline_tuning_options(speed_level=2)
        options.loop_vectorization = options.slp_vectorization = options.loop_unrolling = False
        builder = llvm.create_pass_builder(machine, options)
        builder.getModulePassManager().run(module, builder)
    code: bytes = machine.emit_object(module)
    return code


def loaded(code: bytes) -> Any:
    """An object file, ready to run: ``get_function_address`` tells where its functions are, as long as it lives."""
    import llvmlite.binding as llvm

    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target())
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return engine
