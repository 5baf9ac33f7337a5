// The compare panel: two texts in one model, or one text in two models. Shows their predictions, one head of both, the
// similarity of layers, and the heads that differ most.

import { requestJson, requestNumbers } from "./api.js";
import { button, displayToken, dropdown, element, escapeControls, labelledField, table, updateChildren } from "./dom.js";
import { HeatMap } from "./heat_map.js";
import { formatProbability, layerNamer, predictionColumns, shareBar } from "./panel_widgets.js";
import { headPicker } from "./panels_attention.js";
import { translate } from "./translations.js";

const MAX_GUESSES = 6; // of each

export function comparePanel(app, root) {
  const { state, about } = app;
  const first = about.models[state.model];
  const otherModel = () => Math.max(0, Math.min(state.beside ?? about.models.length - 1 - state.model, about.models.length - 1));
  const input = element("input", { type: "text", dir: "auto", value: state.other || state.text, id: "other", onkeydown: (event) => {
    if (event.key === "Enter") app.set({ other: input.value });
  } });
  const picker = headPicker(app, false);
  const [predictions, layers, differing] = [element("div", { className: "columns" }), element("div"), element("div", { className: "wide" })];
  const pairs = [element("div"), element("div")];
  const names = pairs.map(() => element("h2", { dir: "auto" }));
  const missingHead = element("p", { className: "note" });
  root.append(element("div", { className: "controls" }, labelledField(translate("otherText"), input),
    about.models.length > 1 ? dropdown(translate("otherModel"), about.models.map((model, i) => [i, model.name]), otherModel(),
      (value) => app.set({ beside: Number(value) })) : null,
    button(translate("compare"), () => app.set({ other: input.value }), { id: "run-compare" })),
  predictions, picker.bar, element("div", { className: "columns" }, ...pairs.map((pair, i) => element("div", {}, names[i], pair, i ? missingHead : null))), layers, differing);
  const heats = pairs.map((pair) => new HeatMap(pair));
  const similarity = new HeatMap(layers);
  let [second, comparison] = [null, null];

  // The selected kind of attention, or the first one of another architecture.
  const kindIn = (kinds) => (app.partName in kinds ? app.partName : Object.keys(kinds)[0]);
  const read = async () => {
    const { decoder } = about.models[otherModel()];
    second = await requestJson("read", { text: state.other || state.text, pair: decoder ? "" : state.pair, model: otherModel() });
    comparison = await requestJson("compare", { first: app.reading.reading, second: second.reading });
  };
  // The predictions of both: for the text, for the selected token, or for the next one.
  const showPredictions = async () => {
    const sides = [[first, app.reading, state.position], [about.models[otherModel()], second, null]];
    const tables = [];
    if (sides.every(([model]) => model.kind === "none")) return predictions.replaceChildren();
    for (const [i, [model, { reading, tokens }, selected]] of sides.entries()) {
      if (model.kind === "none") {
        tables.push(element("p", { className: "note", textContent: `${i + 1}: ${translate("noHead")}` }));
        continue;
      }
      const position = Math.min(selected ?? (model.kind === "next" ? tokens.length - 1 : state.position), tokens.length - 1);
      const { guesses } = await requestJson("predict", { reading, position, count: MAX_GUESSES });
      const title = model.kind === "label" ? translate("predictions") : translate(`predicted-${model.kind}`, position, displayToken(tokens[position]));
      tables.push(table(`${i + 1}: ${title}`, [...predictionColumns(model), ""],
        guesses.map((guess) => [displayToken(guess.text), formatProbability(guess.probability), shareBar(guess.probability)])));
    }
    return predictions.replaceChildren(...tables);
  };
  const showHead = async () => {
    const [{ layer, heads }, part] = [state, app.partName];
    const head = heads.at(-1), name = translate("oneOf", layer, head);
    const otherKind = kindIn(second.parts);
    const has = second.parts[otherKind].layers[layer]?.heads.includes(head);
    pairs[1].hidden = !has;
    missingHead.textContent = has ? "" : translate("noSuchHead", name);
    const both = [[app.reading, part], ...(has ? [[second, otherKind]] : [])];
    for (const [i, [reading, kind]] of both.entries()) {
      const { left: { tokens: left }, right: { tokens: right } } = reading.parts[kind];
      const weights = i ? await requestNumbers("head", { reading: reading.reading, part: kind, layer, head }) : await app.fetchHead(layer, head);
      heats[i].show({ weights, rows: left.length, columns: right.length, left, right, name });
    }
  };
  const showLayers = () => {
    layers.hidden = !comparison.cka;
    if (!comparison.cka) return;
    const layerNames = (number, model, count) => Array.from({ length: count }, (_, index) => `${number}: ${layerNamer(model, count)(index)}`);
    const [rows, columns] = [comparison.cka.length, comparison.cka[0].length];
    similarity.show({ weights: Float32Array.from(comparison.cka.flat()), rows, columns, sums: false, name: translate("ckaNote"),
      left: layerNames(1, first, rows), right: layerNames(2, about.models[otherModel()], columns) });
  };
  const showDifferences = () => {
    const [own, others] = [comparison.first[app.partName], comparison.second[kindIn(comparison.second)]];
    const otherMeasures = new Map(others.map((each) => [`${each.layer}.${each.head}`, each.measures]));
    const all = own.filter((each) => otherMeasures.has(`${each.layer}.${each.head}`)).map(({ layer, head, measures }) => {
      const other = otherMeasures.get(`${layer}.${head}`);
      return { layer, head, measures, other, difference: Math.abs(measures.entropy - other.entropy) };
    }).filter((each) => each.difference > 0).sort((a, b) => b.difference - a.difference).slice(0, 10);
    const compared = ["entropy", "distance"].filter((name) => name in own[0].measures && name in others[0].measures);
    const columns = compared.flatMap((name) => [`1: ${translate(name)}`, `2: ${translate(name)}`]);
    updateChildren(differing, ...(comparison.cka ? [] : [element("p", { className: "note", textContent: translate("ckaNeeds") })]),
      all.length ? table(translate("differ"), ["", ...columns], all.map(({ layer, head, measures, other }) => [
        button(translate("oneOf", layer, head), () => app.set({ layer, heads: [head] })),
        ...compared.flatMap((name) => [measures[name].toFixed(3), other[name].toFixed(3)])]))
        : element("p", { className: "note", textContent: translate("noDifference") }));
  };
  return {
    async update(changes) {
      if (!second || "other" in changes || "beside" in changes) await read();
      picker.draw();
      [[first, state.text], [about.models[otherModel()], state.other || state.text]].forEach(([model, text], i) => {
        names[i].textContent = `${i + 1}: ${about.models.length > 1 ? `${model.name}, ` : ""}${escapeControls(text)}`;
      });
      await showPredictions();
      await showHead();
      showLayers();
      showDifferences();
    },
    data: () => comparison,
  };
}
