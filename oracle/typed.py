"""Objects of typed classes from what JSON gives."""

from __future__ import annotations

from typing import Any


def typed(data: Any, kind: Any) -> Any:
    """``data``, as the ``json`` module gives it, as an object of ``kind``: a dataclass, a tuple of such, a mapping.

    Fields have the types that their annotations state, to any depth. TypeError that names the place of what is missing
    or of another type (``$.layers[2].macs``). What a class has no field for is left out.
    """
    import msgspec  # takes no time where nothing is read

    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        raise TypeError(str(error)) from None
