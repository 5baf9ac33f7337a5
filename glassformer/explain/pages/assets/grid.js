// The grid of all heads, a small picture of each; sorted by layer or by what the heads do.

import { button, make } from "./build.js";
import { headName, onTheme, paper, picture, ramp } from "./paint.js";
import { say } from "./words.js";

const [SMALLEST, LARGEST] = [16, 64]; // pixels of a picture
const [AROUND, CLOSE, NARROW] = [12, 6, 500]; // pixels around it; on a narrow screen; what is narrow

export class Grid {
  // chosen(layer, head, several) is called when a head is chosen; several: it joins those chosen already
  constructor(root, chosen) {
    this.root = root;
    this.root.classList.add("scrolled");
    this.chosen = chosen;
    this.order = "layer";
    this.lowest = false; // whether the lowest come first
    this.cells = [];
    this.root.addEventListener("keydown", (event) => this.key(event));
    onTheme(root, () => this.paint());
    new ResizeObserver(() => this.paint()).observe(root);
  }

  // heads: [{layer, head, measures}]; bytes: their pictures one behind the other, rows x columns each
  show({ heads, bytes, rows, columns }) {
    Object.assign(this, { heads, bytes, rows, columns });
    this.arrange();
  }

  arrange() {
    const cells = this.heads.map((head, place) => ({ ...head, place }));
    const sign = this.lowest ? -1 : 1;
    if (this.order !== "layer") cells.sort((a, b) => sign * (b.measures[this.order] - a.measures[this.order]));
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
    const label = say("oneOf", cell.layer, cell.head);
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
      const high = Math.max(8, Math.min(2 * side, Math.round((side * this.rows) / this.columns)));
      const pen = paper(canvas, side, high);
      pen.imageSmoothingEnabled = this.columns > side;
      const bytes = this.bytes.subarray(place * size, (place + 1) * size);
      pen.drawImage(picture(bytes, this.rows, this.columns, colours), 0, 0, side, high);
    }
  }

  // How wide a picture can be so that the heads of a layer stand in one row.
  side() {
    const close = this.root.clientWidth < NARROW;
    this.root.classList.toggle("close", close);
    const room = Math.floor((this.root.clientWidth - 32) / this.widest);
    return Math.max(SMALLEST, Math.min(LARGEST, room - (close ? CLOSE : AROUND)));
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
    const height = this.cells[at].button.offsetTop;
    const wide = this.cells.filter(({ button }) => button.offsetTop === height).length; // as many as stand in one row
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: wide, ArrowUp: -wide }[event.key];
    const next = step && this.cells[at + step];
    if (!next) return;
    event.preventDefault();
    next.button.focus();
  }
}

// The heads of a layer that are chosen after a click on one of them: it joins the others, leaves them, or stands alone.
export function chosenWith(heads, head, joins) {
  if (!joins) return [head];
  if (!heads.includes(head)) return [...heads, head];
  return heads.length > 1 ? heads.filter((each) => each !== head) : heads;
}

// A button for each head of a layer, in the colour of its lines.
export function headChips(heads, chosen, pressed) {
  return make("div", { className: "headlist", role: "group", "aria-label": say("heads") }, ...heads.map((head) => {
    const chip = button(String(head), () => pressed(head), {
      className: "chip", "aria-pressed": String(chosen.includes(head)), "aria-label": say("head", head),
    });
    chip.style.setProperty("--own", `var(--${headName(head)})`);
    return chip;
  }));
}
