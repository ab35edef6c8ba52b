// The state of the page, which lives in its address: #p=bicast&v=50MB&link.wifi.rate=20Mbps.
// Keys with a dot, and `seed`, are values over the scenario as with `--set`.

import { bench, preset, PRESETS, TRAFFIC } from "./presets.js";

export const fresh = (id = "free") => ({
  preset: id, variant: preset(id)?.variants?.[0].id ?? "", links: 2, traffic: "bulk",
  sets: {}, down: [], toml: "",
});

/** Reads an address' fragment. What it does not know is left out. */
export async function read(hash) {
  const query = new URLSearchParams(hash.replace(/^#/, ""));
  const state = fresh(PRESETS.some((one) => one.id === query.get("p")) ? query.get("p") : "free");
  const known = preset(state.preset).variants?.some((one) => one.id === query.get("v"));
  if (known) state.variant = query.get("v");
  const links = Number(query.get("n"));
  if (links >= 2 && links <= 4) state.links = Math.floor(links);
  if (TRAFFIC[query.get("traffic")]) state.traffic = query.get("traffic");
  state.down = (query.get("down") ?? "").split(",").filter(Boolean);
  for (const [key, value] of query) {
    if (key.includes(".") || key === "seed") state.sets[key] = value;
  }
  if (query.get("toml")) {
    state.preset = "file";
    state.variant = "";
    state.toml = await unpack(query.get("toml"));
  }
  return state;
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
  const cuts = state.down.map((name) => `\n[[at]]\ntime = 0\ndown = "${name.replace(/[^\w-]/g, "")}"\n`);
  return { name: one?.file ?? `${state.preset}.toml`, text: text + cuts.join(""),
           sets: [...(variant?.raw ?? []), ...lines] };
}

/** What a key is set to: by hand, by the variant or by the preset. */
export function value(state, key) {
  const one = preset(state.preset);
  const variant = one?.variants?.find((it) => it.id === state.variant);
  return state.sets[key] ?? variant?.sets?.[key] ?? one?.sets?.[key];
}

async function through(bytes, stream) {
  const reply = new Response(new Blob([bytes]).stream().pipeThrough(stream));
  return new Uint8Array(await reply.arrayBuffer());
}

export async function pack(text) {
  const bytes = await through(new TextEncoder().encode(text), new CompressionStream("deflate-raw"));
  const letters = btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
  return letters.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

async function unpack(letters) {
  try {
    const text = atob(letters.replaceAll("-", "+").replaceAll("_", "/"));
    const bytes = Uint8Array.from(text, (letter) => letter.charCodeAt(0));
    return new TextDecoder().decode(await through(bytes, new DecompressionStream("deflate-raw")));
  } catch {
    return "";
  }
}
