"""What Gemmini's costs say that tiles of a convolution issue, against what the emission writes for them."""

from __future__ import annotations

from collections import Counter

from hypothesis import assume, given
from hypothesis import strategies as st

from archloom.mapper.workload import Epilogue, conv2d
from archloom.oracle.affine import Affine
from archloom.oracle.stream import HbmTensor, Instr, Loop, Node
from archloom.uma_targets.gemmini.conv_axes import runs
from archloom.uma_targets.gemmini.conv_counts import counted
from archloom.uma_targets.gemmini.conv_schemes import Channels, KernelRow, PixelTile, Scheme
from archloom.uma_targets.gemmini.emit import image
from tests.support.examples import examples

ZERO = Affine(0)


def loads(node: Node, times: int, found: Counter[str]) -> None:
    """Count the loads of a node that is run ``times``, and their rows, of pixels and of zeros apart."""
    if isinstance(node, Loop):
        for inner in node.body:
            loads(inner, times * node.extent, found)
        return
    assert isinstance(node, Instr) and node.mnemonic == "mvin"
    kind = "zeros" if node["dram"] == ZERO else "loads"
    found.update({kind: times, "zero_rows" if kind == "zeros" else "load_rows": times * int(node["rows"])})


def written(scheme: Scheme, height: int, width: int) -> Counter[str]:
    """What the emission writes for all tiles of an image, per part of a chunk."""
    found: Counter[str] = Counter()
    for rows in runs(scheme.image.rows, height):
        for cols in runs(scheme.image.cols, width):
            tile, many = PixelTile(rows, cols, ZERO, ZERO, ZERO), rows.count * cols.count
            for node in scheme.each_chunk(tile, lambda chunk, tile=tile: scheme.load(tile, chunk, ZERO)):  # type: ignore[misc]
                loads(node, many, found)
            whole, rest = divmod(cols.sums, scheme.image.dim)
            found.update({
                "tiles": many, "code": 1, "sums": many * rows.sums * cols.sums, "whole": many * rows.sums * whole,
                "rest_sums": many * rows.sums * rest, "stretches": many * rows.sums * (whole + bool(rest)),
                "whole_tiles": many * bool(whole), "short_firsts": 0 if whole else many * rest,
                "outputs": many * rows.outputs * cols.outputs,
            })
    return found


@examples(25, 500)
@given(st.data())
def test_what_tiles_load_is_what_is_counted(data: st.DataObject) -> None:
    def drawn(low: int, most: int) -> int:
        return data.draw(st.integers(low, most))

    height, width, c, kernel = drawn(1, 20), drawn(1, 20), drawn(1, 9), (drawn(1, 4), drawn(1, 5))
    pads = tuple(drawn(0, k - 1) for k in kernel) * 2
    assume(height + 2 * pads[0] >= kernel[0] and width + 2 * pads[1] >= kernel[1])
    work = conv2d(1, height, width, c, 3, *kernel, stride=(drawn(1, 3), drawn(1, 3)), padding=pads,
                  epilogue=Epilogue(False, 1.0, False, "int8"))
    nowhere = {t.name: HbmTensor("", 1 << 20, (), "int8") for t in work.inputs}  # no load begins at 0, as zeros do
    picture = image(work, nowhere, data.draw(st.sampled_from([4, 8])))
    schemes: list[tuple[Scheme, int]] = [(Channels(picture), Channels(picture).chunks)]
    if picture.packs_kernel_rows:
        packed = KernelRow(picture)
        schemes.append((packed, kernel[0] * (packed.blocks + bool(packed.rest))))
    sizes = [sorted({drawn(1, axis.outputs), axis.outputs}) for axis in (picture.rows, picture.cols)]
    for scheme, parts in schemes:
        counts = counted(scheme, *sizes)
        for i, h in enumerate(sizes[0]):
            for j, w in enumerate(sizes[1]):
                for name, number in written(scheme, h, w).items():
                    per = parts if name in ("loads", "load_rows", "zeros", "zero_rows") else 1
                    assert abs(per * counts[name][i, j] - number) < 1e-6, (scheme, h, w, name)
