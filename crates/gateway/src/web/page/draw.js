"use strict";
// Graphs on canvases, and figures with units.

const SAMPLES = 300;

function scaled(value, units) {
  const unit = units.find(u => value >= u[0]) || units[units.length - 1];
  const n = value / unit[0];
  return n.toFixed(n >= 100 || unit[0] === 1 ? 0 : 1) + "\u00a0" + unit[1];
}
const rate = bps => scaled(bps, [[1e9, "Gbit/s"], [1e6, "Mbit/s"], [1e3, "kbit/s"], [1, "bit/s"]]);
const bytes = n => scaled(n, [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "B"]]);
function span(s) {
  s = Math.max(0, Math.floor(s));
  const [d, h, m] = [Math.floor(s / 86400), Math.floor(s / 3600) % 24, Math.floor(s / 60) % 60];
  if (d) return `${d} d ${h} h`;
  if (h) return `${h} h ${m} min`;
  return m ? `${m} min ${s % 60} s` : `${s} s`;
}

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

// A canvas fit to its size on the screen: context, width, height.
function fit(canvas) {
  const ratio = window.devicePixelRatio || 1;
  const width = canvas.clientWidth;
  canvas.dataset.height ||= canvas.getAttribute("height");
  const height = Number(canvas.dataset.height);
  const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
    canvas.style.height = height + "px";
  }
  const g = canvas.getContext("2d");
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  g.clearRect(0, 0, width, height);
  return [g, width, height];
}

// Text that is read on any colour.
function label(g, text, x, y) {
  g.lineWidth = 3;
  g.lineJoin = "round";
  g.strokeStyle = colour("--panel");
  g.strokeText(text, x, y);
  g.lineWidth = 1;
  g.fillStyle = colour("--soft");
  g.fillText(text, x, y);
}

// 1, 2 or 5 times a power of ten, not below `value`.
function roundUp(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map(n => n * power).find(n => n >= value * 0.999);
}

// Where sample `i` of `n` is: the newest is at the right, a full history fills the width.
const place = (i, n, width) => width - (n - 1 - i) * width / (SAMPLES - 1);

// Areas on top of each other from the line at `base`, `scale` pixels a unit; upwards if negative.
function areas(g, width, base, scale, layers, field) {
  const n = Math.max(0, ...layers.map(layer => layer.series[field].length));
  let below = new Array(n).fill(0);
  for (const layer of layers) {
    const values = layer.series[field];
    const missing = n - values.length;
    const above = below.map((sum, i) => sum + (i < missing ? 0 : values[i - missing]));
    g.beginPath();
    above.forEach((sum, i) => g.lineTo(place(i, n, width), base + sum * scale));
    for (let i = n - 1; i >= 0; i--) g.lineTo(place(i, n, width), base + below[i] * scale);
    g.closePath();
    g.fillStyle = colour(layer.colour);
    g.globalAlpha = 0.85;
    g.fill();
    g.globalAlpha = 1;
    below = above;
  }
}

function most(layers, field) {
  const n = Math.max(0, ...layers.map(layer => layer.series[field].length));
  let peak = 0;
  for (let i = 0; i < n; i++) {
    let sum = 0;
    for (const { series } of layers) {
      sum += series[field][i - (n - series[field].length)] || 0;
    }
    peak = Math.max(peak, sum);
  }
  return peak;
}

// All links on one graph: received above the line, sent below it, at one scale.
function drawStack(canvas, layers) {
  const [g, width, height] = fit(canvas);
  const [rx, tx] = [roundUp(Math.max(1e4, most(layers, "rx"))), Math.max(1, most(layers, "tx"))];
  const low = Math.min(rx, Math.max(tx * 1.1, rx * 0.12));
  const top = 14;
  const scale = (height - top - 4) / (rx + low);
  const base = top + rx * scale;
  g.font = "11px system-ui, sans-serif";
  g.strokeStyle = colour("--grid");
  for (const part of [1, 0.5]) {
    const y = Math.round(base - rx * part * scale) + 0.5;
    g.beginPath();
    g.moveTo(0, y);
    g.lineTo(width, y);
    g.stroke();
  }
  areas(g, width, base, -scale, layers, "rx");
  areas(g, width, base, scale, layers, "tx");
  for (const part of [1, 0.5]) label(g, rate(rx * part), 2, base - rx * part * scale - 3);
  g.strokeStyle = colour("--soft");
  g.beginPath();
  g.moveTo(0, Math.round(base) + 0.5);
  g.lineTo(width, Math.round(base) + 0.5);
  g.stroke();
}

// A line, with the largest value written beside it; null leaves a gap.
function drawLine(canvas, lines, least, format) {
  const [g, width, height] = fit(canvas);
  const values = lines.flatMap(line => line.values.filter(v => v !== null));
  const peak = roundUp(Math.max(least, ...values));
  g.strokeStyle = colour("--grid");
  for (const y of [0.5, height - 0.5]) {
    g.beginPath();
    g.moveTo(0, y);
    g.lineTo(width, y);
    g.stroke();
  }
  const y = value => height - 1.5 - value / peak * (height - 4);
  for (const line of lines) {
    const n = line.values.length;
    g.strokeStyle = g.fillStyle = colour(line.colour);
    g.lineWidth = line.thin ? 1 : 1.8;
    g.lineJoin = "round";
    for (const [first, last] of runs(line.values)) {
      const at = i => place(i, n, width);
      g.beginPath();
      for (let i = first; i <= last; i++) g.lineTo(at(i), y(line.values[i]));
      g.stroke();
      if (line.thin) continue;
      g.lineTo(at(last), height);
      g.lineTo(at(first), height);
      g.globalAlpha = 0.13;
      g.fill();
      g.globalAlpha = 1;
    }
  }
  g.font = "10px system-ui, sans-serif";
  label(g, format(peak), 2, 11);
}

// First and last index of each stretch without null.
function runs(values) {
  const found = [];
  values.forEach((value, i) => {
    if (value === null) return;
    if (i > 0 && values[i - 1] !== null) found[found.length - 1][1] = i;
    else found.push([i, i]);
  });
  return found;
}
