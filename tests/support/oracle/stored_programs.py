"""Stored programs of kernels in a process that has not made them."""

import os
import subprocess
import sys

import numpy as np


def in_another_process(kernel, arguments, folder):
    """The first result of a kernel by its stored program alone; ``folder`` is for files on the way."""
    (folder / "program").write_bytes(kernel.oracle.stored().serialize())
    np.savez(folder / "given.npz", *arguments, *kernel.oracle.bits[None][:kernel.oracle.bits.size])
    script = f"""
import jax, numpy as np
from archloom.oracle.xla import executables
program = executables.load(open({str(folder / "program")!r}, "rb").read())
arrays = np.load({str(folder / "given.npz")!r})
np.save({str(folder / "made.npy")!r}, program(*map(jax.numpy.asarray, arrays.values()))[0])
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", script], check=True, env=environment)
    return np.load(folder / "made.npy")
