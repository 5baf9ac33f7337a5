// The heat-map: one cell for each weight; pointer or arrow keys show its exact value.

import { displayToken, element, formatExact } from "./dom.js";
import { bitmap, colourScale, cssColour, GAMMA, onThemeChange, prepareCanvas, saturation, truncateText } from "./canvas.js";
import { SvgContext } from "./svg_context.js";
import { translate } from "./translations.js";

const LOG_MIN = 1e-6; // the weight at which the log scale starts
const MAX_HEADER = 80; // pixels of the names above the columns
const MIN_LABELLED = 9; // pixels of a cell from which rows and columns are named
const MAX_RECTANGLES = 20_000; // cells up to which a drawing has one rectangle for each
const SQUARE = /^[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uff60]+$/; // letters that are read upright, one below the other
const RIGHT_MARGIN = 44; // for the slanted names of the last columns

export class HeatMap {
  // onLock(cell) is called when a cell is locked or unlocked
  constructor(root, onLock = () => {}) {
    this.onLock = onLock;
    this.base = element("canvas", { "aria-hidden": "true" });
    this.top = element("canvas", { tabIndex: 0, role: "application" });
    this.status = element("p", { className: "status top", role: "status", "aria-live": "polite" });
    this.legend = element("p", { className: "hint" });
    this.root = element("div", { className: "layers scrollable" }, this.base, this.top);
    root.append(this.status, this.root, this.legend);
    this.outer = root;
    this.log = false;
    this.cursor = null;
    this.locked = false;
    this.top.addEventListener("mousemove", (event) => this.locked || this.point(this.cellAt(event)));
    this.top.addEventListener("mouseleave", () => this.locked || this.point(null));
    this.top.addEventListener("click", (event) => this.lock(this.cellAt(event)));
    this.top.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(root);
    onThemeChange(this.root, () => this.draw());
  }

  // sums: whether rows are weights between tokens, which sum to 1; otherwise cells are independent values between names
  show({ weights, rows, columns, left, right, name, sums = true }) {
    Object.assign(this, { weights, rows, columns, left, right, name, sums });
    if (this.cursor && !(this.cursor[0] < rows && this.cursor[1] < columns)) {
      this.cursor = null;
      this.locked = false;
    }
    this.top.setAttribute("aria-label", `${translate("heatOf")}: ${name}. ${translate("keysHelp")}`);
    this.draw();
  }

  draw() {
    if (!this.weights || !this.outer.isConnected) return;
    const available = Math.max(240, this.outer.clientWidth || 600);
    this.label = Math.min(110, available * 0.25);
    let right = RIGHT_MARGIN;
    this.cell = Math.min(26, Math.floor((available - this.label - right) / this.columns));
    if (this.cell < MIN_LABELLED) { // no names
      this.label = right = 4;
      const cell = (available - this.label - right) / this.columns;
      this.cell = cell < 1 ? cell : Math.min(MIN_LABELLED - 1, Math.floor(cell));
    }
    this.width = this.label + this.cell * this.columns + right;
    this.header = this.cell >= MIN_LABELLED ? this.headerHeight() : 6;
    this.height = this.header + this.cell * this.rows + 4;
    const ctx = prepareCanvas(this.base, this.width, this.height);
    ctx.imageSmoothingEnabled = this.cell < 1;
    this.paintCells(ctx);
    this.paintNames(ctx);
    this.legend.textContent = `${translate(this.maxWeight < 1 ? "saturationMore" : "saturation", this.maxWeight.toPrecision(2))} ${translate("keysHelp")}`;
    this.drawSelection();
  }

  // The height of the names of the columns, slanted or upright.
  headerHeight() {
    const ctx = this.base.getContext("2d");
    ctx.font = this.font();
    const height = (name) => (SQUARE.test(name) ? [...name].length * this.letterHeight() : ctx.measureText(name).width * Math.sin(this.slant));
    return Math.min(MAX_HEADER, Math.ceil(Math.max(...this.right.map((token) => height(displayToken(token))))) + 14);
  }

  // The angle of the names of columns: steep beside upright ones, which they would cross otherwise.
  get slant() {
    return this.right.some((token) => SQUARE.test(displayToken(token))) ? Math.PI / 2 : Math.PI / 3;
  }

  // From one upright letter to the next.
  letterHeight() {
    return Math.min(13, this.cell) + 2;
  }

  font() {
    return `${Math.min(13, this.cell)}px system-ui, sans-serif`;
  }

  paintCells(ctx) {
    const bytes = new Uint8Array(this.weights.length);
    for (let i = 0; i < bytes.length; i++) bytes[i] = Math.round(255 * this.level(this.weights[i]));
    const cells = bitmap(bytes, this.rows, this.columns, colourScale());
    ctx.drawImage(cells, this.label, this.header, this.cell * this.columns, this.cell * this.rows);
  }

  // The weight from which the colour is strongest.
  get maxWeight() {
    return this.sums && !this.log ? saturation(this.columns) : 1;
  }

  level(weight) {
    if (!this.log) return Math.max(0, Math.min(1, weight / this.maxWeight));
    return weight <= LOG_MIN ? 0 : 1 - Math.log(weight) / Math.log(LOG_MIN);
  }

  paintNames(ctx) {
    ctx.strokeStyle = cssColour("line");
    ctx.lineWidth = 1;
    ctx.strokeRect(this.label - 0.5, this.header - 0.5, this.cell * this.columns + 1, this.cell * this.rows + 1);
    if (this.cell < MIN_LABELLED) return;
    ctx.font = this.font();
    ctx.fillStyle = cssColour("ink");
    ctx.textBaseline = "middle";
    ctx.textAlign = "right";
    this.left.forEach((token, row) => ctx.fillText(
      truncateText(ctx, displayToken(token), this.label - 8), this.label - 5, this.header + (row + 0.5) * this.cell));
    this.right.forEach((token, column) => {
      const [name, x] = [displayToken(token), this.label + (column + 0.5) * this.cell];
      if (SQUARE.test(name)) this.paintUpright(ctx, name, x);
      else this.paintSlanted(ctx, name, x);
    });
  }

  paintUpright(ctx, name, x) {
    const fitting = Math.floor((this.header - 6) / this.letterHeight());
    const letters = [...name].length > fitting ? [...[...name].slice(0, fitting - 1), "…"] : [...name];
    ctx.textAlign = "center";
    letters.reverse().forEach((letter, i) => ctx.fillText(letter, x, this.header - 5 - (i + 0.5) * this.letterHeight()));
  }

  paintSlanted(ctx, name, x) {
    ctx.textAlign = "left";
    ctx.save();
    ctx.translate(x, this.header - 5);
    ctx.rotate(-this.slant);
    ctx.fillText(truncateText(ctx, name, (this.header - 8) / Math.sin(this.slant)), 0, 0);
    ctx.restore();
  }

  drawSelection() {
    if (!this.weights) return;
    const ctx = prepareCanvas(this.top, this.width, this.height);
    if (!this.cursor) {
      this.status.textContent = this.name;
      return;
    }
    const [row, column] = this.cursor;
    const [x, y] = [this.label + column * this.cell, this.header + row * this.cell];
    ctx.strokeStyle = cssColour("mark-strong");
    ctx.lineWidth = 1.5;
    ctx.strokeRect(this.label, y, this.cell * this.columns, this.cell);
    ctx.strokeRect(x, this.header, this.cell, this.cell * this.rows);
    this.status.textContent = this.description(row, column);
  }

  description(row, column) {
    let sum = 0;
    for (let j = 0; j < this.columns; j++) sum += this.weights[row * this.columns + j];
    const value = this.weights[row * this.columns + column];
    const name = (names, index) => (this.sums ? `${index} ${displayToken(names[index])}` : names[index]);
    return `${this.name}: ${name(this.left, row)} → ${name(this.right, column)}: ${formatExact(value)}` +
      (this.sums ? ` (${translate("rowSum")} ${sum.toFixed(5)})` : "");
  }

  cellAt(event) {
    if (!this.weights) return null;
    const box = this.top.getBoundingClientRect();
    const column = Math.floor(((event.clientX - box.left) * (this.width / box.width) - this.label) / this.cell);
    const row = Math.floor(((event.clientY - box.top) * (this.height / box.height) - this.header) / this.cell);
    return row >= 0 && row < this.rows && column >= 0 && column < this.columns ? [row, column] : null;
  }

  point(cell) {
    if (cell?.[0] === this.cursor?.[0] && cell?.[1] === this.cursor?.[1]) return;
    this.cursor = cell;
    this.drawSelection();
  }

  // Lock a cell, or unlock it if it is locked already.
  lock(cell) {
    const same = this.locked && cell?.[0] === this.cursor?.[0] && cell?.[1] === this.cursor?.[1];
    this.cursor = same ? null : cell;
    this.locked = this.cursor !== null;
    this.onLock(this.locked ? this.cursor : null);
    this.drawSelection();
  }

  key(event) {
    if (!this.weights) return;
    const moves = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    if (event.key === "Escape") this.lock(null);
    else if (event.key === "Enter" || event.key === " ") this.lock(this.cursor);
    else if (event.key in moves) {
      const [down, right] = moves[event.key];
      const [row, column] = this.cursor ?? [-down, -right];
      const within = (value, size) => Math.max(0, Math.min(size - 1, value));
      this.cursor = [within(row + down, this.rows), within(column + right, this.columns)];
      if (this.locked) this.onLock(this.cursor);
      this.drawSelection();
    } else return;
    event.preventDefault();
  }

  svg() {
    const ctx = new SvgContext(this.width, this.height);
    if (this.rows * this.columns > MAX_RECTANGLES) this.paintCells(ctx);
    else this.weights.forEach((weight, index) => {
      const [row, column, level] = [Math.floor(index / this.columns), index % this.columns, this.level(weight)];
      ctx.fillStyle = cssColour("strong");
      ctx.globalAlpha = level ** GAMMA;
      if (level > 0.002) ctx.fillRect(this.label + column * this.cell, this.header + row * this.cell, this.cell, this.cell);
    });
    ctx.globalAlpha = 1;
    this.paintNames(ctx);
    return ctx.svg();
  }
}
