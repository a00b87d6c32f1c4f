"""Texts of a few kilobytes that ask for much: ``python -m tests.support.oracle.taidl_hostile`` checks each of them.

It prints one line for each text, and ends with an error where one raises anything but ArchloomError.
"""

from __future__ import annotations

import resource
import sys

from archloom.oracle import taidl
from archloom.oracle.errors import ArchloomError
from archloom.oracle.taidl.parser import parse
from archloom.oracle.taidl.printer import print_isa

MEMORY = 3 << 30
"""Bytes of address space for a process that reads these texts."""

HEAD = "isa t;\nparam p = 2 in 1..8;\n[b] (8) (4 x i8);\nr = 0;\n"


def instruction(body: str, before: str = "") -> str:
    return f"{HEAD}{before}[i](a) {{ {body} }}\n"


def expression(text: str) -> str:
    return instruction(f"r = {text};")


def doubling(levels: int) -> str:
    """``def`` blocks that would be 2^levels statements in place."""
    defs = "def f0() { r = r + 1; }\n"
    return defs + "".join(f"def f{n}() {{ f{n - 1}(); f{n - 1}(); }}\n" for n in range(1, levels))


def chain(levels: int) -> str:
    return "def f0() { r = 1; }\n" + "".join(f"def f{n}() {{ f{n - 1}(); }}\n" for n in range(1, levels))


HOSTILE = {
    "parentheses": expression("(" * 2000 + "a" + ")" * 2000),
    "open parentheses": expression("(" * 4000),
    "parentheses around types": instruction("%T:" + "(" * 2000 + "1" + ")" * 2000 + "xi8 = constant(0);"),
    "signs": expression("-" * 4000 + "a"),
    "negations": instruction("assert(" + "!" * 4000 + "(a == 1));"),
    "a long sum": expression(" + ".join(["a"] * 1500)),
    "a long product": expression(" * ".join(["a"] * 1500)),
    "a long comparison": instruction("assert(" + " && ".join(["a == 1"] * 600) + ");"),
    "nested functions": expression("min(a, " * 800 + "1" + ")" * 800),
    "nested elements": instruction("r = " + "q[" * 1500 + "0" + "]" * 1500 + ";", "q[4] = 0;\n"),
    "nested quotients": expression("(" * 45 + "a" + " // 3) % 5" * 45),
    "nested products of names": expression("(" * 45 + "a" + " + r) * a" * 45),
    "IFs": instruction("IF (a == 1) { " * 1500 + "}" * 1500),
    "IFs that are open": instruction("IF (a == 1) { " * 2500),
    "REPEATs": instruction("REPEAT (k, 9) { " * 1500 + "}" * 1500),
    "a long REPEAT": instruction("REPEAT (k, 1000000000000) { r = r + 1; }"),
    "many IFs, one after the other": instruction("IF (a == 1) { r = 1; } ELSE { r = 2; } " * 120),
    "blocks of blocks": instruction("f39();", doubling(40)),
    "blocks in a chain": instruction("f299();", chain(300)),
    "a block that calls itself": instruction("f();", "def f() { g(); }\ndef g() { f(); }\n"),
    "a huge number": expression("9" * 8000),
    "a huge hexadecimal number": expression("0x" + "f" * 8000),
    "a hexadecimal number without digits": expression("0x___"),
    "a huge suffix": f"isa t; [b] ({'9' * 290}M x {'9' * 290}M) (i8);",
    "a huge float": instruction("%T:f32 = constant(1e999999);"),
    "a huge shift": expression("2 << 10000000000"),
    "a huge shift of parameters": "isa t; param p = 1 in 1..9; const c = p << (p << 62);",
    "squares of squares": "isa t; const c0 = 10;\n" + "".join(
        f"const c{n} = c{n - 1} * c{n - 1};\n" for n in range(1, 60)),
    "squares in an instruction": "isa t; const c0 = 10;\n" + "".join(
        f"const c{n} = c{n - 1} + c{n - 1};\n" for n in range(1, 400)) + "[i](a) { assert(a << c399 > 0); }",
    "a buffer of terabytes": "isa t; [b] (1M x 1M) (1M x i8); [i](a) { %T:1x1Mx1Mxi8 <- $b[a]; }",
    "a tensor of terabytes": instruction("%T:1Mx1Mx1Mx1Mxi8 = constant(0); %U:1Mx1Mx1Mx1Mxi8 = negate(%T);"),
    "a convolution of terabytes": instruction("%T:1Mx1Mxi8 = iota(dim=1); %U:1Mxi8 = reduce(%T, dim={1}, kind=add);"),
    "registers without end": "isa t; r[1000000000000] = 0; [i](a) { r[a] = 1; }",
    "many axes": instruction("%T:" + "1x" * 2000 + "i8 = constant(0); %U:" + "1x" * 2000 + "i8 = negate(%T);"),
    "many axes of a buffer": f"isa t; [b] ({'x'.join(['1'] * 2000)}) (i8); [i](a) {{ %T:1xi8 <- $b[a]; }}",
    "many axes of a slice": instruction("%T:4xi8 <- $b[" + ", ".join(["a"] * 2000) + "];"),
    "a long window": instruction("%T:4xi8 <- $hbm[a + {" + ", ".join(["2 : 1"] * 1000) + "}];"),
    "a long list": instruction("%T:4xi8 = iota(dim=0); %U:4xi8 = transpose(%T, dim={" + "0, " * 3000 + "0});"),
    "comments": instruction("#" * 5000 + "\n") + "[j](a)" + "#" * 5000,
    "comments before a parenthesis": HEAD + "[j](a) " + "#" * 60 + "\n" + "# #" * 60 + "\n {}",
    "comments after a plus": instruction("r = a + " + "#" * 60 + "\n" + "#" * 60 + "\n 1;"),
    "names in a head": f"{HEAD}[i]({', '.join(f'a{n}' for n in range(1500))} {{ }}",
    "spaces in a head": f"{HEAD}[i](a{' ' * 3000}a{' ' * 3000}){{ }}",
    "a long name": instruction("r = " + "n" * 5000 + ";"),
    "many unknown names": instruction(" ".join(f"r = unknown{n};" for n in range(400))),
    "a letter that is a digit elsewhere": expression("\u0661\u0662"),
    "controls": HEAD + "\x00\x0b\x0c\u2028\x85 [i]\u2028() { r = \x00; }",
    "surrogates": HEAD + "[\ud800]() { }",
    "quantized without end": instruction(f"%T:4x!quant.uniform<i8:f32, {'9' * 400}> = constant(0);"),
    "quantized by nothing": instruction("%T:4x!quant.uniform<i8:f32, 0.0:999999999999> = constant(0);"),
    "a step of zero": instruction("%T:4x4xi8 <- $b[::0]; %U:4x4xi8 <- $b[::-0];"),
    "backwards without end": instruction("%T:4xi8 <- $hbm[::-1]; %U:4xi8 <- $hbm[-1:];"),
    "a parameter's range": f"isa t; param p = {'9' * 299} in 0..{'9' * 300};",
    "nothing": "",
    "an empty head": "isa",
    "a bracket": "[",
    "text after the end": HEAD + "}" * 1000,
    "faults without end": HEAD + "[i](a) { ? }\n" * 600,
}


def outcome(text: str) -> str:
    """``sound`` for a description that checks and prints to itself, else the first line of its error."""
    try:
        tree = parse(text)
        if parse(print_isa(tree)) != tree:
            raise AssertionError("the printed text is another description")
        taidl.instantiate(tree, {})
    except ArchloomError as error:
        return str(error).splitlines()[0][:150]
    return "sound"


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    for name, text in HOSTILE.items():
        print(f"{name}: {outcome(text)}".encode("ascii", "replace").decode(), flush=True)
    sys.exit(0)
