// The whole: a list with filters on one side, an episode on the other, keys for all of it.

const KEYS = [
  ["j", "k", "next / previous episode"],
  ["n", "p", "next / previous turn"],
  ["]", "[", "next / previous sample of the same game"],
  ["v", "", "text or tokens"],
  ["c", "", "next colouring"],
  ["/", "", "search"],
  ["?", "", "these keys"],
];

class Viewer {
  constructor(host) {
    this.host = host;
    this.shadow = host.attachShadow({ mode: "open" });
    this.shadow.append(host.querySelector(":scope > template.styles").content.cloneNode(true));
    this.root = el("div", { class: "viewer", tabindex: -1 });
    this.shadow.append(this.root);
    this.store = new Store(host);
    this.settings = { view: "text", colour: "mask", needle: () => this.filters.needle };
  }

  async start() {
    await this.store.open();
    this.filters = new Filters(this.store, () => this.refresh());
    const open = (number) => this.open(number, true);
    this.list = new List(this.store, open);
    this.view = new EpisodeView(this.store, this.settings, open);
    this.other = new EpisodeView(this.store, this.settings, open); // the same game, played elsewhere
    this.pair = el("div", { class: "pair", onpointerover: ({ target }) => describe(target) }, this.view.node);
    this.settings.colour = this.store.scales[0] ? "advantage" : "surprise";
    this.build();
    this.root.addEventListener("keydown", (event) => this.pressed(event));
    window.addEventListener("hashchange", () => this.follow());
    this.refresh();
    this.started = true;
    if (!this.follow() && this.list.rows.length) await this.open(this.first().number);
    if (this.host.parentElement === document.body) this.view.node.focus(); // a page of its own: keys work at once
    this.host.dataset.ready = "";
  }

  // Of the last step of training, where there was any; of a group with something to learn from, where there is one.
  first() {
    const { rows } = this.list, trained = rows.filter((row) => row.stage === "training");
    const last = trained.filter((row) => row.step === trained.at(-1).step);
    return last.find((row) => !this.store.flat(row)) ?? last[0] ?? rows[0];
  }

  build() {
    this.total = el("p", { class: "total", role: "status" });
    this.help = el("dialog", {}, el("h3", {}, "Keys"),
      el("table", {}, KEYS.map(([key, other, what]) => el("tr", {}, el("td", {}, el("kbd", {}, key), other && el("kbd", {}, other)), el("td", {}, what)))),
      el("form", { method: "dialog" }, el("button", {}, "Close")));
    this.bar = el("div", { class: "bar" });
    const note = this.host.dataset.note && el("p", { class: "note" }, this.host.dataset.note);
    this.root.replaceChildren(
      el("aside", {}, note, this.filters.node, this.total, this.list.node),
      el("main", {}, this.bar, this.pair), this.help);
    this.drawBar();
  }

  drawBar() {
    const { view, colour } = this.settings;
    const button = (name, label, pressed, set) => el("button", { type: "button", "data-set": name, "aria-pressed": pressed, onclick: set }, label);
    const useful = Object.keys(COLOURS).filter((name) => COLOURS[name].scale === undefined || this.store.scales[COLOURS[name].scale]);
    this.colours = useful;
    this.bar.replaceChildren(
      el("div", { class: "switch", role: "group", "aria-label": "view" },
        ["text", "tokens"].map((name) => button(name, name, view === name, () => this.set({ view: name })))),
      el("div", { class: "switch", role: "group", "aria-label": "colour" },
        useful.map((name) => button(name, COLOURS[name].label, colour === name, () => this.set({ colour: name })))),
      this.beside() ?? "",
      el("div", { class: "legend" }, legend(colour, this.store.scales, this.view.written)),
      el("button", { type: "button", class: "help", title: "keys", onclick: () => this.help.showModal() }, "?"));
  }

  // Where else this game was played, to be read side by side; stays as it is from one episode to the next.
  beside() {
    const { row } = this.view, { beside } = this.settings;
    const found = row ? [...this.store.places].filter(([place]) => place !== placeOf(row) && this.store.beside(row, place)) : [];
    if (!found.length && !beside) return null;
    const options = found.map(([place, name]) => el("option", { value: place, selected: place === beside }, name));
    return el("label", {}, "beside", el("select", { name: "beside", onchange: (event) => {
      this.settings.beside = event.target.value;
      this.showBeside();
      this.view.node.focus(); // keys go on leading through the list
    } }, el("option", { value: "" }, "\u2013"), options));
  }

  async showBeside() {
    const { row } = this.view, { beside } = this.settings;
    const found = row && beside && placeOf(row) !== beside ? this.store.beside(row, beside) : undefined;
    const episode = found && (await this.store.episode(found.number));
    if (this.view.row !== row || this.settings.beside !== beside) return; // went on meanwhile
    if (!found) return this.other.node.remove();
    this.pair.append(this.other.node);
    this.other.show(found, episode);
  }

  set(settings) {
    Object.assign(this.settings, settings);
    this.drawBar();
    for (const view of [this.view, this.other]) view.draw();
  }

  // ---- what is shown

  refresh() {
    const rows = this.filters.rows();
    const won = rows.filter((row) => row.outcome === "won").length;
    const all = this.store.rows.length;
    this.total.replaceChildren(
      el("span", {}, rows.length === all ? plural(all, "episode") : `${count(rows.length)} of ${plural(all, "episode")}`, `, ${count(won)} won`),
      this.filters.active && el("button", { type: "button", class: "reset", onclick: () => this.filters.reset() }, "clear filters") || "");
    this.list.show(rows);
    if (!rows.length) this.view.empty();
    else if (this.started && this.list.place() < 0) this.open(rows[0].number);
    else this.view.draw();
  }

  async open(number, asked = false) {
    this.wanted = number;
    this.list.mark(number);
    const episode = await this.store.episode(number);
    if (this.wanted !== number) return; // another one was asked for meanwhile
    this.view.show(this.store.rows[number], episode);
    this.drawBar();
    await this.showBeside();
    if (asked) history.replaceState(null, "", `#${this.store.rows[number].address}`);
  }

  // The episode of the page's address, if it names one.
  follow() {
    const number = this.store.numbers.get(location.hash.slice(1));
    if (number === undefined) return false;
    this.open(number);
    return true;
  }

  // ---- keys

  pressed(event) {
    const typing = event.composedPath()[0].matches?.("input, select, textarea");
    if (event.key === "Escape" && typing) this.view.node.focus();
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    const act = this.keys()[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }

  keys() {
    const by = (step) => () => this.list.rows.length && this.open(this.list.neighbour(step).number, true);
    const turn = (step) => () => [this.view, this.other].filter(({ node }) => node.isConnected).forEach((view) => view.goto(view.turn + step));
    const next = this.colours[(this.colours.indexOf(this.settings.colour) + 1) % this.colours.length];
    return {
      j: by(1), k: by(-1),
      n: turn(1), p: turn(-1),
      "]": () => this.sibling(1), "[": () => this.sibling(-1),
      v: () => this.set({ view: this.settings.view === "text" ? "tokens" : "text" }),
      c: () => this.set({ colour: next }),
      "/": () => this.filters.search.focus(), "?": () => this.help.showModal(),
    };
  }

  sibling(by) {
    const siblings = this.view.row ? this.store.siblings(this.view.row) : [];
    const place = siblings.findIndex((row) => row.number === this.view.row.number);
    if (siblings[place + by]) this.open(siblings[place + by].number, true);
  }
}

for (const host of document.querySelectorAll(".turngrid-viewer:not([data-started])")) {
  host.dataset.started = "";
  new Viewer(host).start();
}
