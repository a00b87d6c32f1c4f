"""Tables of layers that the comparison with SCALE-Sim refuses: each with its file and line, and exit status 2."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.published.scalesim_data import layers, networks

HEAD = "kind,dims,M,N,K,dataflow,rows,cols,compute_cycles,wall_s\n"
GOOD = "gemm,m1_n1_k1,1,1,1,os,4,4,6,\n"


@pytest.mark.parametrize(("text", "line", "message"), [
    ("", 1, "found no row"),
    (HEAD, 1, "found no row"),
    ("a,b\n1,2\n", 2, "dataflow must be one of os, ws, is, found None"),
    (HEAD + GOOD + "gemm,,,,,os,4,4,6,\n", 3, "expected M, N and K, or dims like m1_n2_k3"),
    (HEAD + "gemm,m0_n1_k1,,,,os,4,4,6,\n", 2, "found dims 'm0_n1_k1'"),
    (HEAD + "conv,i2x2_f3x3_c1_n1_s1x1,,,,os,4,4,6,\n", 2, "found dims 'i2x2_f3x3_c1_n1_s1x1'"),
    (HEAD + "gemm,,1,-1,1,os,4,4,6,\n", 2, "N must be an integer of at least 1, found '-1'"),
    (HEAD + "gemm,,1,1,1,OS,0,4,6,\n", 2, "rows must be an integer of at least 1, found '0'"),
    (HEAD + "gemm,,1,1,1,OS,4,5000,6,\n", 2, "cols must be at most 4096, found 5000"),
    (HEAD + "gemm,,1,1,1,os,4,4\n", 2, "compute_cycles must be an integer of at least 0, found ''"),
    (HEAD + "gemm,,1,1,1,os,4,4,6,soon\n", 2, "could not convert string to float: 'soon'"),
])
def test_broken_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, line: int, message: str) -> None:
    (tmp_path / "cycles.csv").write_text(text)
    with pytest.raises(SystemExit) as raised:
        layers(tmp_path)
    error = capsys.readouterr().err
    assert raised.value.code == 2 and error.count("\n") == 1
    assert error.startswith(f"{tmp_path / 'cycles.csv'}:{line}: ") and message in error


def test_sizes_from_dims(tmp_path: Path) -> None:
    rows = "gemm,m3_n5_k7,,,,ws,4,8,1,\nconv,i14x14_f3x3_c2_n5_s2x2,,,,is,4,8,1,\n"
    (tmp_path / "cycles.csv").write_text("\ufeff" + HEAD + rows)
    found = [(r.problem.m, r.problem.n, r.problem.k, r.dataflow, r.rows, r.columns) for r in layers(tmp_path)]
    assert found == [(3, 5, 7, "ws", 4, 8), (49, 5, 18, "is", 4, 8)]


def test_a_broken_table_of_a_network(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "net.csv").write_text("Layer,H,W,fh,fw,C,N,S,\nconv1,8,8,3,3,x,4,1,\n")
    with pytest.raises(SystemExit) as raised:
        list(networks(tmp_path))
    assert raised.value.code == 2 and f"{tmp_path / 'net.csv'}:2: expected a name and sizes" in capsys.readouterr().err
