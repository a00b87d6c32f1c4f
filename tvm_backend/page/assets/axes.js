// Scales, ticks and the frame of a chart.

// From values to positions; logarithmic where they are far apart.
function scale(values, from, to, { zero = false, log = null } = {}) {
  const known = values.filter((v) => typeof v === "number" && Number.isFinite(v));
  let low = Infinity,
    high = -Infinity;
  for (const v of known) {
    if (v < low) low = v;
    if (v > high) high = v;
  }
  if (low > high) [low, high] = [0, 1];
  const least = low,
    most = high;
  const isLog = log ?? (!zero && low > 0 && high / low >= 20);
  if (zero) {
    low = Math.min(low, 0);
    high = Math.max(high, 0);
  }
  if (isLog) {
    low /= 1.12;
    high *= 1.12;
  } else {
    const room = (high - low || Math.abs(high) || 1) * 0.04;
    low = zero && low === 0 ? 0 : low - room;
    high = zero && high === 0 ? 0 : high + room;
  }
  const by = isLog ? Math.log : (v) => v;
  const at = (v) => from + ((to - from) * (by(v) - by(low))) / (by(high) - by(low));
  return Object.assign(at, {
    isLog,
    low,
    high,
    least,
    most,
    ticks: (count) => (isLog ? logTicks(low, high, count) : ticks(low, high, count)),
  });
}

function ticks(low, high, count) {
  const rough = (high - low) / Math.max(count, 1),
    power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((s) => s * power >= rough * 0.7); // rather one tick more than none between
  const found = [];
  for (let i = Math.ceil(low / step); i * step <= high * (1 + 1e-12); i++) found.push(Number((i * step).toPrecision(12)));
  return found;
}

function logTicks(low, high, count) {
  const first = Math.floor(Math.log10(low)),
    last = Math.ceil(Math.log10(high));
  for (const steps of [[1, 2, 3, 5, 7], [1, 2, 5], [1, 3], [1]]) {
    const found = [];
    for (let e = first; e <= last; e++)
      for (const s of steps) {
        const v = Number((s * 10 ** e).toPrecision(12));
        if (v >= low && v <= high) found.push(v);
      }
    if (found.length <= count + 1 && found.length) return found;
  }
  const every = Math.ceil((last - first) / Math.max(count, 1));
  const found = [];
  for (let e = first; e <= last; e += every) if (10 ** e >= low && 10 ** e <= high) found.push(10 ** e);
  return found;
}

// Grid, ticks and names of both axes; `unit` of ticks. Returns the group, and the margins are those of `inside`.
function frame(width, height, inside, x, y, names) {
  const group = shape("g", { "aria-hidden": true });
  const right = width - inside.right,
    bottom = height - inside.bottom;
  const longest = Math.max(...[x.least, x.most].map((v) => shown(v, names.xUnit).length));
  const apart = Math.max(78, 10 * longest + 28); // so that labels do not touch: there may be more ticks than asked for
  for (const v of x.ticks(Math.max(2, Math.floor((right - inside.left) / apart)))) {
    group.append(
      shape("line", { class: "grid", x1: x(v), x2: x(v), y1: inside.top, y2: bottom }),
      shape("text", { x: x(v), y: bottom + 17, "text-anchor": "middle" }, shown(v, names.xUnit)),
    );
  }
  for (const v of y.ticks(Math.max(3, Math.floor((bottom - inside.top) / 44)))) {
    group.append(
      shape("line", { class: "grid", x1: inside.left, x2: right, y1: y(v), y2: y(v) }),
      shape("text", { x: inside.left - 7, y: y(v) + 4, "text-anchor": "end" }, shown(v, names.yUnit)),
    );
  }
  group.append(
    shape("path", { class: "axis", fill: "none", d: `M${inside.left},${inside.top}V${bottom}H${right}` }),
    shape("text", { class: "strong", x: right, y: bottom + 36, "text-anchor": "end" }, names.x),
    shape("text", { class: "strong", x: 0, y: inside.top - 10 }, names.y),
  );
  return group;
}
const INSIDE = { left: 68, right: 16, top: 26, bottom: 44 };

// A mix of two colours of the page; `share` from 0 to 1.
const mixed = (share) => `color-mix(in oklab, var(--high) ${Math.round(100 * share)}%, var(--low))`;

// Points of which one is chosen. `points`: {id, x, y, key, colour, broken, text}; `under(x, y)`: what is drawn below.
// Keys of the keyboard go through those with `key`, from left to right.
function scatter({ points, names, chosen, shownOnly, under, label, height = 340, scales = {} }) {
  return chart((width) => {
    const x = scale([...points.map((p) => p.x), ...(scales.xs || [])], INSIDE.left, width - INSIDE.right, scales.x);
    const y = scale([...points.map((p) => p.y), ...(scales.ys || [])], height - INSIDE.bottom, INSIDE.top, scales.y);
    const order = points
      .filter((p) => p.key)
      .sort((a, b) => a.x - b.x)
      .map((p) => p.id);
    const byId = new Map(points.map((p) => [p.id, p]));
    const dots = points.map((p) => {
      const dot = shape("circle", {
        cx: x(p.x).toFixed(1),
        cy: y(p.y).toFixed(1),
        r: p.radius || (p.key ? 4.5 : 2.6),
        "data-id": p.id,
        class: `dot${p.key ? " key" : ""}${p.broken ? " broken" : ""}`,
        style: p.colour ? `fill:${p.colour}` : null,
      });
      if (p.key) dot.append(shape("title", {}, p.text()));
      return dot;
    });
    const ring = shape("circle", { class: "ring", r: 8, visibility: "hidden" });
    const svg = shape(
      "svg",
      {
        width,
        height,
        viewBox: `0 0 ${width} ${height}`,
        role: "group",
        tabindex: 0,
        "aria-label": `${label}. ${points.length} points; arrow keys go from one to the next.`,
      },
      frame(width, height, INSIDE, x, y, names),
      ...(under ? under(x, y) : []),
      shape("g", {}, dots),
      ring,
    );
    const nearest = (event) => {
      const box = svg.getBoundingClientRect();
      let best = null,
        least = 22 ** 2;
      for (const p of points) {
        if (shownOnly && !shownOnly.get()(p.id)) continue;
        const d = (x(p.x) + box.left - event.clientX) ** 2 + (y(p.y) + box.top - event.clientY) ** 2 - (p.key ? 9 : 0);
        if (d < least) {
          least = d;
          best = p;
        }
      }
      return best;
    };
    fill(
      svg,
      {
        onpointermove: (event) => {
          const p = nearest(event);
          if (p) showTip(p.text(), event.clientX, event.clientY);
          else hideTip();
          svg.style.cursor = p ? "pointer" : "";
        },
        onpointerleave: hideTip,
        onblur: hideTip,
        onclick: (event) => {
          const p = nearest(event);
          if (p) chosen.set(p.id);
        },
        onkeydown: (event) => {
          arrows(order, chosen)(event);
          const p = byId.get(chosen.get()),
            box = svg.getBoundingClientRect();
          if (event.key.startsWith("Arrow") && p) showTip(p.text(), box.left + x(p.x), box.top + y(p.y));
        },
      },
      [],
    );
    chosen.on((id) => {
      const p = byId.get(id);
      ring.setAttribute("visibility", p ? "visible" : "hidden");
      if (p) {
        ring.setAttribute("cx", x(p.x));
        ring.setAttribute("cy", y(p.y));
      }
    });
    if (shownOnly) shownOnly.on((passes) => dots.forEach((dot, i) => dot.classList.toggle("off", !passes(points[i].id))));
    return svg;
  });
}
