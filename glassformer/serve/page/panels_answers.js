// Panels that show what the model says: its predictions, and what it would say at every layer.

import { askJson } from "./api.js";
import { choice, make, refill, slider, table, tick, visible } from "./build.js";
import { say } from "./words.js";

// A bar as long as a share.
export function share(value, most = 1) {
  const bar = make("span", { className: "bar", "aria-hidden": "true" });
  bar.style.width = `calc(var(--bar) * ${Math.max(0, Math.min(1, value / (most || 1)))})`;
  return bar;
}

// A probability, however small, or another number.
export function chance(value) {
  return Math.abs(value) >= 1e-4 || value === 0 ? value.toFixed(5) : value.toExponential(1);
}

// What is guessed, and what the number beside it is.
export function guessed({ kind, function: made }) {
  return [say(["label", "tag"].includes(kind) ? "label" : "guess"), say(made === "none" ? "value" : "probability")];
}

// The name of the place behind so many layers; those of an encoder are not counted by the decoder's vectors.
export function behind(model, places) {
  const before = model.heads.length - (places - 1);
  if (places === 1) return () => say("lastVectors"); // a model without layers of attention tells no others
  return (place) => (place ? say("oneLayer", before + place - 1) : say("wordVectors"));
}

// A ground as strong as a number between -1 and 1.
export function tinted(node, level) {
  const strength = Math.min(1, Math.abs(level)) * 60;
  node.style.background = `color-mix(in srgb, var(--${level < 0 ? "minus" : "strong"}) ${strength.toFixed(1)}%, transparent)`;
  return node;
}

export function tokenPicker(app) {
  return choice(say("position"), app.reading.tokens.map((token, i) => [i, `${i} ${visible(token)}`]), app.state.position,
    (value) => app.set({ position: Number(value) }));
}

// What narrows the choice of words; the settings are those of the address.
export function narrowing({ state }, changed) {
  return [
    slider(say("temperature"), { low: 0.1, high: 3, step: 0.05, value: state.temperature, shown: (v) => v.toFixed(2) },
      (temperature) => changed({ temperature })),
    slider(say("topK"), { low: 0, high: 50, step: 1, value: state.topK }, (topK) => changed({ topK })),
    slider(say("topP"), { low: 0.05, high: 1, step: 0.05, value: state.topP, shown: (v) => v.toFixed(2) }, (topP) => changed({ topP })),
  ];
}

export function narrowed({ temperature, topK, topP }) {
  return { temperature, top_k: topK, top_p: topP };
}

// A panel that has nothing to show of this model, and says why.
export function emptyPanel(root, words) {
  root.append(make("p", { className: "note", textContent: say(words) }));
  return { update() {} };
}

export function predictPanel(app, root) {
  const { kind } = app.model;
  if (kind === "none") return emptyPanel(root, "noHead");
  const place = make("div", { className: "wide" });
  const bar = make("div", { className: "controls" });
  const chooses = app.model.function === "softmax"; // one of several: sliders narrow the choice
  const sliders = chooses ? narrowing(app, (changes) => app.set(changes)) : [];
  root.append(bar, make("div", { className: "controls" }, ...sliders), place);
  let guesses = [];
  const shift = ({ id, probability }) => {
    const before = app.said; // what the model said before the latest change
    if (!before) return "";
    if (!before.has(id)) return say("newWord");
    const by = probability - before.get(id);
    return Math.abs(by) < 5e-5 ? "" : make("span", { className: by > 0 ? "up" : "down", textContent: `${by > 0 ? "+" : ""}${by.toFixed(4)}` });
  };
  return {
    async update() {
      const { state, reading: { reading, tokens } } = app;
      const { position, mask } = state;
      const hides = app.model.kind === "mask" && app.model.mask;
      refill(bar, kind === "label" ? null : tokenPicker(app), hides ? tick(say("maskIt"), mask === position, (on) => {
        state.mask = on ? position : null;
        app.read();
      }) : null);
      ({ guesses } = await askJson("predict", { reading, position, count: 12, ...narrowed(state) }));
      const most = Math.max(...guesses.map((guess) => guess.narrowed));
      const about = kind === "label" ? say("predictions") : say(`said-${kind}`, position, visible(tokens[position]));
      const header = [...guessed(app.model), ...(chooses ? [say("narrowed")] : []), say("changed"), ""];
      place.replaceChildren(table(about, header, guesses.map((guess) => [visible(guess.text), chance(guess.probability),
        ...(chooses ? [chance(guess.narrowed)] : []), shift(guess), share(guess.narrowed, most)])));
      app.said = new Map(guesses.map((guess) => [guess.id, guess.probability]));
    },
    found: () => guesses,
  };
}

const AROUND = 12; // tokens that the lens looks at
const LONGEST = 12; // letters of a word that a cell of the lens shows

export function lensPanel(app, root) {
  if (!["mask", "next"].includes(app.model.kind) || !app.model.heads.length) return emptyPanel(root, "noLens");
  const place = make("div", { className: "wide lens" });
  const bar = make("div", { className: "controls" });
  root.append(make("p", { className: "note", textContent: say("lensNote") }), bar, place);
  let found = {};
  const short = (token) => (visible(token).length > LONGEST ? `${[...visible(token)].slice(0, LONGEST - 1).join("")}…` : visible(token));
  const cell = (guesses) => tinted(make("div", {
    title: guesses.map((guess) => `${visible(guess.text)} ${guess.probability.toFixed(4)}`).join("\n"),
  }, make("bdi", { textContent: short(guesses[0].text) }), make("small", { textContent: guesses[0].probability.toFixed(3) })),
  guesses[0].probability);
  return {
    async update() {
      refill(bar, tokenPicker(app));
      const { tokens, reading } = app.reading;
      const first = Math.max(0, Math.min(app.state.position - AROUND / 2, tokens.length - AROUND));
      const positions = tokens.map((_, i) => i).slice(first, first + AROUND);
      const { layers } = await askJson("lens", { reading, positions });
      found = { positions, layers };
      const name = behind(app.model, layers.length);
      const rows = layers.map((row, place) => [name(place), ...row.map(cell)]).reverse();
      place.replaceChildren(table(`${say("lens")}: ${say("around")}`, ["", ...positions.map((i) => short(tokens[i]))], rows));
    },
    found: () => found,
  };
}
