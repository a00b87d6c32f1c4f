"""Writes the outlines of networks by name that are shipped (:mod:`.shipped`): minutes, most of them for Llama 3."""

from __future__ import annotations

import lzma
import sys
from pathlib import Path

from archloom.tvm_backend.sources import named_networks, shipped


def write(folder: Path = shipped.FOLDER) -> None:
    """Export all networks; what is equal to what is there stays as it is."""
    folder.mkdir(exist_ok=True)
    for name in shipped.names():
        made, file = named_networks.exported(name).content, folder / f"{name}.xz"
        if not file.exists() or lzma.decompress(file.read_bytes()) != made:
            file.write_bytes(lzma.compress(made, preset=9))
        print(f"{name}: {file.stat().st_size:,} bytes", file=sys.stderr)
    for file in {*folder.glob("*.xz")} - {folder / f"{name}.xz" for name in shipped.names()}:
        file.unlink()
    versions = " ".join(f"{package}=={named_networks.version(package)}" for package in shipped.PACKAGES)
    (folder / "sources").write_text(f"{shipped.sources()} {versions}\n")


if __name__ == "__main__":
    write()
