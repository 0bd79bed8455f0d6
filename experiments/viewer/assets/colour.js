// What a token's background says.

const SURPRISE = 4; // nats at which the colour is full

const KINDS = { prompt: "prompt", environment: "environment", sampled: "sampled", given: "given (not sampled)" };

const COLOURS = {
  mask: { label: "mask" },
  advantage: { label: "advantage", series: "advantages", scale: 0, signed: true },
  return: { label: "return", series: "returns", scale: 1, signed: true },
  value: { label: "value", series: "values", scale: 2, signed: true },
  surprise: { label: "surprise", series: "log-probabilities" },
};

const OUTCOMES = {
  won: { mark: "\u2713", label: "won" },
  lost: { mark: "\u2717", label: "lost" },
  drawn: { mark: "=", label: "drawn" },
  out_of_turns: { mark: "\u2026", label: "out of turns" },
  out_of_context: { mark: "\u25a4", label: "out of context" },
  error: { mark: "!", label: "error" },
};

// Class and strength in [0, 1] of a token's background.
const paint = (token, name, scales) => {
  const colour = COLOURS[name];
  if (!colour.series) return [token.kind, 0];
  if (token.kind === "prompt" || token.kind === "environment") return ["quiet", 0];
  const number = token[name];
  if (number === null) return ["removed", 0];
  if (number === undefined) return ["", 0];
  if (!colour.signed) return ["surprise", Math.min(1, number / SURPRISE)];
  if (number === 0) return ["", 0]; // neither sign: no colour
  const scale = scales[colour.scale] || 1;
  return [number < 0 ? "minus" : "plus", Math.min(1, Math.abs(number) / scale)];
};

// `tokens`: those of the episode in sight, which may not have what is asked for.
const legend = (name, scales, tokens) => {
  const colour = COLOURS[name];
  if (name === "mask") return Object.keys(KINDS).map((kind) => el("span", { class: `token ${kind}` }, KINDS[kind]));
  if (tokens.length && tokens.every((token) => token[name] === undefined)) return [`no ${colour.series} on record for this episode`];
  if (!colour.signed) return ramp("surprise", "0", `\u2265 ${SURPRISE} nats (\u2212log p)`);
  const scale = short(scales[colour.scale]);
  return [...ramp("minus", `\u2264 \u2212${scale}`, "0", true), ...ramp("plus", "", `\u2265 +${scale}`)];
};

const ramp = (kind, from, to, reversed = false) => {
  const steps = [0.1, 0.4, 0.7, 1];
  if (reversed) steps.reverse();
  const boxes = steps.map((strength) => el("i", { class: `swatch ${kind}`, style: `--strength: ${strength}` }));
  return [el("span", {}, from), ...boxes, el("span", {}, to)];
};

const short = (number, digits = 3) => {
  if (number === null || number === undefined || Number.isNaN(number)) return "\u2013";
  return Number(Number(number).toPrecision(digits)).toString().replace("-", "\u2212");
};

const fixed = (number, digits) => (Number.isFinite(number) ? number.toFixed(digits).replace("-", "\u2212") : "\u2013");

const signed = (number) => (number > 0 ? `+${short(number)}` : short(number));

const count = (number) => number.toLocaleString("en");

const plural = (number, noun) => `${count(number)} ${noun}${number === 1 ? "" : "s"}`;

// Elements, with text as text: nothing here ever parses HTML.
const el = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);

const svg = (tag, attributes = {}, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

const fill = (node, attributes, children) => {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name.startsWith("aria-")) node.setAttribute(name, String(value));
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== undefined && value !== null) node.setAttribute(name, value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
};
