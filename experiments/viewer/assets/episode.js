// One episode: its facts, its turns, its tokens.

class EpisodeView {
  constructor(store, settings, open) {
    Object.assign(this, { store, settings, open });
    this.node = el("article", { class: "episode", tabindex: -1 });
    this.turn = -1;
  }

  show(row, episode) {
    Object.assign(this, { row, episode, parts: tokensOf(this.store, row, episode), turn: -1 });
    this.draw();
    this.node.scrollTop = 0;
  }

  // Again with other settings, at the same place.
  draw() {
    if (!this.row) return; // nothing is listed
    const place = this.node.scrollTop;
    const turns = this.settings.view === "tokens" ? [this.sequence()] : this.reading();
    this.node.replaceChildren(this.head(), strip(this), ...turns, this.end());
    this.node.scrollTop = place;
  }

  empty() {
    this.row = null;
    this.node.replaceChildren(el("p", { class: "nothing" }, "No episode passes the filters."));
  }

  // ---- head

  head() {
    const { row, episode } = this;
    const { mark, label } = OUTCOMES[row.outcome];
    const tokens = (part) => this.parts.turns.reduce((sum, turn) => sum + turn[part].length, 0);
    const facts = [
      ["run", row.run], ["stage", row.stage], ["step", row.step || ""], ["sample", row.sample], ["split", episode.split],
      ["seed", episode.seed], ["policy", `${episode.policy}${row.step ? ` (weights of step ${episode.policy_version})` : ""}`],
      ["turns", row.turns], ["not understood", row.invalid || ""], ["without an action", row.unparsed || ""], ["retries", episode.retries || ""],
      ["tokens", `${count(episode.prompt_ids.length + tokens("window"))} prompt, ${count(tokens("action"))} ${episode.turns.every((turn) => turn.sampled) ? "sampled" : "given"}, ${count(tokens("context"))} environment`],
      ["branched off from sample", row.parent ?? ""], ["told besides", episode.guidance ?? ""], ["learned from", episode.trained === false ? "no" : ""],
      ["learned from again in", episode.again.map(([step, advantage]) => `step ${step}${advantage === null ? ", in another's place" : ` (advantage ${signed(advantage)})`}`).join(", ")],
      ["in its place was learned from", row.replaced === null ? "" : `an episode of step ${row.replaced}`],
      ...Object.entries(row.rewards).map(([name, total]) => [`reward ${name}`, signed(total)]),
      ...Object.entries(episode.shaping ?? {}).map(([name, number]) => [`shaping ${name}`, signed(number)]),
    ];
    return el("header", {},
      el("h2", {}, el("span", { class: `badge ${row.outcome}` }, `${mark} ${label}`), ` ${row.task}/`, el("em", {}, row.game),
        el("a", { class: "link", title: "a link to this episode", href: `#${row.address}` }, `#${row.address}`)),
      el("dl", {}, facts.filter(([, value]) => value !== "").map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, String(value))))),
      this.others(),
      this.group(),
      episode.error && el("p", { class: "error" }, episode.error));
  }

  others() {
    const { row } = this;
    const siblings = this.store.siblings(row);
    const elsewhere = this.store.sameGame(row).filter((other) => other.stage !== row.stage || other.step !== row.step);
    const firsts = elsewhere.filter((other, place) => place === 0 || other.stage !== elsewhere[place - 1].stage || other.step !== elsewhere[place - 1].step);
    return el("div", { class: "others" },
      this.store.flat(row) && el("div", {}, el("span", { class: "quiet-group" }, "no signal: all samples of this group earned the same")),
      siblings.length > 1 && this.links(`${siblings.length} samples of this game`, siblings, (other) => other.sample),
      firsts.length > 0 && this.links("the same game in", firsts.slice(0, 24), (other) => (other.step ? `step ${other.step}` : other.stage)));
  }

  // What the samples of a group have in common, drawn once somebody looks.
  group() {
    const siblings = this.store.siblings(this.row);
    if (siblings.length < 2) return null;
    const branched = siblings.some((row) => row.parent !== null);
    const details = el("details", { class: "group", open: this.settings.graph }, el("summary", {}, branched ? "The tree of these samples" : "States that these samples met"));
    const draw = async () => {
      this.settings.graph = details.open;
      if (!details.open || details.children.length > 1) return;
      const picture = el("div", { class: "picture" });
      details.append(picture, el("p", {}, branched ? BRANCHES : STATES));
      const members = await Promise.all(siblings.map(async (row) => this.member(row)));
      picture.replaceChildren(graphPicture(graphOf(members), this.row.number, this.store.scales[0], (place) => this.goto(place)));
    };
    details.addEventListener("toggle", draw);
    return details;
  }

  async member(row) {
    const episode = await this.store.episode(row.number);
    return { row, episode, advantages: episode.turns.map((turn) => mean(unpackRuns(turn.advantages ?? []))) };
  }

  links(title, rows, label) {
    return el("div", {}, el("span", {}, `${title}: `), rows.map((other) => el("button", {
      type: "button", class: `other ${other.outcome}`, "aria-current": other.number === this.row.number,
      title: `${OUTCOMES[other.outcome].label}, ${plural(other.turns, "turn")}`, onclick: () => this.open(other.number),
    }, `${OUTCOMES[other.outcome].mark} ${label(other)}`)));
  }

  // ---- as text

  reading() {
    const { episode } = this;
    const prompt = el("details", { class: "told" }, el("summary", {}, "Prompt"),
      episode.messages.map((message) => el("div", { class: "message" }, el("b", {}, message.role), el("p", {}, this.marked(message.content)))));
    return [
      el("p", { class: "goal" }, el("b", {}, "Goal "), this.marked(episode.goal)),
      episode.messages.length > 0 && prompt,
      (episode.prefix ?? []).map((turn) => replayed(turn)),
      episode.turns.map((turn, number) => this.turnNode(turn, number)),
    ].flat().filter(Boolean);
  }

  turnNode(turn, number) {
    return el("section", { class: `turn${turn.valid ? "" : " invalid"}${turn.shared ? " replayed" : ""}`, "data-turn": number },
      el("h3", {}, String(number + 1)),
      el("div", { class: "body" },
        this.anew(number),
        el("p", { class: seenClass(turn.observation) }, this.marked(turn.observation)),
        turn.admissible && el("details", { class: "told admissible" }, el("summary", {}, plural(turn.admissible.length, "admissible action")),
          el("p", {}, this.marked(turn.admissible.join(", ")))),
        this.action(turn, number),
        turn.shared && el("span", { class: "quiet-group" }, "sampled in another episode of this group"),
        turn.compared && comparison(turn.compared),
        turn.role && el("span", { class: "quiet-group" }, answeredBy(turn)),
        this.numbers(turn, number)));
  }

  // What the model saw in place of the turns before. If each turn has a prompt of its own (prompt.history), that is told once.
  anew(number) {
    const lengths = this.parts.turns.map((turn) => turn.window.length);
    if (!lengths[number]) return null;
    const each = lengths.length > 2 && lengths.slice(1).every(Boolean);
    if (each && number > 1) return this.settings.view === "tokens" && el("p", { class: "anew" });
    return el("p", { class: "anew" }, each ? "From here on each turn has a prompt of its own." : moved(lengths[number]));
  }

  action(turn, number) {
    const tokens = this.parts.turns[number].action;
    const readable = tokens.length > 0 && tokens.every((token) => token.word !== undefined);
    const said = tokenText(tokens.filter((token) => !SPECIAL.test(token.word ?? ""))).trim();
    const shown = readable ? tokens.map((token) => tokenNode(token, this.settings.colour, this.store.scales)) : this.marked(turn.action);
    return el("div", { class: "action" }, el("code", {}, shown),
      !readable && turn.thought && el("span", { class: "meant thought" }, "thought ", el("code", {}, this.marked(turn.thought))),
      readable && turn.parsed !== false && said !== turn.action.trim() && el("span", { class: "meant" }, "taken as ", el("code", {}, this.marked(turn.action))),
      !turn.valid && el("span", { class: "flag" }, wrongWith(turn)));
  }

  numbers(turn, number) {
    const tokens = this.parts.turns[number].action;
    const known = turnFacts(turn, tokens);
    return el("details", { class: "numbers" },
      el("summary", {}, known.map(([name, value]) => [el("span", { class: "fact" }, `${name} `, el("b", {}, value)), " "])),
      Object.keys(turn.info).length > 0 && el("pre", {}, JSON.stringify(turn.info, null, 2)));
  }

  end() {
    const { row, episode } = this;
    return el("section", { class: `turn end ${row.outcome}` }, el("h3", {}, OUTCOMES[row.outcome].mark),
      el("div", { class: "body" }, el("p", { class: seenClass(episode.final_observation) }, this.marked(episode.final_observation)),
        el("p", {}, el("span", { class: `badge ${row.outcome}` }, OUTCOMES[row.outcome].label), ` after ${plural(row.turns, "turn")}`)));
  }

  // ---- as tokens

  sequence() {
    const node = (token) => tokenNode(token, this.settings.colour, this.store.scales);
    const { prompt, turns } = this.parts;
    if (!prompt.length && !turns.some((turn) => turn.action.length)) return el("p", { class: "nothing" }, "This episode was played in text: it has no tokens.");
    return el("div", { class: "sequence" }, el("span", {}, prompt.map(node)),
      turns.map((turn, number) => [
        this.anew(number),
        el("span", { "data-turn": number }, [...turn.window, ...turn.action, ...turn.context].map(node)),
      ]));
  }

  // ---- moving

  get written() {
    return this.row ? this.parts.turns.flatMap((turn) => turn.action) : [];
  }

  goto(number) {
    this.turn = Math.max(0, Math.min(this.episode.turns.length - 1, number));
    const target = this.node.querySelector(`[data-turn="${this.turn}"]`);
    if (!target) return;
    for (const old of this.node.querySelectorAll(".here")) old.classList.remove("here");
    target.classList.add("here");
    const head = this.node.querySelector(".strip").offsetHeight;
    this.node.scrollTop += target.getBoundingClientRect().top - this.node.getBoundingClientRect().top - head - 8;
  }

  // Text with what was searched for marked.
  marked(text) {
    const needle = this.settings.needle();
    if (!needle) return [text];
    const parts = [], lower = text.toLowerCase();
    let from = 0;
    for (let at = lower.indexOf(needle); at >= 0; at = lower.indexOf(needle, from)) {
      parts.push(text.slice(from, at), el("mark", {}, text.slice(at, at + needle.length)));
      from = at + needle.length;
    }
    return [...parts, text.slice(from)];
  }
}

const STATES = "Equal observations are one state, with how often it was met; an action's line is as thick as it is frequent, and has the colour of its mean advantage. Outlined: this episode.";
const BRANCHES = "A line a turn, from left to right, with the colour of its mean advantage; samples part where they branch off. Outlined: this episode.";

// A turn that the prompt replays, before the policy's first.
const replayed = (turn) => el("section", { class: "turn replayed" }, el("h3", {}), el("div", { class: "body" },
  el("p", { class: seenClass(turn.observation) }, turn.observation), el("div", { class: "action" }, el("code", {}, turn.action), el("span", { class: "quiet-group" }, "replayed, not learned from"))));

const answeredBy = ({ role, aside }) => (role === "summary" ? "a summary, which the model saw in place of its earlier turns from here on"
  : `${role}${aside ? ", to another role" : ""}`);

const wrongWith = (turn) => (turn.parsed !== false ? "not understood" : "no action");

const moved = (tokens) => `The window moved on: from here the model saw ${plural(tokens, "prompt token")} in place of all that came before.`;

// Three lines of equal length are a map, whose columns a proportional font would shift.
const seenClass = (text) => text.split("\n").some((line, at, lines) =>
  line.length > 3 && [1, 2].every((next) => lines[at + next]?.length === line.length)) ? "seen map" : "seen";

const mean = (numbers) => {
  const some = numbers.filter((number) => typeof number === "number");
  return some.length ? some.reduce((sum, number) => sum + number, 0) / some.length : undefined;
};

const turnFacts = (turn, tokens) => {
  const logprob = mean(tokens.map((token) => token.logprob));
  const advantages = tokens.map((token) => token.advantage).filter((number) => typeof number === "number");
  const value = tokens.find((token) => typeof token.value === "number")?.value;
  const facts = Object.entries(turn.rewards).map(([name, reward]) => [`reward ${name}`, signed(reward)]);
  if (turn.score_delta) facts.push(["score", signed(turn.score_delta)]);
  if (advantages.length) facts.push(["advantage", spread(advantages)]);
  if (turn.layers) facts.push(["credit", layered(turn.layers)]);
  if (value !== undefined) facts.push(["value", signed(value)]);
  if (logprob !== undefined) facts.push(["log-prob", `${fixed(logprob, 3)} nats/token`]);
  if (tokens.length) facts.push(["tokens", tokens.length]);
  facts.push(["environment", `${short(turn.env_seconds)} s`]);
  return facts;
};

// "grpo +0.5, gigpo -0.3": what the estimator gave the turn, and what each method added to that.
const layered = (layers) => Object.entries(layers).map(([name, after], place, all) =>
  `${name} ${signed(place ? after - all[place - 1][1] : after)}`).join(", ");

// Numbers side by side: a bar each, to the left of the middle below zero, as long as on the page's common scale.
const comparison = (numbers) => el("dl", { class: "compared" }, Object.entries(numbers).map(([name, number]) => {
  const share = Math.min(1, Math.abs(number) / COMPARED);
  const bar = svg("svg", { width: 84, height: 10, "aria-hidden": "true" }, [svg("line", { x1: 42, x2: 42, y1: 0, y2: 10, class: "zero" }),
    svg("rect", { x: number < 0 ? 42 - 40 * share : 42, width: 40 * share, y: 2, height: 6, class: number < 0 ? "minus" : "plus" })]);
  return el("div", {}, el("dt", {}, name), el("dd", {}, bar, signed(number)));
}));

const COMPARED = 3; // standard deviations

const spread = (numbers) => {
  const low = Math.min(...numbers), high = Math.max(...numbers);
  return signed(low) === signed(high) ? signed(low) : `${signed(low)} to ${signed(high)}`;
};
