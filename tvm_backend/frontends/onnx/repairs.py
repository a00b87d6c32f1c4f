"""Nodes of ONNX networks that TVM 0.27 imports as other numbers or not at all, written in others that it imports right.

Each function writes the nodes that take the place of one, and says whether it has; they may add constants. What depends
on shapes that are not known is left alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from archloom.oracle.errors import ModelError
from archloom.tvm_backend.frontends.onnx.editor import OWN_DOMAINS, Editor, Shape, attributes_of, rewrite, rewriting
from archloom.tvm_backend.frontends.onnx.functions import with_known_shapes
from archloom.tvm_backend.ir.resizing import resized
from archloom.tvm_backend.ir.windows import overlaid

FRACTIONS = (TensorProto.FLOAT16, TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.BFLOAT16)


@dataclass(frozen=True, eq=False)
class Site:
    """A node that is replaced, in a network that is written anew."""

    node: onnx.NodeProto
    editor: Editor

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
        return self.editor.type_of(self.input(position))

    def constant(self, label: str, array: Any) -> str:
        """The name of a new constant."""
        return self.editor.constant(f"{self.result}.{label}", np.ascontiguousarray(array))

    def make(self, operator: str, inputs: Iterable[str], output: str = "", **attributes: Any) -> str:
        """Write a node of the result ``output``; the last one has the result and the name of the one replaced."""
        output = output or self.result
        name = self.node.name or output if output == self.result else output
        return self.editor.node(operator, list(inputs), output, name, **attributes)

    def reduced(self, operator: str, source: str, output: str, axes: list[int], label: str = "axes") -> str:
        """Write a reduction over some axes, which are an argument since operator set 18."""
        if self.editor.version < 18:
            return self.make(operator, [source], output, axes=axes)
        return self.make(operator, [source, self.constant(label, np.array(axes, np.int64))], output)


Repair: TypeAlias = Callable[[Site], bool]


def repaired(model: onnx.ModelProto) -> onnx.ModelProto:
    """The network with such nodes replaced."""
    if not any(node.op_type in REPAIRS and node.domain in OWN_DOMAINS for node in model.graph.node):
        return model
    if _has_computed_sizes(model):
        model = with_known_shapes(model)
    return rewrite(model, dict.fromkeys(REPAIRS, lambda node, editor: REPAIRS[node.op_type](Site(node, editor))))


@rewriting("Resize")
def resized_by_pixels(node: onnx.NodeProto, editor: Editor) -> bool:
    """Write ``Resize`` that TVM's operator is not, see :func:`repaired`, where its sizes are constants."""
    site = Site(node, editor)
    known = all(_value(site, position) is not None for position in (2, 3) if site.input(position))
    return known and _resize(site)


def _has_computed_sizes(model: onnx.ModelProto) -> bool:
    """Whether an image is resized to a size that is computed (of the shape of another, as a rule)."""
    made = {name for node in model.graph.node if node.op_type != "Constant" for name in node.output}
    return any(name in made for node in model.graph.node if node.op_type == "Resize" for name in node.input[2:])


def _col2im(site: Site) -> bool:
    """Pixels as sums of the elements of blocks that lie on them, which are gathered."""
    columns, extents, kernel = site.shape(site.input(0)), _value(site, 1), _value(site, 2)
    if columns is None or extents is None or kernel is None:
        return False
    image, block = extents.tolist(), kernel.tolist()
    rank, given = len(image), site.attributes
    strides, dilations = (given.get(name, [1] * rank) for name in ("strides", "dilations"))
    places = overlaid(image, block, strides, dilations, given.get("pads", [0] * 2 * rank))
    n, elements = columns[0], math.prod(block) * columns[2]
    channels = columns[1] // math.prod(block)
    flat = site.editor.reshaped(site.input(0), f"{site.result}.elements", (n, channels, elements))
    if (places == elements).any():
        zero = site.constant("zero", np.zeros((n, channels, 1), helper.tensor_dtype_to_np_dtype(site.type(0) or 1)))
        flat = site.make("Concat", [flat, zero], f"{site.result}.with_zero", axis=2)
    found = site.make("Gather", [flat, site.constant("places", places)], f"{site.result}.gathered", axis=2)
    sums = site.reduced("ReduceSum", found, f"{site.result}.sums", [2])
    site.make("Reshape", [sums, site.constant("shape", np.array((n, channels, *image), np.int64))])
    return True


def _concat(site: Site) -> bool:
    """Parts without elements are left out."""
    parts = [name for name in site.node.input if name not in site.editor.infos or not any(
        dim.WhichOneof("value") == "dim_value" and dim.dim_value == 0
        for dim in site.editor.infos[name].type.tensor_type.shape.dim)]
    if len(parts) == len(site.node.input) or not parts:
        return False
    site.make("Concat", parts, **site.attributes)
    return True


def _cumsum(site: Site) -> bool:
    """Sums without the number itself."""
    if not site.attributes.get("exclusive", 0):
        return False
    given = {k: v for k, v in site.attributes.items() if k != "exclusive"}
    site.make("Sub", [site.make("CumSum", site.node.input, f"{site.result}.sums", **given), site.input(0)])
    return True


def _isinf(site: Site) -> bool:
    """Infinite numbers of one sign."""
    positive, negative = (site.attributes.get(f"detect_{sign}", 1) for sign in ("positive", "negative"))
    kind, x = site.type(0), site.input(0)
    if (positive and negative) or kind is None:
        return False
    zero = site.constant("zero", np.zeros((), helper.tensor_dtype_to_np_dtype(kind)))
    if positive or negative:
        infinite = site.make("IsInf", [x], f"{site.result}.any")
        site.make("And", [infinite, site.make("Greater" if positive else "Less", [x, zero], f"{site.result}.sign")])
    else:
        site.make("Less", [x, x])
    return True


def _pow(site: Site) -> bool:
    """Powers whose exponents have another type: computed in that of the two that has fractions, or the base's."""
    base, exponent = (site.type(i) for i in range(2))
    if base is None or exponent is None or base == exponent:
        return False
    kind = exponent if exponent in FRACTIONS and base not in FRACTIONS else base
    names = [site.input(side) if given == kind else site.make(
        "Cast", [site.input(side)], f"{site.result}.operand{side}", to=kind)
        for side, given in ((0, base), (1, exponent))]
    if kind == base:
        site.make("Pow", names)
    else:
        site.make("Cast", [site.make("Pow", names, f"{site.result}.powers")], to=base)
    return True


def _lp_normalization(site: Site) -> bool:
    """Each number by the norm of those along an axis; zeros stay zeros."""
    axis, order = int(site.attributes.get("axis", -1)), int(site.attributes.get("p", 2))
    norm = site.reduced("ReduceL2" if order == 2 else "ReduceL1", site.input(0), f"{site.result}.norm", [axis])
    dtype = helper.tensor_dtype_to_np_dtype(site.type(0) or 1)
    zero, one = (site.constant(word, np.full((), n, dtype)) for n, word in enumerate(("zero", "one")))
    nothing = site.make("Equal", [norm, zero], f"{site.result}.nothing")
    site.make("Div", [site.input(0), site.make("Where", [nothing, one, norm], f"{site.result}.divisor")])
    return True


def _conv_transpose(site: Site) -> bool:
    """The padding that gives a size asked for, which TVM does not read (ONNX's formula)."""
    given = site.attributes
    image, kernel = site.shape(site.input(0)), site.shape(site.input(1))
    if "output_shape" not in given or image is None or kernel is None:
        return False
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
    site.editor.node("ConvTranspose", list(site.node.input), site.result, site.node.name, pads=begins + ends, **kept)
    return True


def _layer_normalization(site: Site) -> bool:
    """Means and deviations as results of their own."""
    mean, deviation = [*site.node.output[1:], "", ""][:2]
    shape, x = site.shape(site.input(0)), site.input(0)
    if not (mean or deviation) or shape is None:
        return False
    axes = list(range(int(site.attributes.get("axis", -1)) % len(shape), len(shape)))
    site.editor.node("LayerNormalization", list(site.node.input), site.result, site.node.name,
                     **{k: v for k, v in site.attributes.items() if k != "stash_type"})
    mean = mean or f"{site.result}.mean"
    site.reduced("ReduceMean", x, mean, axes, f"{mean}.axes")
    if deviation:
        step = [f"{site.result}.{word}" for word in ("centred", "squares", "variance", "shifted", "deviation")]
        epsilon = site.constant("epsilon", np.float32(site.attributes.get("epsilon", 1e-5)))
        site.make("Sub", [x, mean], step[0])
        site.make("Mul", [step[0], step[0]], step[1])
        site.reduced("ReduceMean", step[1], step[2], axes, f"{step[2]}.axes")
        site.make("Add", [step[2], epsilon], step[3])
        site.make("Sqrt", [step[3]], step[4])
        site.make("Reciprocal", [step[4]], deviation)
    return True


def _eye_like(site: Site) -> bool:
    """A constant."""
    shape, kind = site.shape(site.input(0)), site.attributes.get("dtype", site.type(0))
    if shape is None or kind is None:
        return False
    rows, columns = shape
    eye = np.eye(rows, columns, int(site.attributes.get("k", 0)), helper.tensor_dtype_to_np_dtype(kind))
    site.make("Identity", [site.constant("eye", eye)])
    return True


def _shape(site: Site) -> bool:
    """A shape that is a result of the network."""
    shape, given = site.shape(site.input(0)), site.attributes
    if shape is None or site.result not in {output.name for output in site.editor.graph.output}:
        return False
    site.make("Identity", [site.constant("sizes", np.array(shape[given.get("start", 0):given.get("end")], np.int64))])
    return True


def _value(site: Site, position: int) -> np.ndarray | None:
    """The numbers of a constant input."""
    name = site.input(position)
    nodes = (a.t for node in site.editor.graph.node if node.op_type == "Constant" and node.output[0] == name
             for a in node.attribute if a.name == "value")
    tensor = next(nodes, None) or site.editor.constants.get(name)
    return None if tensor is None else numpy_helper.to_array(tensor)


def _resize(site: Site) -> bool:
    """Sizes that are no multiples, other weights than TVM has: sums of weighted pixels, one axis after the other."""
    shape, result = site.shape(site.input(0)), site.shape(site.result)
    if shape is None or result is None:
        return False
    given: dict[str, Any] = {k: v.decode() if isinstance(v, bytes) else v for k, v in site.attributes.items()}
    if given.get("coordinate_transformation_mode") == "tf_crop_and_resize":
        return False
    scales, sizes = _value(site, 2), _value(site, 3)
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
        return False
    usual = all(math.isclose(f * shape[a], result[a], rel_tol=1e-6) for a, f in zip(axes, factors, strict=True))
    mapping = given.get("coordinate_transformation_mode", "half_pixel")
    plain = given.get("mode", "nearest") != "cubic" and not given.get("antialias", 0) and "axes" not in given and (
        mapping != "half_pixel_symmetric" and given.get("keep_aspect_ratio_policy", "stretch") == "stretch")
    if usual and plain:
        return False
    source = site.input(0)
    moved = [(a, f) for a, f in zip(axes, factors, strict=True) if f != 1.0 or result[a] != shape[a]]
    for i, (axis, factor) in enumerate(moved):
        places, weights = resized(shape[axis], result[axis], factor, given)
        final = site.result if i == len(moved) - 1 else f"{site.result}.axis{axis}"
        source = _weighted(site, source, axis, len(shape), places, weights, final)
    if not moved:
        site.make("Identity", [source])
    return True


def _weighted(
    site: Site, source: str, axis: int, rank: int, places: np.ndarray, weights: np.ndarray, final: str
) -> str:
    """For each new pixel the sum of pixels at ``places`` by ``weights``, [taps, pixels] each."""
    total = ""
    for tap in range(len(places)):
        last = tap == len(places) - 1
        word = f"{site.result}.axis{axis}.tap{tap}"
        index = site.constant(f"axis{axis}.places{tap}", places[tap].astype(np.int64))
        if len(places) == 1 and (weights == 1).all():
            return site.make("Gather", [source, index], final, axis=axis)
        kind = {TensorProto.FLOAT: np.float32, TensorProto.DOUBLE: np.float64}.get(site.type(0) or 0, np.float16)
        weight = site.constant(
            f"axis{axis}.weights{tap}", weights[tap].astype(kind).reshape(-1, *[1] * (rank - 1 - axis)))
        site.make("Gather", [source, index], word, axis=axis)
        share = site.make("Mul", [word, weight], final if last and not total else f"{word}.share")
        total = site.make("Add", [total, share], final if last else f"{word}.sum") if total else share
    return total


def _unsqueeze(site: Site) -> bool:
    """One axis as a number, as torch.onnx writes it of grouped attention, where ONNX has a list."""
    axes = _value(site, 1)
    if axes is None or axes.ndim:
        return False
    site.make("Unsqueeze", [site.input(0), site.constant("axes", axes.reshape(1))])
    return True


def _only(attribute: str, value: bytes) -> Repair:
    """Refuse other values of an attribute, which TVM does not read."""

    def check(site: Site) -> bool:
        found = site.attributes.get(attribute, value)
        if found != value:
            raise ModelError(f"node {site.node.name or site.result!r} ({site.node.op_type}): expected {attribute} "
                             f"{value.decode()}, found {found.decode()}")
        return False

    return check


def _boxes(site: Site) -> bool:
    raise ModelError(f"node {site.node.name or site.result!r} (NonMaxSuppression): how many boxes are left depends on "
                     "the data; only static shapes can be compiled: cut the network before it")


REPAIRS: Mapping[str, Repair] = {
    "Col2Im": _col2im,
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
    "Unsqueeze": _unsqueeze,
}
"""Replacements by operator; one that gives False leaves its node as it is."""
