"""Tries the properties that hold for every target (``tests/support/properties.py``), each for as long as is given.

The targets of a property take turns until its ``--seconds`` have passed, each has at least one. A case that fails in
any way is a violation; ``violations`` counts them, ``first`` says which seed draws the first one again. The seed is
another at each run and is printed: ``--seed`` tries the same cases, ``--property`` and ``--target`` some of them.
"""

from __future__ import annotations

import argparse
import secrets
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # this checkout, however the script is run:
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))  # its benchmarks, its tests and its archloom

from benchmarks.common import arguments, finish, refuse


@dataclass
class Row:
    """What was tried of a property for a target; ``pairs``: of those drawn, the ones that are cases of it."""

    property: str
    target: str
    pairs: int = 0
    violations: int = 0
    first: str = ""

    def attempt(self, seed: str) -> None:
        """Draw a case and try it."""
        from tests.support.properties import PROPERTIES

        try:
            self.pairs += PROPERTIES[self.property].holds(self.target, Random(seed))
        except Exception as error:  # whatever a case ends in is what is looked for
            self.pairs += 1
            self.violations += 1
            self.first = self.first or f"seed {seed}: {type(error).__name__}: {error}"


def tried(rows: list[Row], seed: str, seconds: float) -> Iterator[Row]:
    """The rows of a property, after their targets have taken turns for so long."""
    end, turn = time.monotonic() + seconds, 0
    while not turn or time.monotonic() < end:
        for row in rows:
            if not turn or time.monotonic() < end:
                row.attempt(f"{seed} {row.property} {row.target} {turn}")
        turn += 1
    yield from rows


def chosen(args: argparse.Namespace) -> list[list[Row]]:
    """Rows by property; ends with a message for a name that there is not."""
    from tests.support.properties import PROPERTIES

    names = args.property or list(PROPERTIES)
    if unknown := set(names) - set(PROPERTIES):
        refuse(f"no property {', '.join(sorted(unknown))}: there are {', '.join(PROPERTIES)}")
    found = [[Row(name, target) for target in PROPERTIES[name].targets if target in (args.target or [target])]
             for name in names]
    if not any(found):
        refuse(f"no target {', '.join(args.target)} of {', '.join(names)}")
    return found


def _more(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=60, help="for each property (60)")
    parser.add_argument("--seed", default=None, help="as it was printed")
    parser.add_argument("--property", action="append", help="only this one; repeatable")
    parser.add_argument("--target", action="append", help="only this one; repeatable")


def main() -> None:
    args = arguments((__doc__ or "").split("\n", maxsplit=1)[0], _more)
    seed = args.seed or secrets.token_hex(4)
    print("seed", seed)
    found: list[Row] = []
    for rows in chosen(args):
        for row in tried(rows, seed, args.seconds):
            print(f"{row.property:12} {row.target:16} {row.pairs:6} tried {row.violations:4} violations {row.first}")
            found.append(row)
    finish(args, {"seed": seed, "pairs": sum(row.pairs for row in found),
                  "violations": sum(row.violations for row in found), "rows": [asdict(row) for row in found]})


if __name__ == "__main__":
    main()
