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
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from typing import ClassVar, NoReturn

from archloom.oracle.affine import Affine
from archloom.oracle.errors import StreamError, suggest
from archloom.oracle.scanner import Climbing, Scanner
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


# --- parsing ------------------------------------------------------------------------------------------------------

_SPACE = re.compile(r"(?:[ \t\r\f]|\#[^\n]*)*")
_NUMBER = re.compile(r"0[xX][0-9a-fA-F]+|[0-9]+")
_DIRECTIVE = re.compile(r"\.[A-Za-z_]+")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
_STRING = re.compile(r"\"(?:[^\"\\\n]|\\.)*\"")
_SIGNS = re.compile(r"[-+]")
_TOKEN = re.compile("|".join([
    r"\n", _NUMBER.pattern, _DIRECTIVE.pattern, _NAME.pattern, _STRING.pattern, r"\.\.|//|[-+*%(){}\[\],=@]"
]))
_TEXT = re.compile(rf"(?:[ \t\r\f]+|\#[^\n]*|{_TOKEN.pattern})*+")


def parse(text: str, file: str = "<string>") -> Stream:
    """The stream that ``text`` describes; StreamError with position and caret where it is not well formed.

    Whether it uses the ISA's instructions rightly is the business of :func:`archloom.oracle.validate.validate`.
    """
    return _Parser(text, file).stream()


class _Parser(Climbing[Affine]):
    signs = re.compile(r"//|[-+*%]")
    levels: ClassVar[Mapping[str, int]] = {"+": 0, "-": 0, "*": 1, "//": 1, "%": 1}

    def __init__(self, text: str, file: str) -> None:
        super().__init__(Scanner(text, file, _SPACE, _TOKEN, StreamError, longest=None))
        self.variables: list[str] = []
        self.depth = 0
        """Open parentheses around the expression."""
        well_formed = _TEXT.match(text)
        end = 0 if well_formed is None else well_formed.end()
        if end < len(text):
            self.fail(f"unexpected character {text[end]!r}", end)

    # tokens

    def fail(self, message: str, at: int) -> NoReturn:
        self.s.fail(message, self.s.position(at))

    def take(self, pattern: re.Pattern[str], what: str) -> str:
        text = self.s.take(pattern)
        return self.s.expected(what) if text is None else text

    def sees(self, word: str) -> bool:
        """Whether a word comes next, as a whole."""
        match = self.s.matches(_NAME)
        return match is not None and match.group() == word

    def accept(self, word: str) -> bool:
        return self.sees(word) and self.s.take(_NAME) is not None

    def need(self, word: str) -> None:
        if not self.accept(word):
            self.s.expected(repr(word))

    def name(self, what: str) -> str:
        """An identifier, or any name in double quotes."""
        at = self.s.at
        text = self.s.take(_STRING)
        if text is None:
            return self.take(_NAME, what)
        try:
            return str(json.loads(text))
        except ValueError as error:
            self.fail(f"{text} is no JSON string ({error})", at)

    def integer(self, what: str) -> int:
        sign = -1 if self.s.accept("-") else 1
        if not self.s.matches(_NUMBER):
            self.s.expected(what)
        return sign * self.s.whole(_NUMBER)

    def end_line(self) -> None:
        if not (self.s.done or self.s.sees("\n")):
            self.s.expected("the end of the line")
        self.skip_lines()

    def skip_lines(self) -> None:
        while self.s.accept("\n"):
            pass

    # header

    def stream(self) -> Stream:
        name: str | None = None
        isa: tuple[str, tuple[tuple[str, int], ...]] | None = None
        hbm: int | None = None
        tensors: dict[str, list[HbmTensor]] = {".arg": [], ".result": []}
        self.skip_lines()
        while self.s.matches(_DIRECTIVE):
            at, directive = self.s.at, self.take(_DIRECTIVE, "a directive")
            if directive in tensors:
                tensors[directive].append(self.tensor())
            elif directive not in _DIRECTIVES:
                self.fail(f"unknown directive {directive!r}{suggest(directive, _DIRECTIVES)}", at)
            elif {".stream": name, ".isa": isa, ".hbm": hbm}[directive] is not None:
                self.fail(f"{directive} is given twice", at)
            elif directive == ".stream":
                name = self.name("the stream's name")
            elif directive == ".isa":
                isa = self.isa()
            else:
                hbm = self.integer("the size of HBM in bytes")
            self.end_line()
        if isa is None:
            self.s.expected("a line '.isa NAME parameter=value ...' before the first instruction")
        if hbm is None:
            self.s.expected("a line '.hbm BYTES' before the first instruction")
        body = self.nodes(0)
        if not self.s.done:
            self.s.expected("an instruction, 'loop' or 'parallel'")
        arguments, results = tuple(tensors[".arg"]), tuple(tensors[".result"])
        return Stream(*isa, arguments, results, hbm, body, "stream" if name is None else name)

    def isa(self) -> tuple[str, tuple[tuple[str, int], ...]]:
        name = self.name("the ISA's name")
        parameters: dict[str, int] = {}
        while self.s.matches(_NAME):
            at, key = self.s.at, self.take(_NAME, "a parameter's name")
            if key in parameters:
                self.fail(f"parameter {key!r} is given twice", at)
            self.s.need("=")
            parameters[key] = self.integer("the parameter's value")
        return name, tuple(parameters.items())

    def tensor(self) -> HbmTensor:
        name = self.name("the tensor's name")
        dtype = self.take(_NAME, "a NumPy dtype such as int8")
        self.s.need("[")
        shape: list[int] = []
        while not self.s.accept("]"):
            if shape:
                self.s.need(",")
            shape.append(self.integer("an extent"))
        self.s.need("@")
        return HbmTensor(name, self.integer("the tensor's address in bytes"), tuple(shape), dtype)

    # body

    def nodes(self, depth: int) -> tuple[Node, ...]:
        nodes: list[Node] = []
        self.skip_lines()
        while self.s.matches(_NAME):
            if self.accept("loop"):
                nodes.append(self.loop(depth))
            elif self.accept("parallel"):
                nodes.append(self.parallel(depth))
            else:
                nodes.append(self.instr())
            if not self.s.sees("}"):
                self.end_line()
        return tuple(nodes)

    def block(self, var: str, at: int, depth: int) -> tuple[Node, ...]:
        if depth >= MAX_DEPTH:
            self.fail(f"loops nest deeper than {MAX_DEPTH}", at)
        self.s.need("{")
        self.variables.append(var)
        body = self.nodes(depth + 1)
        self.variables.pop()
        if not self.s.accept("}"):
            self.s.expected("an instruction, 'loop', 'parallel' or '}'")
        return body

    def loop(self, depth: int) -> Loop:
        named, var = self.s.at, self.take(_NAME, "the loop's variable")
        self.need("in")
        start = self.integer("the first value")
        self.s.need("..")
        stop = self.integer("the end of the range")
        at = self.s.at
        step = self.integer("the step") if self.accept("step") else 1
        if not step:
            self.fail("the step of a loop must not be 0", at)
        return Loop(var, start, stop, step, self.block(var, named, depth))

    def parallel(self, depth: int) -> Parallel:
        named, var = self.s.at, self.take(_NAME, "the variable")
        self.need("in")
        at = self.s.at
        if self.integer("0"):
            self.fail("a parallel range begins at 0", at)
        self.s.need("..")
        extent = self.integer("the number of cores")
        self.need("along")
        dim = self.name("the name of a dimension of the architecture")
        return Parallel(var, extent, dim, self.block(var, named, depth))

    def instr(self) -> Instr:
        mnemonic = self.take(_NAME, "a mnemonic")
        attributes: dict[str, Affine] = {}
        while not (self.s.done or self.s.sees("\n") or self.s.sees("}")):
            if attributes:
                self.s.need(",")
            at, key = self.s.at, self.take(_NAME, "an attribute's name")
            if key in attributes:
                self.fail(f"attribute {key!r} of {mnemonic} is given twice", at)
            self.s.need("=")
            attributes[key] = self.expr()
        return Instr(mnemonic, tuple(attributes.items()))

    # expressions

    def binary(self, sign: str, left: Affine, right: Affine, at: int) -> Affine:
        try:
            if sign in ("//", "%") and not right.is_constant:
                raise ValueError(f"the divisor {right} is no constant")
            return _OPERATORS[sign](left, right)
        except ValueError as error:
            self.fail(f"not an affine expression: {error}", at)

    def unary(self) -> Affine:
        negative = False
        while sign := self.s.take(_SIGNS):
            negative ^= sign == "-"
        value = self.operand()
        return -value if negative else value

    def operand(self) -> Affine:
        if self.s.accept("("):
            self.depth += 1
            if self.depth > MAX_DEPTH:
                self.fail(f"parentheses nest deeper than {MAX_DEPTH}", self.s.at)
            value = self.expr()
            self.depth -= 1
            self.s.need(")")
            return value
        if self.s.matches(_NUMBER):
            return Affine(self.integer("a number"))
        at, name = self.s.at, self.take(_NAME, "a number, a loop variable or '('")
        if name not in self.variables:
            known = suggest(name, self.variables) if self.variables else " (no loop encloses it)"
            self.fail(f"no enclosing loop has the variable {name!r}{known}", at)
        return Affine.variable(name)


_OPERATORS: dict[str, Callable[[Affine, Affine], Affine]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod,
}
