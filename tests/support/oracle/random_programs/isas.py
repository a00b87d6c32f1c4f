"""Random ISAs as text: buffers of several ranks and types, control registers, instructions of chains of operators."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from archloom.oracle.resolved import Shaped
from archloom.oracle.taidl.operators.conversion import width
from archloom.oracle.taidl.types import TYPES, element_type, storage_bits
from archloom.oracle.xla.border import CROSSING
from tests.support.oracle.random_programs import larger, operators, storage
from tests.support.oracle.random_programs.making import TABLE, make
from tests.support.oracle.random_programs.operators import QUANTIZED
from tests.support.oracle.random_programs.scope import Attribute, Scope

TABLE.update(operators.PRODUCERS | larger.PRODUCERS)

COMMON = ("i8", "i8", "i32", "i32", "f32", "f32", "f32", "bf16", "i16", "u8", "f16")
RARE = tuple(t.name for t in TYPES.values() if t.name not in ("i64", "u64", "f64") and not t.part) + (QUANTIZED,)
WIDE = ("i64", "u64", "f64")
COUNT = 48
"""Elements in the region of HBM for a type."""


@dataclass(frozen=True)
class Storage:
    """A buffer as one array."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    declaration: str


@dataclass(frozen=True)
class Region:
    """A part of HBM with elements of one type; ``numpy`` names the type of the stream's tensors there."""

    address: int
    bytes: int
    shape: tuple[int, ...]
    numpy: str


@dataclass(frozen=True)
class Instruction:
    """An instruction and the attributes that may be given."""

    name: str
    attributes: tuple[Attribute, ...]
    text: str


@dataclass
class Declarations:
    """What instructions may name."""

    dtypes: tuple[str, ...]
    buffers: list[Storage] = field(default_factory=list)
    viewed: set[str] = field(default_factory=set)
    """Views and the buffers that have some: NaN has no particular bits in them."""
    registers: list[tuple[str, int]] = field(default_factory=list)
    arrays: list[tuple[str, int, int]] = field(default_factory=list)
    """Name, size, and the largest value of an element."""
    constants: list[tuple[str, int]] = field(default_factory=list)
    regions: dict[str, Region] = field(default_factory=dict)
    functions: list[str] = field(default_factory=list)

    def dtype(self, r: Random, *kinds: str) -> str:
        """A type of one of the kinds, more often one of this ISA's."""
        fitting = [t for t in self.dtypes if element_type(t).kind in kinds]
        if fitting and r.random() < 0.8:
            return r.choice(fitting)
        every = [t for t in (*COMMON, *RARE) if element_type(t).kind in kinds]
        return r.choice(every)

    def region(self, dtype: str) -> Region:
        return self.regions[dtype]

    def define(self, text: Callable[[str], str]) -> str:
        """A new ``def``; its name."""
        name = f"f{len(self.functions)}"
        self.functions.append(text(name))
        return name


@dataclass(frozen=True)
class RandomIsa:
    """The text of an ISA and what a kernel must know of it."""

    seed: int
    text: str
    instructions: tuple[Instruction, ...]
    regions: dict[str, Region]
    hbm: int
    dumps: tuple[Instruction, ...]
    """Instructions that bring whole buffers to HBM."""
    fills: tuple[Instruction, ...]
    """Instructions that fill whole buffers from HBM."""


def random_isa(seed: int) -> RandomIsa:
    """The ISA of that number."""
    r = Random(f"isa {seed}")
    names = r.sample(sorted(set(COMMON)), r.randint(1, 2)) + r.sample(RARE, r.choice([0, 1, 1]))
    if r.random() < 0.04:
        names.append(r.choice(WIDE))
    isa = Declarations(tuple(dict.fromkeys(names)))
    _buffers(r, isa)
    hbm = _regions(r, isa)
    if r.random() < 0.4:
        isa.constants.append(("C", r.randint(0, 3)))
    for name in r.sample(["base", "turn", "mode"], r.randint(0, 2)):
        isa.registers.append((name, r.choice([1, 1, 2, 3])))
    if r.random() < 0.3:
        isa.arrays.append(("bank", r.randint(1, 3), r.randint(1, 3)))
    fills, dumps = zip(*(_moves(r, isa, b) for b in isa.buffers), strict=True)
    _views(r, isa)
    made = [_instruction(r, isa, f"op{i}") for i in range(r.randint(2, 4))]
    made += [s for name, high in isa.registers for s in _setters(r, name, high)]
    made += [Instruction(f"set_{name}", (Attribute("i", size - 1), Attribute("v", high)),
                         f"[set_{name}](i, v) {{ {name}[i] = v; }}") for name, size, high in isa.arrays]
    lines = ["isa random;", *(f"const {n} = {v};" for n, v in isa.constants), *(b.declaration for b in isa.buffers)]
    lines += [f"{name} = {r.randint(0, high)};" for name, high in isa.registers]
    lines += [f"{name}[{size}] = {r.randint(0, high)};" for name, size, high in isa.arrays]
    instructions = (*made, *fills, *dumps)
    text = "\n".join([*lines, "", *isa.functions, *(i.text for i in instructions)]) + "\n"
    return RandomIsa(seed, text, tuple(made), isa.regions, hbm, tuple(dumps), tuple(fills))


def _buffers(r: Random, isa: Declarations) -> None:
    dtypes = list(isa.dtypes)
    r.shuffle(dtypes)
    for i in range(r.randint(1, 3)):
        dtype = dtypes[i % len(dtypes)]
        shape = [r.choice([1, 2, 3, 4, 4, 5, 6, 8]) for _ in range(r.choice([1, 2, 2, 2, 3]))]
        while math.prod(shape) > COUNT:
            shape[shape.index(max(shape))] -= 1
        rows = r.randint(0, len(shape))
        front = (" x " if r.random() < 0.5 else ", ").join(map(str, shape[:rows]))
        base = "".join(f"{n} x " for n in shape[rows:])
        isa.buffers.append(Storage(f"b{i}", tuple(shape), dtype, f"[b{i}] ({front}) ({base}{dtype});"))


def _views(r: Random, isa: Declarations) -> None:
    """Other types for the bits of some buffers, as wide as their elements or as several of them."""
    for of in list(isa.buffers):
        bits, last = width(of.dtype), of.shape[-1]
        fitting = [(t, width(t) // bits) for t in sorted(set(COMMON))
                   if width(t) % bits == 0 and last % (width(t) // bits) == 0 and t != of.dtype]
        if not fitting or element_type(of.dtype).kind in ("quant", "complex") or r.random() < 0.75:
            continue
        dtype, parts = r.choice(fitting)
        name, shape = f"v{of.name}", (*of.shape[:-1], last // parts)
        base = "".join(f"{n} x " for n in shape)
        isa.buffers.append(Storage(name, shape, dtype, f"[{name}] () ({base}{dtype}) = {of.name};"))
        isa.viewed |= {name, of.name}


def _regions(r: Random, isa: Declarations) -> int:
    at = r.choice([0, 8, 3])
    for dtype in isa.dtypes:
        kind = element_type(dtype)
        if kind.kind == "quant":
            numpy, size = kind.numpy, kind.bits * COUNT // 8
        else:
            numpy, size = kind.numpy, storage_bits(kind.bits) * COUNT // 8
        shape: tuple[int, ...] = (COUNT,)
        if numpy not in CROSSING or r.random() < 0.2:
            numpy, shape = "int8", (size,)
        else:
            at = -(-at // 4) * 4  # tensors lie at multiples of their elements
        isa.regions[dtype] = Region(at, size, shape, numpy)
        at += size + r.choice([0, 0, 1, 4])
    return at + r.choice([0, 5])


def _moves(r: Random, isa: Declarations, buffer: Storage) -> tuple[Instruction, Instruction]:
    """A whole buffer from the region of its type and back."""
    kind = Shaped(buffer.shape, buffer.dtype)
    flat = Shaped((math.prod(buffer.shape),), buffer.dtype)
    made = []
    for into in (True, False):
        b = Scope(r, isa, budget=9, prefix="m")
        bits = storage_bits(element_type(buffer.dtype).bits)
        per = max(1, 8 // bits)
        count = -(-int(flat.shape[0]) // per) * per
        region, size = isa.regions[buffer.dtype], max(1, bits // 8)
        spare = (region.bytes - count * bits // 8) // size
        b.attribute(spare, region.address, size)
        whole = Shaped((count,), buffer.dtype)
        if into:
            _load_flat(b, whole, "a0")
            name = b.tensors[-1][0]
            if count > int(flat.shape[0]):
                name = b.op(flat, "slice", name, start=(0,), limit=flat.shape)
            name = b.op(kind, "reshape", name)
            b.emit(f"%{name} -> ${buffer.name};")
        else:
            b.emit(f"%x:{kind} <- ${buffer.name};")
            name = b.op(flat, "reshape", "x")
            if count > int(flat.shape[0]):
                rest = b.value(Shaped((count - int(flat.shape[0]),), buffer.dtype), "0") if element_type(
                    buffer.dtype).kind != "quant" else b.op(
                        Shaped((count - int(flat.shape[0]),), buffer.dtype), "slice", name, start=(0,),
                        limit=(count - int(flat.shape[0]),))
                name = b.op(whole, "concatenate", name, rest, dim=0)
            _store_flat(b, name, whole, "a0")
        label = f"{'fill' if into else 'dump'}_{buffer.name}"
        made.append(Instruction(label, tuple(b.attributes.values()), _text(label, b, "")))
    return made[0], made[1]


def _load_flat(b: Scope, kind: Shaped, address: str) -> None:
    dtype, count = kind.dtype, int(kind.shape[0])
    bits = storage_bits(element_type(dtype).bits)
    size = count * bits // 8
    b.emit(f"%raw:{size}xi8 <- $hbm[{address} : {address} + {size}];")
    b.define("raw", Shaped((size,), "i8"))
    if dtype == "i1":
        b.op(kind, "convert", "raw")
    elif dtype == "i8":
        return
    elif bits == 8:
        b.op(kind, "bitcast_convert", "raw")
    elif bits < 8:
        b.op(kind, "reshape", b.op(Shaped((size, 8 // bits), dtype), "bitcast_convert", "raw"))
    else:
        b.op(kind, "bitcast_convert", b.op(Shaped((count, bits // 8), "i8"), "reshape", "raw"))


def _store_flat(b: Scope, name: str, kind: Shaped, address: str) -> None:
    dtype, count = kind.dtype, int(kind.shape[0])
    bits = storage_bits(element_type(dtype).bits)
    size = count * bits // 8
    if b.isa.regions[dtype].numpy == "int8":
        name = storage.without_nan(b, name, kind)
    if dtype == "i1":
        name = b.op(Shaped((size,), "i8"), "convert", name)
    elif bits == 8 and dtype != "i8":
        name = b.op(Shaped((size,), "i8"), "bitcast_convert", name)
    elif bits < 8:
        name = b.op(Shaped((size, 8 // bits), dtype), "reshape", name)
        name = b.op(Shaped((size,), "i8"), "bitcast_convert", name)
    elif bits > 8:
        name = b.op(Shaped((size,), "i8"), "reshape", b.op(Shaped((count, bits // 8), "i8"), "bitcast_convert", name))
    b.emit(f"%{name} -> $hbm[{address} : {address} + {size}];")


# --- instructions -------------------------------------------------------------------------------------------------


def _instruction(r: Random, isa: Declarations, name: str) -> Instruction:
    b = Scope(r, isa, budget=r.randint(2, 7))
    b.integers += [(n, h) for n, h in (*isa.registers, *isa.constants)]
    if b.chance(0.25):
        least = b.r.randint(1, 2)
        b.attributes["rows"] = b.rows = Attribute("rows", r.randint(0, 3), least, shape=True)
        b.integers.append(("rows", least + b.rows.high))
    if b.chance(0.15):
        b.emit(f"let l = {b.expression(4)};")
        b.integers.append(("l", 4))
    for _ in range(r.choice([1, 1, 1, 2])):
        _effect(b)
    for register, high in isa.registers:
        if b.chance(0.15):
            b.emit(f"{register} = ({register} + {r.randint(0, 3)}) % {high + 1};")
            if b.chance(0.5):
                _effect(b)
    asserts = "".join(f"    assert({a.base} <= {a.name} && {a.name} <= {a.base + a.high * a.grain});\n"
                      for a in b.attributes.values() if a.shape or r.random() < 0.1)
    return Instruction(name, tuple(b.attributes.values()), _text(name, b, asserts))


def _text(name: str, b: Scope, asserts: str) -> str:
    return f"[{name}]({', '.join(b.attributes)}) {{\n{asserts}" + "\n".join(b.lines) + "\n}"


def _effect(b: Scope) -> None:
    """A write, perhaps in a branch or repeated."""
    kind = b.r.randrange(10)
    if kind == 0 and b.may_add:
        name = b.expression(1)
        b.emit(f"IF ({name} {b.r.choice(['== 0', '< 1', '!= 0 || 1 > 2'])}) {{")
        with b.block():
            _write(b)
        if b.chance(0.6):
            b.emit("} ELSE {")
            with b.block():
                _write(b)
        b.emit("}")
    elif kind == 1:
        variable = b.fresh("i")
        times = b.r.randint(1, 3)
        text = str(times)
        if b.may_add and b.chance(0.2):
            text = b.attribute(times - 1, 1, shape=True)
        b.emit(f"REPEAT ({variable}, {text}) {{")
        with b.block():
            b.integers.append((variable, times - 1))
            _write(b)
        b.emit("}")
    elif kind == 2 and b.may_add:
        _chosen(b)
    else:
        _write(b)


def _chosen(b: Scope) -> None:
    """A tensor that both branches of an IF define."""
    buffer = b.r.choice(b.isa.buffers)
    kind = Shaped(storage.write_shape(b, buffer), buffer.dtype)
    name = b.fresh("both")
    b.emit(f"IF ({b.expression(1)} == {b.r.randint(0, 1)}) {{")
    for i in range(2):
        with b.block():
            b.emit(f"%{name}:{kind} = reshape(%{make(b, kind, 1)});")
        b.emit("} ELSE {" if i == 0 else "}")
    b.define(name, kind)
    storage.write(b, buffer, make(b, kind, 1), kind)


def _write(b: Scope) -> None:
    """Compute a tensor and write it to a buffer, perhaps onto what was there, or to HBM."""
    r = b.r
    if b.chance(0.25):
        dtype = r.choice(list(b.isa.regions))
        kind = Shaped(storage.store_shape(b, dtype), dtype)
        storage.store(b, make(b, kind, r.randint(1, 3)), kind)
        return
    buffer = r.choice(b.isa.buffers)
    shape = storage.write_shape(b, buffer)
    kind = Shaped(storage.split(b, buffer, shape), buffer.dtype)
    storage.write(b, buffer, make(b, kind, r.randint(1, 3)), kind)


def _setters(r: Random, name: str, high: int) -> list[Instruction]:
    value = Attribute("v", high)
    setter = Instruction(f"set_{name}", (value,), f"[set_{name}](v) {{ {name} = v; }}")
    if r.random() < 0.5:
        return [setter]
    kind = r.randrange(3)
    step = Attribute("by", r.randint(0, 3))
    text = [f"{name} = ({name} + by) % {high + 1};", f"{name} = min({name} + by, {high});",
            f"IF (by > 1) {{ {name} = {high} - {name}; }}"][kind]
    return [setter, Instruction(f"step_{name}", (step,), f"[step_{name}](by) {{ {text} }}")]
