"""Random small changes of the core of oracle, timing and mapper: do the tests find them?

    python -m tests.mutants --count 200 --seed 1 --jobs 2     # draws, tries, prints who survived
    python -m tests.mutants --show                            # what is known so far

A mutant is one change of one place: a comparison, ``and`` and ``or``, a ``not``, plus or minus one, a constant, or a
statement that is left out. It is tried in a git worktree of its own against the tests of its file (`CORE`), which end
at the first failure. It is killed if they fail or do not end in time, and survives if they pass. Outcomes are added to
a file line by line, so that a run that was interrupted goes on where it was; those of files that have changed since do
not count. Mutants of uncommitted changes are not drawn: what is tried is the commit that is checked out.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import hashlib
import json
import os
import queue
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "data" / "mutants.jsonl"

ENGINE = ("acadl_models/timing/engine/test_engine_plain.py",  # needs no compilation to find most faults
          "acadl_models/timing/engine/test_engine_snapshots.py", "acadl_models/timing/engine/test_engine_marks.py",
          "acadl_models/timing/engine/test_engine_random.py", "acadl_models/timing/engine/test_engine_steady.py",
          "acadl_models/timing/test_memories_steady.py", "acadl_models/traces/test_trace_windows.py")
REFERENCE = ("acadl_models/timing/test_timing_reference.py", "acadl_models/timing/test_timing_storages.py",
             "acadl_models/timing/test_timing_semantics.py", "acadl_models/timing/test_timing_memories.py",
             "acadl_models/timing/test_timing_properties.py", "acadl_models/timing/engine/test_engine_random.py")
RAISING = ("oracle/xla",)
MAPPER = ("mapper/test_search.py", "mapper/test_pipeline.py", "mapper/test_one_mapper.py",
          "mapper/test_options_hardware.py", "mapper/test_explore.py")

CORE: dict[str, dict[str, Sequence[str]]] = {
    "oracle": {
        "oracle/affine.py": ("oracle/streams",),
        "oracle/accesses.py": ("oracle/streams", "acadl_models/timing/test_timing_properties.py"),
        "oracle/interpreter.py": ("oracle/streams", "oracle/isas/test_interpreter_gemmini.py"),
        "oracle/resolve.py": ("oracle/streams",),
        "oracle/resolution/execution.py": ("oracle/streams",),
        "oracle/resolution/registers.py": ("oracle/streams",),
        "oracle/resolution/specialize.py": ("oracle/streams",),
        "oracle/rolling.py": ("oracle/streams",),
        "oracle/taidl/check.py": ("oracle/taidl",),
        "oracle/taidl/canonical.py": ("oracle/taidl",),
        "oracle/taidl/declarations.py": ("oracle/taidl",),
        "oracle/taidl/slice_types.py": ("oracle/taidl",),
        "oracle/taidl/evaluate.py": ("oracle/taidl", "oracle/streams"),
        "oracle/xla/raising/*.py": RAISING,
        "oracle/xla/notation/*.py": RAISING,
        "oracle/xla/lowering/*.py": RAISING,
    },
    "timing": {
        "acadl_models/timing/routing.py": ("acadl_models/timing/test_timing_routing.py", *ENGINE),
        "acadl_models/timing/placing.py": REFERENCE,
        "acadl_models/timing/binding.py": REFERENCE,
        "acadl_models/timing/reference/*.py": REFERENCE,
        "acadl_models/timing/memories/*.py": (
            "acadl_models/timing/test_memories_cache.py", "acadl_models/timing/test_memories_dram.py",
            "acadl_models/timing/test_memories_channels.py", *REFERENCE),
        "acadl_models/timing/engine/lowering/*.py": ENGINE,
        "acadl_models/timing/engine/phases/*.py": ENGINE,
        "acadl_models/timing/engine/skipping/*.py": ENGINE,
    },
    "mapper": {
        "mapper/costs/pipeline.py": MAPPER,
        "mapper/costs/rates.py": MAPPER,
        "mapper/search.py": MAPPER,
        "mapper/space.py": MAPPER,
        "mapper/hardware.py": MAPPER,
        "mapper/tiling.py": MAPPER,
        "mapper/reuse.py": MAPPER,
        "mapper/costs/lines.py": MAPPER,
        "mapper/costs/compute.py": ("mapper/test_peak.py", *MAPPER),
        "uma_targets/gemmini/loops.py": (*MAPPER, "mapper/test_emit.py"),
    },
}
"""By group: files of the core, and the tests below ``tests/`` that are nearest to them."""

COMPARISONS = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"), ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="), ast.Is: ("is", "is not"), ast.IsNot: ("is not", "is"), ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
LEAST_LIMIT, TIMES = 120.0, 3.0
"""Seconds that tests of a mutant may take: so many, or so many times what they take without a change."""


@dataclass(frozen=True)
class Mutant:
    """``text`` in place of the characters from ``start`` to ``stop`` of a file."""

    group: str
    path: str
    start: int
    stop: int
    text: str
    source: str
    """A digest of the file as it was: another file has other mutants."""

    @property
    def name(self) -> str:
        words = json.dumps(asdict(self), sort_keys=True)
        return hashlib.sha256(words.encode()).hexdigest()[:12]

    def applied(self, source: str) -> str:
        return source[:self.start] + self.text + source[self.stop:]

    def diff(self, source: str) -> str:
        lines = [text.splitlines() for text in (source, self.applied(source))]
        return "\n".join(difflib.unified_diff(*lines, self.path, self.path, n=1, lineterm=""))


class _Places(ast.NodeVisitor):
    """Collects changes as (first character, last character, new text)."""

    def __init__(self, source: str) -> None:
        self.source, self.found = source, list[tuple[int, int, str]]()
        lines = source.splitlines(keepends=True)
        self.begins = [sum(map(len, lines[:i])) for i in range(len(lines) + 1)]
        self.encoded = [line.encode() for line in lines]
        self.function = 0
        """How deep in functions the visitor is."""

    def at(self, line: int, column: int) -> int:
        """The character at a place of the syntax tree, which counts bytes."""
        return self.begins[line - 1] + len(self.encoded[line - 1][:column].decode())

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self.at(node.lineno, node.col_offset), self.at(node.end_lineno, node.end_col_offset)

    def between(self, left: ast.expr, right: ast.expr, word: str, other: str) -> None:
        """Another operator between two operands."""
        start, stop = self.span(left)[1], self.span(right)[0]
        pattern = r"\s+".join(map(re.escape, word.split()))
        found = re.search(rf"(?<![\w<>=!]){pattern}(?![\w<>=])" if word.isalpha() or " " in word else pattern,
                          self.source[start:stop])
        if found:
            self.found.append((start + found.start(), start + found.end(), other))

    def visit_Compare(self, node: ast.Compare) -> None:
        left = node.left
        for operator, right in zip(node.ops, node.comparators, strict=True):
            self.between(left, right, *COMPARISONS[type(operator)])
            left = right
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        word, other = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            self.between(left, right, word, other)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self.found.append((self.span(node)[0], self.span(node.operand)[0], ""))
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if isinstance(node.op, ast.Add | ast.Sub | ast.Mult | ast.FloorDiv) and not isinstance(node.left, ast.Constant):
            start, stop = self.span(node)
            self.found += [(start, stop, f"({self.source[start:stop]} {more})") for more in ("+ 1", "- 1")]
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self.found.append((*self.span(node), str(not node.value)))
        elif isinstance(node.value, int):
            self.found += [(*self.span(node), str(node.value + more)) for more in (1, -1)]

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self.function += 1
        for statement in node.body:  # not what it is decorated with, nor its types
            self.visit(statement)
        self.function -= 1

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for statement in node.body:
            self.visit(statement)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Raise(self, node: ast.Raise) -> None:
        self.found.append((*self.span(node), "pass"))  # what a message says is no part of the core

    def visit_Assert(self, node: ast.Assert) -> None:
        """Left as it is: it states what holds."""

    def visit(self, node: ast.AST) -> None:
        if self.function and isinstance(node, ast.Assign | ast.AugAssign | ast.Expr | ast.Continue | ast.Break):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                return  # a docstring
            # without a name's only assignment nothing would run
            if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name | ast.Tuple):
                self.found.append((*self.span(node), "pass"))
        super().visit(node)


def mutants_of(group: str, path: str) -> Iterator[Mutant]:
    source = (ROOT / path).read_text(encoding="utf-8")
    places = _Places(source)
    places.visit(ast.parse(source))
    digest = hashlib.sha256(source.encode()).hexdigest()[:12]
    for start, stop, text in sorted(set(places.found)):
        mutant = Mutant(group, path, start, stop, text, digest)
        try:
            compile(mutant.applied(source), path, "exec")
        except SyntaxError:
            continue
        yield mutant


def files() -> dict[str, tuple[str, Sequence[str]]]:
    """The group and the tests of every file of the core."""
    found: dict[str, tuple[str, Sequence[str]]] = {}
    for group, patterns in CORE.items():
        for pattern, tests in patterns.items():
            paths = sorted(p for p in ROOT.glob(pattern) if p.name != "__init__.py")
            missing = [test for test in tests if not (ROOT / "tests" / test).exists()]
            if not paths or missing:
                raise SystemExit(f"tests/mutants.py: {missing or pattern}: no such file; CORE names where it was")
            found |= {p.relative_to(ROOT).as_posix(): (group, tests) for p in paths}
    return found


def drawn(count: int, seed: int, only: str) -> list[Mutant]:
    """As many of each group, the first ones of a larger count; those of other files do not change with a file."""
    every: dict[str, list[Mutant]] = {group: [] for group in CORE}
    for path, (group, _) in files().items():
        if only in path:
            every[group] += mutants_of(group, path)
    for mutants in every.values():
        mutants.sort(key=lambda mutant: hashlib.sha256(f"{seed} {mutant.name}".encode()).digest())
    order = [mutants[i] for i in range(max(map(len, every.values()))) for mutants in every.values() if i < len(mutants)]
    return order[:count]


class Worker:
    """A worktree in which mutants are tried, one after the other."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        subprocess.run(["git", "worktree", "add", "--detach", "--quiet", str(folder)], cwd=ROOT, check=True)
        self.limits: dict[Sequence[str], float] = {}
        self.said = ""

    def remove(self) -> None:
        subprocess.run(["git", "worktree", "remove", "--force", str(self.folder)], cwd=ROOT, check=True)

    def tests(self, tests: Sequence[str], limit: float | None) -> tuple[str, float]:
        """``killed``, ``killed: time`` or ``survived``, and seconds; `said` is the end of what was printed."""
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(self.folder / "src"), str(self.folder)]),
                       "PYTHONDONTWRITEBYTECODE": "1", "ARCHLOOM_CACHE_DIR": str(self.folder / "build" / "cache")}
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-m", "not slow", "-p", "no:cacheprovider",
                   *(f"tests/{test}" for test in tests)]
        began = time.monotonic()
        with subprocess.Popen(command, cwd=self.folder, env=environment, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, start_new_session=True) as run:
            try:
                said, _ = run.communicate(timeout=limit)
            except subprocess.TimeoutExpired:
                os.killpg(run.pid, signal.SIGKILL)  # with the processes that tests have started
                return "killed: time", time.monotonic() - began
        self.said = said.decode(errors="replace")[-3000:]
        return "killed" if run.returncode else "survived", time.monotonic() - began

    def limit(self, tests: Sequence[str]) -> float:
        """What the tests may take; they have to pass where nothing is changed."""
        if tests not in self.limits:
            outcome, seconds = self.tests(tests, None)
            if outcome != "survived":
                raise SystemExit(f"{', '.join(tests)}: fail without a mutant\n{self.said}")
            self.limits[tests] = max(LEAST_LIMIT, TIMES * seconds)
        return self.limits[tests]

    def outcome(self, mutant: Mutant, tests: Sequence[str]) -> tuple[str, float]:
        limit, path = self.limit(tests), self.folder / mutant.path
        source = path.read_text(encoding="utf-8")
        if hashlib.sha256(source.encode()).hexdigest()[:12] != mutant.source:
            raise SystemExit(f"{mutant.path} has changes that are not committed")
        path.write_text(mutant.applied(source), encoding="utf-8")
        try:
            return self.tests(tests, limit)
        finally:
            path.write_text(source, encoding="utf-8")


def known(results: Path) -> dict[str, dict[str, object]]:
    if not results.exists():
        return {}
    entries = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]
    return {entry["name"]: entry for entry in entries}


def tried(mutants: Sequence[Mutant], results: Path, jobs: int) -> None:
    """Try those that are not known yet, and add what becomes of them to ``results``."""
    of, done = files(), known(results)
    waiting = [m for m in mutants if m.name not in done]
    results.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, results.open("a", encoding="utf-8") as file:
        workers = [Worker(Path(folder) / str(i)) for i in range(jobs)]
        free: queue.Queue[Worker] = queue.Queue()
        for worker in workers:
            free.put(worker)

        def one(mutant: Mutant) -> None:
            worker = free.get()
            try:
                outcome, seconds = worker.outcome(mutant, of[mutant.path][1])
            finally:
                free.put(worker)
            diff = mutant.diff((ROOT / mutant.path).read_text(encoding="utf-8"))
            entry = {"name": mutant.name, "group": mutant.group, "outcome": outcome, "seconds": round(seconds, 1),
                     "diff": diff}
            file.write(json.dumps(entry) + "\n")
            file.flush()
            print(f"{outcome} after {seconds:.0f} s\n{diff}\n", flush=True)

        try:
            with ThreadPoolExecutor(jobs) as pool:
                for _ in pool.map(one, waiting):
                    pass
        finally:
            for worker in workers:
                worker.remove()


def show(entries: Sequence[dict[str, object]]) -> None:
    """The survivors, and how many were killed by group."""
    for entry in entries:
        if entry["outcome"] == "survived":
            print(f"{entry['diff']}\n")
    for group in CORE:
        found = Counter(str(e["outcome"]).split(":")[0] for e in entries if e["group"] == group)
        print(f"{group}: {found['killed']} of {found.total()} killed")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200, help="how many mutants")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2, help="how many at the same time")
    parser.add_argument("--only", default="", help="files whose path has this in it")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--list", action="store_true", help="print what would be tried")
    parser.add_argument("--show", action="store_true", help="print what is known")
    options = parser.parse_args()
    if options.show:
        show(list(known(options.results).values()))
        return
    mutants = drawn(options.count, options.seed, options.only)
    if options.list:
        print("\n\n".join(m.diff((ROOT / m.path).read_text(encoding="utf-8")) for m in mutants))
        return
    tried(mutants, options.results, options.jobs)
    done = known(options.results)
    show([done[m.name] for m in mutants])


if __name__ == "__main__":
    main()
