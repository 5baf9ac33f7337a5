// The what-if panel: what changes when heads or layers are switched off, scaled or patched.

import { requestJson } from "./api.js";
import { button, checkbox, displayToken, dropdown, element, labelledField, slider, table, updateChildren } from "./dom.js";
import { emptyPanel, formatProbability, predictionColumns, scoredTokens, shareBar } from "./panel_widgets.js";
import { headPicker } from "./panels_attention.js";
import { translate } from "./translations.js";

function formatBits(value) {
  return value === 0 || value >= 1e-3 ? value.toPrecision(3) : value.toExponential(1);
}

export function whatIfPanel(app, root) {
  if (!app.model.heads.length) return emptyPanel(root, "noWhatIf");
  const { state } = app;
  const picker = headPicker(app);
  const [kept, skipControls, patchControls, result] = [element("p", { className: "status" }), element("div", { className: "controls" }),
    element("div", { className: "controls" }), element("div")];
  let effect = null;

  // The factors of kept and selected heads: {heads, cross_heads}, each {layer: {head: factor}}.
  const headFactors = () => {
    const { layer, heads, factor } = state;
    const kind = app.partName === "cross" ? "cross_heads" : "heads";
    const own = { ...state.kept[kind]?.[layer], ...Object.fromEntries(heads.map((head) => [head, factor])) };
    return { ...state.kept, [kind]: { ...state.kept[kind], [layer]: own } };
  };
  const showKept = () => {
    const all = Object.entries(state.kept).flatMap(([kind, layers]) => Object.entries(layers).flatMap(([layer, heads]) =>
      Object.entries(heads).map(([head, factor]) => `${kind === "heads" ? "" : `${translate("cross")} `}${layer}.${head} × ${factor}`)));
    kept.hidden = !all.length;
    kept.textContent = all.length ? `${translate("keptHeads")}: ${all.join(", ")}` : "";
  };
  // A checkbox for each layer, grouped by encoder and decoder.
  const showSkips = () => {
    const stacks = Object.entries(app.reading.parts).filter(([name]) => name !== "cross");
    updateChildren(skipControls, element("span", { textContent: translate("skipLayers") }), ...stacks.flatMap(([name, { layers }]) => [
      stacks.length > 1 ? element("span", { className: "hint", textContent: translate(name) }) : null,
      ...Object.keys(layers).map(Number).map((layer) => checkbox(String(layer), state.skip.includes(layer),
        (checked) => app.set({ skip: checked ? [...state.skip, layer] : state.skip.filter((each) => each !== layer) }))),
    ]));
  };
  const numberField = (label, name) => {
    const input = element("input", { type: "number", min: "0", placeholder: translate("allTokens"), value: state[name] ?? "",
      onchange: () => app.set({ [name]: input.value === "" ? null : Number(input.value) }) });
    return labelledField(translate(label), input);
  };
  const source = element("input", { type: "text", dir: "auto", value: state.source, onchange: () => app.set({ source: source.value }) });
  patchControls.append(labelledField(translate("patchFrom"), source),
    dropdown(translate("behindLayer"), app.model.heads.map((_, i) => [i, i]), state.behind, (layer) => app.set({ behind: Number(layer) })),
    numberField("there", "there"), numberField("here", "here"));
  root.append(picker.bar, element("div", { className: "controls" },
    slider(translate("factor"), { low: 0, high: 2, step: 0.1, value: state.factor, format: (v) => (v === 0 ? translate("off") : v === 1 ? translate("unchanged") : v.toFixed(1)) },
      (factor) => app.set({ factor })),
    button(translate("keepHeads"), () => app.set({ kept: headFactors() }), { id: "keep-heads" }),
    button(translate("forgetHeads"), () => app.set({ kept: {} }))), kept, skipControls, patchControls, result);
  return {
    async update() {
      picker.draw();
      showSkips();
      showKept();
      const { position, skip } = state;
      const request = { reading: app.reading.reading, position, skip, ...headFactors() };
      const { source: text, behind, here, there } = state;
      if (text) Object.assign(request, { source: text, layer: behind, here, there });
      effect = await requestJson("change", request);
      const max = Math.max(0, ...[...effect.before, ...effect.after].map((guess) => guess.probability));
      const guesses = (list) => list.slice(0, 8).map((guess) => [displayToken(guess.text), formatProbability(guess.probability), shareBar(guess.probability, max)]);
      const { kind } = app.model;
      updateChildren(result,
        ...(kind === "none" ? [] : [
          effect.divergence === null ? null : element("p", { className: "status", textContent: translate("divergence", formatBits(effect.divergence)) }),
          kind === "label" ? null : element("p", { className: "note", textContent: translate(`predicted-${kind}`, position, displayToken(app.reading.tokens[position])) }),
          element("div", { className: "columns" }, ...["before", "after"].map((when) =>
            table(translate(when), [...predictionColumns(app.model), ""], guesses(effect[when]))))]),
        element("h2", { textContent: translate("movedBy") }), scoredTokens(app.reading.tokens, effect.moved));
    },
    data: () => effect,
  };
}
