// Several reports: side by side, and each behind its tab.

function differs(value, first, way) {
  if (typeof value !== "number" || typeof first !== "number") return ["–", ""];
  if (value === first) return ["same", ""];
  if (!first) return ["–", ""];
  const share = value / first - 1,
    text = Math.abs(share) >= 9.995 ? `${digits(value / first)} ×` : `${share > 0 ? "+" : "−"}${digits(100 * Math.abs(share))} %`;
  return [text, way * share > 0 ? "better" : way * share < 0 ? "worse" : ""];
}

function comparison(views) {
  const [first, ...others] = views;
  const head = el(
    "tr",
    {},
    el("th", {}, ""),
    el("th", { class: "number" }, first.title),
    others.flatMap((view) => [el("th", { class: "number" }, view.title), el("th", { class: "number" }, "difference")]),
  );
  const rows = TOTALS.map(([name, of, unit, way]) =>
    el(
      "tr",
      {},
      el("th", { scope: "row" }, name),
      views.flatMap((view, k) => {
        const value = of(view.report) ?? null,
          cell = el("td", { class: "number", title: exact(value, unit), "data-figure": name }, shown(value, unit));
        const [text, kind] = differs(value, of(first.report), way);
        return k ? [cell, el("td", { class: `number ${kind}` }, text)] : [cell];
      }),
    ),
  );
  return section(
    "Side by side",
    `Differences are from ${first.title}.`,
    card(
      el(
        "div",
        { class: "scrolls", tabindex: 0, role: "region", "aria-label": "Totals side by side" },
        el("table", {}, el("thead", {}, head), el("tbody", {}, rows)),
      ),
    ),
    layersCompared(views),
  );
}

// Layers of the same name, the second of a name with the second.
function layersCompared(views) {
  const named = views.map(({ report, order }) => {
    const times = new Map(),
      found = new Map();
    for (const i of order) {
      const { name } = report.layers[i],
        n = (times.get(name) || 0) + 1;
      times.set(name, n);
      found.set(n > 1 ? `${name} (${n})` : name, report.layers[i]);
    }
    return found;
  });
  const names = [...named[0].keys()].filter((name) => named.every((found) => found.has(name)));
  if (!names.length) return el("p", { class: "note" }, "The reports have no layers of the same names.");
  const seconds = (k) => (i) => named[k].get(names[i]).seconds;
  const columns = [
    { name: "layer", isText: true, get: (i) => names[i] },
    { name: "operator", isText: true, get: (i) => named[0].get(names[i]).op },
  ];
  views.forEach((view, k) => {
    columns.push({ name: `time (${view.title})`, unit: "s", get: seconds(k) });
    if (k)
      columns.push({
        name: `difference (${view.title})`,
        unit: "s",
        get: (i) => (seconds(k)(i) === null || seconds(0)(i) === null ? null : seconds(k)(i) - seconds(0)(i)),
      });
  });
  return table({ columns, count: names.length, caption: `Layers of the same name (${names.length})`, size: 15 });
}

// Reports as tabs, below what compares them.
function networks(views) {
  if (views.length === 1) return networkView(views[0]);
  const panels = views.map((view) => el("div", { role: "tabpanel", "aria-label": view.title, hidden: true }));
  const show = (at) =>
    panels.forEach((panel, k) => {
      panel.hidden = k !== at;
      tabs[k].setAttribute("aria-selected", String(k === at));
      tabs[k].tabIndex = k === at ? 0 : -1;
      if (k === at && !panel.firstChild) panel.append(el("p", { class: "note" }, views[k].headline), networkView(views[k]));
    });
  const tabs = views.map((view, k) =>
    el(
      "button",
      {
        type: "button",
        role: "tab",
        onclick: () => show(k),
        onkeydown: (event) => {
          const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
          if (step) {
            const next = (k + step + views.length) % views.length;
            show(next);
            tabs[next].focus();
          }
        },
      },
      view.title,
    ),
  );
  show(0);
  return el("div", {}, comparison(views), el("div", { role: "tablist", "aria-label": "Reports" }, tabs), ...panels);
}
