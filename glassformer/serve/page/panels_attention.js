// Panels that show attention: all heads, one head as lines or as a heat-map, and the neurons behind it.

import { askNumbers } from "./api.js";
import { Arcs } from "./arcs.js";
import { button, choice, make, slider, tick, visible } from "./build.js";
import { Grid } from "./grid.js";
import { Heat } from "./heat.js";
import { Neuron } from "./neuron.js";
import { headColour } from "./paint.js";
import { say } from "./words.js";

// Which kind of attention is looked at, where there are several.
export function partPicker(app) {
  return choice(say("attention"), Object.keys(app.reading.parts).map((name) => [name, say(name)]), app.partName, (part) => {
    app.state.part = part;
    app.set({ part, ...app.there(app.state.layer, app.state.heads) });
  });
}

// The layer and its heads, several of them at once.
export function headPicker(app, several = true) {
  const bar = make("div", { className: "controls" });
  const draw = () => {
    const { layer, heads } = app.state;
    const { layers } = app.part;
    const kinds = Object.keys(app.reading.parts);
    bar.replaceChildren(
      ...(kinds.length > 1 ? [partPicker(app)] : []),
      choice(say("layer"), Object.keys(layers).map((i) => [i, i]), layer, (value) => app.set(app.there(Number(value), heads))),
      make("div", { className: "headlist", role: "group", "aria-label": say("heads") }, ...layers[layer].heads.map((head) => {
        const chip = button(String(head), () => app.choose(layer, head, several), {
          className: "chip", "aria-pressed": String(heads.includes(head)), "aria-label": `${say("head")} ${head}`,
        });
        chip.style.setProperty("--own", headColour(head));
        return chip;
      })));
  };
  return { bar, draw };
}

export function headsPanel(app, root) {
  const told = make("p", { className: "told", role: "status" });
  const [place, one, kind] = [make("div"), make("div"), make("div", { className: "controls" })];
  const grid = new Grid(place, (layer, head, several) => app.choose(layer, head, several));
  const orders = [["layer", say("byLayer")], ...app.about.measures.map((name) => [name, say(name)])];
  root.append(kind,
    make("div", { className: "controls" }, choice(say("sort"), orders, app.state.sort, (sort) => app.set({ sort })),
      make("span", { className: "hint", textContent: say("chooseHeads") })),
    told, make("div", { className: "sides" }, place, one));
  const heat = new Heat(one);
  let drawn = null;
  return {
    async update(changes) {
      const { heads, thumb, left, right } = app.part;
      if (drawn !== app.partName || "sort" in changes) {
        drawn = app.partName;
        if (Object.keys(app.reading.parts).length > 1) kind.replaceChildren(partPicker(app));
        grid.order = app.state.sort;
        grid.show({ heads, bytes: await app.pictures(), ...thumb });
      }
      const { layer, heads: chosen } = app.state;
      grid.mark(chosen.map((head) => [layer, head]));
      const { head, measures } = heads.find((each) => each.layer === layer && each.head === chosen.at(-1));
      const name = `${say("layer")} ${layer} ${say("head")} ${head}`;
      told.textContent = `${name}: ${Object.entries(measures).map(([key, value]) => `${say(key)} ${value.toFixed(3)}`).join(", ")}`;
      heat.show({ weights: await app.head(layer, head), rows: left.tokens.length, columns: right.tokens.length, left: left.tokens, right: right.tokens, name });
    },
    canvas: () => heat.base,
    svg: () => heat.svg(),
  };
}

export function arcsPanel(app, root) {
  const picker = headPicker(app);
  const { state, reading } = app;
  const second = reading.segments.indexOf(1);
  const more = make("div", { className: "controls" },
    slider(say("threshold"), { low: 0, high: 0.5, step: 0.01, value: state.threshold, shown: (v) => v.toFixed(2) },
      (threshold) => app.set({ threshold })),
    tick(say("hideSpecial"), state.special, (special) => app.set({ special })));
  if (second > 0) {
    const [a, b] = [say("sentenceA"), say("sentenceB")];
    more.append(choice(say("show"), [["all", say("all")], ["aa", `${a} → ${a}`], ["ab", `${a} → ${b}`], ["ba", `${b} → ${a}`],
      ["bb", `${b} → ${b}`]], state.filter, (filter) => app.set({ filter })));
  }
  const place = make("div");
  root.append(picker.bar, more, place);
  const arcs = new Arcs(place);
  return {
    async update() {
      picker.draw();
      const { layer, heads, threshold, special, filter } = app.state;
      const { left, right } = app.part;
      const chosen = [];
      for (const head of heads) chosen.push({ layer, head, columns: right.tokens.length, weights: await app.head(layer, head) });
      Object.assign(arcs, { threshold, hideSpecial: special, filter });
      arcs.show({
        left: left.tokens, right: right.tokens, special: { left: left.special, right: right.special },
        second: second > 0 ? second : null, heads: chosen,
      });
    },
    canvas: () => arcs.picture(),
    svg: () => arcs.svg(),
  };
}

export function heatPanel(app, root) {
  const picker = headPicker(app, false);
  const kinds = [["head", say("oneHead")], ["mean", say("headMean")], ["rollout", say("rollout")]];
  const [place, note] = [make("div"), make("p", { className: "note", textContent: say("rolloutParts") })];
  root.append(picker.bar, make("div", { className: "controls" },
    choice(say("show"), kinds, app.state.what, (what) => app.set({ what })),
    tick(say("logScale"), app.state.log, (log) => app.set({ log }))), note, place);
  const heat = new Heat(place);
  return {
    async update() {
      picker.draw();
      const { layer, heads, what, log } = app.state;
      const [{ left, right }, { reading }, part] = [app.part, app.reading, app.partName];
      const head = heads.at(-1);
      note.hidden = what !== "rollout" || !["decoder", "cross"].includes(part);
      const weights = what === "head" ? await app.head(layer, head) : await askNumbers("flow", { reading, part, layer, what });
      const shown = kinds.find(([kind]) => kind === what)?.[1] ?? what;
      const name = `${say("layer")} ${layer}${what === "head" ? ` ${say("head")} ${head}` : `, ${shown}`}`;
      heat.log = log;
      heat.show({ weights, rows: left.tokens.length, columns: right.tokens.length, left: left.tokens, right: right.tokens, name });
    },
    canvas: () => heat.base,
    svg: () => heat.svg(),
  };
}

export function neuronPanel(app, root) {
  const picker = headPicker(app, false);
  const query = make("div", { className: "controls" });
  const place = make("div");
  root.append(picker.bar, query, place);
  const neuron = new Neuron(place);
  return {
    async update() {
      picker.draw();
      const { layer, heads } = app.state;
      const [{ left, right, layers, causal }, { reading }, part] = [app.part, app.reading, app.partName];
      const row = Math.min(app.state.position, left.tokens.length - 1);
      query.replaceChildren(choice(say("query"), left.tokens.map((token, i) => [i, `${i} ${visible(token)}`]), row,
        (value) => app.set({ position: Number(value) })));
      const { size, scale, biased } = layers[layer];
      const numbers = await askNumbers("neuron", { reading, part, layer, head: heads.at(-1), row });
      const count = right.tokens.length;
      const [keys, bias] = [size, size + count * size];
      neuron.show({
        query: numbers.subarray(0, size), keys: numbers.subarray(keys, bias), scale, right: right.tokens, token: left.tokens[row],
        bias: biased ? numbers.subarray(bias, bias + count) : null, weights: numbers.subarray(bias + count),
        hidden: causal ? right.tokens.map((_, j) => j > row) : null,
      });
    },
    canvas: () => neuron.canvas,
  };
}
