// The simulator's thread: moves the world as the page's clock goes, and tells what it sees.

import init, { Play } from "./tabane.js";

const ready = init({ module_or_path: new URL("tabane_bg.wasm", import.meta.url) });
/** Milliseconds between two frames, and of computing in one. */
const FRAME = 33, BUDGET = 26;
/** Points on a curve at a time. */
const POINTS = 400;
/** Shortest span of the run, in seconds, over which reasons are counted. */
const SPAN = 0.1;

let play = null, over = false, running = false, speed = 1, at = 0, next = 0, step = 0.05;
let lastTick = 0, lastStatus = 0, counted = 0, wantDots = 0, rows = [], busy = 0, duration = 0;
let run = 0, ticking = false;
const again = new MessageChannel();
again.port1.onmessage = () => tick();

/** How much of the run the curves show at a speed, in seconds. */
const span = () => Number.isFinite(speed) ? Math.max(20 * speed, 0.02) : Math.min(duration, 60);

function post(message, transfer = []) { postMessage({ ...message, run }, transfer); }

const orders = {
  open({ name, text, sets, number }) {
    // If it does not open, nothing runs: what was there is no longer what the page shows.
    play?.free();
    play = null;
    run = number;
    running = over = false;
    play = new Play(name, text, sets);
    const about = JSON.parse(play.about());
    duration = about.duration;
    [at, next, counted, rows, busy] = [0, 0, 0, [], 0];
    step = span() / POINTS;
    post({ what: "about", about });
    look();
    frame(true);
  },
  run() {
    if (!play || over) return;
    running = true;
    lastTick = performance.now();
    if (!ticking) { ticking = true; tick(); }
  },
  pause() { running = false; },
  speed({ value }) {
    speed = value;
    step = span() / POINTS;
    next = Math.min(next, at + step);
    lastTick = performance.now();
  },
  dots({ most }) { wantDots = most; if (!running) frame(false); },
  change({ change }) {
    if (!play || over) return;
    if (!play.change(JSON.stringify(change))) return end();
    at = play.now();
    if (!running) { look(); frame(true); }
  },
  policy({ kind, policy }) {
    if (!play || over) return;
    play.set_policy(kind, policy);
    at = play.now();
  },
  toml({ id }) { postMessage({ what: "answer", id, value: play?.toml() ?? "" }); },
  /** Why a file does not open; nothing if it does. What runs goes on. */
  check({ id, name, text }) {
    let value = "";
    try {
      new Play(name, text, []).free();
    } catch (error) {
      if (error instanceof WebAssembly.RuntimeError) throw error;
      value = String(error.message ?? error);
    }
    postMessage({ what: "answer", id, value });
  },
};

/** Notes a row of figures. */
function look() {
  rows.push(play.sample());
  at = play.now();
  next = at + step;
}

/** Lets happen what happens up to a time; false if the frame's time was up first. */
function go(goal, deadline) {
  while (at < goal) {
    const to = Math.min(goal, next);
    while (play.advance(to)) {
      if (performance.now() > deadline) { at = play.now(); return false; }
    }
    if (play.is_over()) { end(); return true; }
    // The world counts whole nanoseconds: its time may be a part of one behind.
    at = to;
    if (to === next) look();
    if (performance.now() > deadline) return at >= goal;
  }
  return true;
}

function tick() {
  if (!running || !play || over) { ticking = false; return; }
  const began = performance.now();
  const passed = Math.min(began - lastTick, 100) / 1000;
  lastTick = began;
  try {
    go(Number.isFinite(speed) ? at + passed * speed : Infinity, began + BUDGET);
    busy += performance.now() - began;
    if (over) { ticking = false; return; }
    frame(false);
  } catch (error) {
    ticking = running = false;
    return post({ what: "broken", text: String(error.message ?? error) });
  }
  const spent = performance.now() - began;
  if (Number.isFinite(speed)) setTimeout(tick, Math.max(FRAME - spent, 0));
  else again.port2.postMessage(0);
}

/** Tells the page what it shows. */
function frame(all) {
  if (!play) return;
  const now = performance.now();
  let status = null;
  if (all || now - lastStatus > 250) {
    // Reasons are counted over a span of the run that has some.
    const anew = at - counted >= Math.max(SPAN, 0.25 * Math.min(speed, 4));
    status = JSON.parse(play.status(anew || all));
    if (anew || all) counted = at;
    lastStatus = now;
    status.whole = anew || all;
  }
  const width = rows[0]?.length ?? 0;
  const flat = new Float64Array(width * rows.length);
  rows.forEach((row, n) => flat.set(row, n * width));
  rows = [];
  const dots = wantDots ? play.dots(wantDots) : null;
  const transfer = dots ? [flat.buffer, dots.buffer] : [flat.buffer];
  post({ what: "frame", at, rows: flat, width, dots, status, over,
         hops: play.packet_hops(), busy }, transfer);
}

/** The run is over: the last figures, and its result. */
function end() {
  if (over) return;
  running = false;
  over = true;
  rows.push(play.sample());
  at = play.now();
  frame(true);
  post({ what: "result", json: play.finish() });
}

onmessage = async ({ data }) => {
  try {
    await ready;
    orders[data.do](data);
  } catch (error) {
    const what = error instanceof WebAssembly.RuntimeError ? "broken" : "refused";
    if (what === "broken") play = null;
    postMessage({ what, order: data.do, id: data.id, run: data.number ?? run,
                  text: String(error.message ?? error) });
  }
};
