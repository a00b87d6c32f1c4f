"""What instructions compute, by hand and on random products."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from archloom.acadl_models.energy.work import work_of
from archloom.oracle import taidl
from archloom.oracle.resolve import resolve
from archloom.oracle.resolved import ResolvedInstr
from archloom.oracle.stream import Instr, Stream
from tests.support.examples import examples


def worked(text: str, mnemonic: str = "op") -> Counter[tuple[str, str]]:
    """The work of an instruction without attributes of an ISA with these statements."""
    buffers = "[buf] (64) (8 x i8);\n[wide] (64) (8 x f32);\n"
    isa = taidl.instantiate(taidl.parse(f"isa one;\n{buffers}[{mnemonic}]() {{{text}}}"), {})
    node = resolve(Stream("one", (), (), (), 1, (Instr.make(mnemonic),)), isa).body[0]
    assert isinstance(node, ResolvedInstr)
    return work_of(node)


@examples(10, 100)
@given(st.integers(1, 32), st.integers(1, 8), st.integers(1, 8))
def test_a_product_multiplies_what_was_read_and_adds_what_it_declares(m: int, n: int, k: int) -> None:
    found = worked(f"""
        %A:{m}x{k}xi8 <- $buf[0 + {{{m} : 1}}, 0:{k}];
        %B:{n}x{k}xi8 <- $buf[32 + {{{n} : 1}}, 0:{k}];
        %AW:{m}x{k}xi32 = convert(%A);
        %BW:{n}x{k}xi32 = convert(%B);
        %C:{m}x{n}xi32 = dot_general(%AW, %BW, lhs_contracting={{1}}, rhs_contracting={{1}});
        %F:{m}x{n}xf32 = convert(%C);
        %F -> $wide[0 + {{{m} : 1}}, 0:{n}];
    """)
    assert found == {("multiply", "i8"): m * n * k, ("add", "i32"): m * n * k, ("convert", "i32"): m * n}


def test_elements_reductions_and_moves() -> None:
    found = worked("""
        %A:4x8xf32 <- $wide[0 + {4 : 1}, 0:8];
        %B:8x4xf32 = transpose(%A, permutation={1, 0});
        %E:8x4xf32 = exp(%B);
        %S:4xf32 = reduce(%E, dim={0}, kind=add);
        %W:8x4xf32 = broadcast_in_dim(%S, dims={1});
        %Q:8x4xf32 = divide(%E, %W);
        %R:4x8xf32 = transpose(%Q, permutation={1, 0});
        %R -> $wide[0 + {4 : 1}, 0:8];
    """)
    assert found == {("exp", "f32"): 32, ("add", "f32"): 32, ("divide", "f32"): 32}
