"""The code of one jitted function for the kinds of its arguments: a walk over its syntax writes LLVM code."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Protocol

from archloom.acadl_models.timing.engine import plain
from archloom.acadl_models.timing.engine.llvm_code import TYPES, Kind, Value, Writer, result_type

LARGE = 200
"""Lines of a function from which on it is not compiled into what calls it: LLVM takes half the time, and what it makes
is as fast."""

_BINARY: dict[type, str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor",
    ast.LShift: "shl", ast.RShift: "ashr"}
_ROUNDED: dict[type, str] = {ast.FloorDiv: "quotient", ast.Mod: "remainder"}
_COMPARED: dict[type, str] = {
    ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "slt", ast.LtE: "sle", ast.Gt: "sgt", ast.GtE: "sge"}


@dataclass(frozen=True)
class Made:
    """A translated function: its name, and the kinds of its results; more than one are a tuple."""

    symbol: str
    results: tuple[Kind, ...]

    @property
    def type(self) -> str:
        return result_type(self.results)


class Functions(Protocol):
    """Where translated functions are, and where one is sought that another calls."""

    parts: list[str]

    def made(self, function: Any, kinds: tuple[Kind, ...]) -> Made: ...


@cache
def _definitions(path: str) -> dict[int, ast.FunctionDef]:
    """The functions of a file by the line of their first decorator, which is where Python says that they begin."""
    found = (node for node in ast.walk(ast.parse(Path(path).read_text())) if isinstance(node, ast.FunctionDef))
    return {min((node.lineno, *(each.lineno for each in node.decorator_list))): node for node in found}


def _passed(values: Sequence[Value]) -> str:
    """Arguments, or parameters: an array is an address and a length."""
    return ", ".join(f"{x.typed}, i64 {x.length}" if x.kind == "array" else x.typed for x in values)


class Body(Writer):
    """One function."""

    def __init__(self, module: Functions, function: Any, kinds: tuple[Kind, ...], symbol: str) -> None:
        super().__init__()
        self.module, self.function, self.symbol = module, function, symbol
        code = function.__code__
        self.node = _definitions(code.co_filename)[code.co_firstlineno]
        self.names = set(code.co_varnames)
        self.arguments = [Value(kind, f"%a{i}", f"%n{i}" if kind == "array" else "") for i, kind in enumerate(kinds)]
        self.arrays: dict[str, Value] = {}
        self.loops: list[tuple[str, str]] = []
        self.results: tuple[Kind, ...] | None = None

    def translate(self, linkage: str) -> Made:
        if len(self.arguments) != len(self.node.args.args):
            raise self.fault(self.node.args, f"is called with {len(self.arguments)} arguments")
        for argument, value in zip(self.node.args.args, self.arguments, strict=True):
            if value.kind == "array":
                self.arrays[argument.arg] = value
            else:
                self.set(argument, argument.arg, value)
        self.statements(self.node.body)
        if self.open:
            self.give(self.node, ())
        made = Made(self.symbol, self.results or ())
        inlining = plain.JITTED[self.function] or ("noinline" if len(self.lines) > LARGE else "")
        head = f"{made.type} @{self.symbol}({_passed(self.arguments)}) nounwind {inlining}"
        self.module.parts += [f"define {linkage} {head} {{", *self.text(), "}"]
        return made

    def fault(self, node: ast.AST, found: str) -> TypeError:
        where = f"{self.function.__code__.co_filename}:{getattr(node, 'lineno', self.node.lineno)}"
        return TypeError(f"{where}: {self.function.__name__}: {ast.unparse(node)}: {found}")

    def set(self, node: ast.AST, name: str, value: Any) -> None:
        if not isinstance(value, Value) or name in self.arrays or not self.store(name, value):
            raise self.fault(node, f"{name} is {self.variables.get(name, 'a variable')}, and cannot be {value}")

    # --- statements ------------------------------------------------------------------------------------------------
    def statements(self, nodes: Sequence[ast.stmt]) -> None:
        for node in nodes:
            if self.open:
                self.walk(node)

    def walk(self, node: ast.AST) -> Any:
        """Write a statement; or an expression, whose value is returned."""
        method: Callable[[Any], Any] | None = getattr(self, f"_{type(node).__name__}", None)
        if method is None:
            raise self.fault(node, f"{type(node).__name__} is not taken")
        return method(node)

    def _Pass(self, node: ast.Pass) -> None:
        pass

    def _Expr(self, node: ast.Expr) -> None:
        self.walk(node.value)

    def _Assign(self, node: ast.Assign) -> None:
        value = self.walk(node.value)
        for target in node.targets:
            self.assign(target, value)

    def assign(self, target: ast.expr, value: Any) -> None:
        if isinstance(target, ast.Tuple):
            for each, part in zip(target.elts, value, strict=True):
                self.assign(each, part)
        elif isinstance(target, ast.Subscript):
            place, kind = self.place(target)
            if kind == "constants":
                raise self.fault(target, "does not change")
            self.do(f"store i64 {self.number(target, value)}, ptr {place}")
        else:
            assert isinstance(target, ast.Name)
            self.set(target, target.id, value)

    def _AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Subscript):
            place, _ = self.place(node.target)
            before = self.value("i64", f"load i64, ptr {place}")
            after = self.binary(node, before, self.walk(node.value))
            self.do(f"store i64 {self.number(node, after)}, ptr {place}")
        else:
            assert isinstance(node.target, ast.Name)
            before = self.walk(ast.copy_location(ast.Name(node.target.id), node))
            self.set(node, node.target.id, self.binary(node, before, self.walk(node.value)))

    def _If(self, node: ast.If) -> None:
        yes, no, after = self.labels(3)
        self.branch(self.truth(node.test), yes, no)
        for label, body in ((yes, node.body), (no, node.orelse)):
            self.begin(label)
            self.statements(body)
            self.jump(after)
        self.go_on(after)

    def _While(self, node: ast.While) -> None:
        test, body, after = self.labels(3)
        self.jump(test)
        self.begin(test)
        if isinstance(node.test, ast.Constant) and node.test.value is True:
            self.jump(body)
        else:
            self.branch(self.truth(node.test), body, after)
        self.begin(body)
        self.inside(node, test, after)
        self.go_on(after)

    def _For(self, node: ast.For) -> None:
        if not (isinstance(node.iter, ast.Call) and isinstance(node.target, ast.Name)
                and self.walk(node.iter.func) is range):
            raise self.fault(node.iter, "expected a range")
        given = [self.number(node.iter, self.walk(x)) for x in node.iter.args]
        start, stop, step = ["0", *given, "1"] if len(given) == 1 else [*given, "1"][:3]
        if step == "0" or step.startswith("-"):
            raise self.fault(node.iter, "expected a positive step")
        hidden = self.fresh("range")
        self.set(node, hidden, Value("i64", start))
        test, body, again, after = self.labels(4)
        self.jump(test)
        self.begin(test)
        at = self.load(hidden)
        self.branch(self.value("i1", f"icmp slt i64 {at.text}, {stop}"), body, after)
        self.begin(body)
        self.set(node.target, node.target.id, at)
        self.inside(node, again, after)
        self.begin(again)
        self.set(node, hidden, self.value("i64", f"add nsw i64 {at.text}, {step}"))
        self.jump(test)
        self.begin(after)

    def inside(self, node: "ast.While | ast.For", again: str, after: str) -> None:
        if node.orelse:
            raise self.fault(node, "else is not taken")
        self.loops.append((again, after))
        self.statements(node.body)
        self.loops.pop()
        self.jump(again)

    def _Break(self, node: ast.Break) -> None:
        self.jump(self.loops[-1][1])

    def _Continue(self, node: ast.Continue) -> None:
        self.jump(self.loops[-1][0])

    def _Return(self, node: ast.Return) -> None:
        value = None if node.value is None else self.walk(node.value)
        self.give(node, value if isinstance(value, tuple) else () if value is None else (value,))

    def give(self, node: ast.AST, values: tuple[Value, ...]) -> None:
        kinds = tuple(value.kind for value in values)
        if self.results is None:
            self.results = kinds
        if kinds != self.results:
            raise self.fault(node, f"returns {kinds} here and {self.results} elsewhere")
        self.leave(values)

    # --- expressions -----------------------------------------------------------------------------------------------
    def known(self, found: Any) -> Any:
        """A number or truth value as LLVM's; anything else as it is."""
        if isinstance(found, bool):
            return Value("i1", str(found).lower())
        return Value("i64", str(int(found))) if isinstance(found, int) else found

    def _Constant(self, node: ast.Constant) -> Any:
        return self.known(node.value)

    def _Name(self, node: ast.Name) -> Any:
        if node.id in self.arrays:
            return self.arrays[node.id]
        if node.id in self.variables:
            return self.load(node.id)
        if node.id in self.names:
            raise self.fault(node, "is not assigned before")
        free = dict(zip(self.function.__code__.co_freevars, self.function.__closure__ or (), strict=True))
        if node.id in free:
            return self.known(free[node.id].cell_contents)
        return self.known({**vars(builtins), **self.function.__globals__}[node.id])

    def _Attribute(self, node: ast.Attribute) -> Any:
        return self.known(getattr(self.walk(node.value), node.attr))

    def _Tuple(self, node: ast.Tuple) -> tuple[Any, ...]:
        return tuple(self.walk(each) for each in node.elts)

    def number(self, node: ast.AST, value: Any) -> str:
        if not isinstance(value, Value) or value.kind != "i64":
            raise self.fault(node, f"expected an integer, found {value}")
        return value.text

    def truth(self, node: ast.expr) -> Value:
        value = self.walk(node)
        if not isinstance(value, Value) or value.kind != "i1":
            raise self.fault(node, f"expected a truth value, found {value}")
        return value

    def place(self, node: ast.Subscript) -> tuple[str, Kind]:
        """The address of a word, and whose it is."""
        base, index = self.walk(node.value), self.walk(node.slice)
        if not isinstance(base, Value) or base.kind not in ("words", "constants", "array"):
            raise self.fault(node, f"expected words, found {base}")
        code = f"getelementptr inbounds i64, ptr {base.text}, i64 {self.number(node, index)}"
        return self.value("words", code).text, base.kind

    def _Subscript(self, node: ast.Subscript) -> Value:
        place, kind = self.place(node)
        return self.value("i64", f"load i64, ptr {place}" + (", !invariant.load !0" if kind == "constants" else ""))

    def _BinOp(self, node: ast.BinOp) -> Value:
        return self.binary(node, self.walk(node.left), self.walk(node.right))

    def binary(self, node: "ast.BinOp | ast.AugAssign", a: Any, b: Any) -> Value:
        operation = type(node.op)
        if operation in _ROUNDED:
            return self.value("i64", f"call i64 @{_ROUNDED[operation]}(i64 {self.number(node, a)}, "
                                     f"i64 {self.number(node, b)})")
        truths = operation in (ast.BitAnd, ast.BitOr, ast.BitXor) and isinstance(a, Value) and a.kind == "i1"
        kind: Kind = "i1" if truths else "i64"
        if operation not in _BINARY or not (isinstance(a, Value) and isinstance(b, Value) and a.kind == b.kind == kind):
            raise self.fault(node, f"is not taken of {a} and {b}")
        return self.value(kind, f"{_BINARY[operation]} {a.typed}, {b.text}")

    def _UnaryOp(self, node: ast.UnaryOp) -> Value:
        if isinstance(node.op, ast.Not):
            return self.value("i1", f"xor i1 {self.truth(node.operand).text}, true")
        number = self.number(node, self.walk(node.operand))
        if isinstance(node.operand, ast.Constant) and isinstance(node.op, ast.USub):
            return Value("i64", f"-{number}")
        if isinstance(node.op, ast.Invert):
            return self.value("i64", f"xor i64 {number}, -1")
        return self.value("i64", f"sub i64 0, {number}")

    def _BoolOp(self, node: ast.BoolOp) -> Value:
        return self.until([partial(self.truth, x) for x in node.values], isinstance(node.op, ast.Or))

    def until(self, parts: Sequence[Callable[[], Value]], found: bool) -> Value:
        """Truth values one after the other until one is ``found``; whether one is (or else the last)."""
        after, ways = self.fresh("b"), []
        for part in parts[:-1]:
            value, following = part(), self.fresh("b")
            ways.append(f"[{str(found).lower()}, %{self.block}]")
            self.branch(value, *((after, following) if found else (following, after)))
            self.begin(following)
        last = parts[-1]()
        ways.append(f"[{last.text}, %{self.block}]")
        self.jump(after)
        self.begin(after)
        return self.value("i1", f"phi i1 {', '.join(ways)}")

    def _Compare(self, node: ast.Compare) -> Value:
        sides = [self.walk(node.left)]

        def next_part(operation: ast.cmpop, right: ast.expr) -> Value:
            sides.append(self.walk(right))
            a, b = (self.number(node, x) for x in sides[-2:])
            return self.value("i1", f"icmp {_COMPARED[type(operation)]} i64 {a}, {b}")

        pairs = list(zip(node.ops, node.comparators, strict=True))
        if len(pairs) == 1:
            return next_part(*pairs[0])
        return self.until([partial(next_part, *pair) for pair in pairs], False)

    def _IfExp(self, node: ast.IfExp) -> Value:
        yes, no, after = self.labels(3)
        self.branch(self.truth(node.test), yes, no)
        ways = []
        for label, side in ((yes, node.body), (no, node.orelse)):
            self.begin(label)
            ways.append((self.walk(side), self.block))
            self.jump(after)
        self.begin(after)
        (a, from_a), (b, from_b) = ways
        if not (isinstance(a, Value) and isinstance(b, Value) and a.kind == b.kind):
            raise self.fault(node, f"is {a} or {b}")
        return self.value(a.kind, f"phi {TYPES[a.kind]} [{a.text}, %{from_a}], [{b.text}, %{from_b}]")

    # --- calls -----------------------------------------------------------------------------------------------------
    def _Call(self, node: ast.Call) -> Any:
        function, given = self.walk(node.func), [self.walk(each) for each in node.args]
        if node.keywords or not all(isinstance(each, Value) for each in given):
            raise self.fault(node, "expected numbers and arrays in their order")
        if function in _OWN:
            return _OWN[function](self, node, given)
        if function not in plain.JITTED:
            raise self.fault(node, "is not jitted")
        made = self.module.made(function, tuple(each.kind for each in given))
        call = f"call fastcc {made.type} @{made.symbol}({_passed(given)})"
        if not made.results:
            return self.do(call)
        whole = self.value(made.results[0], call)
        if len(made.results) == 1:
            return whole
        return tuple(self.value(kind, f"extractvalue {made.type} {whole.text}, {i}")
                     for i, kind in enumerate(made.results))

    def _int(self, node: ast.Call, given: Sequence[Value]) -> Value:
        return self.value("i64", f"zext i1 {given[0].text} to i64") if given[0].kind == "i1" else given[0]

    def _len(self, node: ast.Call, given: Sequence[Value]) -> Value:
        if not given[0].length:
            raise self.fault(node, "expected an array")
        return Value("i64", given[0].length)

    def _extreme(self, which: str, node: ast.Call, given: Sequence[Value]) -> Value:
        found = given[0]
        for other in given[1:]:
            a, b = self.number(node, found), self.number(node, other)
            found = self.value("i64", f"call i64 @llvm.{which}.i64(i64 {a}, i64 {b})")
        return found

    def _trailing_zeros(self, node: ast.Call, given: Sequence[Value]) -> Value:
        return self.value("i64", f"call i64 @llvm.cttz.i64(i64 {self.number(node, given[0])}, i1 true)")

    def _copy_words(self, node: ast.Call, given: Sequence[Value]) -> None:
        target, to, source, begin, count = given
        a, b = (self.value("words", f"getelementptr inbounds i64, ptr {base.text}, i64 {self.number(node, at)}").text
                for base, at in ((target, to), (source, begin)))
        size = self.value("i64", f"shl i64 {self.number(node, count)}, 3").text
        self.do(f"call void @llvm.memcpy.p0.p0.i64(ptr align 8 {a}, ptr align 8 {b}, i64 {size}, i1 false)")


_OWN: dict[Any, Callable[[Body, ast.Call, Sequence[Value]], Any]] = {
    int: Body._int, len: Body._len,
    min: lambda body, node, given: body._extreme("smin", node, given),
    max: lambda body, node, given: body._extreme("smax", node, given),
    plain.word: lambda body, node, given: given[0],
    plain.pointer: lambda body, node, given: Value("words", given[0].text),
    plain.constant_pointer: lambda body, node, given: Value("constants", given[0].text),
    plain.trailing_zeros: Body._trailing_zeros, plain.copy_words: Body._copy_words,
}
"""Functions of Python and of :mod:`.plain`."""
