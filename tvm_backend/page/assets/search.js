// A search: its fronts, all its candidates, and what parameters do.

// A column of the data: values, or places in a list of words.
function columnOf(data) {
  const get = data.codes ? (i) => data.words[data.codes[i]] : (i) => data.values[i];
  let distinct = data.words || null;
  return {
    ...data,
    get,
    isText: data.kind === "text",
    isNumber: data.kind === "number",
    distinct: () => (distinct ||= [...new Set(data.values)]),
  };
}

const several = (view) => view.objectives.length > 1;

function searchView(view) {
  const columns = view.columns.map(columnOf),
    byName = new Map(columns.map((column) => [column.id, column]));
  const front = new Set(view.front),
    isFront = (i) => front.has(i);
  const status = byName.get("status"),
    number = { id: "number", name: "candidate", isNumber: true, get: (i) => i + 1 };
  const space = {
    view,
    columns,
    byName,
    isFront,
    number,
    status,
    chosen: shared(view.front.length ? view.front[0] : view.count ? 0 : null),
    brushed: shared(null),
    passing: shared(() => true),
    objectives: view.objectives.map(({ id, maximize }) => ({ ...byName.get(id), maximize })),
    numeric: [...columns.filter((c) => c.isNumber && c.kind !== "option"), number],
  };
  return el(
    "div",
    {},
    tiles([
      ["candidates", view.count, ""],
      ["on the front", view.front.length, ""],
      ["measured", view.counts.measured, ""],
      ["ruled out by bounds", view.counts.bounded, ""],
      ["failed", view.counts.failed, ""],
      ...(several(view) ? [["hypervolume", view.hypervolume, "%", "of the box of all candidates"]] : []),
    ]),
    view.failures.length
      ? el(
          "p",
          { class: "warning" },
          `${view.counts.failed} candidates failed:\n${view.failures.map((f) => `${f.candidates} × ${f.error}`).join("\n")}`,
        )
      : null,
    view.count ? found(space) : el("p", {}, "No candidate is done yet."),
  );
}

function found(space) {
  const { view } = space;
  return el(
    "div",
    {},
    section(several(view) ? "Pareto front" : "Best candidates", frontNote(space), fronts(space), details(space)),
    axesOf(space),
    el(
      "div",
      { class: "pair" },
      several(view)
        ? section(
            "Hypervolume over time",
            "The share of the box between the best and the worst of each objective that the front dominates.",
            volume(view),
          )
        : null,
      section(
        "Importance of parameters",
        "The part of the variance of an objective's ranks that a parameter explains by itself.",
        importance(view),
      ),
    ),
    section("Candidates", "All that are done, the front first. Of those that bounds ruled out, objectives are bounds.", candidates(space)),
  );
}

function frontNote({ view }) {
  const goals = view.objectives.map(({ name, maximize }) => `${name} ${maximize ? "large" : "small"}`).join(", ");
  const left =
    view.drawn.length < view.drawable
      ? ` ${view.drawn.length.toLocaleString("en-US")} of ${view.drawable.toLocaleString("en-US")} are drawn, the whole front among them; the table has all.`
      : "";
  return `Wanted: ${goals}${view.constraints.length ? `, with ${view.constraints.join(", ")}` : ""}. Blue candidates are on the front.${view.constraints.length ? " Hollow ones break a constraint." : ""}${view.counts.bounded ? " Those that bounds ruled out are not drawn." : ""}${left} Hover for figures; click or use the arrow keys to choose one.`;
}

function axesOf(space) {
  const { view, byName, objectives, isFront, chosen, brushed, passing } = space,
    said = el("span", { role: "status" });
  const columns = [...view.params.map((id) => byName.get(id)).filter((c) => c.distinct().length > 1), ...objectives];
  const { place, clear } = parallel({ columns, rows: view.lines, isFront, chosen, brushed, passing, said });
  return section(
    "Parallel coordinates",
    "Drag along axes to keep the candidates of a range, here, in the fronts and in the table; with the keyboard: arrow keys narrow the range of an axis from below and above, with Shift they widen it, Escape clears it.",
    card(el("div", { class: "controls" }, el("button", { type: "button", onclick: clear }, "clear brushes"), said), place),
  );
}

function candidates({ view, columns, number, isFront, chosen, brushed, passing }) {
  const listed = [{ ...number, name: "no." }, ...columns.filter((c) => c.group !== "option" && c.group !== "candidate")];
  const order = [...view.front, ...Array.from({ length: view.count }, (_, i) => i).filter((i) => !isFront(i))];
  return table({
    columns: listed,
    count: view.count,
    order,
    caption: "Candidates",
    chosen,
    others: brushed,
    passing,
    size: 25,
    mark: (i) => (isFront(i) ? "front" : ""),
  });
}
