"""What the code is like, in numbers: lines, folders, circles of imports, long functions, lines that stand twice.

``lines`` and ``files`` are those of the six packages. ``most_modules`` is the number of modules of the fullest folder
of the checkout. ``circles`` counts groups of modules that import each other by any way, at
whatever place an import stands, but for those that only type checkers see. ``long_functions`` are functions and methods
past 60 lines. ``pairs_alike`` counts pairs of places outside of tests with 8 or more lines of code after one another
that are alike but for names of variables, numbers and strings. Lines without a call, an attribute or a statement do
not count, nor do imports, heads of classes, fields and docstrings.

``--tree`` looks at another checkout, of any age: packages may lie at its top under their own names or below
``archloom``. ``--list`` names what was counted.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import keyword
import re
import subprocess
import tokenize
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import networkx

PACKAGES = ("acadl_models", "mapper", "models", "oracle", "tvm_backend", "uma_targets")
LONG, RUN = 60, 8
_LAYOUT = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)


@dataclass(frozen=True)
class Module:
    """A Python file of a checkout; ``path`` is relative to it."""

    path: Path
    text: str

    @property
    def name(self) -> str:
        """Dotted, from the folder at the top; of a package the folder's."""
        return ".".join(p for p in self.path.with_suffix("").parts if p != "__init__")

    @property
    def in_packages(self) -> bool:
        return self.path.parts[0] in PACKAGES

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)


def modules(root: Path) -> list[Module]:
    """All Python files that git knows, but for links."""
    names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.py"], cwd=root, capture_output=True,
                           text=True, check=True)
    found = sorted(Path(name) for name in names.stdout.splitlines())
    return [Module(path, (root / path).read_text(encoding="utf-8")) for path in found if (root / path).is_file()]


def folders(found: Iterable[Module]) -> dict[str, int]:
    """Modules in each folder, the fullest first."""
    counts: dict[str, int] = defaultdict(int)
    for module in found:
        counts[str(module.path.parent)] += 1
    return dict(sorted(counts.items(), key=lambda item: -item[1]))


def long_functions(found: Iterable[Module]) -> list[str]:
    """Functions of the packages past ``LONG`` lines."""
    return [f"{module.path}:{node.lineno} {node.name}" for module in found if module.in_packages
            for node in ast.walk(module.tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
            and (node.end_lineno or node.lineno) - node.lineno + 1 > LONG]


def imports(module: Module, known: Mapping[str, Module]) -> Iterator[str]:
    """The known modules that ``module`` imports at run time, anywhere."""
    waiting: list[ast.AST] = [module.tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            waiting += node.orelse
            continue
        waiting += ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [name if (name := f"{node.module}.{alias.name}").removeprefix("archloom.") in known else node.module
                     for alias in node.names]
        else:
            continue
        yield from (short for name in names if (short := name.removeprefix("archloom.")) in known)


def circles(found: Iterable[Module]) -> list[list[str]]:
    """Strongly connected groups of more than one module of the packages the largest first."""
    known = {module.name: module for module in found if module.in_packages}
    after = {name: set(imports(module, known)) - {name} for name, module in known.items()}
    graph = networkx.DiGraph((name, other) for name, others in after.items() for other in others)
    groups = [sorted(group) for group in networkx.strongly_connected_components(graph) if len(group) > 1]
    return sorted(groups, key=len, reverse=True)


def shapes(module: Module) -> list[tuple[int, str]]:
    """Each line of code that counts: its number, and its tokens with ``n``, ``1``, ``""`` for variables and values."""
    left_out = {number for node in ast.walk(module.tree)
                if isinstance(node, (ast.Import, ast.ImportFrom, ast.AnnAssign))
                or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
                for number in range(node.lineno, (node.end_lineno or node.lineno) + 1)}
    left_out |= {node.lineno for definition in ast.walk(module.tree) if isinstance(definition, ast.ClassDef)
                 for node in (definition, *definition.decorator_list)}
    lines: dict[int, list[str]] = defaultdict(list)
    tokens = [token for token in tokenize.generate_tokens(io.StringIO(module.text).readline)
              if token.start[0] not in left_out and token.type not in _LAYOUT]
    for before, token, after in zip([None, *tokens], tokens, [*tokens[1:], None]):
        stands = {tokenize.NUMBER: "1", tokenize.STRING: '""'}.get(token.type, token.string)
        plain = (token.type == tokenize.NAME and not keyword.iskeyword(token.string)
                 and not (before and before.string == ".") and not (after and after.string == "("))
        lines[token.start[0]].append("n" if plain else stands)
    return [(number, text) for number, words in sorted(lines.items())
            if re.search("[a-zA-Z]{2}", text := " ".join(words))]


def pairs_alike(found: Iterable[Module]) -> list[str]:
    """Pairs of places outside of tests with ``RUN`` or more lines of one shape after one another."""
    places: dict[tuple[str, ...], list[tuple[int, int]]] = defaultdict(list)
    files = [(module, shapes(module)) for module in found if module.path.parts[0] != "tests"]
    for file, (_, lines) in enumerate(files):
        for begin in range(len(lines) - RUN + 1):
            places[tuple(text for _, text in lines[begin:begin + RUN])].append((file, begin))
    pairs = set()
    for where in places.values():
        pairs |= {(one, other) for i, one in enumerate(where) for other in where[i + 1:]
                  if one[0] != other[0] or other[1] - one[1] >= RUN}
    first = [(one, other) for one, other in sorted(pairs)
             if ((one[0], one[1] - 1), (other[0], other[1] - 1)) not in pairs]

    def place(where: tuple[int, int]) -> str:
        module, lines = files[where[0]]
        return f"{module.path}:{lines[where[1]][0]}"

    return [f"{place(one)} {place(other)}" for one, other in first]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tree", type=Path, default=Path(__file__).resolve().parents[1], help="the checkout")
    parser.add_argument("--list", action="store_true", help="name what was counted")
    parser.add_argument("--json", action="store_true", help="end with one JSON object on the last line of stdout")
    args = parser.parse_args()
    found = modules(args.tree)
    packages = [module for module in found if module.in_packages]
    full = folders(found)
    long, round_, alike = long_functions(found), circles(found), pairs_alike(found)
    if args.list:
        print(*(f"circle: {' '.join(group)}" for group in round_), sep="\n")
        print(*(f"long: {name}" for name in long), sep="\n")
        print(*(f"alike: {pair}" for pair in alike), sep="\n")
    result = {
        "lines": sum(module.text.count("\n") for module in packages),
        "files": len(packages),
        "most_modules": max(full.values()),
        "circles": len(round_),
        "long_functions": len(long),
        "pairs_alike": len(alike),
        "test_lines": sum(module.text.count("\n") for module in found if module.path.parts[0] == "tests"),
    }
    for key, value in result.items():
        print(f"{key:16} {value:,}")
    if args.json:
        print(json.dumps(result))


if __name__ == "__main__":
    main()
