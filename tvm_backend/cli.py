"""The command line: ``archloom COMMAND ...``.

Results go to stdout (with ``--json`` as one JSON object on one line), everything else to stderr. Exit status: 0, 1 (a
check failed), 2 (bad input: one message, no traceback), 130 (interrupted).
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import json
import os
import signal
import sys
from collections.abc import Collection, Sequence

import numpy as np

from archloom.oracle.errors import ArchloomError
from archloom.oracle.memory import memory_errors
from archloom.oracle.user_code import place_of, told
from archloom.tvm_backend.commands import (
    Outcome,
    analysis,
    asm,
    build,
    cache,
    doctor,
    explain,
    isa,
    mapping,
    search,
    targets,
    trace,
)
from archloom.tvm_backend.commands.colour import painted
from archloom.tvm_backend.commands.completion import complete
from archloom.tvm_backend.commands.interrupts import interruptible
from archloom.tvm_backend.commands.parser import BAD_INPUT, Parser
from archloom.tvm_backend.progress import messages
from archloom.tvm_backend.version import VERSION

COMMANDS = (targets, isa, build, analysis, search, explain, trace, asm, mapping, cache, doctor)
INTERRUPTED = 130
MOST_CHARACTERS = 2000
"""Of a line of a message."""


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands; each sets ``run``, a function from its arguments to an :class:`Outcome`."""
    parser = Parser(
        prog="archloom", description="One description of an accelerator in: compiler, bit-exact execution, cycles out.")
    parser.add_argument("--version", action="version", version=f"archloom {VERSION}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for command in COMMANDS:
        command.register(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    words = sys.argv[1:] if argv is None else argv
    if named := [word for word in words if "\0" in word]:
        return _fail(f"{named[0]!r}: expected words without the character of number 0")
    args = argparse.Namespace()
    with interruptible() as asked:
        try:
            parser = build_parser()
            complete(parser)
            args = parser.parse_args(argv)
            # libraries print where they like: stdout is the result's alone; infinities and NaN are values, no accidents
            with contextlib.redirect_stdout(sys.stderr), np.errstate(all="ignore"), messages(), memory_errors():
                outcome: Outcome = args.run(args)
            _print(outcome, args.json)
            return outcome.status
        except KeyboardInterrupt:
            return _fail("interrupted", INTERRUPTED)
        except Exception as error:
            return _fail("interrupted", INTERRUPTED) if asked() else _told(error, args)


def _told(error: Exception, args: argparse.Namespace) -> int:
    """The exit status of a command that ended with an error, after a message; a fault of our own is raised again."""
    match error:
        case ArchloomError():
            return _fail(str(error))
        case MemoryError():
            return _fail(f"{getattr(args, 'model', 'the command')}: needs more memory than there is")
        case BrokenPipeError():
            # the reader has seen enough (a pager, head): not an error, but Python must not flush into it again
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        case OSError():
            place = f"{error.filename}: " if error.filename else ""
            return _fail(f"{place}{error.strerror or error}")
    found = place_of(error)
    if found is None:
        raise error
    return _fail(f"{found}: {told(error)}")


def _print(outcome: Outcome, as_json: bool) -> None:
    text = json.dumps(outcome.data, allow_nan=False) if as_json else painted(outcome.text, sys.stdout)
    try:
        sys.stdout.write(text.rstrip("\n") + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OSError(error.errno, error.strerror, "standard output") from error


def _fail(message: str, status: int = BAD_INPUT) -> int:
    message = "\n".join(map(_shortened, message.split("\n")))
    with contextlib.suppress(OSError):  # where standard error cannot be written the status says it alone
        print(painted(f"archloom: {message}", sys.stderr), file=sys.stderr)
    return status


def _shortened(line: str) -> str:
    """A line of a message that may quote an input, however long that is."""
    more = len(line) - MOST_CHARACTERS
    return line if more <= 0 else f"{line[:MOST_CHARACTERS]} ... ({more:,} characters more)"


def _open_streams() -> None:
    """Let standard streams that are closed lead nowhere: a file that is opened would take the place of one, and get
    what libraries print."""
    while (place := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(place)
    sys.stdout, sys.stderr = sys.stdout or os.fdopen(1, "w"), sys.stderr or os.fdopen(2, "w")


def entry(signals: Collection[int] | None = None) -> None:
    """Run one command and end the process without taking apart what libraries have built, which takes seconds.

    ``signals`` are those that wait from now on, where others have waited until now.

    What they registered to be done at the end is done: Python calls first what was registered last.
    """
    _open_streams()
    status = 1  # of an exception that is no command's outcome
    atexit.register(lambda: os._exit(status))
    try:
        if signals is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, signals)
        status = main()
    except SystemExit as left:  # argparse has said what there is to say
        status = left.code if isinstance(left.code, int) else 0
    except KeyboardInterrupt:  # before the command had begun
        status = INTERRUPTED
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # too late: all is done and said
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            stream.flush()
    sys.exit(status)


if __name__ == "__main__":
    entry()
