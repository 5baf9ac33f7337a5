// A picture under its weights of attention: bright, or in colour, where they are large.

import { onThemeChange, prepareCanvas } from "./canvas.js";
import { element, formatExact } from "./dom.js";
import { translate } from "./translations.js";

const WIDEST = 560; // pixels
const PICTURE_GAMMA = 0.6; // makes small weights visible
const DARKEST = 0.88; // how much of the picture a weight of 0 hides
const STRONGEST = 0.85; // how much of the picture the colour of the largest weight hides
const COLOUR = [0, 214, 255];
const DARK_PICTURE = 64; // the mean of its pixels below which light would not be seen

// The pixels of a picture, three bytes each, as a canvas.
export function pictureCanvas(bytes, width, height) {
  const canvas = element("canvas", { width, height });
  const image = new ImageData(width, height);
  for (let i = 0; i < width * height; i++) {
    image.data.set(bytes.subarray(3 * i, 3 * i + 3), 4 * i);
    image.data[4 * i + 3] = 255;
  }
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}

export function isDark(bytes) {
  return bytes.reduce((sum, value) => sum + value, 0) / bytes.length < DARK_PICTURE;
}

// The weights of patches as a veil that is transparent where they are largest, or as a colour that is strongest there.
export function veil(weights, rows, columns, coloured) {
  const canvas = element("canvas", { width: columns, height: rows });
  const image = new ImageData(columns, rows);
  const largest = Math.max(...weights) || 1;
  weights.forEach((weight, i) => {
    const strength = (Math.max(0, weight) / largest) ** (coloured ? 1 : PICTURE_GAMMA);
    if (coloured) image.data.set(COLOUR, 4 * i);
    image.data[4 * i + 3] = Math.round(255 * (coloured ? STRONGEST * strength : DARKEST * (1 - strength)));
  });
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}

export class PictureView {
  // onQuery(patch) is called when a patch is chosen; null is [CLS]
  constructor(root, onQuery) {
    this.onQuery = onQuery;
    this.canvas = element("canvas", { tabIndex: 0, role: "application" });
    this.plain = element("canvas", { "aria-hidden": "true" });
    this.status = element("p", { className: "status", role: "status", "aria-live": "polite" });
    this.legend = element("p", { className: "hint" });
    this.area = element("div", { className: "pictures" }, this.canvas, this.plain);
    root.append(this.status, this.area, this.legend, element("p", { className: "hint", textContent: translate("pictureHelp") }));
    this.root = root;
    this.cursor = null;
    this.smooth = true;
    this.coloured = false;
    for (const canvas of [this.canvas, this.plain]) {
      canvas.addEventListener("mousemove", (event) => this.point(this.patchAt(event)));
      canvas.addEventListener("mouseleave", () => this.point(null));
      canvas.addEventListener("click", (event) => this.onQuery(this.patchAt(event)));
    }
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(root);
    onThemeChange(this.area, () => this.draw());
  }

  // weights: one for each patch; own: that of [CLS]; query: the patch that looks, null for [CLS]
  show({ picture, weights, own, rows, columns, query, name }) {
    Object.assign(this, { picture, weights, own, rows, columns, query, name });
    this.canvas.setAttribute("aria-label", translate("pictureOf", name));
    this.legend.textContent = translate("strongest", formatExact(Math.max(...weights)));
    this.draw();
    this.report();
  }

  draw() {
    if (!this.picture) return;
    const both = this.root.clientWidth > 1.4 * WIDEST;
    const width = Math.min(WIDEST, Math.floor(both ? this.root.clientWidth / 2 - 8 : this.root.clientWidth));
    const height = Math.round((width * this.picture.height) / this.picture.width);
    Object.assign(this, { width, height });
    const ctx = prepareCanvas(this.canvas, width, height);
    ctx.imageSmoothingEnabled = this.picture.width > 2 * this.columns; // of digits, each pixel is seen
    ctx.drawImage(this.picture, 0, 0, width, height);
    ctx.imageSmoothingEnabled = this.smooth;
    ctx.imageSmoothingQuality = "high";
    ctx.drawImage(veil(this.weights, this.rows, this.columns, this.coloured), 0, 0, width, height);
    this.marks(ctx);
    const beside = prepareCanvas(this.plain, width, height);
    beside.imageSmoothingEnabled = this.picture.width > 2 * this.columns;
    beside.drawImage(this.picture, 0, 0, width, height);
    this.lines(beside);
    this.marks(beside);
  }

  lines(ctx) {
    ctx.strokeStyle = "rgba(255, 255, 255, .35)";
    ctx.lineWidth = 1;
    ctx.beginPath();
    for (let row = 1; row < this.rows; row++) ctx.rect(0, (row * this.height) / this.rows, this.width, 0);
    for (let column = 1; column < this.columns; column++) ctx.rect((column * this.width) / this.columns, 0, 0, this.height);
    ctx.stroke();
  }

  // A frame around the patch that looks, and a thinner one around the patch that is pointed at.
  marks(ctx) {
    for (const [patch, colour, line] of [[this.cursor, "#ffffff", 1.5], [this.query, "#000000", 5], [this.query, "#ffd43b", 2.5]]) {
      if (patch === null) continue;
      const [width, height] = [this.width / this.columns, this.height / this.rows];
      ctx.strokeStyle = colour;
      ctx.lineWidth = line;
      ctx.strokeRect((patch % this.columns) * width, Math.floor(patch / this.columns) * height, width, height);
    }
  }

  patchAt(event) {
    const box = event.currentTarget.getBoundingClientRect();
    const column = Math.floor(((event.clientX - box.left) / box.width) * this.columns);
    const row = Math.floor(((event.clientY - box.top) / box.height) * this.rows);
    const inside = row >= 0 && row < this.rows && column >= 0 && column < this.columns;
    return inside ? row * this.columns + column : null;
  }

  point(patch) {
    if (patch === this.cursor) return;
    this.cursor = patch;
    this.draw();
    this.report();
  }

  report() {
    const patches = this.weights.reduce((sum, weight) => sum + weight, 0);
    this.status.textContent = this.cursor === null
      ? translate("pictureSum", this.name, formatExact(patches), formatExact(this.own))
      : translate("patchWeight", this.name, Math.floor(this.cursor / this.columns), this.cursor % this.columns, formatExact(this.weights[this.cursor]));
  }

  key(event) {
    const { columns } = this;
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns }[event.key];
    if (event.key === "Enter") this.onQuery(this.cursor);
    else if (event.key === "Escape") this.onQuery(null);
    else if (!step) return;
    event.preventDefault();
    if (!step) return;
    const next = (this.cursor ?? -step) + step;
    if (next >= 0 && next < this.rows * columns) this.point(this.cursor === null ? 0 : next);
  }
}
