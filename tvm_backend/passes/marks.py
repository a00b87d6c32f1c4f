"""What passes tell of variables that stands in no operator: attributes of ``main`` as JSON, up to its partition."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from archloom.tvm_backend.ir import expressions as ir

T = TypeVar("T")


def marked(module: ir.IRModule, name: str, value: Any) -> ir.IRModule:
    """The module with a mark of this name, if there is anything to say."""
    if not value:
        return module
    main = module["main"]
    attributes = {**(main.attrs or {}), name: json.dumps(value)}
    return ir.of(module).replace_main(module, ir.with_attributes(main, attributes))


def unmarked(module: ir.IRModule, name: str, default: T) -> tuple[ir.IRModule, T]:
    """The module without this mark, and what it says."""
    main = module["main"]
    attributes = dict(main.attrs or {})
    if name not in attributes:
        return module, default
    value = json.loads(str(attributes.pop(name)))
    return ir.of(module).replace_main(module, ir.with_attributes(main, attributes)), value
