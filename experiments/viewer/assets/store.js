// The episodes inside the page: an index of all, and blocks that are unpacked when one of their episodes is wanted.

const KEPT_BLOCKS = 12;

const unpack = async (script) => {
  const bytes = Uint8Array.from(atob(script.textContent.trim()), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json();
};

const unpackRuns = (packed) => packed.flatMap((entry) => (Array.isArray(entry) ? Array(entry[1]).fill(entry[0]) : entry));

class Store {
  constructor(host) {
    this.host = host;
    this.scripts = [...host.querySelectorAll(":scope > script.block")];
    this.blocks = new Map();
  }

  async open() {
    const index = await unpack(this.host.querySelector(":scope > script.index"));
    this.size = index.block;
    this.nats = index.nats;
    this.vocabularies = index.words;
    const names = Object.keys(index.columns);
    const count = names.length ? index.columns[names[0]].length : 0;
    this.rows = Array.from({ length: count }, (_, number) => {
      const row = { number };
      for (const name of names) row[name] = index.columns[name][number];
      return row;
    });
    this.numbers = new Map(this.rows.map((row) => [row.address, row.number]));
    this.games = Map.groupBy(this.rows, gameKey);
    this.groups = Map.groupBy(this.rows, groupKey);
    this.flats = new Set([...this.groups.keys()].filter((key) => isFlat(this.groups.get(key))));
    this.tasks = Map.groupBy(this.rows, taskKey);
    this.scales = ["advantages", "returns", "values"].map((_, place) => usualPeak(this.rows.map((row) => row.peaks[place])));
  }

  async episode(number) {
    const block = Math.floor(number / this.size);
    if (!this.blocks.has(block)) {
      this.blocks.set(block, unpack(this.scripts[block]));
      if (this.blocks.size > KEPT_BLOCKS) this.blocks.delete(this.blocks.keys().next().value);
    }
    return (await this.blocks.get(block))[number % this.size];
  }

  // Samples of the same game in the same step: what its advantage was compared with.
  siblings(row) {
    return this.groups.get(groupKey(row));
  }

  // All samples of a group earned the same: nothing to learn from, where samples are compared.
  flat(row) {
    return this.flats.has(groupKey(row));
  }

  // Where else the games of the page were played: runs and stages, by a name each.
  get places() {
    const runs = new Set(this.rows.map((row) => row.run)).size > 1;
    return new Map(this.rows.map((row) => [placeOf(row), [runs && row.run, row.stage].filter(Boolean).join(" \u00b7 ")]));
  }

  // The same game there: the same sample if there is one, of the last step.
  beside(row, place) {
    const there = (this.tasks.get(taskKey(row)) ?? []).filter((other) => placeOf(other) === place);
    const same = there.filter((other) => other.sample === row.sample);
    return (same.length ? same : there).at(-1);
  }

  sameGame(row) {
    return this.games.get(gameKey(row));
  }

  word(row, id) {
    return this.vocabularies[row.words]?.[id];
  }

  // What can be searched, one lower-case text an episode.
  texts() {
    this.found ??= this.readTexts();
    return this.found;
  }

  async readTexts() {
    const texts = [];
    for (const script of this.scripts) texts.push(...(await unpack(script)).map(searchable));
    return texts;
  }
}

const taskKey = (row) => [row.task, row.game].join("\n");

const gameKey = (row) => [row.run, taskKey(row)].join("\n");

const groupKey = (row) => [gameKey(row), row.stage, row.step].join("\n");

const isFlat = (group) => {
  const learned = group.filter((row) => row.stage === "training" && row.trained !== null);
  return learned.length > 1 && learned.every((row) => row.trained === learned[0].trained && row.replaced === null);
};

const placeOf = (row) => [row.run, row.stage].join("\n");

const searchable = (episode) => {
  const parts = [episode.goal, episode.final_observation, episode.error];
  for (const turn of episode.turns) parts.push(turn.observation, turn.thought ?? "", turn.action);
  return parts.join("\n").toLowerCase();
};

// One scale for all episodes, so that colours can be compared: the 95th percentile of the peaks, since one outlier would
// wash out all others.
const usualPeak = (peaks) => {
  const some = peaks.filter((peak) => peak > 0).sort((a, b) => a - b);
  return some.length ? some[Math.min(some.length - 1, Math.floor(some.length * 0.95))] : 0;
};
