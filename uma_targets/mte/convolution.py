"""Convolutions on MTE that read images in place: for each row of the window a product of the pixels under it and a
matrix of the kernel, all summed in registers; no window is copied.

M is pixels of a row of the result, or pixels alike of several images, whichever fills tiles better. N is output
channels. K is input channels of all pixels of a row of the window, which lie one behind the other, so that rows of A
overlap; with a dilation there is a product for each pixel. Padding is part of the image: copying it once with zeros
around it is one pass, where pieces at its edges would be blocks of their own with fewer taps, eight beside the inner
one, of which small images mostly consist.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from archloom.acadl_models.mte import PORT_BYTES
from archloom.mapper.accelerator import Configuration
from archloom.mapper.costs.lines import Cache
from archloom.mapper.mapping import Mapping as TileMapping
from archloom.mapper.memory import Memory
from archloom.mapper.space import Space
from archloom.mapper.tiling import Shape, space_of
from archloom.mapper.workload import Workload, gemm
from archloom.oracle.affine import Affine
from archloom.oracle.errors import MappingError
from archloom.oracle.stream import Stream
from archloom.uma_targets.kit import Gemm, Hardware, ceil_div
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
    kh, kw = work.extent("kh"), work.extent("kw")
    read = min(h * w, rows * columns * kh * kw)
    return Walk(levels, kh * kw * c // depth(work), n * read * c // depth(work))


def is_joined(work: Workload) -> bool:
    """Whether pixels of a row of the window lie one behind the other."""
    return work.dilation[1] == 1


def depth(work: Workload) -> int:
    """K of each product."""
    return work.extent("c") * (work.extent("kw") if is_joined(work) else 1)


def stream(work: Workload, mapping: TileMapping, parameters: tuple[tuple[str, int], ...]) -> Stream:
    """The stream of a convolution; arguments and results are the workload's tensors."""
    memory, sizes = Memory.of(work), dict(parameters)
    machine = Machine(sizes["vlen"], sizes["rlen"], sizes["registers"])
    at = {t.name: Affine(t.address) for t in memory.tensors}
    image, kernel = work.inputs[:2]
    _, _, width, c = image.shape
    packed = None if kernel.packing is None else kernel.byte_at(o=Affine.variable("n")) + Affine.variable("k") * (
        image.item_bytes)
    product = Gemm(
        work.extent("n") * work.extent("oh") * work.extent("ow"), work.extent("o"), depth(work), at["X"], at["W"],
        at.get("bias"), at["Y"], image.item_bytes, 4, work.output.item_bytes, work.epilogue.relu, work.epilogue.scale,
        Affine(memory.end), None, packed=packed, residual=at.get("residual"), dtype=image.dtype)
    (down, across), pixel = work.dilation, c * image.item_bytes
    matrix, (kh, kw) = pixel * work.extent("o"), (work.extent("kh"), work.extent("kw"))
    pixels = () if is_joined(work) else ((kw, across * pixel, matrix),)
    taps = Taps(0, 0, ((kh, down * width * pixel, kw * matrix), *pixels))
    body = blocks(product, mapping, machine, [taps], walk(work, machine.rows).rows)
    return memory.stream("mte", parameters, body, 0)


def space(machine: Callable[[Mapping[str, Any]], Machine]) -> Callable[[Workload, Hardware, Mapping[str, Any]], Space]:
    """The mappings of a convolution on the ``machine`` of some options."""
    def of(work: Workload, hardware: Hardware, options: Mapping[str, Any]) -> Space:
        made = machine(options)
        pixels, out = walk(work, made.rows), work.output
        shape = Shape(1, pixels.count, work.extent("o"), depth(work), work.inputs[0].item_bytes, out.item_bytes,
                      work.epilogue.bias, work.epilogue.residual)
        return space_of(work, shape, tiling(shape, hardware, made, pixels), hardware, 1)

    return of


def place(work: Workload) -> tuple[Affine, ...]:
    """Where a constant kernel lies in mixed precision: each of its matrices column by column."""
    names = ("o", "kw", "c") if is_joined(work) else ("o", "c")
    return tuple(map(Affine.variable, names))


def pays(work: Workload, configuration: Configuration) -> bool:
    """Whether a convolution takes fewer cycles so than as the product of copies of its windows, by the estimates of
    both and what copies take at least: for each run of pixels a load from the cache and a store that waits for it."""
    try:
        found = configuration.space(work).first()[1]
    except MappingError:
        return False
    pixels, k = math.prod(work.output.shape[:3]), math.prod(work.inputs[1].shape[:3])
    image, caches = work.inputs[0], Cache.of(configuration.hardware)
    product = gemm(pixels, work.extent("o"), k, epilogue=work.epilogue, dtype=image.dtype)
    beats, near = ceil_div(depth(work) * image.item_bytes, PORT_BYTES), caches[-1].hit_cycles if caches else 0
    copied = pixels * k // depth(work) * (near + 2 * beats)
    return bool(found <= configuration.space(product).first()[1] + copied)
