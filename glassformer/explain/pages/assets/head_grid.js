// The grid of all heads, a thumbnail of each; sorted by layer or by a measure of the heads.

import { button, element } from "./dom.js";
import { bitmap, colourScale, headColourName, onThemeChange, prepareCanvas } from "./canvas.js";
import { translate } from "./translations.js";

const [MIN_SIDE, MAX_SIDE] = [16, 64]; // pixels of a thumbnail
const [MARGIN, COMPACT_MARGIN, COMPACT_BELOW] = [12, 6, 500]; // pixels around it, and the width below which it is compact

export class HeadGrid {
  // onSelect(layer, head, several) is called when a head is selected; several: it is added to the selection
  constructor(root, onSelect) {
    this.root = root;
    this.root.classList.add("scrollable");
    this.onSelect = onSelect;
    this.order = "layer";
    this.lowest = false; // whether to sort in ascending order
    this.cells = [];
    this.root.addEventListener("keydown", (event) => this.key(event));
    onThemeChange(root, () => this.paint());
    new ResizeObserver(() => this.paint()).observe(root);
  }

  // heads: [{layer, head, measures}]; bytes: their thumbnails, concatenated, rows x columns each
  show({ heads, bytes, rows, columns }) {
    Object.assign(this, { heads, bytes, rows, columns });
    this.layOut();
  }

  layOut() {
    const cells = this.heads.map((head, index) => ({ ...head, index }));
    const sign = this.lowest ? -1 : 1;
    if (this.order !== "layer") cells.sort((a, b) => sign * (b.measures[this.order] - a.measures[this.order]));
    const layers = this.order === "layer" ? [...new Set(cells.map((cell) => cell.layer))] : [null];
    this.cells = [];
    this.widest = Math.max(...layers.map((layer) => cells.filter((cell) => cell.layer === layer).length));
    this.root.replaceChildren(...layers.map((layer) => {
      const row = cells.filter((cell) => layer === null || cell.layer === layer);
      const line = element("div", { className: layer === null ? "heads sorted" : "heads" },
        layer === null ? null : element("span", { className: "number", textContent: String(layer) }));
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
    const values = Object.entries(cell.measures ?? {}).map(([name, value]) => `${translate(name)} ${value.toFixed(3)}`);
    const label = translate("oneOf", cell.layer, cell.head);
    cell.canvas = element("canvas", { "aria-hidden": "true" });
    return element("button", {
      type: "button", className: "cell", tabIndex: -1, title: [label, ...values].join("\n"),
      "aria-label": [label, ...values].join(", "),
      onclick: (event) => this.onSelect(cell.layer, cell.head, event.ctrlKey || event.metaKey || event.shiftKey),
    }, cell.canvas, element("span", {
      textContent: this.order === "layer" ? String(cell.head) : `${cell.layer}.${cell.head} ${cell.measures[this.order].toFixed(2)}`,
    }));
  }

  paint() {
    const colours = colourScale();
    const size = this.rows * this.columns;
    const side = this.side();
    for (const { canvas, index } of this.cells) {
      const height = Math.max(8, Math.min(2 * side, Math.round((side * this.rows) / this.columns)));
      const ctx = prepareCanvas(canvas, side, height);
      ctx.imageSmoothingEnabled = this.columns > side;
      const bytes = this.bytes.subarray(index * size, (index + 1) * size);
      ctx.drawImage(bitmap(bytes, this.rows, this.columns, colours), 0, 0, side, height);
    }
  }

  // The width of a thumbnail that lets the heads of a layer fit in one row.
  side() {
    const compact = this.root.clientWidth < COMPACT_BELOW;
    this.root.classList.toggle("compact", compact);
    const available = Math.floor((this.root.clientWidth - 32) / this.widest);
    return Math.max(MIN_SIDE, Math.min(MAX_SIDE, available - (compact ? COMPACT_MARGIN : MARGIN)));
  }

  // selected: [[layer, head], ...]
  mark(selected) {
    this.marked = selected;
    const keys = new Set(selected.map(([layer, head]) => `${layer}.${head}`));
    let tabbed = false;
    for (const { layer, head, button } of this.cells) {
      const marked = keys.has(`${layer}.${head}`);
      button.setAttribute("aria-pressed", String(marked));
      button.tabIndex = marked && !tabbed ? 0 : -1;
      tabbed ||= marked;
    }
    if (!tabbed && this.cells[0]) this.cells[0].button.tabIndex = 0;
  }

  key(event) {
    const current = this.cells.findIndex(({ button }) => button === document.activeElement);
    if (current < 0) return;
    const top = this.cells[current].button.offsetTop;
    const rowLength = this.cells.filter(({ button }) => button.offsetTop === top).length;
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: rowLength, ArrowUp: -rowLength }[event.key];
    const next = step && this.cells[current + step];
    if (!next) return;
    event.preventDefault();
    next.button.focus();
  }
}

// The selected heads of a layer after a click on one of them: it is added, removed, or selected alone.
export function toggleHead(heads, head, several) {
  if (!several) return [head];
  if (!heads.includes(head)) return [...heads, head];
  return heads.length > 1 ? heads.filter((each) => each !== head) : heads;
}

// A button for each head of a layer, in the colour of its lines.
export function headButtons(heads, selected, onClick) {
  return element("div", { className: "headlist", role: "group", "aria-label": translate("heads") }, ...heads.map((head) => {
    const chip = button(String(head), () => onClick(head), {
      className: "chip", "aria-pressed": String(selected.includes(head)), "aria-label": translate("head", head),
    });
    chip.style.setProperty("--head-colour", `var(--${headColourName(head)})`);
    return chip;
  }));
}
