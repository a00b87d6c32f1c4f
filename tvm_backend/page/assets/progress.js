// Hypervolume over time, and importance of parameters.

const SERIES = ["busy", "dependency", "host", "starved", "storage"];

function volume({ volume: { done, seconds, share } }) {
  if (done.length < 2) return card(el("p", { class: "note" }, "Too few candidates were measured."));
  const ways = { candidates: [done, "candidates that are done", ""], "seconds of work": [seconds, "seconds of workers, added up", ""] };
  const place = el("div"),
    draw = (name) => {
      const [xs, title, unit] = ways[name];
      place.replaceChildren(
        chart((width) => {
          const height = 260,
            x = scale(xs, INSIDE.left, width - INSIDE.right),
            y = scale(share, height - INSIDE.bottom, INSIDE.top, { log: false });
          const line = xs.map((v, k) => (k ? `H${x(v)}V${y(share[k])}` : `M${x(v)},${y(share[k])}`)).join("");
          const at = (event, svg) => {
            const px = event.clientX - svg.getBoundingClientRect().left;
            let k = 0;
            while (k + 1 < xs.length && x(xs[k + 1]) <= px) k++;
            return k;
          };
          const svg = shape(
            "svg",
            {
              width,
              height,
              role: "img",
              "aria-label": `Hypervolume: ${shown(share[0], "%")} at first, ${shown(share.at(-1), "%")} at the end`,
            },
            frame(width, height, INSIDE, x, y, { x: title, y: "hypervolume", yUnit: "%", xUnit: unit }),
            shape("path", { class: "curve", d: line }),
          );
          return fill(
            svg,
            {
              onpointermove: (event) => {
                const k = at(event, svg);
                showTip(
                  `after ${exact(done[k], "candidates")}, ${shown(seconds[k], "s")} of work\nhypervolume ${exact(share[k])}`,
                  event.clientX,
                  event.clientY,
                );
              },
              onpointerleave: hideTip,
            },
            [],
          );
        }),
      );
    };
  draw("candidates");
  return card(
    el(
      "div",
      { class: "controls" },
      el(
        "label",
        {},
        "over ",
        el(
          "select",
          { onchange: (event) => draw(event.target.value) },
          Object.keys(ways).map((name) => el("option", { value: name }, name)),
        ),
      ),
    ),
    place,
  );
}

function importance({ importance: { params, objectives, shares } }) {
  if (!params.length) return card(el("p", { class: "note" }, "Too few candidates were measured, or no parameter varies."));
  const each = 12 * objectives.length + 12;
  return card(
    chart((width) => {
      const left = Math.min(150, width * 0.34),
        long = width - left - 52;
      const svg = shape("svg", {
        width,
        height: params.length * each + 4,
        role: "img",
        "aria-label": `Importance: ${params.map((p, k) => `${p} ${shares[k].map((s) => shown(s, "%")).join(", ")}`).join("; ")}`,
      });
      params.forEach((name, k) => {
        svg.append(
          shape("text", { x: left - 8, y: k * each + each / 2 + 4, "text-anchor": "end", class: "strong" }, cut(name, left / 6.6)),
        );
        shares[k].forEach((share, o) =>
          svg.append(
            titled(
              "rect",
              {
                x: left,
                y: k * each + 6 + 12 * o,
                height: 10,
                width: Math.max(1, long * (share ?? 0)),
                fill: cssColour(SERIES[o % SERIES.length]),
              },
              `${name}, ${objectives[o]}: ${exact(share, "%")}`,
            ),
            shape(
              "text",
              { x: left + Math.max(1, long * (share ?? 0)) + 5, y: k * each + 15 + 12 * o, "font-size": 10.5 },
              share < 0.001 ? "0 %" : shown(share, "%"),
            ),
          ),
        );
      });
      return svg;
    }),
    legend(objectives.map((name, o) => [SERIES[o % SERIES.length], name])),
  );
}
