// The report of a network on a machine. A view has the report as its JSON has it, and what follows from it.

const CAUSES = [
  ["busy", "busy", "busy_cycles"], ["dependency", "waits for operands", "dependency_stall_cycles"],
  ["storage", "waits for memories", "storage_stall_cycles"], ["starved", "starved: nothing fetched yet", "starved_cycles"],
  ["idle", "idle", "idle_cycles"],
];
const secondsOf = (layer) => layer.seconds ?? 0;
const shapeText = (layer) => layer.shape.join("×");

function networkView(view) {
  const { report } = view, chosen = shared(view.order.length ? longest(report.layers) : null);
  return el("div", {},
    totals(view),
    section("Timeline", "Layers in the order in which they run. Below, what the busiest unit of each did, and the activations that are in memory. Hover for figures; click or use the arrow keys to choose a layer.",
      timeline(view, chosen), layerDetails(view, chosen)),
    el("div", { class: "pair" },
      section("Where the cycles went", "Of the busiest unit of each layer: all layers together, then the longest ones.", causes(view, chosen)),
      section("Energy and area", view.energy_note || "Of the accelerator's objects; those of an array together.", objects(view))),
    section("Roofline", "Each layer on the accelerator: multiply-accumulates a cycle over multiply-accumulates for each byte of main memory. Lines are what the machine can do at most.", roofline(view, chosen)),
    section("Layers", null, layers(view, chosen)),
    report.host.length ? section("On the host", "Operators that the accelerator does not take, and why.", hosts(report)) : null,
    section("Hardware", null, ...view.hardware.map(drawing)));
}

function longest(layers) {
  let best = 0;
  layers.forEach((layer, i) => { if (secondsOf(layer) > secondsOf(layers[best])) best = i; });
  return best;
}

// Totals of a report: name, key, unit, which way is better, and what is said below.
const TOTALS = [
  ["latency", (r) => r.seconds, "s", -1], ["latency in cycles", (r) => r.cycles, "cycles", -1],
  ["accelerator", (r) => r.accelerator_seconds, "s", -1], ["host", (r) => r.host_seconds, "s", -1],
  ["energy", (r) => r.joules, "J", -1], ["power", (r) => r.watts, "W", -1], ["area", (r) => r.area_mm2, "mm²", -1],
  ["MACs", (r) => r.macs, "", 0], ["offloaded MACs", (r) => r.offloaded_macs_share, "%", 1],
  ["utilization", (r) => r.utilization, "%", 1], ["peak memory", (r) => r.memory?.peak_bytes, "B", -1],
];
const BELOW = {
  latency: (r) => (r.host_seconds === null ? "accelerator only" : "accelerator and host"),
  "latency in cycles": (r) => `at ${shown(r.clock_hz, "Hz")}, ${r.timing}`,
  accelerator: (r) => `${shown(r.accelerator_cycles, "cycles")}`,
  host: (r) => (r.host_profile ? `estimated for ${r.host_profile}` : "not timed"),
  energy: (r) => (r.picojoules_per_mac === null ? "" : `${shown(r.picojoules_per_mac, "pJ/MAC")}`),
  "offloaded MACs": (r) => `${r.host.length} operators on the host`,
  utilization: (r) => `of ${shown(r.peak_macs_per_cycle, "MACs/cycle")}`,
  "peak memory": () => "activations", MACs: () => "multiply-accumulates", power: () => "while it runs",
  area: (r) => (r.area_mm2 === null ? "not known" : "of the accelerator"),
};

function totals(view) {
  const { report } = view;
  return el("div", {}, tiles(TOTALS.map(([name, of, unit]) => [name, of(report), unit, BELOW[name](report)])),
    ...view.warnings.map((text) => el("p", { class: "warning" }, text)),
    el("details", { class: "note" }, el("summary", {}, "Options of the target, and how this was found"),
      facts(Object.entries(report.options).map(([name, value]) => [name, value === null ? "–" : String(value), ""])),
      el("p", {}, report.scope), ...(report.fallbacks || []).map((f) => el("p", {}, `${f.where}: ${f.why}; ${f.cost}`))));
}

// --- time ----------------------------------------------------------------------------------------------------------
function layerText(layer) {
  const unit = layer.cycles === null ? "" : `\n${exact(layer.cycles, "cycles")}, utilization ${shown(layer.utilization, "%")}`;
  return `${layer.name}\n${layer.op}, ${shapeText(layer)}\n${exact(layer.seconds, "s")}${unit}`;
}

function timeline(view, chosen) {
  const { report, order } = view, { layers } = report;
  const live = new Map();
  (report.memory?.layers || []).forEach(({ name, live_bytes }) => live.has(name) ? live.get(name).push(live_bytes) : live.set(name, [live_bytes]));
  const starts = [];
  let total = 0;
  for (const i of order) { starts.push(total); total += secondsOf(layers[i]); }
  const memory = order.map((i) => (live.get(layers[i].name) || []).shift() ?? null);
  const place = chart((width) => {
    const left = 92, x = (s) => left + (width - left - 8) * (total ? s / total : 0);
    const top = { accelerator: 4, host: 30, causes: 62, memory: 178 }, tall = { causes: 96, memory: 62 };
    const most = Math.max(1, ...memory.map((m) => m ?? 0));
    const svg = shape("svg", { width, height: 268, viewBox: `0 0 ${width} 268`, role: "group", tabindex: 0,
      "aria-label": `Timeline of ${order.length} layers over ${shown(total, "s")}; arrow keys go from one to the next.`, onkeydown: arrows(order, chosen) });
    for (const [name, y, hint] of [["accelerator", top.accelerator + 14], ["host", top.host + 14], ["causes", top.causes + 14], ["activations", top.memory + 12, shown(most, "B")]]) {
      svg.append(shape("text", { x: 0, y, class: "strong" }, name), ...(hint ? [shape("text", { x: 0, y: y + 16 }, `≤ ${hint}`)] : []));
    }
    const blocks = new Map();
    order.forEach((i, at) => {
      const layer = layers[i], from = x(starts[at]), wide = Math.max(x(starts[at] + secondsOf(layer)) - from, 0.6);
      const group = shape("g", { "data-layer": i });
      const block = titled("rect", { class: "block", x: from, y: top[layer.where], width: wide, height: 20, fill: cssColour(layer.where === "host" ? "host" : "busy"), stroke: "var(--card)", "stroke-width": wide > 3 ? 0.7 : 0 }, layerText(layer));
      group.append(block);
      blocks.set(i, block);
      const unit = view.busiest[i] && layer.units[view.busiest[i]];
      let y = top.causes;
      for (const [colour, name, key] of unit ? CAUSES : []) {
        const height = tall.causes * unit[key] / layer.cycles;
        if (height > 0) group.append(titled("rect", { class: "block", x: from, y, width: wide, height, fill: cssColour(colour) }, `${layer.name}: ${name}\n${exact(unit[key], "cycles")}`));
        y += height;
      }
      if (memory[at] !== null) {
        const height = tall.memory * memory[at] / most;
        group.append(titled("rect", { class: "block", x: from, y: top.memory + tall.memory - height, width: wide, height, fill: cssColour("accent"), "fill-opacity": 0.45 }, `while ${layer.name} runs: ${exact(memory[at], "B")} of activations`));
      }
      group.addEventListener("click", () => chosen.set(i));
      tipOf(group, () => layerText(layer) + (memory[at] === null ? "" : `\nactivations ${shown(memory[at], "B")}`));
      svg.append(group);
    });
    for (const s of ticks(0, total || 1, Math.max(2, Math.floor((width - left) / 90)))) {
      svg.append(shape("line", { class: "axis", x1: x(s), x2: x(s), y1: 242, y2: 247 }), shape("text", { x: Math.min(x(s), width - 16), y: 261, "text-anchor": "middle" }, shown(s, "s")));
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
    if (!layer) { place.hidden = true; return; }
    const rows = (map, head, cells) => Object.keys(map).length === 0 ? null : el("div", { class: "scrolls" }, el("table", {},
      el("thead", {}, el("tr", {}, head.map((name, c) => el("th", { class: c ? "number" : null }, name)))),
      el("tbody", {}, Object.entries(map).slice(0, 40).map(([name, use]) => el("tr", {}, el("td", {}, name), cells(use).map(([v, unit]) => el("td", { class: "number", title: exact(v, unit) }, shown(v, unit))))))));
    place.replaceChildren(el("h3", {}, layer.name), el("p", { class: "note" }, `${layer.op} on ${layer.target || layer.where}${layer.mapping ? `: ${layer.mapping}` : ""}`),
      layer.note ? el("p", { class: "note" }, layer.note) : "",
      facts([["shape", shapeText(layer)], ["time", layer.seconds, "s"], ["cycles", layer.cycles], ["MACs", layer.macs], ["utilization", layer.utilization, "%"], ["instructions", layer.instructions],
        ["off-chip", layer.offchip_bytes, "B"], ["energy", layer.energy ? layer.energy.joules : null, "J"]]),
      el("details", {}, el("summary", { class: "note" }, "units, memories and loops"),
        rows(layer.units, ["unit", "instructions", ...CAUSES.map(([, name]) => `${name.split(":")[0]}, cycles`)], (use) => [[use.instructions], ...CAUSES.map(([, , key]) => [use[key]])]),
        rows(layer.storages, ["memory", "read", "written", "queues, cycles"], (use) => [[use.read.bytes, "B"], [use.write.bytes, "B"], [use.queue_cycles]]),
        rows(Object.fromEntries(layer.loops.map((loop) => [loop.name, loop])), ["loop", "executions", "iterations", "cycles"], (use) => [[use.executions], [use.iterations], [use.cycles]])));
  });
  return place;
}

// --- cycles, energy, roofline -----------------------------------------------------------------------------------------
function causes(view, chosen) {
  const { layers } = view.report, rows = view.causes.map(({ name, cycles }) => ({ name, use: cycles, all: true }));
  const timed = view.order.filter((i) => view.busiest[i]).sort((a, b) => layers[b].cycles - layers[a].cycles).slice(0, 10);
  rows.push(...timed.map((i) => ({ name: layers[i].name, use: layers[i].units[view.busiest[i]], id: i })));
  if (!rows.length) return card(el("p", { class: "note" }, "No layer of this report says what its units did."));
  return card(chart((width) => {
    const left = Math.min(170, width * 0.36), svg = shape("svg", { width, height: rows.length * 27 + 4, role: "img",
      "aria-label": `Cycles by cause: ${view.causes.map(({ cycles }) => CAUSES.map(([, name, key]) => `${name} ${cycles[key]}`).join(", ")).join("; ")}` });
    rows.forEach(({ name, use, all, id }, row) => {
      const sum = CAUSES.reduce((total, [, , key]) => total + use[key], 0) || 1;
      let x = left;
      const group = shape("g", id === undefined ? {} : { style: "cursor:pointer", onclick: () => chosen.set(id) });
      group.append(shape("text", { x: left - 8, y: row * 27 + 16, "text-anchor": "end", class: all ? "strong" : null, "font-weight": all ? 600 : null }, cut(name, left / 6.6)));
      for (const [colour, cause, key] of CAUSES) {
        const wide = (width - left) * use[key] / sum;
        if (wide > 0) group.append(tipOf(titled("rect", { class: "block", "data-cause": key, x, y: row * 27 + 3, width: wide, height: all ? 20 : 16, fill: cssColour(colour) }, `${name}: ${cause}\n${exact(use[key], "cycles")}`), () => `${name}: ${cause}\n${exact(use[key], "cycles")}, ${shown(use[key] / sum, "%")}`));
        x += wide;
      }
      svg.append(group);
    });
    return svg;
  }), legend(CAUSES.map(([colour, name]) => [colour, name])));
}
const cut = (text, most) => (text.length <= most ? text : `${text.slice(0, Math.max(3, Math.floor(most) - 1))}…`);

function objects(view) {
  const rows = view.objects, known = rows.some(([, joules]) => joules !== null);
  if (!rows.length) return card(el("p", { class: "note" }, "Neither energy nor area of this machine is known."));
  const sums = [1, 2].map((k) => rows.reduce((sum, row) => sum + (row[k] ?? 0), 0) || 1);
  return card(chart((width) => {
    const left = Math.min(150, width * 0.34), svg = shape("svg", { width, height: rows.length * 27 + 4, role: "img", "aria-label": `Energy and area by object: ${rows.map(([name, j, a]) => `${name} ${shown(j, "J")}, ${shown(a, "mm²")}`).join("; ")}` });
    const most = Math.max(...rows.flatMap((row) => [(row[1] ?? 0) / sums[0], (row[2] ?? 0) / sums[1]]));
    const long = width - left - 70;
    rows.forEach(([name, joules, area], row) => {
      const text = `${name}\n${exact(joules, "J")}${known ? `, ${shown((joules ?? 0) / sums[0], "%")}` : ""}\n${exact(area, "mm²")}, ${shown((area ?? 0) / sums[1], "%")}`;
      svg.append(tipOf(shape("g", {}, shape("title", {}, text), shape("text", { x: left - 8, y: row * 27 + 15, "text-anchor": "end" }, cut(name, left / 6.6)),
        shape("rect", { x: left, y: row * 27 + 3, width: long * (joules ?? 0) / sums[0] / most, height: 10, fill: cssColour("storage") }),
        shape("rect", { x: left, y: row * 27 + 14, width: long * (area ?? 0) / sums[1] / most, height: 6, fill: cssColour("muted") }),
        shape("text", { x: left + long * Math.max((joules ?? 0) / sums[0], (area ?? 0) / sums[1]) / most + 6, y: row * 27 + 15 }, known ? shown(joules, "J") : shown(area, "mm²"))), () => text));
    });
    return svg;
  }), legend([["storage", "share of the energy"], ["muted", "share of the area"]]));
}

function roofline(view, chosen) {
  const { layers } = view.report;
  const points = layers.flatMap((layer, i) => (layer.where === "accelerator" && layer.cycles && layer.offchip_bytes && layer.macs ? [{
    id: i, x: layer.macs / layer.offchip_bytes, y: layer.macs / layer.cycles, key: true, radius: 3 + 7 * Math.sqrt(layer.cycles / view.report.accelerator_cycles),
    text: () => `${layerText(layer)}\n${shown(layer.macs / layer.cycles, "MACs/cycle")} at ${shown(layer.macs / layer.offchip_bytes, "MACs/byte")}\n${exact(layer.macs, "MACs")}, ${exact(layer.offchip_bytes, "B")} off-chip` }] : []));
  if (!points.length) return card(el("p", { class: "note" }, "No layer with multiply-accumulates says what it moves."));
  const roofs = view.hardware.filter((h) => h.peak_macs_per_cycle), bounded = roofs.filter((h) => h.bytes_per_cycle);
  const under = (x, y) => roofs.flatMap(({ target, peak_macs_per_cycle: peak, bytes_per_cycle: bytes }) => {
    const ridge = bytes ? Math.max(peak / bytes, x.low) : x.low, from = bytes ? Math.max(x.low, y.low / bytes) : x.low;
    const text = `${target}: ${peak} MACs/cycle${bytes ? `, ${bytes} bytes/cycle of main memory` : ""}`;
    const path = ridge > from && ridge < x.high ? `M${x(from)},${y(from * bytes)}L${x(ridge)},${y(peak)}L${x(x.high)},${y(peak)}` : `M${x(from)},${y(Math.min(peak, bytes ? from * bytes : peak))}L${x(x.high)},${y(Math.min(peak, bytes ? x.high * bytes : peak))}`;
    return [titled("path", { class: "roof", d: path }, text), shape("text", { x: x(x.high), y: y(peak) - 7, "text-anchor": "end" }, `${shown(peak)} MACs/cycle${bytes ? `, ${shown(bytes)} B/cycle` : ""}${roofs.length > 1 ? ` (${target})` : ""}`)];
  });
  return card(scatter({ points, chosen, under, height: 380, label: "Roofline of all layers",
    names: { x: "MACs for each byte of main memory", y: "MACs a cycle" },
    scales: { x: { log: true }, y: { log: true }, ys: roofs.map((h) => h.peak_macs_per_cycle), xs: bounded.map((h) => h.peak_macs_per_cycle / h.bytes_per_cycle) } }),
  el("p", { class: "note" }, "The larger a point, the more cycles its layer takes."));
}

// --- tables --------------------------------------------------------------------------------------------------------
function layers(view, chosen) {
  const { layers } = view.report, of = (read) => (i) => read(layers[i]) ?? null;
  const stalled = (i) => { const unit = view.busiest[i] && layers[i].units[view.busiest[i]]; return unit && layers[i].cycles ? (unit.dependency_stall_cycles + unit.storage_stall_cycles) / layers[i].cycles : null; };
  const columns = [
    { name: "layer", isText: true, get: of((l) => l.name) }, { name: "operator", isText: true, get: of((l) => l.op) },
    { name: "where", isText: true, get: of((l) => l.target || l.where) }, { name: "shape", isText: true, get: of(shapeText) },
    { name: "MACs", get: of((l) => l.macs) }, { name: "cycles", get: of((l) => l.cycles) }, { name: "time", unit: "s", get: of((l) => l.seconds) },
    { name: "utilization", unit: "%", get: of((l) => l.utilization) }, { name: "stalled", unit: "%", get: stalled, help: "part of the cycles in which the busiest unit waits for operands or memories" },
    { name: "off-chip", unit: "B", get: of((l) => l.offchip_bytes) }, { name: "energy", unit: "J", get: of((l) => l.energy?.joules) },
    { name: "instructions", get: of((l) => l.instructions) }, { name: "mapping", isText: true, get: of((l) => l.mapping) }, { name: "note", isText: true, get: of((l) => l.note) },
  ].filter(({ get }) => layers.some((_, i) => get(i) !== null && get(i) !== ""));
  return table({ columns, count: layers.length, caption: "Layers", chosen, order: view.order, size: 25 });
}

function hosts(report) {
  const of = (read) => (i) => read(report.host[i]);
  return table({ count: report.host.length, caption: "Operators on the host", size: 25, columns: [
    { name: "operator", isText: true, get: of((h) => h.name) }, { name: "kind", isText: true, get: of((h) => h.op) }, { name: "by", isText: true, get: of((h) => h.engine) },
    { name: "MACs", get: of((h) => h.macs) }, { name: "why", isText: true, wide: true, get: of((h) => h.reason) }] });
}

function drawing({ target, svg, missing }) {
  if (!svg) return card(el("p", { class: "note" }, `${target}: no drawing: ${missing}`));
  const image = el("img", { src: `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`, alt: `Architecture graph of ${target}` });
  const place = el("div", { class: "drawing", tabindex: 0, role: "region", "aria-label": `Drawing of ${target}` }, image);
  const button = el("button", { type: "button", "aria-pressed": "false", onclick: () => button.setAttribute("aria-pressed", String(place.classList.toggle("full"))) }, "full size");
  return card(el("div", { class: "controls" }, el("strong", {}, target), button), place);
}

// --- several reports -------------------------------------------------------------------------------------------------
function differs(value, first, way) {
  if (typeof value !== "number" || typeof first !== "number") return ["–", ""];
  if (value === first) return ["same", ""];
  if (!first) return ["–", ""];
  const share = value / first - 1, text = Math.abs(share) >= 9.995 ? `${digits(value / first)} ×` : `${share > 0 ? "+" : "−"}${digits(100 * Math.abs(share))} %`;
  return [text, way * share > 0 ? "better" : way * share < 0 ? "worse" : ""];
}

function comparison(views) {
  const [first, ...others] = views;
  const head = el("tr", {}, el("th", {}, ""), el("th", { class: "number" }, first.title), others.flatMap((view) => [el("th", { class: "number" }, view.title), el("th", { class: "number" }, "difference")]));
  const rows = TOTALS.map(([name, of, unit, way]) => el("tr", {}, el("th", { scope: "row" }, name), views.flatMap((view, k) => {
    const value = of(view.report) ?? null, cell = el("td", { class: "number", title: exact(value, unit), "data-figure": name }, shown(value, unit));
    const [text, kind] = differs(value, of(first.report), way);
    return k ? [cell, el("td", { class: `number ${kind}` }, text)] : [cell];
  })));
  return section("Side by side", `Differences are from ${first.title}.`, card(el("div", { class: "scrolls", tabindex: 0, role: "region", "aria-label": "Totals side by side" }, el("table", {}, el("thead", {}, head), el("tbody", {}, rows)))),
    layersCompared(views));
}

// Layers of the same name, the second of a name with the second.
function layersCompared(views) {
  const named = views.map(({ report, order }) => {
    const times = new Map(), found = new Map();
    for (const i of order) { const { name } = report.layers[i], n = (times.get(name) || 0) + 1; times.set(name, n); found.set(n > 1 ? `${name} (${n})` : name, report.layers[i]); }
    return found;
  });
  const names = [...named[0].keys()].filter((name) => named.every((found) => found.has(name)));
  if (!names.length) return el("p", { class: "note" }, "The reports have no layers of the same names.");
  const seconds = (k) => (i) => named[k].get(names[i]).seconds;
  const columns = [{ name: "layer", isText: true, get: (i) => names[i] }, { name: "operator", isText: true, get: (i) => named[0].get(names[i]).op }];
  views.forEach((view, k) => {
    columns.push({ name: `time (${view.title})`, unit: "s", get: seconds(k) });
    if (k) columns.push({ name: `difference (${view.title})`, unit: "s", get: (i) => (seconds(k)(i) === null || seconds(0)(i) === null ? null : seconds(k)(i) - seconds(0)(i)) });
  });
  return table({ columns, count: names.length, caption: `Layers of the same name (${names.length})`, size: 15 });
}

// Reports as tabs, below what compares them.
function networks(views) {
  if (views.length === 1) return networkView(views[0]);
  const panels = views.map((view) => el("div", { role: "tabpanel", "aria-label": view.title, hidden: true }));
  const show = (at) => panels.forEach((panel, k) => {
    panel.hidden = k !== at;
    tabs[k].setAttribute("aria-selected", String(k === at));
    tabs[k].tabIndex = k === at ? 0 : -1;
    if (k === at && !panel.firstChild) panel.append(el("p", { class: "note" }, views[k].headline), networkView(views[k]));
  });
  const tabs = views.map((view, k) => el("button", { type: "button", role: "tab", onclick: () => show(k), onkeydown: (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step) { const next = (k + step + views.length) % views.length; show(next); tabs[next].focus(); }
  } }, view.title));
  show(0);
  return el("div", {}, comparison(views), el("div", { role: "tablist", "aria-label": "Reports" }, tabs), ...panels);
}
