"""Nodes of ONNX networks that TVM 0.27 imports as other numbers or not at all, written in others that it imports right.

Each function gives the nodes that take the place of one; they may add constants. What depends on shapes that are not
known is left alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from archloom.oracle.errors import ModelError
from archloom.tvm_backend.frontends.onnx.editor import (
    OWN_DOMAINS,
    Editor,
    Shape,
    attributes_of,
    rewrite,
)
from archloom.tvm_backend.frontends.onnx.functions import with_known_shapes
from archloom.tvm_backend.frontends.onnx.resizing import resized

if TYPE_CHECKING:
    import onnx

Nodes: TypeAlias = "list[onnx.NodeProto]"


@dataclass(frozen=True, eq=False)
class _Known:
    """What is known of a network's tensors: types, values of constants, which have no elements, which are results."""

    types: Mapping[str, int]
    constants: "Mapping[str, onnx.TensorProto]"
    empty: frozenset[str]
    outputs: frozenset[str]

    @staticmethod
    def of(editor: Editor) -> "_Known":
        graph = editor.graph
        values = {node.output[0]: a.t for node in graph.node if node.op_type == "Constant"
                  for a in node.attribute if a.name == "value"}
        return _Known(_types(editor.inferred_model), {**editor.constants, **values},
                      frozenset(_without_elements(editor.inferred_model)), frozenset(o.name for o in graph.output))


@dataclass(frozen=True, eq=False)
class Site:
    """A node, and what is known around it."""

    node: "onnx.NodeProto"
    editor: Editor
    known: _Known

    @property
    def attributes(self) -> dict[str, Any]:
        return attributes_of(self.node)

    @property
    def result(self) -> str:
        return str(self.node.output[0])

    def input(self, position: int) -> str:
        """The name of an input, empty if it is left out."""
        return str(self.node.input[position]) if position < len(self.node.input) else ""

    def shape(self, name: str) -> Shape | None:
        """The static shape of a tensor."""
        return self.editor.inferred.get(name)

    def type(self, position: int) -> int | None:
        """The type of an input's numbers."""
        return self.known.types.get(self.input(position))

    def value(self, position: int) -> np.ndarray | None:
        """The numbers of a constant input."""
        from onnx import numpy_helper

        tensor = self.known.constants.get(self.input(position))
        return None if tensor is None else numpy_helper.to_array(tensor)

    def constant(self, label: str, array: Any) -> str:
        """The name of a new constant."""
        return self.editor.constant(f"{self.result}.{label}", np.ascontiguousarray(array))

    def make(self, operator: str, inputs: Iterable[str], output: str, **attributes: Any) -> "onnx.NodeProto":
        """A node; the last one of a replacement has the output and the name of the node that it replaces."""
        from onnx import helper

        name = self.node.name or output if output == self.result else output
        return helper.make_node(operator, list(inputs), [output], name, **attributes)


def repaired(model: "onnx.ModelProto") -> "onnx.ModelProto":
    """The network with such nodes replaced."""
    if not any(node.op_type in REPAIRS and node.domain in OWN_DOMAINS for node in model.graph.node):
        return model
    if _has_computed_sizes(model):
        model = with_known_shapes(model)
    known: list[_Known] = []

    def rule(node: "onnx.NodeProto", editor: Editor) -> bool:
        if not known:
            known.append(_Known.of(editor))
        found = REPAIRS[node.op_type](Site(node, editor, known[0]))
        for made in found or ():
            editor.write(made)
        return found is not None

    return rewrite(model, dict.fromkeys(REPAIRS, rule))


def _has_computed_sizes(model: "onnx.ModelProto") -> bool:
    """Whether an image is resized to a size that is computed (of the shape of another, as a rule)."""
    made = {name for node in model.graph.node if node.op_type != "Constant" for name in node.output}
    return any(name in made for node in model.graph.node if node.op_type == "Resize" for name in node.input[2:])


def _types(model: "onnx.ModelProto") -> dict[str, int]:
    graph = model.graph
    known = {info.name: info.type.tensor_type.elem_type for info in [*graph.input, *graph.value_info, *graph.output]}
    return known | {t.name: t.data_type for t in graph.initializer}


def _without_elements(model: "onnx.ModelProto") -> Iterable[str]:
    """Names of tensors of which an axis is known to be empty."""
    graph = model.graph
    for info in [*graph.input, *graph.value_info, *graph.output]:
        for dim in info.type.tensor_type.shape.dim:
            if dim.WhichOneof("value") == "dim_value" and dim.dim_value == 0:
                yield info.name


def _concat(site: Site) -> Nodes | None:
    """Parts without elements are left out."""
    parts = [name for name in site.node.input if name not in site.known.empty]
    if len(parts) == len(site.node.input) or not parts:
        return None
    return [site.make("Concat", parts, site.result, **site.attributes)]


def _cumsum(site: Site) -> Nodes | None:
    """Sums without the number itself."""
    if not site.attributes.get("exclusive", 0):
        return None
    given = {k: v for k, v in site.attributes.items() if k != "exclusive"}
    sums = f"{site.result}.sums"
    return [site.make("CumSum", site.node.input, sums, **given),
            site.make("Sub", [sums, site.input(0)], site.result)]


def _isinf(site: Site) -> Nodes | None:
    """Infinite numbers of one sign."""
    positive, negative = (site.attributes.get(f"detect_{sign}", 1) for sign in ("positive", "negative"))
    kind = site.type(0)
    if (positive and negative) or kind is None:
        return None
    from onnx import helper

    zero = site.constant("zero", np.zeros((), helper.tensor_dtype_to_np_dtype(kind)))
    if not positive and not negative:
        return [site.make("Less", [site.input(0), site.input(0)], site.result)]
    any_, sign = f"{site.result}.any", f"{site.result}.sign"
    return [site.make("IsInf", [site.input(0)], any_),
            site.make("Greater" if positive else "Less", [site.input(0), zero], sign),
            site.make("And", [any_, sign], site.result)]


def _pow(site: Site) -> Nodes | None:
    """Powers whose exponents have another type: computed in that of the two that has fractions, or the base's."""
    from onnx import TensorProto

    base, exponent = (site.type(i) for i in range(2))
    if base is None or exponent is None or base == exponent:
        return None
    fractions = (TensorProto.FLOAT16, TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.BFLOAT16)
    kind = exponent if exponent in fractions and base not in fractions else base
    names, nodes = [], []
    for side, given in ((0, base), (1, exponent)):
        names.append(site.input(side) if given == kind else f"{site.result}.operand{side}")
        if given != kind:
            nodes.append(site.make("Cast", [site.input(side)], names[-1], to=kind))
    if kind == base:
        return [*nodes, site.make("Pow", names, site.result)]
    powers = f"{site.result}.powers"
    return [*nodes, site.make("Pow", names, powers), site.make("Cast", [powers], site.result, to=base)]


def _lp_normalization(site: Site) -> Nodes | None:
    """Each number by the norm of those along an axis; zeros stay zeros."""
    axis, order = int(site.attributes.get("axis", -1)), int(site.attributes.get("p", 2))
    norm = f"{site.result}.norm"
    operator = "ReduceL2" if order == 2 else "ReduceL1"
    if site.editor.version >= 18:
        reduced = site.make(operator, [site.input(0), site.constant("axes", np.array([axis], np.int64))], norm)
    else:
        reduced = site.make(operator, [site.input(0)], norm, axes=[axis])
    from onnx import helper

    kind = (site.type(0) or 1)
    zero, one = (site.constant(word, np.full((), n, helper.tensor_dtype_to_np_dtype(kind)))
                 for n, word in enumerate(("zero", "one")))
    nothing, divisor = f"{site.result}.nothing", f"{site.result}.divisor"
    return [reduced, site.make("Equal", [norm, zero], nothing), site.make("Where", [nothing, one, norm], divisor),
            site.make("Div", [site.input(0), divisor], site.result)]


def _conv_transpose(site: Site) -> Nodes | None:
    """The padding that gives a size asked for, which TVM does not read (ONNX's formula)."""
    from onnx import helper

    given = site.attributes
    image, kernel = site.shape(site.input(0)), site.shape(site.input(1))
    if "output_shape" not in given or image is None or kernel is None:
        return None
    axes = len(image) - 2
    wanted = given["output_shape"][-axes:]
    strides, dilations, more = (given.get(name, [d] * axes) for name, d in (
        ("strides", 1), ("dilations", 1), ("output_padding", 0)))
    begins, ends, extra = [], [], list(more)
    for i in range(axes):
        full = strides[i] * (image[2 + i] - 1) + (kernel[2 + i] - 1) * dilations[i] + 1
        total = full + more[i] - wanted[i]
        if total < 0:  # zeros behind the sums, which are no sums of anything
            extra[i], total = more[i] - total, 0
        small, large = total // 2, total - total // 2
        upper = given.get("auto_pad", b"NOTSET") == b"SAME_UPPER"
        begins.append(small if upper else large)
        ends.append(large if upper else small)
    kept = {k: v for k, v in given.items() if k not in ("output_shape", "auto_pad", "pads", "output_padding")}
    if any(extra):
        kept["output_padding"] = extra
    return [helper.make_node("ConvTranspose", list(site.node.input), list(site.node.output), site.node.name,
                             pads=begins + ends, **kept)]


def _layer_normalization(site: Site) -> Nodes | None:
    """Means and deviations as results of their own."""
    from onnx import helper

    wanted = [name for name in site.node.output[1:] if name]
    shape = site.shape(site.input(0))
    if not wanted or shape is None:
        return None
    x, axis = site.input(0), int(site.attributes.get("axis", -1)) % len(shape)
    axes = list(range(axis, len(shape)))

    def mean(source: str, result: str) -> "onnx.NodeProto":
        if site.editor.version >= 18:
            return site.make("ReduceMean", [source, site.constant(f"{result}.axes", np.array(axes, np.int64))], result)
        return site.make("ReduceMean", [source], result, axes=axes)

    names = [*site.node.output[1:], "", ""][:2]
    centre = names[0] or f"{site.result}.mean"
    nodes = [helper.make_node("LayerNormalization", list(site.node.input), [site.result], site.node.name,
                              **{k: v for k, v in site.attributes.items() if k != "stash_type"}), mean(x, centre)]
    if names[1]:
        step = [f"{site.result}.{word}" for word in ("centred", "squares", "variance", "shifted", "deviation")]
        epsilon = site.constant("epsilon", np.float32(site.attributes.get("epsilon", 1e-5)))
        nodes += [site.make("Sub", [x, centre], step[0]), site.make("Mul", [step[0], step[0]], step[1]),
                  mean(step[1], step[2]), site.make("Add", [step[2], epsilon], step[3]),
                  site.make("Sqrt", [step[3]], step[4]), site.make("Reciprocal", [step[4]], names[1])]
    return nodes


def _eye_like(site: Site) -> Nodes | None:
    """A constant."""
    from onnx import helper

    shape, kind = site.shape(site.input(0)), site.attributes.get("dtype", site.type(0))
    if shape is None or kind is None:
        return None
    rows, columns = shape
    eye = np.eye(rows, columns, k=int(site.attributes.get("k", 0)), dtype=helper.tensor_dtype_to_np_dtype(kind))
    return [site.make("Identity", [site.constant("eye", eye)], site.result)]


def _shape(site: Site) -> Nodes | None:
    """A shape that is a result of the network."""
    shape = site.shape(site.input(0))
    if site.result not in site.known.outputs or shape is None:
        return None
    given = site.attributes
    sizes = np.array(shape[given.get("start", 0):given.get("end")], np.int64)
    return [site.make("Identity", [site.constant("sizes", sizes)], site.result)]


def _resize(site: Site) -> Nodes | None:
    """Sizes that are no multiples, other weights than TVM has: sums of weighted pixels, one axis after the other."""
    shape, result = site.shape(site.input(0)), site.shape(site.result)
    if shape is None or result is None:
        return None
    given: dict[str, Any] = {k: v.decode() if isinstance(v, bytes) else v for k, v in site.attributes.items()}
    if given.get("coordinate_transformation_mode") == "tf_crop_and_resize":
        return None
    scales, sizes = site.value(2), site.value(3)
    for position, found in ((2, scales), (3, sizes)):
        if site.input(position) and found is None:
            raise ModelError(f"node {site.node.name or site.result!r} (Resize): expected constant scales or sizes, "
                             f"found {site.input(position)!r}, which is computed")
    axes = [a % len(shape) for a in given.get("axes", range(len(shape)))]
    if scales is not None and scales.size:
        factors = [float(f) for f in scales]
    elif sizes is not None:
        factors = [int(n) / shape[a] for n, a in zip(sizes, axes, strict=True)]
        policy = given.get("keep_aspect_ratio_policy", "stretch")
        if policy != "stretch":
            factors = [min(factors) if policy == "not_larger" else max(factors)] * len(axes)
    else:
        return None
    usual = all(math.isclose(f * shape[a], result[a], rel_tol=1e-6) for a, f in zip(axes, factors, strict=True))
    mapping = given.get("coordinate_transformation_mode", "half_pixel")
    plain = given.get("mode", "nearest") != "cubic" and not given.get("antialias", 0) and "axes" not in given and (
        mapping != "half_pixel_symmetric" and given.get("keep_aspect_ratio_policy", "stretch") == "stretch")
    if usual and plain:
        return None
    nodes, source = [], site.input(0)
    moved = [(a, f) for a, f in zip(axes, factors, strict=True) if f != 1.0 or result[a] != shape[a]]
    for i, (axis, factor) in enumerate(moved):
        places, weights = resized(shape[axis], result[axis], factor, given)
        final = site.result if i == len(moved) - 1 else f"{site.result}.axis{axis}"
        nodes += _weighted(site, source, axis, len(shape), places, weights, final)
        source = final
    return nodes or [site.make("Identity", [source], site.result)]


def _weighted(
    site: Site, source: str, axis: int, rank: int, places: np.ndarray, weights: np.ndarray, final: str
) -> Nodes:
    """For each new pixel the sum of pixels at ``places`` by ``weights``, [taps, pixels] each."""
    nodes, total = [], ""
    for tap in range(len(places)):
        last = tap == len(places) - 1
        word = f"{site.result}.axis{axis}.tap{tap}"
        index = site.constant(f"axis{axis}.places{tap}", places[tap].astype(np.int64))
        if len(places) == 1 and (weights == 1).all():
            return [site.make("Gather", [source, index], final, axis=axis)]
        kind = np.float32 if site.type(0) == 1 else np.float64 if (
            site.type(0) == 11) else np.float16
        weight = site.constant(
            f"axis{axis}.weights{tap}", weights[tap].astype(kind).reshape(-1, *[1] * (rank - 1 - axis)))
        share = final if last and not total else f"{word}.share"
        nodes += [site.make("Gather", [source, index], word, axis=axis), site.make("Mul", [word, weight], share)]
        if total:
            nodes.append(site.make("Add", [total, share], final if last else f"{word}.sum"))
        total = nodes[-1].output[0]
    return nodes


def _only(attribute: str, value: bytes) -> Callable[[Site], Nodes | None]:
    """Refuse other values of an attribute, which TVM does not read."""

    def check(site: Site) -> Nodes | None:
        found = site.attributes.get(attribute, value)
        if found != value:
            raise ModelError(f"node {site.node.name or site.result!r} ({site.node.op_type}): expected {attribute} "
                             f"{value.decode()}, found {found.decode()}")
        return None

    return check


def _boxes(site: Site) -> Nodes | None:
    raise ModelError(f"node {site.node.name or site.result!r} (NonMaxSuppression): how many boxes are left depends on "
                     "the data; only static shapes can be compiled: cut the network before it")


REPAIRS: Mapping[str, Callable[[Site], Nodes | None]] = {
    "Concat": _concat,
    "ConvTranspose": _conv_transpose,
    "CumSum": _cumsum,
    "EyeLike": _eye_like,
    "IsInf": _isinf,
    "LayerNormalization": _layer_normalization,
    "LpNormalization": _lp_normalization,
    "Pow": _pow,
    "NonMaxSuppression": _boxes,
    "Resize": _resize,
    "RoiAlign": _only("mode", b"avg"),
    "Shape": _shape,
    "SpaceToDepth": _only("mode", b"DCR"),
}
"""Replacements by operator; None leaves a node as it is."""
