"""Profiles of hosts: the roofline, files that hold them, and what they put into a report."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import archloom
from archloom.oracle.errors import ArtifactError, InputError
from archloom.tvm_backend import cli
from archloom.tvm_backend.host import profile as host_profile
from archloom.tvm_backend.host.calibration import calibrate
from archloom.tvm_backend.host.profile import HostProfile, class_of, load, names, save
from tests.support.tvm_backend.small_networks import int8_cnn

RATES = {"move": 1e9, "arithmetic": 2e9, "transcendental": 5e8, "reduction": 1e9, "gather": 1e8, "product": 1e10}
HOST = HostProfile("bench-1", "a processor", 2, "by hand", 1e10, 1e-5, RATES)
DIM = {"dim": 8}


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARCHLOOM_HOSTS_DIR", str(tmp_path / "hosts"))
    monkeypatch.setenv("ARCHLOOM_CACHE_DIR", str(tmp_path / "cache"))


def test_time_is_that_of_the_bytes_or_of_the_work_whichever_is_longer() -> None:
    assert HOST.seconds("add", (1000, 1000), 0) == pytest.approx(1e-5 + 12e6 / 1e10)  # 1.2 ms of bytes, 0.5 of work
    assert HOST.seconds("exp", (1000, 1000), 0) == pytest.approx(1e-5 + 1e6 / 5e8)  # 0.8 ms of bytes, 2 of work
    assert HOST.seconds("matmul", (100, 100), 10**8) == pytest.approx(1e-5 + 1e-2)
    assert HOST.seconds("reshape", (1000, 1000), 0) == 0


def test_classes() -> None:
    assert [class_of(op, 0) for op in ("nn.softmax", "nn.layer_norm", "take", "concat", "quantize", "squeeze")] == [
        "transcendental", "reduction", "gather", "move", "arithmetic", None]
    assert class_of("nn.conv2d", 9) == "product"


def test_layouts_are_moves_and_profiles_may_have_further_rates() -> None:
    assert {class_of(op, 0) for op in ("to_tiles", "from_tiles", "to_windows", "from_places", "retile")} == {"move"}
    former = replace(HOST, rates={**RATES, "layout": 1e8})
    assert former.seconds("to_windows", (1000, 1000), 0) == HOST.seconds("to_windows", (1000, 1000), 0)


@pytest.mark.slow
def test_a_report_with_a_host_keeps_what_the_accelerator_does() -> None:
    save(HOST)
    plain = archloom.estimate(int8_cnn(), options=DIM, host="none")
    timed = archloom.estimate(int8_cnn(), options=DIM, host="bench-1")
    assert (timed.accelerator_cycles, timed.accelerator_layers) == (plain.cycles, plain.accelerator_layers)
    assert plain.host_seconds is None and timed.host_profile == "bench-1" and "'bench-1'" in timed.scope
    hosted = [la for la in timed.layers if la.where == "host"]
    assert hosted and all(la.cycles is None and "estimate for host 'bench-1'" in (la.note or "") for la in hosted)
    assert timed.host_seconds == pytest.approx(sum(la.seconds or 0 for la in hosted)) != 0
    assert type(timed).from_json(json.loads(json.dumps(timed.to_json()))) == timed
    assert archloom.estimate(int8_cnn(), options=DIM, host="none") == plain  # what is kept has no host
    assert archloom.estimate(int8_cnn(), options=DIM) == timed  # measured last


def test_the_users_profile_comes_before_one_that_comes_along() -> None:
    shipped = [path.stem for path in host_profile.SHIPPED.glob("*.json")]
    assert shipped and set(shipped) <= set(names())
    assert load(shipped[0]).name == shipped[0]
    save(replace(HOST, name=shipped[0]))
    assert load(shipped[0]).machine == "a processor"


def test_unknown_and_damaged_profiles(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="calibrate-host"):
        archloom.estimate(int8_cnn(), host="nowhere")
    with pytest.raises(InputError, match="name"):
        load("../../etc/passwd")
    path = save(HOST)
    for text in ("", "[]", "{}", path.read_text().replace("1e-05", "-1.0"), path.read_text().replace("product", "x")):
        path.write_text(text)
        with pytest.raises(ArtifactError, match="not a host's profile"):
            load("bench-1")


def test_measured_and_used_from_the_command_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import archloom.tvm_backend.host.calibration as calibration

    measured = calibrate("here", elements=1 << 16, runs=2)
    assert min(measured.bandwidth, measured.overhead_s, *measured.rates.values()) > 0
    monkeypatch.setattr(calibration, "calibrate", lambda name: replace(measured, name=name))
    assert cli.main(["calibrate-host", "here", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rates"] == measured.rates
    assert cli.main(["estimate", "lstm_keywords(frames=2,features=8,hidden=8)", "-O", "dim=8", "--host", "here"]) == 0
    assert "an estimate for 'here'" in capsys.readouterr().out
    assert cli.main(["estimate", "gemm(m=4,n=4,k=4)", "--host", "there"]) == 2
