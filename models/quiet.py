"""Other packages' messages that are not for a user."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

TORCHAO = ("torchao", "torch.utils._pytree")
"""Who complains while torchao is imported, which transformers does where it is installed: extensions of it are for
other machines."""


@contextlib.contextmanager
def quiet(*loggers: str) -> Iterator[None]:
    """Without what some packages log: what is an error is raised, too."""
    levels = {name: logging.getLogger(name).level for name in loggers}
    for name in loggers:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
