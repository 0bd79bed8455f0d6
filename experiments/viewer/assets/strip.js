// The episode at a glance: a bar a turn for its advantage, a line for its value, a dot where a reward was earned.

const HEIGHT = 34; // pixels, the middle is zero

const strip = (view) => {
  const { episode, parts, store } = view;
  const turns = episode.turns.map((turn, number) => ({
    number,
    valid: turn.valid,
    parsed: turn.parsed,
    reward: turn.rewards.trained ?? Object.values(turn.rewards).reduce((sum, reward) => sum + reward, 0),
    advantage: mean(parts.turns[number].action.map((token) => token.advantage)),
    value: parts.turns[number].action.find((token) => typeof token.value === "number")?.value,
  }));
  return el("nav", { class: "strip", "aria-label": "turns" }, turns.map((turn) => stripTurn(view, turn, store.scales)), caption(turns));
};

const caption = (turns) => {
  const parts = [
    turns.some((turn) => turn.advantage !== undefined) && "bar: advantage",
    turns.some((turn) => turn.value !== undefined) && "line: value",
    turns.some((turn) => turn.reward) && "dot: reward",
  ].filter(Boolean);
  return el("span", { class: "caption" }, parts.join(" \u00b7 "));
};

const stripTurn = (view, turn, scales) => {
  const known = [
    turn.reward ? `reward ${signed(turn.reward)}` : null,
    turn.advantage === undefined ? null : `advantage ${signed(turn.advantage)} (mean of its tokens)`,
    turn.value === undefined ? null : `value ${signed(turn.value)}`,
    turn.valid ? null : wrongWith(turn),
  ].filter(Boolean);
  return el("button", { type: "button", class: turn.valid ? null : "invalid", title: [`turn ${turn.number + 1}`, ...known].join("\n"),
    onclick: () => view.goto(turn.number) }, picture(turn, scales), el("small", {}, String(turn.number + 1)));
};

const picture = (turn, scales) => {
  const middle = HEIGHT / 2;
  const level = (number, scale) => middle - Math.max(-1, Math.min(1, number / (scale || 1))) * (middle - 3);
  const parts = [svg("line", { x1: 0, x2: 28, y1: middle, y2: middle, class: "zero" })];
  if (turn.advantage !== undefined) {
    const y = level(turn.advantage, scales[0]);
    parts.push(svg("rect", { x: 6, width: 16, y: Math.min(y, middle), height: Math.max(1, Math.abs(y - middle)),
      class: turn.advantage < 0 ? "minus" : turn.advantage > 0 ? "plus" : "none" }));
  }
  if (turn.value !== undefined) {
    const y = level(turn.value, scales[2]);
    parts.push(svg("line", { x1: 1, x2: 27, y1: y, y2: y, class: "value" }));
  }
  if (turn.reward) parts.push(svg("circle", { cx: 14, cy: turn.reward > 0 ? 4 : HEIGHT - 4, r: 3.5, class: turn.reward > 0 ? "earned" : "lost" }));
  return svg("svg", { width: 28, height: HEIGHT, "aria-hidden": "true" }, parts);
};
