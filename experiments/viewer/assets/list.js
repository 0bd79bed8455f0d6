// The list of episodes: only the rows in sight are elements, however many there are.

const ROW = 46; // pixels
const SPARE = 6; // rows drawn beyond either edge

class List {
  constructor(store, chosen) {
    this.store = store;
    this.chosen = chosen;
    this.rows = [];
    this.current = -1;
    this.sheet = el("div", { class: "sheet" });
    this.node = el("div", { class: "list", tabindex: 0, role: "listbox", "aria-label": "episodes", onscroll: () => this.draw(),
      onclick: (event) => this.clicked(event), onkeydown: (event) => this.pressed(event) }, this.sheet);
    new ResizeObserver(() => this.draw()).observe(this.node);
  }

  show(rows) {
    this.rows = rows;
    this.sheet.style.height = `${rows.length * ROW}px`;
    this.mark(this.current);
  }

  mark(number) {
    this.current = number;
    this.drawn = null;
    this.draw();
    this.reveal();
  }

  place() {
    return this.rows.findIndex((row) => row.number === this.current);
  }

  // The row `by` places on; the first one if the current episode is not listed.
  neighbour(by) {
    const place = this.place();
    return this.rows[place < 0 ? 0 : Math.min(this.rows.length - 1, Math.max(0, place + by))];
  }

  reveal() {
    const place = this.place();
    if (place < 0) return;
    const top = place * ROW, { scrollTop, clientHeight } = this.node;
    if (top < scrollTop) this.node.scrollTop = top;
    else if (top + ROW > scrollTop + clientHeight) this.node.scrollTop = top + ROW - clientHeight;
  }

  draw() {
    const first = Math.max(0, Math.floor(this.node.scrollTop / ROW) - SPARE);
    const last = Math.min(this.rows.length, Math.ceil((this.node.scrollTop + this.node.clientHeight) / ROW) + SPARE);
    if (this.drawn === `${first}-${last}`) return;
    this.drawn = `${first}-${last}`;
    this.sheet.replaceChildren(...this.rows.slice(first, last).map((row, offset) => this.row(row, first + offset)));
  }

  row(row, place) {
    const { mark, label } = OUTCOMES[row.outcome];
    const flat = this.store.flat(row) && "no signal";
    const sample = (row.step || row.sample) && `sample ${row.sample}`;
    const where = [row.step ? `step ${row.step}` : row.stage, sample, flat, row.replaced !== null && "replaced"];
    const rewards = Object.entries(row.rewards);
    return el("div", { class: "row", role: "option", "aria-selected": row.number === this.current, "data-number": row.number,
      style: `top: ${place * ROW}px` },
      el("b", { class: `mark ${row.outcome}`, title: label }, mark),
      el("span", { class: "name", title: `${row.task}/${row.game}` }, el("em", {}, row.game), ` ${row.task}`),
      el("span", { class: "reward", title: rewards.map(([name, sum]) => `${name}, summed over turns: ${signed(sum)}`).join("\n") },
        rewards.map(([, sum]) => signed(sum)).join("  ")),
      el("span", { class: "where" }, where.filter(Boolean).join(" \u00b7 ")),
      el("span", { class: "turns" }, plural(row.turns, "turn")));
  }

  clicked(event) {
    const row = event.target.closest(".row");
    if (row) this.chosen(Number(row.dataset.number));
  }

  pressed(event) {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!by || !this.rows.length) return;
    event.preventDefault();
    this.chosen(this.neighbour(by).number);
  }
}
