"""Reports of candidates: a search keeps figures of them, so they are estimated again, mostly from what is cached."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from archloom.oracle.errors import ArchloomError
from archloom.tvm_backend import cache
from archloom.tvm_backend.estimate.network import Request, report_of
from archloom.tvm_backend.host.profile import HostProfile, chosen
from archloom.tvm_backend.page.network import network_view
from archloom.tvm_backend.progress import Progress
from archloom.tvm_backend.report.build import with_host
from archloom.tvm_backend.search.evaluate import IN_NUMBERS
from archloom.tvm_backend.search.store import Row
from archloom.tvm_backend.sources.source import Source
from archloom.tvm_backend.targets.choice import choose, named_options

OTHER_CODE = "Its report is not here: another archloom than this one made the search."
NOT_ASKED = "Its report is not here: the page was made with those of the first candidates of the front."
NOT_NAMED = "Its report is not here: its networks are made by functions of its space."


def remade(
    rows: Sequence[Row], places: Sequence[int], host: str, code: str, progress: Progress | None = None
) -> tuple[dict[int, list[dict[str, Any]]], str]:
    """By place the views of a candidate's networks, and why others have none."""
    if code != cache.key([]):
        return {}, OTHER_CODE
    if not any(row.candidate.get("named") for row in rows):
        return {}, NOT_NAMED
    found, profile = {}, chosen(host)
    for done, place in enumerate(places):
        if progress is not None:
            progress("reports of the front", done, len(places))
        if rows[place].candidate.get("named"):
            found[place] = _views(rows[place].candidate, profile)
    return found, NOT_ASKED


def _views(candidate: dict[str, Any], profile: HostProfile | None) -> list[dict[str, Any]]:
    target = candidate["target"]
    options = dict(named_options(choose(target, candidate["options"])))
    found = []
    for network in candidate["networks"]:
        source = Source.of(network)
        as_int8 = candidate["as_int8"] and source.kind not in IN_NUMBERS
        report = with_host(report_of(source, Request(target, options, as_int8=as_int8)), profile)
        found.append(network_view(network, report))
    return found
