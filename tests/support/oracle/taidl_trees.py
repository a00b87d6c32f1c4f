"""Random syntax trees of TAIDL, and the description of the paper."""

from __future__ import annotations

from hypothesis import strategies as st

from archloom.oracle.taidl import ast
from archloom.oracle.taidl.printer import print_isa

TPU = """
isa tpu
[unified_buffer] (96K) (256xi8);    # 96K rows of 256 int8
[accumulator]    (4K)  (256xi32);
[weights]        ()    (256x256xi8);
[fifo]           (4)   (256x256xi8);
[MXU_in_fifo] (2,256) (128xf32);
occupancy = 0;  push = 0;  pop = 0;
[read_weights](addr)
assert(occupancy < 4);
%In:65536xi8       <- $hbm[addr:addr+65536];
%Out:1x256x256xi8   = reshape(%In);
%Out:1x256x256xi8  -> $fifo[push];
occupancy = occupancy + 1;
push      = (push + 1) % 4;
"""
"""Figures 4 and 6 of the paper as printed."""


def printed(tree: tuple[ast.Statement, ...]) -> str:
    """A description with the statements as the body of its only instruction."""
    return print_isa(ast.IsaDef("t", instructions=(ast.InstructionDecl("i", ("a", "b", "C", "H", "W"), tree),)))


leaves = st.one_of(
    st.integers(0, 2**40).map(ast.Number), st.sampled_from(["a", "b", "C", "dim"]).map(ast.Name),
)


def trees(children: st.SearchStrategy[ast.Expr]) -> st.SearchStrategy[ast.Expr]:
    operators = ["+", "-", "*", "//", "%", "<<", ">>", "&", "|", "==", "!=", "<", "<=", ">", ">=", "&&", "||"]
    return st.one_of(
        st.builds(ast.Binary, st.sampled_from(operators), children, children),
        st.builds(ast.Unary, st.sampled_from(["-", "!"]), children),
        st.builds(ast.Element, st.just("r"), children),
        st.builds(ast.Call, st.sampled_from(["min", "max", "cdiv"]), st.tuples(children, children)),
        st.builds(ast.Call, st.just("select"), st.tuples(children, children, children)),
    )


expressions = st.recursive(leaves, trees, max_leaves=20)


axes = st.one_of(
    st.builds(ast.At, expressions),
    st.builds(ast.Range, st.none() | expressions, st.none() | expressions, st.none() | expressions),
    st.builds(ast.Walk, expressions, st.lists(st.tuples(expressions, expressions), min_size=1, max_size=3).map(tuple)),
)
_dims = st.lists(expressions, max_size=3).map(tuple)
types = (st.builds(ast.Type, _dims, st.sampled_from(["i1", "i8", "f32", "bf16"]))
         | st.builds(ast.Type, _dims, st.sampled_from(["i", "u", "f"]), expressions))
slices = st.builds(ast.Slice, st.sampled_from(["hbm", "spad"]), st.lists(axes, max_size=3).map(tuple))
tensor_names = st.sampled_from(["In", "Out", "In.bv"])
leaf_statements = st.one_of(
    st.builds(ast.Read, tensor_names, types, slices),
    st.builds(ast.Write, tensor_names, st.none() | types, slices),
    st.builds(ast.Op, tensor_names, types, st.sampled_from(["add", "pad"]),
              st.lists(tensor_names.map(ast.Tensor) | expressions, max_size=2).map(tuple),
              st.lists(st.tuples(st.sampled_from(["low", "kind"]),
                                 expressions | st.lists(expressions, max_size=3).map(tuple).map(ast.Group)),
                       max_size=2).map(tuple)),
    st.builds(ast.Assign, st.just("r"), st.none() | expressions, expressions),
    st.builds(ast.Let, st.just("v"), expressions),
    st.builds(ast.Assert, expressions),
    st.builds(ast.Invoke, st.just("f"), st.lists(tensor_names.map(ast.Tensor) | expressions, max_size=2).map(tuple)),
)


def blocks(children: st.SearchStrategy[ast.Statement]) -> st.SearchStrategy[ast.Statement]:
    block = st.lists(children, max_size=3).map(tuple)
    return st.builds(ast.If, expressions, block, block) | st.builds(ast.Repeat, st.just("m"), expressions, block)


statements = st.recursive(leaf_statements, blocks, max_leaves=6)
