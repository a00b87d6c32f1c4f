"""Convolutions on MTE that read images in place: for each place of the window a product of the pixels under it and a
matrix of the kernel, all summed in registers; no window is copied.

M is pixels of a row of the result, or pixels alike of several images, whichever fills tiles better; N is output, K
input channels. Padding is part of the image: copying it once with zeros around it is one pass, where pieces at its
edges would be blocks of their own with fewer taps, eight beside the inner one, of which small images mostly consist.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from archloom.acadl_models.mte import PORT_BYTES
from archloom.mapper.accelerator import Configuration
from archloom.mapper.mapping import Mapping as TileMapping
from archloom.mapper.memory import Memory
from archloom.mapper.space import Space
from archloom.mapper.tiling import Shape, space_of
from archloom.mapper.workload import Workload, gemm
from archloom.oracle.affine import Affine
from archloom.oracle.errors import MappingError
from archloom.oracle.stream import Stream
from archloom.uma_targets.kit import Gemm, Hardware
from archloom.uma_targets.mte.emit import Machine, blocks
from archloom.uma_targets.mte.places import Level, Rows, Taps
from archloom.uma_targets.mte.tiling import Walk, tiling


def walk(work: Workload, size: int) -> Walk:
    """The pixels of a result and those that they are computed from, for tiles of ``size`` rows; MappingError for what
    is no convolution of one group without padding."""
    if work.kind != "conv2d" or work.groups > 1 or any(work.padding) or work.epilogue.pool is not None:
        raise MappingError(f"{work.title}: expected a convolution of one group, without padding and pooling")
    n, h, w, c = work.inputs[0].shape
    (down, across), item, out = work.stride, work.inputs[0].item_bytes, work.output.item_bytes * work.extent("o")
    rows, columns = work.extent("oh"), work.extent("ow")
    levels = Rows.of(Level(n, h * w * c * item, rows * columns * out), Level(rows, down * w * c * item, columns * out),
                     Level(columns, across * c * item, out), size=size)
    return Walk(levels, work.extent("kh") * work.extent("kw"), min(n * h * w, n * rows * columns * (
        work.extent("kh") * work.extent("kw"))))


def stream(work: Workload, mapping: TileMapping, parameters: tuple[tuple[str, int], ...]) -> Stream:
    """The stream of a convolution; arguments and results are the workload's tensors."""
    memory, sizes = Memory.of(work), dict(parameters)
    machine = Machine(sizes["vlen"], sizes["rlen"], sizes["registers"])
    at = {t.name: Affine(t.address) for t in memory.tensors}
    image, kernel = work.inputs[:2]
    _, _, width, c = image.shape
    packed = None if kernel.packing is None else kernel.byte_at(c=Affine.variable("k"), o=Affine.variable("n"))
    product = Gemm(
        work.extent("n") * work.extent("oh") * work.extent("ow"), work.extent("o"), c, at["X"], at["W"],
        at.get("bias"), at["Y"], image.item_bytes, 4, work.output.item_bytes, work.epilogue.relu, work.epilogue.scale,
        Affine(memory.end), None, packed=packed, residual=at.get("residual"), dtype=image.dtype)
    (down, across), pixel = work.dilation, c * image.item_bytes
    matrix, (kh, kw) = pixel * work.extent("o"), (work.extent("kh"), work.extent("kw"))
    taps = Taps(0, 0, ((kh, down * width * pixel, kw * matrix), (kw, across * pixel, matrix)))
    body = blocks(product, mapping, machine, [taps], walk(work, machine.rows).rows)
    return memory.stream("mte", parameters, body, 0)


def space(machine: Callable[[Mapping[str, Any]], Machine]) -> Callable[[Workload, Hardware, Mapping[str, Any]], Space]:
    """The mappings of a convolution on the ``machine`` of some options."""
    def of(work: Workload, hardware: Hardware, options: Mapping[str, Any]) -> Space:
        made = machine(options)
        pixels, out = walk(work, made.rows), work.output
        shape = Shape(1, pixels.count, work.extent("o"), work.extent("c"), work.inputs[0].item_bytes, out.item_bytes,
                      work.epilogue.bias, work.epilogue.residual)
        return space_of(work, shape, tiling(shape, hardware, made, pixels), hardware, 1)

    return of


def pays(work: Workload, configuration: Configuration) -> bool:
    """Whether a convolution takes fewer cycles so than as the product of copies of its windows: by the estimates of
    both, and of the copies what their bytes take through the port by which they are stored."""
    try:
        found = configuration.space(work).first()[1]
    except MappingError:
        return False
    pixels, depth = work.output.size_bytes // work.output.item_bytes // work.extent("o"), work.inputs[1].shape[:3]
    k = depth[0] * depth[1] * depth[2]
    product = gemm(pixels, work.extent("o"), k, epilogue=work.epilogue, dtype=work.inputs[0].dtype)
    copied = pixels * k * work.inputs[0].item_bytes / PORT_BYTES
    return found <= configuration.space(product).first()[1] + copied
