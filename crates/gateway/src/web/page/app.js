// The page: asks the agent once a second and shows what it says. Text of the agent goes into the
// document as text only.

const $ = id => document.getElementById(id);
const ROLES = ["primary", "secondary", "backup", "never"];
const EVENTS = 200;
const COLOURS = 8;
const graphs = new Map();
let samples = 0;
let lastEvent = 0;
let snapshot = null;
let token = sessionStorage.getItem("token") || "";

const keyOf = path => (path.client ? path.client + "/" : "") + path.name;
const colourOf = index => "--l" + index % COLOURS;
const seriesOf = key => graphs.get(key) || { rx: [], tx: [], rtt: [] };

function set(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function make(tag, text, attributes) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  for (const [name, value] of Object.entries(attributes || {})) element.setAttribute(name, value);
  return element;
}

async function call(path, change) {
  const headers = token ? { Authorization: "Bearer " + token } : {};
  const options = { headers };
  if (change) {
    options.method = "POST";
    options.body = JSON.stringify(change);
    headers["Content-Type"] = "application/json";
  }
  const response = await fetch(path, options);
  if (response.status === 204) return null;
  const body = await response.json().catch(() => ({ error: response.statusText }));
  if (response.ok) return body;
  throw Object.assign(new Error(body.error || response.statusText), { status: response.status });
}

async function look() {
  try {
    const asked = samples;
    const next = await call(`api/state?samples=${samples}&event=${lastEvent}`);
    if (samples !== asked) return;
    // An agent that has never answered has no name, and nothing to show.
    if (next.samples.taken < samples) restart();
    else if (next.status.name || !next.error) take(next);
    trouble(next.error && "The agent does not answer: " + next.error);
  } catch (error) {
    if (error.status === 401) unlock("This page needs the token.");
    trouble(error.status ? error.message : "The agent has ended, or cannot be reached.");
  }
}

// The agent was started anew: its numbers begin again.
function restart() {
  samples = lastEvent = 0;
  graphs.clear();
  $("events").replaceChildren();
}

function take(next) {
  snapshot = next;
  const gone = new Set(graphs.keys());
  const fresh = next.samples.taken - samples > SAMPLES;
  for (const { key, rx, tx, rtt } of next.samples.paths) {
    gone.delete(key);
    const old = fresh ? { rx: [], tx: [], rtt: [] } : seriesOf(key);
    const join = (a, b) => a.concat(b).slice(-SAMPLES);
    graphs.set(key, { rx: join(old.rx, rx), tx: join(old.tx, tx), rtt: join(old.rtt, rtt) });
  }
  gone.forEach(key => graphs.delete(key));
  samples = next.samples.taken;
  next.events.forEach(addEvent);
  show();
}

function trouble(text) {
  $("trouble").hidden = !text;
  document.body.classList.toggle("stale", Boolean(text));
  set($("trouble"), text || "");
}

function show() {
  if (!snapshot) return;
  const status = snapshot.status;
  const server = status.agent === "server";
  document.title = `${status.name} - tabane`;
  set($("name"), status.name || "tabane");
  const where = status.server ? (server ? " on " : " to ") + status.server : "";
  set($("about"), `${status.agent}${where}, running for ${span(status.uptime_s)}, ${status.version}`);
  const sum = field => status.paths.reduce((total, path) => total + path[field], 0);
  set($("down"), rate(sum("rx_bps")));
  set($("up"), rate(sum("tx_bps")));
  set($("conns"), String(status.connections));
  set($("flows"), String(status.udp_flows));
  $("clients-sum").hidden = !server;
  set($("clients"), String(status.clients));
  $("token").hidden = !snapshot.changes;
  set($("token"), token ? "unlocked" : "locked");
  const lan = status.tun?.lan;
  $("lan").parentElement.hidden = !lan;
  if (lan) {
    const refused = lan.refused.filter(([, n]) => n > 0).map(([name, n]) => `${name} ${n}`);
    const places = lan.interfaces.map(one => `${one.name} (${one.networks.join(", ") || "no network"})`);
    const lines = [
      `${places.join(", ")}: ${lan.state}`,
      `${lan.hosts} addresses of hosts, ${lan.udp_flows} sources of datagrams`,
      `refused: ${refused.join(", ") || "nothing"}`,
    ];
    $("lan").replaceChildren(...lines.map(line => make("li", line)));
  }
  showLinks(status.paths);
  const happened = status.counters.filter(([, n]) => n > 0);
  const counters = happened.map(([name, n]) => make("li", `${name.replaceAll("_", " ")} ${n}`));
  $("counters").replaceChildren(...counters);
  $("counters").parentElement.hidden = counters.length === 0;
}

function showLinks(paths) {
  const keys = paths.map(keyOf);
  for (const card of [...$("links").children]) {
    if (!keys.includes(card.dataset.path)) card.remove();
  }
  paths.forEach((path, i) => showLink(path, cardOf(keys[i], i), colourOf(i)));
  const layers = keys.map((key, i) => ({ series: seriesOf(key), colour: colourOf(i) }));
  drawStack($("stack"), layers);
  $("collecting").hidden = layers.some(layer => layer.series.rx.length > 1);
  const legend = paths.map((path, i) => {
    const item = make("li", `${keys[i]} ${rate(path.rx_bps + path.tx_bps)}`);
    const dot = make("i");
    dot.style.background = `var(${colourOf(i)})`;
    item.prepend(dot);
    return item;
  });
  $("legend").replaceChildren(...legend);
}

// The card of a link at its place.
function cardOf(key, index) {
  const cards = [...$("links").children];
  let card = cards.find(card => card.dataset.path === key);
  if (!card) {
    card = $("card").content.firstElementChild.cloneNode(true);
    card.dataset.path = key;
    card.querySelector(".roles").append(...ROLES.map(role => {
      const button = make("button", role, { "data-role": role, type: "button" });
      button.addEventListener("click", () => change(card, role));
      return button;
    }));
  }
  if (cards[index] !== card) $("links").insertBefore(card, cards[index] || null);
  return card;
}

function showLink(path, card, colour) {
  const part = name => card.querySelector(name);
  const idle = path.state === "up" && path.rx_bps + path.tx_bps < 20e3;
  card.style.setProperty("--colour", `var(${colour})`);
  Object.assign(card.dataset, { state: path.state, idle: String(idle), role: path.role });
  set(part("h3"), keyOf(path));
  set(part(".state"), path.state);
  set(part(".since"), "for " + span(path.since_s));
  set(part(".reason"), path.reason || (idle ? "idle" : "in use"));
  set(part(".rx"), rate(path.rx_bps));
  set(part(".tx"), rate(path.tx_bps));
  set(part(".rtt"), path.rtt_ms === null ? "-" : path.rtt_ms.toFixed(1) + "\u00a0ms");
  set(part(".loss"), path.loss === null ? "-" : (path.loss * 100).toFixed(1) + "\u00a0%");
  const series = seriesOf(keyOf(path));
  const rates = [
    { values: series.rx, colour },
    { values: series.tx, colour: "--soft", thin: true },
  ];
  drawLine(part(".rate"), rates, 1e4, rate);
  drawLine(part(".delay"), [{ values: series.rtt, colour }], 1, ms => ms + " ms");
  showFacts(path, part("dl"));
  // A server takes each client's word for the roles of its paths.
  part(".roles").hidden = snapshot.status.agent === "server";
  for (const button of part(".roles").children) {
    button.setAttribute("aria-pressed", String(button.dataset.role === path.role));
    button.disabled = !snapshot.changes;
    button.title = snapshot.changes ? "" : "Set web_token_file to switch roles here";
  }
}

// What is known of both directions of a path; null if nothing is of either.
function knownOf(path, text) {
  const [down, up] = [path.receiving, path.sending].map(known => known ? text(known) : null);
  return down || up ? `${down || "?"} \u2193 ${up || "?"} \u2191` : null;
}

function showFacts(path, list) {
  const facts = [
    ["carried", `${bytes(path.rx_bytes)} \u2193 ${bytes(path.tx_bytes)} \u2191`],
    ["shown to carry", knownOf(path, known => known.capacity_bps === null ? null : rate(known.capacity_bps))],
    ["queue", knownOf(path, known => known.queueing_ms === null ? null : known.queueing_ms.toFixed(0) + "\u00a0ms")],
    ["packets lost", knownOf(path, known => known.loss === null ? null : (known.loss * 100).toFixed(1) + "\u00a0%")],
    ["interface", path.interface],
    ["address", path.local && path.local + (path.seen_as && path.seen_as !== path.local
      ? ", seen as " + path.seen_as : "")],
    ["largest packet", path.mtu ? path.mtu + "\u00a0B" : null],
    ["subflows", path.subflows ? `${path.subflows}, ${bytes(path.inflight_bytes)} in flight` : null],
    ["sent again", path.retransmitted_bytes ? bytes(path.retransmitted_bytes) : null],
    ["cap", path.cap_bps === null ? null : rate(path.cap_bps)],
    ["quota left", path.quota_left === null ? null : bytes(path.quota_left)],
    ["role", snapshot.status.agent === "server" ? path.role : null],
  ].filter(fact => fact[1]);
  const text = facts.join("\n");
  if (list.dataset.text === text) return;
  list.dataset.text = text;
  list.replaceChildren(...facts.flatMap(([name, value]) => [make("dt", name), make("dd", value)]));
}

function addEvent(event) {
  if (event.seq <= lastEvent) return;
  lastEvent = event.seq;
  const item = make("li", undefined, { "data-kind": event.kind });
  const at = new Date(event.unix_ms);
  const time = make("time", at.toLocaleTimeString([], { hour12: false }));
  time.title = at.toLocaleString();
  const whose = event.client ? `${event.client}: ` : "";
  item.append(time, make("span", whose + event.text));
  $("events").prepend(item);
  while ($("events").children.length > EVENTS) $("events").lastElementChild.remove();
}

async function lookAtConnections() {
  if (document.hidden) return;
  const { open, connections } = await call("api/connections").catch(() => ({}));
  if (!connections) return;
  const hidden = open - connections.length;
  set($("more"), hidden > 0 ? `${connections.length} that carried most, of ${open}` : "");
  $("connections").replaceChildren(...connections.map(showConnection));
}

function showConnection(conn) {
  const row = make("tr");
  const target = make("td", (conn.client ? conn.client + ": " : "") + conn.target);
  target.title = `${conn.id}, open for ${span(conn.age_s)}, ${conn.policies.join(", ")}`;
  const by = make("td", conn.subflows.map(subflow => subflow.path).join(", "));
  const share = make("span", undefined, { class: "share" });
  const names = snapshot ? snapshot.status.paths.map(keyOf) : [];
  for (const subflow of conn.subflows) {
    const part = make("span");
    part.style.flexGrow = String(subflow.rx_bytes + subflow.tx_bytes);
    part.style.background = `var(${colourOf(Math.max(0, names.indexOf(subflow.path)))})`;
    share.append(part);
  }
  by.append(share);
  row.append(target, make("td", bytes(conn.rx_bytes)), make("td", bytes(conn.tx_bytes)), by);
  return row;
}

async function change(card, role) {
  if (card.dataset.role === role) return;
  if (!token && !(await unlock(""))) return;
  const path = snapshot.status.paths.find(path => keyOf(path) === card.dataset.path);
  try {
    await call("api/path", { path: path.name, role });
    trouble("");
  } catch (error) {
    if (error.status === 401) {
      forget();
      if (await unlock("That was not the token.")) await change(card, role);
      return;
    }
    trouble(error.message);
  }
  await look();
}

function forget() {
  token = "";
  sessionStorage.removeItem("token");
}

// Asks for the token; whether one was given.
function unlock(wrong) {
  const dialog = $("ask");
  if (dialog.open) return Promise.resolve(false);
  $("wrong").hidden = !wrong;
  set($("wrong"), wrong);
  $("given").value = "";
  dialog.returnValue = "no";
  dialog.showModal();
  return new Promise(resolve => dialog.addEventListener("close", () => {
    if (dialog.returnValue !== "yes" || !$("given").value) return resolve(false);
    token = $("given").value.trim();
    sessionStorage.setItem("token", token);
    show();
    resolve(true);
  }, { once: true }));
}

$("token").addEventListener("click", () => {
  if (!token) return unlock("");
  forget();
  show();
});
$("theme").addEventListener("click", () => {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const now = document.documentElement.dataset.theme || (dark ? "dark" : "light");
  setTheme(now === "dark" ? "light" : "dark");
  show();
});
function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  localStorage.setItem("theme", theme);
}
if (localStorage.getItem("theme")) setTheme(localStorage.getItem("theme"));
// http://ADDRESS/#token=... unlocks; browsers do not send what is behind the #.
if (location.hash.startsWith("#token=")) {
  token = decodeURIComponent(location.hash.slice(7));
  sessionStorage.setItem("token", token);
  window.history.replaceState(null, "", location.pathname);
}
window.addEventListener("resize", show);
// An empty graph until the agent has answered.
drawStack($("stack"), []);
const every = (ms, what) => what().finally(() => setTimeout(() => every(ms, what), ms));
every(1000, look).then(() => {});
every(2000, lookAtConnections);
