// Panels that show what the model says: its predictions, and what it would say at every layer.

import { askJson } from "./api.js";
import { choice, make, slider, table, tick, visible } from "./build.js";
import { colour, triple } from "./paint.js";
import { say } from "./words.js";

export function share(value, most = 1) {
  const bar = make("span", { className: `bar${value < 0 ? " minus" : ""}`, "aria-hidden": "true" });
  bar.style.width = `${Math.min(1, Math.abs(value) / (most || 1)) * 8}rem`;
  return bar;
}

export function tokenPicker(app) {
  const { tokens } = app.reading;
  return choice(say("position"), tokens.map((token, i) => [i, `${i} ${visible(token)}`]), app.state.position,
    (value) => app.set({ position: Number(value) }));
}

export function predictPanel(app, root) {
  if (app.model.kind === "none") {
    root.append(make("p", { className: "note", textContent: say("noHead") }));
    return { update() {} };
  }
  const settings = { temperature: 1, top_k: 0, top_p: 1 };
  const place = make("div", { className: "wide" });
  const bar = make("div", { className: "controls" });
  root.append(bar, place);
  let last = new Map(); // what the predictions were before the latest change
  let now = new Map();
  let guesses = [];
  const draw = async () => {
    const { reading } = app.reading;
    ({ guesses } = await askJson("predict", { reading, position: app.state.position, count: 12, ...settings }));
    last = now;
    now = new Map(guesses.map((guess) => [guess.id, guess.probability]));
    const shift = ({ id, probability }) => {
      if (!last.has(id)) return last.size ? "+" : "";
      const by = probability - last.get(id);
      return Math.abs(by) < 5e-5 ? "" : make("span", { className: by > 0 ? "up" : "down", textContent: `${by > 0 ? "+" : ""}${by.toFixed(4)}` });
    };
    const most = Math.max(...guesses.map((guess) => guess.narrowed));
    const header = [app.model.kind === "label" ? say("label") : say("guess"), say("probability"), "", say("narrowed"), say("changed")];
    place.replaceChildren(table(say("predictions"), header, guesses.map((guess) => [
      visible(guess.text), guess.probability.toFixed(5), share(guess.narrowed, most), guess.narrowed.toFixed(5), shift(guess)])));
  };
  const move = (name) => (value) => {
    settings[name] = value;
    app.safely(draw);
  };
  const sliders = [
    slider(say("temperature"), { low: 0.1, high: 3, step: 0.05, value: 1, shown: (v) => v.toFixed(2) }, move("temperature")),
    slider(say("topK"), { low: 0, high: 50, step: 1, value: 0 }, move("top_k")),
    slider(say("topP"), { low: 0.05, high: 1, step: 0.05, value: 1, shown: (v) => v.toFixed(2) }, move("top_p")),
  ];
  return {
    async update() {
      const masks = app.model.kind === "mask" && app.model.mask;
      bar.replaceChildren(...(app.model.kind === "label" ? [] : [tokenPicker(app)]),
        ...(masks ? [tick(say("maskIt"), app.state.mask === app.state.position, (on) => {
          app.state.mask = on ? app.state.position : null;
          app.read();
        })] : []), ...sliders);
      await draw();
    },
    found: () => guesses,
  };
}

const AROUND = 12;

export function lensPanel(app, root) {
  if (!["mask", "next"].includes(app.model.kind)) {
    root.append(make("p", { className: "note", textContent: say("noLens") }));
    return { update() {} };
  }
  const place = make("div", { className: "wide lens" });
  const bar = make("div", { className: "controls" });
  root.append(make("p", { className: "note", textContent: say("lensNote") }), bar, place);
  let layers = [];
  return {
    async update() {
      bar.replaceChildren(tokenPicker(app));
      const { tokens, reading } = app.reading;
      const first = Math.max(0, Math.min(app.state.position - AROUND / 2, tokens.length - AROUND));
      const positions = tokens.map((_, i) => i).slice(first, first + AROUND);
      ({ layers } = await askJson("lens", { reading, positions }));
      const [r, g, b] = triple(colour("strong"));
      const cell = (guesses) => {
        const span = make("span", {
          textContent: visible(guesses[0].text),
          title: guesses.map((guess) => `${visible(guess.text)} ${guess.probability.toFixed(4)}`).join("\n"),
        });
        span.style.background = `rgb(${r} ${g} ${b} / ${(guesses[0].probability * 0.6).toFixed(3)})`;
        return span;
      };
      const rows = layers.map((row, layer) => [String(layer), ...row.map(cell)]).reverse();
      place.replaceChildren(table(`${say("lens")}: ${say("around")}`, [say("layer"), ...positions.map((i) => visible(tokens[i]))], rows));
    },
    found: () => layers,
  };
}
