// Which episodes are listed, and in what order.

const ORDERS = {
  "as recorded": (a, b) => a.number - b.number,
  "reward, highest first": (a, b, reward) => (b.rewards[reward] ?? -Infinity) - (a.rewards[reward] ?? -Infinity),
  "reward, lowest first": (a, b, reward) => (a.rewards[reward] ?? Infinity) - (b.rewards[reward] ?? Infinity),
  "shortest first": (a, b) => a.turns - b.turns || a.tokens - b.tokens,
  "longest first": (a, b) => b.turns - a.turns || b.tokens - a.tokens,
};

// What an episode may have, beside how it ended.
const FLAWS = {
  invalid: { label: "not understood", of: (store, row) => row.invalid > row.unparsed },
  unparsed: { label: "no action", of: (store, row) => row.unparsed > 0 },
  flat: { label: "group without signal", of: (store, row) => store.flat(row) },
};

class Filters {
  constructor(store, changed) {
    this.store = store;
    this.changed = changed;
    this.rewards = [...new Set(store.rows.flatMap((row) => Object.keys(row.rewards)))].sort();
    this.node = el("form", { class: "filters", role: "search", onsubmit: (event) => event.preventDefault() });
    this.clear();
  }

  clear() {
    Object.assign(this, { outcomes: new Set(), flaws: new Set(), chosen: { run: "", stage: "", task: "" }, matches: null, needle: "" });
    this.range = { step: [null, null], reward: [null, null] };
    this.order = Object.keys(ORDERS)[0];
    this.reward = this.rewards[0] ?? "";
    this.build();
  }

  get active() {
    const ranges = Object.values(this.range).flat().some((end) => end !== null);
    return this.outcomes.size > 0 || this.flaws.size > 0 || this.needle !== "" || ranges || Object.values(this.chosen).some(Boolean);
  }

  rows() {
    const all = this.store.rows.filter((row) => this.keeps(row));
    this.countOutcomes(all);
    const kept = all.filter((row) => (!this.outcomes.size || this.outcomes.has(row.outcome)) && [...this.flaws].every((name) => FLAWS[name].of(this.store, row)));
    return kept.sort((a, b) => ORDERS[this.order](a, b, this.reward) || a.number - b.number);
  }

  keeps(row) {
    for (const [name, value] of Object.entries(this.chosen)) if (value && row[name] !== value) return false;
    if (this.matches && !this.matches.has(row.number)) return false;
    return within(row.step, this.range.step) && within(row.rewards[this.reward], this.range.reward);
  }

  // ---- controls

  build() {
    this.search = el("input", { type: "search", class: "search", placeholder: "Search text, or a game's number  ( / )",
      "aria-label": "search text", oninput: () => this.searched(),
      onfocus: () => this.store.texts() }); // read before the first letter is typed
    const many = Object.keys(this.chosen).map((name) => this.select(name)).filter(Boolean);
    this.node.replaceChildren(this.search, this.chips(), ...this.flawChips(), ...many, ...this.ranges(), this.orders());
  }

  chips() {
    const present = Object.keys(OUTCOMES).filter((outcome) => this.store.rows.some((row) => row.outcome === outcome));
    this.buttons = new Map(present.map((outcome) => [outcome, this.chip(outcome)]));
    return el("div", { class: "chips", role: "group", "aria-label": "outcome" }, ...this.buttons.values());
  }

  chip(outcome) {
    const { mark, label } = OUTCOMES[outcome];
    return this.toggle(this.outcomes, outcome, { class: `chip ${outcome}`, "data-outcome": outcome }, el("b", {}, mark), ` ${label} `, el("small"));
  }

  // Only those that some episode has.
  flawChips() {
    this.flawed = new Map(Object.entries(FLAWS).filter(([, { of }]) => this.store.rows.some((row) => of(this.store, row))).map(([name, { label }]) =>
      [name, this.toggle(this.flaws, name, { class: "chip error", "data-flaw": name }, `${label} `, el("small"))]));
    return this.flawed.size ? [el("div", { class: "chips", role: "group", "aria-label": "with" }, ...this.flawed.values())] : [];
  }

  toggle(set, name, attributes, ...children) {
    const button = el("button", { type: "button", "aria-pressed": "false", ...attributes }, ...children);
    button.addEventListener("click", () => {
      if (!set.delete(name)) set.add(name);
      button.setAttribute("aria-pressed", set.has(name));
      this.changed();
    });
    return button;
  }

  countOutcomes(rows) {
    for (const [outcome, button] of this.buttons) {
      button.querySelector("small").textContent = count(rows.filter((row) => row.outcome === outcome).length);
    }
    for (const [name, button] of this.flawed) button.querySelector("small").textContent = count(rows.filter((row) => FLAWS[name].of(this.store, row)).length);
  }

  select(name) {
    const values = [...new Set(this.store.rows.map((row) => row[name]))].sort(naturally);
    if (values.length < 2) return null;
    const options = values.map((value) => el("option", { value }, value || "(none)"));
    return el("label", {}, name, el("select", { name, onchange: (event) => {
      this.chosen[name] = event.target.value;
      this.changed();
    } }, el("option", { value: "" }, `all ${values.length}`), options));
  }

  ranges() {
    const several = this.rewards.length > 1 && el("select", { name: "reward", "aria-label": "which reward", onchange: (event) => {
      this.reward = event.target.value;
      this.changed();
    } }, this.rewards.map((name) => el("option", { value: name }, name)));
    return [
      this.store.rows.some((row) => row.step > 0) && this.between("step", "step", 1),
      this.rewards.length > 0 && this.between("reward", `reward${several ? "" : ` (${this.reward})`}`, "any", several),
    ].filter(Boolean);
  }

  between(name, label, step, extra = null) {
    const ends = ["from", "to"].map((word, end) => el("input", { type: "number", step, placeholder: word, name: `${name}-${word}`,
      "aria-label": `${name} ${word}`, oninput: (event) => {
        this.range[name][end] = event.target.value === "" ? null : Number(event.target.value);
        this.changed();
      } }));
    return el("label", { class: "range" }, el("span", {}, label), extra, ...ends);
  }

  orders() {
    const options = Object.keys(ORDERS).map((order) => el("option", {}, order));
    return el("label", {}, "order", el("select", { name: "order", onchange: (event) => {
      this.order = event.target.value;
      this.changed();
    } }, options));
  }

  reset() {
    this.clear();
    this.changed();
  }

  // ---- text

  async searched() {
    const needle = this.search.value.trim().toLowerCase();
    this.needle = needle;
    if (needle) {
      const texts = await this.store.texts();
      if (this.needle !== needle) return; // typed on meanwhile
      const found = (text, number) => text.includes(needle) || this.store.rows[number].game === needle;
      this.matches = new Set(texts.flatMap((text, number) => (found(text, number) ? [number] : [])));
    } else {
      this.matches = null;
    }
    this.changed();
  }
}

const within = (number, [low, high]) => {
  if (low === null && high === null) return true;
  return number !== undefined && (low === null || number >= low) && (high === null || number <= high);
};

const naturally = (a, b) => a.localeCompare(b, "en", { numeric: true });
