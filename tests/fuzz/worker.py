"""A process that takes commands of the command line one after another, to be stopped in the midst of them."""

from __future__ import annotations

import fcntl
import json
import os
import resource
import select
import signal
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from tests.support.limited import GRACE_SECONDS, MEMORY, SECONDS, UNEXPECTED, Outcome, limit

TURNS = 16
"""Commands that one process takes: its first ones meet what is done once, the later ones take less time."""
INTERRUPTED = 130
MOST_PRINTED = 1 << 20
"""Bytes of standard error, which goes through a pipe: where no file may grow, what a command says must still be seen.
The pipe holds them; who prints more waits, and is a hang."""


class Worker:
    """A fork that is there when the first command begins, and again when a signal has ended it."""

    def __init__(self) -> None:
        self.child, self.turns = 0, 0
        self.asks: BinaryIO
        self.answers: BinaryIO
        self.errors: BinaryIO

    def begin(self, words: Sequence[str], folder: Path, cache: Path, most: int | None = None) -> None:
        """Let it do a command in a folder, where no file may grow beyond ``most`` bytes; it is under way now."""
        if self.turns >= TURNS:
            self.end()
        if not self.child:
            self._fork()
        self.turns += 1
        self.asks.write(json.dumps([words, str(folder), str(cache), most]).encode() + b"\n")
        self.answers.readline()

    def ended(self, seconds: float) -> Outcome | None:
        """What came of the command; None where it has not ended after ``seconds``."""
        if not select.select([self.answers], [], [], seconds)[0]:
            return None
        line = self.answers.readline()
        printed = self._printed()
        return Outcome(json.loads(line) if line else self._reaped(), printed)

    def outcome(self) -> Outcome:
        """What came of the command, whose end is awaited."""
        if found := self.ended(SECONDS + GRACE_SECONDS):
            return found
        printed = self._printed()
        self.end()
        return Outcome(-signal.SIGALRM, printed)

    def signal(self, how: signal.Signals) -> None:
        """Send it a signal."""
        os.kill(self.child, how)

    def end(self) -> None:
        """End it, whatever it does."""
        if self.child:
            os.kill(self.child, signal.SIGKILL)
            self._reaped()

    def _printed(self) -> str:
        found = b""
        while part := self.errors.read(MOST_PRINTED):
            found += part
        return found.decode(errors="replace")

    def _reaped(self) -> int:
        status = os.waitstatus_to_exitcode(os.waitpid(self.child, 0)[1])
        for end in (self.asks, self.answers, self.errors):
            end.close()
        self.child = self.turns = 0
        return status

    def _fork(self) -> None:
        (asked, asks), (answers, answer), (errors, error) = os.pipe(), os.pipe(), os.pipe()
        self.child = os.fork()
        if self.child == 0:
            for end in (asks, answers, errors):
                os.close(end)
            try:
                os.dup2(error, 2)
                _serve(asked, answer)
            finally:  # nothing that is raised leaves the child
                os._exit(UNEXPECTED)
        for end in (asked, answer, error):
            os.close(end)
        os.set_blocking(errors, False)
        fcntl.fcntl(errors, fcntl.F_SETPIPE_SZ, MOST_PRINTED)
        self.asks, self.answers, self.errors = (os.fdopen(end, mode, buffering=0) for end, mode in (
            (asks, "wb"), (answers, "rb"), (errors, "rb")))


def _serve(asked: int, answer: int) -> None:
    """Do commands until nobody asks for more. Interrupts count from when one has begun until it has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    with os.fdopen(asked, "rb", buffering=0) as questions:
        while line := questions.readline():
            words, folder, cache, most = json.loads(line)
            os.chdir(folder)
            os.environ["ARCHLOOM_CACHE_DIR"] = cache
            limit(MEMORY, SECONDS)
            _bound(most)
            status = _done(words, answer)
            _bound(None)
            os.write(answer, json.dumps(status).encode() + b"\n")


def _bound(most: int | None) -> None:
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard if most is None else most, hard))


def _done(words: Sequence[str], answer: int) -> int:
    """The exit status of a command."""
    from archloom.tvm_backend import cli

    try:
        try:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            os.write(answer, b"\n")
            return cli.main(words)
        finally:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
    except KeyboardInterrupt:  # before it had begun, or after it had ended
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        return INTERRUPTED
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else UNEXPECTED
    except BaseException:
        os.write(2, traceback.format_exc().encode(errors="replace"))
        return UNEXPECTED
