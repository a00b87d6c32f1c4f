"""Candidates of a search as columns: small in a file, and quick to sort."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from archloom.tvm_backend.search.figures import FIGURES
from archloom.tvm_backend.search.store import Row

Group: TypeAlias = Literal["status", "objective", "param", "figure", "option", "error", "candidate", "took"]
WORDS = 0.5
"""A column whose different values are a smaller part of all is a list of them, and a place in it for each row."""


def columns(rows: Sequence[Row], objectives: Sequence[str], statuses: Sequence[str]) -> list[dict[str, Any]]:
    """All that is shown of the rows, and of what a candidate is made again by. Objectives are those of the rows'
    ``values``: of candidates that bounds ruled out, bounds."""
    found = [column("status", "status", statuses)]
    found += [column("objective", name, [_at(row.values, k) for row in rows]) for k, name in enumerate(objectives)]
    found += _of_each("param", rows, lambda row: row.params)
    found += [one for one in _of_each("figure", rows, lambda row: row.figures)
              if one["name"] not in objectives and one.get("words") != [None]]
    if any(row.error for row in rows):
        found.append(column("error", "error", [row.error for row in rows]))
    found.append(column("took", "took", [row.took for row in rows], "s"))
    parts = [{name: value for name, value in row.candidate.items() if name != "options"} or None for row in rows]
    return [*_with_options(found, rows), column("candidate", "candidate", parts)]


def column(group: Group, name: str, values: Sequence[Any], unit: str | None = None) -> dict[str, Any]:
    """``id``, ``group``, ``name``, ``unit``, ``kind`` (``number`` or ``text``) and ``values``; or, of values that come
    often, ``words`` and ``codes``."""
    known = [value for value in values if value is not None]
    is_number = bool(known) and all(isinstance(v, int | float) and not isinstance(v, bool) for v in known)
    shown = values if is_number or group == "candidate" else [_text(value) for value in values]
    if unit is None:
        unit = FIGURES[name].unit if name in FIGURES and group in ("objective", "figure") else ""
    return {"id": name if group == "status" else f"{group}.{name}" if group not in ("error", "candidate") else group,
            "group": group, "name": name, "unit": unit, "kind": "number" if is_number else "text", **_packed(shown)}


def _of_each(group: Group, rows: Sequence[Row], of: Callable[[Row], Mapping[str, Any]]) -> list[dict[str, Any]]:
    names = dict.fromkeys(name for row in rows for name in of(row))
    return [column(group, name, [of(row).get(name) for row in rows]) for name in names]


def _with_options(found: list[dict[str, Any]], rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The options of targets: those that parameters of the same name have the values of are said of these."""
    options = _of_each("option", rows, lambda row: row.candidate.get("options", {}))
    params = {one["name"]: one for one in found if one["group"] == "param"}
    kept = []
    for option in options:
        param = params.get(option["name"].rpartition(".")[2]) or params.get(option["name"])
        if param is not None and "option" not in param and _values(param) == _values(option):
            param["option"] = option["name"]
        else:
            kept.append(option)
    return [*found, *kept]


def _values(packed: Mapping[str, Any]) -> Iterable[Any]:
    return [packed.get("words"), packed.get("codes"), packed.get("values")]


def _packed(values: Sequence[Any]) -> dict[str, Any]:
    places: dict[str, int] = {}
    words: list[Any] = []
    codes = []
    for value in values:
        key = repr(value)
        if key not in places:
            places[key] = len(words)
            words.append(value)
        codes.append(places[key])
    return {"words": words, "codes": codes} if len(words) <= WORDS * len(values) else {"values": list(values)}


def _text(value: Any) -> Any:
    """Lists as text; single values as they are."""
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else value


def _at(values: Sequence[Any], place: int) -> Any:
    return values[place] if values else None
