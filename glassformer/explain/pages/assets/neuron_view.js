// The neuron view: one query, every key, their elementwise product, and how the weight follows from it.

import { displayToken, element, formatExact } from "./dom.js";
import { cssColour, onThemeChange, prepareCanvas, truncateText } from "./canvas.js";
import { SvgContext } from "./svg_context.js";
import { translate } from "./translations.js";

const [ROW, CELL, MIDDLE] = [18, 13, 7]; // pixels from row to row, of a cell, and down to the middle of its text
const TOP = 64; // where the rows start

// Dot products, scaled scores and weights, recomputed from a query and the keys.
function computeWeights({ query, keys, bias, hidden, scale, columns }) {
  const size = query.length;
  const dots = new Float64Array(columns), scores = new Float64Array(columns);
  let max = -Infinity;
  for (let j = 0; j < columns; j++) {
    for (let d = 0; d < size; d++) dots[j] += query[d] * keys[j * size + d];
    scores[j] = (dots[j] + (bias ? bias[j] : 0)) * scale;
    if (!hidden?.[j]) max = Math.max(max, scores[j]);
  }
  const weights = new Float64Array(columns);
  let sum = 0;
  for (let j = 0; j < columns; j++) if (!hidden?.[j]) sum += weights[j] = Math.exp(scores[j] - max);
  for (let j = 0; j < columns; j++) weights[j] /= sum;
  return { dots, scores, weights };
}

export class NeuronView {
  constructor(root) {
    this.canvas = element("canvas", { tabIndex: 0, role: "application" });
    this.status = element("p", { className: "status top", role: "status", "aria-live": "polite" });
    this.sum = element("p", { className: "hint" });
    this.formula = element("p", { className: "formula" });
    root.append(this.formula, this.status, element("div", { className: "layers scrollable" }, this.canvas), this.sum,
      element("p", { className: "hint", textContent: translate("rowsHelp") }));
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
    onThemeChange(root, () => this.draw());
  }

  // data: query (D), keys (S x D), bias (S) or null, hidden (S) or null, scale, weights (S), right (tokens), token
  show(data) {
    this.data = { ...data, columns: data.right.length };
    this.result = computeWeights(this.data);
    this.cursor = null;
    let error = 0, sum = 0;
    this.result.weights.forEach((weight, j) => {
      error = Math.max(error, Math.abs(weight - data.weights[j]));
      sum += weight;
    });
    this.formula.textContent = translate(data.bias ? "formulaBias" : "formula", data.scale.toPrecision(4));
    this.sum.textContent = translate("addsUp", sum.toFixed(6), error.toExponential(1));
    this.canvas.setAttribute("aria-label", `${translate("neuronOf")}: ${displayToken(data.token)}. ${translate("rowsHelp")}`);
    this.draw();
  }

  draw() {
    if (!this.data || !this.root.isConnected) return;
    this.width = Math.max(340, this.root.clientWidth || 800);
    this.height = TOP + this.data.right.length * ROW + 6;
    this.paint(prepareCanvas(this.canvas, this.width, this.height));
    this.status.textContent = this.cursor === null ? "" : this.description(this.cursor);
  }

  // The query, then a row for each key with its product, its scores, its weight and a bar of that length.
  paint(ctx) {
    const { query, keys, bias, hidden, right, weights, token } = this.data;
    const size = query.length, narrow = this.width < 680;
    const [label, number, bar] = narrow ? [66, bias ? 50 : 56, 0] : [90, 88, 120];
    const titles = ["q·k", ...(bias ? [translate("bias")] : []), translate("scaled"), translate("weight")];
    const strip = (this.width - label - titles.length * number - bar - 20) / 2;
    const second = label + strip + 10, numbers = second + strip;
    const largest = (values) => values.reduce((max, value) => Math.max(max, Math.abs(value)), 1e-9);
    const max = { query: largest(query), key: largest(keys), product: largest(keys.map((key, i) => key * query[i % size])) };
    const [plus, minus, ink, soft, faint] = ["strong", "minus", "ink", "soft", "line"].map(cssColour);
    const cells = (value, max, x, y) => {
      const width = strip / size;
      for (let d = 0; d < size; d++) {
        const level = value(d) / max;
        ctx.fillStyle = level < 0 ? minus : plus;
        ctx.globalAlpha = Math.min(1, Math.abs(level)) ** 0.8;
        ctx.fillRect(x + d * width, y, Math.max(0.7, width - (width > 4 ? 0.6 : 0)), CELL);
      }
      ctx.globalAlpha = 1;
    };
    const write = (text, x, y, align, colour) => {
      ctx.textAlign = align;
      ctx.fillStyle = colour;
      ctx.fillText(text, x, y);
    };
    ctx.font = `${narrow ? 11 : 12}px system-ui, sans-serif`;
    ctx.textBaseline = "middle";
    write(translate("queries"), label, 8, "left", soft);
    write(truncateText(ctx, displayToken(token), label - 8), label - 6, 18 + MIDDLE, "right", ink);
    cells((d) => query[d], max.query, label, 18);
    write(translate("keys"), label, TOP - 10, "left", soft);
    write(translate("product"), second, TOP - 10, "left", soft);
    titles.forEach((name, i) => write(name, numbers + (i + 1) * number, TOP - 10, "right", soft));
    right.forEach((other, j) => {
      const y = TOP + j * ROW, shade = hidden?.[j] ? faint : ink;
      if (j === this.cursor) {
        ctx.fillStyle = cssColour("mark");
        ctx.fillRect(0, y - (ROW - CELL) / 2, this.width, ROW);
      }
      write(truncateText(ctx, displayToken(other), label - 8), label - 6, y + MIDDLE, "right", shade);
      cells((d) => keys[j * size + d], max.key, label, y);
      cells((d) => query[d] * keys[j * size + d], max.product, second, y);
      const values = [this.result.dots[j], ...(bias ? [bias[j]] : []), this.result.scores[j]].map((value) => value.toFixed(narrow ? 2 : 3));
      values.push(hidden?.[j] ? translate("hiddenKey") : narrow ? weights[j].toFixed(5) : formatExact(weights[j]));
      values.forEach((value, i) => write(value, numbers + (i + 1) * number, y + MIDDLE, "right", shade));
      ctx.fillStyle = plus;
      if (bar && !hidden?.[j]) ctx.fillRect(numbers + titles.length * number + 8, y + 2, (bar - 12) * weights[j], CELL - 4);
    });
  }

  svg() {
    const ctx = new SvgContext(this.width, this.height);
    this.paint(ctx);
    return ctx.svg();
  }

  description(j) {
    const { token, right, weights, bias, hidden, scale } = this.data;
    if (hidden?.[j]) return `${displayToken(token)} → ${displayToken(right[j])}: ${translate("hiddenKey")}`;
    const added = bias ? ` + ${bias[j].toFixed(4)}` : "";
    return `${displayToken(token)} → ${displayToken(right[j])}: (q·k ${this.result.dots[j].toFixed(4)}${added}) × ${scale.toFixed(4)} = ` +
      `${this.result.scores[j].toFixed(4)}, softmax → ${formatExact(weights[j])}`;
  }

  point(row) {
    if (!this.data) return;
    if (!(row >= 0 && row < this.data.right.length) || row === this.cursor) return;
    this.cursor = row;
    this.draw();
  }
}
