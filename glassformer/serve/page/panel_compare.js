// Two texts in one model, or one text in two models: their answers, one head in both, how alike the layers are, and which
// heads differ most.

import { askJson, askNumbers } from "./api.js";
import { button, choice, harmless, labelled, make, refill, table, visible } from "./build.js";
import { Heat } from "./heat.js";
import { behind, chance, guessed, share } from "./panels_answers.js";
import { headPicker } from "./panels_attention.js";
import { say } from "./words.js";

const SHOWN = 6; // answers of each

export function comparePanel(app, root) {
  const { state, about } = app;
  const first = about.models[state.model];
  const beside = () => Math.max(0, Math.min(state.beside ?? about.models.length - 1 - state.model, about.models.length - 1));
  const input = make("input", { type: "text", dir: "auto", value: state.other || state.text, id: "other", onkeydown: (event) => {
    if (event.key === "Enter") app.set({ other: input.value });
  } });
  const picker = headPicker(app, false);
  const [answers, layers, differing] = [make("div", { className: "columns" }), make("div"), make("div", { className: "wide" })];
  const pairs = [make("div"), make("div")];
  const names = pairs.map(() => make("h2", { dir: "auto" }));
  const missing = make("p", { className: "note" });
  root.append(make("div", { className: "controls" }, labelled(say("otherText"), input),
    about.models.length > 1 ? choice(say("otherModel"), about.models.map((model, i) => [i, model.name]), beside(),
      (value) => app.set({ beside: Number(value) })) : null,
    button(say("compare"), () => app.set({ other: input.value }), { id: "run-compare" })),
  answers, picker.bar, make("div", { className: "columns" }, ...pairs.map((pair, i) => make("div", {}, names[i], pair, i ? missing : null))), layers, differing);
  const heats = pairs.map((pair) => new Heat(pair));
  const alike = new Heat(layers);
  let [second, found] = [null, null];

  // The kind of attention that is looked at, or the one that stands for it in another architecture.
  const kindIn = (kinds) => (app.partName in kinds ? app.partName : Object.keys(kinds)[0]);
  const read = async () => {
    const { decoder } = about.models[beside()];
    second = await askJson("read", { text: state.other || state.text, pair: decoder ? "" : state.pair, model: beside() });
    found = await askJson("compare", { first: app.reading.reading, second: second.reading });
  };
  // What each of them says: of its text, of the token that is chosen, or of what comes next.
  const showAnswers = async () => {
    const sides = [[first, app.reading, state.position], [about.models[beside()], second, null]];
    const shown = [];
    if (sides.every(([model]) => model.kind === "none")) return answers.replaceChildren();
    for (const [i, [model, { reading, tokens }, place]] of sides.entries()) {
      if (model.kind === "none") {
        shown.push(make("p", { className: "note", textContent: `${i + 1}: ${say("noHead")}` }));
        continue;
      }
      const position = Math.min(place ?? (model.kind === "next" ? tokens.length - 1 : state.position), tokens.length - 1);
      const { guesses } = await askJson("predict", { reading, position, count: SHOWN });
      const title = model.kind === "label" ? say("predictions") : say(`said-${model.kind}`, position, visible(tokens[position]));
      shown.push(table(`${i + 1}: ${title}`, [...guessed(model), ""],
        guesses.map((guess) => [visible(guess.text), chance(guess.probability), share(guess.probability)])));
    }
    return answers.replaceChildren(...shown);
  };
  const showHead = async () => {
    const [{ layer, heads }, part] = [state, app.partName];
    const head = heads.at(-1), name = say("oneOf", layer, head);
    const beside = kindIn(second.parts);
    const has = second.parts[beside].layers[layer]?.heads.includes(head);
    pairs[1].hidden = !has;
    missing.textContent = has ? "" : say("noSuchHead", name);
    const both = [[app.reading, part], ...(has ? [[second, beside]] : [])];
    for (const [i, [reading, kind]] of both.entries()) {
      const { left: { tokens: left }, right: { tokens: right } } = reading.parts[kind];
      const weights = i ? await askNumbers("head", { reading: reading.reading, part: kind, layer, head }) : await app.head(layer, head);
      heats[i].show({ weights, rows: left.length, columns: right.length, left, right, name });
    }
  };
  const showLayers = () => {
    layers.hidden = !found.cka;
    if (!found.cka) return;
    const named = (number, model, places) => Array.from({ length: places }, (_, place) => `${number}: ${behind(model, places)(place)}`);
    const [rows, columns] = [found.cka.length, found.cka[0].length];
    alike.show({ weights: Float32Array.from(found.cka.flat()), rows, columns, sums: false, name: say("ckaNote"),
      left: named(1, first, rows), right: named(2, about.models[beside()], columns) });
  };
  const showDifferences = () => {
    const [own, beside] = [found.first[app.partName], found.second[kindIn(found.second)]];
    const others = new Map(beside.map((each) => [`${each.layer}.${each.head}`, each.measures]));
    const all = own.filter((each) => others.has(`${each.layer}.${each.head}`)).map(({ layer, head, measures }) => {
      const other = others.get(`${layer}.${head}`);
      return { layer, head, measures, other, by: Math.abs(measures.entropy - other.entropy) };
    }).filter((each) => each.by > 0).sort((a, b) => b.by - a.by).slice(0, 10);
    const shown = ["entropy", "distance"].filter((name) => name in own[0].measures && name in beside[0].measures);
    const columns = shown.flatMap((name) => [`1: ${say(name)}`, `2: ${say(name)}`]);
    refill(differing, ...(found.cka ? [] : [make("p", { className: "note", textContent: say("ckaNeeds") })]),
      all.length ? table(say("differ"), ["", ...columns], all.map(({ layer, head, measures, other }) => [
        button(say("oneOf", layer, head), () => app.set({ layer, heads: [head] })),
        ...shown.flatMap((name) => [measures[name].toFixed(3), other[name].toFixed(3)])]))
        : make("p", { className: "note", textContent: say("noDifference") }));
  };
  return {
    async update(changes) {
      if (!second || "other" in changes || "beside" in changes) await read();
      picker.draw();
      [[first, state.text], [about.models[beside()], state.other || state.text]].forEach(([model, text], i) => {
        names[i].textContent = `${i + 1}: ${about.models.length > 1 ? `${model.name}, ` : ""}${harmless(text)}`;
      });
      await showAnswers();
      await showHead();
      showLayers();
      showDifferences();
    },
    found: () => found,
  };
}
