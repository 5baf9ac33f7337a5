// The neuron view: one query, every key, their product element by element, and how the weight comes out of it.

import { make, exact, visible } from "./build.js";
import { clipped, colour, onTheme, paper, triple } from "./paint.js";
import { say } from "./words.js";

const ROW = 18;

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
    this.told = make("p", { className: "told", role: "status", "aria-live": "polite" });
    this.sum = make("p", { className: "hint" });
    root.append(make("p", { className: "formula", textContent: say("formula") }), this.told,
      make("div", { className: "layers scrolled" }, this.canvas), this.sum);
    this.root = root;
    this.canvas.addEventListener("mousemove", (event) => {
      const box = this.canvas.getBoundingClientRect();
      this.point(Math.floor(((event.clientY - box.top) * (this.height / box.height) - this.top) / ROW));
    });
    this.canvas.addEventListener("keydown", (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      this.point((this.cursor ?? -step) + step);
    });
    new ResizeObserver(() => this.draw()).observe(root);
    onTheme(() => this.draw());
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
    this.sum.textContent = say("addsUp", sum.toFixed(6), off.toExponential(1));
    this.canvas.setAttribute("aria-label", `${say("neuronOf")}: ${visible(data.token)}`);
    this.draw();
  }

  draw() {
    if (!this.data || !this.root.isConnected) return;
    const { query, keys, bias, hidden, right, weights } = this.data;
    const size = query.length;
    this.top = 44;
    const room = Math.max(680, this.root.clientWidth || 800);
    const label = 90, numbers = bias ? 420 : 340;
    const strip = (room - label - numbers - 30) / 2;
    this.width = room;
    this.height = this.top + right.length * ROW + 6;
    const pen = paper(this.canvas, this.width, this.height);
    const largest = (values) => values.reduce((most, value) => Math.max(most, Math.abs(value)), 1e-9);
    const [mostQ, mostK] = [largest(query), largest(keys)];
    const cells = (values, x, y, width, most) => {
      const each = width / size;
      for (let d = 0; d < size; d++) {
        pen.fillStyle = this.tint(values(d) / most);
        pen.fillRect(x + d * each, y, Math.max(0.7, each - (each > 4 ? 0.6 : 0)), ROW - 5);
      }
    };
    pen.font = "12px system-ui, sans-serif";
    pen.textBaseline = "middle";
    pen.fillStyle = colour("soft");
    const columns = [[say("keys"), label + strip / 2], [say("product"), label + strip * 1.5 + 10]];
    const start = label + 2 * strip + 20, each = numbers / (bias ? 5 : 4);
    const heads = ["q·k", ...(bias ? [say("bias")] : []), say("scaled"), say("weight")];
    pen.textAlign = "center";
    columns.forEach(([name, x]) => pen.fillText(name, x, this.top - 8));
    pen.textAlign = "right";
    heads.forEach((name, i) => pen.fillText(name, start + (i + 1) * each, this.top - 8));
    pen.fillStyle = colour("ink");
    pen.fillText(clipped(pen, visible(this.data.token), label - 8), label - 6, 14);
    cells((d) => query[d], label, 6, strip, mostQ);
    pen.fillStyle = colour("soft");
    pen.textAlign = "left";
    pen.fillText(say("queries"), label + strip + 10, 14);
    right.forEach((token, j) => {
      const y = this.top + j * ROW;
      if (j === this.cursor) {
        pen.fillStyle = colour("mark");
        pen.fillRect(0, y - 2, this.width, ROW);
      }
      pen.fillStyle = colour(hidden?.[j] ? "line" : "ink");
      pen.textAlign = "right";
      pen.fillText(clipped(pen, visible(token), label - 8), label - 6, y + ROW / 2 - 3);
      cells((d) => keys[j * size + d], label, y, strip, mostK);
      cells((d) => query[d] * keys[j * size + d], label + strip + 10, y, strip, mostQ * mostK);
      pen.fillStyle = colour(hidden?.[j] ? "line" : "ink");
      const values = [this.found.dots[j], ...(bias ? [bias[j]] : []), this.found.scores[j]].map((value) => value.toFixed(3));
      values.push(hidden?.[j] ? say("hiddenKey") : exact(weights[j]));
      values.forEach((value, i) => pen.fillText(value, start + (i + 1) * each, y + ROW / 2 - 3));
      pen.fillStyle = colour("strong");
      pen.fillRect(start + values.length * each + 6, y + 2, Math.max(0, (this.width - start - values.length * each - 12) * weights[j]), ROW - 9);
    });
    this.told.textContent = this.cursor === null ? "" : this.sentence(this.cursor);
  }

  tint(level) {
    const [r, g, b] = triple(colour(level < 0 ? "minus" : "strong"));
    return `rgb(${r} ${g} ${b} / ${Math.min(1, Math.abs(level)) ** 0.8})`;
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
