"""FlashAttention over the heads and lengths of figure 7 of the TL paper, on Wormhole, and its numerics.

64 and 128 heads of 2048 / heads numbers, sequences of 512 to 8192, 8192 tokens in all, not causal, fp16. The searched
plans share keys and values over the network or keep them; they are compared with mappings that load keys and values
from memory again for every block of queries, in every core on its own:

* ``speedup``: 32 queries at a time, the library's default (``ttnn/operations/transformer/sdpa``), and the best number
  of keys at a time;
* ``over_library``: 32 queries and 32 keys at a time, the library's default for both;
* ``over_best_reload``: the best blocks of both. Large blocks of queries need so few loads that the vector unit limits,
  not memory: what then remains is what sharing alone gains.

Numerics: the oracle, all cores at once, against a float32 reference.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from common import arguments, finish
from tl_common import data, geometric_mean, reference

CHECKED = ((2, 2, 4, 256, 32), (2, 2, 8, 192, 16))
"""Rows and columns of a mesh, problems, sequence and width of a head."""


def main() -> None:
    args = arguments(__doc__ or "", _options)
    rows = list(_rows(reference(args.data)["workloads"]["flash_attention"], args.quick))
    result: dict[str, Any] = {
        "speedup": geometric_mean(r["reload_32"] / r["cycles"] for r in rows),
        "least_speedup": min(r["reload_32"] / r["cycles"] for r in rows),
        "over_library": geometric_mean(r["library"] / r["cycles"] for r in rows),
        "over_best_reload": geometric_mean(r["reload"] / r["cycles"] for r in rows),
        "max_abs_error": max(_error(*case) for case in CHECKED), "rows": rows,
    }
    finish(args, result)


def _options(parser: argparse.ArgumentParser) -> None:
    data(parser)
    parser.add_argument("--quick", action="store_true", help="only sequences up to 1024")


def _rows(recorded: Any, quick: bool) -> Any:
    from acadl_models.wormhole import wormhole
    from mapper.spatial.attention import Attention
    from mapper.spatial.attention_emit import emit_attention
    from mapper.spatial.attention_search import (
        attention_cycles,
        attention_space,
        search_attention,
        vendor_attention,
    )
    from mapper.spatial.machine import Machine
    from mapper.spatial.timing import simulated

    graph = wormhole()
    machine = Machine.of(graph)
    print(f"{'heads':>5} {'length':>6} {'TFLOP/s':>8} {'of 32':>6} {'library':>8} {'best reload':>11}  plan")
    for heads in recorded["heads"]:
        for length in recorded["seq"]:
            if quick and length > 1024:
                continue
            batch, width = recorded["batch"][str(length)], recorded["head_dim"][str(heads)]
            attention = Attention.of(batch, heads, length, width)
            best = search_attention(attention, graph).best
            reload = search_attention(attention, graph, patterns=("none",), levels=("stream",), top_k=3).best
            few = [p for p in attention_space(attention, machine, ("none",), ("stream",)) if p.block[0] == 1]
            narrow = few[int(np.argmin(attention_cycles(attention, machine, few)))]
            cycles = [
                simulated(emit_attention(attention, plan, machine), graph).cycles
                for plan in (narrow, vendor_attention(attention, machine))
            ]
            row = {
                "heads": heads, "length": length, "cycles": best.cycles, "reload_32": cycles[0], "library": cycles[1],
                "reload": reload.cycles, "plan": str(best.plan),
            }
            flops = 4 * batch * heads * length**2 * width
            ratios = [row[name] / best.cycles for name in ("reload_32", "library", "reload")]
            print(f"{heads:5} {length:6} {flops / best.cycles / 1e3:8.2f} {ratios[0]:6.2f} {ratios[1]:8.2f} "
                  f"{ratios[2]:11.2f}  {best.plan}", flush=True)
            yield row


def _error(rows: int, columns: int, problems: int, length: int, width: int) -> float:
    """Largest difference of the oracle's result from attention in float32, of normally distributed numbers."""
    from acadl_models.wormhole import wormhole
    from mapper.spatial.attention import Attention, from_tiles, to_tiles
    from mapper.spatial.attention_emit import emit_attention
    from mapper.spatial.attention_search import attention_cycles, attention_space
    from mapper.spatial.machine import Machine
    from mapper.spatial.timing import isa_of
    from oracle.xla import compile_stream

    graph = wormhole(rows=rows, columns=columns)
    machine, attention = Machine.of(graph), Attention(problems, length, length, width)
    plans = attention_space(attention, machine)
    plan = plans[int(np.argmin(attention_cycles(attention, machine, plans)))]
    random = np.random.default_rng(length)
    q, k, v = (random.standard_normal((problems, length, width)).astype(np.float16) for _ in range(3))
    run = compile_stream(emit_attention(attention, plan, machine), isa_of(graph))
    result = from_tiles(np.asarray(run(*map(to_tiles, (q, k, v)))[0]), (length, width)).astype(np.float32)
    scores = q.astype(np.float32) @ k.astype(np.float32).transpose(0, 2, 1) * attention.scale
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    expected = weights / weights.sum(-1, keepdims=True) @ v.astype(np.float32)
    error = float(np.abs(result - expected).max())
    print(f"oracle, {problems} heads of {length} x {width}, {rows} x {columns} cores, {plan}: error {error:.1e}",
          flush=True)
    return error


if __name__ == "__main__":
    main()
