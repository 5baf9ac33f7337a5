// A standalone page: head view, model view, neuron view, or all of them.

import { HeadView, headViewControls } from "./head_view.js";
import { button, checkbox, displayToken, dropdown, element, updateChildren } from "./dom.js";
import { headButtons, HeadGrid, toggleHead } from "./head_grid.js";
import { HeatMap } from "./heat_map.js";
import { NeuronView } from "./neuron_view.js";
import { cssColour, saturation, setTheme } from "./canvas.js";
import { download, downloadPng } from "./download.js";
import { PageData } from "./page_data.js";
import { PicturePage } from "./picture_page.js";
import { setLanguage, translate } from "./translations.js";

const THUMBNAIL = 48; // pixels of one side

class StandalonePage {
  constructor(data, root) {
    this.data = data;
    this.about = data.about;
    this.root = root;
    this.settings = { threshold: 0.02, hideSpecial: false, filter: "all" };
    this.query = 0;
    this.kind = this.about.kind;
    this.layer = this.about.layer ?? this.layers()[0];
    const [requested, all] = [this.about.heads ?? [], this.headsOf(this.layer)];
    this.heads = requested.length ? requested : this.about.view === "head" ? all : all.slice(0, 1);
  }

  get part() {
    return this.about.attention[this.kind];
  }

  allHeads() {
    return Object.keys(this.part.places).map((key) => {
      const [layer, head] = key.split(".").map(Number);
      return { layer, head };
    });
  }

  layers() {
    return [...new Set(this.allHeads().map(({ layer }) => layer))];
  }

  headsOf(layer) {
    return this.allHeads().filter((each) => each.layer === layer).map(({ head }) => head);
  }

  build() {
    const { view, vectors } = this.about;
    this.root.className = view;
    this.bar = element("div", { className: "controls", role: "group", "aria-label": translate("settings") });
    const parts = [];
    const section = (title, build) => {
      const inner = element("div");
      parts.push(element("section", { "aria-label": title }, element("h2", { textContent: title }), inner));
      return build(inner);
    };
    if (view === "model" || view === "see") this.grid = section(translate("allHeads"), (root) =>
      new HeadGrid(root, (layer, head, several) => this.selectHead(layer, head, several)));
    if (view !== "neuron") this.headView = section(translate("headView"), (root) => new HeadView(root));
    if (view === "model" || view === "see") this.heatMap = section(translate("heatMap"), (root) => new HeatMap(root));
    if (vectors) this.neuronView = section(translate("neuronView"), (root) => {
      this.queryPicker = element("div", { className: "controls" });
      root.append(this.queryPicker);
      return new NeuronView(root);
    });
    this.root.replaceChildren(this.bar, ...parts);
    this.showGrid();
    this.show();
  }

  controls() {
    const kinds = Object.keys(this.about.attention);
    updateChildren(this.bar,
      kinds.length > 1 ? dropdown(translate("attention"), kinds.map((kind) => [kind, translate(kind)]), this.kind, (kind) => {
        this.kind = kind;
        this.selectLayer(this.layers()[0]);
        this.showGrid();
      }) : null,
      dropdown(translate("layer"), this.layers().map((layer) => [layer, layer]), this.layer, (layer) => this.selectLayer(Number(layer))),
      headButtons(this.headsOf(this.layer), this.heads, (head) => this.selectHead(this.layer, head, true)),
      ...(this.headView ? headViewControls(this.settings, typeof this.part.second === "number", (changes) => {
        Object.assign(this.headView, Object.assign(this.settings, changes));
        this.headView.draw();
      }) : []),
      this.heatMap ? checkbox(translate("logScale"), this.heatMap.log, (log) => {
        this.heatMap.log = log;
        this.heatMap.draw();
      }) : null,
      this.exports());
  }

  exports() {
    const view = this.headView ?? this.neuronView;
    return element("div", { className: "exports", role: "group", "aria-label": translate("export") },
      button("PNG", () => downloadPng("attention.png", this.headView ? this.headView.toCanvas() : this.neuronView.canvas, cssColour("paper"))),
      button("SVG", () => download("attention.svg", view.svg(), "image/svg+xml")),
      button("JSON", () => download("attention.json", JSON.stringify({
        kind: this.kind, layer: this.layer, left: this.part.left, right: this.part.right,
        heads: this.heads.map((head) => ({ head, weights: Array.from(this.data.weights(this.kind, this.layer, head)) })),
      }), "application/json")));
  }

  // Select a layer, keeping the selected heads that it has.
  selectLayer(layer) {
    const kept = this.heads.filter((head) => this.headsOf(layer).includes(head));
    this.layer = layer;
    this.heads = kept.length ? kept : this.headsOf(layer).slice(0, 1);
    this.show();
  }

  selectHead(layer, head, several) {
    this.heads = toggleHead(this.heads, head, several && layer === this.layer);
    this.layer = layer;
    this.show();
  }

  showGrid() {
    if (!this.grid) return;
    const { rows, columns } = this.part;
    const [height, width] = [Math.min(THUMBNAIL, rows), Math.min(THUMBNAIL, columns)];
    const heads = this.allHeads();
    const bytes = new Uint8Array(heads.length * height * width);
    heads.forEach(({ layer, head }, index) => {
      const weights = this.data.weights(this.kind, layer, head);
      for (let i = 0; i < rows; i++) for (let j = 0; j < columns; j++) {
        const at = index * height * width + Math.floor((i * height) / rows) * width + Math.floor((j * width) / columns);
        bytes[at] = Math.max(bytes[at], Math.min(255, Math.round((255 * weights[i * columns + j]) / saturation(columns))));
      }
    });
    this.grid.show({ heads: heads.map((each) => ({ ...each, measures: {} })), bytes, rows: height, columns: width });
  }

  show() {
    this.controls();
    const { left, right, special, second, rows, columns } = this.part;
    const heads = this.heads.map((head) => ({
      layer: this.layer, head, columns, weights: this.data.weights(this.kind, this.layer, head),
    }));
    this.grid?.mark(this.heads.map((head) => [this.layer, head]));
    this.headView?.show({ left, right, special, second, heads });
    const one = heads.at(-1);
    this.heatMap?.show({ weights: one.weights, rows, columns, left, right, name: translate("oneOf", this.layer, one.head) });
    if (this.neuronView) this.showNeuron(one);
  }

  showNeuron({ head, weights, columns }) {
    const { left, right } = this.part;
    const { queries, keys, bias, size } = this.data.vectors(this.kind, this.layer, head);
    const position = Math.min(this.query, left.length - 1);
    updateChildren(this.queryPicker, dropdown(translate("query"), left.map((token, i) => [i, `${i} ${displayToken(token)}`]), position, (value) => {
      this.query = Number(value);
      this.showNeuron({ head, weights, columns });
    }));
    const { scale, causal } = this.about.vectors[this.kind];
    this.neuronView.show({
      query: queries.subarray(position * size, (position + 1) * size), keys, scale: scale[`${this.layer}`],
      bias: bias && bias.subarray(position * columns, (position + 1) * columns),
      hidden: causal ? right.map((_, j) => j > position) : null,
      weights: weights.subarray(position * columns, (position + 1) * columns), right, token: left[position],
    });
  }
}

async function start() {
  const data = await PageData.read();
  setLanguage(data.about.language);
  setTheme(data.about.theme ?? "auto");
  new (data.about.picture ? PicturePage : StandalonePage)(data, document.getElementById("page")).build();
  document.documentElement.dataset.ready = "yes";
}

start();
