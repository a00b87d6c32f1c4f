"""The vector unit of RISC-V V, by the names of ``oracle/isas/riscv_v.taidl``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from archloom.mapper.nests import ITEMS
from archloom.oracle.affine import Affine
from archloom.oracle.stream import Instr, Node
from archloom.uma_targets.kit.vectors.unit import Kind, Operand

_SCRATCH = 5
"""Of ``x``: constants on their way to ``f``."""


def _float(name: str, swapped: str) -> dict[str, str]:
    return {"vv": f"vf{name}_vv vs2 vs1 vm", "vf": f"vf{name}_vf vs2 rs1 vm",
            "fv": f"vf{swapped}_vf rs1 vs2 vm"}


def _whole(name: str, *forms: str) -> dict[str, str]:
    texts = {"vv": f"v{name}_vv vs2 vs1 vm", "vx": f"v{name}_vx vs2 rs1 vm", "vi": f"v{name}_vi vs2 imm vm"}
    return {form: texts[form] for form in forms}


_NAMES: Mapping[str, Mapping[str, str]] = {
    "add": _float("add", "add"), "subtract": _float("sub", "rsub"), "multiply": _float("mul", "mul"),
    "divide": _float("div", "rdiv"), "maximum": _float("max", "max"), "minimum": _float("min", "min"),
    "with_sign": {"vv": "vfsgnj_vv vs2 vs1 vm"},
    "negate": {"v": "vfsgnjn_vv vs2=vs1 vm"}, "abs": {"v": "vfsgnjx_vv vs2=vs1 vm"},
    "sqrt": {"v": "vfsqrt_v vs2 vm"},
    "to_whole": {"v": "vfcvt_x_f_v vs2 vm"}, "to_float": {"v": "vfcvt_f_x_v vs2 vm"},
    "truncated": {"v": "vfcvt_rtz_x_f_v vs2 vm"},
    "whole_add": _whole("add", "vv", "vx", "vi"), "whole_subtract": _whole("sub", "vv", "vx"),
    "whole_multiply": _whole("mul", "vv", "vx"), "whole_minimum": _whole("min", "vv", "vx"),
    "whole_maximum": _whole("max", "vv", "vx"), "whole_and": _whole("and", "vv", "vx", "vi"),
    "whole_or": _whole("or", "vv", "vx", "vi"), "shift_left": _whole("sll", "vv", "vi"),
    "shift_right": _whole("sra", "vv", "vi"), "unsigned_shift_right": _whole("srl", "vv", "vi"),
    "multiply_high": _whole("mulhu", "vv", "vx"),
    "less": {"vv": "vmflt_vv vs2 vs1 vm", "vf": "vmflt_vf vs2 rs1 vm", "fv": "vmfgt_vf rs1 vs2 vm"},
    "less_equal": {"vv": "vmfle_vv vs2 vs1 vm", "vf": "vmfle_vf vs2 rs1 vm",
                   "fv": "vmfge_vf rs1 vs2 vm"},
    "equal": {"vv": "vmfeq_vv vs2 vs1 vm", "vf": "vmfeq_vf vs2 rs1 vm", "fv": "vmfeq_vf rs1 vs2 vm"},
    "whole_less": {"vv": "vmslt_vv vs2 vs1 vm", "vx": "vmslt_vx vs2 rs1 vm", "xv": "vmsgt_vx rs1 vs2 vm"},
    "whole_equal": {"vv": "vmseq_vv vs2 vs1 vm", "vx": "vmseq_vx vs2 rs1 vm", "vi": "vmseq_vi vs2 imm vm"},
    "unsigned_less": {"vv": "vmsltu_vv vs2 vs1 vm", "vx": "vmsltu_vx vs2 rs1 vm", "xv": "vmsgtu_vx rs1 vs2 vm"},
    "select": {"xv": "vmerge_vxm rs1 vs2", "vv": "vmerge_vvm vs1 vs2", "fv": "vfmerge_vfm rs1 vs2"},
    "multiply_add": {"vv": "vfmacc_vv vs1 vs2 vm", "fv": "vfmacc_vf rs1 vs2 vm",
                     "vf": "vfmacc_vf vs2 rs1 vm"},
    "multiply_into": {"vv": "vfmadd_vv vs1 vs2 vm", "fv": "vfmadd_vf rs1 vs2 vm"},
    "copy": {"v": "vmv_v_v vs1"}, "splat": {"f": "vfmv_v_f rs1", "x": "vmv_v_x rs1",
                                                  "i": "vmv_v_i imm"},
    "lane": {"": "vid_v vm"},
}
_INSTRUCTIONS: Mapping[tuple[str, str], str] = {
    (name, kinds): text for name, forms in _NAMES.items() for kinds, text in forms.items()}
"""By operation and kinds of operands: the instruction, and the attributes that operands are, in order."""


_FOLDS = {"maximum": "vfredmax_vs", "minimum": "vfredmin_vs", "whole_maximum": "vredmax_vs",
          "whole_minimum": "vredmin_vs"}
HALVES = {"float16": ("vfwcvt_f_f_v", "vfncvt_f_f_w"), "bfloat16": ("vfwcvtbf16_f_f_v", "vfncvtbf16_f_f_w")}
"""By type in memory what makes float32 of its elements, and those of float32."""


@dataclass(frozen=True)
class RiscvV:
    """Registers of ``vlen`` bits, of which there are ``registers``."""

    vlen: int
    registers: int
    scalars: int = 32
    access_words: int = 16

    def lanes(self, group: int) -> int:
        return self.vlen * group // 32

    def length(self, count: int, group: int) -> Node:
        return self._length(count, group, 32)

    def _length(self, count: int, group: int, bits: int) -> Node:
        """So many elements of so many bits, of which a group of ``group`` registers has as many as of 32 bits."""
        narrower = (32 // bits).bit_length() - 1
        return Instr.make("vsetvli", rd=0, avl=count,
                          vtypei=(2 - narrower) << 3 | (group.bit_length() - 1 - narrower) % 8)

    def has(self, name: str, kinds: Sequence[Kind]) -> bool:
        return (name, "".join(kinds)) in _INSTRUCTIONS

    def fits(self, name: str, value: int) -> bool:
        low, high = (0, 32) if "shift" in name else (-16, 16)
        return low <= value < high

    def apply(self, name: str, into: int, operands: Sequence[Operand]) -> Node:
        mnemonic, *places = _INSTRUCTIONS[name, "".join(o.kind for o in operands)].split()
        given = {"vd": into, **({"vm": 1} if places[-1:] == ["vm"] else {})}
        for place, operand in zip(places, operands, strict=False):
            given |= dict.fromkeys(place.split("="), operand.number)
        return Instr.make(mnemonic, **given)

    def load(self, into: int, at: Affine, stride: int, item: str) -> Node:
        bits = 8 * ITEMS[item]
        if 8 * stride == bits:
            return Instr.make(f"vle{bits}_v", vd=into, dram=at, vm=1)
        return Instr.make(f"vlse{bits}_v", vd=into, dram=at, stride=stride, vm=1)

    def store(self, register: int, at: Affine, stride: int, item: str) -> Node:
        bits = 8 * ITEMS[item]
        if 8 * stride == bits:
            return Instr.make(f"vse{bits}_v", vs3=register, dram=at, vm=1)
        return Instr.make(f"vsse{bits}_v", vs3=register, dram=at, stride=stride, vm=1)

    def gather(
        self, into: int, at: Affine, offsets: int, reach: int, item: str, count: int, group: int,
    ) -> Iterable[Node]:
        """Indexed loads have elements of the width that is set."""
        found = Instr.make("vluxei32_v", vd=into, dram=at, vs2=offsets, vm=1, reach=reach)
        if not item:
            return [found]
        return [self._length(count, group, 8 * ITEMS[item]), found, self.length(count, group)]

    def widen(self, into: int, register: int, item: str, count: int, group: int) -> Iterable[Node]:
        """Integers are taken of a quarter of the width that is set, floats of that width."""
        if item not in HALVES:
            yield Instr.make("vsext_vf4" if item == "int8" else "vzext_vf4", vd=into, vs2=register, vm=1)
            return
        yield self._length(count, group, 16)
        yield Instr.make(HALVES[item][0], vd=into, vs2=register, vm=1)
        yield self.length(count, group)

    def narrow(self, into: int, register: int, item: str, count: int, group: int) -> Iterable[Node]:
        """By clips to half of the width, twice; unsigned ones take a negative number for a large one."""
        if item in HALVES:
            yield self._length(count, group, 16)
            yield Instr.make(HALVES[item][1], vd=into, vs2=register, vm=1)
            yield self.length(count, group)
            return
        clip = "vnclip_wi"
        if item == "uint8":
            clip, zero = "vnclipu_wi", 0
            yield Instr.make("vmax_vx", vd=into, vs2=register, rs1=zero, vm=1)
            register = into
        for bits in (16, 8):
            yield self._length(count, group, bits)
            yield Instr.make(clip, vd=into, vs2=register, imm=0, vm=1)
            register = into
        yield self.length(count, group)

    def number(self, kind: Kind, register: int, bits: int) -> Iterable[Node]:
        if kind == "x":
            return [Instr.make("li", rd=register, value=bits)]
        return [Instr.make("li", rd=_SCRATCH, value=bits), Instr.make("fmv_w_x", rd=register, rs1=_SCRATCH)]

    def scalar(self, register: int, at: Affine) -> Node:
        return Instr.make("flw", rd=register, dram=at)

    def fold(self, kind: str, into: int, register: int, zero: int, scratch: int) -> Iterable[Node]:
        if kind == "sum":
            yield Instr.make("vfmv_s_f", vd=scratch, rs1=zero)
            yield Instr.make("vfredusum_vs", vd=scratch, vs2=register, vs1=scratch, vm=1)
        else:
            yield Instr.make(_FOLDS[kind], vd=scratch, vs2=register, vs1=register, vm=1)
        yield self.first(into, scratch)

    def first(self, into: int, register: int) -> Node:
        return Instr.make("vfmv_f_s", rd=into, vs2=register)
