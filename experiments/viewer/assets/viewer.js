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
    this.list = new List(this.store, (number) => this.open(number, true));
    this.view = new EpisodeView(this.store, this.settings, { open: (number) => this.open(number, true), copy: (event) => this.copy(event) });
    this.card = new TokenCard(this.view.node);
    this.settings.colour = this.store.scales[0] ? "advantage" : "surprise";
    this.build();
    this.root.addEventListener("keydown", (event) => this.pressed(event));
    window.addEventListener("hashchange", () => this.follow());
    this.refresh();
    this.started = true;
    if (!this.follow() && this.list.rows.length) await this.open(this.list.rows[0].number);
    if (this.host.parentElement === document.body) this.view.node.focus(); // a page of its own: keys work at once
    this.host.dataset.ready = "";
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
      el("main", {}, this.bar, this.view.node, this.card.node), this.help);
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
      el("div", { class: "legend" }, legend(colour, this.store.scales, this.view.written)),
      el("button", { type: "button", class: "help", title: "keys", onclick: () => this.help.showModal() }, "?"));
  }

  set(settings) {
    Object.assign(this.settings, settings);
    this.drawBar();
    this.view.draw();
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
    this.card.hide();
    this.view.show(this.store.rows[number], episode);
    this.drawBar();
    if (asked) history.replaceState(null, "", `#${this.store.rows[number].address}`);
  }

  // The episode of the page's address, if it names one.
  follow() {
    const number = this.store.numbers.get(location.hash.slice(1));
    if (number === undefined) return false;
    this.open(number);
    return true;
  }

  async copy(event) {
    const address = `${location.href.split("#")[0]}#${this.view.row.address}`;
    history.replaceState(null, "", `#${this.view.row.address}`);
    await navigator.clipboard?.writeText(address).catch(() => {}); // not allowed everywhere; the address bar has it
    event.target.classList.add("done");
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
    const next = this.colours[(this.colours.indexOf(this.settings.colour) + 1) % this.colours.length];
    return {
      j: by(1), k: by(-1),
      n: () => this.view.goto(this.view.turn + 1), p: () => this.view.goto(this.view.turn - 1),
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
