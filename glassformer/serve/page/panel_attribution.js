// The attribution panel: which tokens an answer depends on.

import { requestJson } from "./api.js";
import { displayToken, dropdown, element, formatExact, updateChildren } from "./dom.js";
import { formatSigned, scoredTokens, tokenPicker } from "./panel_widgets.js";
import { translate } from "./translations.js";

const USES_BASELINE = ["integrated-gradients", "occlusion"]; // methods that hide tokens

export function attributePanel(app, root) {
  const bar = element("div", { className: "controls" });
  const result = element("div");
  root.append(bar, element("p", { className: "note", textContent: translate("honest") }), result);
  const { kind } = app.model;
  const methods = Object.keys(app.about.methods);
  let attribution = null;
  // Selects the word or label whose score is attributed: the likeliest, or one of the next ones.
  const targetPicker = async () => {
    const { position, target } = app.state;
    const { guesses } = await requestJson("predict", { reading: app.reading.reading, position, count: 12 });
    const names = guesses.map((guess) => [guess.id, `${displayToken(guess.text)} ${guess.probability.toFixed(4)}`]);
    return dropdown(translate("answer"), [["", translate("likeliest")], ...names], target ?? "", (id) => app.set({ target: id === "" ? null : Number(id) }));
  };
  return {
    async update() {
      const { position, target } = app.state;
      const method = methods.includes(app.state.method) ? app.state.method : methods[0];
      const picker = kind === "none" ? null : await targetPicker();
      updateChildren(bar, dropdown(translate("method"), methods.map((name) => [name, translate(name)]), method, (value) => app.set({ method: value })),
        kind === "label" ? null : tokenPicker(app), picker);
      attribution = await requestJson("attribute", { reading: app.reading.reading, method, position, target });
      const texts = attribution.source ? [[translate("text"), 0, attribution.source], [translate("written"), attribution.source]] : [[null, 0]];
      result.replaceChildren(
        element("p", { className: "note", textContent: `${translate(method)}: ${translate(`${method}-is`, app.about.methods[method])}` }),
        ...(USES_BASELINE.includes(method) ? [element("p", { className: "note", textContent: translate("hiddenBy", displayToken(attribution.hidden)) })] : []),
        element("p", { className: "status", textContent:
          `${translate(`about-${kind}`, displayToken(attribution.word), position, displayToken(app.reading.tokens[position]))}: ${formatExact(attribution.value)}` }),
        ...texts.flatMap(([name, ...range]) => [...(name ? [element("h2", { textContent: name })] : []),
          scoredTokens(attribution.tokens.slice(...range), attribution.scores.slice(...range), attribution.scores)]),
        ...(attribution.gap === null ? [] : [element("p", { className: "note", textContent: translate("gap", formatSigned(attribution.gap)) })]));
    },
    data: () => attribution,
  };
}
