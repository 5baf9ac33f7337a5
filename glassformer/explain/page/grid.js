// The grid of all heads, a small picture of each; sorted by layer or by what the heads do.

import { make } from "./build.js";
import { onTheme, paper, picture, ramp } from "./paint.js";
import { say } from "./words.js";

const [SMALLEST, LARGEST, AROUND] = [14, 64, 12]; // pixels of a picture, and of what stands around it

export class Grid {
  // chosen(layer, head, several) is called when a head is chosen; several: it joins those chosen already
  constructor(root, chosen) {
    this.root = root;
    this.root.classList.add("scrolled");
    this.chosen = chosen;
    this.order = "layer";
    this.cells = [];
    this.root.addEventListener("keydown", (event) => this.key(event));
    onTheme(() => this.paint());
    new ResizeObserver(() => this.paint()).observe(root);
  }

  // heads: [{layer, head, measures}]; bytes: their pictures one behind the other, rows x columns each
  show({ heads, bytes, rows, columns }) {
    Object.assign(this, { heads, bytes, rows, columns });
    this.arrange();
  }

  arrange() {
    const cells = this.heads.map((head, place) => ({ ...head, place }));
    if (this.order !== "layer") cells.sort((a, b) => b.measures[this.order] - a.measures[this.order]);
    const layers = this.order === "layer" ? [...new Set(cells.map((cell) => cell.layer))] : [null];
    this.cells = [];
    this.widest = Math.max(...layers.map((layer) => cells.filter((cell) => cell.layer === layer).length));
    this.root.replaceChildren(...layers.map((layer) => {
      const row = cells.filter((cell) => layer === null || cell.layer === layer);
      const line = make("div", { className: layer === null ? "heads sorted" : "heads" },
        layer === null ? null : make("span", { className: "number", textContent: String(layer) }));
      for (const cell of row) {
        cell.button = this.button(cell);
        this.cells.push(cell);
        line.append(cell.button);
      }
      return line;
    }));
    this.paint();
    this.mark(this.marked ?? []);
  }

  button(cell) {
    const values = Object.entries(cell.measures ?? {}).map(([name, value]) => `${say(name)} ${value.toFixed(3)}`);
    const label = `${say("layer")} ${cell.layer} ${say("head")} ${cell.head}`;
    cell.canvas = make("canvas", { "aria-hidden": "true" });
    return make("button", {
      type: "button", className: "cell", tabIndex: -1, title: [label, ...values].join("\n"),
      "aria-label": [label, ...values].join(", "),
      onclick: (event) => this.chosen(cell.layer, cell.head, event.ctrlKey || event.metaKey || event.shiftKey),
    }, cell.canvas, make("span", {
      textContent: this.order === "layer" ? String(cell.head) : `${cell.layer}.${cell.head} ${cell.measures[this.order].toFixed(2)}`,
    }));
  }

  paint() {
    const colours = ramp();
    const size = this.rows * this.columns;
    const side = this.side();
    for (const { canvas, place } of this.cells) {
      const pen = paper(canvas, side, Math.max(8, Math.round((side * this.rows) / this.columns)));
      pen.imageSmoothingEnabled = this.columns > side;
      const bytes = this.bytes.subarray(place * size, (place + 1) * size);
      pen.drawImage(picture(bytes, this.rows, this.columns, colours), 0, 0, side, (side * this.rows) / this.columns);
    }
  }

  // How wide a picture can be so that the heads of a layer stand in one row.
  side() {
    const room = Math.floor((this.root.clientWidth - 32) / this.widest);
    return Math.max(SMALLEST, Math.min(LARGEST, room - AROUND));
  }

  // chosen heads: [[layer, head], ...]
  mark(chosen) {
    this.marked = chosen;
    const is = new Set(chosen.map(([layer, head]) => `${layer}.${head}`));
    let tabbed = false;
    for (const { layer, head, button } of this.cells) {
      const marked = is.has(`${layer}.${head}`);
      button.setAttribute("aria-pressed", String(marked));
      button.tabIndex = marked && !tabbed ? 0 : -1;
      tabbed ||= marked;
    }
    if (!tabbed && this.cells[0]) this.cells[0].button.tabIndex = 0;
  }

  key(event) {
    const at = this.cells.findIndex(({ button }) => button === document.activeElement);
    if (at < 0) return;
    const wide = this.order === "layer" ? this.cells.filter(({ layer }) => layer === this.cells[at].layer).length : 12;
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: wide, ArrowUp: -wide }[event.key];
    const next = step && this.cells[at + step];
    if (!next) return;
    event.preventDefault();
    next.button.focus();
  }
}
