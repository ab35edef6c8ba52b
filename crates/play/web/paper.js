// What a paper says beside what is simulated: claims with their verdicts, and one figure, in which
// this run is a point.

import { t, own } from "./strings.js";
import { figure } from "./charts.js";
import { value } from "./state.js";

const number = (text) => Number.parseFloat(text);
const NS = "http://www.w3.org/2000/svg";

/** Figures by name: which cells, what is on the axes, and where this run is among them. */
const FIGURES = {
  loss(report, state) {
    const down = Math.round(Math.min(number(value(state, "link.wifi.down.loss")), 5));
    const large = state.variant === "500MB";
    const lines = ["plain", "bicast"].map((table) => line(report, table, `down ${down} %`, table));
    return {
      title: { en: `500 MB by uplink loss, ${down} % downlink loss`, ja: `上り損失率と 500 MB の転送時間（下り ${down} %）` },
      unit: "s", lines, rows: (row) => row.replace("up ", ""),
      here: large ? { row: `up ${Math.round(number(value(state, "link.wifi.up.loss")))} %`, measure: "completed" } : null,
    };
  },
  jain(report, state) {
    const stated = state.variant === "stated";
    const table = stated ? "Jain's index" : "Jain's index, large buffers";
    const rtt = 2 * number(value(state, "link.link1.delay"));
    const columns = ["HayACK", "plain MPTCP", "HayACK, compensated", "TCP (control)"];
    return {
      title: { en: "Jain's index on Link1, by its round trip", ja: "Link1 の往復時間と Jain の公平性指標" }, unit: "", top: 1,
      lines: columns.map((column) => line(report, table, column, column)), rows: (row) => row,
      here: { row: `${rtt} ms`, measure: "jain" },
    };
  },
  sizes(report, state) {
    const size = value(state, "flow.0.bulk").replace("MB", " MB");
    const columns = ["minRTT, 3 paths", "single fastest path", "proposal, 3 paths", "bound"];
    return {
      title: { en: "Time by size of the file, heterogeneous links", ja: "ファイルの大きさと転送時間（不均一な回線）" }, unit: "s",
      lines: columns.map((column) => line(report, "heterogeneous: time", column, column)),
      rows: (row) => row, here: { row: size, measure: "completed" },
    };
  },
  bundle(report) {
    const table = "iperf3 through the VPN, 10 s";
    return {
      title: { en: "iperf3 through the VPN, 10 s", ja: "VPN 経由の iperf3（10 秒）" }, unit: "Mbit/s",
      lines: ["a tunnel a WAN", "extra tunnel"].map((column) => line(report, table, column, column)),
      rows: (row) => row, here: { row: "TCP down", measure: "goodput" },
    };
  },
  buffers(report, state) {
    const far = number(value(state, "link.emulator.delay")) > 0;
    const rows = value(state, "host.sender.tcp.linux.so_sndbuf").replace("KiB", " KB");
    return {
      title: { en: `Goodput by socket buffer, ${far ? 43 : 18} ms`, ja: `ソケットバッファとグッドプット（${far ? 43 : 18} ms）` }, unit: "Mbit/s",
      lines: ["direct", "Reno", "HSTCP", "gHSTCP"].map((column) => line(report, far ? "43 ms" : "18 ms", column, column)),
      rows: (row) => row, here: { row: rows, measure: "goodput" },
    };
  },
};

function line(report, table, column, label) {
  const cells = report.cells.filter((cell) => cell.table === table && cell.column === column);
  return { label, rows: cells.map((cell) => cell.row), ours: cells.map((cell) => cell.ours),
           paper: cells.map((cell) => cell.paper) };
}

function svg(name, attributes, text) {
  const node = document.createElementNS(NS, name);
  for (const [key, it] of Object.entries(attributes)) node.setAttribute(key, it);
  if (text !== undefined) node.textContent = text;
  return node;
}

/** The next number above that four ticks divide well. */
function nice(most) {
  const power = 10 ** Math.floor(Math.log10(most));
  return power * [1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8, 10].find((it) => it * power >= most);
}

const tag = (name, className, ...content) => {
  const node = document.createElement(name);
  if (className) node.className = className;
  node.append(...content);
  return node;
};

/** A published figure or ours, with its unit. */
function told(it, unit) {
  if (it === null || it === undefined) return "–";
  return typeof it === "number" ? `${figure(it)}${unit ? ` ${unit}` : ""}` : String(it);
}

function badge(verdict) {
  const kind = ["reproduced", "fitted", "partly", "not", "cannot"].find((one) => verdict.startsWith(one)) ?? "cannot";
  const node = tag("span", "badge", t(`verdict.${kind}`));
  node.dataset.kind = kind;
  node.title = verdict;
  return node;
}

export class Paper {
  constructor(place) { this.place = place; }

  build(preset, report, state, measure) {
    this.place.hidden = !preset?.paper || !report;
    this.measure = measure;
    if (this.place.hidden) return this.place.replaceChildren();
    const head = tag("h2", "", t("paper"), ": ", tag("small", "", report.title));
    this.plot = tag("div", "figure");
    this.legend = tag("ul", "legend");
    this.data = FIGURES[preset.figure]?.(report, state);
    const side = tag("div", "claims");
    side.append(tag("h3", "", t("claims")), this.claims(preset, report));
    const caption = tag("h3", "", this.data ? own(this.data.title) : "");
    const drawing = tag("div", "", caption, this.plot, this.legend);
    if (this.data?.lines.some((one) => one.paper.some(Number.isFinite))) {
      drawing.append(tag("p", "label", t("solid")));
    }
    this.place.replaceChildren(head, tag("div", "beside", drawing, side));
    this.draw();
  }

  claims(preset, report) {
    const table = tag("table", "");
    const head = tag("tr", "", ...["claim", "published", "ours", "verdict"].map((key) => tag("th", "", t(key))));
    const rows = preset.claims.map((japanese) => [report.claims.find((claim) => claim.id === japanese.id), japanese])
      .filter(([claim]) => claim);
    table.append(tag("thead", "", head), tag("tbody", "", ...rows.map(([claim, japanese]) => tag("tr", "",
      tag("td", "", own({ en: claim.text, ja: japanese.ja })),
      tag("td", "", own({ en: told(claim.paper, claim.unit), ja: japanese.published ?? told(claim.paper, claim.unit) })),
      tag("td", "", told(claim.ours, claim.unit)), tag("td", "", badge(claim.verdict))))));
    return tag("div", "scroll", table);
  }

  /** The figure, with this run in it as far as it has got. */
  draw() {
    const { data, plot } = this;
    if (!data || !plot) return;
    const all = data.lines.flatMap((one) => [...one.ours, ...one.paper]).filter(Number.isFinite);
    const rows = data.lines[0]?.rows ?? [];
    const here = data.here && { at: rows.indexOf(data.here.row), y: this.measure(data.here.measure) };
    const shown = here && here.at >= 0 && Number.isFinite(here.y);
    const top = data.top ?? nice(Math.max(...all, shown ? here.y : 0));
    const [width, height, left, bottom] = [Math.min(Math.max(plot.clientWidth, 300), 480), 220, 40, 26];
    const x = (n) => left + 14 + n * (width - left - 34) / Math.max(rows.length - 1, 1);
    const y = (it) => height - bottom - (height - bottom - 10) * it / top;
    const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": own(data.title) });
    for (let n = 0; n <= 4; n++) {
      const it = top * n / 4;
      root.append(svg("line", { x1: left, x2: width - 6, y1: y(it), y2: y(it), class: "grid" }),
        svg("text", { x: left - 6, y: y(it) + 4, class: "tick", "text-anchor": "end" }, figure(it)));
    }
    // As many labels as fit.
    const every = Math.ceil(rows.length * 34 / (width - left));
    rows.forEach((row, n) => n % every === 0 && root.append(svg("text",
      { x: x(n), y: height - 8, class: "tick", "text-anchor": "middle" }, data.rows(row))));
    data.lines.forEach((one, n) => {
      const path = (points) => points.map((it, at) => Number.isFinite(it) ? `${x(at)},${y(it)}` : null)
        .filter(Boolean).join(" ");
      root.append(svg("polyline", { points: path(one.ours), class: `line p${n}` }));
      if (one.paper.some(Number.isFinite)) {
        root.append(svg("polyline", { points: path(one.paper), class: `line dashed p${n}` }));
      }
    });
    if (shown) {
      root.append(svg("circle", { cx: x(here.at), cy: y(Math.min(here.y, top)), r: 6, class: "here" }));
    }
    plot.replaceChildren(root);
    const entry = (key, text) => tag("li", "", tag("i", key), text);
    this.legend.replaceChildren(...data.lines.map((one, n) => entry(`p${n}`, one.label)),
      ...(shown ? [entry("here", `${t("thisRun")}: ${told(here.y, data.unit)}`)] : []));
  }
}
