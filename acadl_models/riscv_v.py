"""The instructions of RISC-V V and of its scalar core, as `riscv_v.taidl` has them, by what executes them."""

from __future__ import annotations

from itertools import product

WIDTHS = (8, 16, 32, 64)

CONFIGURATION = frozenset({"vsetvli", "vsetivli", "csrwi_vxrm", "csrwi_frm", "li", "fmv_w_x", "fmv_d_x"})
SCALAR_LOADS = frozenset({"lb", "lwu", "ld", "flw", "fld"})
SCALAR_STORES = frozenset({"sw", "sd", "fsw", "fsd"})
PREFETCHES = frozenset({"prefetch_r"})


def _each(pattern: str) -> frozenset[str]:
    """The names of a pattern for each width of elements."""
    return frozenset(pattern.format(bits) for bits in WIDTHS)


CONTIGUOUS_LOADS = {f"vle{bits}_v": bits for bits in WIDTHS} | {"vlm_v": 1}
"""With bits of an element in memory."""
SPREAD_LOADS = _each("vlse{}_v") | _each("vluxei{}_v") | _each("vloxei{}_v")
"""Strided and indexed: an element at a time."""
CONTIGUOUS_STORES = {f"vse{bits}_v": bits for bits in WIDTHS} | {"vsm_v": 1}
SPREAD_STORES = _each("vsse{}_v") | _each("vsuxei{}_v") | _each("vsoxei{}_v")

_FORMS = {
    "vv vx vi": "add and or xor sll srl sra sadd saddu ssrl ssra mseq msne msleu msle rgather",
    "vv vx": "sub minu min maxu max mul mulh mulhu mulhsu div divu rem remu macc nmsac madd nmsub wadd waddu wsub "
             "wsubu wmul wmulu wmulsu wmacc wmaccu wmaccsu ssub ssubu aadd aaddu asub asubu smul msltu mslt",
    "vx": "wmaccus slide1up slide1down", "vx vi": "rsub msgtu msgt slidedown slideup",
    "wv wx": "wadd waddu wsub wsubu", "wv wx wi": "nsrl nsra nclip nclipu", "vf2 vf4 vf8": "zext sext",
    "vvm vxm vim": "merge", "vv": "rgatherei16", "mm": "mand mor mxor mnand mnor mxnor mandn morn",
    "m": "cpop first msbf msif msof iota", "v": "id mv1r mv2r mv4r mv8r fsqrt", "vm": "compress",
    "v_v v_x v_i s_x x_s": "mv", "v_f s_f f_s": "fmv",
    "vs": "redsum redand redor redxor redmin redmax redminu redmaxu wredsum wredsumu fredosum fredusum fredmin fredmax",
    "vv vf": "fadd fsub fmul fdiv fmacc fnmacc fmsac fnmsac fmadd fnmadd fmsub fnmsub fmin fmax fsgnj fsgnjn fsgnjx "
             "mfeq mfne mflt mfle fwmaccbf16",
    "vf": "frsub frdiv mfgt mfge fslide1up fslide1down", "vfm": "fmerge",
    "x_f_v rtz_x_f_v f_x_v xu_f_v rtz_xu_f_v f_xu_v": "fcvt fwcvt", "f_f_v": "fwcvt fwcvtbf16",
    "x_f_w rtz_x_f_w f_x_w xu_f_w rtz_xu_f_w f_xu_w f_f_w": "fncvt", "f_f_w": "fncvtbf16",
}
"""What stands behind the ``v``, by its forms."""

VECTOR = frozenset(
    f"v{name}_{form}" for forms, names in _FORMS.items() for name, form in product(names.split(), forms.split()))
"""What the vector units compute."""
