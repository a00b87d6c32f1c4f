"""A process of :mod:`archloom.tvm_backend.estimate.many`: answers one question after another, until the end."""

from __future__ import annotations

import gc
import sys
from contextlib import suppress
from multiprocessing.connection import Connection

COLLECTED = 128
"""Answers after which cycles of objects are looked for: what is found here has none, and grows."""


def main() -> None:
    """Answer what comes through the connection of the number that the process was started with."""
    connection, count = Connection(int(sys.argv[1])), 0
    gc.disable()
    # who is interrupted with the process that asks, or has nobody left to ask, has no more to do
    with suppress(EOFError, ConnectionError, KeyboardInterrupt):
        while True:
            function, *arguments = connection.recv()
            connection.send(function(*arguments))
            count += 1
            if count % COLLECTED == 0:
                gc.collect()


if __name__ == "__main__":
    main()
