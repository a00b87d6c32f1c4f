"""Plans as JSON, without their streams and workloads, which artifacts keep in files of their own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from archloom.acadl_models.timing.result import TimingResult
from archloom.mapper.mapping import Mapping as TileMapping
from archloom.oracle.errors import ArtifactError, MappingError

if TYPE_CHECKING:
    from archloom.mapper.search import Plan
    from archloom.mapper.workload import Workload
    from archloom.oracle.stream import Stream


def to_json(plan: "Plan") -> dict[str, Any]:
    """Mapping, timing, and how the search found them."""
    return {
        "mapping": json.loads(plan.mapping.to_json()), "timing": plan.timing.to_json(),
        "estimated_cycles": plan.estimated_cycles, "considered": plan.considered, "fitting": plan.fitting,
        "simulated": plan.simulated,
    }


def from_json(data: Mapping[str, Any], workload: "Workload", stream: "Stream") -> "Plan":
    """The plan that ``data`` describes; :class:`ArtifactError` if it does not describe one."""
    from archloom.mapper.search import Plan

    try:
        mapping = TileMapping.from_json(json.dumps(data["mapping"]))
        return Plan(workload, mapping, lambda: stream, TimingResult.from_json(data["timing"]),
                    float(data["estimated_cycles"]), int(data["considered"]), int(data["fitting"]),
                    int(data["simulated"]))
    except (KeyError, TypeError, ValueError, MappingError) as error:
        raise ArtifactError(f"not a plan: {type(error).__name__}: {error}") from error

