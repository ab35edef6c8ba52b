// The curves: goodput, windows, round trips and queues over time, by uPlot.

import uPlot from "./uplot/uPlot.esm.js";
import { t } from "./strings.js";

const PER_SERIES = 4, PER_DIRECTION = 3;
/** Rows kept; beyond, the older half loses every other one. */
const KEPT = 6000;
const DASHES = [[], [7, 4], [2, 3]];

/** What the curves are made from: rows of figures as the simulator gives them. */
export class History {
  constructor(about, colours) {
    this.about = about;
    this.rows = [];
    this.last = null;
    const flows = [...new Set(about.series.map((one) => one.flow))];
    this.series = about.series.map((one) => ({
      label: flows.length > 1 ? `${one.flow} · ${one.path}` : one.path,
      colour: colours[one.link ?? 0], dash: DASHES[flows.indexOf(one.flow) % DASHES.length],
    }));
    this.flows = flows;
    // What a proxy relays is not there twice.
    this.adds = about.series.length > 1 && !flows.some((flow) => flow.includes("@"));
  }

  add(flat, width) {
    for (let from = 0; width > 0 && from + width <= flat.length; from += width) {
      const row = flat.subarray(from, from + width);
      // Two looks at one moment: the later one counts.
      if (this.rows.length && this.rows.at(-1)[0] >= row[0]) this.rows.pop();
      this.rows.push(row);
    }
    if (this.rows.length > KEPT) {
      const half = KEPT / 2;
      this.rows = this.rows.filter((_, n) => n >= half || n % 2 === 0);
    }
    this.last = this.rows.at(-1) ?? this.last;
  }

  series_at(row, n, column) { return row[1 + PER_SERIES * n + column]; }
  link_at(row, direction, column) {
    return row[1 + PER_SERIES * this.about.series.length + PER_DIRECTION * direction + column];
  }

  /** Index of the first row that is not before a time. */
  first(time) {
    let [low, high] = [0, this.rows.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.rows[middle][0] < time) low = middle + 1; else high = middle;
    }
    return low;
  }

  /** Bits per second of a series over the last `span` seconds before row `n`. */
  rate(n, series, span) {
    const row = this.rows[n];
    if (!row) return 0;
    const before = this.rows[Math.max(this.first(row[0] - span) - 1, 0)];
    const time = row[0] - before[0];
    if (time <= 0) return 0;
    const bytes = this.series_at(row, series, 0) - this.series_at(before, series, 0);
    return Math.max(bytes, 0) * 8 / time;
  }
}

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** A figure with three digits. */
export function figure(value) {
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  return value.toFixed(size >= 100 || size === 0 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3);
}

export const bits = (bps) => bps >= 1e9 ? `${figure(bps / 1e9)} Gbit/s`
  : bps >= 1e6 || bps === 0 ? `${figure(bps / 1e6)} Mbit/s` : `${figure(bps / 1e3)} kbit/s`;

const KINDS = [
  { id: "goodput", unit: "Mbit/s" }, { id: "rtt", unit: "ms" },
  { id: "windows", unit: "kB" }, { id: "queues", unit: "kB" },
];

export class Charts {
  constructor(place) {
    this.place = place;
    this.plots = [];
    new ResizeObserver(() => this.fit()).observe(place);
  }

  /** New plots for a history; `mains` are the links whose queues are shown. */
  build(history, mains, colours) {
    this.plots.forEach((one) => one.plot.destroy());
    this.place.replaceChildren();
    this.history = history;
    this.mains = mains;
    const sync = uPlot.sync("curves");
    this.plots = KINDS.map((kind) => {
      const figure = document.createElement("figure");
      figure.className = "panel chart";
      figure.tabIndex = 0;
      figure.setAttribute("role", "img");
      const head = document.createElement("figcaption");
      const unit = document.createElement("small");
      unit.textContent = kind.unit;
      head.append(t(kind.id), " ", unit);
      const box = document.createElement("div");
      figure.append(head, box);
      this.place.append(figure);
      const lines = kind.id === "queues"
        ? mains.map((n) => ({ label: history.about.links[n].name, colour: colours[n], dash: [] }))
        : history.series;
      const all = kind.id === "goodput" && history.adds
        ? [...lines, { label: t("total"), colour: css("--text"), dash: [], width: 1 }] : lines;
      const plot = new uPlot(this.options(box, all, sync), [[], ...all.map(() => [])], box);
      return { kind, plot, box, figure, lines: all };
    });
    this.fit();
  }

  options(box, lines, sync) {
    const axis = { stroke: css("--soft"), grid: { stroke: css("--grid"), width: 1 },
                   ticks: { show: false }, font: "12px system-ui, sans-serif", size: 46 };
    return {
      width: Math.max(box.clientWidth, 200), height: 170, legend: { show: false },
      cursor: { sync: { key: sync.key }, points: { size: 6 }, drag: { x: false, y: false } },
      padding: [8, 8, 0, 0],
      scales: { x: { time: false }, y: { range: (_, __, high) => [0, high > 0 ? high * 1.08 : 1] } },
      axes: [{ ...axis, size: 28, space: 60, values: (_, all) => all.map((x) => `${+x.toFixed(4)}`) },
             { ...axis, space: 32 }],
      series: [{}, ...lines.map((line) => ({
        label: line.label, stroke: line.colour, width: line.width ?? 2, dash: line.dash,
        points: { show: false }, spanGaps: false,
      }))],
    };
  }

  fit() {
    for (const { plot, box } of this.plots) {
      const width = box.clientWidth;
      if (width > 0 && width !== plot.width) plot.setSize({ width, height: 170 });
    }
  }

  /** Draws what lies between two times. */
  draw(from, to) {
    const { history } = this;
    if (!history || !history.rows.length) return;
    const begin = Math.max(history.first(from) - 1, 0);
    const rows = history.rows.slice(begin);
    const skip = Math.max(Math.floor(rows.length / 1200), 1);
    const used = rows.map((_, n) => n).filter((n) => n % skip === 0 || n === rows.length - 1);
    const x = used.map((n) => rows[n][0]);
    // Means over less would show single packets.
    const smooth = Math.max((to - from) / 40, 0.02);
    for (const { kind, plot, figure: place, lines } of this.plots) {
      const columns = this.columns(kind.id, used, rows, begin, smooth);
      plot.setData([x, ...columns], false);
      plot.setScale("x", { min: from, max: Math.max(to, from + 1e-6) });
      const now = lines.map((line, n) => t("chartNow", line.label, figure(columns[n]?.at(-1) ?? NaN)));
      place.setAttribute("aria-label", `${t(kind.id)}, ${kind.unit}. ${now.join("; ")}`);
    }
  }

  columns(kind, used, rows, begin, smooth) {
    const { history } = this;
    const known = (value) => (Number.isFinite(value) ? value : null);
    const count = history.series.length;
    if (kind === "queues") {
      return this.mains.map((link) => used.map((n) => known(Math.max(
        history.link_at(rows[n], 2 * link, 0), history.link_at(rows[n], 2 * link + 1, 0)) / 1e3)));
    }
    const each = (value) => Array.from({ length: count }, (_, s) => used.map((n) => value(n, s)));
    if (kind === "goodput") {
      const columns = each((n, s) => history.rate(begin + n, s, smooth) / 1e6);
      if (history.adds) columns.push(used.map((_, at) => columns.reduce((sum, one) => sum + one[at], 0)));
      return columns;
    }
    if (kind === "windows") return each((n, s) => known(history.series_at(rows[n], s, 1) / 1e3));
    return each((n, s) => known(history.series_at(rows[n], s, 3) * 1e3));
  }
}
