// Panels that show attention: all heads, one head as lines or as a heat-map, and the neurons behind it.

import { askNumbers } from "./api.js";
import { Arcs, arcsControls } from "./arcs.js";
import { choice, make, refill, tick, visible } from "./build.js";
import { Grid, headChips } from "./grid.js";
import { Heat } from "./heat.js";
import { Neuron } from "./neuron.js";
import { emptyPanel } from "./panels_answers.js";
import { say } from "./words.js";

// Which kind of attention is looked at, where there are several.
function partPicker(app) {
  const kinds = Object.keys(app.reading.parts);
  return kinds.length < 2 ? null : choice(say("attention"), kinds.map((name) => [name, say(name)]), app.partName, (part) => {
    app.note({ part });
    app.set({ part, lock: [], cell: [], ...app.there(app.state.layer, app.state.heads) });
  });
}

// The layer and its heads, several of them at once.
export function headPicker(app, several = true) {
  const bar = make("div", { className: "controls" });
  const draw = () => {
    const { layer, heads } = app.state;
    const { layers } = app.part;
    refill(bar, partPicker(app),
      choice(say("layer"), Object.keys(layers).map((i) => [i, i]), layer, (value) => app.set(app.there(Number(value), heads))),
      headChips(layers[layer].heads, several ? heads : heads.slice(-1), (head) => app.choose(layer, head, several)));
  };
  return { bar, draw };
}

// What a heat-map of the chosen kind of attention is told, besides the weights.
function sides({ left, right }) {
  return { rows: left.tokens.length, columns: right.tokens.length, left: left.tokens, right: right.tokens };
}

export function headsPanel(app, root) {
  const told = make("p", { className: "told", role: "status" });
  const [place, one, bar] = [make("div"), make("div"), make("div", { className: "controls" })];
  const grid = new Grid(place, (layer, head, several) => app.choose(layer, head, several));
  root.append(bar, told, make("div", { className: "sides" }, place, one));
  const heat = new Heat(one);
  let drawn = null;
  return {
    async update(changes) {
      const { heads, thumb } = app.part;
      const { layer, heads: chosen, lowest } = app.state;
      const measured = app.about.measures.filter((name) => name in heads[0].measures);
      const sort = measured.includes(app.state.sort) ? app.state.sort : "layer";
      const orders = [["layer", say("byLayer")], ...measured.map((name) => [name, say(name)])];
      refill(bar, partPicker(app), choice(say("sort"), orders, sort, (value) => app.set({ sort: value })),
        sort === "layer" ? null : tick(say("lowestFirst"), lowest, (on) => app.set({ lowest: on })),
        make("span", { className: "hint", textContent: say("chooseHeads") }));
      if (drawn !== app.partName || "sort" in changes || "lowest" in changes) {
        drawn = app.partName;
        Object.assign(grid, { order: sort, lowest });
        grid.show({ heads, bytes: await app.pictures(), ...thumb });
      }
      grid.mark(chosen.map((head) => [layer, head]));
      const { head, measures } = heads.find((each) => each.layer === layer && each.head === chosen.at(-1));
      const name = say("oneOf", layer, head);
      told.textContent = `${name}: ${Object.entries(measures).map(([key, value]) => `${say(key)} ${value.toFixed(3)}`).join(", ")}`;
      heat.show({ weights: await app.head(layer, head), name, ...sides(app.part) });
    },
    found: () => app.part.heads,
  };
}

export function arcsPanel(app, root) {
  const picker = headPicker(app);
  const { state, reading } = app;
  const second = reading.segments.indexOf(1);
  const place = make("div");
  root.append(picker.bar,
    make("div", { className: "controls" }, ...arcsControls(state, second > 0, (changes) => app.set(changes))), place);
  const names = ["left", "right"];
  const arcs = new Arcs(place, (locked) => app.note({ lock: locked ? [names.indexOf(locked.side), locked.place] : [] }));
  return {
    async update() {
      picker.draw();
      const { layer, heads, threshold, hideSpecial, filter, lock } = app.state;
      const { left, right } = app.part;
      const chosen = [];
      for (const head of heads) chosen.push({ layer, head, columns: right.tokens.length, weights: await app.head(layer, head) });
      Object.assign(arcs, { threshold, hideSpecial, filter, locked: lock.length ? { side: names[lock[0]], place: lock[1] } : null });
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
  const flows = Object.keys(app.reading.parts).some((name) => name !== "cross"); // from layer to layer
  const kinds = [["head", say("oneHead")], ["mean", say("headMean")], ...(flows ? [["rollout", say("rollout")]] : [])];
  const [place, note] = [make("div"), make("p", { className: "note", textContent: say("rolloutParts") })];
  root.append(picker.bar, make("div", { className: "controls" },
    choice(say("show"), kinds, app.state.what, (what) => app.set({ what })),
    tick(say("logScale"), app.state.log, (log) => app.set({ log }))), note, place);
  const heat = new Heat(place, (cell) => app.note({ cell: cell ?? [] }));
  return {
    async update() {
      picker.draw();
      const { layer, heads, log, cell } = app.state;
      const [{ reading }, part] = [app.reading, app.partName];
      const [what, words] = kinds.find(([kind]) => kind === app.state.what) ?? kinds[0];
      const head = heads.at(-1);
      note.hidden = what !== "rollout" || !["decoder", "cross"].includes(part);
      const weights = what === "head" ? await app.head(layer, head) : await askNumbers("flow", { reading, part, layer, what });
      const name = what === "head" ? say("oneOf", layer, head) : `${say("oneLayer", layer)}, ${words}`;
      Object.assign(heat, { log, cursor: cell.length === 2 ? cell : null, locked: cell.length === 2 });
      heat.show({ weights, name, ...sides(app.part) });
    },
    canvas: () => heat.base,
    svg: () => heat.svg(),
    found: () => ({ name: heat.name, weights: Array.from(heat.weights) }),
  };
}

export function neuronPanel(app, root) {
  if (!Object.values(app.part.layers)[0].vectors) return emptyPanel(root, "noVectors");
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
      const name = part === "encoder" ? "query" : "position"; // the tokens of a source are not those that are written
      const row = Math.min(app.state[name] ?? 0, left.tokens.length - 1);
      refill(query, choice(say("query"), left.tokens.map((token, i) => [i, `${i} ${visible(token)}`]), row,
        (value) => app.set({ [name]: Number(value) })));
      const { size, scale, biased } = layers[layer].vectors;
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
    svg: () => neuron.svg(),
    found: () => ({ token: neuron.data.token, scale: neuron.data.scale, products: Array.from(neuron.found.dots),
      scores: Array.from(neuron.found.scores), weights: Array.from(neuron.data.weights) }),
  };
}
