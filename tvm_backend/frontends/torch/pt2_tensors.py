"""Weights that torchao has quantized, out of ``.pt2`` files.

``torch.export.save`` pickles tensors that are made of others. They are read by torch's restricted loader: it makes
nothing but tensors, numbers and the classes that torchao declares safe, and calls no other function.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import logging
import pickle
import warnings
import zipfile
from collections.abc import Iterator

import torch

from archloom.oracle.errors import ModelError

MAKER = b"torchao"


def read_tensor(where: str, data: bytes) -> torch.Tensor:
    """The tensor in a record of an archive; raises :class:`~archloom.oracle.errors.ModelError` for anything else."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as record:
            if any(info.compress_type != zipfile.ZIP_STORED for info in record.infolist()):
                raise ModelError(f"{where} is compressed, which torch.save does not do")
            made_by_torchao = any(MAKER in record.read(n) for n in record.namelist() if n.endswith("data.pkl"))
        if made_by_torchao:
            _import_torchao(where)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tensor = torch.load(io.BytesIO(data), weights_only=True)
    except (pickle.UnpicklingError, zipfile.BadZipFile, RuntimeError, EOFError, KeyError, ValueError) as error:
        raise ModelError(
            f"{where} is an object of Python's, expected a plain tensor or one that torchao has quantized") from error
    if not isinstance(tensor, torch.Tensor):
        raise ModelError(f"{where}: expected a tensor, found {type(tensor).__name__}")
    return tensor


def _import_torchao(where: str) -> None:
    try:
        with quiet("torchao", "torch.utils._pytree"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            importlib.import_module("torchao.quantization")
    except ImportError as error:
        raise ModelError(f"{where} has been quantized by torchao, which is not installed: pip install torchao"
                         ) from error


@contextlib.contextmanager
def quiet(*loggers: str) -> Iterator[None]:
    """Without the warnings of some packages: of extensions for other machines, of exporters for other packages."""
    levels = {name: logging.getLogger(name).level for name in loggers}
    for name in loggers:
        logging.getLogger(name).setLevel(logging.ERROR)
    try:
        yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
