// Where cycles and joules went, and what the machine could do.

function causes(view, chosen) {
  const { layers } = view.report,
    rows = view.causes.map(({ name, cycles }) => ({ name, use: cycles, all: true }));
  const timed = view.order
    .filter((i) => view.busiest[i])
    .sort((a, b) => layers[b].cycles - layers[a].cycles)
    .slice(0, 10);
  rows.push(...timed.map((i) => ({ name: layers[i].name, use: layers[i].units[view.busiest[i]], id: i })));
  if (!rows.length) return card(el("p", { class: "note" }, "No layer of this report says what its units did."));
  return card(
    chart((width) => {
      const left = Math.min(170, width * 0.36),
        svg = shape("svg", {
          width,
          height: rows.length * 27 + 4,
          role: "img",
          "aria-label": `Cycles by cause: ${view.causes.map(({ cycles }) => CAUSES.map(([, name, key]) => `${name} ${cycles[key]}`).join(", ")).join("; ")}`,
        });
      rows.forEach(({ name, use, all, id }, row) => {
        const sum = CAUSES.reduce((total, [, , key]) => total + use[key], 0) || 1;
        let x = left;
        const group = shape("g", id === undefined ? {} : { style: "cursor:pointer", onclick: () => chosen.set(id) });
        group.append(
          shape(
            "text",
            { x: left - 8, y: row * 27 + 16, "text-anchor": "end", class: all ? "strong" : null, "font-weight": all ? 600 : null },
            cut(name, left / 6.6),
          ),
        );
        for (const [colour, cause, key] of CAUSES) {
          const wide = ((width - left) * use[key]) / sum;
          if (wide > 0)
            group.append(
              tipOf(
                titled(
                  "rect",
                  { class: "block", "data-cause": key, x, y: row * 27 + 3, width: wide, height: all ? 20 : 16, fill: cssColour(colour) },
                  `${name}: ${cause}\n${exact(use[key], "cycles")}`,
                ),
                () => `${name}: ${cause}\n${exact(use[key], "cycles")}, ${shown(use[key] / sum, "%")}`,
              ),
            );
          x += wide;
        }
        svg.append(group);
      });
      return svg;
    }),
    legend(CAUSES.map(([colour, name]) => [colour, name])),
  );
}

function objects(view) {
  const rows = view.objects,
    known = rows.some(([, joules]) => joules !== null);
  if (!rows.length) return card(el("p", { class: "note" }, "Neither energy nor area of this machine is known."));
  const sums = [1, 2].map((k) => rows.reduce((sum, row) => sum + (row[k] ?? 0), 0) || 1);
  return card(
    chart((width) => {
      const left = Math.min(150, width * 0.34),
        svg = shape("svg", {
          width,
          height: rows.length * 27 + 4,
          role: "img",
          "aria-label": `Energy and area by object: ${rows.map(([name, j, a]) => `${name} ${shown(j, "J")}, ${shown(a, "mm²")}`).join("; ")}`,
        });
      const most = Math.max(...rows.flatMap((row) => [(row[1] ?? 0) / sums[0], (row[2] ?? 0) / sums[1]]));
      const long = width - left - 70;
      rows.forEach(([name, joules, area], row) => {
        const text = `${name}\n${exact(joules, "J")}${known ? `, ${shown((joules ?? 0) / sums[0], "%")}` : ""}\n${exact(area, "mm²")}, ${shown((area ?? 0) / sums[1], "%")}`;
        svg.append(
          tipOf(
            shape(
              "g",
              {},
              shape("title", {}, text),
              shape("text", { x: left - 8, y: row * 27 + 15, "text-anchor": "end" }, cut(name, left / 6.6)),
              shape("rect", {
                x: left,
                y: row * 27 + 3,
                width: (long * (joules ?? 0)) / sums[0] / most,
                height: 10,
                fill: cssColour("storage"),
              }),
              shape("rect", {
                x: left,
                y: row * 27 + 14,
                width: (long * (area ?? 0)) / sums[1] / most,
                height: 6,
                fill: cssColour("muted"),
              }),
              shape(
                "text",
                { x: left + (long * Math.max((joules ?? 0) / sums[0], (area ?? 0) / sums[1])) / most + 6, y: row * 27 + 15 },
                known ? shown(joules, "J") : shown(area, "mm²"),
              ),
            ),
            () => text,
          ),
        );
      });
      return svg;
    }),
    legend([
      ["storage", "share of the energy"],
      ["muted", "share of the area"],
    ]),
  );
}

function roofline(view, chosen) {
  const { layers } = view.report;
  const points = layers.flatMap((layer, i) =>
    layer.where === "accelerator" && layer.cycles && layer.offchip_bytes && layer.macs
      ? [
          {
            id: i,
            x: layer.macs / layer.offchip_bytes,
            y: layer.macs / layer.cycles,
            key: true,
            radius: 3 + 7 * Math.sqrt(layer.cycles / view.report.accelerator_cycles),
            text: () =>
              `${layerText(layer)}\n${shown(layer.macs / layer.cycles, "MACs/cycle")} at ${shown(layer.macs / layer.offchip_bytes, "MACs/byte")}\n${exact(layer.macs, "MACs")}, ${exact(layer.offchip_bytes, "B")} off-chip`,
          },
        ]
      : [],
  );
  if (!points.length) return card(el("p", { class: "note" }, "No layer with multiply-accumulates says what it moves."));
  const roofs = view.hardware.filter((h) => h.peak_macs_per_cycle),
    bounded = roofs.filter((h) => h.bytes_per_cycle);
  const under = (x, y) =>
    roofs.flatMap(({ target, peak_macs_per_cycle: peak, bytes_per_cycle: bytes }) => {
      const ridge = bytes ? Math.max(peak / bytes, x.low) : x.low,
        from = bytes ? Math.max(x.low, y.low / bytes) : x.low;
      const text = `${target}: ${peak} MACs/cycle${bytes ? `, ${bytes} bytes/cycle of main memory` : ""}`;
      const path =
        ridge > from && ridge < x.high
          ? `M${x(from)},${y(from * bytes)}L${x(ridge)},${y(peak)}L${x(x.high)},${y(peak)}`
          : `M${x(from)},${y(Math.min(peak, bytes ? from * bytes : peak))}L${x(x.high)},${y(Math.min(peak, bytes ? x.high * bytes : peak))}`;
      return [
        titled("path", { class: "roof", d: path }, text),
        shape(
          "text",
          { x: x(x.high), y: y(peak) - 7, "text-anchor": "end" },
          `${shown(peak)} MACs/cycle${bytes ? `, ${shown(bytes)} B/cycle` : ""}${roofs.length > 1 ? ` (${target})` : ""}`,
        ),
      ];
    });
  return card(
    scatter({
      points,
      chosen,
      under,
      height: 380,
      label: "Roofline of all layers",
      names: { x: "MACs for each byte of main memory", y: "MACs a cycle" },
      scales: {
        x: { log: true },
        y: { log: true },
        ys: roofs.map((h) => h.peak_macs_per_cycle),
        xs: bounded.map((h) => h.peak_macs_per_cycle / h.bytes_per_cycle),
      },
    }),
    el("p", { class: "note" }, "The larger a point, the more cycles its layer takes."),
  );
}
