// Layers over time, and one of them.

function layerText(layer) {
  const unit = layer.cycles === null ? "" : `\n${exact(layer.cycles, "cycles")}, utilization ${shown(layer.utilization, "%")}`;
  return `${layer.name}\n${layer.op}, ${shapeText(layer)}\n${exact(layer.seconds, "s")}${unit}`;
}

function timeline(view, chosen) {
  const { report, order } = view,
    { layers } = report;
  const live = new Map();
  (report.memory?.layers || []).forEach(({ name, live_bytes }) =>
    live.has(name) ? live.get(name).push(live_bytes) : live.set(name, [live_bytes]),
  );
  const starts = [];
  let total = 0;
  for (const i of order) {
    starts.push(total);
    total += secondsOf(layers[i]);
  }
  const memory = order.map((i) => (live.get(layers[i].name) || []).shift() ?? null);
  const place = chart((width) => {
    const left = 92,
      x = (s) => left + (width - left - 8) * (total ? s / total : 0);
    const top = { accelerator: 4, host: 30, causes: 62, memory: 178 },
      tall = { causes: 96, memory: 62 };
    const most = Math.max(1, ...memory.map((m) => m ?? 0));
    const svg = shape("svg", {
      width,
      height: 268,
      viewBox: `0 0 ${width} 268`,
      role: "group",
      tabindex: 0,
      "aria-label": `Timeline of ${order.length} layers over ${shown(total, "s")}; arrow keys go from one to the next.`,
      onkeydown: arrows(order, chosen),
    });
    for (const [name, y, hint] of [
      ["accelerator", top.accelerator + 14],
      ["host", top.host + 14],
      ["causes", top.causes + 14],
      ["activations", top.memory + 12, shown(most, "B")],
    ]) {
      svg.append(shape("text", { x: 0, y, class: "strong" }, name), ...(hint ? [shape("text", { x: 0, y: y + 16 }, `≤ ${hint}`)] : []));
    }
    const blocks = new Map();
    order.forEach((i, at) => {
      const layer = layers[i],
        from = x(starts[at]),
        wide = Math.max(x(starts[at] + secondsOf(layer)) - from, 0.6);
      const group = shape("g", { "data-layer": i });
      const block = titled(
        "rect",
        {
          class: "block",
          x: from,
          y: top[layer.where],
          width: wide,
          height: 20,
          fill: cssColour(layer.where === "host" ? "host" : "busy"),
          stroke: "var(--card)",
          "stroke-width": wide > 3 ? 0.7 : 0,
        },
        layerText(layer),
      );
      group.append(block);
      blocks.set(i, block);
      const unit = view.busiest[i] && layer.units[view.busiest[i]];
      let y = top.causes;
      for (const [colour, name, key] of unit ? CAUSES : []) {
        const height = (tall.causes * unit[key]) / layer.cycles;
        if (height > 0)
          group.append(
            titled(
              "rect",
              { class: "block", x: from, y, width: wide, height, fill: cssColour(colour) },
              `${layer.name}: ${name}\n${exact(unit[key], "cycles")}`,
            ),
          );
        y += height;
      }
      if (memory[at] !== null) {
        const height = (tall.memory * memory[at]) / most;
        group.append(
          titled(
            "rect",
            {
              class: "block",
              x: from,
              y: top.memory + tall.memory - height,
              width: wide,
              height,
              fill: cssColour("accent"),
              "fill-opacity": 0.45,
            },
            `while ${layer.name} runs: ${exact(memory[at], "B")} of activations`,
          ),
        );
      }
      group.addEventListener("click", () => chosen.set(i));
      tipOf(group, () => layerText(layer) + (memory[at] === null ? "" : `\nactivations ${shown(memory[at], "B")}`));
      svg.append(group);
    });
    for (const s of ticks(0, total || 1, Math.max(2, Math.floor((width - left) / 90)))) {
      svg.append(
        shape("line", { class: "axis", x1: x(s), x2: x(s), y1: 242, y2: 247 }),
        shape("text", { x: Math.min(x(s), width - 16), y: 261, "text-anchor": "middle" }, shown(s, "s")),
      );
    }
    svg.append(shape("text", { x: 0, y: 261, class: "strong" }, "time"));
    chosen.on((id) => blocks.forEach((block, i) => block.classList.toggle("selected", i === id)));
    return svg;
  });
  return card(place, legend([...CAUSES.map(([colour, name]) => [colour, name]), ["host", "host"]]));
}

function layerDetails(view, chosen) {
  const place = el("div", { class: "card", "aria-live": "polite", "data-details": "layer" });
  chosen.on((i) => {
    const layer = view.report.layers[i];
    if (!layer) {
      place.hidden = true;
      return;
    }
    const rows = (map, head, cells) =>
      Object.keys(map).length === 0
        ? null
        : el(
            "div",
            { class: "scrolls" },
            el(
              "table",
              {},
              el(
                "thead",
                {},
                el(
                  "tr",
                  {},
                  head.map((name, c) => el("th", { class: c ? "number" : null }, name)),
                ),
              ),
              el(
                "tbody",
                {},
                Object.entries(map)
                  .slice(0, 40)
                  .map(([name, use]) =>
                    el(
                      "tr",
                      {},
                      el("td", {}, name),
                      cells(use).map(([v, unit]) => el("td", { class: "number", title: exact(v, unit) }, shown(v, unit))),
                    ),
                  ),
              ),
            ),
          );
    place.replaceChildren(
      el("h3", {}, layer.name),
      el("p", { class: "note" }, `${layer.op} on ${layer.target || layer.where}${layer.mapping ? `: ${layer.mapping}` : ""}`),
      layer.note ? el("p", { class: "note" }, layer.note) : "",
      facts([
        ["shape", shapeText(layer)],
        ["time", layer.seconds, "s"],
        ["cycles", layer.cycles],
        ["MACs", layer.macs],
        ["utilization", layer.utilization, "%"],
        ["instructions", layer.instructions],
        ["off-chip", layer.offchip_bytes, "B"],
        ["energy", layer.energy ? layer.energy.joules : null, "J"],
      ]),
      el(
        "details",
        {},
        el("summary", { class: "note" }, "units, memories and loops"),
        rows(layer.units, ["unit", "instructions", ...CAUSES.map(([, name]) => `${name.split(":")[0]}, cycles`)], (use) => [
          [use.instructions],
          ...CAUSES.map(([, , key]) => [use[key]]),
        ]),
        rows(layer.storages, ["memory", "read", "written", "queues, cycles"], (use) => [
          [use.read.bytes, "B"],
          [use.write.bytes, "B"],
          [use.queue_cycles],
        ]),
        rows(Object.fromEntries(layer.loops.map((loop) => [loop.name, loop])), ["loop", "executions", "iterations", "cycles"], (use) => [
          [use.executions],
          [use.iterations],
          [use.cycles],
        ]),
      ),
    );
  });
  return place;
}
