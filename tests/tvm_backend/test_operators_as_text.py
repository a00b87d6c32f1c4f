"""Operators by ONNX's names, and tables of layers, as networks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import archloom
from archloom.models import catalogue
from archloom.oracle.errors import InputError
from archloom.tvm_backend import cli
from archloom.tvm_backend.sources import topology
from archloom.tvm_backend.sources.operators import Operator, listed, workload
from tests.support.examples import every, examples, slow

SMALL = {"m": 6, "n": 8, "k": 4, "h": 9, "w": 7, "c": 4, "o": 8, "heads": 4, "queries": 5, "depth": 8}
TEXTS = [
    "Gemm(m=6,n=8,k=4,bias=1)", "MatMul(batch=2,m=6,n=8,k=4)", "Conv(c=4,h=9,w=7,o=4,k=3,pad=1,group=4)",
    "Attention(heads=4,kv_heads=2,queries=1,keys=9,depth=8,causal=1)", "Softmax(m=6,n=8)", "MaxPool(c=4,h=9,w=7)",
    "LayerNormalization(m=6,n=8)", "Gelu(m=6,n=8)", "Mul(m=6,n=8)",
]


@pytest.mark.parametrize("name", every(3, catalogue.OPERATORS_BY_NAME))
def test_all_are_modules_of_their_sizes(name: str) -> None:
    operator = catalogue.OPERATORS_BY_NAME[name]
    sizes = {key: min(SMALL.get(key, size), size) for key, size in operator.sizes.items()}
    text = catalogue.spelled(operator, sizes)
    built = catalogue.build(text)
    with torch.no_grad():
        assert torch.isfinite(built.module(*built.inputs.values())).all()
    assert catalogue.parse(text) == (operator, sizes)


def test_the_last_query_looks_at_all_keys_and_the_one_before_at_one_less() -> None:
    built = catalogue.build("Attention(heads=4,kv_heads=2,queries=2,keys=9,depth=8,causal=1)")
    query, key, value = built.inputs.values()
    with torch.no_grad():
        before = built.module(query, key, value)
        key[:, :, -1] += 1
        after = built.module(query, key, value)
    assert torch.equal(before[:, :, 0], after[:, :, 0]) and not torch.allclose(before[:, :, 1], after[:, :, 1])


@pytest.mark.parametrize("text", [TEXTS[1], *(slow(text) for text in TEXTS[:1] + TEXTS[2:])])
@pytest.mark.parametrize("target", ["qkv", slow("gemmini"), slow("mesh")])
def test_they_are_networks_for_targets(text: str, target: str) -> None:
    report = archloom.estimate(text, target)
    assert report.layers and report.seconds > 0


def test_help_and_listing_have_them(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["estimate", "--help"])
    shown = "".join(capsys.readouterr().out.split())
    assert all(f"{name}({','.join(sizes)})" in shown for name, sizes in listed().items())
    assert cli.main(["networks"]) == 0
    assert re.search(r"Softmax +along the rows", capsys.readouterr().out)
    with pytest.raises(InputError, match="did you mean 'Softmax'"):
        archloom.estimate("Softmx(m=4)")


# tables --------------------------------------------------------------------------------------------------------------

SCALESIM = """Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num Filter, Strides,
Conv1, 11, 9, 3, 1, 4, 8, 2,
Conv1, 5, 5, 5, 5, 8, 3, 1,
"""


def test_topologies_of_scalesim(tmp_path: Path) -> None:
    file = tmp_path / "net.csv"
    file.write_text(SCALESIM)
    (first, one), (second, other) = topology.layers(file)
    assert (first, second) == ("Conv1", "Conv1.2") and one.kernel == (3, 1) and one["stride"] == 2
    assert workload(one).macs == 5 * 5 * 8 * 3 * 4 and workload(other).macs == 3 * 8 * 25
    report = archloom.estimate(str(file), options={"dim": 8})
    assert report.macs == workload(one).macs + workload(other).macs and report.offloaded_macs_share == 1


sizes = st.integers(1, 99)
products = st.lists(st.tuples(sizes, sizes, sizes), min_size=1, max_size=4)


@examples(20, 200)
@given(products, st.sampled_from(["m,n,k", "K, M ,N,", "Layer,N,K,M", None]))
def test_lists_of_products(tmp_path_factory: pytest.TempPathFactory, found: list[tuple[int, int, int]],
                           head: str | None) -> None:
    order = [h.strip().lower() for h in (head or "m,n,k").rstrip(",").split(",")]
    lines = [",".join(f"g{i}" if h == "layer" else str(dict(zip("mnk", sizes))[h]) for h in order)
             for i, sizes in enumerate(found)]
    file = tmp_path_factory.mktemp("gemms") / "gemms.csv"
    file.write_text("\n".join([*([head] if head else []), *lines]))
    assert [tuple(op[s] for s in "mnk") for _, op in topology.layers(file)] == found


@pytest.mark.parametrize(("text", "message"), [
    ("", "expected a layer in each line, found none"), ("a,b\n1,2", r"net\.csv:1: expected columns M, N, K"),
    ("M,N,K\n1,2", r"net\.csv:2: expected 3 columns, found 2"), ("M,N,K\n1,2,x", r"net\.csv:2: "),
    ("1,2,0", r"net\.csv:1: .*k must be an integer from 1"),
])
def test_faults_have_their_line(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "net.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        topology.layers(tmp_path / "net.csv")


def test_layers_are_a_network(tmp_path: Path) -> None:
    found = [("a", Operator("gemm", tuple({"m": 4, "n": 4, "k": 4, "batch": 1, "bias": 0, "relu": 0}.items())))] * 2
    proto = topology.network([(f"{name}{i}", op) for i, (name, op) in enumerate(found)], "two", "float32")
    assert [i.name for i in proto.graph.input] == ["a0/A", "a1/A"]
