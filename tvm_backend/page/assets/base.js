// Elements, numbers and the tooltip. Texts of users are only ever set as text.
const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}
const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const shape = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);
const titled = (tag, attributes, title) => shape(tag, attributes, shape("title", {}, title));

// --- numbers -------------------------------------------------------------------------------------------------------
const PREFIXES = [
  [1e12, "T"],
  [1e9, "G"],
  [1e6, "M"],
  [1e3, "k"],
  [1, ""],
  [1e-3, "m"],
  [1e-6, "µ"],
  [1e-9, "n"],
  [1e-12, "p"],
];
const BINARY = [
  [2 ** 40, "Ti"],
  [2 ** 30, "Gi"],
  [2 ** 20, "Mi"],
  [2 ** 10, "Ki"],
  [1, ""],
];
const SCALED = new Set(["s", "J", "W", "J·s", "Hz", "J/MAC"]);

// Four significant digits, without zeros at the end.
function digits(value) {
  const text = value.toPrecision(4);
  return text.includes("e") ? String(Number(text)) : text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

function prefixed(value, prefixes, unit) {
  const size = Math.abs(Number(value.toPrecision(4)));
  const [factor, prefix] = prefixes.find(([least]) => size >= least) || prefixes[prefixes.length - 1];
  const apart = prefix && unit && !SCALED.has(unit) && unit !== "B" ? " " : ""; // 18 M cycles, but 18 ms
  return `${digits(value / factor)} ${prefix}${apart}${unit}`.trim();
}

// A number with its unit as people read it; the exact one belongs into a title.
function shown(value, unit = "") {
  if (value === null || value === undefined) return "–";
  if (typeof value !== "number") return String(value);
  if (value === 0) return unit === "%" ? "0 %" : `0 ${unit}`.trim();
  if (unit === "%") return `${digits(100 * value)} %`;
  if (unit === "B") return prefixed(value, BINARY, unit);
  if (SCALED.has(unit)) return prefixed(value, PREFIXES, unit);
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 1e5) return `${value.toLocaleString("en-US")} ${unit}`.trim();
  if (size >= 1e4) return prefixed(value, PREFIXES, unit);
  return `${digits(value)} ${unit}`.trim();
}

// As the JSON has it.
function exact(value, unit = "") {
  if (value === null || value === undefined) return "not known";
  return `${value}${unit && typeof value === "number" ? ` ${unit === "%" ? "(as a share)" : unit}` : ""}`;
}

const cut = (text, most) => (text.length <= most ? text : `${text.slice(0, Math.max(3, Math.floor(most) - 1))}…`);

// --- tooltip -------------------------------------------------------------------------------------------------------
const tip = el("div", { class: "tip", role: "status", hidden: true });

function showTip(text, x, y) {
  tip.textContent = text;
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - width - 8))}px`;
  tip.style.top = `${y + 18 + height > innerHeight ? Math.max(4, y - height - 12) : y + 18}px`;
}
const hideTip = () => {
  tip.hidden = true;
};

// What `text` says of the mark under the pointer, as long as it is there.
function tipOf(element, text) {
  return fill(element, { onpointermove: (event) => showTip(text(), event.clientX, event.clientY), onpointerleave: hideTip }, []);
}

// --- parts of a page ------------------------------------------------------------------------------------------------
const cssColour = (name) => `var(--${name})`;
const legend = (items) =>
  el(
    "ul",
    { class: "legend" },
    items.map(([colour, text]) => el("li", {}, el("i", { style: `background:${cssColour(colour)}` }), text)),
  );
const facts = (items) =>
  el(
    "dl",
    { class: "facts" },
    items.map(([name, value, unit]) => el("div", {}, el("dt", {}, name), el("dd", { title: exact(value, unit) }, shown(value, unit)))),
  );
const tiles = (items) =>
  el(
    "dl",
    { class: "tiles" },
    items.map(([name, value, unit, more]) =>
      el(
        "div",
        { class: "tile" },
        el("dt", {}, name),
        el("dd", { title: exact(value, unit), "data-figure": name }, shown(value, unit), more ? el("small", {}, more) : null),
      ),
    ),
  );
const section = (title, note, ...content) =>
  el("section", { "aria-label": title }, el("h2", {}, title), note ? el("p", { class: "note" }, note) : null, ...content);
const card = (...content) => el("div", { class: "card" }, ...content);

// A drawing that `draw(width)` makes, again whenever its place has another width.
function chart(draw, least = 0) {
  const place = el("div", { class: "chart" });
  let last = 0;
  new ResizeObserver(() => {
    const width = Math.max(Math.floor(place.clientWidth), least);
    if (width && width !== last) {
      last = width;
      place.replaceChildren(draw(width));
    }
  }).observe(place);
  place.redraw = () => last && place.replaceChildren(draw(last));
  return least ? el("div", { class: "scrolls" }, place) : place;
}

// A value that several parts of a page show: `on(f)` calls f with each new one, and with the one that is there.
function shared(value) {
  const listeners = [];
  return {
    get: () => value,
    set: (next) => {
      value = next;
      listeners.forEach((listen) => listen(next));
    },
    on: (listen) => {
      listeners.push(listen);
      listen(value);
    },
  };
}

// Arrow keys go through `order` (indices), from the one that is chosen.
function arrows(order, chosen) {
  return (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!step || !order.length) return;
    event.preventDefault();
    const at = order.indexOf(chosen.get());
    chosen.set(order[Math.max(0, Math.min(order.length - 1, at < 0 ? 0 : at + step))]);
  };
}
