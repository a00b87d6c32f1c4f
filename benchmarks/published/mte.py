"""The MTE paper's comparison of six architectures, ours beside its figures: instructions, speeds, efficiencies, energy.

Ratios have errors of ours over the paper's, less one; efficiencies and shares have points. The means that it prints of
Table IX are not means of its rows, so that rows are compared; by other sets of convolutions that fit its description
they are counted, too. Energies are without memory, as in figure 10.

Convolutions run on AMX, too (:mod:`.mte_amx`), whose efficiencies are shares of its own peak, of bfloat16: the paper
measured them on a processor, and figure 6 holds its simulation of MTE8s against that. It prints these points without
numbers; of them it states the median and the quartiles of what lies between the two, and the mean of figure 9.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout, however the script is run:
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # its benchmarks, its examples and its archloom

from archloom.acadl_models.energy.figures import figures_of
from benchmarks.common import arguments, finish
from benchmarks.published.mte_amx import OnAmx
from benchmarks.published.mte_kernels import (
    CATEGORIES,
    DATA,
    Case,
    Convolution,
    Found,
    category,
    configuration_of,
    convolutions,
    instructions_of,
    measure,
    products,
)

PAPER: dict[str, Any] = json.loads((DATA / "mte.json").read_text("utf-8"))
NAMES = {"Vector1KB": "vector1kb", "Vector2KB": "vector2kb", "SiFiveInt": "sifive_int", "MTE8s": "mte8s",
         "MTE32v": "mte32v", "MTE32s": "mte32s"}
"""The paper's names of the architectures, the slowest first, and the project's."""
SETS = ("nat75", "five_sq10_yolov1", "five_sq10_yolov2", "five_sq10_yolov3", "five_sq11_yolov2", "work75")

Results = Mapping[str, Sequence[Found]]
"""Of each architecture what was found of each case."""
Row = dict[str, float]


def row(ours: float, paper: float) -> Row:
    """A comparison of ratios."""
    return {"ours": ours, "paper": paper, "error": ours / paper - 1}


def points(ours: float, paper: float) -> Row:
    """A comparison of percentages; ours is a share."""
    return {"ours": 100 * ours, "paper": paper, "error": 100 * ours - paper}


def members(cases: Sequence[Case], keep: Callable[[Case], bool] = lambda case: True) -> dict[str, list[int]]:
    """Numbers of the cases in each category that has some."""
    found: dict[str, list[int]] = {name: [] for name in CATEGORIES}
    for number, case in enumerate(cases):
        if keep(case):
            found[category(case)].append(number)
    return {name: numbers for name, numbers in found.items() if numbers}


def ratios(counts: Mapping[str, Sequence[float]], base: str, numbers: Iterable[int], name: str) -> list[float]:
    """Of ``base`` over ``name``."""
    return [counts[base][i] / counts[name][i] for i in numbers]


def instructions(cases: Sequence[Case], results: Results) -> dict[str, dict[str, Row]]:
    """Table IX: means of the ratios of each category."""
    counts = {name: [found.instructions for found in mine] for name, mine in results.items()}
    table, order = PAPER["table_ix_instructions_of_vector_1kb_over"], list(CATEGORIES)
    return {paper: {of: row(statistics.mean(ratios(counts, "vector1kb", numbers, name)), table[paper][order.index(of)])
                    for of, numbers in members(cases).items()}
            for paper, name in NAMES.items() if paper in table}


def averages(cases: Sequence[Case], results: Results, rows: Mapping[str, Mapping[str, Row]]) -> dict[str, Row]:
    """Table IX's last row, which is no mean of its others: ours of the categories, and of all cases."""
    counts = {name: [found.instructions for found in mine] for name, mine in results.items()}
    every, said = range(len(cases)), PAPER["table_ix_instructions_of_vector_1kb_over"]["arithmetic_average"]
    return {paper: {"categories": statistics.mean(each["ours"] for each in mine.values()),
                    "cases": statistics.mean(ratios(counts, "vector1kb", every, NAMES[paper])), "paper": said[paper]}
            for paper, mine in rows.items()}


def stated(rows: Mapping[str, Mapping[str, Row]]) -> Row:
    """Of section VI-C, with the two decimals that the paper prints: by how much MTE32 has fewer instructions than MTE8s
    in the largest category, and the most that vectors of 2 KiB have over those of 1 KiB."""
    return {"largest": round(rows["MTE32s"]["VI"]["ours"] / rows["MTE8s"]["VI"]["ours"], 2),
            "vector2kb": round(max(each["ours"] for each in rows["Vector2KB"].values()), 2)}


def speedups(results: Results) -> dict[str, Row]:
    """Geometric means of the speedups of section VI-A."""
    cycles = {name: [found.cycles for found in mine] for name, mine in results.items()}
    every = range(len(cycles["mte8s"]))
    return {f"{fast} over {slow}": row(statistics.geometric_mean(ratios(cycles, NAMES[slow], every, NAMES[fast])), said)
            for fast, others in PAPER["geometric_mean_speedups"].items() for slow, said in others.items()}


def efficiency(cases: Sequence[Case], results: Results) -> dict[str, Row]:
    """What the text of section VI-A states, in percent."""
    def means(name: str, kind: str = "") -> dict[str, float]:
        mine = members(cases, lambda case: kind in ("", case.kind))
        return {of: statistics.mean(results[name][i].efficiency for i in numbers) for of, numbers in mine.items()}

    said, made = PAPER["efficiency_percent"], dict[str, Row]()
    for (of, ours), paper in zip(means("sifive_int").items(), said["SiFiveInt_by_category"], strict=True):
        made[f"SiFiveInt {of}"] = points(ours, paper)
    vectors = [[mine for of, mine in means(name).items() if of not in ("V", "VI")]
               for name in ("vector1kb", "vector2kb")]
    for end, paper in zip((min, max), said["vectors_I_to_IV_range"], strict=True):
        made[f"vectors I to IV, {end.__name__}"] = points(end(map(end, vectors)), paper)
    for kind, key in (("convolutions", "Vector2KB_conv"), ("transformers", "Vector2KB_transformer")):
        ours_by = means("vector2kb", kind)
        made |= {f"Vector2KB {kind} {of}": points(ours_by[of], paper) for of, paper in said[key].items()
                 if of in ours_by}
    for paper_name in ("MTE32v", "MTE32s"):
        ours_by = means(NAMES[paper_name])
        made[f"{paper_name} I"] = points(ours_by.pop("I"), said[paper_name]["I"])
        for end, paper in zip((min, max), said[paper_name]["II_to_VI_range"], strict=True):
            made[f"{paper_name} II to VI, {end.__name__}"] = points(end(ours_by.values()), paper)
    return made


def energy(cases: Sequence[Case], results: Results) -> dict[str, Row]:
    """The share of the vector registers in percent, and energies in category VI over those of MTE8s."""
    said, largest = PAPER["energy"], members(cases).get("VI", [])
    shares = {name: statistics.mean(found.registers / found.joules for found in results[NAMES[name]])
              for name in said["vector_register_file_share_percent"]}
    made = {f"share {name}": points(shares[name], paper)
            for name, paper in said["vector_register_file_share_percent"].items()}
    joules = {name: [found.joules for found in mine] for name, mine in results.items()}
    for name, paper in said["category_VI_improvement_over_MTE8s_percent"].items():
        ours = 1 / statistics.geometric_mean(ratios(joules, "mte8s", largest, NAMES[name]))
        made[f"VI {name}"] = {"ours": ours, "paper": 1 - paper / 100, "error": ours - (1 - paper / 100)}
    return made


def areas() -> dict[str, Row]:
    """Table VIII: areas of the files of vector registers over that of vectors of 1 KiB."""
    said = {NAMES[name.replace(" ", "")]: area
            for name, area in PAPER["table_viii_mm2"].items()}
    ours = {name: figures_of(configuration_of(name).graph)["v"].area_mm2 or 0.0 for name in said}
    return {name: row(ours[name] / ours["vector1kb"], said[name] / said["vector1kb"]) for name in said}


def beside_amx(
    cases: Sequence[Convolution], amx: Sequence[float], results: Results,
) -> dict[str, dict[str, float | None]]:
    """Of figures 6 and 9, in percent: means of efficiencies, and quartiles of points between AMX and MTE8s on the
    convolutions with at most 256 channels; None: what the paper does not state."""
    few = [i for i, case in enumerate(cases) if case.channels <= CATEGORIES["IV"]]
    mine = {name: [found.efficiency for found in results[name]] for name in ("mte8s", "mte32v")}
    between = [100 * abs(amx[i] - mine["mte8s"][i]) for i in few]
    first, median, third = statistics.quantiles(between, n=4, method="inclusive")
    said, figure9 = PAPER["simulator_validation"], PAPER["efficiency_percent"]["fig9"]

    def mean(values: Sequence[float], numbers: Iterable[int]) -> float:
        return 100 * statistics.mean(values[i] for i in numbers)

    every = range(len(cases))
    found: dict[str, tuple[float, float | None]] = {
        "figure 6 AMX": (mean(amx, few), None), "figure 6 MTE8s": (mean(mine["mte8s"], few), None),
        "figure 6 first quartile": (first, said["q1"]), "figure 6 median": (median, said["median_error_percent"]),
        "figure 6 third quartile": (third, said["q3"]), "figure 9 AMX": (mean(amx, every), figure9["AMX"]),
        "figure 9 MTE32v": (mean(mine["mte32v"], every), figure9["MTE32v"])}
    return {name: {"ours": ours, "paper": paper} for name, (ours, paper) in found.items()}


def least(cases: Sequence[Convolution], amx: Sequence[float], results: Results) -> Row:
    """Smallest efficiencies on the convolutions of figure 6, in percent."""
    few = [i for i, case in enumerate(cases) if case.channels <= CATEGORIES["IV"]]
    return {"amx": 100 * min(amx[i] for i in few), "mte8s": 100 * min(results["mte8s"][i].efficiency for i in few)}


def spread() -> dict[str, dict[str, list[float]]]:
    """Table IX, smallest and largest, over all sets of convolutions that fit what the paper says of its own."""
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for which in SETS:
        mine = [*products(), *convolutions(which)]
        counts = {name: [instructions_of(case, name) for case in mine] for name in NAMES.values()}
        for of, numbers in members(mine).items():
            for name in NAMES.values():
                found[name][of].append(statistics.mean(ratios(counts, "vector1kb", numbers, name)))
    return {name: {of: [min(values), max(values)] for of, values in mine.items()} for name, mine in found.items()}


def found_of(job: tuple[Case, str]) -> Found:
    return measure(*job)


def on_amx(cases: Sequence[Convolution], processes: int) -> list[float]:
    """Efficiencies on AMX, in processes that each take what is next."""
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        return list(pool.map(OnAmx.efficiency, map(OnAmx, cases)))


def measured(cases: Sequence[Case], processes: int) -> dict[str, list[Found]]:
    """All cases on all architectures, in processes that each take what is next."""
    jobs = [(case, name) for case in cases for name in NAMES.values()]
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        found = list(pool.map(found_of, jobs))
    return {name: found[i::len(NAMES)] for i, name in enumerate(NAMES.values())}


def errors(rows: Iterable[Row]) -> list[float]:
    return [abs(each["error"]) for each in rows]


def more(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--processes", type=int, default=2, help="that simulate (default: 2)")


def main(args: argparse.Namespace) -> None:
    of_products, of_convolutions = products(), convolutions("work75")
    first = measured(of_products, args.processes)
    start = time.perf_counter()
    second = measured(of_convolutions, args.processes)
    seconds = time.perf_counter() - start
    amx = on_amx(of_convolutions, args.processes)
    cases, results = [*of_products, *of_convolutions], {name: [*first[name], *second[name]] for name in NAMES.values()}
    tables: dict[str, Any] = {"speedups": speedups(results), "efficiency": efficiency(cases, results),
                              "energy": energy(cases, results), "areas": areas()}
    counts = instructions(cases, results)
    flat = {f"{name} {of}": each for name, mine in counts.items() for of, each in mine.items()}
    for title, rows in {"instructions": flat, **tables}.items():
        print(title)
        for name, each in rows.items():
            print(f"  {name:32} {each['ours']:8.2f} {each['paper']:8.2f} {each['error']:+8.2f}")
    beside = beside_amx(of_convolutions, amx, second)
    for name, each in beside.items():
        print(f"  {name:32} {each['ours']:8.2f} {each['paper'] or math.nan:8.2f}")
    found = {"instructions": errors(flat.values()), "speedups": errors(tables["speedups"].values()),
             "efficiency": errors(tables["efficiency"].values()),
             "energy_share": errors(each for name, each in tables["energy"].items() if name.startswith("share")),
             "areas": errors(tables["areas"].values()),
             "energy_vi": errors(each for name, each in tables["energy"].items() if name.startswith("VI"))}
    speed = {name: math.fsum(math.log(found.cycles) for found in results[name]) for name in NAMES.values()}
    finish(args, {
        "instructions": counts, "averages": averages(cases, results, counts), "stated": stated(counts), **tables,
        "amx": beside, "spread": spread(),
        "worst": {name: max(values) for name, values in found.items()},
        "mean": {name: statistics.mean(values) for name, values in found.items()},
        "least": least(of_convolutions, amx, second),
        "same_order": sorted(speed, key=lambda name: -speed[name]) == list(NAMES.values()), "seconds": seconds,
        "cases": [{"name": case.name, "category": category(case), "channels": case.channels,
                   "transformer": case.kind == "transformers",
                   "amx": None if i < len(of_products) else amx[i - len(of_products)], **{
            name: vars(results[name][i]) for name in NAMES.values()}} for i, case in enumerate(cases)]})


if __name__ == "__main__":
    main(arguments(__doc__ or "", more))
