"""Networks with a published latency on UltraTrail (DSD 2022), and TC-ResNet8, by simulation."""

from __future__ import annotations

import argparse

from common import arguments, finish


def main(args: argparse.Namespace) -> None:
    from uma_targets.ultratrail import published

    rows = []
    print(f"{'network':12} {'array':>6} {'MACs':>9} {'cycles':>7} {'published':>10} {'ms at 250 kHz':>14} {'use':>6}")
    for entry in (*published.NETWORKS, published.Published(published.TC_RESNET8, 8, None)):
        cycles, net = published.simulate_cycles(entry), entry.network
        use = net.macs / (cycles * entry.dim ** 2)
        print(f"{net.name:12} {f'{entry.dim}x{entry.dim}':>6} {net.macs:9,} {cycles:7} {entry.cycles or '':>10} "
              f"{1e3 * cycles / published.CLOCK_HZ:14.2f} {use:6.1%}")
        rows.append({"name": net.name, "dim": entry.dim, "cycles": cycles, "published": entry.cycles})
    compared = [row for row in rows if row["published"]]
    finish(args, {
        "networks": rows, "compared": len(compared),
        "equal": sum(row["cycles"] == row["published"] for row in compared),
        "worst_ratio": max(max(r["cycles"] / r["published"], r["published"] / r["cycles"]) for r in compared),
    })


if __name__ == "__main__":
    main(arguments(__doc__ or ""))
