"""FlashAttention over the heads and lengths of figure 7 of the TL paper, on Wormhole, and its numerics.

64 and 128 heads of 2048 / heads numbers, sequences of 512 to 8192, 8192 tokens in all, not causal (as in the paper),
fp16. The searched plans share keys and values over the network or keep them; they are compared with mappings that load
keys and values from memory again for every block of queries, in every core on its own:

* ``over_library``: 32 queries and 32 keys at a time, the library's default (``ttnn/operations/transformer/sdpa``): the
  paper compares with its default mapping, measured on hardware;
* ``over_reload_32``: 32 queries at a time, and the best number of keys at a time;
* ``over_best_reload``: the best blocks of both. Large blocks of queries need so few loads that the units of a core
  limit, not memory: what then remains is what sharing alone gains.

Each is a geometric mean, with its least beside it, and has a form ``_without_launch``: without the fitted launch of the
cores, which both sides have once.

``busy``: the share of the time, without the launch, in which a core's matrix or vector unit works, whichever works
more. Rank correlation (Spearman) of the cost model with the simulation: candidates drawn from the range of estimates up
to eight times the best; the same for ``OTHER_SHAPES`` on meshes and triple rings (``least_on_others``). Beyond the
paper: causal masks (``causal_time``: the time over that with all keys), and a model with grouped queries (32 heads of
128, 8 of keys): reading 2048 tokens, and a step of decoding with 8192 tokens in the cache. ``decoding``: the time of
steps of decoding without over that with keys dealt out to several cores, whose results are merged over the network;
geometric mean of ``DECODED``. Numerics: the oracle, all cores at once, against a
float32 reference.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout, however the script is run:
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # its benchmarks, its examples and its archloom

from benchmarks.common import arguments, finish
from benchmarks.cores.tl_common import data, geometric_mean, on_others, ranked, reference, sampled, times

if TYPE_CHECKING:
    from archloom.mapper.spatial.attention.space import Attention

CHECKED: tuple[tuple[int, int, tuple[int, ...], dict[str, Any]], ...] = (
    (2, 2, (1, 4, 256, 32), {}), (2, 2, (2, 4, 192, 16), {}), (2, 2, (1, 8, 150, 32, 2), {"causal": True}),
    (2, 3, (2, 6, 70, 64, 2), {"keys": 330, "causal": True}), (2, 2, (2, 8, 1, 64, 2), {"keys": 700, "causal": True}),
    (2, 4, (1, 8, 1, 128, 1), {"keys": 1000, "causal": True}),
)
"""Rows and columns of a mesh; batch, heads, queries, width of a head, heads of keys; keys and mask."""

CAUSAL = (512, 1024, 2048)
"""Lengths that are also planned with a causal mask: longer programs take long to simulate."""

GROUPED = ((2048, 2048), (1, 8192))
"""Queries and keys."""

DECODED = ((1, 32, 1, 8192), (1, 32, 8, 8192), (1, 32, 8, 2048), (8, 16, 2, 4096), (1, 32, 32, 8192))
"""Batch, heads of 128 numbers, heads of keys, and keys."""

OTHER_SHAPES: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "8 x 512": ((1, 8, 512, 64), {}), "4 x 384, causal": ((1, 4, 384, 64), {"causal": True}),
    "8 x 200, 2 of keys, 256 before": ((1, 8, 200, 64, 2), {"keys": 456, "causal": True}),
    "2 x 16 x 1, 4 of 2048 keys": ((2, 16, 1, 64, 4), {"keys": 2048, "causal": True}),
}
"""Batch, heads, queries, width and heads of keys, ranked on other machines."""

RANKED = 2048
"""The longest sequence for which candidates of the whole range are simulated."""


def main() -> None:
    args = arguments(__doc__ or "", _options, seeded=True)
    recorded = reference(args.data)["workloads"]["flash_attention"]
    rows = list(_rows(recorded, args.quick))
    correlations, others = dict(_correlations(recorded, args)), _others(args)
    result: dict[str, Any] = {
        **_over(rows), "busy": geometric_mean(r["busy"] for r in rows), "least_busy": min(r["busy"] for r in rows),
        "least_correlation": min(correlations.values()),
        "mean_correlation": float(np.mean(list(correlations.values()))), "correlations": correlations,
        "least_on_others": min(others.values()),
        "mean_on_others": float(np.mean(list(others.values()))), "others": others,
        **_causal(rows, recorded), "grouped": list(_grouped()), **_decoded(),
        "max_abs_error": max(_error(*case, args.seed) for case in CHECKED), "rows": rows,
    }
    finish(args, result)


def _over(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Geometric means, least and most of the times of the other mappings over ours, with the launch and without it."""
    found: dict[str, float] = {}
    for name, key in (("reload_32", "over_reload_32"), ("library", "over_library"), ("reload", "over_best_reload")):
        pairs = [times(r["cycles"], r[name], r["launch"]) for r in rows]
        for number, ending in enumerate(("", "_without_launch")):
            ratios = [pair[number] for pair in pairs]
            found |= {f"{key}{ending}": geometric_mean(ratios), f"least_{key}{ending}": min(ratios),
                      f"most_{key}{ending}": max(ratios)}
    return found


def _options(parser: argparse.ArgumentParser) -> None:
    data(parser)
    sampled(parser)
    parser.add_argument("--quick", action="store_true", help="only sequences up to 1024")


def _workloads(recorded: Any, quick: bool, causal: bool = False) -> Any:
    """Heads, length and workload of each point of figure 7."""
    from archloom.mapper.spatial.attention.space import Attention

    for heads in recorded["heads"]:
        for length in recorded["seq"]:
            if not quick or length <= 1024:
                batch, width = recorded["batch"][str(length)], recorded["head_dim"][str(heads)]
                yield heads, length, Attention.of(batch, heads, length, width, causal=causal)


def _rows(recorded: Any, quick: bool) -> Any:
    from archloom.acadl_models.wormhole import wormhole
    from archloom.mapper.spatial.attention.cost import attention_cycles
    from archloom.mapper.spatial.attention.space import AttentionRules, attention_space
    from archloom.mapper.spatial.machines.machine import Machine
    from archloom.mapper.spatial.programs.timing import simulated
    from archloom.mapper.spatial.workloads import emitted, search_workload
    from benchmarks.cores.templates import vendor_attention

    graph = wormhole()
    machine = Machine.of(graph)
    again = AttentionRules(("none",), ("stream",), most_parts=1)
    narrow = AttentionRules(again.patterns, again.levels, 1, 1)
    print(f"{'heads':>5} {'length':>6} {'TFLOP/s':>8} {'busy':>5} {'of 32':>6} {'library':>8} {'reload':>7}  plan")
    for heads, length, attention in _workloads(recorded, quick):
        best = search_workload(attention, graph).best
        reload = search_workload(attention, graph, rules=again, top_k=3).best
        few = attention_space(attention, machine, narrow)
        chosen = few.plan(int(np.argmin(attention_cycles(attention, machine, few))))
        cycles = [
            simulated(emitted(attention, plan, machine), graph).cycles
            for plan in (chosen, vendor_attention(attention, machine))
        ]
        row = {
            "heads": heads, "length": length, "cycles": best.cycles, "reload_32": cycles[0], "library": cycles[1],
            "reload": reload.cycles, "launch": machine.launch_cycles, "plan": str(best.plan),
            "busy": _busy(best.timing, machine.launch_cycles),
        }
        ratios = [row[name] / best.cycles for name in ("reload_32", "library", "reload")]
        print(f"{heads:5} {length:6} {2 * attention.products / best.cycles / 1e3:8.2f} {row['busy']:5.2f} "
              f"{ratios[0]:6.2f} {ratios[1]:8.2f} {ratios[2]:7.2f}  {best.plan}", flush=True)
        yield row


def _busy(timing: Any, launch: int) -> float:
    units = [unit for unit in timing.units if unit.name.split(".")[1:2] in (["matrix"], ["vector"])]
    return max(unit.busy_cycles for unit in units) / (timing.cycles - launch)


def _correlations(recorded: Any, args: argparse.Namespace) -> Any:
    """Of the points of figure 7 up to ``RANKED``, and with a causal mask of the shortest; heads of as many tiles differ
    only in how many problems there are, and count once."""
    from archloom.acadl_models.wormhole import wormhole

    graph = wormhole()
    points = [point for point in _workloads(recorded, args.quick) if point[1] <= RANKED]
    points += [point for point in _workloads(recorded, args.quick, True) if point[1] == min(CAUSAL)]
    alike = {(a.tiles, a.past): (heads, length, a) for heads, length, a in reversed(points)}
    for heads, length, attention in reversed(alike.values()):
        name = f"{heads} x {length}" + (" causal" if attention.past is not None else "")
        value = ranked(attention, graph, args.seed, args.samples)[0]
        print(f"rank correlation {name}: {value:.4f}", flush=True)
        yield name, value


def _others(args: argparse.Namespace) -> dict[str, float]:
    from archloom.mapper.spatial.attention.space import Attention

    works = {name: Attention.of(*shape, **options) for name, (shape, options) in OTHER_SHAPES.items()}
    return on_others(works, args.seed, args.samples)


def _causal(rows: Any, recorded: Any) -> dict[str, Any]:
    from archloom.acadl_models.wormhole import wormhole
    from archloom.mapper.spatial.workloads import search_workload

    graph, full = wormhole(), {(r["heads"], r["length"]): r["cycles"] for r in rows}
    shares = {}
    for heads, length, attention in _workloads(recorded, False, True):
        if length in CAUSAL and (heads, length) in full:
            best = search_workload(attention, graph, top_k=2).best
            shares[f"{heads} x {length}"] = best.cycles / full[heads, length]
            print(f"causal {heads} x {length}: {shares[f'{heads} x {length}']:.2f} of the time, "
                  f"{2 * attention.products / best.cycles / 1e3:.2f} TFLOP/s  {best.plan}", flush=True)
    return {"causal_time": geometric_mean(shares.values()), "most_causal_time": max(shares.values()), "causal": shares}


def _grouped() -> Any:
    from archloom.acadl_models.wormhole import wormhole
    from archloom.mapper.spatial.attention.space import Attention
    from archloom.mapper.spatial.workloads import search_workload

    graph = wormhole()
    for queries, keys in GROUPED:
        attention = Attention.of(1, 32, queries, 128, 8, keys=keys, causal=True)
        best = search_workload(attention, graph, top_k=3).best
        loaded = 2 * attention.problems * attention.keys * attention.width * 2
        row = {
            "queries": queries, "keys": keys, "cycles": best.cycles, "bytes_per_cycle": loaded / best.cycles,
            "tflops": 2 * attention.products / best.cycles / 1e3, "plan": str(best.plan),
        }
        print(f"grouped, {queries} queries, {keys} keys: {best.cycles} cycles, {row['tflops']:.2f} TFLOP/s, "
              f"keys and values once: {row['bytes_per_cycle']:.0f} bytes a cycle  {best.plan}", flush=True)
        yield row


def _decoded() -> dict[str, Any]:
    from archloom.acadl_models.wormhole import wormhole
    from archloom.mapper.spatial.attention.space import Attention, AttentionRules
    from archloom.mapper.spatial.workloads import search_workload

    graph, found = wormhole(), {}
    for batch, heads, kv_heads, keys in DECODED:
        attention = Attention.of(batch, heads, 1, 128, kv_heads, keys=keys, causal=True)
        best = search_workload(attention, graph).best
        whole = search_workload(attention, graph, rules=AttentionRules(most_parts=1)).best
        name = f"{batch} x {heads} heads, {kv_heads} of {keys} keys"
        found[name] = whole.cycles / best.cycles
        print(f"decoding, {name}: {best.cycles} cycles, {found[name]:.2f} times as fast as with whole keys  "
              f"{best.plan}", flush=True)
    return {"decoding": geometric_mean(found.values()), "least_decoding": min(found.values()), "decoded": found}


def _error(rows: int, columns: int, shape: tuple[int, ...], options: dict[str, Any], seed: int) -> float:
    """Largest difference of the oracle's result from attention in float32, of normally distributed numbers."""
    from archloom.acadl_models.wormhole import wormhole
    from archloom.mapper.spatial.attention.space import Attention
    from archloom.mapper.spatial.machines.machine import Machine, isa_of
    from archloom.mapper.spatial.workloads import emitted, search_workload
    from archloom.oracle.xla import compile_stream

    graph, attention = wormhole(rows=rows, columns=columns), Attention.of(*shape, **options)
    plan = search_workload(attention, graph, top_k=1).best.plan
    random = np.random.default_rng(seed)
    shape = (attention.problems, attention.group, attention.queries, attention.width)
    q = random.standard_normal(shape).astype(np.float16)
    k, v = random.standard_normal((2, attention.problems, attention.keys, attention.width)).astype(np.float16)
    run = compile_stream(emitted(attention, plan, Machine.of(graph)), isa_of(graph))
    tiles = np.asarray(run(attention.query_tiles(q), attention.key_tiles(k), attention.key_tiles(v))[0])
    error = float(np.abs(attention.output(tiles).astype(np.float32) - _expected(attention, q, k, v)).max())
    print(f"oracle, {attention}, {rows} x {columns} cores, {plan}: error {error:.1e}", flush=True)
    return error


def _expected(attention: "Attention", q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    scores = q.astype(np.float32) @ k.astype(np.float32).transpose(0, 2, 1)[:, None] * attention.scale
    if attention.past is not None:
        seen = np.arange(attention.keys) <= np.arange(attention.queries)[:, None] + attention.past
        scores = np.where(seen, scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return np.asarray(weights / weights.sum(-1, keepdims=True) @ v.astype(np.float32)[:, None])


if __name__ == "__main__":
    main()
