"""The binary form of instruction streams, for artifacts: compact, versioned, protected by a CRC-32.

Layout: ``b"LOOM"``, format version (u16), length of the payload (u32), CRC-32 of the payload (u32), all little-endian;
then the payload: a table of strings, a table of distinct expressions, the header and the tree of nodes. Integers are
LEB128, signed ones in zigzag form. Nothing in a payload is executed, and every count is checked against what is left.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from typing import TypeVar

from archloom.oracle.affine import Affine, Atom, Div
from archloom.oracle.errors import ArtifactError, StreamError
from archloom.oracle.stream import HbmTensor, Instr, Loop, Node, Parallel, Stream

MAGIC = b"LOOM"
VERSION = 1
_HEADER = struct.Struct("<4sHII")
_VARIABLE, _DIV, _MOD = 0, 1, 2
_INSTR, _LOOP, _PARALLEL = 0, 1, 2
_MAX_DEPTH = 64
_MAX_INTEGER_BYTES = 19

T = TypeVar("T")


def encode(stream: Stream) -> bytes:
    """``stream`` as bytes; :func:`decode` gives back the equal stream."""
    payload = _Encoder().stream(stream)
    return _HEADER.pack(MAGIC, VERSION, len(payload), zlib.crc32(payload)) + payload


def decode(blob: bytes, name: str = "stream") -> Stream:
    """The stream in ``blob``; ArtifactError, naming ``name``, where it is foreign, newer, truncated or corrupted."""
    if len(blob) < _HEADER.size:
        raise ArtifactError(f"{name}: truncated: expected at least {_HEADER.size} bytes, found {len(blob)}")
    magic, version, length, crc = _HEADER.unpack_from(blob)
    if magic != MAGIC:
        raise ArtifactError(f"{name}: not an instruction stream: expected the magic {MAGIC!r}, found {magic!r}")
    if version != VERSION:
        age = "newer" if version > VERSION else "older"
        raise ArtifactError(f"{name}: stream format {version} is {age} than the format {VERSION} that is read here")
    payload = blob[_HEADER.size :]
    if len(payload) != length:
        what = "truncated" if len(payload) < length else "followed by foreign bytes"
        raise ArtifactError(f"{name}: {what}: expected {length} bytes of payload, found {len(payload)}")
    found = zlib.crc32(payload)
    if found != crc:
        raise ArtifactError(f"{name}: corrupted: expected CRC-32 {crc:#010x}, found {found:#010x}")
    return _Decoder(payload, name).stream()


class _Encoder:
    def __init__(self) -> None:
        self.strings: dict[str, int] = {}
        self.expressions: dict[Affine, int] = {}
        self.pool = bytearray()

    def stream(self, stream: Stream) -> bytes:
        body = bytearray()
        self.header(body, stream)
        self.nodes(body, stream.body, 0)
        payload = bytearray()
        _unsigned(payload, len(self.strings))
        for text in self.strings:
            data = text.encode("utf-8", "surrogatepass")
            _unsigned(payload, len(data))
            payload += data
        _unsigned(payload, len(self.expressions))
        return bytes(payload + self.pool + body)

    def header(self, out: bytearray, stream: Stream) -> None:
        _unsigned(out, self.string(stream.name))
        _unsigned(out, self.string(stream.isa))
        _unsigned(out, len(stream.parameters))
        for key, value in stream.parameters:
            _unsigned(out, self.string(key))
            _signed(out, value)
        _signed(out, stream.hbm_bytes)
        for tensors in (stream.arguments, stream.results):
            _unsigned(out, len(tensors))
            for t in tensors:
                _unsigned(out, self.string(t.name))
                _unsigned(out, self.string(t.dtype))
                _signed(out, t.address)
                _unsigned(out, len(t.shape))
                for extent in t.shape:
                    _signed(out, extent)

    def nodes(self, out: bytearray, nodes: tuple[Node, ...], depth: int) -> None:
        if depth > _MAX_DEPTH:
            raise StreamError(f"loops nest deeper than {_MAX_DEPTH}: such a stream has no binary form")
        _unsigned(out, len(nodes))
        for node in nodes:
            if isinstance(node, Instr):
                out.append(_INSTR)
                _unsigned(out, self.string(node.mnemonic))
                _unsigned(out, len(node.attributes))
                for key, value in node.attributes:
                    _unsigned(out, self.string(key))
                    _unsigned(out, self.expression(value))
                continue
            out.append(_LOOP if isinstance(node, Loop) else _PARALLEL)
            _unsigned(out, self.string(node.var))
            if isinstance(node, Loop):
                for number in (node.start, node.stop, node.step):
                    _signed(out, number)
            else:
                _signed(out, node.extent)
                _unsigned(out, self.string(node.dim))
            self.nodes(out, node.body, depth + 1)

    def string(self, text: str) -> int:
        return self.strings.setdefault(text, len(self.strings))

    def expression(self, e: Affine) -> int:
        """The number of ``e`` in the pool; the numerators that it needs come before it."""
        known = self.expressions.get(e)
        if known is not None:
            return known
        out = bytearray()
        _signed(out, e.constant)
        _unsigned(out, len(e.terms))
        for atom, coefficient in e.terms:
            _signed(out, coefficient)
            self.atom(out, atom)
        self.pool += out
        return self.expressions.setdefault(e, len(self.expressions))

    def atom(self, out: bytearray, atom: Atom) -> None:
        if isinstance(atom, str):
            out.append(_VARIABLE)
            _unsigned(out, self.string(atom))
        else:
            out.append(_DIV if isinstance(atom, Div) else _MOD)
            _unsigned(out, self.expression(atom.numerator))
            _unsigned(out, atom.divisor)


def _unsigned(out: bytearray, value: int) -> None:
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def _signed(out: bytearray, value: int) -> None:
    if value.bit_length() > 7 * _MAX_INTEGER_BYTES - 1:
        raise StreamError(f"{value} has more than {7 * _MAX_INTEGER_BYTES - 1} bits: such a stream has no binary form")
    _unsigned(out, 2 * value if value >= 0 else -2 * value - 1)


class _Decoder:
    def __init__(self, data: bytes, name: str) -> None:
        self.data = data
        self.name = name
        self.offset = 0
        self.strings: list[str] = []
        self.expressions: list[Affine] = []

    def fail(self, message: str) -> ArtifactError:
        return ArtifactError(f"{self.name}: malformed at byte {_HEADER.size + self.offset}: {message}")

    def stream(self) -> Stream:
        try:
            return self._stream()
        except StreamError as error:
            raise self.fail(str(error)) from None

    def _stream(self) -> Stream:
        self.strings = self.many(self.text)
        for _ in range(self.count()):
            self.expressions.append(self.expression())
        name, isa = self.string(), self.string()
        parameters = tuple(self.many(lambda: (self.string(), self.signed())))
        hbm_bytes = self.signed()
        arguments, results = tuple(self.many(self.tensor)), tuple(self.many(self.tensor))
        body = self.nodes(0)
        if self.offset != len(self.data):
            raise self.fail(f"{len(self.data) - self.offset} bytes follow the last node")
        return Stream(isa, parameters, arguments, results, hbm_bytes, body, name)

    def byte(self) -> int:
        if self.offset >= len(self.data):
            raise self.fail("the payload ends within a value")
        self.offset += 1
        return self.data[self.offset - 1]

    def unsigned(self) -> int:
        value = 0
        for i in range(_MAX_INTEGER_BYTES):
            b = self.byte()
            value |= (b & 0x7F) << 7 * i
            if b < 0x80:
                return value
        raise self.fail(f"an integer is longer than {_MAX_INTEGER_BYTES} bytes")

    def signed(self) -> int:
        value = self.unsigned()
        return -(value >> 1) - 1 if value & 1 else value >> 1

    def count(self) -> int:
        """A number of things that take at least one byte each."""
        n = self.unsigned()
        if n > len(self.data) - self.offset:
            raise self.fail(f"{n} entries are announced, {len(self.data) - self.offset} bytes are left")
        return n

    def many(self, item: Callable[[], T]) -> list[T]:
        return [item() for _ in range(self.count())]

    def text(self) -> str:
        n = self.count()
        self.offset += n
        try:
            return self.data[self.offset - n : self.offset].decode("utf-8", "surrogatepass")
        except UnicodeDecodeError as error:
            raise self.fail(f"a string is not UTF-8 ({error.reason})") from None

    def pick(self, table: list[T], what: str) -> T:
        i = self.unsigned()
        if i >= len(table):
            raise self.fail(f"{what} {i} is named, there are {len(table)}")
        return table[i]

    def string(self) -> str:
        return self.pick(self.strings, "string")

    def expression(self) -> Affine:
        value = Affine(self.signed())
        for _ in range(self.count()):
            coefficient = self.signed()
            value = value + self.atom() * coefficient
        return value

    def atom(self) -> Affine:
        kind = self.byte()
        if kind == _VARIABLE:
            return Affine.variable(self.string())
        if kind not in (_DIV, _MOD):
            raise self.fail(f"expected a variable, division or modulo (0, 1, 2), found {kind}")
        numerator, divisor = self.pick(self.expressions, "expression"), self.unsigned()
        if divisor < 1:
            raise self.fail("a divisor is 0")
        return numerator // divisor if kind == _DIV else numerator % divisor

    def tensor(self) -> HbmTensor:
        name, dtype, address = self.string(), self.string(), self.signed()
        return HbmTensor(name, address, tuple(self.many(self.signed)), dtype)

    def nodes(self, depth: int) -> tuple[Node, ...]:
        if depth > _MAX_DEPTH:
            raise self.fail(f"loops nest deeper than {_MAX_DEPTH}")
        return tuple(self.many(lambda: self.node(depth)))

    def node(self, depth: int) -> Node:
        kind = self.byte()
        if kind == _INSTR:
            mnemonic = self.string()
            return Instr(mnemonic, tuple(self.many(lambda: (self.string(), self.pick(self.expressions, "expression")))))
        if kind == _LOOP:
            var, start, stop, step = self.string(), self.signed(), self.signed(), self.signed()
            return Loop(var, start, stop, step, self.nodes(depth + 1))
        if kind == _PARALLEL:
            var, extent, dim = self.string(), self.signed(), self.string()
            return Parallel(var, extent, dim, self.nodes(depth + 1))
        raise self.fail(f"expected an instruction, a loop or a parallel block (0, 1, 2), found {kind}")
