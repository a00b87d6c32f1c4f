"""Names that are no text, wherever a network has names: refused in one sentence, by what reads weights and what does
not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archloom.tvm_backend import cli
from tests.support.examples import examples
from tests.tvm_backend.hostile.cases import OUT, ROW, constant, model, op

NAMES = ("Softmax", "MatMul", "weights", "within", "axis", "ours", "first")


@given(name=st.sampled_from(NAMES), byte=st.integers(0x80, 0xFF), everywhere=st.booleans())
@examples(4, 60)
def test_names_that_are_no_text_are_refused(
    name: str, byte: int, everywhere: bool, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    made = model([op("MatMul", "x weights", "within", name="first"), op("Softmax", "within", domain="ours", axis=-1)],
                 ROW, OUT, [constant("weights", [[0.0] * 4] * 4, np.float32)], domain="ours")
    path = tmp_path_factory.mktemp("names") / "net.onnx"
    broken = bytes([name.encode()[0], byte, *name.encode()[2:]])
    path.write_bytes(made.SerializeToString().replace(name.encode(), broken, -1 if everywhere else 1))
    for words in (("compile", "--coverage", "-t", "plasticine"), ("estimate", "--no-cache", "-t", "plasticine"),
                  ("estimate", "--no-cache", "-t", "gemmini"), ("check", "-t", "plasticine")):
        assert cli.main([words[0], str(path), *words[1:]]) == 2
        message = capsys.readouterr().err
        assert message and "Traceback" not in message
