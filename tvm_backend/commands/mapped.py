"""The workloads that ``map`` plans, as its options state them."""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from archloom.oracle.errors import InputError

if TYPE_CHECKING:
    from archloom.mapper.spatial.workloads import AnyWork

_ACTIVATIONS = "relu, gelu, silu, sigmoid, tanh, exp"
_SWEEPS = ("softmax", "layer_norm", "rms_norm", "sum", "mean", "max")


@dataclass(frozen=True)
class Asked:
    """A workload, the option that it was asked for with, its extents and its multiply-accumulates (0: none)."""

    work: "AnyWork"
    kind: str
    size: tuple[int, ...]
    macs: int

    @property
    def name(self) -> str:
        """Such as ``attention 8 x 12 x 512 x 64``."""
        return f"{self.kind} {' x '.join(map(str, self.size))}"


def register(parser: argparse.ArgumentParser) -> None:
    kinds = parser.add_mutually_exclusive_group(required=True)
    kinds.add_argument("--gemm", metavar="MxNxK", help="C[M, N] = A[M, K] . B[K, N], in elements")
    kinds.add_argument("--products", metavar="BxMxNxK", help="B products of M x K by K x N")
    kinds.add_argument("--convolution", metavar="NxHxWxCxOxKHxKW",
                       help="N images of H x W and C channels, O filters of KH x KW; --stride, --padding")
    kinds.add_argument("--attention", metavar="BxHxQxD", help="batch, heads, queries and numbers of a head; --keys, "
                                                              "--kv-heads, --causal")
    kinds.add_argument("--chain", metavar="MxKxHxN", help="activation(A[M, K] . W1[K, H]) . W2[H, N]")
    for kind in _SWEEPS:
        kinds.add_argument(f"--{kind.replace('_', '-')}", metavar="MxN", help=argparse.SUPPRESS if kind != "softmax"
                           else f"of each of M rows of N numbers; also --{', --'.join(_SWEEPS[1:])}".replace("_", "-"))
    parser.add_argument("--keys", type=int, metavar="N", help="keys of attention (default: as many as queries)")
    parser.add_argument("--kv-heads", type=int, metavar="N", help="heads of keys and values (default: all)")
    parser.add_argument("--causal", action="store_true", help="queries see the keys up to their own")
    parser.add_argument("--activation", metavar="NAME",
                        help=f"of products, convolutions and chains: {_ACTIVATIONS} (chains: gelu, or none)")
    parser.add_argument("--stride", type=int, default=1, metavar="N", help="of convolutions")
    parser.add_argument("--padding", type=int, default=0, metavar="N", help="of convolutions, on each side")


def asked(args: argparse.Namespace) -> Asked:
    """The workload; InputError for extents that are none, or options that another workload has."""
    kind = next(name for name in (*_FORMS, *_SWEEPS) if getattr(args, name) is not None)
    _check(kind, args)
    return _made(kind, _extents(kind, args), args)


_FORMS = {"gemm": "MxNxK", "products": "BxMxNxK", "convolution": "NxHxWxCxOxKHxKW", "attention": "BxHxQxD",
          "chain": "MxKxHxN"}
_OPTIONS = {
    "products": ("activation",), "convolution": ("activation", "stride", "padding"),
    "attention": ("keys", "kv_heads", "causal"), "chain": ("activation",),
}


def _check(kind: str, args: argparse.Namespace) -> None:
    defaults = {"keys": None, "kv_heads": None, "causal": False, "activation": None, "stride": 1, "padding": 0}
    for name, default in defaults.items():
        if getattr(args, name) != default and name not in _OPTIONS.get(kind, ()):
            kinds = [f"--{other}" for other, names in _OPTIONS.items() if name in names]
            raise InputError(f"--{name.replace('_', '-')} goes with {' and '.join(kinds)}, not with --{kind}")


def _extents(kind: str, args: argparse.Namespace) -> tuple[int, ...]:
    text, form = getattr(args, kind), _FORMS.get(kind, "MxN")
    count = form.count("x") + 1
    if re.fullmatch("x".join(["[0-9]{1,9}"] * count), text) is None:
        raise InputError(f"--{kind} {text!r}: expected {form}, such as {'x'.join(['64'] * count)}")
    return tuple(map(int, text.split("x")))


def _made(kind: str, size: tuple[int, ...], args: argparse.Namespace) -> Asked:
    from archloom.mapper.spatial.attention import Attention
    from archloom.mapper.spatial.batched import Product
    from archloom.mapper.spatial.chain import Chain
    from archloom.mapper.spatial.convolution import Convolution
    from archloom.mapper.spatial.epilogue import Epilogue
    from archloom.mapper.spatial.plan import TileGemm
    from archloom.mapper.spatial.reduction import Rows

    if kind == "gemm":
        m, n, k = size
        return Asked(TileGemm.of(m, n, k), kind, size, m * n * k)
    if kind == "products":
        batch, m, n, k = size
        products = Product(batch, m, n, k, epilogue=Epilogue(activation=args.activation))
        return Asked(products, kind, size, products.macs)
    if kind == "convolution":
        n, h, w, c, o, kh, kw = size
        if args.stride < 1 or args.padding < 0:
            raise InputError(f"--stride {args.stride} --padding {args.padding}: expected at least 1, and at least 0")
        convolution = Convolution(n, h, w, c, o, (kh, kw), (args.stride, args.stride), (args.padding,) * 4,
                                  epilogue=Epilogue(activation=args.activation))
        return Asked(convolution, kind, size, convolution.macs)
    if kind == "attention":
        batch, heads, queries, width = size
        attention = Attention.of(batch, heads, queries, width, args.kv_heads, keys=args.keys, causal=args.causal)
        return Asked(attention, kind, size, attention.products)
    if kind == "chain":
        m, k, hidden, n = size
        chain = Chain(m, k, hidden, n, None if args.activation == "none" else args.activation or "gelu")
        return Asked(chain, kind, size, chain.products)
    return Asked(Rows(*size, kind), kind, size, 0)  # type: ignore[arg-type,call-arg]
