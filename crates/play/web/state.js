// The state of the page, which lives in its address: #p=bicast&v=50MB&link.wifi.rate=20Mbps.
// Keys with a dot, and `seed`, are values over the scenario as with `--set`.

import { bench, NAMES, preset, PRESETS, TRAFFIC } from "./presets.js";

export const fresh = (id = "free") => ({
  preset: id, variant: preset(id)?.variants?.[0].id ?? "", links: 2, traffic: "bulk",
  sets: {}, down: [], toml: "",
});

/** Characters that are not seen as what they are, or that shells take for more than a character. */
const ODD = /[\p{C}\p{Zl}\p{Zp}\\]/u;
/** A key with a dot, whose first `=` is not in it but for names in quotes. */
const KEY = /^(?!-)(?=.*\.)(?:[^="']|"[^"]*"|'[^']*')+$/;
const MOST_SEED = 2n ** 63n - 1n;
/** Bytes of a file in an address, at most: some letters could hold a file that fills the memory. */
const MOST_TEXT = 4 << 20;

export const isSeed = (text) => /^\d{1,19}$/.test(text) && BigInt(text) <= MOST_SEED;

/** The key that sets something of a link, of one direction or of both; names as `--set` takes them. */
export function linkKey(link, key, way) {
  // Without a backslash where that can be: an address with one is not taken.
  const quoted = () => (link.includes('"') && !link.includes("'") ? `'${link}'` : JSON.stringify(link));
  const name = /[.="']/.test(link) ? quoted() : link;
  return ["link", name, ...(way ? [way] : []), key].join(".");
}

/** Whether a link's directions are set apart by hand, or shall be: both may have one value now. */
export function isSplit(state, link, key) {
  const split = preset(state.preset)?.split ?? {};
  return (Object.hasOwn(split, link) && split[link].includes(key))
    || ["up", "down"].some((way) => linkKey(link, key, way) in state.sets);
}

/** Reads an address' fragment: the state, and what of the address is left out as it cannot be. */
export async function read(hash) {
  const query = new URLSearchParams(hash.replace(/^#/, ""));
  const text = query.get("toml") ? await unpack(query.get("toml")) : null;
  const id = PRESETS.some((one) => one.id === query.get("p")) ? query.get("p") : "free";
  const state = text === null ? fresh(id) : { ...fresh(), preset: "file", variant: "", toml: text };
  const left = [];
  const choose = (key, value, known) => {
    if (known) state[key] = value;
    return known;
  };
  const cut = (names) => {
    const odd = names.filter((name) => ODD.test(name));
    state.down = names.filter((name) => name && !odd.includes(name));
    return odd.length === 0;
  };
  const set = (key, value, sound) => {
    if (sound) state.sets[key] = value;
    return sound;
  };
  const keys = new Map(Object.entries({
    p: (it) => it === id,
    toml: () => text !== null,
    v: (it) => choose("variant", it, preset(state.preset)?.variants?.some((one) => one.id === it)),
    n: (it) => choose("links", Number(it), /^[2-4]$/.test(it)),
    traffic: (it) => choose("traffic", it, TRAFFIC.has(it)),
    down: (it) => cut(it.split(",")),
    seed: (it) => set("seed", it, isSeed(it)),
  }));
  for (const [key, value] of query) {
    // A key that began with a hyphen would be an option of the command line.
    const sound = keys.has(key) ? keys.get(key)(value)
      : set(key, value, KEY.test(key) && !ODD.test(key + value));
    if (!sound) left.push(`${key}=${value}`);
  }
  return { state, left: [...left, ...fit(state)].map(shorten) };
}

const shorten = (text) => {
  const shown = text.replace(new RegExp(ODD, "gu"), "\u{fffd}");
  return shown.length > 60 ? `${shown.slice(0, 60)}…` : shown;
};

/** Takes out of a state what is said of links that its bench has not got, and gives it back. */
export function fit(state) {
  if (state.preset !== "free") return [];
  const here = NAMES.slice(0, state.links);
  const gone = Object.keys(state.sets)
    .filter((key) => key.startsWith("link.") && !here.includes(key.split(".")[1]));
  const cut = state.down.filter((name) => !here.includes(name));
  const all = [...gone.map((key) => `${key}=${state.sets[key]}`), ...cut.map((name) => `down=${name}`)];
  for (const key of gone) delete state.sets[key];
  state.down = state.down.filter((name) => here.includes(name));
  return all;
}

/** Chooses a variant: what variants set is no longer as it was set by hand. */
export function vary(state, id) {
  state.variant = id;
  for (const { sets, raw } of preset(state.preset).variants) {
    const keys = [...Object.keys(sets ?? {}), ...(raw ?? []).map((line) => line.split("=")[0])];
    for (const key of keys) delete state.sets[key];
  }
}

/** The fragment that reads back to this state. */
export async function write(state) {
  const query = new URLSearchParams();
  if (state.preset === "file") query.set("toml", await pack(state.toml));
  else query.set("p", state.preset);
  const one = preset(state.preset);
  if (state.variant && state.variant !== one?.variants?.[0].id) query.set("v", state.variant);
  if (state.preset === "free") {
    query.set("n", state.links);
    query.set("traffic", state.traffic);
  }
  for (const [key, value] of Object.entries(state.sets)) query.set(key, value);
  if (state.down.length) query.set("down", state.down.join(","));
  return "#" + query;
}

/** The scenario file of a state, and what is set over it. */
export async function scenario(state, fetchText) {
  const one = preset(state.preset);
  let text = state.toml;
  if (state.preset === "free") text = bench(state.links, state.traffic);
  else if (one) text = await fetchText(one.file);
  const variant = one?.variants?.find((it) => it.id === state.variant);
  const sets = { ...one?.sets, ...variant?.sets, ...state.sets };
  const lines = Object.entries(sets).map(([key, value]) => `${key}=${value}`);
  const cuts = state.down.map((name) => `\n[[at]]\ntime = 0\ndown = ${JSON.stringify(name)}\n`);
  return { name: one?.file ?? `${state.preset}.toml`, text: text + cuts.join(""),
           sets: [...(variant?.raw ?? []), ...lines] };
}

/** In quotes, unless it is plain: whatever it is, it is one word to a shell. */
const quote = (it) => (/^[\w.=%/-]+$/.test(it) ? it : `'${it.replaceAll("'", "'\\''")}'`);

/** What gives a scenario of a state on the command line, but for changes by hand. */
export function command(state, { name, sets }) {
  return preset(state.preset)?.file
    ? `tabane sim run ${name} \\\n  ${sets.map((it) => `--set ${quote(it)}`).join(" \\\n  ")}`
    : "tabane sim run FILE.toml";
}

/** What a key is set to: by hand, by the variant or by the preset. */
export function value(state, key) {
  const one = preset(state.preset);
  const variant = one?.variants?.find((it) => it.id === state.variant);
  return state.sets[key] ?? variant?.sets?.[key] ?? one?.sets?.[key];
}

async function through(bytes, stream, most = Infinity) {
  const reader = new Blob([bytes]).stream().pipeThrough(stream).getReader();
  const parts = [];
  let size = 0;
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    size += part.value.length;
    if (size > most) throw new RangeError("the file is too long");
    parts.push(part.value);
  }
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}

export async function pack(text) {
  const bytes = await through(new TextEncoder().encode(text), new CompressionStream("deflate-raw"));
  const letters = btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
  return letters.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** Null where it is no packed text. */
async function unpack(letters) {
  try {
    const text = atob(letters.replaceAll("-", "+").replaceAll("_", "/"));
    const bytes = Uint8Array.from(text, (letter) => letter.charCodeAt(0));
    const all = await through(bytes, new DecompressionStream("deflate-raw"), MOST_TEXT);
    return new TextDecoder("utf-8", { fatal: true }).decode(all);
  } catch {
    return null;
  }
}
