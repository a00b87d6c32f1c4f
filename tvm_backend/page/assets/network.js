// The report of a network on a machine. A view has the report as its JSON has it, and what follows from it.

const CAUSES = [
  ["busy", "busy", "busy_cycles"],
  ["dependency", "waits for operands", "dependency_stall_cycles"],
  ["storage", "waits for memories", "storage_stall_cycles"],
  ["starved", "starved: nothing fetched yet", "starved_cycles"],
  ["idle", "idle", "idle_cycles"],
];
const secondsOf = (layer) => layer.seconds ?? 0;
const shapeText = (layer) => layer.shape.join("×");

function networkView(view) {
  const { report } = view,
    chosen = shared(view.order.length ? longest(report.layers) : null);
  return el(
    "div",
    {},
    totals(view),
    section(
      "Timeline",
      "Layers in the order in which they run. Below, what the busiest unit of each did, and the activations that are in memory. Hover for figures; click or use the arrow keys to choose a layer.",
      timeline(view, chosen),
      layerDetails(view, chosen),
    ),
    el(
      "div",
      { class: "pair" },
      section(
        "Where the cycles went",
        "Of the busiest unit of each layer: all layers together, then the longest ones.",
        causes(view, chosen),
      ),
      section("Energy and area", view.energy_note || "Of the accelerator's objects; those of an array together.", objects(view)),
    ),
    section(
      "Roofline",
      "Each layer on the accelerator: multiply-accumulates a cycle over multiply-accumulates for each byte of main memory. Lines are what the machine can do at most.",
      roofline(view, chosen),
    ),
    section("Layers", null, layers(view, chosen)),
    report.host.length ? section("On the host", "Operators that the accelerator does not take, and why.", hosts(report)) : null,
    section("Hardware", null, ...view.hardware.map(drawing)),
  );
}

function longest(layers) {
  let best = 0;
  layers.forEach((layer, i) => {
    if (secondsOf(layer) > secondsOf(layers[best])) best = i;
  });
  return best;
}

// Totals of a report: name, key, unit, which way is better, and what is said below.
const TOTALS = [
  ["latency", (r) => r.seconds, "s", -1],
  ["latency in cycles", (r) => r.cycles, "cycles", -1],
  ["accelerator", (r) => r.accelerator_seconds, "s", -1],
  ["host", (r) => r.host_seconds, "s", -1],
  ["energy", (r) => r.joules, "J", -1],
  ["power", (r) => r.watts, "W", -1],
  ["area", (r) => r.area_mm2, "mm²", -1],
  ["MACs", (r) => r.macs, "", 0],
  ["offloaded MACs", (r) => r.offloaded_macs_share, "%", 1],
  ["utilization", (r) => r.utilization, "%", 1],
  ["peak memory", (r) => r.memory?.peak_bytes, "B", -1],
];
const BELOW = {
  latency: (r) => (r.host_seconds === null ? "accelerator only" : "accelerator and host"),
  "latency in cycles": (r) => `at ${shown(r.clock_hz, "Hz")}, ${r.timing}`,
  accelerator: (r) => `${shown(r.accelerator_cycles, "cycles")}`,
  host: (r) => (r.host_profile ? `estimated for ${r.host_profile}` : "not timed"),
  energy: (r) => (r.picojoules_per_mac === null ? "" : `${shown(r.picojoules_per_mac, "pJ/MAC")}`),
  "offloaded MACs": (r) => `${r.host.length} operators on the host`,
  utilization: (r) => `of ${shown(r.peak_macs_per_cycle, "MACs/cycle")}`,
  "peak memory": () => "activations",
  MACs: () => "multiply-accumulates",
  power: () => "while it runs",
  area: (r) => (r.area_mm2 === null ? "not known" : "of the accelerator"),
};

function totals(view) {
  const { report } = view;
  return el(
    "div",
    {},
    tiles(TOTALS.map(([name, of, unit]) => [name, of(report), unit, BELOW[name](report)])),
    ...view.warnings.map((text) => el("p", { class: "warning" }, text)),
    el(
      "details",
      { class: "note" },
      el("summary", {}, "Options of the target, and how this was found"),
      facts(Object.entries(report.options).map(([name, value]) => [name, value === null ? "–" : String(value), ""])),
      el("p", {}, report.scope),
      ...(report.fallbacks || []).map((f) => el("p", {}, `${f.where}: ${f.why}; ${f.cost}`)),
    ),
  );
}

// --- tables --------------------------------------------------------------------------------------------------------
function layers(view, chosen) {
  const { layers } = view.report,
    of = (read) => (i) => read(layers[i]) ?? null;
  const stalled = (i) => {
    const unit = view.busiest[i] && layers[i].units[view.busiest[i]];
    return unit && layers[i].cycles ? (unit.dependency_stall_cycles + unit.storage_stall_cycles) / layers[i].cycles : null;
  };
  const columns = [
    { name: "layer", isText: true, get: of((l) => l.name) },
    { name: "operator", isText: true, get: of((l) => l.op) },
    { name: "where", isText: true, get: of((l) => l.target || l.where) },
    { name: "shape", isText: true, get: of(shapeText) },
    { name: "MACs", get: of((l) => l.macs) },
    { name: "cycles", get: of((l) => l.cycles) },
    { name: "time", unit: "s", get: of((l) => l.seconds) },
    { name: "utilization", unit: "%", get: of((l) => l.utilization) },
    { name: "over bound", get: of((l) => l.cycles && l.bound_cycles && l.cycles / l.bound_cycles), help: "cycles over those that no mapping is below" },
    { name: "stalled", unit: "%", get: stalled, help: "part of the cycles in which the busiest unit waits for operands or memories" },
    { name: "off-chip", unit: "B", get: of((l) => l.offchip_bytes) },
    { name: "energy", unit: "J", get: of((l) => l.energy?.joules) },
    { name: "instructions", get: of((l) => l.instructions) },
    { name: "mapping", isText: true, get: of((l) => l.mapping) },
    { name: "note", isText: true, get: of((l) => l.note) },
  ].filter(({ get }) => layers.some((_, i) => get(i) !== null && get(i) !== ""));
  return table({ columns, count: layers.length, caption: "Layers", chosen, order: view.order, size: 25 });
}

function hosts(report) {
  const of = (read) => (i) => read(report.host[i]);
  return table({
    count: report.host.length,
    caption: "Operators on the host",
    size: 25,
    columns: [
      { name: "operator", isText: true, get: of((h) => h.name) },
      { name: "kind", isText: true, get: of((h) => h.op) },
      { name: "by", isText: true, get: of((h) => h.engine) },
      { name: "MACs", get: of((h) => h.macs) },
      { name: "why", isText: true, wide: true, get: of((h) => h.reason) },
    ],
  });
}

function drawing({ target, svg, missing }) {
  if (!svg) return card(el("p", { class: "note" }, `${target}: no drawing: ${missing}`));
  const image = el("img", { src: `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`, alt: `Architecture graph of ${target}` });
  const place = el("div", { class: "drawing", tabindex: 0, role: "region", "aria-label": `Drawing of ${target}` }, image);
  const button = el(
    "button",
    { type: "button", "aria-pressed": "false", onclick: () => button.setAttribute("aria-pressed", String(place.classList.toggle("full"))) },
    "full size",
  );
  return card(el("div", { class: "controls" }, el("strong", {}, target), button), place);
}
