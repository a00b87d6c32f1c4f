"""Runs every benchmark, or those that are named, prints each figure beside its target, and writes their rows of
``benchmarks/RESULTS.md``."""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common import ROOT, child

RESULTS = Path(__file__).with_name("RESULTS.md")


@dataclass(frozen=True)
class Figure:
    """A figure of a benchmark: how it is read from the benchmark's JSON, what is demanded and what is aimed at."""

    name: str
    read: Callable[[Any], float | bool]
    demand: str
    holds: Callable[[float], bool] | None
    shown: str = "{:.3g}"


Row = tuple[str, str, str, str]
"""Figure, value, target, verdict."""


def at_most(limit: float) -> tuple[str, Callable[[float], bool]]:
    return f"≤ {limit:g}", lambda value: value <= limit


def at_least(limit: float, unit: str = "") -> tuple[str, Callable[[float], bool]]:
    return f"≥ {limit:,g}{unit}", lambda value: value >= limit


def equals(expected: float) -> tuple[str, Callable[[float], bool]]:
    return f"{expected:g}", lambda value: value == expected


YES = ("yes", bool)
RECORDED = ("–", None)
"""For figures that nobody has set a target for: they are recorded, and get no verdict."""


def least(result: Any, suite: str, key: str) -> float:
    """The least of a column over the kernels of a suite of ``oracle.py``."""
    return min(k[key] for k in result["kernels"] if k["suite"] == suite)


def most(result: Any, suite: str, key: str) -> float:
    """The largest of a column over the kernels of a suite of ``oracle.py``."""
    return max(k[key] for k in result["kernels"] if k["suite"] == suite)


SUITE: dict[str, tuple[Figure, ...]] = {
    "import_time.py": (Figure("import archloom, seconds", lambda r: r["import_s"], *at_most(0.3)),),
    "oracle_gemm.py": (
        Figure("oracle over native XLA, worst of four int8 GEMMs", lambda r: r["worst_ratio"], *at_most(2)),
        Figure("oracle compile, worst, seconds", lambda r: r["worst_compile_s"], *at_most(2)),
    ),
    "taidl_golden.py": (
        Figure("recorded vectors of Spike and SDE, share met exactly", lambda r: r["equal"] / r["vectors"],
               *equals(1)),
    ),
    "oracle.py": (
        Figure("oracle of TAIDL's kernels: share that meets what is required", lambda r: r["met"] / r["count"],
               *equals(1)),
        Figure("… times as fast as TAIDL's own oracle, least", lambda r: r["least_faster_than_taidl"], *at_least(1)),
        Figure("… Exo's GEMMs, times as fast as TAIDL's, least",
               lambda r: least(r, "exo", "faster_than_taidl"), *at_least(60)),
        Figure("… Exo's GEMMs over native XLA, worst", lambda r: most(r, "exo", "over_native"), *at_most(1.5)),
        Figure("… I-BERT's encoder over native XLA", lambda r: most(r, "ibert", "over_native"), *at_most(2)),
        Figure("… I-BERT's encoder, times as fast as TAIDL's", lambda r: least(r, "ibert", "faster_than_taidl"),
               *at_least(1)),
        Figure("… an int8 GEMM of 512³ in XLA, time over that where TAIDL's times were recorded",
               lambda r: r["gemm_512_ms"] / r["recorded_gemm_512_ms"], *RECORDED),
        Figure("… compile time over TAIDL's, worst", lambda r: r["worst_compile_over_taidl"], *at_most(1)),
    ),
    "kernel_call.py": (
        Figure("call of a tiny kernel, NumPy in and out, µs", lambda r: r["numpy_us"], *at_most(25)),
        Figure("… with arrays on the device, µs", lambda r: r["jax_us"], *at_most(28)),
        Figure("… JAX's own part of it, µs", lambda r: r["jax_alone_us"], *RECORDED),
    ),
    "timing_engine.py": (
        Figure("Gemmini, stepped without skipping, instructions/s", lambda r: r["engine_ips"], *at_least(5e6),
               shown="{:,.0f}"),
        Figure("the same with binding and lowering, instructions/s", lambda r: r["simulate_ips"], *RECORDED,
               shown="{:,.0f}"),
        Figure("step-by-step simulator on Gemmini, instructions/s", lambda r: r["reference_ips"], *RECORDED,
               shown="{:,.0f}"),
        Figure("Gemmini with proven skipping, simulated instructions/s", lambda r: r["skipping_ips"], *RECORDED,
               shown="{:,.0f}"),
        Figure("OMA with cache, stepped, instructions/s", lambda r: r["oma"]["engine_ips"], *at_least(1e6),
               shown="{:,.0f}"),
        Figure("systolic array 16 x 16, every PE simulated, stepped, instructions/s",
               lambda r: r["systolic_array"]["engine_ips"], *at_least(1e6), shown="{:,.0f}"),
        Figure("ResNet-50 on Gemmini, all layers with skipping, seconds", lambda r: r["resnet50"]["skipping_s"],
               *at_most(0.3)),
        Figure("its loop iterations stepped, share",
               lambda r: r["resnet50"]["stepped_iterations"] / r["resnet50"]["iterations"], *RECORDED),
        Figure("product of ten billion instructions: loop iterations stepped",
               lambda r: r["huge"]["stepped_iterations"], *RECORDED, shown="{:,.0f}"),
    ),
    "memories.py": (
        Figure("caches: share of random streams with pycachesim's hits and misses",
               lambda r: r["cache_equal"] / r["cache_rows"], *equals(1)),
        Figure("DRAM: share with the row hits, misses and conflicts of the transcription",
               lambda r: r["dram_equal"] / r["dram_rows"], *equals(1)),
        Figure("… accesses/s of the fast engine, without skipping", lambda r: r["accesses_per_second"], *RECORDED,
               shown="{:,.0f}"),
    ),
    "tl_table1.py": (
        Figure("Wormhole, products of the TL paper's table 1: mean error of TFLOP/s", lambda r: r["mean_error"],
               *at_most(0.1)),
        Figure("… worst error of a speedup by spatial reuse", lambda r: r["worst_speedup_error"], *at_most(0.15)),
        Figure("… pairs of figures in the measured order, share", lambda r: r["same_order"], *RECORDED),
        Figure("… fitted numbers", lambda r: len(r["fitted"]), *at_most(4)),
    ),
    "tl_attention.py": (
        Figure("FlashAttention on Wormhole over keys loaded again for every 32 queries, mean", lambda r: r["speedup"],
               *at_least(1.9)),
        Figure("… over the library's default of 32 queries and 32 keys", lambda r: r["over_library"], *RECORDED),
        Figure("… over the best blocks without sharing", lambda r: r["over_best_reload"], *RECORDED),
        Figure("… share of the time in which a core's busiest unit works", lambda r: r["busy"], *RECORDED),
        Figure("… least rank correlation of the cost model", lambda r: r["least_correlation"], *at_least(0.95)),
        Figure("… the least of four workloads on twelve other meshes and triple rings", lambda r: r["least_on_others"],
               *at_least(0.95)),
        Figure("… time with a causal mask over the time with all keys", lambda r: r["causal_time"], *RECORDED),
        Figure("… steps of decoding with keys dealt out to cores over those with whole keys", lambda r: r["decoding"],
               *RECORDED),
        Figure("… oracle's largest difference from float32", lambda r: r["max_abs_error"], *at_most(2e-3)),
    ),
    "tl_chain.py": (
        Figure("two products and an activation as one program on Wormhole over one after the other, mean",
               lambda r: r["speedup"], *at_least(1.0)),
        Figure("… without the second start of the cores", lambda r: r["without_launch"], *RECORDED),
        Figure("… share of the peak", lambda r: r["peak"], *RECORDED),
        Figure("… least rank correlation of the cost model", lambda r: r["least_correlation"], *at_least(0.95)),
        Figure("… the least of three chains on twelve other meshes and triple rings", lambda r: r["least_on_others"],
               *at_least(0.95)),
        Figure("… oracle's largest difference from float32", lambda r: r["max_error"], *at_most(2e-3)),
    ),
    "tl_workloads.py": (
        Figure("other workloads on Wormhole: share of the roofline's bound, geometric mean", lambda r: r["share"],
               *at_least(0.7)),
        Figure("… rank correlation of model and simulation, mean of products and convolutions",
               lambda r: r["mean_correlation"], *at_least(0.95)),
        Figure("… the least of them", lambda r: r["least_correlation"], *at_least(0.95)),
        Figure("… mean error of the model over all samples", lambda r: r["mean_error"], *at_most(0.1)),
        Figure("… processor time of all searches, seconds", lambda r: r["seconds"], *RECORDED),
    ),
    "mapper.py": (
        Figure("mapper of products over cores: candidates/s, processor time", lambda r: r["candidates_per_second"],
               *at_least(1e6), shown="{:,.0f}"),
        Figure("… one product on 8 x 8 with five simulations, seconds", lambda r: r["one_gemm_s"], *at_most(0.5)),
        Figure("… the products and the attention of BERT-base, seconds", lambda r: r["bert_base_s"], *at_most(5)),
    ),
    "tl_model.py": (
        Figure("products over cores, 40 of them: rank correlation of model and simulation, least",
               lambda r: r["least_correlation"], *at_least(0.95)),
        Figure("… the least of 60 products on other meshes and triple rings", lambda r: r["least_on_others"],
               *at_least(0.95)),
        Figure("… chosen plan over the best of all, 24 small products, worst", lambda r: r["worst_choice"],
               *at_most(1.01)),
        Figure("… without the cycles of the launch", lambda r: r["worst_choice_without_launch"], *RECORDED),
        Figure("… share in which the best of all is chosen", lambda r: r["best_chosen"], *RECORDED),
    ),
    "tl_ablations.py": (
        Figure("products over cores: gain by spatial reuse, mean of ten", lambda r: r["spatial_reuse"], *RECORDED),
        Figure("… by temporal reuse, most", lambda r: r["most_temporal_reuse"], *RECORDED),
        Figure("… by stores beside products, mean", lambda r: r["stores_beside_products"], *RECORDED),
        Figure("… by shallow first steps, mean", lambda r: r["shallow_first_steps"], *RECORDED),
        Figure("… first candidate over the best of five, mean", lambda r: r["top1_over_top5"], *RECORDED),
        Figure("… plans that share loads over the chosen one, least", lambda r: r["least_share"], *RECORDED),
        Figure("… plans with unicasts over the chosen one, least", lambda r: r["least_unicast"], *RECORDED),
        Figure("… plans that gather results over the chosen one, least", lambda r: r["least_gather"], *RECORDED),
    ),
    "one_mapper.py": (
        Figure("one mapper for every target: cycles over each one's former own choice, worst", lambda r: r["worst"],
               *at_most(1)),
        Figure("… geometric mean of 200 workloads", lambda r: r["mean"], *RECORDED),
        Figure("… workloads without a plan", lambda r: r["fail"], *equals(0)),
        Figure("… rank correlation of model and simulation, a target's mean, least", lambda r: r["least_correlation"],
               *at_least(0.95)),
        Figure("… targets whose mean is at least 0.95, share", lambda r: sum(
            c >= 0.95 for c in r["correlation"].values()) / len(r["correlation"]), *RECORDED),
        Figure("… chosen plan over the best of all, small workloads, worst", lambda r: r["worst_over_best"],
               *at_most(1.01)),
        Figure("… share in which the best of all is chosen", lambda r: r["best_chosen"], *RECORDED),
    ),
    "tl_oracle.py": (
        Figure("oracle of products over 64 cores: share raised to products of matrices", lambda r: r["raised"],
               *equals(1)),
        Figure("… over JAX's own product, geometric mean over patterns and chosen plans", lambda r: r["ratio"],
               *at_most(3)),
        Figure("… adding in the machine's order, bit for bit", lambda r: r["exact_ratio"], *RECORDED),
    ),
    "tl_gemm.py": (
        Figure("products on Wormhole, 420 of them: searched plans over TT-1D", lambda r: r["over_tt1d"],
               *at_least(1.3)),
        Figure("… over TT-1D in the library's orientation, 8 x 8", lambda r: r["meshes"]["8x8"]["over_vendor_1d"],
               *RECORDED),
        Figure("… over TT-2D", lambda r: r["over_tt2d"], *at_least(1.09)),
        Figure("… over the best of them, worst", lambda r: r["worst"], *at_least(1)),
        Figure("… of the irregular products of figure 6, worst", lambda r: r["irregular_worst"], *at_least(1)),
    ),
    "acadl_build.py": (
        Figure("systolic array, 32 x 32 scalar and 256 x 256 tensor: build, check and draw, worst, seconds",
               lambda r: r["worst_total_s"], *at_most(2)),
    ),
    "scalesim.py": (
        Figure("SCALE-Sim's layers, share with equal cycles", lambda r: r["equal"] / r["rows"], *equals(1)),
        Figure("… equal in reads, writes and utilizations, too", lambda r: r["equal_in_all_figures"] / r["rows"],
               *equals(1)),
        Figure("… SCALE-Sim's time over ours", lambda r: r["speed_up"], *RECORDED, shown="{:,.0f}"),
        *(Figure(f"ResNet-50 on 32 × 32, {name}-stationary, first pass, ms",
                 lambda r, k=key: r["networks"][f"Resnet50 {k}"]["ms"], *at_most(50))
          for name, key in (("output", "os"), ("weight", "ws"), ("input", "is"))),
        Figure("… the longest of the three when repeated, ms",
               lambda r: max(r["networks"][f"Resnet50 {key}"]["ms_again"] for key in ("os", "ws", "is")), *RECORDED),
        Figure("ResNet-50's cycles as SCALE-Sim's, both",
               lambda r: all(n["equal"] for n in r["networks"].values() if "equal" in n), *YES, shown="{}"),
    ),
    "equeue_systolic.py": (
        Figure("EQueue's convolutions, share with equal cycles", lambda r: r["equal"] / r["rows"], *equals(1)),
    ),
    "equeue_sweep.py": (
        Figure("EQueue's 4,050 points, seconds", lambda r: r["seconds"], *at_most(30)),
        Figure("… points", lambda r: r["points"], *equals(4050)),
    ),
    "equeue_fir.py": (
        Figure("FIR of the EQueue paper: cycles and warm-ups equal in all four cases", lambda r: r["equal"], *YES,
               shown="{}"),
    ),
    "ultratrail_networks.py": (
        Figure("UltraTrail: networks of six with the published cycles", lambda r: r["equal"], *RECORDED, shown="{}"),
        Figure("… worst ratio of the six", lambda r: r["worst_ratio"], *RECORDED),
        Figure("… TC-ResNet8 from ONNX equals onnxruntime", lambda r: r["compiled"]["equal"], *YES, shown="{}"),
    ),
    "eyeriss_alexnet.py": (
        Figure("Eyeriss: AlexNet's convolutions, simulated over measured processing time", lambda r: r["ratio"],
               *RECORDED),
        Figure("… largest difference of a layer", lambda r: r["worst_layer_error"], *RECORDED),
    ),
    "oma_order.py": (
        Figure("OMA, 64³: most over least cache misses, by tiles and order of loops", lambda r: r["misses_ratio"],
               *RECORDED),
        Figure("… slowest over fastest", lambda r: r["cycles_ratio"], *RECORDED),
    ),
    "tpu_v1_networks.py": (
        Figure("TPU v1: MLP0, simulated over published TeraOps/s (layers assumed square)", lambda r: r["mlp0_ratio"],
               *RECORDED),
        Figure("… MLP1", lambda r: r["mlp1_ratio"], *RECORDED),
        Figure("… share of the peak, 5 layers of 4096 x 4096 at batch 2048", lambda r: r["large_batch_share"],
               *RECORDED),
    ),
    "resnet50_estimate.py": (
        Figure("ResNet-50 estimate, cold, worst of dim 8-64, seconds", lambda r: r["worst_cold_s"], *at_most(10)),
        Figure("… cached, seconds", lambda r: r["worst_cached_s"], *at_most(1)),
        Figure("cycles fall with dim", lambda r: r["cycles_fall_with_dim"], *YES, shown="{}"),
        Figure("utilization of the large layers at dim 16, least", lambda r: r["large_layer_utilization_16"],
               *at_least(0.75)),
        Figure("layers faster than MACs / dim²", lambda r: r["layers_below_physical_limit"], *equals(0)),
    ),
    "estimate_nas.py": (
        Figure("ResNet-50 estimate, fresh process and empty cache, seconds", lambda r: r["resnet50"]["cold_s"],
               *at_most(3)),
        Figure("… again in the same process, ms", lambda r: r["resnet50"]["warm_ms"], *at_most(50)),
        Figure("BERT-base estimate, fresh process and empty cache, seconds", lambda r: r["bert_base"]["cold_s"],
               *at_most(3)),
        Figure("… again in the same process, ms", lambda r: r["bert_base"]["warm_ms"], *at_most(50)),
        Figure("1,000 random networks of the search space, seconds",
               lambda r: r["search"]["seconds"] * 1000 / r["search"]["networks"], *at_most(60)),
    ),
    "inference.py": (
        Figure("int8 inference on Gemmini 16 over onnxruntime's, worse of ResNet-50 and BERT-base",
               lambda r: r["worst_over_onnxruntime"], *at_most(3)),
        *(Figure(f"… {name}, on {cores}", lambda r, n=key, c=count: r["networks"][n][f"over_onnxruntime_{c}_cores"],
                 *RECORDED)
          for name, key in (("ResNet-50", "resnet50"), ("BERT-base", "bert_base"))
          for cores, count in (("two cores", 2), ("one core", 1))),
        *(Figure(f"… {name}, on one core, over onnxruntime with activations rewritten to uint8",
                 lambda r, n=key: r["networks"][n]["over_uint8_1_cores"], *RECORDED)
          for name, key in (("ResNet-50", "resnet50"), ("BERT-base", "bert_base"))),
        Figure("compile with cold caches to the first result, worse of the two, seconds", lambda r: r["worst_cold_s"],
               *at_most(40)),
        Figure("… processor seconds", lambda r: r["worst_cold_cpu_s"], *RECORDED),
        Figure("… with warm caches, seconds", lambda r: r["worst_warm_s"], *at_most(10)),
        Figure("… processor seconds", lambda r: r["worst_warm_cpu_s"], *RECORDED),
        Figure("reload of the artifact in a new process to the first result, seconds", lambda r: r["worst_reload_s"],
               *at_most(5)),
        Figure("… processor seconds", lambda r: r["worst_reload_cpu_s"], *RECORDED),
    ),
    "networks.py --size tiny": (
        Figure("networks × targets that are right", lambda r: r["networks_ok"] / r["networks_run"], *equals(1)),
        Figure("… how many", lambda r: r["networks_run"], *RECORDED),
        Figure("least share of multiply-accumulates offloaded", lambda r: r["least_offloaded_macs_share"],
               *at_least(0.99)),
        Figure("… processor time of all, seconds", lambda r: r["cpu_seconds"], *RECORDED),
    ),
    "networks.py --size tiny --targets wormhole --only resnet18,mobilenet_v2,bert_base,vit_base,gpt2,llama": (
        Figure("networks on 64 cores that are right", lambda r: r["networks_ok"] / r["networks_run"], *equals(1)),
        Figure("… how many", lambda r: r["networks_run"], *RECORDED),
        Figure("… least share of multiply-accumulates offloaded", lambda r: r["least_offloaded_macs_share"],
               *at_least(0.99)),
        Figure("… largest error, in parts of the largest output", lambda r: max(n["error"] for n in r["networks"]),
               *at_most(0.01)),
    ),
    "networks.py --mode estimate": (
        Figure("full size: networks × targets with an estimate", lambda r: r["networks_ok"] / r["networks_run"],
               *equals(1)),
        Figure("… how many", lambda r: r["networks_run"], *RECORDED),
        Figure("least share of multiply-accumulates offloaded", lambda r: r["least_offloaded_macs_share"],
               *at_least(0.99)),
        Figure("… most processor time of one, with making and quantizing it, seconds",
               lambda r: r["most_cpu_seconds"], *RECORDED),
        Figure("… peak memory, GiB", lambda r: r["peak_gib"], *RECORDED),
    ),
    "accuracy.py": (
        *(Figure(f"{name}: right test digits, int8 on Gemmini less float, share",
                 lambda r, name=name: r[name]["accelerator"] - r[name]["float"], *at_least(-0.01))
          for name in ("digits_cnn", "digits_vit")),
        Figure("… layers that are not bit-exact, both",
               lambda r: sum(r[n]["layers"] - r[n]["bit_exact"] for n in ("digits_cnn", "digits_vit")), *equals(0)),
        Figure("MiniLM: rank correlation of similarities, int8 on Gemmini with float",
               lambda r: r["minilm"]["accelerator"], *at_least(0.98)),
        Figure("… with int8 results of products (onnxruntime), best", lambda r: max(r["minilm"]["schemes"].values()),
               *RECORDED),
    ),
    "resnet50_check.py": (
        Figure("ResNet-50 check on 16 images, seconds", lambda r: r["seconds"], *at_most(180)),
        Figure("… peak memory, GiB", lambda r: r["peak_gib"], *at_most(8)),
        Figure("layers not bit-exact", lambda r: r["layers"] - r["layers_bit_exact"], *equals(0)),
        Figure("largest logit error, quantization steps", lambda r: r["max_error_in_steps"], *at_most(1)),
        Figure("same top-1 as onnxruntime, share", lambda r: r["top1_agreement"], *equals(1)),
    ),
}


def measure(script: str, figures: tuple[Figure, ...]) -> list[Row]:
    """Rows (figure, value, target, verdict) of one benchmark; a benchmark that fails gives failed rows."""
    name, *arguments = script.split()
    run = child([sys.executable, str(ROOT / "benchmarks" / name), *arguments, "--json"])
    if run.status:
        return [(figure.name, f"failed, status {run.status}", figure.demand, "MISSED") for figure in figures]
    result = run.last_json
    rows = []
    for figure in figures:
        value = figure.read(result)
        verdict = "" if figure.holds is None else "met" if figure.holds(value) else "MISSED"
        rows.append((figure.name, figure.shown.format(value), figure.demand, verdict))
    return rows


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []:
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def read_results() -> dict[str, list[Row]]:
    """The tables of ``RESULTS.md`` by script; none where it is missing."""
    tables: dict[str, list[Row]] = {}
    for line in RESULTS.read_text().splitlines() if RESULTS.exists() else []:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 5 and cells[4].startswith("`"):
            tables.setdefault(cells[4].strip("`"), []).append((cells[0], cells[1], cells[2], cells[3]))
    return tables


def write_results(tables: dict[str, list[Row]]) -> None:
    lines = [
        "# Results", "",
        f"Written by `make bench`, last on {datetime.date.today()}: {os.cpu_count()} cores of {_cpu()},"
        f" Python {platform.python_version()}. Times on a shared machine vary; ratios vary less.", "",
        "| figure | measured | target | | by |", "|---|---|---|---|---|",
    ]
    for script, rows in tables.items():
        lines += [f"| {name} | {value} | {demand} | {verdict} | `{script}` |" for name, value, demand, verdict in rows]
    RESULTS.write_text("\n".join(lines) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("only", nargs="*", help="scripts whose rows of RESULTS.md to measure anew (default: all)")
    asked = parser.parse_args().only
    unknown = [name for name in asked if not any(name in (key, key.split()[0]) for key in SUITE)]
    if unknown:
        there = ", ".join(dict.fromkeys(key.split()[0] for key in SUITE))
        parser.error(f"no benchmark {', '.join(unknown)}; there are {there}")
    chosen = [key for key in SUITE if not asked or key in asked or key.split()[0] in asked]
    tables = {}
    for script in chosen:
        tables[script] = measure(script, SUITE[script])
        for name, value, demand, verdict in tables[script]:
            print(f"{name:58} {value:>14}  target {demand:12} {verdict}", flush=True)
    known = read_results() | tables
    write_results({script: known[script] for script in SUITE if script in known})
    print(f"written to {RESULTS}")
    if any(row[3] == "MISSED" for rows in tables.values() for row in rows):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
