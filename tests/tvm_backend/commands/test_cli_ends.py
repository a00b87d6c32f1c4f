"""Interruptions, streams that cannot be written, long messages: what is said, and the exit status."""

import gc
import os
import re
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Callable
from pathlib import Path

import pytest

from archloom.tvm_backend import cli
from tests.support.examples import slow

Fails = Callable[..., str]

@pytest.fixture
def fails(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Fails:
    """Run the command line in an empty folder; it must fail as bad input should, with a message that matches."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)

    def run(message: str, *words: str) -> str:
        before = sorted(work.rglob("*"))
        status = cli.main(list(words))
        out, err = capsys.readouterr()
        assert status == 2, err
        assert out == "" and "Traceback" not in err
        assert err.startswith("archloom: ") and re.search(message, err), err
        assert sorted(work.rglob("*")) == before
        return err

    return run


def _write(path: Path, content: str | bytes) -> str:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


def test_compile_refuses_its_output_before_it_starts(fails: Fails, tmp_path: Path) -> None:
    precious = _write(tmp_path / "precious", "x")
    fails(r"precious: exists and is not an artifact", "compile", "gemm(m=4,n=4,k=4)", "-o", precious)
    assert Path(precious).read_text() == "x"


def test_usage_errors_exit_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([], ["frobnicate"], ["estimate"], ["run", "x"]):
        with pytest.raises(SystemExit) as raised:
            cli.main(words)
        assert raised.value.code == 2
        error = capsys.readouterr().err
        assert error.startswith("archloom") and "--help shows what it takes" in error and error.count("\n") == 1


def test_interruption_exits_with_130(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("archloom.tvm_backend.commands.targets.targets", interrupt)
    assert cli.main(["targets"]) == 130
    assert "interrupted" in capsys.readouterr().err


def test_a_signal_exits_with_130() -> None:
    code = ("import os, signal, sys, archloom.tvm_backend.targets.registry as t;"
            # children of background jobs start with the signal ignored
            "signal.signal(signal.SIGINT, signal.default_int_handler);"
            "t.targets = lambda: os.kill(os.getpid(), signal.SIGINT);")
    run = subprocess.run(
        [sys.executable, "-c", f"{code} from archloom.tvm_backend import cli; sys.exit(cli.main(['targets']))"],
        capture_output=True, text=True, check=False)
    assert run.returncode == 130 and run.stderr == "archloom: interrupted\n"


def _in_a_destructor() -> None:
    class Dropped:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGINT)

    Dropped()


def _when_collected() -> None:
    def collected(phase: str, _: object) -> None:
        if phase == "start":
            gc.callbacks.remove(collected)
            signal.raise_signal(signal.SIGINT)

    gc.callbacks.append(collected)
    gc.collect()


def _when_dropped() -> None:
    watched = {1, 2}
    kept = weakref.ref(watched, lambda _: signal.raise_signal(signal.SIGINT))
    del watched
    assert kept() is None


def _made_another_error() -> None:
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt as error:
        raise RuntimeError("as libraries in C++ do") from error


@pytest.mark.parametrize("lost", [_in_a_destructor, _when_collected, _when_dropped, _made_another_error])
def test_no_interruption_is_lost(
    lost: Callable[[], None], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where Python prints what is raised and goes on, and where libraries make something else of it."""
    def work() -> None:
        lost()
        end = time.monotonic() + 60
        while time.monotonic() < end:
            pass

    monkeypatch.setattr("archloom.tvm_backend.commands.targets.targets", work)
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert cli.main(["targets"]) == 130
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, handler)
    assert capsys.readouterr().err == "archloom: interrupted\n"


def test_an_interrupt_while_modules_are_imported() -> None:
    code = ("import os, signal, sys\n"
            "class Interrupting:\n"
            "    def find_spec(self, name, path=None, target=None):\n"
            "        if name.startswith('archloom.tvm_backend.commands.'):\n"
            "            os.kill(os.getpid(), signal.SIGINT)\n"
            "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
            "sys.meta_path.insert(0, Interrupting())\n"
            "sys.argv = ['archloom', 'targets']\n"
            "from archloom.__main__ import main; main()")
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 130 and not run.stdout and "Traceback" not in run.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_full_standard_output() -> None:
    with open("/dev/full", "w") as full:
        run = subprocess.run([sys.executable, "-m", "archloom.tvm_backend.cli", "targets", "--json"], stdout=full,
                             stderr=subprocess.PIPE, text=True, check=False)
    assert run.returncode == 2
    assert run.stderr == "archloom: standard output: No space left on device\n"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("streams", ["2>/dev/full", ">&- 2>&-", *map(slow, ("2>&-", ">&-", "<&-", "<&- >&- 2>&-"))])
@pytest.mark.parametrize(("words", "status"), [
    ("describe nothing", 2), slow("targets", 0), slow("estimate --no-cache 'gemm(m=4,n=4,k=4)'", 0)])
def test_streams_that_cannot_be_written_or_are_closed(streams: str, words: str, status: int) -> None:
    """The exit status is that with sound streams; what can be said is no traceback."""
    run = subprocess.run(["sh", "-c", f'"{sys.executable}" -m archloom {words} {streams}'], capture_output=True,
                         text=True, check=False)
    assert run.returncode == status and "Traceback" not in run.stderr


def test_an_empty_model_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(["estimate", ""])
    assert stop.value.code == 2
    assert "argument MODEL: expected a file or an operator, found an empty text" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "content"), [
    ("n.onnxtxt", '<ir_version: 8, producer_name: "' + "a" * 100_000),
    ("n.taidl", "isa t; [m](4)(1 x i8); [go](i) { %x:1x1xi8 <- $m[" + "-" * 50_000 + "i]; }"),
])
def test_messages_are_short_however_long_the_input(fails: Fails, tmp_path: Path, name: str, content: str) -> None:
    path = _write(tmp_path / name, content)
    command = ("isa", path) if name.endswith("taidl") else ("estimate", path)
    said = fails(r"\.\.\. \([\d,]+ characters more\)", *command)
    assert max(map(len, said.splitlines())) < cli.MOST_CHARACTERS + 100
