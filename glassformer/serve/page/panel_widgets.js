// What several panels are made of: bars, numbers, coloured tokens, pickers.

import { displayToken, dropdown, element, slider } from "./dom.js";
import { translate } from "./translations.js";

// A bar whose length is a share of the maximum.
export function shareBar(value, max = 1) {
  const bar = element("span", { className: "bar", "aria-hidden": "true" });
  bar.style.width = `calc(var(--bar) * ${Math.max(0, Math.min(1, value / (max || 1)))})`;
  return bar;
}

// A probability, however small, or another number.
export function formatProbability(value) {
  return Math.abs(value) >= 1e-4 || value === 0 ? value.toFixed(5) : value.toExponential(1);
}

// The names of the columns of a table of predictions.
export function predictionColumns({ kind, function: activation }) {
  return [translate(["label", "tag"].includes(kind) ? "label" : "guess"), translate(activation === "none" ? "value" : "probability")];
}

// A function that names hidden states: 0 is before the first layer. Those of a decoder do not count the encoder's layers.
export function layerNamer(model, count) {
  const before = model.heads.length - (count - 1);
  if (count === 1) return () => translate("lastVectors"); // a model without attention layers has no others
  return (index) => (index ? translate("oneLayer", before + index - 1) : translate("wordVectors"));
}

// Colour the background of an element by a number between -1 and 1.
export function tint(node, level) {
  const strength = Math.min(1, Math.abs(level)) * 60;
  node.style.background = `color-mix(in srgb, var(--${level < 0 ? "minus" : "strong"}) ${strength.toFixed(1)}%, transparent)`;
  return node;
}

export function tokenPicker(app) {
  return dropdown(translate("position"), app.reading.tokens.map((token, i) => [i, `${i} ${displayToken(token)}`]), app.state.position,
    (value) => app.set({ position: Number(value) }));
}

// Temperature, top-k and top-p.
export function samplingSliders({ state }, onChange) {
  return [
    slider(translate("temperature"), { low: 0.1, high: 3, step: 0.05, value: state.temperature, format: (v) => v.toFixed(2) },
      (temperature) => onChange({ temperature })),
    slider(translate("topK"), { low: 0, high: 50, step: 1, value: state.topK }, (topK) => onChange({ topK })),
    slider(translate("topP"), { low: 0.05, high: 1, step: 0.05, value: state.topP, format: (v) => v.toFixed(2) }, (topP) => onChange({ topP })),
  ];
}

export function samplingSettings({ temperature, topK, topP }) {
  return { temperature, top_k: topK, top_p: topP };
}

// A panel that has nothing to show for this model, and the reason.
export function emptyPanel(root, reason) {
  root.append(element("p", { className: "note", textContent: translate(reason) }));
  return { update() {} };
}

// Four digits; a value that they show as zero has no sign.
export function formatSigned(value) {
  return (Math.abs(value) < 5e-5 ? 0 : value).toFixed(4);
}

// Tokens with their scores beneath, coloured by them.
export function scoredTokens(tokens, scores, all = scores) {
  const max = Math.max(5e-5, ...all.map(Math.abs)); // a score that is shown as zero has no colour
  return element("div", { className: "scored" }, ...tokens.map((token, i) => tint(element("span", {},
    element("bdi", { textContent: displayToken(token) }), element("small", { textContent: formatSigned(scores[i]) })), scores[i] / max)));
}
