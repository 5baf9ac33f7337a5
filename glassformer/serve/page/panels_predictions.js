// Panels that show predictions: those of the model, and those of every layer as if it were the last.

import { requestJson } from "./api.js";
import { checkbox, displayToken, element, table, updateChildren } from "./dom.js";
import { emptyPanel, formatProbability, layerNamer, predictionColumns, samplingSettings, samplingSliders, shareBar, tint, tokenPicker } from "./panel_widgets.js";
import { translate } from "./translations.js";

export function predictPanel(app, root) {
  const { kind } = app.model;
  if (kind === "none") return emptyPanel(root, "noHead");
  const result = element("div", { className: "wide" });
  const bar = element("div", { className: "controls" });
  const samples = app.model.function === "softmax"; // one answer of several, which temperature and top-k can restrict
  const sliders = samples ? samplingSliders(app, (changes) => app.set(changes)) : [];
  root.append(bar, element("div", { className: "controls" }, ...sliders), result);
  let guesses = [];
  const change = ({ id, probability }) => {
    const before = app.previousProbabilities; // before the latest change of text or model
    if (!before) return "";
    if (!before.has(id)) return translate("newWord");
    const difference = probability - before.get(id);
    return Math.abs(difference) < 5e-5 ? "" : element("span", { className: difference > 0 ? "up" : "down", textContent: `${difference > 0 ? "+" : ""}${difference.toFixed(4)}` });
  };
  return {
    async update() {
      const { state, reading: { reading, tokens } } = app;
      const { position, mask } = state;
      const canMask = app.model.kind === "mask" && app.model.mask;
      updateChildren(bar, kind === "label" ? null : tokenPicker(app), canMask ? checkbox(translate("maskIt"), mask === position, (checked) => {
        state.mask = checked ? position : null;
        app.read();
      }) : null);
      ({ guesses } = await requestJson("predict", { reading, position, count: 12, ...samplingSettings(state) }));
      const max = Math.max(...guesses.map((guess) => guess.narrowed));
      const caption = kind === "label" ? translate("predictions") : translate(`predicted-${kind}`, position, displayToken(tokens[position]));
      const header = [...predictionColumns(app.model), ...(samples ? [translate("narrowed")] : []), translate("changed"), ""];
      result.replaceChildren(table(caption, header, guesses.map((guess) => [displayToken(guess.text), formatProbability(guess.probability),
        ...(samples ? [formatProbability(guess.narrowed)] : []), change(guess), shareBar(guess.narrowed, max)])));
      app.previousProbabilities = new Map(guesses.map((guess) => [guess.id, guess.probability]));
    },
    data: () => guesses,
  };
}

const MAX_COLUMNS = 12; // tokens that the lens shows
const MAX_LETTERS = 12; // of a word in a cell of the lens

export function lensPanel(app, root) {
  if (!["mask", "next"].includes(app.model.kind) || !app.model.heads.length) return emptyPanel(root, "noLens");
  const result = element("div", { className: "wide lens" });
  const bar = element("div", { className: "controls" });
  root.append(element("p", { className: "note", textContent: translate("lensNote") }), bar, result);
  let lens = {};
  const short = (token) => (displayToken(token).length > MAX_LETTERS ? `${[...displayToken(token)].slice(0, MAX_LETTERS - 1).join("")}…` : displayToken(token));
  const cell = (guesses) => tint(element("div", {
    title: guesses.map((guess) => `${displayToken(guess.text)} ${guess.probability.toFixed(4)}`).join("\n"),
  }, element("bdi", { textContent: short(guesses[0].text) }), element("small", { textContent: guesses[0].probability.toFixed(3) })),
  guesses[0].probability);
  return {
    async update() {
      updateChildren(bar, tokenPicker(app));
      const { tokens, reading } = app.reading;
      const first = Math.max(0, Math.min(app.state.position - MAX_COLUMNS / 2, tokens.length - MAX_COLUMNS));
      const positions = tokens.map((_, i) => i).slice(first, first + MAX_COLUMNS);
      const { layers } = await requestJson("lens", { reading, positions });
      lens = { positions, layers };
      const name = layerNamer(app.model, layers.length);
      const rows = layers.map((row, index) => [name(index), ...row.map(cell)]).reverse();
      result.replaceChildren(table(`${translate("lens")}: ${translate("around")}`, ["", ...positions.map((i) => short(tokens[i]))], rows));
    },
    data: () => lens,
  };
}
