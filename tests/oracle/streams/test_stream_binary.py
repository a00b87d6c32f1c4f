"""The binary form: carries every stream, and refuses what is damaged, foreign or newer."""

from __future__ import annotations

import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archloom.oracle.affine import Affine
from archloom.oracle.assembly import to_text
from archloom.oracle.binary import decode, encode
from archloom.oracle.errors import ArtifactError, StreamError
from archloom.oracle.stream import Instr, Loop, Stream
from tests.support.oracle.example_stream import STREAM
from tests.support.oracle.strategies import arbitrary_streams


@given(arbitrary_streams())
def test_round_trip(stream: Stream) -> None:
    assert decode(encode(stream)) == stream


def test_is_compact() -> None:
    assert len(encode(STREAM)) < 0.7 * len(to_text(STREAM))


@given(st.data())
def test_any_changed_byte_is_noticed(data: st.DataObject) -> None:
    blob = bytearray(encode(STREAM))
    at = data.draw(st.integers(0, len(blob) - 1))
    blob[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(ArtifactError, match="net/layer1"):
        decode(bytes(blob), "net/layer1")


@given(st.data())
def test_truncation_is_noticed(data: st.DataObject) -> None:
    blob = encode(STREAM)
    with pytest.raises(ArtifactError, match="truncated: expected"):
        decode(blob[: data.draw(st.integers(0, len(blob) - 1))])


@given(st.data())
def test_malformed_payload_with_a_right_checksum_is_an_artifact_error(data: st.DataObject) -> None:
    payload = bytearray(encode(STREAM)[14:])
    for _ in range(data.draw(st.integers(1, 3))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    blob = struct.pack("<4sHII", b"LOOM", 1, len(payload), zlib.crc32(payload)) + payload
    try:
        assert isinstance(decode(blob), Stream)
    except ArtifactError as error:
        assert "malformed at byte" in str(error)


@pytest.mark.parametrize(
    ("blob", "message"),
    [
        (b"", "truncated: expected at least 14 bytes, found 0"),
        (b"ELF\x7f" + bytes(20), r"not an instruction stream: expected the magic b'LOOM', found b'ELF"),
        (struct.pack("<4sHII", b"LOOM", 9, 0, 0), "format 9 is newer than the format 1"),
        (struct.pack("<4sHII", b"LOOM", 0, 0, 0), "format 0 is older than the format 1"),
        (encode(STREAM) + b"x", "followed by foreign bytes"),
    ],
)
def test_errors_say_what_is_wrong(blob: bytes, message: str) -> None:
    with pytest.raises(ArtifactError, match=message):
        decode(blob)


def test_what_has_no_binary_form() -> None:
    with pytest.raises(StreamError, match="more than 132 bits"):
        encode(Stream("g", (), (), (), 0, (Instr.make("x", a=Affine(1 << 140)),)))
    body: tuple[Instr | Loop, ...] = ()
    for i in range(70):
        body = (Loop(f"v{i}", 0, 2, 1, body),)
    with pytest.raises(StreamError, match="loops nest deeper than 64"):
        encode(Stream("g", (), (), (), 0, body))
