// A search: its fronts, all its candidates, and what parameters do.

const SERIES = ["busy", "dependency", "host", "starved", "storage"];

// A column of the data: values, or places in a list of words.
function columnOf(data) {
  const get = data.codes ? (i) => data.words[data.codes[i]] : (i) => data.values[i];
  let distinct = data.words || null;
  return { ...data, get, isText: data.kind === "text", isNumber: data.kind === "number", distinct: () => (distinct ||= [...new Set(data.values)]) };
}

const several = (view) => view.objectives.length > 1;

function searchView(view) {
  const columns = view.columns.map(columnOf), byName = new Map(columns.map((column) => [column.id, column]));
  const front = new Set(view.front), isFront = (i) => front.has(i);
  const status = byName.get("status"), number = { id: "number", name: "candidate", isNumber: true, get: (i) => i + 1 };
  const space = {
    view, columns, byName, isFront, number, status, chosen: shared(view.front.length ? view.front[0] : view.count ? 0 : null),
    brushed: shared(null), passing: shared(() => true),
    objectives: view.objectives.map(({ id, maximize }) => ({ ...byName.get(id), maximize })),
    numeric: [...columns.filter((c) => c.isNumber && c.kind !== "option"), number],
  };
  return el("div", {},
    tiles([["candidates", view.count, ""], ["on the front", view.front.length, ""], ["measured", view.counts.measured, ""], ["ruled out by bounds", view.counts.bounded, ""], ["failed", view.counts.failed, ""],
      ...(several(view) ? [["hypervolume", view.hypervolume, "%", "of the box of all candidates"]] : [])]),
    view.failures.length ? el("p", { class: "warning" }, `${view.counts.failed} candidates failed:\n${view.failures.map((f) => `${f.candidates} × ${f.error}`).join("\n")}`) : null,
    view.count ? found(space) : el("p", {}, "No candidate is done yet."));
}

function found(space) {
  const { view } = space;
  return el("div", {},
    section(several(view) ? "Pareto front" : "Best candidates", frontNote(space), fronts(space), details(space)),
    axesOf(space),
    el("div", { class: "pair" },
      several(view) ? section("Hypervolume over time", "The share of the box between the best and the worst of each objective that the front dominates.", volume(view)) : null,
      section("Importance of parameters", "The part of the variance of an objective's ranks that a parameter explains by itself.", importance(view))),
    section("Candidates", "All that are done, the front first. Of those that bounds ruled out, objectives are bounds.", candidates(space)));
}

function frontNote({ view }) {
  const goals = view.objectives.map(({ name, maximize }) => `${name} ${maximize ? "large" : "small"}`).join(", ");
  const left = view.drawn.length < view.drawable ? ` ${view.drawn.length.toLocaleString("en-US")} of ${view.drawable.toLocaleString("en-US")} are drawn, the whole front among them; the table has all.` : "";
  return `Wanted: ${goals}${view.constraints.length ? `, with ${view.constraints.join(", ")}` : ""}. Blue candidates are on the front.${view.constraints.length ? " Hollow ones break a constraint." : ""}${view.counts.bounded ? " Those that bounds ruled out are not drawn." : ""}${left} Hover for figures; click or use the arrow keys to choose one.`;
}

// --- fronts ----------------------------------------------------------------------------------------------------------
function fronts(space) {
  const { objectives, number } = space, pairs = [];
  for (let a = 0; a < objectives.length; a++) for (let b = a + 1; b < objectives.length; b++) pairs.push([objectives[a], objectives[b], objectives.find((_, c) => c !== a && c !== b)]);
  const panels = (pairs.length ? pairs : [[number, objectives[0]]]).slice(0, 3);
  return el("div", { class: panels.length > 1 ? "trio" : "" }, panels.map(([x, y, colour]) => frontPanel(space, x, y, colour)));
}

function frontPanel(space, x, y, colour) {
  const { view, numeric, number, isFront, status, chosen, passing } = space, place = el("div");
  const choice = (label, at, none) => el("label", {}, `${label} `, el("select", { "aria-label": label, onchange: (event) => { pick[at] = numeric.find((c) => c.id === event.target.value) || null; draw(); } },
    none ? el("option", { value: "" }, "–") : null, numeric.map((c) => el("option", { value: c.id, selected: c.id === pick[at]?.id }, c.name))));
  const pick = { x, y, colour: colour || null };
  function draw() {
    const isKnown = (i) => typeof pick.x.get(i) === "number" && typeof pick.y.get(i) === "number", rows = view.drawn.filter(isKnown);
    const shade = pick.colour ? scale(rows.map(pick.colour.get), 0, 1) : null;
    const points = rows.sort((a, b) => isFront(a) - isFront(b)).map((i) => ({
      id: i, x: pick.x.get(i), y: pick.y.get(i), key: isFront(i), broken: status.get(i) === "breaks a constraint",
      colour: shade && typeof pick.colour.get(i) === "number" && (isFront(i) || !space.objectives.some((o) => o.id === pick.colour.id)) ? mixed(shade(pick.colour.get(i))) : null, text: () => candidateText(space, i) }));
    const under = (sx, sy) => stairs(space, pick, points, sx, sy);
    place.replaceChildren(scatter({ points, chosen, shownOnly: passing, under, label: `${pick.y.name} over ${pick.x.name}`, scales: Object.fromEntries(["x", "y"].map((way) => [way, pick[way] === number ? { log: false } : {}])), names: { x: axisName(space, pick.x), y: axisName(space, pick.y), xUnit: pick.x.unit, yUnit: pick.y.unit } }),
      shade ? el("p", { class: "legend even" }, `${pick.colour.name}: ${shown(shade.least, pick.colour.unit)}`, el("span", { class: "ramp" }), shown(shade.most, pick.colour.unit)) : "");
  }
  const controls = el("div", { class: "controls" }, choice("across", "x"), choice("up", "y"), choice("colour", "colour", true));
  draw();
  return card(controls, place);
}

function axisName({ objectives }, column) {
  const objective = objectives.find(({ id }) => id === column.id);
  return `${column.name}${objective ? (objective.maximize ? ", more is better" : ", less is better") : ""}`;
}

// The front of the two objectives that are drawn, or the best so far over candidates.
function stairs({ objectives, number }, { x, y }, points, sx, sy) {
  const [ox, oy] = [x, y].map((column) => (column.id === number.id ? { maximize: false } : objectives.find(({ id }) => id === column.id)));
  if (!ox || !oy || x.id === y.id) return [];
  const rows = points.filter((p) => !p.broken && (p.key || x.id === number.id)).sort((a, b) => (ox.maximize ? b.x - a.x : a.x - b.x) || (oy.maximize ? b.y - a.y : a.y - b.y));
  let path = "", best = null;
  for (const p of rows) {
    if (best !== null && !(oy.maximize ? p.y > best : p.y < best)) continue;
    path += best === null ? `M${sx(p.x)},${sy(p.y)}` : `H${sx(p.x)}V${sy(p.y)}`;
    best = p.y;
  }
  return path ? [shape("path", { class: "stairs", d: path })] : [];
}

function candidateText({ view, objectives, byName, status }, i) {
  const params = view.params.map((id) => byName.get(id)).map((c) => `${c.name} ${shown(c.get(i), c.unit)}`).join(", ");
  return `candidate ${i + 1}: ${status.get(i)}\n${objectives.map((o) => `${o.name} ${exact(o.get(i), o.unit)}`).join("\n")}\n${params}`;
}

// --- one candidate ---------------------------------------------------------------------------------------------------
function details(space) {
  const { view, columns, chosen, status } = space, place = el("div", { class: "card", "aria-live": "polite", "data-details": "candidate" }), report = el("div", { "data-report": "" });
  chosen.on((i) => {
    if (i === null) { place.hidden = true; return; }
    const of = (kinds) => facts(columns.filter((c) => kinds.includes(c.group)).map((c) => [c.name, c.get(i), c.unit]).filter(([, v]) => v !== null && v !== undefined));
    const made = again(space, i), copy = el("button", { type: "button", onclick: () => navigator.clipboard.writeText(made).then(() => { copy.textContent = "copied"; }, () => { copy.textContent = "select and copy"; }) }, "copy");
    const views = view.reports[i];
    const button = views ? el("button", { type: "button", onclick: () => { report.replaceChildren(el("h2", {}, `Report of candidate ${i + 1}`), networks(views)); report.scrollIntoView({ behavior: "smooth" }); } }, "show its report") : null;
    report.replaceChildren();
    const error = space.byName.get("error");
    place.replaceChildren(el("div", { class: "controls" }, el("h3", {}, `Candidate ${i + 1}`), el("span", {}, status.get(i)), button || ""),
      error && error.get(i) ? el("p", { class: "warning" }, error.get(i)) : "", of(["objective"]), of(["param"]), of(["figure"]),
      el("div", { class: "controls" }, el("span", {}, "Made again by"), copy), el("pre", {}, el("code", {}, made)),
      views ? "" : el("p", { class: "note" }, view.no_reports[i] || view.reports_note));
  });
  return el("div", {}, place, report);
}

const quoted = (text) => (/^[\w@%+=:,.\/-]+$/.test(text) ? text : `'${text.replaceAll("'", `'"'"'`)}'`);
const python = (v) => (v === null ? "None" : v === true ? "True" : v === false ? "False" : typeof v === "number" ? String(v) : Array.isArray(v) ? `(${v.map(python).join(", ")},)` : JSON.stringify(v));

// The command that estimates a candidate; of one whose networks no command can name, how its space makes it.
function again({ view, byName, columns }, i) {
  const made = byName.get("candidate").get(i);
  if (made && made.named) {
    const options = columns.filter((c) => c.group === "option" || c.option).map((c) => [c.option || c.name, c.get(i)]).filter(([, v]) => v !== null && v !== undefined);
    const words = options.map(([name, v]) => `-O ${quoted(`${name}=${v}`)}`).join(" ");
    return made.networks.map((network) => `archloom estimate ${quoted(network)} -t ${quoted(made.target)}${words ? ` ${words}` : ""}${made.as_int8 ? " --int8" : ""} --host ${quoted(view.host)}`).join("\n");
  }
  const params = view.params.map((id) => byName.get(id)).filter((c) => c.get(i) !== undefined).map((c) => `${JSON.stringify(c.name)}: ${python(c.get(i))}`);
  return `from optuna.trial import FixedTrial\n\ncandidate = space(FixedTrial({${params.join(", ")}}))`;
}

// --- parameters, time ---------------------------------------------------------------------------------------------------
function axesOf(space) {
  const { view, byName, objectives, isFront, chosen, brushed, passing } = space, said = el("span", { role: "status" });
  const columns = [...view.params.map((id) => byName.get(id)).filter((c) => c.distinct().length > 1), ...objectives];
  const { place, clear } = parallel({ columns, rows: view.lines, isFront, chosen, brushed, passing, said });
  return section("Parallel coordinates", "Drag along axes to keep the candidates of a range, here, in the fronts and in the table; with the keyboard: arrow keys narrow the range of an axis from below and above, with Shift they widen it, Escape clears it.",
    card(el("div", { class: "controls" }, el("button", { type: "button", onclick: clear }, "clear brushes"), said), place));
}

function volume({ volume: { done, seconds, share } }) {
  if (done.length < 2) return card(el("p", { class: "note" }, "Too few candidates were measured."));
  const ways = { candidates: [done, "candidates that are done", ""], "seconds of work": [seconds, "seconds of workers, added up", ""] };
  const place = el("div"), draw = (name) => {
    const [xs, title, unit] = ways[name];
    place.replaceChildren(chart((width) => {
      const height = 260, x = scale(xs, INSIDE.left, width - INSIDE.right), y = scale(share, height - INSIDE.bottom, INSIDE.top, { log: false });
      const line = xs.map((v, k) => (k ? `H${x(v)}V${y(share[k])}` : `M${x(v)},${y(share[k])}`)).join("");
      const at = (event, svg) => { const px = event.clientX - svg.getBoundingClientRect().left; let k = 0; while (k + 1 < xs.length && x(xs[k + 1]) <= px) k++; return k; };
      const svg = shape("svg", { width, height, role: "img", "aria-label": `Hypervolume: ${shown(share[0], "%")} at first, ${shown(share.at(-1), "%")} at the end` },
        frame(width, height, INSIDE, x, y, { x: title, y: "hypervolume", yUnit: "%", xUnit: unit }),
        shape("path", { class: "curve", d: line }));
      return fill(svg, { onpointermove: (event) => { const k = at(event, svg); showTip(`after ${exact(done[k], "candidates")}, ${shown(seconds[k], "s")} of work\nhypervolume ${exact(share[k])}`, event.clientX, event.clientY); }, onpointerleave: hideTip }, []);
    }));
  };
  draw("candidates");
  return card(el("div", { class: "controls" }, el("label", {}, "over ", el("select", { onchange: (event) => draw(event.target.value) }, Object.keys(ways).map((name) => el("option", { value: name }, name))))), place);
}

function importance({ importance: { params, objectives, shares } }) {
  if (!params.length) return card(el("p", { class: "note" }, "Too few candidates were measured, or no parameter varies."));
  const each = 12 * objectives.length + 12;
  return card(chart((width) => {
    const left = Math.min(150, width * 0.34), long = width - left - 52;
    const svg = shape("svg", { width, height: params.length * each + 4, role: "img", "aria-label": `Importance: ${params.map((p, k) => `${p} ${shares[k].map((s) => shown(s, "%")).join(", ")}`).join("; ")}` });
    params.forEach((name, k) => {
      svg.append(shape("text", { x: left - 8, y: k * each + each / 2 + 4, "text-anchor": "end", class: "strong" }, cut(name, left / 6.6)));
      shares[k].forEach((share, o) => svg.append(titled("rect", { x: left, y: k * each + 6 + 12 * o, height: 10, width: Math.max(1, long * (share ?? 0)), fill: cssColour(SERIES[o % SERIES.length]) }, `${name}, ${objectives[o]}: ${exact(share, "%")}`),
        shape("text", { x: left + Math.max(1, long * (share ?? 0)) + 5, y: k * each + 15 + 12 * o, "font-size": 10.5 }, share < 0.001 ? "0 %" : shown(share, "%"))));
    });
    return svg;
  }), legend(objectives.map((name, o) => [SERIES[o % SERIES.length], name])));
}

function candidates({ view, columns, number, isFront, chosen, brushed, passing }) {
  const listed = [{ ...number, name: "no." }, ...columns.filter((c) => c.group !== "option" && c.group !== "candidate")];
  const order = [...view.front, ...Array.from({ length: view.count }, (_, i) => i).filter((i) => !isFront(i))];
  return table({ columns: listed, count: view.count, order, caption: "Candidates", chosen, others: brushed, passing, size: 25, mark: (i) => (isFront(i) ? "front" : "") });
}
