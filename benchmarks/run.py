"""Runs a benchmark by its name, in whichever folder it lies: ``python benchmarks/run.py NAME [its arguments]``."""

from __future__ import annotations

import os
import sys
from difflib import get_close_matches
from pathlib import Path

HERE = Path(__file__).resolve().parent


def scripts() -> dict[str, Path]:
    """The scripts here and in the folders by name; ValueError where two have one name."""
    found: dict[str, Path] = {}
    for path in sorted([*HERE.glob("*.py"), *HERE.glob("*/*.py")]):
        if 'if __name__ == "__main__":' not in path.read_text(encoding="utf-8"):
            continue
        if path.stem in found:
            raise ValueError(f"{path} and {found[path.stem]} have one name")
        found[path.stem] = path
    return found


def find(name: str) -> Path:
    """The script of a name, with or without ``benchmarks/`` before and ``.py`` behind it; SystemExit for no script."""
    there = scripts()
    stem = Path(name).stem
    if stem not in there:
        near = get_close_matches(stem, there, 1)
        raise SystemExit(f"no benchmark {name!r}{f'; did you mean {near[0]}?' if near else ''}\n"
                         f"there are {', '.join(sorted(there))}")
    return there[stem]


def main() -> None:
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        print(__doc__, *(f"{name:20} {path.parent.name}" for name, path in scripts().items()), sep="\n")
        return
    os.execv(sys.executable, [sys.executable, str(find(sys.argv[1])), *sys.argv[2:]])


if __name__ == "__main__":
    main()
