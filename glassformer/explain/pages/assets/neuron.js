// The neuron view: one query, every key, their product element by element, and how the weight comes out of it.

import { exact, make, visible } from "./build.js";
import { clipped, colour, onTheme, paper } from "./paint.js";
import { SvgPen } from "./svg.js";
import { say } from "./words.js";

const [ROW, CELL, MIDDLE] = [18, 13, 7]; // pixels from row to row, of a cell, and down to where its text stands
const TOP = 64; // where the rows begin

// The steps from a query and the keys to the weights, computed anew here.
export function steps({ query, keys, bias, hidden, scale, columns }) {
  const size = query.length;
  const dots = new Float64Array(columns), scores = new Float64Array(columns);
  let most = -Infinity;
  for (let j = 0; j < columns; j++) {
    for (let d = 0; d < size; d++) dots[j] += query[d] * keys[j * size + d];
    scores[j] = (dots[j] + (bias ? bias[j] : 0)) * scale;
    if (!hidden?.[j]) most = Math.max(most, scores[j]);
  }
  const weights = new Float64Array(columns);
  let sum = 0;
  for (let j = 0; j < columns; j++) if (!hidden?.[j]) sum += weights[j] = Math.exp(scores[j] - most);
  for (let j = 0; j < columns; j++) weights[j] /= sum;
  return { dots, scores, weights };
}

export class Neuron {
  constructor(root) {
    this.canvas = make("canvas", { tabIndex: 0, role: "application" });
    this.told = make("p", { className: "told top", role: "status", "aria-live": "polite" });
    this.sum = make("p", { className: "hint" });
    this.formula = make("p", { className: "formula" });
    root.append(this.formula, this.told, make("div", { className: "layers scrolled" }, this.canvas), this.sum,
      make("p", { className: "hint", textContent: say("rowsHelp") }));
    this.root = root;
    this.canvas.addEventListener("mousemove", (event) => {
      const box = this.canvas.getBoundingClientRect();
      this.point(Math.floor(((event.clientY - box.top) * (this.height / box.height) - TOP) / ROW));
    });
    this.canvas.addEventListener("keydown", (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      this.point((this.cursor ?? -step) + step);
    });
    new ResizeObserver(() => this.draw()).observe(root);
    onTheme(root, () => this.draw());
  }

  // data: query (D), keys (S x D), bias (S) or null, hidden (S) or null, scale, weights (S), right (tokens), token
  show(data) {
    this.data = { ...data, columns: data.right.length };
    this.found = steps(this.data);
    this.cursor = null;
    let off = 0, sum = 0;
    this.found.weights.forEach((weight, j) => {
      off = Math.max(off, Math.abs(weight - data.weights[j]));
      sum += weight;
    });
    this.formula.textContent = say(data.bias ? "formulaBias" : "formula", data.scale.toPrecision(4));
    this.sum.textContent = say("addsUp", sum.toFixed(6), off.toExponential(1));
    this.canvas.setAttribute("aria-label", `${say("neuronOf")}: ${visible(data.token)}. ${say("rowsHelp")}`);
    this.draw();
  }

  draw() {
    if (!this.data || !this.root.isConnected) return;
    this.width = Math.max(340, this.root.clientWidth || 800);
    this.height = TOP + this.data.right.length * ROW + 6;
    this.paint(paper(this.canvas, this.width, this.height));
    this.told.textContent = this.cursor === null ? "" : this.sentence(this.cursor);
  }

  // The whole picture: the query, then a row for each key with its product, its scores, its weight and a bar as long.
  paint(pen) {
    const { query, keys, bias, hidden, right, weights, token } = this.data;
    const size = query.length, narrow = this.width < 680;
    const [label, each, bar] = narrow ? [66, bias ? 50 : 56, 0] : [90, 88, 120];
    const heads = ["q·k", ...(bias ? [say("bias")] : []), say("scaled"), say("weight")];
    const strip = (this.width - label - heads.length * each - bar - 20) / 2;
    const second = label + strip + 10, numbers = second + strip;
    const largest = (values) => values.reduce((most, value) => Math.max(most, Math.abs(value)), 1e-9);
    const most = { query: largest(query), key: largest(keys), product: largest(keys.map((key, i) => key * query[i % size])) };
    const [plus, minus, ink, soft, faint] = ["strong", "minus", "ink", "soft", "line"].map(colour);
    const cells = (value, top, x, y) => {
      const wide = strip / size;
      for (let d = 0; d < size; d++) {
        const level = value(d) / top;
        pen.fillStyle = level < 0 ? minus : plus;
        pen.globalAlpha = Math.min(1, Math.abs(level)) ** 0.8;
        pen.fillRect(x + d * wide, y, Math.max(0.7, wide - (wide > 4 ? 0.6 : 0)), CELL);
      }
      pen.globalAlpha = 1;
    };
    const write = (text, x, y, align, ground) => {
      pen.textAlign = align;
      pen.fillStyle = ground;
      pen.fillText(text, x, y);
    };
    pen.font = `${narrow ? 11 : 12}px system-ui, sans-serif`;
    pen.textBaseline = "middle";
    write(say("queries"), label, 8, "left", soft);
    write(clipped(pen, visible(token), label - 8), label - 6, 18 + MIDDLE, "right", ink);
    cells((d) => query[d], most.query, label, 18);
    write(say("keys"), label, TOP - 10, "left", soft);
    write(say("product"), second, TOP - 10, "left", soft);
    heads.forEach((name, i) => write(name, numbers + (i + 1) * each, TOP - 10, "right", soft));
    right.forEach((other, j) => {
      const y = TOP + j * ROW, shade = hidden?.[j] ? faint : ink;
      if (j === this.cursor) {
        pen.fillStyle = colour("mark");
        pen.fillRect(0, y - (ROW - CELL) / 2, this.width, ROW);
      }
      write(clipped(pen, visible(other), label - 8), label - 6, y + MIDDLE, "right", shade);
      cells((d) => keys[j * size + d], most.key, label, y);
      cells((d) => query[d] * keys[j * size + d], most.product, second, y);
      const values = [this.found.dots[j], ...(bias ? [bias[j]] : []), this.found.scores[j]].map((value) => value.toFixed(narrow ? 2 : 3));
      values.push(hidden?.[j] ? say("hiddenKey") : narrow ? weights[j].toFixed(5) : exact(weights[j]));
      values.forEach((value, i) => write(value, numbers + (i + 1) * each, y + MIDDLE, "right", shade));
      pen.fillStyle = plus;
      if (bar && !hidden?.[j]) pen.fillRect(numbers + heads.length * each + 8, y + 2, (bar - 12) * weights[j], CELL - 4);
    });
  }

  svg() {
    const pen = new SvgPen(this.width, this.height);
    this.paint(pen);
    return pen.svg();
  }

  sentence(j) {
    const { token, right, weights, bias, hidden, scale } = this.data;
    if (hidden?.[j]) return `${visible(token)} → ${visible(right[j])}: ${say("hiddenKey")}`;
    const added = bias ? ` + ${bias[j].toFixed(4)}` : "";
    return `${visible(token)} → ${visible(right[j])}: (q·k ${this.found.dots[j].toFixed(4)}${added}) × ${scale.toFixed(4)} = ` +
      `${this.found.scores[j].toFixed(4)}, softmax → ${exact(weights[j])}`;
  }

  point(row) {
    if (!this.data) return;
    const found = row >= 0 && row < this.data.right.length ? row : null;
    if (found === this.cursor || found === null) return;
    this.cursor = found;
    this.draw();
  }
}
