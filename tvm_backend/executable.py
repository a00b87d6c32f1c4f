"""Compiled networks as a user holds them: run, report, save, load."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from archloom.oracle.errors import InputError
from archloom.tvm_backend.compiled import CompiledModel
from archloom.tvm_backend.report.data import Report
from archloom.tvm_backend.runtime import Executable

if TYPE_CHECKING:
    from archloom.tvm_backend.model import Model
    from archloom.tvm_backend.programs import Stored

Progress = Callable[[str, int, int], None]


class CompiledNetwork(Executable):
    """A compiled network: ``network(x)`` runs it, :attr:`report` says what it costs, :meth:`save` keeps it."""

    def __init__(
        self, compiled: CompiledModel, report: Report | None = None, programs: "Stored | None" = None
    ) -> None:
        super().__init__(compiled, programs)
        self._saved_report = report

    @cached_property
    def report(self) -> Report:
        """Cycles, utilization and bytes of every layer, with the host's layers named."""
        if self._saved_report is not None:
            return self._saved_report
        from archloom.tvm_backend.report.build import of_compiled

        return of_compiled(self.compiled)

    def save(self, path: str | Path, *, programs: bool = True) -> Path:
        """Write the artifact to ``path``: a zip if its name ends in ``.zip``, else a directory; whole or not at all.

        With ``programs``, everything is compiled first, and the artifact brings XLA's machine code along: on a machine
        alike it then runs at once. A network that is too large to run here is saved without.
        """
        from archloom.tvm_backend.artifact import files as artifact_files
        from archloom.tvm_backend.artifact import network as artifact

        artifact_files.check_free(Path(path))
        stored = None
        if programs:
            with suppress(InputError):
                self.prepare()
                stored = self.programs.stored()
        artifact.save(self.compiled, self.report, Path(path), stored)
        return Path(path)


def build(
    model: "Model", target: str, options: Mapping[str, object], *, progress: Progress | None = None
) -> CompiledNetwork:
    """Partition, map and emit ``model`` for ``target``."""
    from archloom.tvm_backend.compile import compile_model

    return CompiledNetwork(compile_model(model, target, options, progress=progress))


def open_artifact(path: Path, *, programs: bool = True) -> CompiledNetwork:
    """The compiled network that was saved at ``path``; its host part is built at the first call.

    Without ``programs``, the artifact's machine code is left aside, and everything is compiled from its streams.
    """
    from archloom.tvm_backend.artifact import network as artifact

    loaded = artifact.load(path)
    return CompiledNetwork(loaded.compiled, loaded.report, loaded.programs if programs else None)
