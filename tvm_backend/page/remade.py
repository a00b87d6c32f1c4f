"""Reports of candidates: a search keeps figures of them, so they are estimated again, mostly from what is cached."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from archloom.oracle.errors import ArchloomError
from archloom.tvm_backend import cache
from archloom.tvm_backend.estimate.network import report_of
from archloom.tvm_backend.estimate.request import Request
from archloom.tvm_backend.host.profile import HostProfile, chosen
from archloom.tvm_backend.page.network import network_view
from archloom.tvm_backend.progress import Progress
from archloom.tvm_backend.report.build import with_host
from archloom.tvm_backend.search.evaluate import as_if_int8
from archloom.tvm_backend.search.store import Row
from archloom.tvm_backend.sources.source import Source
from archloom.tvm_backend.targets.choice import choose, named_options

OTHER_CODE = "Its report is not here: another archloom than this one made the search."
NOT_ASKED = "Its report is not here: the page was made with those of the first candidates of the front."
NOT_NAMED = "Its report is not here: its networks are made by functions of its space."


def remade(
    rows: Sequence[Row], places: Sequence[int], host: str, code: str, progress: Progress | None = None
) -> dict[str, Any]:
    """``reports``: by place the views of a candidate's networks; ``no_reports``: by place why it has none;
    ``reports_note``: why others have none."""
    found: dict[str, Any] = {"reports": {}, "no_reports": {}, "reports_note": NOT_ASKED}
    if code != cache.key([]):
        return {**found, "reports_note": OTHER_CODE}
    profile = chosen(host)
    for done, place in enumerate(places):
        if progress is not None:
            progress("reports of the front", done, len(places))
        if not rows[place].candidate.get("named"):
            found["no_reports"][place] = NOT_NAMED
            continue
        try:
            found["reports"][place] = _views(rows[place].candidate, profile)
        except ArchloomError as error:  # the network's file has gone, say
            found["no_reports"][place] = f"Its report could not be made again: {error}"
    return found


def _views(candidate: dict[str, Any], profile: HostProfile | None) -> list[dict[str, Any]]:
    target = candidate["target"]
    options = dict(named_options(choose(target, candidate["options"])))
    found, sources = [], list(map(Source.of, candidate["networks"]))
    for network, source in zip(candidate["networks"], sources):
        request = Request(target, options, as_int8=as_if_int8(candidate["as_int8"], source))
        found.append(network_view(network, with_host(report_of(source, request), profile)))
    return found
