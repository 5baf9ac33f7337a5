// A page that stands alone: head view, model view, neuron view, or all of them.

import { Arcs } from "./arcs.js";
import { button, choice, make, slider, tick, visible } from "./build.js";
import { Grid } from "./grid.js";
import { Heat } from "./heat.js";
import { Neuron } from "./neuron.js";
import { colour, headColour } from "./paint.js";
import { download, downloadPng } from "./save.js";
import { PageSource } from "./source.js";
import { say, speak } from "./words.js";

const THUMB = 48;

class Page {
  constructor(source, root) {
    this.source = source;
    this.about = source.about;
    this.root = root;
    this.kind = Object.keys(this.about.attention)[0];
    const listed = this.list();
    this.layer = listed.some(({ layer }) => layer === this.about.layer) ? this.about.layer : listed[0].layer;
    this.heads = (this.about.heads ?? []).filter((head) => this.headsOf(this.layer).includes(head));
    if (!this.heads.length) this.heads = this.about.view === "head" ? this.headsOf(this.layer) : this.headsOf(this.layer).slice(0, 1);
    this.query = 0;
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

  headsOf(layer) {
    return this.list().filter((each) => each.layer === layer).map(({ head }) => head);
  }

  build() {
    const { view } = this.about;
    this.root.className = view;
    const parts = [];
    const section = (title, fill) => {
      const inner = make("div");
      parts.push(make("section", { "aria-label": title }, make("h2", { textContent: title }), inner));
      return fill(inner);
    };
    if (view === "model" || view === "see") this.grid = section(say("allHeads"), (root) =>
      new Grid(root, (layer, head, several) => this.choose(layer, head, several)));
    if (view !== "neuron") this.arcs = section(say("headView"), (root) => new Arcs(root));
    if (view !== "head" && view !== "neuron") this.heat = section(say("heatMap"), (root) => new Heat(root));
    if (this.about.vectors) this.neuron = section(say("neuronView"), (root) => {
      this.queryPicker = make("div", { className: "controls" });
      root.append(this.queryPicker);
      return new Neuron(root);
    });
    this.root.replaceChildren(this.controls(), ...parts);
    this.showGrid();
    this.show();
  }

  controls() {
    const kinds = Object.keys(this.about.attention);
    const bar = make("div", { className: "controls", role: "group" });
    if (kinds.length > 1) bar.append(choice(say("attention"), kinds.map((kind) => [kind, say(kind)]), this.kind, (kind) => {
      this.kind = kind;
      this.layer = this.list()[0].layer;
      this.heads = this.headsOf(this.layer).slice(0, 1);
      this.build();
    }));
    const layers = [...new Set(this.list().map(({ layer }) => layer))];
    bar.append(choice(say("layer"), layers.map((layer) => [layer, layer]), this.layer, (layer) => {
      this.layer = Number(layer);
      this.heads = this.heads.filter((head) => this.headsOf(this.layer).includes(head));
      if (!this.heads.length) this.heads = this.headsOf(this.layer).slice(0, 1);
      this.build();
    }));
    bar.append(make("div", { className: "headlist", role: "group", "aria-label": say("heads") },
      ...this.headsOf(this.layer).map((head) => {
        const pick = button(String(head), (event) => this.choose(this.layer, head, !event.altKey), {
          className: "chip", "aria-pressed": String(this.heads.includes(head)),
        });
        pick.dataset.head = head;
        pick.style.setProperty("--own", headColour(head));
        return pick;
      })));
    if (this.part.second !== null && this.part.second !== undefined) {
      const [a, b] = [say("sentenceA"), say("sentenceB")];
      bar.append(choice(say("show"), [["all", say("all")], ["aa", `${a} → ${a}`], ["ab", `${a} → ${b}`], ["ba", `${b} → ${a}`],
        ["bb", `${b} → ${b}`]], "all", (filter) => this.change(this.arcs, { filter })));
    }
    if (this.about.view !== "neuron") {
      bar.append(slider(say("threshold"), { low: 0, high: 0.5, step: 0.01, value: 0.02, shown: (v) => v.toFixed(2) },
        (threshold) => this.change(this.arcs, { threshold })));
      bar.append(tick(say("hideSpecial"), false, (hideSpecial) => this.change(this.arcs, { hideSpecial })));
    }
    if (this.about.view === "model" || this.about.view === "see") {
      bar.append(tick(say("logScale"), false, (log) => this.change(this.heat, { log })));
    }
    bar.append(this.exports());
    return bar;
  }

  exports() {
    const canvas = () => (this.arcs ? this.arcs.picture() : this.neuron.canvas);
    return make("div", { className: "exports", role: "group", "aria-label": say("export") },
      button("PNG", () => downloadPng("attention.png", canvas(), colour("paper"))),
      ...(this.arcs ? [button("SVG", () => download("attention.svg", this.arcs.svg(), "image/svg+xml"))] : []),
      button("JSON", () => download("attention.json", JSON.stringify({
        kind: this.kind, layer: this.layer, left: this.part.left, right: this.part.right,
        heads: this.heads.map((head) => ({ head, weights: Array.from(this.source.weights(this.kind, this.layer, head)) })),
      }), "application/json")));
  }

  change(view, settings) {
    Object.assign(view, settings);
    view.draw();
  }

  choose(layer, head, several) {
    const joined = several && layer === this.layer;
    const has = joined && this.heads.includes(head);
    this.heads = !joined ? [head] : has && this.heads.length > 1 ? this.heads.filter((each) => each !== head) : [...new Set([...this.heads, head])];
    if (layer !== this.layer) {
      this.layer = layer;
      this.build();
    } else this.show();
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
        bytes[at] = Math.max(bytes[at], Math.round(255 * weights[i * columns + j]));
      }
    });
    this.grid.show({ heads: heads.map((each) => ({ ...each, measures: {} })), bytes, rows: height, columns: width });
  }

  show() {
    const { left, right, special, second, rows, columns } = this.part;
    const heads = this.heads.map((head) => ({
      layer: this.layer, head, columns, weights: this.source.weights(this.kind, this.layer, head),
    }));
    this.root.querySelectorAll(".chip").forEach((chip) =>
      chip.setAttribute("aria-pressed", String(this.heads.includes(Number(chip.dataset.head)))));
    this.grid?.mark(this.heads.map((head) => [this.layer, head]));
    this.arcs?.show({ left, right, special, second, heads });
    const one = heads[heads.length - 1];
    this.heat?.show({ weights: one.weights, rows, columns, left, right, name: `${say("layer")} ${this.layer} ${say("head")} ${one.head}` });
    if (this.neuron) this.showNeuron(one);
  }

  showNeuron({ head, weights, columns }) {
    const { left, right } = this.part;
    const { queries, keys, bias, size } = this.source.vectors(this.kind, this.layer, head);
    const place = Math.min(this.query, left.length - 1);
    this.queryPicker.replaceChildren(choice(say("query"), left.map((token, i) => [i, `${i} ${visible(token)}`]), place, (value) => {
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
  if (source.about.theme) document.documentElement.dataset.theme = source.about.theme;
  new Page(source, document.getElementById("page")).build();
  document.documentElement.dataset.ready = "yes";
}

begin();
