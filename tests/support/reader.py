"""Runs the blocks on stdin (JSON) in the current folder; the last line of stdout is a JSON list of what they printed.

A command that fails ends the run, unless its page shows its message.
"""

import contextlib
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

SHELL = 'set -e; archloom() { "$PYTHON" -m archloom "$@"; }; python() { "$PYTHON" "$@"; };\n'


def command(block: dict[str, Any]) -> str:
    done = subprocess.run(["bash", "-c", SHELL + block["text"]], capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return done.stdout
    if "archloom: " not in (block["shown"] or ""):
        sys.exit(f"{block['text']}ended with {done.returncode}:\n{done.stdout[-1000:]}{done.stderr[-3000:]}")
    return done.stdout + done.stderr


def python(block: dict[str, Any], known: dict[str, Any]) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(block["text"], block["name"], "exec"), known)
    return out.getvalue()


def main() -> None:
    known: dict[str, Any] = {"__name__": "page"}
    printed = []
    for block in json.load(sys.stdin):
        if block["kind"] == "file":
            Path(block["name"]).write_text(block["text"], encoding="utf-8")
        else:
            printed.append(command(block) if block["kind"] == "sh" else python(block, known))
    print(json.dumps(printed))


if __name__ == "__main__":
    main()
