// A table that is sorted, filtered and searched, a page of rows at a time.

const FACTORS = {
  p: 1e-12,
  n: 1e-9,
  µ: 1e-6,
  u: 1e-6,
  m: 1e-3,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  "%": 0.01,
};
const NUMBER = "(-?\\d*\\.?\\d+(?:e[+-]?\\d+)?)\\s*(Ki|Mi|Gi|[pnµumkMGT%])?[A-Za-z²·/]*";
const COMPARED = new RegExp(`^(<=|>=|<|>|=)\\s*${NUMBER}$`),
  RANGE = new RegExp(`^${NUMBER}\\s*\\.\\.\\s*${NUMBER}$`);
const numberOf = (text, factor) => Number(text) * (FACTORS[factor] || 1);

// "<=5", ">3 ms", "1..4", or text that is part of the value: a function of a value; null for an empty filter.
function filterOf(text, unit) {
  const asked = text.trim();
  if (!asked) return null;
  const range = RANGE.exec(asked),
    compared = COMPARED.exec(asked);
  if (range) {
    const low = numberOf(range[1], range[2]),
      high = numberOf(range[3], range[4]);
    return (v) => typeof v === "number" && low <= v && v <= high;
  }
  if (compared) {
    const limit = numberOf(compared[2], compared[3]);
    const than = {
      "<=": (v) => v <= limit,
      ">=": (v) => v >= limit,
      "<": (v) => v < limit,
      ">": (v) => v > limit,
      "=": (v) => v === limit,
    }[compared[1]];
    return (v) => typeof v === "number" && than(v);
  }
  const part = asked.toLowerCase();
  return (v) =>
    String(v ?? "")
      .toLowerCase()
      .includes(part) ||
    (typeof v === "number" && shown(v, unit).toLowerCase().includes(part));
}

// `columns`: {name, unit, get(i), wide, isText}; `count` rows. `chosen`: the row that is marked, shared with other parts;
// `others`: a shared predicate that rows must pass, too; `passing`: a shared predicate, set to that of the rows shown.
function table({ columns, count, caption, chosen, others, passing, mark = () => "", size = 50, order = null }) {
  const filters = columns.map(() => null);
  let search = null,
    sortedBy = null,
    descending = false,
    page = 0,
    rows = [];
  const body = el("tbody"),
    said = el("span", { role: "status" });
  const before = el(
    "button",
    {
      type: "button",
      onclick: () => {
        page--;
        paint();
      },
    },
    "‹ before",
  );
  const after = el(
    "button",
    {
      type: "button",
      onclick: () => {
        page++;
        paint();
      },
    },
    "next ›",
  );
  const heads = columns.map((column, c) =>
    el(
      "th",
      { scope: "col", class: column.isText ? null : "number", "aria-sort": "none" },
      el("button", { type: "button", title: column.help || `sort by ${column.name}`, onclick: () => sort(c) }, column.name),
    ),
  );
  const inputs = columns.map((column, c) =>
    el(
      "th",
      { class: column.isText ? null : "number" },
      el("input", {
        "aria-label": `filter ${column.name} of ${caption}`,
        placeholder: column.isText ? "has…" : "<, 1..9",
        oninput: (event) => {
          filters[c] = filterOf(event.target.value, column.unit);
          find();
        },
      }),
    ),
  );
  const everywhere = el("input", {
    type: "search",
    placeholder: "search",
    "aria-label": `search ${caption}`,
    oninput: (event) => {
      const asked = event.target.value.trim().toLowerCase();
      search = asked
        ? (i) =>
            columns.some((column) =>
              String(column.get(i) ?? "")
                .toLowerCase()
                .includes(asked),
            )
        : null;
      find();
    },
  });

  function sort(c) {
    descending = sortedBy === c ? !descending : false;
    sortedBy = c;
    heads.forEach((head, i) => head.setAttribute("aria-sort", i === c ? (descending ? "descending" : "ascending") : "none"));
    find();
  }
  function find() {
    const given = others ? others.get() : null,
      used = columns.map((column, c) => [column, filters[c]]).filter(([, f]) => f);
    const passes = (i) => (!given || given(i)) && used.every(([column, f]) => f(column.get(i))) && (!search || search(i));
    rows = [];
    for (let at = 0; at < count; at++) {
      const i = order ? order[at] : at;
      if (passes(i)) rows.push(i);
    }
    if (sortedBy !== null) {
      const { get } = columns[sortedBy],
        way = descending ? -1 : 1;
      rows.sort((a, b) => {
        const [u, v] = [get(a), get(b)];
        if (u === null || u === undefined) return v === null || v === undefined ? 0 : 1;
        if (v === null || v === undefined) return -1;
        if (typeof u === typeof v) return way * (u < v ? -1 : u > v ? 1 : 0);
        return way * (typeof u === "number" ? -1 : 1);
      });
    }
    if (passing) {
      const kept = new Set(rows);
      passing.set((i) => kept.has(i));
    }
    page = 0;
    paint();
  }
  function paint() {
    const pages = Math.max(1, Math.ceil(rows.length / size));
    page = Math.max(0, Math.min(page, pages - 1));
    body.replaceChildren(...rows.slice(page * size, (page + 1) * size).map(line));
    before.disabled = page === 0;
    after.disabled = page === pages - 1;
    before.hidden = after.hidden = pages === 1;
    said.textContent = `${rows.length.toLocaleString("en-US")} of ${count.toLocaleString("en-US")}${pages > 1 ? `, page ${page + 1} of ${pages.toLocaleString("en-US")}` : ""}`;
  }
  function line(i) {
    const pick = chosen && {
      tabindex: 0,
      onclick: () => chosen.set(i),
      onkeydown: (event) => {
        if (event.key === "Enter") chosen.set(i);
      },
    };
    return el(
      "tr",
      { ...pick, "data-row": i, class: `${chosen ? "pick" : ""} ${mark(i)} ${chosen && chosen.get() === i ? "picked" : ""}` },
      columns.map(({ get, unit, wide, isText }) => {
        const value = get(i);
        return el("td", { class: wide ? "wide" : isText ? "cut" : "number", title: exact(value, unit) }, shown(value, unit));
      }),
    );
  }
  if (chosen) chosen.on((i) => body.querySelectorAll("tr").forEach((row) => row.classList.toggle("picked", Number(row.dataset.row) === i)));
  if (others) others.on(find);
  else find();
  return el(
    "div",
    { class: "card" },
    el("div", { class: "controls" }, everywhere, said, before, after),
    el(
      "div",
      { class: "scrolls", tabindex: 0, role: "region", "aria-label": caption },
      el("table", {}, el("caption", {}, caption), el("thead", {}, el("tr", {}, heads), el("tr", {}, inputs)), body),
    ),
  );
}
