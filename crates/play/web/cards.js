// A card for each link: its plug, its sliders, what it carries and why it idles.

import { t, why } from "./strings.js";
import { bits, figure } from "./charts.js";

const STEPS = 200;
const log = (low, high) => ({
  at: (share) => low * (high / low) ** share,
  share: (value) => Math.log(Math.max(value, low) / low) / Math.log(high / low),
});
const square = (high) => ({ at: (share) => high * share ** 2, share: (value) => Math.sqrt(value / high) });
const round = (value) => Number(value.toPrecision(value >= 100 ? 3 : 2));

/** What sliders set: how a value is read, shown and written into a scenario. */
const RATE = { scale: log(0.1, 1000), show: (v) => bits(v * 1e6), write: (v) => `${v}Mbps` };
const DELAY = { scale: square(500), show: (v) => `${figure(v)} ms`, write: (v) => `${v}ms` };
const LOSS = { scale: square(30), show: (v) => `${figure(v)} %`, write: (v) => `${v}%` };
const PACKETS = { scale: log(2, 2000), whole: true, show: (v) => `${v} ${t("packets")}`, write: (v) => `${v} packets` };
const BYTES = { scale: log(2, 5000), whole: true, show: (v) => `${v} kB`, write: (v) => `${v}kB` };

const SIZES = { B: 1e-3, kB: 1, KiB: 1.024, MB: 1e3, MiB: 1048.576, GB: 1e6 };

/** Kilobytes of a queue as scenarios write it; NaN for a model. */
export function queueKilobytes(text) {
  const packets = /^([\d.]+) packets?$/.exec(text ?? "100 packets");
  if (packets) return packets[1] * 1.5;
  const size = /^([\d.]+)\s*([kKMG]?i?B)$/.exec(text);
  return size ? size[1] * (SIZES[size[2]] ?? NaN) : NaN;
}

/** A queue as a slider has it: kind and value; nothing for a model. */
function queue(text) {
  const packets = /^(\d+) packets?$/.exec(text ?? "100 packets");
  if (packets) return [PACKETS, Number(packets[1])];
  const size = queueKilobytes(text);
  return size ? [BYTES, Math.round(size)] : null;
}

/** The sliders of a link: key, direction if it has another value in each, kind and value. */
function settings(link, isSplit) {
  const all = [];
  const add = (key, label, of) => {
    const slider = (from, arrow, way) => {
      const found = of(from);
      if (found) all.push({ key, label: label + arrow, kind: found[0], way, value: found[1] });
    };
    if (isSplit(link.name, key) || link.up[key] !== link.down[key]) {
      slider(link.up, " ↑", "up");
      slider(link.down, " ↓", "down");
    } else {
      slider(link.down, "", null);
    }
  };
  const number = (key, kind, scale) => (way) => way[key] !== null && !way.moves && [kind, way[key] * scale];
  const share = (text) => (text ?? "").endsWith("%") ? parseFloat(text) : 100 * (parseFloat(text) || 0);
  add("rate", t("rate"), number("rate", RATE, 1e-6));
  add("delay", t("delay"), number("delay", DELAY, 1e3));
  add("loss", t("loss"), (way) => !way.moves && /^([\d.]+%?)?$/.test(way.loss ?? "") && [LOSS, share(way.loss)]);
  add("queue", t("queue"), (way) => queue(way.queue));
  return all;
}

const tag = (name, className, ...content) => {
  const node = document.createElement(name);
  if (className) node.className = className;
  node.append(...content);
  return node;
};

export class Cards {
  /** `changed(link, key, way, text)` and `plugged(link)` are called when somebody does that. */
  constructor(main, more, changed, plugged) {
    Object.assign(this, { main, more, changed, plugged, cards: [], moved: new Map() });
  }

  /** `isSplit(link, key)`: it has a slider for each direction, also where both have one value. */
  build(about, mains, colours, isSplit) {
    // What sliders of this run were moved to, by their names: a card may be made anew meanwhile.
    if (about.links !== this.about?.links) this.moved.clear();
    this.about = about;
    this.cards = about.links.map((link, n) => this.card(link, n, colours[n], isSplit));
    const is = (n) => mains.includes(n);
    this.main.replaceChildren(...this.cards.filter((_, n) => is(n)).map((one) => one.root));
    const rest = this.cards.filter((_, n) => !is(n)).map((one) => one.root);
    this.more.replaceChildren(...rest);
    this.more.parentElement.hidden = rest.length === 0;
  }

  card(link, n, colour, isSplit) {
    const root = tag("article", "panel link");
    root.style.setProperty("--colour", colour);
    root.dataset.link = link.name;
    const now = tag("span", "now", "–");
    const plug = tag("button", "plug");
    plug.type = "button";
    plug.setAttribute("role", "switch");
    plug.setAttribute("aria-label", t("plug", link.name));
    plug.addEventListener("click", () => this.plugged(link.name));
    // Where all links join the same two, the lanes have said so.
    const alike = this.about.links.every((other) => other.from === link.from && other.to === link.to);
    const named = link.from && link.to && !`${link.from}${link.to}`.includes("|");
    const ends = named && !alike ? tag("small", "ends", `${link.from} – ${link.to}`) : "";
    const head = tag("div", "head", tag("h3", "", link.name, " ", ends), now, plug);
    const reason = tag("p", "reason");
    const sliders = tag("div", "sliders");
    const all = settings(link, isSplit);
    for (const setting of all) sliders.append(this.slider(link, setting));
    for (const key of ["queue", "loss"]) {
      const text = link.down[key];
      const shown = all.some((one) => one.key === key);
      if (text && !shown) sliders.append(tag("div", "fixed", tag("span", "", t(key)), tag("output", "", text)));
    }
    root.append(head, reason, sliders);
    const card = { root, now, plug, reason, number: n };
    this.plugIs(card, true);
    return card;
  }

  slider(link, { key, label, kind, way, value }) {
    const input = tag("input");
    input.type = "range";
    Object.assign(input, { min: 0, max: STEPS, step: 1 });
    input.name = `${link.name}.${way ? `${way}.` : ""}${key}`;
    const output = tag("output", "");
    const show = (it) => {
      output.textContent = kind.show(it);
      input.setAttribute("aria-valuetext", kind.show(it));
    };
    const now = this.moved.get(input.name)?.value ?? value;
    input.value = Math.round(STEPS * Math.min(Math.max(kind.scale.share(now), 0), 1));
    show(now);
    const read = () => {
      const it = kind.scale.at(input.value / STEPS);
      return kind.whole ? Math.round(it) : round(it);
    };
    let last = 0, later = null;
    const tell = () => {
      later = null;
      last = performance.now();
      const [value, text] = [read(), kind.write(read())];
      this.moved.set(input.name, { value, text });
      this.changed(link.name, key, way, text);
    };
    input.addEventListener("input", () => {
      show(read());
      // While it is dragged, some of the positions on the way are enough.
      later ??= setTimeout(tell, Math.max(0, last + 120 - performance.now()));
    });
    return tag("label", "", tag("span", "", label), input, output);
  }

  plugIs(card, up) {
    card.plug.setAttribute("aria-checked", String(up));
    card.plug.textContent = t(up ? "plugged" : "unplugged");
    card.root.dataset.up = String(up);
  }

  /** `rates` by link, bits per second; `status` as the simulator says. */
  show(rates, status, over) {
    this.cards.forEach((card, n) => {
      card.now.textContent = bits(rates[n] ?? 0);
      if (!status) return;
      this.plugIs(card, status.links[n]?.up ?? true);
      const { state, text } = this.sentence(n, status, over);
      card.root.dataset.state = state;
      if (card.reason.textContent !== text) card.reason.textContent = text;
    });
  }

  /** What a link does, in a sentence, and the word that colours it. */
  sentence(link, status, over) {
    const all = this.about.series;
    const own = all.map((series, n) => ({ series, n })).filter((one) => one.series.links.includes(link));
    const flows = new Set(all.map((series) => series.flow)).size;
    if (!status.links[link]?.up) return { state: "down", text: t("state.down") };
    if (over) return { state: "ended", text: t("state.ended") };
    const parts = own.map(({ series, n }) => {
      const { state, text } = phrase(status.series[n]);
      return { state, text: flows > 1 ? t("state.shared", series.flow, text) : text };
    });
    // Paths that were never opened say nothing where others do.
    const told = parts.filter((one) => one.state !== "absent");
    if (own.length === 0) return { state: "only", text: t("state.only") };
    const said = told.length ? told : parts;
    const carries = said.some((one) => one.state === "carries" || one.state === "sends");
    const state = carries ? "carries" : said[0].state;
    return { state, text: said.map((one) => one.text).join(" · ") };
  }
}

/** What a subflow does, and why not more. */
function phrase(status) {
  const { state, chosen, placed, not } = status;
  const first = not[0];
  if (state === "carries") {
    const share = placed ? 100 * chosen / placed : 0;
    const times = not.reduce((sum, one) => sum + one.times, 0);
    if (first && share < 10) return { state: "idle", text: `${t("state.carries", figure(share))}; ${why(first)}` };
    const part = Math.round(100 * (first?.times ?? 0) / Math.max(times, 1));
    let text = t("state.carries", Math.round(share));
    if (first && share < 99.5) {
      text = part < 99 ? t("state.carriesNot", Math.round(share), why(first), part)
        : t("state.carriesElse", Math.round(share), why(first));
    }
    return { state, text };
  }
  if (state === "idle") return { state, text: first ? t("state.idle", why(first)) : t("state.idleNo") };
  return { state, text: t(`state.${state}`) };
}
