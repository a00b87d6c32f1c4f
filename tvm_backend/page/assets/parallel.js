// Parallel coordinates: a line for each candidate, an axis for each parameter and objective, and brushes on the axes.

const FEW = 12; // whole numbers that are each a place on an axis

// Where values lie on an axis from 0 (below) to 1, and what stands beside it.
function axisOf(column) {
  const values = column.distinct().filter((v) => v !== null && v !== undefined);
  const isContinuous = column.group === "objective" || values.length > FEW || !values.every(Number.isInteger);
  if (column.isNumber && isContinuous) {
    const at = scale(values, 0, 1);
    return {
      name: column.name,
      at: (v) => (typeof v === "number" ? at(v) : undefined),
      step: 0.05,
      ticks: at.ticks(5).map((v) => [at(v), shown(v, column.unit)]),
    };
  }
  const known = values.sort((a, b) => (typeof a === typeof b ? (a < b ? -1 : 1) : typeof a < typeof b ? -1 : 1));
  const place = new Map(known.map((v, k) => [v, (k + 0.5) / known.length])),
    every = Math.ceil(known.length / 16);
  return {
    name: column.name,
    at: (v) => place.get(v),
    step: 1 / known.length,
    ticks: known.filter((_, k) => k % every === 0).map((v) => [place.get(v), cut(shown(v, column.unit), 12)]),
  };
}

// `brushed` is set to the predicate of all brushes; lines that `passing` does not let through are hidden.
function parallel({ columns, rows, isFront, chosen, brushed, passing, said }) {
  const axes = columns.map(axisOf),
    brushes = axes.map(() => null),
    height = 320,
    top = 44,
    tall = 240;
  const last = axes.length - 1,
    shade = (i) => axes[last].at(columns[last].get(i)) ?? 0;
  const kept = () => {
    const used = brushes.map((brush, k) => [brush, axes[k].at, columns[k].get]).filter(([brush]) => brush);
    brushed.set(
      used.length
        ? (i) =>
            used.every(([[low, high], at, get]) => {
              const p = at(get(i));
              return p !== undefined && low <= p && p <= high;
            })
        : null,
    );
    said.textContent = used.length ? `${used.length} ${used.length === 1 ? "axis" : "axes"} brushed` : "";
  };
  let update = () => {};
  const clear = () => {
    brushes.fill(null);
    update();
    kept();
  };

  const place = chart((width) => {
    const across = (k) => 40 + (width - 112) * (axes.length > 1 ? k / (axes.length - 1) : 0.5),
      y = (p) => top + tall * (1 - p);
    const ordered = [...rows.filter((i) => !isFront(i)), ...rows.filter(isFront)];
    const faint = Math.max(0.25, Math.min(0.85, 40 / Math.max(1, rows.filter(isFront).length)));
    const lines = ordered.map((i) => {
      const points = axes.map((axis, k) => [across(k), axis.at(columns[k].get(i))]).filter(([, p]) => p !== undefined && !Number.isNaN(p));
      return shape("path", {
        class: `line${isFront(i) ? " key" : ""}`,
        "data-id": i,
        d: `M${points.map(([x, p]) => `${x.toFixed(1)},${y(p).toFixed(1)}`).join("L")}`,
        style: isFront(i) ? `stroke:${mixed(shade(i))};stroke-opacity:${faint}` : null,
        onclick: () => chosen.set(i),
      });
    });
    const above = shape("path", { class: "line chosen" });
    const svg = shape(
      "svg",
      {
        width,
        height,
        viewBox: `0 0 ${width} ${height}`,
        role: "group",
        "aria-label": `Parallel coordinates of ${rows.length} candidates`,
      },
      shape("g", {}, lines),
      above,
    );
    const bars = axes.map((axis, k) => {
      const bar = shape("rect", { class: "brush", x: across(k) - 8, width: 16, visibility: "hidden" });
      const grip = shape("rect", {
        class: "grip",
        x: across(k) - 16,
        y: top - 8,
        width: 32,
        height: tall + 16,
        style: "touch-action:none",
      });
      const group = shape(
        "g",
        {
          tabindex: 0,
          role: "group",
          "data-axis": axis.name,
          "aria-label": `${axis.name}: drag, or arrow keys narrow the range, with Shift widen it, Escape clears it`,
        },
        shape("line", { x1: across(k), x2: across(k), y1: top, y2: top + tall, stroke: "var(--soft)" }),
        shape(
          "text",
          { class: "strong", x: across(k), y: k % 2 ? top - 14 : top - 29, "text-anchor": "middle", "font-weight": 600 },
          cut(axis.name, 22),
        ),
        axis.ticks.map(([p, text]) =>
          shape("text", { x: across(k) + 6, y: y(p) + 4, stroke: "var(--card)", "stroke-width": 3, "paint-order": "stroke" }, text),
        ),
        bar,
        grip,
      );
      const inside = (event) => Math.max(0, Math.min(1, 1 - (event.clientY - svg.getBoundingClientRect().top - top) / tall));
      const set = (brush) => {
        brushes[k] = brush;
        update();
        kept();
      };
      let from = null;
      fill(
        grip,
        {
          onpointerdown: (event) => {
            from = inside(event);
            grip.setPointerCapture(event.pointerId);
          },
          onpointermove: (event) => {
            if (from !== null) {
              const to = inside(event);
              brushes[k] = Math.abs(to - from) < 0.01 ? null : [Math.min(from, to), Math.max(from, to)];
              update();
              soon(kept);
            }
          },
          onpointerup: (event) => {
            if (from !== null && Math.abs(inside(event) - from) < 0.01) brushes[k] = null;
            from = null;
            update();
            kept();
          },
        },
        [],
      );
      fill(
        group,
        {
          onkeydown: (event) => {
            if (event.key === "Escape" || event.key === "Delete") set(null);
            if (event.key !== "ArrowUp" && event.key !== "ArrowDown") return;
            event.preventDefault();
            let [low, high] = brushes[k] || [0, 1];
            const narrower = event.shiftKey ? -axis.step : axis.step;
            if ((event.key === "ArrowUp") !== event.shiftKey) low = Math.max(0, Math.min(low + narrower, high));
            else high = Math.min(1, Math.max(high - narrower, low));
            set(low === 0 && high === 1 ? null : [low, high]);
          },
        },
        [],
      );
      svg.append(group);
      return bar;
    });
    update = () =>
      bars.forEach((bar, k) => {
        bar.setAttribute("visibility", brushes[k] ? "visible" : "hidden");
        if (brushes[k]) fill(bar, { y: y(brushes[k][1]), height: Math.max(2, y(brushes[k][0]) - y(brushes[k][1])) }, []);
      });
    update();
    passing.on((passes) => lines.forEach((line, n) => line.classList.toggle("off", !passes(ordered[n]))));
    chosen.on((i) => {
      const points =
        i === null
          ? []
          : axes.map((axis, k) => [across(k), axis.at(columns[k].get(i))]).filter(([, p]) => p !== undefined && !Number.isNaN(p));
      above.setAttribute("d", points.length ? `M${points.map(([x, p]) => `${x.toFixed(1)},${y(p).toFixed(1)}`).join("L")}` : "");
    });
    return svg;
  }, axes.length * 76);
  return { place, clear };
}

// At most once for each picture of the screen.
let waiting = null;
function soon(action) {
  if (waiting === null)
    requestAnimationFrame(() => {
      const next = waiting;
      waiting = null;
      next();
    });
  waiting = action;
}
