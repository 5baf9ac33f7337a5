// Panels that show attention: all heads, heads as lines, a head as a heat-map, and its queries and keys.

import { requestNumbers } from "./api.js";
import { HeadView, headViewControls } from "./head_view.js";
import { checkbox, displayToken, dropdown, element, updateChildren } from "./dom.js";
import { headButtons, HeadGrid } from "./head_grid.js";
import { HeatMap } from "./heat_map.js";
import { NeuronView } from "./neuron_view.js";
import { emptyPanel } from "./panel_widgets.js";
import { translate } from "./translations.js";

// Selects the kind of attention, where there are several.
function partPicker(app) {
  const kinds = Object.keys(app.reading.parts);
  return kinds.length < 2 ? null : dropdown(translate("attention"), kinds.map((name) => [name, translate(name)]), app.partName, (part) => {
    app.store({ part });
    app.set({ part, lock: [], cell: [], ...app.availableHeads(app.state.layer, app.state.heads) });
  });
}

// Selects a layer and one or several of its heads.
export function headPicker(app, several = true) {
  const bar = element("div", { className: "controls" });
  const draw = () => {
    const { layer, heads } = app.state;
    const { layers } = app.part;
    updateChildren(bar, partPicker(app),
      dropdown(translate("layer"), Object.keys(layers).map((i) => [i, i]), layer, (value) => app.set(app.availableHeads(Number(value), heads))),
      headButtons(layers[layer].heads, several ? heads : heads.slice(-1), (head) => app.selectHead(layer, head, several)));
  };
  return { bar, draw };
}

// The shape and the tokens of a heat-map.
function tokenAxes({ left, right }) {
  return { rows: left.tokens.length, columns: right.tokens.length, left: left.tokens, right: right.tokens };
}

export function headsPanel(app, root) {
  const status = element("p", { className: "status", role: "status" });
  const [gridRoot, heatRoot, bar] = [element("div"), element("div"), element("div", { className: "controls" })];
  const grid = new HeadGrid(gridRoot, (layer, head, several) => app.selectHead(layer, head, several));
  root.append(bar, status, element("div", { className: "sides" }, gridRoot, heatRoot));
  const heat = new HeatMap(heatRoot);
  let shownPart = null;
  return {
    async update(changes) {
      const { heads, thumb } = app.part;
      const { layer, heads: selected, lowest } = app.state;
      const measured = app.about.measures.filter((name) => name in heads[0].measures);
      const sort = measured.includes(app.state.sort) ? app.state.sort : "layer";
      const orders = [["layer", translate("byLayer")], ...measured.map((name) => [name, translate(name)])];
      updateChildren(bar, partPicker(app), dropdown(translate("sort"), orders, sort, (value) => app.set({ sort: value })),
        sort === "layer" ? null : checkbox(translate("lowestFirst"), lowest, (checked) => app.set({ lowest: checked })),
        element("span", { className: "hint", textContent: translate("chooseHeads") }));
      if (shownPart !== app.partName || "sort" in changes || "lowest" in changes) {
        shownPart = app.partName;
        Object.assign(grid, { order: sort, lowest });
        grid.show({ heads, bytes: await app.fetchThumbnails(), ...thumb });
      }
      grid.mark(selected.map((head) => [layer, head]));
      const { head, measures } = heads.find((each) => each.layer === layer && each.head === selected.at(-1));
      const name = translate("oneOf", layer, head);
      status.textContent = `${name}: ${Object.entries(measures).map(([key, value]) => `${translate(key)} ${value.toFixed(3)}`).join(", ")}`;
      heat.show({ weights: await app.fetchHead(layer, head), name, ...tokenAxes(app.part) });
    },
    data: () => app.part.heads,
  };
}

export function headViewPanel(app, root) {
  const picker = headPicker(app);
  const { state, reading } = app;
  const second = reading.segments.indexOf(1);
  const container = element("div");
  root.append(picker.bar,
    element("div", { className: "controls" }, ...headViewControls(state, second > 0, (changes) => app.set(changes))), container);
  const names = ["left", "right"];
  const view = new HeadView(container, (locked) => app.store({ lock: locked ? [names.indexOf(locked.side), locked.position] : [] }));
  return {
    async update() {
      picker.draw();
      const { layer, heads, threshold, hideSpecial, filter, lock } = app.state;
      const { left, right } = app.part;
      const selected = [];
      for (const head of heads) selected.push({ layer, head, columns: right.tokens.length, weights: await app.fetchHead(layer, head) });
      Object.assign(view, { threshold, hideSpecial, filter, locked: lock.length ? { side: names[lock[0]], position: lock[1] } : null });
      view.show({
        left: left.tokens, right: right.tokens, special: { left: left.special, right: right.special },
        second: second > 0 ? second : null, heads: selected,
      });
    },
    canvas: () => view.toCanvas(),
    svg: () => view.svg(),
  };
}

export function heatMapPanel(app, root) {
  const picker = headPicker(app, false);
  const hasRollout = Object.keys(app.reading.parts).some((name) => name !== "cross"); // it needs self-attention
  const kinds = [["head", translate("oneHead")], ["mean", translate("headMean")], ...(hasRollout ? [["rollout", translate("rollout")]] : [])];
  const [container, note] = [element("div"), element("p", { className: "note", textContent: translate("rolloutParts") })];
  root.append(picker.bar, element("div", { className: "controls" },
    dropdown(translate("show"), kinds, app.state.what, (what) => app.set({ what })),
    checkbox(translate("logScale"), app.state.log, (log) => app.set({ log }))), note, container);
  const heat = new HeatMap(container, (cell) => app.store({ cell: cell ?? [] }));
  return {
    async update() {
      picker.draw();
      const { layer, heads, log, cell } = app.state;
      const [{ reading }, part] = [app.reading, app.partName];
      const [what, description] = kinds.find(([kind]) => kind === app.state.what) ?? kinds[0];
      const head = heads.at(-1);
      note.hidden = what !== "rollout" || !["decoder", "cross"].includes(part);
      const weights = what === "head" ? await app.fetchHead(layer, head) : await requestNumbers("flow", { reading, part, layer, what });
      const name = what === "head" ? translate("oneOf", layer, head) : `${translate("oneLayer", layer)}, ${description}`;
      Object.assign(heat, { log, cursor: cell.length === 2 ? cell : null, locked: cell.length === 2 });
      heat.show({ weights, name, ...tokenAxes(app.part) });
    },
    canvas: () => heat.base,
    svg: () => heat.svg(),
    data: () => ({ name: heat.name, weights: Array.from(heat.weights) }),
  };
}

export function neuronViewPanel(app, root) {
  if (!Object.values(app.part.layers)[0].vectors) return emptyPanel(root, "noVectors");
  const picker = headPicker(app, false);
  const query = element("div", { className: "controls" });
  const container = element("div");
  root.append(picker.bar, query, container);
  const neuron = new NeuronView(container);
  return {
    async update() {
      picker.draw();
      const { layer, heads } = app.state;
      const [{ left, right, layers, causal }, { reading }, part] = [app.part, app.reading, app.partName];
      const name = part === "encoder" ? "query" : "position"; // source and target have tokens of their own
      const row = Math.min(app.state[name] ?? 0, left.tokens.length - 1);
      updateChildren(query, dropdown(translate("query"), left.tokens.map((token, i) => [i, `${i} ${displayToken(token)}`]), row,
        (value) => app.set({ [name]: Number(value) })));
      const { size, scale, biased } = layers[layer].vectors;
      const numbers = await requestNumbers("neuron", { reading, part, layer, head: heads.at(-1), row });
      const count = right.tokens.length;
      const biasStart = size + count * size;
      neuron.show({
        query: numbers.subarray(0, size), keys: numbers.subarray(size, biasStart), scale, right: right.tokens, token: left.tokens[row],
        bias: biased ? numbers.subarray(biasStart, biasStart + count) : null, weights: numbers.subarray(biasStart + count),
        hidden: causal ? right.tokens.map((_, j) => j > row) : null,
      });
    },
    canvas: () => neuron.canvas,
    svg: () => neuron.svg(),
    data: () => ({ token: neuron.data.token, scale: neuron.data.scale, products: Array.from(neuron.result.dots),
      scores: Array.from(neuron.result.scores), weights: Array.from(neuron.data.weights) }),
  };
}
