// The page: what can be chosen, what is shown, and the simulator's worker between the two.

import { Cards, queueKilobytes } from "./cards.js";
import { Charts, History, bits, figure } from "./charts.js";
import { Paper } from "./paper.js";
import { PRESETS, TRAFFIC, preset, target } from "./presets.js";
import * as states from "./state.js";
import * as strings from "./strings.js";
import { World } from "./world.js";

const { t } = strings;
const $ = (id) => document.getElementById(id);
const SPEEDS = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 2, 5, 10, Infinity];
const NAMES = ["1/1000 ×", "1/300 ×", "1/100 ×", "1/30 ×", "1/10 ×", "1/3 ×", "1 ×", "2 ×", "5 ×", "10 ×"];
/** Up to this speed packets are shown one by one, at most so many. */
const DOTS_UP_TO = 0.1, DOTS = 3000;
const KINDS = ["scheduler", "congestion", "egress"];
const still = matchMedia("(prefers-reduced-motion: reduce)");

let state, about = null, history = null, mains = [], colours = [], shape = "";
let worker, number = 0, running = false, over = false, failed = false, at = 0, result = null, status = null;
let lastText = 0, said = [], asked = new Map(), asks = 0, papers = null, paceShown = null, dirty = false;
const files = new Map();

const cards = new Cards($("links"), $("more"), changeLink, togglePlug);
const charts = new Charts($("charts"));
const world = new World($("world"));
const paper = new Paper($("paper"));

const speed = () => SPEEDS[Number($("speed").value)];
const span = () => Number.isFinite(speed()) ? Math.max(20 * speed(), 0.02) : Infinity;
const showsDots = () => speed() <= DOTS_UP_TO;

// --- the worker ---

function startWorker() {
  worker?.terminate();
  worker = new Worker(new URL("worker.js", import.meta.url), { type: "module" });
  worker.onmessage = ({ data }) => { if (data.run === undefined || data.run === number) answers[data.what]?.(data); };
  worker.onerror = (event) => fail("wasmFailed", event.message ?? "worker");
}

const send = (order) => worker.postMessage(order);

function ask(what, more) {
  const id = ++asks;
  return new Promise((answer) => { asked.set(id, answer); send({ ...more, do: what, id }); });
}

const answers = {
  about({ about: told }) { about = told; build(); },
  frame(data) {
    ({ at, over } = data);
    history.add(data.rows, data.width);
    if (data.status && (data.status.whole || some(data.status))) status = data.status;
    else if (data.status && status) status.links = data.status.links;
    if (data.status) events(data.status.events);
    if (data.dots) world.show(data.dots);
    if (data.busy > 200 && speed() > 5) $("hops").textContent = t("hops", (data.hops / data.busy / 1e3).toFixed(2));
    if (!(page.first > 0)) page.first = Math.round(performance.now());
    page.hops = data.hops;
    page.busy = data.busy;
    dirty = true;
  },
  result({ json }) {
    result = json;
    page.result = json;
    running = false;
    over = true;
    showResult();
    showRun();
    dirty = true;
  },
  answer({ id, value }) { asked.get(id)?.(value); asked.delete(id); },
  refused({ text, order }) {
    if (order !== "open") return trouble("notDone", text);
    [about, history, mains, shape] = [null, null, [], ""];
    fail("refused", text);
  },
  broken({ text }) { fail("wasmFailed", text); startWorker(); },
};

const some = (told) => told.series.reduce((sum, one) => sum + one.placed, 0) >= 10;

/** Says what is amiss, in the language that is in use: the key of a text, and what is filled in. */
function trouble(...words) {
  said = words;
  $("trouble").hidden = !words.length;
  $("trouble").textContent = words.length ? t(...words) : "";
}

/** Nothing runs any more, and nothing can until something is opened. */
function fail(...words) {
  [failed, running] = [true, false];
  if (!about) $("clock").textContent = paceShown = "–";
  trouble(...words);
  showRun();
  showResult();
}

// --- opening a scenario ---

async function fetchText(name) {
  if (!files.has(name)) files.set(name, fetch(new URL(name, import.meta.url)).then((reply) => reply.text()));
  return files.get(name);
}

/** Begins anew with the state; it runs at once unless it is to wait. Says what was left out. */
async function open(run, left = []) {
  number += 1;
  const mine = number;
  const scenario = await states.scenario(state, fetchText);
  if (mine !== number) return;
  [over, failed, result, status, at] = [false, false, null, null, 0];
  page.result = null;
  running = run;
  trouble(...(left.length ? ["leftOut", left.join(", ")] : []));
  $("events").replaceChildren();
  send({ do: "speed", value: speed() });
  send({ do: "dots", most: showsDots() ? DOTS : 0 });
  send({ do: "open", number, ...scenario });
  if (run) send({ do: "run" });
  address();
  showRun();
  showResult();
  $("cli").textContent = states.command(state, scenario);
}

/** Takes the state from the address; what of it was left out. */
async function readAddress() {
  const { state: read, left } = await states.read(location.hash);
  state = page.state = read;
  return left;
}

async function address() {
  const hash = await states.write(state);
  if (hash !== location.hash) window.history.replaceState(null, "", hash);
}

/** Builds what depends on the scenario. */
function build() {
  const one = preset(state.preset);
  const css = getComputedStyle(document.documentElement);
  const wanted = one?.main ?? about.links.map((link) => link.name);
  mains = about.links.map((_, n) => n).filter((n) => wanted.includes(about.links[n].name)).slice(0, 6);
  colours = about.links.map((_, n) => {
    const place = mains.indexOf(n);
    return place < 0 ? css.getPropertyValue("--soft").trim() : css.getPropertyValue(`--l${place % 6}`).trim();
  });
  // A path is known by a link that is shown, if it crosses one.
  const shown = (it) => [it.link, ...it.links].find((link) => mains.includes(link)) ?? it.link ?? mains[0];
  const series = about.series.map((it) => ({ ...it, link: shown(it) }));
  history = new History({ ...about, series }, colours);
  page.history = history;
  world.build(about, mains, colours, history.series.map((it) => it.colour));
  charts.build(history, mains, colours);
  const now = JSON.stringify([state.preset, state.variant, about.links.map((link) => link.name), strings.current()]);
  if (now !== shape || !document.activeElement?.closest("#links")) {
    cards.build({ ...about, series }, mains, colours, (link, key) => states.isSplit(state, link, key));
    shape = now;
  }
  const total = { label: t("total"), colour: css.getPropertyValue("--text").trim(), dash: [] };
  $("legend").replaceChildren(...[...history.series, ...(history.adds ? [total] : [])].map((it) => {
    const entry = document.createElement("li");
    const mark = document.createElement("i");
    mark.style.setProperty("--colour", it.colour);
    mark.dataset.dash = it.dash.length ? (it.dash[0] > 2 ? 1 : 2) : 0;
    entry.append(mark, it.label);
    return entry;
  }));
  choices(one);
  showPaper(one);
  dirty = true;
}

async function showPaper(one) {
  if (one?.paper) papers ??= JSON.parse(await fetchText("papers.json"));
  if (preset(state.preset) === one) paper.build(one, papers?.[one?.paper], state, measure);
}

// --- choices ---

function options(select, all, chosen) {
  select.replaceChildren(...all.map(([value, label, title]) => {
    const option = new Option(label, value, false, value === chosen);
    if (title) option.title = title;
    return option;
  }));
  select.value = chosen;
}

function choices(one) {
  const lists = { scheduler: about.schedulers, congestion: about.controllers, egress: about.egresses };
  for (const kind of KINDS) {
    const to = target(one, kind);
    $(`${kind}Box`).hidden = to === null;
    if (to === null) continue;
    const chosen = states.value(state, to.key) ?? about.policies[kind];
    let all = lists[kind].map(([name, summary]) => [name, name, strings.policy(name, summary)]);
    const own = one?.choices?.[kind];
    if (own) all = own.map((name) => all.find((it) => it[0] === name) ?? [name, name.split(":")[0] + " (paper)", name]);
    if (!all.some(([name]) => name === chosen)) all.unshift([chosen, chosen, ""]);
    options($(kind), all, chosen);
    $(kind).title = all.find(([name]) => name === chosen)?.[2] ?? "";
  }
  const bench = state.preset === "free";
  $("countBox").hidden = $("trafficBox").hidden = !bench;
  $("count").value = String(state.links);
  options($("traffic"), [...TRAFFIC.keys()].map((it) => [it, t(`traffic.${it}`)]), state.traffic);
  $("variantBox").hidden = !one?.variants;
  if (one?.variants) options($("variant"), one.variants.map((it) => [it.id, strings.own(it.label)]), state.variant);
  $("seed").value = state.sets.seed ?? about.seed;
  $("about").textContent = one ? strings.own(one.text) : about.about || about.name;
}

function showPresets() {
  const all = state.preset === "file" ? [...PRESETS, { id: "file", name: { en: "Own file" , ja: "ファイル" } }] : PRESETS;
  $("presets").replaceChildren(...all.map((one) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = strings.own(one.name);
    button.dataset.preset = one.id;
    button.setAttribute("role", "radio");
    const chosen = one.id === state.preset;
    button.setAttribute("aria-checked", String(chosen));
    button.tabIndex = chosen ? 0 : -1;
    button.addEventListener("click", () => choosePreset(one.id));
    return button;
  }));
}

function choosePreset(id, focus = false) {
  if (id !== "file" && (failed || id !== state.preset)) state = page.state = states.fresh(id);
  showPresets();
  if (focus) document.querySelector(`[data-preset="${id}"]`)?.focus();
  open(true);
}

/** A slider has been moved: before the run begins it is a setting, then a change at this moment. */
function changeLink(link, key, way, text) {
  state.sets[states.linkKey(link, key, way)] = text;
  if (at === 0 && !running) return open(false);
  address();
  send({ do: "change", change: { link, [key]: text, ...(way ? { direction: way } : {}) } });
}

function togglePlug(link) {
  const up = state.down.includes(link);
  state.down = up ? state.down.filter((name) => name !== link) : [...state.down, link];
  if (at === 0 && !running) return open(false);
  address();
  send({ do: "change", change: { [up ? "up" : "down"]: link } });
}

function changeSeed() {
  const seed = $("seed").value;
  if (states.isSeed(seed)) {
    state.sets.seed = seed;
    return open(true);
  }
  $("seed").value = state.sets.seed ?? about.seed;
  trouble("badSeed");
}

function changePolicy(kind, policy) {
  const to = target(preset(state.preset), kind);
  state.sets[to.key] = policy;
  $(kind).title = $(kind).selectedOptions[0]?.title ?? "";
  if (at === 0 && !running) return open(false);
  address();
  if (!to.hosts) return send({ do: "policy", kind, policy });
  for (const host of to.hosts) send({ do: "change", change: { ...host, [kind]: policy } });
}

// --- running ---

function setRunning(on) {
  if ((over || failed) && on) return open(true);
  running = on;
  send({ do: on ? "run" : "pause" });
  showRun();
}

const does = () => (failed ? "stopped" : running ? "running" : "paused");

function showRun() {
  $("run").textContent = t(running ? "pause" : "play");
  $("said").textContent = over ? t("ended", figure(at)) : t(does());
  document.body.classList.toggle("refused", failed && !about);
  $("hint").textContent = showsDots() ? "" : t("dotsHint");
  const name = NAMES[Number($("speed").value)] ?? t("fastest");
  $("pace").textContent = name;
  $("speed").setAttribute("aria-valuetext", name);
}

function setSpeed(index) {
  $("speed").value = String(Math.min(Math.max(index, 0), SPEEDS.length - 1));
  send({ do: "speed", value: speed() });
  send({ do: "dots", most: showsDots() ? DOTS : 0 });
  if (!showsDots()) world.show(null);
  showRun();
  dirty = true;
}

// --- showing ---

function draw() {
  requestAnimationFrame(draw);
  if (!dirty || !history || document.hidden) return;
  dirty = false;
  const whole = over || !Number.isFinite(span());
  const from = whole ? 0 : Math.max(at - span(), 0);
  charts.draw(from, whole ? at : Math.max(at, from + span()));
  world.show(undefined, loads(), status?.links.map((link) => link.up));
  clock();
  const now = performance.now();
  if (now - lastText < 220 && !over) { dirty = dirty || !running; return; }
  lastText = now;
  cards.show(rates(), status, over);
  paper.draw();
  world.canvas.setAttribute("aria-label", world.label());
}

function clock() {
  const digits = speed() < 0.02 ? 4 : speed() < 0.2 ? 3 : 1;
  const text = over ? t("ended", figure(at)) : `${at.toFixed(digits)} s`;
  if (text !== paceShown) $("clock").textContent = paceShown = text;
}

/** Seconds over which rates on cards and lanes are means. */
const smooth = () => Number.isFinite(speed()) ? Math.max(speed(), 0.01) : 1;

function rates() {
  const last = history.rows.length - 1;
  const sums = about.links.map(() => 0);
  history.about.series.forEach((series, n) => {
    const rate = history.rate(last, n, smooth());
    for (const link of series.links) sums[link] += rate;
  });
  return sums.map((sum, link) => sum || Math.max(passing(2 * link), passing(2 * link + 1)));
}

/** Bits per second that come out of a link direction. */
function passing(direction) {
  const row = history.last;
  if (!row) return 0;
  const before = history.rows[Math.max(history.first(row[0] - smooth()) - 1, 0)];
  const time = row[0] - before[0];
  const bytes = history.link_at(row, direction, 1) - history.link_at(before, direction, 1);
  return time > 0 ? bytes * 8 / time : 0;
}

function loads() {
  const all = new Map();
  if (!history.last) return all;
  for (const link of mains) {
    const { name, up, down } = about.links[link];
    [up, down].forEach((way, n) => {
      // By hand since the run began, or as it began.
      const now = (key) => cards.moved.get(`${name}.${key}`);
      const rate = now("rate") ? now("rate").value * 1e6 : way.rate ?? 1e8;
      const size = queueKilobytes(now("queue")?.text ?? way.queue);
      const queued = history.link_at(history.last, 2 * link + n, 0) / 1e3;
      all.set(2 * link + n, { rate: passing(2 * link + n) / rate, queue: queued / (size || 150) });
    });
  }
  return all;
}

/** What this run measures, for a paper's figure. */
function measure(what) {
  const last = history?.last;
  if (!last) return NaN;
  const total = (n) => history.series_at(last, n, 0);
  if (what === "completed") {
    const flow = result && JSON.parse(result).flows[0];
    return flow?.completed_s ?? NaN;
  }
  const bytes = history.series.map((_, n) => total(n));
  if (what === "goodput") {
    // Of the last leg, where proxies relay it.
    const flows = history.flows.map((flow) => history.about.series.reduce((sum, series, n) =>
      sum + (series.flow === flow ? bytes[n] : 0), 0));
    return at > 1 ? Math.min(...flows.filter((it) => it > 0)) * 8 / at / 1e6 : NaN;
  }
  const on = (flow, path) => bytes[history.about.series.findIndex((it) => it.flow === flow && it.path === path)];
  const [a, b] = [on("tcp", "shared"), on("mptcp", "one")];
  return a + b > 0 ? (a + b) ** 2 / (2 * (a * a + b * b)) : NaN;
}

function events(all) {
  const list = $("events");
  for (const event of all) {
    const item = document.createElement("li");
    const time = document.createElement("time");
    time.textContent = `${event.at.toFixed(3)} s`;
    const text = document.createElement("span");
    text.textContent = t(`event.${event.kind}`, event.about, event.detail);
    item.append(time, text);
    item.dataset.kind = event.kind;
    list.prepend(item);
  }
  while (list.children.length > 200) list.lastChild.remove();
}

function showResult() {
  const place = $("result");
  place.replaceChildren();
  if (!result) return place.append(t(does()));
  const { flows } = JSON.parse(result);
  const table = document.createElement("table");
  for (const flow of flows.slice(0, 24)) {
    const row = table.insertRow();
    row.insertCell().textContent = flow.name;
    row.insertCell().textContent = flow.failed ? t("failed", flow.failed)
      : flow.completed_s ? t("completed", figure(flow.completed_s)) : "–";
    row.insertCell().textContent = t("mean", bits(flow.goodput_bps));
  }
  const save = document.createElement("button");
  save.type = "button";
  save.textContent = t("resultSave");
  save.addEventListener("click", () => download("result.json", result, "application/json"));
  place.append(table, save);
}

function download(name, text, type) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

// --- sharing ---

async function copy(text, button, key) {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = t("copied");
    setTimeout(() => { button.textContent = t(key); }, 1500);
  } catch {
    prompt(t(key), text);
  }
}

async function openFile() {
  $("fileTrouble").hidden = true;
  $("text").value = failed ? (await states.scenario(state, fetchText)).text : await ask("toml");
  $("file").showModal();
}

async function tryFile() {
  const text = $("text").value;
  const fault = await ask("check", { name: "file.toml", text });
  $("fileTrouble").hidden = !fault;
  $("fileTrouble").textContent = t("tomlError", fault);
  if (fault) return;
  state = page.state = { ...states.fresh("free"), preset: "file", variant: "", toml: text };
  $("file").close();
  showPresets();
  open(true);
}

// --- appearance and keys ---

function label() {
  document.documentElement.lang = strings.current();
  for (const node of document.querySelectorAll("[data-t]")) node.textContent = t(node.dataset.t);
  for (const node of document.querySelectorAll("[data-label]")) node.setAttribute("aria-label", t(node.dataset.label));
  $("language").lang = strings.current() === "en" ? "ja" : "en";
  showPresets();
  trouble(...said);
  if (about) { const past = history; build(); history.rows = past.rows; history.last = past.last; }
  showRun();
  showResult();
}

const remember = (key, value) => { try { localStorage.setItem(`play.${key}`, value); } catch { /* private */ } };
const remembered = (key) => { try { return localStorage.getItem(`play.${key}`); } catch { return null; } };

function setLanguage(name) {
  strings.use(name);
  remember("language", name);
  label();
}

function setTheme(name) {
  document.documentElement.dataset.theme = name;
  if (about) { const past = history; build(); history.rows = past.rows; history.last = past.last; }
}

function toggleTheme() {
  const name = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  remember("theme", name);
  setTheme(name);
}

const otherLanguage = () => setLanguage(strings.current() === "en" ? "ja" : "en");

const KEYS = {
  " ": () => setRunning(!running),
  ",": () => setSpeed(Number($("speed").value) - 1),
  ".": () => setSpeed(Number($("speed").value) + 1),
  r: () => open(true), t: openFile, l: otherLanguage, d: toggleTheme,
  "?": () => $("keys").showModal(),
};

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const field = event.target.closest?.("input, select, textarea, button, summary, a");
  const typing = event.target.closest?.("input[type=number], select, textarea");
  if (typing || (field && event.key === " ")) return;
  const link = Number(event.key);
  if (link >= 1 && link <= mains.length) return togglePlug(about.links[mains[link - 1]].name);
  const action = KEYS[event.key.toLowerCase()];
  if (!action) return;
  event.preventDefault();
  action();
}

function onPresetKey(event) {
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  if (!step) return;
  event.preventDefault();
  const all = PRESETS.map((one) => one.id);
  choosePreset(all[(all.indexOf(state.preset) + step + all.length) % all.length], true);
}

function listen() {
  $("run").addEventListener("click", () => setRunning(!running));
  $("restart").addEventListener("click", () => open(true));
  $("speed").addEventListener("input", () => setSpeed(Number($("speed").value)));
  KINDS.forEach((kind) => $(kind).addEventListener("change", () => changePolicy(kind, $(kind).value)));
  $("count").addEventListener("change", () => { state.links = Number($("count").value); states.fit(state); open(true); });
  $("traffic").addEventListener("change", () => { state.traffic = $("traffic").value; open(true); });
  $("variant").addEventListener("change", () => { states.vary(state, $("variant").value); open(true); });
  $("seed").addEventListener("change", changeSeed);
  $("share").addEventListener("click", () => copy(location.href, $("share"), "share"));
  $("toml").addEventListener("click", openFile);
  $("fileCopy").addEventListener("click", () => copy($("text").value, $("fileCopy"), "tomlCopy"));
  $("fileSave").addEventListener("click", () => download("scenario.toml", $("text").value, "text/plain"));
  $("fileLink").addEventListener("click", async () => {
    const hash = `#toml=${await states.pack($("text").value)}`;
    copy(new URL(hash, location.href).href, $("fileLink"), "tomlLink");
  });
  $("fileOpen").addEventListener("click", tryFile);
  $("fileClose").addEventListener("click", () => $("file").close());
  $("keysClose").addEventListener("click", () => $("keys").close());
  $("help").addEventListener("click", () => $("keys").showModal());
  $("language").addEventListener("click", otherLanguage);
  $("theme").addEventListener("click", toggleTheme);
  $("presets").addEventListener("keydown", onPresetKey);
  document.addEventListener("keydown", onKey);
  window.addEventListener("hashchange", async () => {
    const left = await readAddress();
    showPresets();
    open(!still.matches, left);
  });
  // Followed as a link, it would be an address without a state.
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault();
    $("links").focus();
  });
}

/** For tests, and for who looks into the page. */
const page = window.playground = {
  state: null, result: null, hops: 0, busy: 0, history: null,
  first: NaN, toml: () => ask("toml"), speed: setSpeed, time: () => at, over: () => over,
  loads: () => [...loads().values()],
};

async function main() {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  document.documentElement.dataset.theme = remembered("theme") ?? (dark.matches ? "dark" : "light");
  dark.addEventListener("change", () => { if (!remembered("theme")) setTheme(dark.matches ? "dark" : "light"); });
  const query = new URLSearchParams(location.search);
  document.body.classList.toggle("embed", query.has("embed"));
  const wanted = query.get("lang") ?? remembered("language") ?? navigator.language.slice(0, 2);
  strings.use(wanted);
  startWorker();
  listen();
  const left = await readAddress();
  label();
  $("clock").textContent = t("starting");
  await open(!still.matches, left);
  draw();
}

main();
