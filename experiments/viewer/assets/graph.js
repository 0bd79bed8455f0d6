// The samples of a game as one picture: equal observations are one state, or, where samples branched off from one another, the
// turns that they share are one node.

const STEP = [46, 26]; // pixels from one depth to the next, from one node to the one below

// `members`: [{row, episode, advantages}], the samples of a group; `advantages` are the means of their turns.
const graphOf = (members) => {
  const branched = members.some(({ row }) => row.parent !== null);
  const graph = { branched, nodes: new Map(), edges: new Map(), paths: new Map() };
  for (const member of branched ? fromTheRoots(members) : members) {
    const keys = branched ? branchKeys(member, members, graph) : stateKeys(member);
    graph.paths.set(member.row.number, keys);
    keys.forEach((key, depth) => visit(graph, key, depth, member));
    member.episode.turns.forEach((turn, place) => pass(graph, keys[place], keys[place + 1], turn, member.advantages[place]));
  }
  return branched ? inLanes(graph, lanes(members)) : inColumns(graph);
};

// A branch was sampled after its parent; in the record those that are learned from come first.
const fromTheRoots = (members) => [...members].sort((one, other) => one.row.sample - other.row.sample);

const stateKeys = ({ row, episode }) => [
  ...episode.turns.map((turn, place) => (turn.aside ? `aside ${row.sample} ${place}` : turn.observation)),
  `end: ${episode.final_observation}`,
];

// A branch has its parent's nodes as far as it shares its turns.
const branchKeys = ({ row, episode }, members, graph) => {
  const shared = sharedTurns(episode);
  const parent = graph.paths.get(members.find((other) => other.row.sample === row.parent)?.row.number) ?? [];
  return Array.from({ length: episode.turns.length + 1 }, (_, place) => (place === 0 ? "start" : place <= shared ? parent[place] : `${row.sample}: ${place}`));
};

const sharedTurns = (episode) => episode.turns.filter((turn) => turn.shared).length;

const visit = (graph, key, depth, { row, episode }) => {
  const node = graph.nodes.get(key) ?? { key, depth, visits: 0, samples: new Set(), owner: row.sample, text: episode.turns[depth]?.observation ?? episode.final_observation, outcome: null };
  node.depth = Math.min(node.depth, depth);
  node.visits += 1;
  node.samples.add(row.sample);
  if (depth === episode.turns.length) node.outcome = row.outcome;
  graph.nodes.set(key, node);
};

const pass = (graph, from, to, turn, advantage) => {
  const key = JSON.stringify([from, to, turn.action]);
  const edge = graph.edges.get(key) ?? { from, to, action: turn.action, count: 0, advantages: [] };
  edge.count += turn.shared ? 0 : 1; // sampled once, and learned from in each branch
  if (advantage !== undefined) edge.advantages.push(advantage);
  graph.edges.set(key, edge);
};

// Columns by the first turn in which a state was met; in a column, what was met most often comes first.
const inColumns = (graph) => {
  const columns = Array.from({ length: 1 + Math.max(...[...graph.nodes.values()].map((node) => node.depth)) }, () => []);
  for (const node of graph.nodes.values()) columns[node.depth].push(node);
  for (const column of columns) {
    column.sort((a, b) => b.visits - a.visits);
    column.forEach((node, place) => Object.assign(node, { x: 20 + node.depth * STEP[0], y: 34 + place * STEP[1] }));
  }
  return Object.assign(graph, { width: 40 + (columns.length - 1) * STEP[0], height: 52 + (Math.max(...columns.map((column) => column.length)) - 1) * STEP[1] });
};

// A line of its own for each sample; one that branched off later lies closer.
const inLanes = (graph, order) => {
  for (const node of graph.nodes.values()) Object.assign(node, { x: 20 + node.depth * STEP[0], y: 34 + order.indexOf(node.owner) * STEP[1] });
  return Object.assign(graph, { width: 40 + Math.max(...[...graph.nodes.values()].map((node) => node.depth)) * STEP[0], height: 52 + (order.length - 1) * STEP[1] });
};

const lanes = (members) => {
  const order = [];
  const walk = (from) => from.sort((a, b) => sharedTurns(b.episode) - sharedTurns(a.episode)).forEach(({ row }) => {
    order.push(row.sample);
    walk(members.filter((other) => other.row.parent === row.sample));
  });
  walk(members.filter(({ row }) => row.parent === null));
  return order;
};

const graphPicture = (graph, number, scale, go) => {
  const path = graph.paths.get(number), ends = (edge) => [graph.nodes.get(edge.from), graph.nodes.get(edge.to)];
  const edges = [...graph.edges.values()].map((edge) => graphEdge(edge, ...ends(edge), scale));
  const steps = path.slice(1).map((key, place) => svg("path", { class: "trod", d: curve(graph.nodes.get(path[place]), graph.nodes.get(key)) }));
  const nodes = [...graph.nodes.values()].map((node) => graphNode(node, path.indexOf(node.key), go));
  return svg("svg", { width: graph.width, height: graph.height, role: "img", "aria-label": "states of this group" }, steps, edges, nodes);
};

const graphEdge = (edge, from, to, scale) => {
  const advantage = mean(edge.advantages);
  const strength = advantage === undefined ? 0 : Math.min(1, Math.abs(advantage) / (scale || 1));
  const told = [edge.action, plural(edge.count, "time"), advantage === undefined ? null : `advantage ${signed(advantage)}`];
  return svg("path", { d: curve(from, to), "data-count": edge.count, class: `edge ${advantage < 0 ? "minus" : advantage > 0 ? "plus" : ""}`,
    "stroke-width": 1.5 + Math.min(5, edge.count - 1), style: `--strength: ${strength.toFixed(3)}` },
  svg("title", {}, told.filter(Boolean).join("\n")));
};

const curve = (from, to) => {
  if (from === to) return `M${from.x - 4} ${from.y - 5}c-9 -17 17 -17 8 0`;
  if (to.x > from.x) return `M${from.x} ${from.y}C${(from.x + to.x) / 2} ${from.y} ${(from.x + to.x) / 2} ${to.y} ${to.x} ${to.y}`;
  return `M${from.x} ${from.y}C${from.x} ${Math.min(from.y, to.y) - 22} ${to.x} ${Math.min(from.y, to.y) - 22} ${to.x} ${to.y}`; // back
};

const graphNode = (node, place, go) => {
  const told = `${node.text}\n\n${plural(node.visits, "visit")} by ${plural(node.samples.size, "sample")}`;
  return svg("g", { class: `state ${node.outcome ?? ""} ${place >= 0 ? "own" : ""}`, onclick: () => place >= 0 && go(place) },
    svg("circle", { cx: node.x, cy: node.y, r: 5 + Math.min(5, Math.sqrt(node.visits - 1)) }),
    node.visits > 1 && svg("text", { x: node.x, y: node.y + 3 }, String(node.visits)), svg("title", {}, told));
};
