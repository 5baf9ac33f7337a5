// The part of a canvas context that the views use, writing SVG: a view is drawn by the same code on the page and in a file.

import { escapeMarkup } from "./dom.js";
import { cssColour } from "./canvas.js";

const rounded = (...numbers) => numbers.map((value) => Number(value.toFixed(2))).join(" ");

export class SvgPath {
  constructor() {
    this.d = "";
  }

  moveTo(x, y) {
    this.d += `M${rounded(x, y)}`;
  }

  lineTo(x, y) {
    this.d += `L${rounded(x, y)}`;
  }
}

export class SvgContext {
  constructor(width, height) {
    this.parts = [];
    this.size = [width, height];
    this.transforms = [];
    this.ruler = document.createElement("canvas").getContext("2d");
    Object.assign(this, { fillStyle: "#000", strokeStyle: "#000", lineWidth: 1, globalAlpha: 1, font: "12px sans-serif", textAlign: "left" });
  }

  measureText(text) {
    this.ruler.font = this.font;
    return this.ruler.measureText(text);
  }

  save() {}

  restore() {
    this.transforms = [];
  }

  translate(x, y) {
    this.transforms.push(`translate(${rounded(x, y)})`);
  }

  rotate(angle) {
    this.transforms.push(`rotate(${rounded((angle * 180) / Math.PI)})`);
  }

  fillRect(x, y, width, height) {
    this.box(x, y, width, height, `fill="${this.fillStyle}" fill-opacity="${rounded(this.globalAlpha)}"`);
  }

  strokeRect(x, y, width, height) {
    this.box(x, y, width, height, `fill="none" stroke="${this.strokeStyle}" stroke-width="${this.lineWidth}"`);
  }

  box(x, y, width, height, style) {
    this.parts.push(`<rect x="${rounded(x)}" y="${rounded(y)}" width="${rounded(width)}" height="${rounded(height)}" ${style}/>`);
  }

  stroke({ d }) {
    this.parts.push(`<path d="${d}" fill="none" stroke="${this.strokeStyle}" stroke-opacity="${rounded(this.globalAlpha)}" ` +
      `stroke-width="${rounded(this.lineWidth)}"/>`);
  }

  drawImage(canvas, x, y, width, height) {
    this.parts.push(`<image x="${rounded(x)}" y="${rounded(y)}" width="${rounded(width)}" height="${rounded(height)}" ` +
      `preserveAspectRatio="none" image-rendering="pixelated" href="${canvas.toDataURL()}"/>`);
  }

  // The views draw text with its middle at y.
  fillText(text, x, y) {
    const anchor = { left: "start", center: "middle", right: "end" }[this.textAlign];
    const transforms = this.transforms.length ? ` transform="${this.transforms.join(" ")}"` : "";
    this.parts.push(`<text x="${rounded(x)}" y="${rounded(y)}" dy="0.35em" text-anchor="${anchor}" fill="${this.fillStyle}" ` +
      `font-size="${parseFloat(this.font)}"${transforms}>${escapeMarkup(text)}</text>`);
  }

  svg() {
    const [width, height] = this.size;
    return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${rounded(width, height)}" font-family="sans-serif">` +
      `<rect width="100%" height="100%" fill="${cssColour("paper")}"/>${this.parts.join("")}</svg>`;
  }
}
