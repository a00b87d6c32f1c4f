// One candidate: its figures, the command that makes it again, and its report.

function details(space) {
  const { view, columns, chosen, status } = space,
    place = el("div", { class: "card", "aria-live": "polite", "data-details": "candidate" }),
    report = el("div", { "data-report": "" });
  chosen.on((i) => {
    if (i === null) {
      place.hidden = true;
      return;
    }
    const of = (kinds) =>
      facts(
        columns
          .filter((c) => kinds.includes(c.group))
          .map((c) => [c.name, c.get(i), c.unit])
          .filter(([, v]) => v !== null && v !== undefined),
      );
    const made = again(space, i),
      copy = el(
        "button",
        {
          type: "button",
          onclick: () =>
            navigator.clipboard.writeText(made).then(
              () => {
                copy.textContent = "copied";
              },
              () => {
                copy.textContent = "select and copy";
              },
            ),
        },
        "copy",
      );
    const views = view.reports[i];
    const button = views
      ? el(
          "button",
          {
            type: "button",
            onclick: () => {
              report.replaceChildren(el("h2", {}, `Report of candidate ${i + 1}`), networks(views));
              report.scrollIntoView({ behavior: "smooth" });
            },
          },
          "show its report",
        )
      : null;
    report.replaceChildren();
    const error = space.byName.get("error");
    place.replaceChildren(
      el("div", { class: "controls" }, el("h3", {}, `Candidate ${i + 1}`), el("span", {}, status.get(i)), button || ""),
      error && error.get(i) ? el("p", { class: "warning" }, error.get(i)) : "",
      of(["objective"]),
      of(["param"]),
      of(["figure"]),
      el("div", { class: "controls" }, el("span", {}, "Made again by"), copy),
      el("pre", {}, el("code", {}, made)),
      views ? "" : el("p", { class: "note" }, view.no_reports[i] || view.reports_note),
    );
  });
  return el("div", {}, place, report);
}

const quoted = (text) => (/^[\w@%+=:,.\/-]+$/.test(text) ? text : `'${text.replaceAll("'", `'"'"'`)}'`);
const python = (v) =>
  v === null
    ? "None"
    : v === true
      ? "True"
      : v === false
        ? "False"
        : typeof v === "number"
          ? String(v)
          : Array.isArray(v)
            ? `(${v.map(python).join(", ")},)`
            : JSON.stringify(v);

// The command that estimates a candidate; of one whose networks no command can name, how its space makes it.
function again({ view, byName, columns }, i) {
  const made = byName.get("candidate").get(i);
  if (made && made.named) {
    const options = columns
      .filter((c) => c.group === "option" || c.option)
      .map((c) => [c.option || c.name, c.get(i)])
      .filter(([, v]) => v !== null && v !== undefined);
    const words = options.map(([name, v]) => `-O ${quoted(`${name}=${v}`)}`).join(" ");
    return made.networks
      .map(
        (network) =>
          `archloom estimate ${quoted(network)} -t ${quoted(made.target)}${words ? ` ${words}` : ""}${made.as_int8 ? " --int8" : ""} --host ${quoted(view.host)}`,
      )
      .join("\n");
  }
  const params = view.params
    .map((id) => byName.get(id))
    .filter((c) => c.get(i) !== undefined)
    .map((c) => `${JSON.stringify(c.name)}: ${python(c.get(i))}`);
  return `from optuna.trial import FixedTrial\n\ncandidate = space(FixedTrial({${params.join(", ")}}))`;
}
