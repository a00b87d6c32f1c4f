// Candidates over two of their figures, of which the front is the best.

function fronts(space) {
  const { objectives, number } = space,
    pairs = [];
  for (let a = 0; a < objectives.length; a++)
    for (let b = a + 1; b < objectives.length; b++)
      pairs.push([objectives[a], objectives[b], objectives.find((_, c) => c !== a && c !== b)]);
  const panels = (pairs.length ? pairs : [[number, objectives[0]]]).slice(0, 3);
  return el(
    "div",
    { class: panels.length > 1 ? "trio" : "" },
    panels.map(([x, y, colour]) => frontPanel(space, x, y, colour)),
  );
}

function frontPanel(space, x, y, colour) {
  const { view, numeric, number, isFront, status, chosen, passing } = space,
    place = el("div");
  const choice = (label, at, none) =>
    el(
      "label",
      {},
      `${label} `,
      el(
        "select",
        {
          "aria-label": label,
          onchange: (event) => {
            pick[at] = numeric.find((c) => c.id === event.target.value) || null;
            draw();
          },
        },
        none ? el("option", { value: "" }, "–") : null,
        numeric.map((c) => el("option", { value: c.id, selected: c.id === pick[at]?.id }, c.name)),
      ),
    );
  const pick = { x, y, colour: colour || null };
  function draw() {
    const isKnown = (i) => typeof pick.x.get(i) === "number" && typeof pick.y.get(i) === "number",
      rows = view.drawn.filter(isKnown);
    const shade = pick.colour ? scale(rows.map(pick.colour.get), 0, 1) : null;
    const points = rows
      .sort((a, b) => isFront(a) - isFront(b))
      .map((i) => ({
        id: i,
        x: pick.x.get(i),
        y: pick.y.get(i),
        key: isFront(i),
        broken: status.get(i) === "breaks a constraint",
        colour:
          shade && typeof pick.colour.get(i) === "number" && (isFront(i) || !space.objectives.some((o) => o.id === pick.colour.id))
            ? mixed(shade(pick.colour.get(i)))
            : null,
        text: () => candidateText(space, i),
      }));
    const under = (sx, sy) => stairs(space, pick, points, sx, sy);
    place.replaceChildren(
      scatter({
        points,
        chosen,
        shownOnly: passing,
        under,
        label: `${pick.y.name} over ${pick.x.name}`,
        scales: Object.fromEntries(["x", "y"].map((way) => [way, pick[way] === number ? { log: false } : {}])),
        names: { x: axisName(space, pick.x), y: axisName(space, pick.y), xUnit: pick.x.unit, yUnit: pick.y.unit },
      }),
      shade
        ? el(
            "p",
            { class: "legend even" },
            `${pick.colour.name}: ${shown(shade.least, pick.colour.unit)}`,
            el("span", { class: "ramp" }),
            shown(shade.most, pick.colour.unit),
          )
        : "",
    );
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
  const rows = points
    .filter((p) => !p.broken && (p.key || x.id === number.id))
    .sort((a, b) => (ox.maximize ? b.x - a.x : a.x - b.x) || (oy.maximize ? b.y - a.y : a.y - b.y));
  let path = "",
    best = null;
  for (const p of rows) {
    if (best !== null && !(oy.maximize ? p.y > best : p.y < best)) continue;
    path += best === null ? `M${sx(p.x)},${sy(p.y)}` : `H${sx(p.x)}V${sy(p.y)}`;
    best = p.y;
  }
  return path ? [shape("path", { class: "stairs", d: path })] : [];
}

function candidateText({ view, objectives, byName, status }, i) {
  const params = view.params
    .map((id) => byName.get(id))
    .map((c) => `${c.name} ${shown(c.get(i), c.unit)}`)
    .join(", ");
  return `candidate ${i + 1}: ${status.get(i)}\n${objectives.map((o) => `${o.name} ${exact(o.get(i), o.unit)}`).join("\n")}\n${params}`;
}
