// Tokens: what each one is, how it looks, what is known of it.

const SPECIAL = /^<[^<>\s]+>$/;
const READABLE = { "\n": "\u21b5\n", "\t": "\u21e5\t" };

// All tokens of an episode in the order in which the model saw them, each with its turn (-1: the prompt).
const tokensOf = (store, row, episode) => {
  const make = (id, kind, turn, numbers = {}) => ({ id, kind, turn, word: store.word(row, id), ...numbers });
  const parts = { prompt: episode.prompt_ids.map((id) => make(id, "prompt", -1)), turns: [] };
  for (const [number, turn] of episode.turns.entries()) {
    const series = Object.fromEntries(["advantages", "returns", "values"].map((name) => [name, unpackRuns(turn[name] ?? [])]));
    parts.turns.push({
      window: (number ? turn.prompt_ids : []).map((id) => make(id, "prompt", number)), // the first turn's is the episode's prompt
      action: turn.action_ids.map((id, place) => make(id, turn.sampled ? "sampled" : "given", number, {
        logprob: turn.logprobs.length ? turn.logprobs[place] / store.nats : undefined,
        surprise: turn.logprobs.length ? -turn.logprobs[place] / store.nats : undefined,
        advantage: series.advantages[place],
        return: series.returns[place],
        value: series.values[place],
      })),
      context: turn.context_ids.map((id) => make(id, "environment", number)),
    });
  }
  return parts;
};

const tokenNode = (token, colour, scales) => {
  const [kind, strength] = paint(token, colour, scales);
  const special = SPECIAL.test(token.word ?? "") ? "special" : "";
  const node = el("span", { class: `token ${kind} ${special}`, style: strength ? `--strength: ${strength.toFixed(3)}` : null });
  node.textContent = readable(token);
  node.token = token;
  return node;
};

const readable = (token) => (token.word ?? `#${token.id} `).replace(/[\n\t]/g, (letter) => READABLE[letter]);

const tokenText = (tokens) => tokens.map((token) => token.word ?? "").join("");

// A token gets its title when the pointer comes to it: an episode may have thousands.
const describe = (node) => {
  if (node.token) node.title ||= facts(node.token).map(([name, value]) => `${name} ${value}`).join("\n");
};

const facts = (token) => {
  const known = [
    ["token", JSON.stringify(token.word ?? "")],
    ["id", token.id],
    ["part", KINDS[token.kind]],
  ];
  if (token.logprob !== undefined) {
    known.push(["log-prob", `${fixed(token.logprob, 3)} nats`], ["probability", fixed(Math.exp(token.logprob), 3)]);
  }
  if (token.advantage === null) known.push(["advantage", "taken out of the update"]);
  for (const name of ["advantage", "return", "value"]) {
    if (typeof token[name] === "number") known.push([name, signed(token[name])]);
  }
  return known;
};
