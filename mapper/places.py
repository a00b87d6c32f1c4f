"""Where the tensors of a workload lie: in the memories of the graph that hold their roles, or anywhere in HBM."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from archloom.acadl_models.acadl import ArchitectureGraph, MemoryInterface
from archloom.acadl_models.acadl.graph import HBM, per_graph
from archloom.mapper.workload import Place, Workload
from archloom.oracle.errors import MappingError
from archloom.oracle.stream import Stream
from archloom.oracle.validate import tensor_bytes


@per_graph
def rooms(graph: ArchitectureGraph) -> Mapping[str, Place]:
    """The part of HBM in which tensors of each role lie; nothing where the graph's memories have no roles."""
    found: dict[str, Place] = {}
    for bank in graph.buffers[HBM]:
        memory = graph[bank.storage]
        for role in memory.roles if isinstance(memory, MemoryInterface) else ():
            found[role] = Place(bank.storage, bank.start, bank.stop or 0)
    return found


def role_of(workload: Workload, name: str, known: Mapping[str, Place]) -> str:
    """The role of a tensor: a table's goes with the weights where no memory is for tables."""
    if name not in workload.constants:
        return "activations"
    return "tables" if name == "table" and "tables" in known else "weights"


def placed(workload: Workload, graph: ArchitectureGraph) -> Workload:
    """The workload with the places that the graph has for its tensors.

    MappingError where one has none, or where those of a memory need more bytes than it has there.
    """
    known, places = rooms(graph), dict[str, Place]()
    needed: dict[Place, int] = {}
    for tensor in (*workload.inputs, workload.output):
        role = role_of(workload, tensor.name, known)
        if known and role not in known:
            raise MappingError(f"{workload.name}: {tensor.name!r} is one of its {role}, for which graph "
                               f"{graph.name!r} has no memory (it has some for {', '.join(known)})")
        place = known[role] if known else Place(_names(graph), 0, graph.bytes_of(HBM))
        places[tensor.name] = place
        needed[place] = needed.get(place, 0) + tensor.stored_bytes
    for place, size in needed.items():
        if size > place.size_bytes:
            held = ", ".join(name for name, at in places.items() if at == place)
            raise MappingError(f"{workload.name}: its tensors need {size} bytes of HBM ({held}), but {place.memory} "
                               f"of graph {graph.name!r} holds {place.size_bytes}")
    return replace(workload, places=tuple(places.items())) if known else workload


def _names(graph: ArchitectureGraph) -> str:
    return ", ".join(memory.name for memory in graph.tensor_memories)


def check_places(workload: Workload, stream: Stream) -> None:
    """MappingError where a tensor does not lie in its place."""
    places = dict(workload.places)
    for tensor in (*stream.arguments, *stream.results):
        place = places.get(tensor.name)
        end = tensor.address + tensor_bytes(tensor)
        if place is not None and not place.first <= tensor.address <= end <= place.end:
            raise MappingError(f"{workload.name}: {tensor.name!r} lies in bytes {tensor.address}..{end} of HBM, but "
                               f"those of {place.memory} are {place.first}..{place.end}")
