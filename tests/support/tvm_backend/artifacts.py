"""Artifacts that are changed by hand."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path


def damage(path: Path, file: str, change: object) -> None:
    """Change a file of an artifact, to bytes or in fields of JSON, and mend the manifest, so that only its contents are
    wrong."""
    if isinstance(change, bytes):
        blob = change
    else:
        data = json.loads((path / file).read_text())
        data.update(change)  # type: ignore[call-overload]
        blob = json.dumps(data).encode()
    (path / file).write_bytes(blob)
    manifest = json.loads((path / "manifest.json").read_text())
    manifest["files"][file] = {"bytes": len(blob), "sha256": hashlib.sha256(blob).hexdigest()}
    (path / "manifest.json").write_text(json.dumps(manifest))
