"""How the results of ONNX nodes are called, whoever imports them."""

NAMED_OPERATORS = frozenset({"nn.conv1d", "nn.conv2d", "nn.conv3d", "nn.conv2d_transpose", "matmul"})
"""Operators that take the name of the ONNX node of which they are part."""


def rename(name: str) -> str:
    """A node's name as a variable's name."""
    return name.strip("/").replace("/", ".").replace("::", ".") or "node"
