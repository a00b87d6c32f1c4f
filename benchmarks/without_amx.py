"""Run another benchmark as on a processor without tiles (AMX): ``without_amx.py inference --only resnet50``.

Linux lends the registers of tiles to a process that asks for them. Here it refuses that to the benchmark and to all
processes that it starts, so that XLA, onnxruntime and archloom alike multiply by the vector instructions that are left.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # this checkout, however the script is run

from benchmarks.common import refuse
from benchmarks.run import find

NO_NEW_PRIVILEGES, SECCOMP, FILTER = 38, 22, 2
"""Of Linux's ``prctl``: options, and the mode of the second."""

ARCH_PRCTL, REQUEST = 158, 0x1023
"""The system call for registers on x86-64, and what asks for more of them."""

LOAD, IF_EQUAL, RETURN = 0x20, 0x15, 0x06
DENIED, ALLOWED = 0x50001, 0x7FFF0000
"""What a filter's program is made of; the former result is EPERM."""


def main() -> None:
    if len(sys.argv) < 2:
        refuse(__doc__ or "")
    if sys.platform != "linux" or platform.machine() != "x86_64":
        refuse("only Linux on x86-64 lends tiles")
    refuse_tiles()
    os.execv(sys.executable, [sys.executable, str(find(sys.argv[1])), *sys.argv[2:]])


def refuse_tiles() -> None:
    """From here on, this process and those that it becomes or starts get no registers of tiles."""
    steps = ((LOAD, 0, 0, 0), (IF_EQUAL, 0, 3, ARCH_PRCTL),  # the number of the call
             (LOAD, 0, 0, 16), (IF_EQUAL, 0, 1, REQUEST),  # its first argument
             (RETURN, 0, 0, DENIED), (RETURN, 0, 0, ALLOWED))
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = struct.pack("HxxxxxxQ", len(steps), ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0) or libc.prctl(SECCOMP, FILTER, program, 0, 0):
        refuse(f"Linux refuses the filter: {os.strerror(ctypes.get_errno())}")


if __name__ == "__main__":
    main()
