"""The façade: light to import, complete, honest about what it takes."""

import subprocess
import sys

import pytest

import archloom

HEAVY = ("jax", "lark", "llvmlite", "numpy", "onnx", "onnxruntime", "torch", "tvm", "tvm_ffi", "rich")


def test_import_loads_nothing_heavy() -> None:
    code = f"import archloom, sys; print(*[m for m in {HEAVY!r} if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == ""


def test_command_line_starts_without_compilers() -> None:
    code = ("import sys; from archloom.tvm_backend import cli; cli.build_parser();"
            "print(*[m for m in ('jax', 'llvmlite', 'onnx', 'torch', 'tvm') if m in sys.modules])")
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == ""


def test_it_runs_as_a_module() -> None:
    run = subprocess.run([sys.executable, "-m", "archloom", "compil"], capture_output=True, text=True, check=False)
    assert run.returncode == 2 and "unknown 'compil'; did you mean 'compile'?" in run.stderr


def test_everything_public_is_there() -> None:
    for name in archloom.__all__:
        assert hasattr(archloom, name), name


def test_targets() -> None:
    (gemmini,) = [target for target in archloom.targets() if target.name == "gemmini"]
    assert gemmini.description
    options = {option.name: option for option in gemmini.options}
    assert options["dim"].default == 16 and (options["dim"].low, options["dim"].high) == (4, 1024)


def test_errors_have_one_base() -> None:
    errors = [getattr(archloom, name) for name in archloom.__all__ if name.endswith("Error")]
    assert all(issubclass(error, archloom.ArchloomError) for error in errors)


def test_unknown_sources_are_refused() -> None:
    with pytest.raises(archloom.ModelError, match="what can be loaded: the path of an ONNX file"):
        archloom.load(42)
    with pytest.raises(archloom.ModelError, match="no such file"):
        archloom.estimate("nope.onnx")
    with pytest.raises(archloom.ArtifactError, match="no such artifact"):
        archloom.load_compiled("nope.loom")


def test_operators_as_text_are_taken_wherever_a_network_is() -> None:
    text = "gemm(m=5,n=6,k=7)"
    assert archloom.load(text).name == text
    compiled = archloom.compile(text).report  # as a network that takes and gives floats
    assert compiled.accelerator_cycles == archloom.estimate(text).accelerator_cycles > 0
    assert archloom.check(text).passed
    for call in (archloom.load, archloom.estimate, archloom.compile):
        with pytest.raises(archloom.InputError, match="input_shapes.*operator as text"):
            call(text, input_shapes={"A": (1, 2)})


def test_options_are_a_mapping() -> None:
    for call in (archloom.compile, archloom.estimate, archloom.check):
        with pytest.raises(archloom.InputError, match=r"options: expected a mapping .* found \['dim'\]"):
            call("gemm(m=4,n=4,k=4)", options=["dim"])
