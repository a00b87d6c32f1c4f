"""The example of docs/streams.md runs and does what it says."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from archloom.oracle import taidl
from archloom.oracle.accesses import accesses
from archloom.oracle.assembly import parse, to_text
from archloom.oracle.binary import decode, encode
from archloom.oracle.errors import StreamError
from archloom.oracle.interpreter import run
from archloom.oracle.resolve import resolve
from archloom.oracle.stream import Stream
from tests.support.oracle.toy_isa import instructions, outline

PAGE = (Path(__file__).parents[3] / "docs" / "streams.md").read_text(encoding="utf-8")


def example() -> tuple[str, Stream]:
    match = re.search(r"```asm\n(.*?)```", PAGE, re.S)
    assert match is not None
    return match.group(1), parse(match.group(1), "streams.md")


def test_the_example_doubles_its_argument() -> None:
    _, stream = example()
    isa = taidl.load("gemmini", **dict(stream.parameters))
    x = np.random.default_rng(0).integers(-128, 128, (8, 16)).astype(np.int8)
    y = run(stream, isa, {"X": x})["Y"]
    assert np.array_equal(y, np.clip(2 * x.astype(int), -128, 127))
    resolved = resolve(stream, isa)
    assert outline(resolved) == "config_ld config_st i<2(j<4(mvin mvout))"
    assert [a.kind for a in accesses(instructions(resolved)[2])] == ["read", "write"]


def test_the_example_keeps_its_meaning_in_all_forms() -> None:
    _, stream = example()
    assert parse(to_text(stream)) == decode(encode(stream)) == stream


def test_the_error_shown_is_the_one_raised() -> None:
    text, _ = example()
    small = re.sub(r"\.result.*\n", "", text.replace(".hbm 320", ".hbm 128")).replace("int8[8,16]", "int8[4,16]")
    stream = parse(small)
    with pytest.raises(StreamError) as caught:
        resolve(stream, taidl.load("gemmini", **dict(stream.parameters)))
    assert str(caught.value) in PAGE
