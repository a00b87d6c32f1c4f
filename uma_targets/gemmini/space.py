"""The mappings that Gemmini may have for a workload, and their estimated cycles."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Mapping as MappingABC
from typing import Any

import numpy as np

from archloom.mapper import space as tables
from archloom.mapper.costs.pipeline import cycles, places
from archloom.mapper.hardware import Hardware
from archloom.mapper.mapping import LEVELS, Mapping
from archloom.mapper.reuse import ceil_div, conv_residency, gemm_residency
from archloom.mapper.space import HOIST, INTERLEAVE, STREAM, Columns, Space, SpaceBuilder, Table
from archloom.mapper.workload import Workload
from archloom.oracle.stream import HbmTensor
from archloom.uma_targets.gemmini.conv_counts import counted
from archloom.uma_targets.gemmini.conv_least import Convolution, conv_least
from archloom.uma_targets.gemmini.conv_schemes import Channels, KernelRow, Scheme
from archloom.uma_targets.gemmini.emit import gemm_problem, image
from archloom.uma_targets.gemmini.emit_gemm import GemmProblem
from archloom.uma_targets.gemmini.instructions import MOST_POOL_EXTENT
from archloom.uma_targets.gemmini.least import gemm_least
from archloom.uma_targets.gemmini.loops import ConvShape, Phase, add_loops, conv_loops, gemm_loops

SPAD, ACC = "rows of the scratchpad", "rows of the accumulator"

def space(workload: Workload, hardware: Hardware, options: MappingABC[str, Any]) -> Space:
    """All candidates that fit; MappingError if none does."""
    builder = SpaceBuilder(
        workload.name, {SPAD: hardware.memory("spad").rows, ACC: hardware.memory("acc").rows},
        "a larger scratchpad or accumulator (scratchpad_kib, accumulator_kib) or a smaller dim")
    flows = ("ws", "os") if options["dataflow"] == "auto" else (options["dataflow"],)
    if workload.kind == "add":
        _add_additions(builder, workload, hardware)
    elif workload.kind == "gemm" or workload.is_pointwise:
        for flow in flows:
            _add_gemms(builder, workload, hardware, flow, single=len(flows) == 1)
    else:
        _add_convs(builder, workload, hardware, flows)
    return builder.build()


# additions


def _add_additions(builder: SpaceBuilder, workload: Workload, hardware: Hardware) -> None:
    dim, out_bytes = hardware.dim, 4 if workload.epilogue.out_dtype == "int32" else 1
    rows = int(ceil_div(workload.extent("i"), dim))
    tiles = [t * dim for t in (1, 2, 4, 8, 16) if t * dim <= max(dim, rows)]
    columns = tables.product({"rows": tiles, "slots_c": [1, 2, 4, 8, 16]})

    def estimate(c: Columns) -> np.ndarray:
        return cycles(add_loops(rows, out_bytes, c, dim), hardware)

    def mapping(c: Columns, i: int) -> Mapping:
        return Mapping("add", "ws", (("rows", int(c["rows"][i])),), buffers=(("C", int(c["slots_c"][i])),))

    builder.add(Table(columns, {ACC: columns["rows"] * columns["slots_c"]}, estimate, mapping))


# matrix products


def _add_gemms(builder: SpaceBuilder, workload: Workload, hardware: Hardware, flow: str, *, single: bool) -> None:
    """``single``: no other dataflow is considered. Otherwise sums stay only where there are several to add up."""
    nowhere = {t.name: HbmTensor("", 0, (), "int8") for t in (*workload.inputs, workload.output)}
    p = gemm_problem(workload, nowhere)
    dim, os, acc_rows = hardware.dim, flow == "os", hardware.memory("acc").rows
    most = acc_rows // dim
    tiles = tables.product({
        "mb": tables.divisions(p.m, dim, most), "nb": tables.divisions(p.n, dim, most),
        "kb": tables.divisions(p.k, dim) if os else [k for k in (1, 2) if k <= ceil_div(p.k, dim)],
    })
    alone = tiles["kb"] == 1 if os and not single and p.k > dim else np.zeros(len(tiles["kb"]), bool)
    tiles = tables.select(tiles, (tiles["mb"] * tiles["nb"] <= most) & ~alone)
    choices = tables.product({
        "m_outer": [0, 1], "level_a": [STREAM, HOIST, INTERLEAVE], "level_b": [STREAM, HOIST, INTERLEAVE],
    })
    # the operand that the outer loop does not index stays for all of it, or is streamed
    inner = np.where(choices["m_outer"], choices["level_b"], choices["level_a"])
    choices = tables.select(choices, inner != INTERLEAVE)
    columns = tables.crossed(tiles, choices)
    columns |= {f"t{d}": np.minimum(columns[f"{d}b"] * dim, ceil_div(e, dim) * dim)
                for d, e in (("m", p.m), ("n", p.n), ("k", p.k))}
    # more places for sums are never slower; where stores stand is tried with the best
    columns["slots_c"] = _most_fitting((8, 4, 2), columns["mb"] * columns["nb"] * dim, acc_rows)
    columns["interleave"] = np.zeros(len(columns["tm"]), np.int64)
    r = gemm_residency(p.m, p.n, p.k, columns["tm"], columns["tn"], columns["tk"], columns["m_outer"],
                       columns["level_a"] == STREAM, columns["level_b"] == STREAM, dim)
    _gemm_slots(columns, p, np.asarray(r.a_rows), np.asarray(r.b_rows), hardware)
    spad = r.a_rows * columns["slots_a"] + r.b_rows * columns["slots_b"]
    builder.add(Table(
        columns, {SPAD: np.asarray(spad), ACC: np.asarray(r.c_rows * columns["slots_c"])},
        lambda c: cycles(gemm_loops(p, c, flow, hardware), hardware), lambda c, i: _gemm_mapping(c, i, flow),
        family=("mb", "nb", "kb"), least=lambda c: gemm_least(p, c, flow, hardware),
    ))


def _gemm_slots(
    columns: dict[str, np.ndarray], shape: GemmProblem, a_rows: np.ndarray, b_rows: np.ndarray, hardware: Hardware
) -> None:
    """Slots of A and B: streamed ones as many as hide the latency, hoisted ones two where a next tile follows."""
    dim, spad_rows = hardware.dim, hardware.memory("spad").rows
    chunk = (columns["tm"] // dim) * (columns["tn"] // dim) * (columns["tk"] // dim) * dim
    wanted = places(_load_latency(hardware), chunk)
    for name, mine, rows, other in (("a", columns["m_outer"] == 1, a_rows, b_rows),
                                    ("b", columns["m_outer"] == 0, b_rows, a_rows)):
        extent, tile = (shape.m, columns["tm"]) if name == "a" else (shape.n, columns["tn"])
        single = np.where(mine, tile >= extent, shape.batch == 1)
        slots = np.where(columns[f"level_{name}"] == STREAM, wanted, np.where(single, 1, 2))
        room = np.maximum(1, (spad_rows - other * np.minimum(2, wanted)) // np.maximum(rows, 1))
        while (over := slots > room).any() and (slots[over] > 1).any():
            slots = np.where(over & (slots > 1), slots // 2, slots)
        columns[f"slots_{name}"] = slots


def _load_latency(hardware: Hardware) -> int:
    """Cycles until a load has arrived."""
    return hardware.way("mvin").latency + int(hardware.latency_columns("mvin", {"rows": hardware.dim}))


def _most_fitting(counts: tuple[int, ...], rows: np.ndarray, room: int) -> np.ndarray:
    """The first of ``counts`` places of so many ``rows`` for which there is room, or one."""
    return np.select([count * rows <= room for count in counts], counts, 1)


def _gemm_mapping(c: Columns, i: int, flow: str) -> Mapping:
    def at(name: str) -> int:
        return int(c[name][i])

    return Mapping(
        "gemm", flow, tuple((d, at(f"t{d}")) for d in "mnk"), ("m", "n") if at("m_outer") else ("n", "m"),  # type: ignore[arg-type]
        (("A", LEVELS[at("level_a")]), ("B", LEVELS[at("level_b")])),  # type: ignore[arg-type]
        (("A", at("slots_a")), ("B", at("slots_b")), ("C", at("slots_c"))),
        "interleave" if at("interleave") else "after",
    )


# convolutions


def _add_convs(builder: SpaceBuilder, workload: Workload, hardware: Hardware, flows: tuple[str, ...]) -> None:
    """Where there are several dataflows, sums stay only where a chunk has several to add up."""
    nowhere = {t.name: HbmTensor("", 0, (), "int8") for t in workload.inputs}
    picture = image(workload, nowhere, hardware.dim)
    schemes: list[tuple[str, Scheme]] = [("channels", Channels(picture))]
    packed = KernelRow(picture)
    if picture.packs_kernel_rows and packed.chunks < schemes[0][1].chunks * schemes[0][1].steps:
        schemes.append(("kernel_row", packed))
    tiled = [(packing, way, scheme, columns) for packing, scheme in schemes
             for way, columns in _ways(packing, _conv_columns(workload, scheme, hardware))]
    for flow in flows:
        for packing, way, scheme, columns in tiled:
            if len(columns["o"]) and not (flow == "os" and len(flows) > 1 and scheme.steps == 1):
                builder.add(_conv_table(workload, scheme, packing, hardware, dict(columns), flow, way))


def _ways(packing: str, columns: dict[str, np.ndarray]) -> Iterator[tuple[str, dict[str, np.ndarray]]]:
    """Tiles of one row of sums apart where rows of the kernel are packed: their loads wait for one another, those of
    several rows for memory, which the estimate knows less of."""
    single = columns["most_h"] == 1
    if packing == "channels" or single.all() or not single.any():
        yield packing, columns
        return
    yield f"{packing} of a row", tables.select(columns, single)
    yield f"{packing} of rows", tables.select(columns, ~single)


def _conv_columns(workload: Workload, scheme: Scheme, hardware: Hardware) -> dict[str, np.ndarray]:
    """Tiles that the accumulator may hold, with all ways to load and keep them."""
    picture, dim, acc_rows = scheme.image, hardware.dim, hardware.memory("acc").rows
    pooled = workload.epilogue.pool is not None
    heights = tables.divisions(picture.rows.outputs, 1, limit=16)
    widths = tables.divisions(picture.cols.outputs, 1, limit=8)
    most_h, most_w = ([axis.tile_sums(int(t)) for t in sizes] for axis, sizes in (
        (picture.rows, heights), (picture.cols, widths)))
    blocks = tables.divisions(picture.o, dim, acc_rows)
    tiles = tables.product({"h": range(len(heights)), "w": range(len(widths)), "ob": blocks})
    extents = np.array(most_h)[tiles["h"]], np.array(most_w)[tiles["w"]]
    sums = extents[0] * extents[1]
    fits = sums * tiles["ob"] <= acc_rows
    if not fits.any():
        fits = sums * tiles["ob"] == (sums * tiles["ob"]).min()
    if pooled:
        fits &= (extents[0] <= MOST_POOL_EXTENT) & (extents[1] <= MOST_POOL_EXTENT)
    tiles = tables.select({**tiles, "most_h": extents[0], "most_w": extents[1]}, fits)
    choices = tables.product({"o_outer": [0, 1], "level_x": [STREAM, HOIST, INTERLEAVE], "level_w": [STREAM, HOIST],
                       "slots_x": [1, 2]})
    choices = tables.select(choices, (choices["o_outer"] == 0) | (choices["level_x"] == STREAM))
    columns = tables.crossed(tiles, choices)
    columns["oh"], columns["ow"] = heights[columns["h"]], widths[columns["w"]]
    columns["o"] = np.minimum(columns["ob"] * dim, ceil_div(picture.o, dim) * dim)
    columns |= _tile_counts(scheme, heights.tolist(), widths.tolist(), columns)
    # more places for sums are never slower
    columns["slots_c"] = _most_fitting((4, 2), columns["most_h"] * columns["most_w"] * columns["ob"], acc_rows)
    return columns


def _tile_counts(scheme: Scheme, heights: list[int], widths: list[int], columns: Columns) -> dict[str, np.ndarray]:
    """What :func:`archloom.uma_targets.gemmini.loops.conv_loops` wants to know about all tiles of an image."""
    found = {name: figures[columns["h"], columns["w"]] for name, figures in counted(scheme, heights, widths).items()}
    outputs, pool = found.pop("outputs"), scheme.image.rows.pool_size * scheme.image.cols.pool_size
    chunks, steps = (np.full(len(outputs), number) for number in (scheme.chunks, scheme.steps))
    # of the rows of a chunk, those down to the first that the last row of sums needs
    rows = scheme.image.rows
    spans = np.array([rows.span(int(sums)) for sums in range(int(columns["most_h"].max(initial=0)) + 1)])
    halo = rows.reach - 1 if isinstance(scheme, Channels) else 0
    fresh = np.asarray(1 - halo / spans[columns["most_h"]])
    stored = outputs * pool if pool > 1 else found["sums"]
    return {**found, "chunks": chunks, "steps": steps, "fresh": fresh, "store_rows": stored}


def _conv_table(
    workload: Workload, scheme: Scheme, packing: str, hardware: Hardware,
    columns: dict[str, np.ndarray], flow: str, way: str,
) -> Table:
    picture, epilogue = scheme.image, workload.epilogue
    deep = picture.rows.kernel * picture.cols.kernel * picture.c / (scheme.chunks * scheme.steps)
    height = picture.rows.kernel
    shape = ConvShape(_phases(scheme), picture.groups, workload.extent("n"), deep,
                      (height - 1) / height if scheme.steps > 1 else 0, picture.o,
                      4 if epilogue.out_dtype == "int32" else 1)
    dim, o_tiles = hardware.dim, ceil_div(picture.o, columns["o"])
    o_blocks = ceil_div(columns["o"], dim)
    slots = places(_load_latency(hardware), columns["sums"] / columns["tiles"] * o_blocks)
    columns["slots_w"] = np.where(columns["level_w"] == STREAM, slots, np.where(
        (columns["o_outer"] == 1) & (o_tiles > 1), 2, 1))
    heights, of_height = np.unique(columns["most_h"], return_inverse=True)
    widths, of_width = np.unique(columns["most_w"], return_inverse=True)
    rows = np.array([[scheme.input_rows(h, w) for w in widths.tolist()] for h in heights.tolist()])
    x_chunk = rows[of_height, of_width]
    x_rows, w_rows, c_rows = conv_residency(
        x_chunk, dim, columns["most_h"] * columns["most_w"], scheme.chunks, scheme.steps, o_tiles, o_blocks,
        columns["level_x"] == STREAM, columns["level_w"] == STREAM, columns["o_outer"] == 1, flow == "os",
    )

    def estimate(c: Columns) -> np.ndarray:
        # long streams are slow to compile, so they must be worth it
        return cycles(conv_loops(shape, c, flow, hardware), hardware) * (1 + 3e-3 * (c["code"] - 1))

    columns["x_rows"], columns["c_rows"] = x_rows * columns["slots_x"], c_rows * columns["slots_c"]
    pool = epilogue.pool
    conv = Convolution(scheme, shape.images, epilogue.bias, shape.out_bytes, 1 if pool is None else pool.size**2)
    return Table(
        columns, {SPAD: np.asarray(columns["x_rows"] + w_rows * columns["slots_w"]), ACC: columns["c_rows"]}, estimate,
        lambda c, i: _conv_mapping(c, i, flow, packing, dim), family=("oh", "ow", "ob"),
        least=lambda c: conv_least(conv, c, flow, hardware), way=way,
    )


def _phases(scheme: Scheme) -> tuple[Phase, ...]:
    """How many chunks load how many parts: packed rows load a part for each row of the kernel in a group. What is left
    over of the last of these is loaded up to its column, the others up to theirs."""
    if not isinstance(scheme, KernelRow):
        step = scheme.load_step * scheme.image.pixel_bytes
        return (Phase(scheme.chunks, 1, scheme.image.c / scheme.chunks, step),)
    height, dim, step = scheme.image.rows.kernel, scheme.image.dim, scheme.step
    groups = [(height // scheme.group, scheme.group), (1, height % scheme.group)] if scheme.rest else []
    found = [Phase(scheme.blocks * height, 1, dim, step),
             *(Phase(count, parts, scheme.rest * (parts + 1) / 2, step) for count, parts in groups)]
    return tuple(phase for phase in found if phase.chunks and phase.parts)


def _conv_mapping(c: Columns, i: int, flow: str, packing: str, dim: int) -> Mapping:
    def at(name: str) -> int:
        return int(c[name][i])

    return Mapping(
        "conv2d", flow, (("oh", at("oh")), ("ow", at("ow")), ("o", at("o")), ("c", dim)),  # type: ignore[arg-type]
        ("o", "p") if at("o_outer") else ("p", "o"),
        (("X", LEVELS[at("level_x")]), ("W", LEVELS[at("level_w")])),  # type: ignore[arg-type]
        (("X", at("slots_x")), ("W", at("slots_w")), ("C", at("slots_c"))), "after", packing,  # type: ignore[arg-type]
    )

