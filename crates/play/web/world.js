// Packets as dots: each link is a lane, the client on the left, the server on the right; queues
// stand at the end from which they feed the lane. Beyond a speed, dots would be a shimmer: lanes
// are then as thick as what they carry.

import { t } from "./strings.js";

const WIDTH = 5;
const LANE = 58;

export class World {
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.dots = null;
    new ResizeObserver(() => this.draw()).observe(canvas);
  }

  build(about, mains, colours, seriesColours) {
    Object.assign(this, { about, mains, colours, seriesColours, dots: null, loads: new Map() });
    this.ups = about.links.map(() => true);
    this.canvas.style.height = `${mains.length * LANE + 30}px`;
    this.draw();
  }

  /** `loads`: for each link direction, share of its rate in use, and share of its queue. */
  show(dots, loads, ups) {
    if (dots !== undefined) this.dots = dots;
    if (loads) this.loads = loads;
    if (ups) this.ups = ups;
    this.draw();
  }

  draw() {
    const { canvas, context: c, about } = this;
    if (!about || !canvas.clientWidth) return;
    const ratio = window.devicePixelRatio || 1;
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.clearRect(0, 0, width, height);
    const style = getComputedStyle(document.documentElement);
    const css = (name) => style.getPropertyValue(name).trim();
    const [text, soft, line, panel] = ["--text", "--soft", "--line", "--panel"].map(css);
    const pocket = Math.min(Math.max(width * 0.16, 46), 150);
    const [left, right] = [pocket + 8, width - pocket - 8];
    this.geometry = { left, right, pocket };
    c.font = "13px system-ui, sans-serif";
    this.mains.forEach((link, n) => {
      const y = n * LANE + 42;
      const colour = this.colours[link];
      const up = this.ups[link];
      c.globalAlpha = up ? 1 : 0.35;
      this.lane(y, link, colour, line, css("--bad"), up);
      c.fillStyle = text;
      c.textAlign = "center";
      const { name } = about.links[link];
      // What joins two links only has no name.
      const [from, to] = [about.links[link].from, about.links[link].to].map((it) => it.includes("|") ? "" : it);
      c.fillText(up ? name : `${name} ✕`, (left + right) / 2, y - 19);
      c.fillStyle = soft;
      if (n === 0 || from !== about.links[this.mains[n - 1]].from) {
        c.textAlign = "left";
        c.fillText(from, 2, y - 19);
      }
      if (n === 0 || to !== about.links[this.mains[n - 1]].to) {
        c.textAlign = "right";
        c.fillText(to, width - 2, y - 19);
      }
      c.globalAlpha = 1;
    });
    if (this.dots) this.packets(panel);
    else this.queues();
    c.fillStyle = text;
  }

  lane(y, link, colour, line, bad, up) {
    const { context: c, geometry: { left, right } } = this;
    c.lineCap = "round";
    c.strokeStyle = line;
    c.lineWidth = 20;
    c.beginPath();
    c.moveTo(left, y);
    c.lineTo(right, y);
    c.stroke();
    if (!up) {
      c.strokeStyle = bad;
      c.lineWidth = 2;
      c.setLineDash([4, 6]);
      c.beginPath();
      c.moveTo(left, y);
      c.lineTo(right, y);
      c.stroke();
      c.setLineDash([]);
    } else if (!this.dots) {
      for (const way of [0, 1]) {
        const share = Math.min(this.loads.get(2 * link + way)?.rate ?? 0, 1);
        if (share < 0.001) continue;
        c.strokeStyle = colour;
        c.globalAlpha = 0.35 + 0.5 * share;
        c.lineWidth = 1 + 7 * share;
        c.beginPath();
        c.moveTo(left, y - 5 + 10 * way);
        c.lineTo(right, y - 5 + 10 * way);
        c.stroke();
        c.globalAlpha = 1;
      }
    }
  }

  /** Queues as bars, where there are no dots. */
  queues() {
    const { context: c, geometry: { left, right, pocket } } = this;
    this.mains.forEach((link, n) => {
      const y = n * LANE + 42;
      for (const way of [0, 1]) {
        const share = Math.min(this.loads.get(2 * link + way)?.queue ?? 0, 1);
        const length = (pocket - 14) * share;
        if (length < 1) continue;
        c.fillStyle = this.colours[link];
        c.globalAlpha = 0.75;
        const at = way === 0 ? left - 14 - length : right + 14;
        c.fillRect(at, y - 9 + 10 * way, length, 8);
        c.globalAlpha = 1;
      }
    });
  }

  packets(panel) {
    const { context: c, dots, geometry: { left, right, pocket } } = this;
    const lanes = new Map(this.mains.map((link, n) => [link, n * LANE + 42]));
    // As many as stand in a queue share its pocket.
    const longest = new Map();
    for (let at = 0; at < dots.length; at += WIDTH) {
      if (dots[at + 1] < 0) longest.set(dots[at], Math.max(longest.get(dots[at]) ?? 1, -dots[at + 1]));
    }
    const small = window.innerWidth < 600 ? 0.75 : 1;
    for (let at = 0; at < dots.length; at += WIDTH) {
      const direction = dots[at], place = dots[at + 1], series = dots[at + 2];
      const y = lanes.get(direction >> 1);
      if (y === undefined) continue;
      const down = direction & 1;
      let x;
      if (place >= 0) {
        x = down ? right - place * (right - left) : left + place * (right - left);
      } else {
        const spread = Math.min((pocket - 18) / longest.get(direction), 9);
        const behind = 12 + (-place - 1) * spread;
        x = down ? right + behind : left - behind;
      }
      const bare = dots[at + 4] === 1;
      const colour = this.seriesColours[series] ?? "#888";
      c.beginPath();
      c.arc(x, y + (down ? 5 : -5), (bare ? 2.6 : 4) * small, 0, 2 * Math.PI);
      c.fillStyle = bare ? panel : colour;
      c.fill();
      if (bare) {
        c.strokeStyle = colour;
        c.lineWidth = 1.5;
        c.stroke();
      }
    }
  }

  /** What it shows, for those who do not see it. */
  label() {
    if (!this.about) return "";
    return this.mains.map((link) =>
      `${this.about.links[link].name}: ${t(this.ups[link] ? "plugged" : "unplugged")}`).join("; ");
  }
}
