"""What XLA's programs take beside arguments and results: known before they run, bounded, refused with the figure."""

from __future__ import annotations

import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import jax
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from archloom.oracle import interpreter, taidl
from archloom.oracle.errors import InputError
from archloom.oracle.memory import memory_errors, room_bytes
from archloom.oracle.reading import memory_bytes
from archloom.oracle.stream import HbmTensor, Stream
from archloom.oracle.xla import compile_resolved, compile_stream, executables
from archloom.oracle.xla.notation.limits import Limits
from tests.oracle.xla.test_xla_resolved import sums, values
from tests.support.examples import examples, randoms
from tests.support.oracle.any_isa import Programs, small_parameters
from tests.support.oracle.any_stream import HBM_BYTES, legal_body, memory

ROOT = Path(__file__).resolve().parents[3]


def taken(name: str, made: object) -> int:
    return executables.needed(made, name)


@examples(2, 60)
@given(st.sampled_from(taidl.available()), randoms, st.integers(0, 1 << 16))
def test_a_program_keeps_its_bound_or_is_refused_with_what_it_takes(name: str, r: Random, most: int) -> None:
    isa = taidl.load(name, **small_parameters(name, r))
    body = legal_body(Programs(r, isa, HBM_BYTES), most=2)
    assume(body)
    whole = HbmTensor("memory", 0, (HBM_BYTES,), "int8")
    stream, given_bytes = Stream(isa.name, isa.parameters, (whole,), (whole,), HBM_BYTES, body), memory(r, isa)
    oracle = compile_stream(stream, isa, limits=Limits(temporary_bytes=most, temporary_bytes_for_one=0))
    try:
        run = oracle.compile()
    except InputError as error:
        assert not oracle.raised and f"bytes beside arguments and results, more than {most:,}" in str(error)
        figures = [int(n.replace(",", "")) for n in re.findall(r"takes ([\d,]+) bytes", str(error))]
        loops = compile_stream(stream, isa, raising=False)
        assert figures[-1] == taken("it", loops.program.executable("it")) > most
        return
    assert taken("it", oracle.program.executable("it")) <= most
    expected = interpreter.run(stream, isa, {"memory": given_bytes})["memory"]
    if not oracle.program.raising:  # what raised programs give is held elsewhere
        assert np.array_equal(np.asarray(run(jax.device_put(given_bytes))[0]), expected)


def test_what_takes_too_much_raised_is_made_of_loops() -> None:
    free = compile_resolved(sums(100))
    raised, loops = (taken("sums", o.program.executable("sums")) for o in (free, compile_resolved(
        sums(100), raising=False)))
    assert 0 < raised < loops
    with pytest.raises(InputError, match=rf"sums runs as loops over its buffers, because XLA's program takes {raised} "
                                         rf"bytes .* more than {raised - 1}; as loops, .* takes {loops:,} bytes"):
        compile_resolved(sums(100), limits=Limits(temporary_bytes=raised - 1, temporary_bytes_for_one=0)).compile()
    kept = compile_resolved(sums(100), limits=Limits(temporary_bytes=raised, temporary_bytes_for_one=0))
    kept.compile()
    assert kept.raised


def test_bounds_grow_with_arguments_and_results() -> None:
    given_bytes = 100 * 16 + 16
    oracle = compile_resolved(sums(100), limits=Limits(temporary_bytes=1, temporary_bytes_for_one=2))
    assert oracle.program.most_bytes == 2 * given_bytes
    assert np.array_equal(np.asarray(oracle.compile()(jax.device_put(values(100)))[0]),
                          np.asarray(compile_resolved(sums(100))(values(100))[0]))


def test_loops_of_more_instructions_than_xla_compiles_in_time_are_refused() -> None:
    """Before anything is compiled, with the number; the stream has three instructions."""
    with pytest.raises(InputError, match=r"^sums runs as loops over its buffers, because raising is switched off; XLA "
                                         r"takes .* of which there are 3, more than 2: only the interpreter runs it$"):
        compile_resolved(sums(104), raising=False, limits=Limits(loop_instructions=2))
    oracle = compile_resolved(sums(104), raising=False, limits=Limits(loop_instructions=3))
    assert np.array_equal(np.asarray(oracle(values(104))[0]), np.asarray(compile_resolved(sums(104))(values(104))[0]))
    assert compile_resolved(sums(104), limits=Limits(loop_instructions=0)).raised


@pytest.fixture
def little_room() -> Iterator[int]:
    """A limit of addresses that leaves 3 GiB."""
    limits = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (3 << 30), limits[1]))
    yield 3 << 30
    resource.setrlimit(resource.RLIMIT_AS, limits)


def test_limits_of_the_process_count(little_room: int) -> None:
    assert min(memory_bytes(), little_room) - (1 << 28) <= room_bytes() <= little_room


def test_a_program_larger_than_the_room_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executables, "room_bytes", lambda: 100)
    with pytest.raises(InputError, match=r"^sums: XLA's program takes \d+ bytes; there are 100$"):
        compile_resolved(sums(103)).compile()


def test_only_errors_of_memory_become_such() -> None:
    with pytest.raises(MemoryError, match="Out of memory"), memory_errors():
        raise RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 5 bytes")
    with pytest.raises(MemoryError, match="you tried"), memory_errors():
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 5 bytes.")
    with pytest.raises(RuntimeError, match="INTERNAL"), memory_errors():
        raise RuntimeError("INTERNAL: it broke")


@pytest.mark.slow
def test_xla_says_so_where_memory_runs_out() -> None:
    """The limit comes after the program was found to fit."""
    code = """if True:
        import jax, jax.numpy as jnp, numpy as np, resource
        from pathlib import Path
        from archloom.oracle.memory import memory_errors
        from archloom.oracle.xla.executables import of
        n = 30_000
        made = jax.jit(lambda x: jnp.sort(x[:, None] * x[None, :], axis=0)[3]).lower(
            jax.ShapeDtypeStruct((n,), np.float32)).compile()
        run, given = of(made, 1), jnp.ones(n)
        held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (held + (1 << 30),) * 2)
        try:
            with memory_errors():
                np.asarray(run(given)[0])
        except MemoryError as error:
            print(error)
    """
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT / "src", capture_output=True, text=True, check=False)
    assert "Out of memory allocating" in done.stdout, done.stderr[-2000:]
