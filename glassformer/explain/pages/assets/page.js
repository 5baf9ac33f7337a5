// A page that stands alone: head view, model view, neuron view, or all of them.

import { Arcs, arcsControls } from "./arcs.js";
import { button, choice, make, refill, tick, visible } from "./build.js";
import { chosenWith, Grid, headChips } from "./grid.js";
import { Heat } from "./heat.js";
import { Neuron } from "./neuron.js";
import { colour, dress, fullest } from "./paint.js";
import { download, downloadPng } from "./save.js";
import { PageSource } from "./source.js";
import { say, speak } from "./words.js";

const THUMB = 48;

class Page {
  constructor(source, root) {
    this.source = source;
    this.about = source.about;
    this.root = root;
    this.settings = { threshold: 0.02, hideSpecial: false, filter: "all" };
    this.query = 0;
    this.kind = this.about.kind;
    this.layer = this.about.layer ?? this.layers()[0];
    const [asked, all] = [this.about.heads ?? [], this.headsOf(this.layer)];
    this.heads = asked.length ? asked : this.about.view === "head" ? all : all.slice(0, 1);
  }

  get part() {
    return this.about.attention[this.kind];
  }

  list() {
    return Object.keys(this.part.places).map((key) => {
      const [layer, head] = key.split(".").map(Number);
      return { layer, head };
    });
  }

  layers() {
    return [...new Set(this.list().map(({ layer }) => layer))];
  }

  headsOf(layer) {
    return this.list().filter((each) => each.layer === layer).map(({ head }) => head);
  }

  build() {
    const { view, vectors } = this.about;
    this.root.className = view;
    this.bar = make("div", { className: "controls", role: "group", "aria-label": say("settings") });
    const parts = [];
    const section = (title, fill) => {
      const inner = make("div");
      parts.push(make("section", { "aria-label": title }, make("h2", { textContent: title }), inner));
      return fill(inner);
    };
    if (view === "model" || view === "see") this.grid = section(say("allHeads"), (root) =>
      new Grid(root, (layer, head, several) => this.choose(layer, head, several)));
    if (view !== "neuron") this.arcs = section(say("headView"), (root) => new Arcs(root));
    if (view === "model" || view === "see") this.heat = section(say("heatMap"), (root) => new Heat(root));
    if (vectors) this.neuron = section(say("neuronView"), (root) => {
      this.queryPicker = make("div", { className: "controls" });
      root.append(this.queryPicker);
      return new Neuron(root);
    });
    this.root.replaceChildren(this.bar, ...parts);
    this.showGrid();
    this.show();
  }

  controls() {
    const kinds = Object.keys(this.about.attention);
    refill(this.bar,
      kinds.length > 1 ? choice(say("attention"), kinds.map((kind) => [kind, say(kind)]), this.kind, (kind) => {
        this.kind = kind;
        this.turnTo(this.layers()[0]);
        this.showGrid();
      }) : null,
      choice(say("layer"), this.layers().map((layer) => [layer, layer]), this.layer, (layer) => this.turnTo(Number(layer))),
      headChips(this.headsOf(this.layer), this.heads, (head) => this.choose(this.layer, head, true)),
      ...(this.arcs ? arcsControls(this.settings, typeof this.part.second === "number", (changes) => {
        Object.assign(this.arcs, Object.assign(this.settings, changes));
        this.arcs.draw();
      }) : []),
      this.heat ? tick(say("logScale"), this.heat.log, (log) => {
        this.heat.log = log;
        this.heat.draw();
      }) : null,
      this.exports());
  }

  exports() {
    const shown = this.arcs ?? this.neuron;
    return make("div", { className: "exports", role: "group", "aria-label": say("export") },
      button("PNG", () => downloadPng("attention.png", this.arcs ? this.arcs.picture() : this.neuron.canvas, colour("paper"))),
      button("SVG", () => download("attention.svg", shown.svg(), "image/svg+xml")),
      button("JSON", () => download("attention.json", JSON.stringify({
        kind: this.kind, layer: this.layer, left: this.part.left, right: this.part.right,
        heads: this.heads.map((head) => ({ head, weights: Array.from(this.source.weights(this.kind, this.layer, head)) })),
      }), "application/json")));
  }

  // Another layer, with the same heads as far as it has them.
  turnTo(layer) {
    const kept = this.heads.filter((head) => this.headsOf(layer).includes(head));
    this.layer = layer;
    this.heads = kept.length ? kept : this.headsOf(layer).slice(0, 1);
    this.show();
  }

  choose(layer, head, several) {
    this.heads = chosenWith(this.heads, head, several && layer === this.layer);
    this.layer = layer;
    this.show();
  }

  showGrid() {
    if (!this.grid) return;
    const { rows, columns } = this.part;
    const [height, width] = [Math.min(THUMB, rows), Math.min(THUMB, columns)];
    const heads = this.list();
    const bytes = new Uint8Array(heads.length * height * width);
    heads.forEach(({ layer, head }, place) => {
      const weights = this.source.weights(this.kind, layer, head);
      for (let i = 0; i < rows; i++) for (let j = 0; j < columns; j++) {
        const at = place * height * width + Math.floor((i * height) / rows) * width + Math.floor((j * width) / columns);
        bytes[at] = Math.max(bytes[at], Math.min(255, Math.round((255 * weights[i * columns + j]) / fullest(columns))));
      }
    });
    this.grid.show({ heads: heads.map((each) => ({ ...each, measures: {} })), bytes, rows: height, columns: width });
  }

  show() {
    this.controls();
    const { left, right, special, second, rows, columns } = this.part;
    const heads = this.heads.map((head) => ({
      layer: this.layer, head, columns, weights: this.source.weights(this.kind, this.layer, head),
    }));
    this.grid?.mark(this.heads.map((head) => [this.layer, head]));
    this.arcs?.show({ left, right, special, second, heads });
    const one = heads.at(-1);
    this.heat?.show({ weights: one.weights, rows, columns, left, right, name: say("oneOf", this.layer, one.head) });
    if (this.neuron) this.showNeuron(one);
  }

  showNeuron({ head, weights, columns }) {
    const { left, right } = this.part;
    const { queries, keys, bias, size } = this.source.vectors(this.kind, this.layer, head);
    const place = Math.min(this.query, left.length - 1);
    refill(this.queryPicker, choice(say("query"), left.map((token, i) => [i, `${i} ${visible(token)}`]), place, (value) => {
      this.query = Number(value);
      this.showNeuron({ head, weights, columns });
    }));
    const { scale, causal } = this.about.vectors[this.kind];
    this.neuron.show({
      query: queries.subarray(place * size, (place + 1) * size), keys, scale: scale[`${this.layer}`],
      bias: bias && bias.subarray(place * columns, (place + 1) * columns),
      hidden: causal ? right.map((_, j) => j > place) : null,
      weights: weights.subarray(place * columns, (place + 1) * columns), right, token: left[place],
    });
  }
}

async function begin() {
  const source = await PageSource.read();
  speak(source.about.language);
  dress(source.about.theme ?? "auto");
  new Page(source, document.getElementById("page")).build();
  document.documentElement.dataset.ready = "yes";
}

begin();
