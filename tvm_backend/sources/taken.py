"""What can be loaded, and what files that cannot are, with the way from there to one that can."""

from __future__ import annotations

from pathlib import Path

from archloom.oracle.errors import ModelError
from archloom.tvm_backend.artifact.files import is_artifact

TAKEN = ("the path of an ONNX file, of an exported program of torch's (.pt2) or of a table of layers (.csv), the name "
         "of a network (archloom networks), a configuration of transformers (hf:LlamaConfig(...), hf:config.json), an "
         "operator as text (\"gemm(m=4,n=4,k=4)\"), an onnx.ModelProto, a "
         "torch.nn.Module with example_inputs, a torch.export.ExportedProgram or a Relax IRModule")

_TORCH = ("weights or a pickled module of torch's: torch.export.save(torch.export.export(module, inputs), \"net.pt2\") "
          "writes what is taken; in Python, archloom.load(module, example_inputs)")
_TENSORFLOW = "a network of TensorFlow's: tf2onnx writes it as ONNX"
_WEIGHTS = "arrays without the operators that use them: export the network to ONNX or .pt2"
FOREIGN = {
    ".pt": _TORCH, ".pth": _TORCH, ".ckpt": _TORCH, ".tflite": _TENSORFLOW, ".pb": _TENSORFLOW, ".h5": _TENSORFLOW,
    ".keras": _TENSORFLOW, ".safetensors": _WEIGHTS, ".gguf": _WEIGHTS, ".npz": _WEIGHTS, ".npy": _WEIGHTS,
    ".py": "Python: call archloom.estimate(module, example_inputs=...) there, or export the network to ONNX or .pt2",
}
"""By the ending of a file, what it is."""


def refuse_foreign(path: Path) -> None:
    """ModelError for a file or folder that is no network, by its name or its contents."""
    try:
        if not path.exists():  # what reads it says so
            return
    except OSError:  # a name longer than files have
        return
    what = FOREIGN.get(path.suffix.lower())
    if is_artifact(path):
        what = f"a compiled network: archloom run {path}, archloom report {path}"
    if what is not None:
        raise ModelError(f"{path}: expected an ONNX file or a .pt2, found {what}")
