"""What is made of long descriptions, kept from one process to the next as bytecode is: it takes a second or two."""

from __future__ import annotations

import hashlib
import pickle
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TypeVar

from archloom.oracle.atomic import Kept, digest_of
from archloom.oracle.taidl.operators.control import registered_names

LONG = 1 << 16
"""Characters from which on a description is long: shorter ones are read as fast as a file is looked up."""

T = TypeVar("T")


def once(what: str, path: str, texts: Sequence[str], make: Callable[[], T]) -> T:
    """What ``make`` makes of the texts of a description, or what another process has made of them: plain data, equal
    for equal texts, sources and registered functions. The last text is that of the file ``path``."""
    if sum(map(len, texts)) < LONG:
        return make()
    origin = hashlib.sha256(_sources())
    for word in (what, path, *registered_names(), *texts):
        origin.update(hashlib.sha256(word.encode(errors="surrogatepass")).digest())
    place = hashlib.sha256(path.encode(errors="surrogatepass")).hexdigest()[:12]
    kept = Kept(__file__, "taidl", f"{Path(path).stem}.{place}.{what}", origin.digest())
    content = kept.read()
    if content is not None:
        found: T = pickle.loads(content)  # noqa: S301  (it is trusted as the bytecode beside it is)
        return found
    found = make()
    with suppress(RecursionError):  # of a description that is nested deeply: it is read anew
        kept.write(pickle.dumps(found, protocol=pickle.HIGHEST_PROTOCOL))
    return found


@cache
def _sources() -> bytes:
    """Changes with Python and with all modules of this package: what is made of a text is made by them."""
    digest = hashlib.sha256(sys.version.encode())
    digest.update(digest_of(Path(__file__).parents[1].rglob("*.py")))
    return digest.digest()
