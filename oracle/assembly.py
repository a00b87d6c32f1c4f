"""The text form of instruction streams: :func:`to_text` prints the one canonical text, :func:`parse` reads it back.

::

    .stream matmul
    .isa gemmini acc_rows=1024 dim=16 spad_rows=16384
    .hbm 786496
    .arg A int8[512,512] @0x40
    .result C int8[512,512] @0x80040
    loop i in 0..512 step 16 {
      mvin dram=64 + 512*i, local=16*(i // 16 % 2), cols=16, rows=16   # comments run to the end of the line
      parallel core in 0..8 along x { ... }
    }

Expressions are those of :class:`archloom.oracle.affine.Affine`: ``+ - * // %`` with the usual precedence, parentheses,
decimal and hexadecimal integers and the variables of enclosing loops. Names that are no identifiers (of tensors, of the
stream, of a dimension) stand in double quotes as JSON strings. ``parse(to_text(s)) == s`` for every stream ``s``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from archloom.oracle.affine import Affine
from archloom.oracle.errors import Position, StreamError, suggest
from archloom.oracle.stream import HbmTensor, Instr, Loop, Node, Parallel, Stream

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*\Z")
_KEYWORDS = frozenset({"loop", "parallel"})
_DIRECTIVES = [".stream", ".isa", ".hbm", ".arg", ".result"]
MAX_DEPTH = 64
"""How deeply loops or parentheses may nest."""


# --- printing -----------------------------------------------------------------------------------------------------


def to_text(stream: Stream) -> str:
    """The canonical assembly text of ``stream``; StreamError where a loop variable or mnemonic is no identifier."""
    return "\n".join([*_header(stream), *_lines(stream.body, 0)]) + "\n"


def _header(stream: Stream) -> Iterator[str]:
    yield f".stream {_quoted(stream.name)}"
    yield " ".join([f".isa {_quoted(stream.isa)}", *(f"{_word(k, 'parameter')}={v}" for k, v in stream.parameters)])
    yield f".hbm {stream.hbm_bytes}"
    for directive, tensors in ((".arg", stream.arguments), (".result", stream.results)):
        for t in tensors:
            shape = ",".join(map(str, t.shape))
            yield f"{directive} {_quoted(t.name)} {_word(t.dtype, 'dtype')}[{shape}] @{t.address:#x}"


def _lines(nodes: tuple[Node, ...], depth: int) -> Iterator[str]:
    indent = "  " * depth
    for node in nodes:
        if isinstance(node, Instr):
            attributes = ", ".join(f"{_word(k, 'attribute')}={v}" for k, v in node.attributes)
            yield f"{indent}{_word(node.mnemonic, 'mnemonic')} {attributes}".rstrip()
            continue
        var = _word(node.var, "loop variable")
        if isinstance(node, Loop):
            step = f" step {node.step}" if node.step != 1 else ""
            yield f"{indent}loop {var} in {node.start}..{node.stop}{step} {{"
        else:
            yield f"{indent}parallel {var} in 0..{node.extent} along {_quoted(node.dim)} {{"
        yield from _lines(node.body, depth + 1)
        yield f"{indent}}}"


def _quoted(name: str) -> str:
    return name if _IDENTIFIER.match(name) and name not in _KEYWORDS else json.dumps(name)


def _word(name: str, what: str) -> str:
    if not _IDENTIFIER.match(name) or name in _KEYWORDS:
        raise StreamError(f"{what} {name!r} cannot be written in assembly: expected an identifier, not a keyword")
    return name


# --- tokens -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    offset: int


_TOKEN = re.compile(
    r"(?P<space>[ \t\r\f]+|\#[^\n]*)|(?P<newline>\n)|(?P<number>0[xX][0-9a-fA-F]+|[0-9]+)"
    r"|(?P<directive>\.[A-Za-z_]+)|(?P<name>[A-Za-z_][A-Za-z0-9_.]*)|(?P<string>\"(?:[^\"\\\n]|\\.)*\")"
    r"|(?P<symbol>\.\.|//|[-+*%(){}\[\],=@])"
)


def _tokens(text: str, file: str) -> list[_Token]:
    tokens: list[_Token] = []
    offset = 0
    while offset < len(text):
        match = _TOKEN.match(text, offset)
        if match is None:
            raise StreamError(f"unexpected character {text[offset]!r}", _position(text, offset, file), text)
        kind = str(match.lastgroup)
        if kind != "space":
            tokens.append(_Token(kind, match.group(), offset))
        offset = match.end()
    tokens.append(_Token("end", "", offset))
    return tokens


def _position(text: str, offset: int, file: str) -> Position:
    line_start = text.rfind("\n", 0, offset) + 1
    return Position(file, text.count("\n", 0, offset) + 1, offset - line_start + 1)


# --- parsing ------------------------------------------------------------------------------------------------------


def parse(text: str, file: str = "<string>") -> Stream:
    """The stream that ``text`` describes; StreamError with position and caret where it is not well formed.

    Whether it uses the ISA's instructions rightly is the business of :func:`archloom.oracle.validate.validate`.
    """
    return _Parser(text, file).stream()


class _Parser:
    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self.file = file
        self.tokens = _tokens(text, file)
        self.index = 0
        self.variables: list[str] = []

    # tokens

    @property
    def token(self) -> _Token:
        return self.tokens[self.index]

    def fail(self, message: str, token: _Token | None = None) -> StreamError:
        return StreamError(message, _position(self.text, (token or self.token).offset, self.file), self.text)

    def expected(self, what: str) -> StreamError:
        found = {"end": "the end of the text", "newline": "the end of the line"}.get(self.token.kind)
        return self.fail(f"expected {what}, found {found or repr(self.token.text)}")

    def accept(self, text: str) -> bool:
        if self.token.text == text and self.token.kind in ("symbol", "name"):
            self.index += 1
            return True
        return False

    def expect(self, text: str) -> None:
        if not self.accept(text):
            raise self.expected(repr(text))

    def take(self, kind: str, what: str) -> _Token:
        token = self.token
        if token.kind != kind:
            raise self.expected(what)
        self.index += 1
        return token

    def name(self, what: str) -> str:
        """An identifier, or any name in double quotes."""
        if self.token.kind == "string":
            token = self.take("string", what)
            try:
                return str(json.loads(token.text))
            except ValueError as error:
                raise self.fail(f"{token.text} is no JSON string ({error})", token) from None
        return self.take("name", what).text

    def integer(self, what: str) -> int:
        sign = -1 if self.accept("-") else 1
        return sign * int(self.take("number", what).text, 0)

    def end_line(self) -> None:
        if self.token.kind not in ("newline", "end"):
            raise self.expected("the end of the line")
        self.skip_lines()

    def skip_lines(self) -> None:
        while self.token.kind == "newline":
            self.index += 1

    # header

    def stream(self) -> Stream:
        name: str | None = None
        isa: tuple[str, tuple[tuple[str, int], ...]] | None = None
        hbm: int | None = None
        tensors: dict[str, list[HbmTensor]] = {".arg": [], ".result": []}
        self.skip_lines()
        while self.token.kind == "directive":
            token = self.take("directive", "a directive")
            if token.text in tensors:
                tensors[token.text].append(self.tensor())
            elif token.text not in _DIRECTIVES:
                raise self.fail(f"unknown directive {token.text!r}{suggest(token.text, _DIRECTIVES)}", token)
            elif {".stream": name, ".isa": isa, ".hbm": hbm}[token.text] is not None:
                raise self.fail(f"{token.text} is given twice", token)
            elif token.text == ".stream":
                name = self.name("the stream's name")
            elif token.text == ".isa":
                isa = self.isa()
            else:
                hbm = self.integer("the size of HBM in bytes")
            self.end_line()
        if isa is None:
            raise self.expected("a line '.isa NAME parameter=value ...' before the first instruction")
        if hbm is None:
            raise self.expected("a line '.hbm BYTES' before the first instruction")
        body = self.nodes(0)
        if self.token.kind != "end":
            raise self.expected("an instruction, 'loop' or 'parallel'")
        arguments, results = tuple(tensors[".arg"]), tuple(tensors[".result"])
        return Stream(*isa, arguments, results, hbm, body, "stream" if name is None else name)

    def isa(self) -> tuple[str, tuple[tuple[str, int], ...]]:
        name = self.name("the ISA's name")
        parameters: list[tuple[str, int]] = []
        while self.token.kind == "name":
            token = self.take("name", "a parameter's name")
            if any(token.text == k for k, _ in parameters):
                raise self.fail(f"parameter {token.text!r} is given twice", token)
            self.expect("=")
            parameters.append((token.text, self.integer("the parameter's value")))
        return name, tuple(parameters)

    def tensor(self) -> HbmTensor:
        name = self.name("the tensor's name")
        dtype = self.take("name", "a NumPy dtype such as int8").text
        self.expect("[")
        shape: list[int] = []
        while not self.accept("]"):
            if shape:
                self.expect(",")
            shape.append(self.integer("an extent"))
        self.expect("@")
        return HbmTensor(name, self.integer("the tensor's address in bytes"), tuple(shape), dtype)

    # body

    def nodes(self, depth: int) -> tuple[Node, ...]:
        nodes: list[Node] = []
        self.skip_lines()
        while self.token.kind == "name":
            if self.token.text == "loop":
                nodes.append(self.loop(depth))
            elif self.token.text == "parallel":
                nodes.append(self.parallel(depth))
            else:
                nodes.append(self.instr())
            if self.token.text != "}":
                self.end_line()
        return tuple(nodes)

    def block(self, var: _Token, depth: int) -> tuple[Node, ...]:
        if depth >= MAX_DEPTH:
            raise self.fail(f"loops nest deeper than {MAX_DEPTH}", var)
        self.expect("{")
        self.variables.append(var.text)
        body = self.nodes(depth + 1)
        self.variables.pop()
        if self.token.text != "}":
            raise self.expected("an instruction, 'loop', 'parallel' or '}'")
        self.expect("}")
        return body

    def loop(self, depth: int) -> Loop:
        self.expect("loop")
        var = self.take("name", "the loop's variable")
        self.expect("in")
        start = self.integer("the first value")
        self.expect("..")
        stop = self.integer("the end of the range")
        at = self.token
        step = self.integer("the step") if self.accept("step") else 1
        if not step:
            raise self.fail("the step of a loop must not be 0", at)
        return Loop(var.text, start, stop, step, self.block(var, depth))

    def parallel(self, depth: int) -> Parallel:
        self.expect("parallel")
        var = self.take("name", "the variable")
        self.expect("in")
        at = self.token
        if self.integer("0"):
            raise self.fail("a parallel range begins at 0", at)
        self.expect("..")
        extent = self.integer("the number of cores")
        self.expect("along")
        dim = self.name("the name of a dimension of the architecture")
        return Parallel(var.text, extent, dim, self.block(var, depth))

    def instr(self) -> Instr:
        mnemonic = self.take("name", "a mnemonic").text
        attributes: list[tuple[str, Affine]] = []
        while self.token.kind not in ("newline", "end") and self.token.text != "}":
            if attributes:
                self.expect(",")
            token = self.take("name", "an attribute's name")
            if any(token.text == k for k, _ in attributes):
                raise self.fail(f"attribute {token.text!r} of {mnemonic} is given twice", token)
            self.expect("=")
            attributes.append((token.text, self.sum(0)))
        return Instr(mnemonic, tuple(attributes))

    # expressions

    def sum(self, depth: int) -> Affine:
        if depth > MAX_DEPTH:
            raise self.fail(f"parentheses nest deeper than {MAX_DEPTH}")
        value = self.product(depth)
        while self.token.text in ("+", "-"):
            if self.accept("+"):
                value = value + self.product(depth)
            else:
                self.expect("-")
                value = value - self.product(depth)
        return value

    def product(self, depth: int) -> Affine:
        value = self.unary(depth)
        while self.token.text in ("*", "//", "%"):
            operator = self.take("symbol", "an operator")
            right = self.unary(depth)
            try:
                if operator.text == "*":
                    value = value * right
                elif not right.is_constant:
                    raise ValueError(f"the divisor {right} is no constant")
                else:
                    value = value // int(right) if operator.text == "//" else value % int(right)
            except ValueError as error:
                raise self.fail(f"not an affine expression: {error}", operator) from None
        return value

    def unary(self, depth: int) -> Affine:
        negative = False
        while self.token.text in ("-", "+"):
            negative ^= self.take("symbol", "a sign").text == "-"
        value = self.primary(depth)
        return -value if negative else value

    def primary(self, depth: int) -> Affine:
        token = self.token
        if self.accept("("):
            value = self.sum(depth + 1)
            self.expect(")")
            return value
        if token.kind == "number":
            return Affine(self.integer("a number"))
        if token.kind != "name":
            raise self.expected("a number, a loop variable or '('")
        if token.text not in self.variables:
            known = suggest(token.text, self.variables) if self.variables else " (no loop encloses it)"
            raise self.fail(f"no enclosing loop has the variable {token.text!r}{known}", token)
        self.index += 1
        return Affine.variable(token.text)
