// The heat-map: one cell for each weight, with its exact value under the pointer or the keys.

import { exact, make, visible } from "./build.js";
import { clipped, colour, fullest, onTheme, paper, picture, ramp, SOFTER } from "./paint.js";
import { SvgPen } from "./svg.js";
import { say } from "./words.js";

const LOWEST = 1e-6; // the weight at which the log scale begins
const HIGHEST = 80; // pixels of the names above the columns
const LEGIBLE = 9; // pixels of a cell from which rows and columns are named
const MANY = 20_000; // cells from which a drawing holds them as one picture
const SQUARE = /^[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uff60]+$/; // letters that are read upright, one below the other
const SLANT = 44; // room on the right for the slanted names of the last columns

export class Heat {
  // kept(cell) is called when a cell is locked or freed
  constructor(root, kept = () => {}) {
    this.kept = kept;
    this.base = make("canvas", { "aria-hidden": "true" });
    this.top = make("canvas", { tabIndex: 0, role: "application" });
    this.told = make("p", { className: "told top", role: "status", "aria-live": "polite" });
    this.legend = make("p", { className: "hint" });
    this.root = make("div", { className: "layers scrolled" }, this.base, this.top);
    root.append(this.told, this.root, this.legend);
    this.outer = root;
    this.log = false;
    this.cursor = null;
    this.locked = false;
    this.top.addEventListener("mousemove", (event) => this.locked || this.point(this.find(event)));
    this.top.addEventListener("mouseleave", () => this.locked || this.point(null));
    this.top.addEventListener("click", (event) => this.lock(this.find(event)));
    this.top.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(root);
    onTheme(this.root, () => this.draw());
  }

  // sums: whether rows are shares of a whole, between tokens; otherwise each cell stands for itself, between names
  show({ weights, rows, columns, left, right, name, sums = true }) {
    Object.assign(this, { weights, rows, columns, left, right, name, sums });
    if (this.cursor && !(this.cursor[0] < rows && this.cursor[1] < columns)) {
      this.cursor = null;
      this.locked = false;
    }
    this.top.setAttribute("aria-label", `${say("heatOf")}: ${name}. ${say("keysHelp")}`);
    this.draw();
  }

  draw() {
    if (!this.weights || !this.outer.isConnected) return;
    const room = Math.max(240, this.outer.clientWidth || 600);
    this.label = Math.min(110, room * 0.25);
    let side = SLANT;
    this.cell = Math.min(26, Math.floor((room - this.label - side) / this.columns));
    if (this.cell < LEGIBLE) { // without names there is more room
      this.label = side = 4;
      const cell = (room - this.label - side) / this.columns;
      this.cell = cell < 1 ? cell : Math.min(LEGIBLE - 1, Math.floor(cell));
    }
    this.width = this.label + this.cell * this.columns + side;
    this.head = this.cell >= LEGIBLE ? this.highest() : 6;
    this.height = this.head + this.cell * this.rows + 4;
    const pen = paper(this.base, this.width, this.height);
    pen.imageSmoothingEnabled = this.cell < 1;
    this.paintPicture(pen);
    this.paintNames(pen);
    this.legend.textContent = `${say(this.full < 1 ? "fullestMore" : "fullest", this.full.toPrecision(2))} ${say("keysHelp")}`;
    this.over();
  }

  // How high the names of the columns are, slanted or upright.
  highest() {
    const pen = this.base.getContext("2d");
    pen.font = this.font();
    const high = (name) => (SQUARE.test(name) ? [...name].length * this.step() : pen.measureText(name).width * Math.sin(this.slant));
    return Math.min(HIGHEST, Math.ceil(Math.max(...this.right.map((token) => high(visible(token))))) + 14);
  }

  // How names of columns stand; steeply beside upright ones, which they would cross otherwise.
  get slant() {
    return this.right.some((token) => SQUARE.test(visible(token))) ? Math.PI / 2 : Math.PI / 3;
  }

  // From one upright letter to the next.
  step() {
    return Math.min(13, this.cell) + 2;
  }

  font() {
    return `${Math.min(13, this.cell)}px system-ui, sans-serif`;
  }

  paintPicture(pen) {
    const bytes = new Uint8Array(this.weights.length);
    for (let i = 0; i < bytes.length; i++) bytes[i] = Math.round(255 * this.level(this.weights[i]));
    const cells = picture(bytes, this.rows, this.columns, ramp());
    pen.drawImage(cells, this.label, this.head, this.cell * this.columns, this.cell * this.rows);
  }

  // The weight that is painted with the strongest colour.
  get full() {
    return this.sums && !this.log ? fullest(this.columns) : 1;
  }

  level(weight) {
    if (!this.log) return Math.max(0, Math.min(1, weight / this.full));
    return weight <= LOWEST ? 0 : 1 - Math.log(weight) / Math.log(LOWEST);
  }

  paintNames(pen) {
    pen.strokeStyle = colour("line");
    pen.lineWidth = 1;
    pen.strokeRect(this.label - 0.5, this.head - 0.5, this.cell * this.columns + 1, this.cell * this.rows + 1);
    if (this.cell < LEGIBLE) return;
    pen.font = this.font();
    pen.fillStyle = colour("ink");
    pen.textBaseline = "middle";
    pen.textAlign = "right";
    this.left.forEach((token, row) => pen.fillText(
      clipped(pen, visible(token), this.label - 8), this.label - 5, this.head + (row + 0.5) * this.cell));
    this.right.forEach((token, column) => {
      const [name, x] = [visible(token), this.label + (column + 0.5) * this.cell];
      if (SQUARE.test(name)) this.paintUpright(pen, name, x);
      else this.paintSlanted(pen, name, x);
    });
  }

  paintUpright(pen, name, x) {
    const room = Math.floor((this.head - 6) / this.step());
    const letters = [...name].length > room ? [...[...name].slice(0, room - 1), "…"] : [...name];
    pen.textAlign = "center";
    letters.reverse().forEach((letter, i) => pen.fillText(letter, x, this.head - 5 - (i + 0.5) * this.step()));
  }

  paintSlanted(pen, name, x) {
    pen.textAlign = "left";
    pen.save();
    pen.translate(x, this.head - 5);
    pen.rotate(-this.slant);
    pen.fillText(clipped(pen, name, (this.head - 8) / Math.sin(this.slant)), 0, 0);
    pen.restore();
  }

  over() {
    if (!this.weights) return;
    const pen = paper(this.top, this.width, this.height);
    if (!this.cursor) {
      this.told.textContent = this.name;
      return;
    }
    const [row, column] = this.cursor;
    const [x, y] = [this.label + column * this.cell, this.head + row * this.cell];
    pen.strokeStyle = colour("mark-strong");
    pen.lineWidth = 1.5;
    pen.strokeRect(this.label, y, this.cell * this.columns, this.cell);
    pen.strokeRect(x, this.head, this.cell, this.cell * this.rows);
    this.told.textContent = this.sentence(row, column);
  }

  sentence(row, column) {
    let sum = 0;
    for (let j = 0; j < this.columns; j++) sum += this.weights[row * this.columns + j];
    const value = this.weights[row * this.columns + column];
    const name = (names, place) => (this.sums ? `${place} ${visible(names[place])}` : names[place]);
    return `${this.name}: ${name(this.left, row)} → ${name(this.right, column)}: ${exact(value)}` +
      (this.sums ? ` (${say("rowSum")} ${sum.toFixed(5)})` : "");
  }

  find(event) {
    if (!this.weights) return null;
    const box = this.top.getBoundingClientRect();
    const column = Math.floor(((event.clientX - box.left) * (this.width / box.width) - this.label) / this.cell);
    const row = Math.floor(((event.clientY - box.top) * (this.height / box.height) - this.head) / this.cell);
    return row >= 0 && row < this.rows && column >= 0 && column < this.columns ? [row, column] : null;
  }

  point(found) {
    if (found?.[0] === this.cursor?.[0] && found?.[1] === this.cursor?.[1]) return;
    this.cursor = found;
    this.over();
  }

  // Lock a cell, or free it if it is locked already.
  lock(found) {
    const same = this.locked && found?.[0] === this.cursor?.[0] && found?.[1] === this.cursor?.[1];
    this.cursor = same ? null : found;
    this.locked = this.cursor !== null;
    this.kept(this.locked ? this.cursor : null);
    this.over();
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
      if (this.locked) this.kept(this.cursor);
      this.over();
    } else return;
    event.preventDefault();
  }

  svg() {
    const pen = new SvgPen(this.width, this.height);
    if (this.rows * this.columns > MANY) this.paintPicture(pen);
    else this.weights.forEach((weight, place) => {
      const [row, column, level] = [Math.floor(place / this.columns), place % this.columns, this.level(weight)];
      pen.fillStyle = colour("strong");
      pen.globalAlpha = level ** SOFTER;
      if (level > 0.002) pen.fillRect(this.label + column * this.cell, this.head + row * this.cell, this.cell, this.cell);
    });
    pen.globalAlpha = 1;
    this.paintNames(pen);
    return pen.svg();
  }
}
