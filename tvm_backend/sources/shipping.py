"""Writes the outlines of networks by name that are shipped (:mod:`.shipped`): minutes, most of them for Llama 3.

A folder whose outlines are of the present sources and packages stays as it is.
"""

from __future__ import annotations

import lzma
import sys

from archloom.tvm_backend.sources import named_networks, shipped
from archloom.tvm_backend.sources.shipped import Form


def write(form: Form) -> None:
    """Export all networks; what is equal to what is there stays as it is."""
    form.folder.mkdir(exist_ok=True)
    for name in form.networks:
        made, file = named_networks.exported(name, form).content, form.folder / f"{name}.xz"
        if not file.exists() or lzma.decompress(file.read_bytes()) != made:
            file.write_bytes(lzma.compress(made, preset=9))
        print(f"{file.relative_to(shipped.FOLDER)}: {file.stat().st_size:,} bytes", file=sys.stderr)
    for file in {*form.folder.glob("*.xz")} - {form.folder / f"{name}.xz" for name in form.networks}:
        file.unlink()
    (form.folder / "sources").write_text(f"{' '.join(present(form))}\n")


def present(form: Form) -> list[str]:
    """What outlines would be made by now."""
    return [shipped.sources(form), *(f"{package}=={named_networks.version(package)}" for package in form.packages)]


if __name__ == "__main__":
    for form in shipped.FORMS:
        if not (form.folder / "sources").exists() or shipped.made_by(form) != present(form):
            write(form)
