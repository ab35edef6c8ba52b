// In place of the WebAssembly module: the same class, whose calls the test answers. A worker may
// wait for an answer, so that nothing of the page has to know.

const call = (play, what, args) => {
  const request = new XMLHttpRequest();
  request.open("POST", new URL("call", import.meta.url), false);
  request.send(JSON.stringify([play, what, args]));
  const { value, error } = JSON.parse(request.responseText);
  if (error !== undefined) throw new Error(error);
  return value;
};

export default async () => {};

export class Play {
  constructor(...args) { this.play = call(0, "new", args); }
  sample() { return Float64Array.from(call(this.play, "sample", []), (it) => it ?? NaN); }
  dots(most) { return Float32Array.from(call(this.play, "dots", [most])); }
}

const ALIKE = ["free", "advance", "now", "is_over", "packet_hops", "change", "set_policy", "toml",
               "about", "status", "finish"];
for (const name of ALIKE) {
  Play.prototype[name] = function (...args) { return call(this.play, name, args); };
}
